// SPDX-License-Identifier: Apache-2.0
// Rungs about how a step is planned and computed.
#include "ladder/rungs_inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cores.h"

static bool layout(const rungi_train_config *c, rung_layout wanted, const char *name, char *setting,
                   size_t size, char *why, size_t why_size)
{
    if (strcmp(c->model.name, "mlp") == 0)
        return rungi_rung_cannot(why, why_size, "the model has no images inside");
    if (c->plan.winograd && wanted != RUNG_LAYOUT_CHANNELS_LAST)
        return rungi_rung_cannot(why, why_size, "plan.winograd is on and needs channels_last");
    snprintf(setting, size, "plan.layout=%s", name);
    return true;
}

bool rungi_rung_channels_last(const rungi_train_config *c, char *setting, size_t size, char *why,
                              size_t why_size)
{
    return layout(c, RUNG_LAYOUT_CHANNELS_LAST, "channels_last", setting, size, why, why_size);
}

bool rungi_rung_blocked(const rungi_train_config *c, char *setting, size_t size, char *why,
                        size_t why_size)
{
    return layout(c, RUNG_LAYOUT_BLOCKED, "blocked", setting, size, why, why_size);
}

bool rungi_rung_winograd(const rungi_train_config *c, char *setting, size_t size, char *why,
                         size_t why_size)
{
    if (strcmp(c->model.name, "mlp") == 0 || strcmp(c->model.name, "lenet5") == 0)
        return rungi_rung_cannot(why, why_size, "the model has no 3x3 convolutions");
    if (c->plan.kernels == RUNG_KERNELS_REFERENCE)
        return rungi_rung_cannot(why, why_size, "the base has reference kernels");
    // What it needs it brings along: neither pays much without it.
    snprintf(setting, size, "%s%splan.winograd=true",
             c->plan.kernels == RUNG_KERNELS_OWN ? "" : "plan.kernels=own ",
             c->plan.layout == RUNG_LAYOUT_CHANNELS_LAST ? "" : "plan.layout=channels_last ");
    return true;
}

bool rungi_rung_fuse_optimizer(const rungi_train_config *c, char *setting, size_t size, char *why,
                               size_t why_size)
{
    if (c->exact)
        return rungi_rung_cannot(why, why_size, "exact adds the gradients of its shards first");
    if (rungi_train_devices(c) > 1)
        return rungi_rung_cannot(why, why_size, "the gradients of several devices are added first");
    if (c->train.max_grad_norm > 0)
        return rungi_rung_cannot(why, why_size, "train.max_grad_norm needs all gradients first");
    if (c->plan.kernels != RUNG_KERNELS_OWN)
        return rungi_rung_cannot(why, why_size, "needs own kernels, which were not kept");
    if (c->data.batch_size > 8)
        return rungi_rung_cannot(why, why_size, "kernels that can do it take up to 8 samples");
    if (c->gradients.accumulate > 1)
        return rungi_rung_cannot(why, why_size,
                                 "train.accumulate adds gradients before weights are updated");
    snprintf(setting, size, "plan.fuse_optimizer=true");
    return true;
}

bool rungi_rung_autotune(const rungi_train_config *c, char *setting, size_t size, char *why,
                         size_t why_size)
{
    if (c->exact)
        return rungi_rung_cannot(why, why_size, "under exact the choices of kernels are fixed");
    snprintf(setting, size, "plan.autotune=true");
    return true;
}

bool rungi_rung_huge_pages(const rungi_train_config *c, char *setting, size_t size, char *why,
                           size_t why_size)
{
    (void)c;
    char mode[64] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    if (!file || !fgets(mode, sizeof mode, file) || strstr(mode, "[never]")) {
        if (file)
            fclose(file);
        return rungi_rung_cannot(why, why_size, "the system gives no huge pages");
    }
    fclose(file);
    snprintf(setting, size, "memory.huge_pages=true");
    return true;
}

bool rungi_rung_recompute(const rungi_train_config *c, char *setting, size_t size, char *why,
                          size_t why_size)
{
    const rungi_texts *list = &c->memory.recompute;
    if (list->count && strcmp(list->data[0], "none") != 0)
        return rungi_rung_cannot(why, why_size, "the base has it already");
    snprintf(setting, size, "memory.recompute=auto");
    return true;
}

static bool precision(const rungi_train_config *c, rung_dtype dtype, const char *name,
                      char *setting, size_t size, char *why, size_t why_size)
{
    if (c->precision.dtype != RUNG_F32 && c->precision.dtype != dtype)
        return rungi_rung_cannot(why, why_size, "other 16 bits are there already");
    snprintf(setting, size, "train.precision=%s", name);
    return true;
}

bool rungi_rung_bf16(const rungi_train_config *c, char *setting, size_t size, char *why,
                     size_t why_size)
{
    return precision(c, RUNG_BF16, "bf16", setting, size, why, why_size);
}

bool rungi_rung_winograd_f4(const rungi_train_config *c, char *setting, size_t size, char *why,
                            size_t why_size)
{
    if (!rungi_config_winograd_bf16(c, NULL, why, why_size))
        return false;
    snprintf(setting, size, "plan.winograd_bf16=f4");
    return true;
}

bool rungi_rung_fp16(const rungi_train_config *c, char *setting, size_t size, char *why,
                     size_t why_size)
{
    return precision(c, RUNG_F16, "fp16", setting, size, why, why_size);
}

// Halves of the batch, one after the other: the same step. Under exact its shards are halved too.
bool rungi_rung_accumulate(const rungi_train_config *c, char *setting, size_t size, char *why,
                           size_t why_size)
{
    bool part = c->data.batch_per_device > 0;
    int64_t batch = part ? c->data.batch_per_device : c->data.batch_size;
    bool stages = c->train.strategy == RUNGI_STRATEGY_PIPELINE; // each has all samples
    int64_t parts = part || stages ? 1 : c->train.ranks * rungi_train_devices(c);
    int64_t rounds = c->gradients.accumulate;
    if (batch % (2 * parts) != 0)
        return rungi_rung_cannot(why, why_size, "the batch of a rank or device cannot be halved");
    if (c->plan.fuse_optimizer)
        return rungi_rung_cannot(why, why_size,
                                 "plan.fuse_optimizer, which was kept, updates during backward");
    if (c->exact && c->train.shards / 2 < c->train.ranks * rungi_train_devices(c))
        return rungi_rung_cannot(why, why_size, "train.shards cannot be halved");
    int used = snprintf(setting, size, "%s=%" PRId64 " train.accumulate=%" PRId64,
                        part ? "data.batch_per_device" : "data.batch_size", batch / 2, rounds * 2);
    if (c->exact && used > 0 && (size_t)used < size)
        snprintf(setting + used, size - (size_t)used, " train.shards=%" PRId64,
                 c->train.shards / 2);
    return true;
}

rungi_effect rungi_rung_accumulate_effect(const rungi_train_config *c)
{
    return c->exact ? RUNGI_EXACT : rungi_rung_normalizes(c) ? RUNGI_SEMANTIC : RUNGI_NUMERIC;
}

// Twice the samples at once, and so a step of twice as many. The learning rate stays.
bool rungi_rung_large_batch(const rungi_train_config *c, char *setting, size_t size, char *why,
                            size_t why_size)
{
    bool part = c->data.batch_per_device > 0;
    int64_t batch = part ? c->data.batch_per_device : c->data.batch_size;
    (void)why;
    (void)why_size;
    snprintf(setting, size, "%s=%" PRId64, part ? "data.batch_per_device" : "data.batch_size",
             2 * batch);
    return true;
}

// A core for the loader and the system.
bool rungi_rung_threads(const rungi_train_config *c, char *setting, size_t size, char *why,
                        size_t why_size)
{
    int cores = rungi_core_count();
    int64_t now = c->device.threads ? c->device.threads : cores;
    if (now < cores)
        snprintf(setting, size, "device.threads=%d", cores);
    else if (cores > 1)
        snprintf(setting, size, "device.threads=%d", cores - 1);
    else
        return rungi_rung_cannot(why, why_size, "there is one core");
    return true;
}
