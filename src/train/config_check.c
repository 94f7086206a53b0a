// SPDX-License-Identifier: Apache-2.0
// What concerns several keys at once.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "comm/comm_mpi.h"
#include "train/train_config.h"

// The library's default; another value is the user's wish.
#define DEFAULT_TIMEOUT 300000000000

// Sizes have one number or two; what is cut at random needs ranges that rise.
static rung_status check_pictures(const rungi_options *o, const rungi_data_config *d)
{
    const struct {
        const char *key;
        const rungi_ints *size;
    } sizes[] = {{"data.resize", &d->resize},
                 {"data.center_crop", &d->center_crop},
                 {"data.random_resized_crop.size", &d->random_resized_size},
                 {"data.random_crop.size", &d->random_crop_size}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].size->count > 2)
            return rungi_options_fail(o, sizes[i].key, "has %zu numbers: give [S] or [H, W]",
                                      sizes[i].size->count);
    const struct {
        const char *key;
        const rungi_reals *range;
    } ranges[] = {{"data.random_resized_crop.scale", &d->random_resized_scale},
                  {"data.random_resized_crop.ratio", &d->random_resized_ratio}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (ranges[i].range->count != 2 || ranges[i].range->data[0] > ranges[i].range->data[1])
            return rungi_options_fail(o, ranges[i].key, "must be two numbers that do not descend");
    if (d->channels == 2)
        return rungi_options_fail(o, "data.channels", "is 2: pictures become 1 or 3");
    if (d->random_resized_size.count && (d->random_crop_size.count || d->random_crop_padding))
        return rungi_options_fail(o, "data.random_resized_crop.size",
                                  "cannot be combined with data.random_crop: set one of them");
    return RUNG_OK;
}

static rung_status check_data(const rungi_options *o, const rungi_train_config *v,
                              rung_context *context)
{
    const rungi_data_config *d = &v->data;
    if (d->source != RUNGI_DATA_SYNTHETIC && !*d->path)
        return rungi_options_fail(o, "data.path",
                                  "is not set: give the data set's folder, or set "
                                  "data.source to synthetic");
    if (*d->val_path && d->val_split > 0)
        return rungi_options_fail(o, "data.val.split",
                                  "cannot be combined with data.val.path: set one of them");
    if (d->mean.count != d->std.count)
        return rungi_options_fail(o, "data.normalize.std",
                                  "has %zu numbers, but data.normalize.mean has %zu: give one of "
                                  "each per channel",
                                  d->std.count, d->mean.count);
    RUNG_TRY(check_pictures(o, d));
    if (d->pad.count != 0 && d->pad.count != 2)
        return rungi_options_fail(o, "data.pad", "needs height and width: [H, W]");
    if (d->augment_on == RUNGI_AUGMENT_DEVICE && (d->mixup > 0 || d->cutmix > 0))
        return rungi_options_fail(o, "data.augment_on",
                                  "is device, which cannot be combined with data.mixup or "
                                  "data.cutmix: set it to worker");
    if (d->sampler != RUNGI_SAMPLER_AUTO && d->shuffle_by == RUNGI_SHUFFLE_GROUP)
        return rungi_options_fail(o, "data.shuffle_by",
                                  "group is an order of its own: leave data.sampler at auto");
    if (d->stream && strcmp(d->format, "tar") != 0)
        return rungi_options_fail(o, "data.stream", "is for data.format tar, not %s", d->format);
    if (d->sampler != RUNGI_SAMPLER_WEIGHTED && (d->draws || !d->replacement))
        rungi_options_note(o, context, d->draws ? "data.draws" : "data.replacement",
                           "ignored, because data.sampler is not weighted");
    if (v->device.copy == RUNGI_COPY_DIRECT && (d->pin_memory || d->non_blocking))
        rungi_options_note(o, context, d->pin_memory ? "data.pin_memory" : "data.non_blocking",
                           "ignored: a CPU device reads batches where they lie");
    else if (d->non_blocking && !d->pin_memory)
        rungi_options_note(o, context, "data.non_blocking",
                           "ignored, because data.pin_memory is false: only copies from pinned "
                           "memory go on by themselves");
    if (d->num_workers == 0 && d->timeout > 0 && d->timeout != DEFAULT_TIMEOUT)
        rungi_options_note(o, context, "data.timeout",
                           "ignored, because data.num_workers is 0: nothing is waited for");
    return RUNG_OK;
}

static rung_status check_optim(const rungi_options *o, const rungi_train_config *v,
                               rung_context *context)
{
    const rungi_optim_config *p = &v->optim;
    bool sgd = p->name == RUNG_OPTIMIZER_SGD;
    const char *name = rung_optimizer_name(p->name);
    if (sgd && p->nesterov && !(p->momentum > 0 && p->dampening == 0))
        return rungi_options_fail(
            o, "optim.nesterov",
            "needs optim.momentum above 0 and optim.dampening 0 (they are %g and %g)", p->momentum,
            p->dampening);
    if (!sgd && p->nesterov)
        return rungi_options_fail(o, "optim.nesterov", "%s has no Nesterov momentum: use sgd",
                                  name);
    if (!sgd && p->momentum != 0)
        rungi_options_note(o, context, "optim.momentum", "ignored by %s", name);
    if (!sgd && p->dampening != 0)
        rungi_options_note(o, context, "optim.dampening", "ignored by %s", name);
    return RUNG_OK;
}

static rung_status check_schedule(const rungi_options *o, const rungi_train_config *v)
{
    const rungi_schedule_config *s = &v->schedule;
    if (s->name == RUNG_SCHEDULE_STEP && s->step_size == 0)
        return rungi_options_fail(o, "schedule.step_size", "is not set: schedule step needs it");
    if (s->name == RUNG_SCHEDULE_EXPONENTIAL && s->gamma == 0)
        return rungi_options_fail(o, "schedule.gamma", "is not set: schedule exponential needs it");
    if (s->name == RUNG_SCHEDULE_MULTISTEP && s->milestones.count == 0)
        return rungi_options_fail(o, "schedule.milestones",
                                  "is not set: schedule multistep needs it");
    if (s->milestones.count > RUNG_SCHEDULE_MILESTONES)
        return rungi_options_fail(o, "schedule.milestones", "has %zu members; at most %d work",
                                  s->milestones.count, RUNG_SCHEDULE_MILESTONES);
    for (size_t i = 1; i < s->milestones.count; i++)
        if (s->milestones.data[i] < s->milestones.data[i - 1])
            return rungi_options_fail(o, "schedule.milestones",
                                      "must not descend, but %" PRId64 " follows %" PRId64,
                                      s->milestones.data[i], s->milestones.data[i - 1]);
    if (s->base_momentum > s->max_momentum)
        return rungi_options_fail(o, "schedule.base_momentum",
                                  "is above schedule.max_momentum (%g > %g)", s->base_momentum,
                                  s->max_momentum);
    if (s->name == RUNG_SCHEDULE_PLATEAU && v->train.eval_every == RUNGI_NEVER)
        return rungi_options_fail(o, "schedule.name",
                                  "plateau follows validation, but train.eval_every is never");
    return RUNG_OK;
}

static bool is_set(const rungi_options *o, const char *key)
{
    size_t index;
    return rungi_options_find(o, key, &index) == RUNG_OK &&
           o->entries[index].source.kind != RUNGI_SOURCE_DEFAULT;
}

// The same, but for what stands in a file that has all keys (of a run folder, or the ladder's).
static bool is_said(const rungi_options *o, const char *key)
{
    size_t index;
    rungi_string text = {0};
    if (!is_set(o, key) || rungi_options_find(o, key, &index) != RUNG_OK)
        return false;
    rungi_options_text(o, index, &text);
    bool initial = o->entries[index].source.kind == RUNGI_SOURCE_FILE &&
                   strcmp(rungi_string_text(&text), rungi_options_at(o, index)->initial) == 0;
    rungi_string_fini(&text);
    return !initial;
}

rung_status rungi_train_config_check_ranks(const rungi_options *o, const rungi_train_config *v,
                                           int64_t ranks, int64_t local)
{
    size_t devices = v->device.list.count;
    RUNG_TRY(rungi_train_config_check_pipeline(o, v, ranks));
    if (v->train.strategy == RUNGI_STRATEGY_SINGLE && ranks > 1)
        return rungi_options_fail(o, "train.strategy",
                                  "is single, but there are %" PRId64 " ranks: set it to ddp",
                                  ranks);
    if (v->train.strategy == RUNGI_STRATEGY_DATA_PARALLEL)
        return RUNG_OK; // which is checked apart
    if (devices != 1 && devices != (size_t)local && v->train.strategy != RUNGI_STRATEGY_SINGLE)
        return rungi_options_fail(
            o, "device.list", "names %zu devices for %" PRId64 " rank%s%s: one for each%s", devices,
            local, local == 1 ? "" : "s", local < ranks ? " of this machine" : "",
            ranks == 1 ? ", or set train.strategy to data_parallel" : "");
    bool whole = is_set(o, "data.batch_size"), part = is_set(o, "data.batch_per_device");
    if (v->data.batch_per_device && is_said(o, "data.batch_size"))
        return rungi_options_fail(o, "data.batch_per_device",
                                  "cannot be combined with data.batch_size, which is for all ranks "
                                  "together: set one of them");
    if (ranks == 1)
        return RUNG_OK;
    if (!whole && !part)
        return rungi_options_fail(o, "data.batch_size",
                                  "is not set: with several ranks say data.batch_size, for all of "
                                  "them together, or data.batch_per_device");
    if (v->plan.fuse_optimizer)
        return rungi_options_fail(o, "plan.fuse_optimizer",
                                  "cannot be combined with several ranks, which add their "
                                  "gradients first: switch it off");
    if (v->data.num_workers < 0 && v->train.strategy != RUNGI_STRATEGY_AUTO &&
        v->train.strategy != RUNGI_STRATEGY_DDP)
        return rungi_options_fail(o, "data.num_workers",
                                  "auto is measured with one rank, or with strategy ddp: give a "
                                  "number");
    if (v->exact && (v->data.mixup > 0 || v->data.cutmix > 0))
        return rungi_options_fail(o, v->data.mixup > 0 ? "data.mixup" : "data.cutmix",
                                  "cannot be combined with exact and several ranks: samples are "
                                  "mixed within a rank's part of a batch");
    if (v->exact && ((ranks & (ranks - 1)) != 0 || ranks > v->train.shards))
        return rungi_options_fail(o, "train.ranks",
                                  "must make 1, 2, 4, ... ranks under exact, and at most "
                                  "train.shards, which is %" PRId64 ", not %" PRId64,
                                  v->train.shards, ranks);
    return RUNG_OK;
}

static rung_status check_precision(const rungi_options *o, const rungi_train_config *v,
                                   rung_context *context)
{
    const rungi_precision_config *p = &v->precision;
    char why[96];
    if (p->dtype == RUNG_F32) {
        if (p->compute != RUNG_COMPUTE_AUTO)
            rungi_options_note(o, context, "train.compute",
                               "ignored, because train.precision is fp32");
        return RUNG_OK;
    }
    if (p->compute == RUNG_COMPUTE_NATIVE &&
        !rung_compute_native(context, p->dtype, why, sizeof why))
        return rungi_options_fail(o, "train.compute", "native is not available: %s", why);
    if (p->dtype == RUNG_F16 && v->plan.fuse_optimizer)
        rungi_options_note(o, context, "plan.fuse_optimizer",
                           "ignored, because fp16 looks at all gradients before it updates");
    return RUNG_OK;
}

static rung_status check_memory(const rungi_options *o, const rungi_train_config *v)
{
    const rungi_texts *list = &v->memory.recompute;
    for (size_t i = 0; i < list->count; i++) {
        bool word = strcmp(list->data[i], "none") == 0 || strcmp(list->data[i], "auto") == 0;
        if (word && list->count > 1)
            return rungi_options_fail(o, "memory.recompute",
                                      "has '%s' among patterns: it stands alone", list->data[i]);
    }
    return RUNG_OK;
}

bool rungi_config_winograd_bf16(const rungi_train_config *v, const rung_context *context, char *why,
                                size_t size)
{
    const char *missing = !v->plan.winograd                 ? "plan.winograd is off"
                          : v->precision.dtype != RUNG_BF16 ? "train.precision is not bf16"
                          : v->precision.compute == RUNG_COMPUTE_STORAGE
                              ? "train.compute is storage"
                              : NULL;
    if (!missing)
        return rung_compute_native(context, RUNG_BF16, why, size);
    snprintf(why, size, "%s", missing);
    return false;
}

// Tiles for computing in bf16 where there is none of it.
static void note_winograd_bf16(const rungi_options *o, const rungi_train_config *v,
                               rung_context *context)
{
    char why[96];
    if (v->plan.winograd_bf16 != RUNG_WINOGRAD_F2 &&
        !rungi_config_winograd_bf16(v, context, why, sizeof why))
        rungi_options_note(o, context, "plan.winograd_bf16", "ignored: %s", why);
}

rung_status rungi_train_config_check(const rungi_options *options, const void *values,
                                     rung_context *context)
{
    const rungi_train_config *v = values;
    if (!*v->model.name)
        return rungi_options_fail(options, "model.name",
                                  "is not set: choose a network ('rung train --help' lists them)");
    RUNG_TRY(check_data(options, v, context));
    RUNG_TRY(check_optim(options, v, context));
    RUNG_TRY(check_schedule(options, v));
    RUNG_TRY(check_memory(options, v));
    RUNG_TRY(check_precision(options, v, context));
    if ((v->train.shards & (v->train.shards - 1)) != 0)
        return rungi_options_fail(options, "train.shards", "must be a power of two, not %" PRId64,
                                  v->train.shards);
    if (v->plan.winograd &&
        (v->plan.kernels != RUNG_KERNELS_OWN || v->plan.layout != RUNG_LAYOUT_CHANNELS_LAST))
        return rungi_options_fail(options, "plan.winograd",
                                  "needs plan.kernels own and plan.layout channels_last");
    note_winograd_bf16(options, v, context);
    if (*v->ladder.launcher && !strstr(v->ladder.launcher, "{ranks}"))
        return rungi_options_fail(options, "ladder.launcher",
                                  "is '%s': it needs {ranks} where their number belongs, as in "
                                  "'mpirun -n {ranks}'",
                                  v->ladder.launcher);
    if (v->exact && v->plan.autotune)
        return rungi_options_fail(options, "plan.autotune",
                                  "cannot be combined with exact, where the choice of kernels is "
                                  "fixed: switch one of them off");
    if (v->exact && v->plan.fuse_optimizer)
        return rungi_options_fail(options, "plan.fuse_optimizer",
                                  "cannot be combined with exact, which adds the gradients of its "
                                  "shards first: switch one of them off");
    if (v->plan.fuse_optimizer && v->gradients.accumulate > 1)
        rungi_options_note(options, context, "plan.fuse_optimizer",
                           "ignored, because train.accumulate adds gradients before weights are "
                           "updated");
    if (v->gradients.log_layers && v->train.strategy == RUNGI_STRATEGY_PARAMETER_SERVER &&
        v->ps.mode == RUNGI_PS_ASYNC)
        return rungi_options_fail(options, "train.log_layers",
                                  "looks at the update of a step, which ps.mode async has none of: "
                                  "each push of a worker is one, made by the servers");
    if (v->exact && (v->gradients.accumulate & (v->gradients.accumulate - 1)) != 0)
        return rungi_options_fail(options, "train.accumulate",
                                  "must be a power of two under exact, not %" PRId64,
                                  v->gradients.accumulate);
    if (v->plan.fuse_optimizer && v->train.max_grad_norm > 0)
        rungi_options_note(options, context, "plan.fuse_optimizer",
                           "ignored, because train.max_grad_norm needs all gradients first");
    RUNG_TRY(rungi_train_config_check_replicas(options, v, context));
    RUNG_TRY(rungi_train_config_check_ranks(options, v, v->train.ranks, v->train.ranks));
    rungi_train_config_note_pipeline(options, v, context);
    RUNG_TRY(rungi_train_config_check_ps(options, v, context));
    RUNG_TRY(rungi_train_config_check_ddp(options, v, context));
    if (v->train.ranks > 1 && !rungi_comm_mpi_launched()) // else these are not all
        RUNG_TRY(rungi_train_config_check_counts(options, v, v->train.ranks));
    if (v->exact && v->ddp.compress != RUNG_F32)
        return rungi_options_fail(options, "ddp.compress",
                                  "cannot be combined with exact, whose result does not depend on "
                                  "the number of ranks");
    if (v->train.early_stop_patience > 0 && v->train.eval_every == RUNGI_NEVER)
        return rungi_options_fail(options, "train.early_stopping.patience",
                                  "needs validation, but train.eval_every is never");
    return RUNG_OK;
}
