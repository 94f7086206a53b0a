// SPDX-License-Identifier: Apache-2.0
#include "ladder/rungs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cores.h"
#include "base/text.h"
#include "rung/ladder.h"

static bool say(char *why, size_t size, const char *reason)
{
    snprintf(why, size, "%s", reason);
    return false;
}

static bool layout(const rungi_train_config *c, rung_layout wanted, const char *name, char *setting,
                   size_t size, char *why, size_t why_size)
{
    if (c->plan.layout == wanted)
        return say(why, why_size, "the base has it already");
    if (strcmp(c->model.name, "mlp") == 0)
        return say(why, why_size, "the model has no images inside");
    if (c->plan.winograd && wanted != RUNG_LAYOUT_CHANNELS_LAST)
        return say(why, why_size, "plan.winograd is on and needs channels_last");
    snprintf(setting, size, "plan.layout=%s", name);
    return true;
}

static bool channels_last(const rungi_train_config *c, char *setting, size_t size, char *why,
                          size_t why_size)
{
    return layout(c, RUNG_LAYOUT_CHANNELS_LAST, "channels_last", setting, size, why, why_size);
}

static bool blocked(const rungi_train_config *c, char *setting, size_t size, char *why,
                    size_t why_size)
{
    return layout(c, RUNG_LAYOUT_BLOCKED, "blocked", setting, size, why, why_size);
}

static bool fuse(const rungi_train_config *c, char *setting, size_t size, char *why,
                 size_t why_size)
{
    if (c->plan.fuse)
        return say(why, why_size, "the base has it already");
    snprintf(setting, size, "plan.fuse=true");
    return true;
}

static bool own_kernels(const rungi_train_config *c, char *setting, size_t size, char *why,
                        size_t why_size)
{
    if (c->plan.kernels == RUNG_KERNELS_OWN)
        return say(why, why_size, "the base has it already");
    snprintf(setting, size, "plan.kernels=own");
    return true;
}

static bool winograd(const rungi_train_config *c, char *setting, size_t size, char *why,
                     size_t why_size)
{
    if (c->plan.winograd)
        return say(why, why_size, "the base has it already");
    if (strcmp(c->model.name, "mlp") == 0 || strcmp(c->model.name, "lenet5") == 0)
        return say(why, why_size, "the model has no 3x3 convolutions");
    if (c->plan.kernels == RUNG_KERNELS_REFERENCE)
        return say(why, why_size, "the base has reference kernels");
    // What it needs it brings along: neither pays much without it.
    snprintf(setting, size, "%s%splan.winograd=true",
             c->plan.kernels == RUNG_KERNELS_OWN ? "" : "plan.kernels=own ",
             c->plan.layout == RUNG_LAYOUT_CHANNELS_LAST ? "" : "plan.layout=channels_last ");
    return true;
}

static bool fuse_optimizer(const rungi_train_config *c, char *setting, size_t size, char *why,
                           size_t why_size)
{
    if (c->exact)
        return say(why, why_size, "exact adds the gradients of its shards first");
    if (rungi_train_devices(c) > 1)
        return say(why, why_size, "the gradients of several devices are added first");
    if (c->train.max_grad_norm > 0)
        return say(why, why_size, "train.max_grad_norm needs all gradients first");
    if (c->plan.kernels != RUNG_KERNELS_OWN)
        return say(why, why_size, "needs own kernels, which were not kept");
    if (c->data.batch_size > 8)
        return say(why, why_size, "kernels that can do it take up to 8 samples");
    if (c->gradients.accumulate > 1)
        return say(why, why_size, "train.accumulate adds gradients before weights are updated");
    if (c->plan.fuse_optimizer)
        return say(why, why_size, "the base has it already");
    snprintf(setting, size, "plan.fuse_optimizer=true");
    return true;
}

static bool autotune(const rungi_train_config *c, char *setting, size_t size, char *why,
                     size_t why_size)
{
    if (c->exact)
        return say(why, why_size, "under exact the choices of kernels are fixed");
    if (c->plan.autotune)
        return say(why, why_size, "the base has it already");
    snprintf(setting, size, "plan.autotune=true");
    return true;
}

static bool workers(const rungi_train_config *c, char *setting, size_t size, char *why,
                    size_t why_size)
{
    if (c->data.source == RUNGI_DATA_PRELOADED)
        return say(why, why_size, "preloaded data need no workers");
    int64_t wanted = rungi_core_count() > 1 ? 2 : 1;
    if (c->data.num_workers >= wanted)
        return say(why, why_size, "the base has it already");
    snprintf(setting, size, "data.num_workers=%" PRId64, wanted);
    return true;
}

static bool prefetch(const rungi_train_config *c, char *setting, size_t size, char *why,
                     size_t why_size)
{
    if (c->data.num_workers <= 0)
        return say(why, why_size, "needs workers, which were not kept");
    snprintf(setting, size, "data.prefetch_factor=%" PRId64, c->data.prefetch_factor * 2);
    return true;
}

static bool worker_nice(const rungi_train_config *c, char *setting, size_t size, char *why,
                        size_t why_size)
{
    if (c->data.num_workers <= 0)
        return say(why, why_size, "needs workers, which were not kept");
    if (c->data.worker_nice > 0)
        return say(why, why_size, "the base has it already");
    snprintf(setting, size, "data.worker_nice=10");
    return true;
}

static const char *const no_copies = "CPU device reads the slot";

static bool pinned(const rungi_train_config *c, char *setting, size_t size, char *why,
                   size_t why_size)
{
    if (c->device.copy == RUNGI_COPY_DIRECT)
        return say(why, why_size, no_copies);
    if (c->data.pin_memory)
        return say(why, why_size, "the base has it already");
    snprintf(setting, size, "data.pin_memory=true");
    return true;
}

static bool non_blocking(const rungi_train_config *c, char *setting, size_t size, char *why,
                         size_t why_size)
{
    if (c->device.copy == RUNGI_COPY_DIRECT)
        return say(why, why_size, no_copies);
    if (c->data.non_blocking && c->data.pin_memory)
        return say(why, why_size, "the base has it already");
    // Only copies from pinned memory go on by themselves.
    snprintf(setting, size, "%sdata.non_blocking=true",
             c->data.pin_memory ? "" : "data.pin_memory=true ");
    return true;
}

static bool augment_device(const rungi_train_config *c, char *setting, size_t size, char *why,
                           size_t why_size)
{
    if (c->data.augment_on == RUNGI_AUGMENT_DEVICE)
        return say(why, why_size, "the base has it already");
    if (c->data.mixup > 0 || c->data.cutmix > 0)
        return say(why, why_size, "the workers mix batches (data.mixup, data.cutmix)");
    snprintf(setting, size, "data.augment_on=device");
    return true;
}

static bool huge_pages(const rungi_train_config *c, char *setting, size_t size, char *why,
                       size_t why_size)
{
    if (c->memory.huge_pages)
        return say(why, why_size, "the base has it already");
    char mode[64] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    if (!file || !fgets(mode, sizeof mode, file) || strstr(mode, "[never]")) {
        if (file)
            fclose(file);
        return say(why, why_size, "the system gives no huge pages");
    }
    fclose(file);
    snprintf(setting, size, "memory.huge_pages=true");
    return true;
}

static bool recompute(const rungi_train_config *c, char *setting, size_t size, char *why,
                      size_t why_size)
{
    const rungi_texts *list = &c->memory.recompute;
    if (list->count && strcmp(list->data[0], "none") != 0)
        return say(why, why_size, "the base has it already");
    snprintf(setting, size, "memory.recompute=auto");
    return true;
}

static bool precision(const rungi_train_config *c, rung_dtype dtype, const char *name,
                      char *setting, size_t size, char *why, size_t why_size)
{
    if (c->precision.dtype == dtype)
        return say(why, why_size, "the base has it already");
    if (c->precision.dtype != RUNG_F32)
        return say(why, why_size, "other 16 bits are there already");
    snprintf(setting, size, "train.precision=%s", name);
    return true;
}

static bool bf16(const rungi_train_config *c, char *setting, size_t size, char *why,
                 size_t why_size)
{
    return precision(c, RUNG_BF16, "bf16", setting, size, why, why_size);
}

static bool fp16(const rungi_train_config *c, char *setting, size_t size, char *why,
                 size_t why_size)
{
    return precision(c, RUNG_F16, "fp16", setting, size, why, why_size);
}

// Halves of the batch, one after the other: the same step. Under exact its shards are halved too.
static bool accumulate(const rungi_train_config *c, char *setting, size_t size, char *why,
                       size_t why_size)
{
    bool part = c->data.batch_per_device > 0;
    int64_t batch = part ? c->data.batch_per_device : c->data.batch_size;
    bool stages = c->train.strategy == RUNGI_STRATEGY_PIPELINE; // each has all samples
    int64_t parts = part || stages ? 1 : c->train.ranks * rungi_train_devices(c);
    int64_t rounds = c->gradients.accumulate;
    if (batch % (2 * parts) != 0)
        return say(why, why_size, "the batch of a rank or device cannot be halved");
    if (c->plan.fuse_optimizer)
        return say(why, why_size, "plan.fuse_optimizer, which was kept, updates during backward");
    if (c->exact && c->train.shards / 2 < c->train.ranks * rungi_train_devices(c))
        return say(why, why_size, "train.shards cannot be halved");
    int used = snprintf(setting, size, "%s=%" PRId64 " train.accumulate=%" PRId64,
                        part ? "data.batch_per_device" : "data.batch_size", batch / 2, rounds * 2);
    if (c->exact && used > 0 && (size_t)used < size)
        snprintf(setting + used, size - (size_t)used, " train.shards=%" PRId64,
                 c->train.shards / 2);
    return true;
}

// Has the network batch normalization, which sees no more than what is computed at once?
static bool normalizes(const rungi_train_config *c)
{
    return strcmp(c->model.name, "resnet18") == 0;
}

static rungi_effect accumulate_effect(const rungi_train_config *c)
{
    return c->exact ? RUNGI_EXACT : normalizes(c) ? RUNGI_SEMANTIC : RUNGI_NUMERIC;
}

// A core for the loader and the system.
static bool threads(const rungi_train_config *c, char *setting, size_t size, char *why,
                    size_t why_size)
{
    int cores = rungi_core_count();
    int64_t now = c->device.threads ? c->device.threads : cores;
    if (now < cores)
        snprintf(setting, size, "device.threads=%d", cores);
    else if (cores > 1)
        snprintf(setting, size, "device.threads=%d", cores - 1);
    else
        return say(why, why_size, "there is one core");
    return true;
}

// Data sets whose samples are files, or parts of archives.
static bool of_files(const rungi_train_config *c, char *why, size_t why_size)
{
    static const char *const formats[] = {"image_folder", "list", "tar"};
    if (c->data.source != RUNGI_DATA_REAL)
        return say(why, why_size, "the data are not read from a data set");
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(c->data.format, formats[i]) == 0)
            return true;
    return say(why, why_size, "the data set is not of pictures as files");
}

static bool pack(const rungi_train_config *c, char *setting, size_t size, char *why,
                 size_t why_size)
{
    if (strcmp(c->data.format, "pack") == 0)
        return say(why, why_size, "the base has it already");
    if (!of_files(c, why, why_size))
        return false;
    snprintf(setting, size, "data.format=pack");
    return true;
}

static bool pack_rows(const rungi_train_config *c, char *setting, size_t size, char *why,
                      size_t why_size)
{
    const rungi_data_config *d = &c->data;
    if (strcmp(d->format, "pack") != 0 && !of_files(c, why, why_size))
        return false;
    if (!d->random_resized_size.count && !d->random_crop_size.count && !d->center_crop.count)
        return say(why, why_size, "nothing is cut out of the pictures");
    snprintf(setting, size, "data.format=pack");
    return true;
}

static bool pack_raw(const rungi_train_config *c, char *setting, size_t size, char *why,
                     size_t why_size)
{
    if (strcmp(c->data.format, "pack") != 0 && !of_files(c, why, why_size))
        return false;
    if (!rungi_pack_raw_possible(c))
        return say(why, why_size, "nothing says to which size pictures are to be resized first");
    snprintf(setting, size, "data.format=pack");
    return true;
}

static bool preloaded(const rungi_train_config *c, char *setting, size_t size, char *why,
                      size_t why_size)
{
    if (c->data.source != RUNGI_DATA_REAL)
        return say(why, why_size, "the data are not read from a data set");
    snprintf(setting, size, "data.source=preloaded");
    return true;
}

// ---- ranks ------------------------------------------------------------------------------------

static bool ddp(const rungi_train_config *c, char *setting, size_t size, char *why, size_t why_size)
{
    int64_t ranks = rungi_core_count(), workers = c->data.num_workers;
    while (c->exact && (ranks > c->train.shards || (ranks & (ranks - 1)) != 0))
        ranks--;
    if (ranks > c->data.batch_size)
        ranks = c->data.batch_size;
    if (ranks > RUNGI_MAX_RANKS)
        ranks = RUNGI_MAX_RANKS;
    if (c->train.ranks > 1)
        return say(why, why_size, "the base has it already");
    if (c->train.strategy == RUNGI_STRATEGY_SINGLE)
        return say(why, why_size, "train.strategy is single");
    if (c->train.strategy == RUNGI_STRATEGY_DATA_PARALLEL)
        return say(why, why_size, "train.strategy is data_parallel, which has one rank");
    if (c->plan.autotune)
        return say(why, why_size, "plan.autotune, which was kept, chooses kernels for one rank");
    if (c->plan.fuse_optimizer)
        return say(why, why_size, "plan.fuse_optimizer, which was kept, is for one rank");
    if (workers < 0)
        return say(why, why_size, "data.num_workers is auto, which is measured with one rank");
    if (c->data.batch_per_device)
        return say(why, why_size, "data.batch_per_device would make the batch another one");
    if (c->exact && (c->data.mixup > 0 || c->data.cutmix > 0))
        return say(why, why_size, "samples are mixed over the whole batch");
    if (ranks < 2)
        return say(why, why_size, "there is one core");
    int used =
        snprintf(setting, size, "train.ranks=%" PRId64 " device.threads=1 data.batch_size=%" PRId64,
                 ranks, c->data.batch_size);
    if (workers > 1 && used > 0 && (size_t)used < size) // as many threads as before
        snprintf(setting + used, size - (size_t)used, " data.num_workers=%" PRId64,
                 (workers + ranks - 1) / ranks);
    return true;
}

static rungi_effect ddp_effect(const rungi_train_config *c)
{
    return c->exact                                                   ? RUNGI_EXACT
           : normalizes(c) || c->data.mixup > 0 || c->data.cutmix > 0 ? RUNGI_SEMANTIC
                                                                      : RUNGI_NUMERIC;
}

static const char *const one_rank = "there is one rank: the rung ddp was not kept";

static bool ddp_overlap(const rungi_train_config *c, char *setting, size_t size, char *why,
                        size_t why_size)
{
    if (c->train.ranks < 2)
        return say(why, why_size, one_rank);
    if (c->ddp.overlap)
        return say(why, why_size, "the base has it already");
    if (c->exact && c->train.shards > c->train.ranks)
        return say(why, why_size, "a rank has several shards, whose gradients are added first");
    snprintf(setting, size, "ddp.overlap=true");
    return true;
}

static bool ddp_bucket(const rungi_train_config *c, char *setting, size_t size, char *why,
                       size_t why_size)
{
    enum { SMALLER = 25, LEAST_BUCKET = 4096 };
    if (c->train.ranks < 2)
        return say(why, why_size, one_rank);
    if (!c->ddp.overlap)
        return say(why, why_size, "needs ddp.overlap, which was not kept");
    if (c->ddp.bucket_size < SMALLER * LEAST_BUCKET)
        return say(why, why_size, "the base has small ones already");
    snprintf(setting, size, "ddp.bucket_size=%" PRId64, c->ddp.bucket_size / SMALLER);
    return true;
}

static bool ddp_shard(const rungi_train_config *c, char *setting, size_t size, char *why,
                      size_t why_size)
{
    if (c->train.ranks < 2)
        return say(why, why_size, one_rank);
    if (c->ddp.shard_optimizer)
        return say(why, why_size, "the base has it already");
    if (c->optim.name == RUNG_OPTIMIZER_SGD && c->optim.momentum == 0)
        return say(why, why_size, "sgd without momentum has no state");
    snprintf(setting, size, "ddp.shard_optimizer=true");
    return true;
}

static bool ddp_sync_norm(const rungi_train_config *c, char *setting, size_t size, char *why,
                          size_t why_size)
{
    if (c->train.ranks < 2)
        return say(why, why_size, one_rank);
    if (!normalizes(c))
        return say(why, why_size, "the model has no batch normalization");
    if (c->ddp.sync_batch_norm)
        return say(why, why_size, "the base has it already");
    if (c->exact && c->train.shards != c->train.ranks)
        return say(why, why_size, "under exact it needs a shard for each rank");
    snprintf(setting, size, "ddp.sync_batch_norm=true");
    return true;
}

static bool ddp_compress(const rungi_train_config *c, char *setting, size_t size, char *why,
                         size_t why_size)
{
    if (c->train.ranks < 2)
        return say(why, why_size, one_rank);
    if (c->exact)
        return say(why, why_size, "exact exchanges gradients as they are");
    if (c->ddp.compress != RUNG_F32)
        return say(why, why_size, "the base has it already");
    snprintf(setting, size, "ddp.compress=bf16");
    return true;
}

// ---- devices of one process -------------------------------------------------------------------

static const char *const no_halves = "16 bits, which were kept, work with single and ddp only";

static bool data_parallel(const rungi_train_config *c, char *setting, size_t size, char *why,
                          size_t why_size)
{
    if (c->train.strategy == RUNGI_STRATEGY_DATA_PARALLEL)
        return say(why, why_size, "the base has it already");
    if (c->precision.dtype != RUNG_F32)
        return say(why, why_size, no_halves);
    if (c->device.list.count < 2)
        return say(why, why_size, "device.list names one device");
    if (c->train.ranks > 1)
        return say(why, why_size, "there are several ranks: the rung ddp was kept");
    if (c->plan.fuse_optimizer)
        return say(why, why_size, "plan.fuse_optimizer, which was kept, is for one device");
    if (c->data.batch_per_device)
        return say(why, why_size, "data.batch_per_device would make the batch another one");
    if (c->exact && (int64_t)c->device.list.count > c->train.shards)
        return say(why, why_size, "there are more devices than train.shards");
    snprintf(setting, size, "train.strategy=data_parallel data.batch_size=%" PRId64,
             c->data.batch_size);
    return true;
}

static rungi_effect data_parallel_effect(const rungi_train_config *c)
{
    return c->exact ? RUNGI_EXACT : normalizes(c) ? RUNGI_SEMANTIC : RUNGI_NUMERIC;
}

static bool data_parallel_kept(const rungi_train_config *c, char *why, size_t why_size)
{
    return rungi_train_devices(c) > 1 ||
           say(why, why_size, "devices share no batches: the rung data_parallel was not kept");
}

static bool dp_output_device(const rungi_train_config *c, char *setting, size_t size, char *why,
                             size_t why_size)
{
    if (!data_parallel_kept(c, why, why_size))
        return false;
    if (c->data_parallel.parallel_criterion)
        return say(why, why_size, "data_parallel.parallel_criterion gathers no outputs");
    if (c->data_parallel.output_device)
        return say(why, why_size, "the base has it already");
    snprintf(setting, size, "data_parallel.output_device=1");
    return true;
}

static bool dp_parallel_criterion(const rungi_train_config *c, char *setting, size_t size,
                                  char *why, size_t why_size)
{
    if (!data_parallel_kept(c, why, why_size))
        return false;
    if (c->data_parallel.parallel_criterion)
        return say(why, why_size, "the base has it already");
    // Outputs of validation are gathered all the same.
    snprintf(setting, size, "%sdata_parallel.parallel_criterion=true",
             c->data_parallel.output_device ? "data_parallel.output_device=0 " : "");
    return true;
}

static rungi_effect dp_parallel_criterion_effect(const rungi_train_config *c)
{
    return c->exact ? RUNGI_EXACT : RUNGI_NUMERIC;
}

// ---- stages -----------------------------------------------------------------------------------

// Adds what is to be switched off with it: keys of replicas.
static void without_replicas(const rungi_train_config *c, rungi_string *out)
{
    if (c->ddp.overlap)
        rungi_string_add(out, " ddp.overlap=false");
    if (c->ddp.shard_optimizer)
        rungi_string_add(out, " ddp.shard_optimizer=false");
    if (c->ddp.sync_batch_norm)
        rungi_string_add(out, " ddp.sync_batch_norm=false");
    if (c->ddp.compress != RUNG_F32)
        rungi_string_add(out, " ddp.compress=none");
    if (c->ddp.bucket_size != RUNGI_DDP_BUCKET)
        rungi_string_add(out, " ddp.bucket_size=%d", RUNGI_DDP_BUCKET);
    if (c->data.num_workers > 0) // one rank reads for all
        rungi_string_add(out, " data.num_workers=%" PRId64, c->data.num_workers * c->train.ranks);
}

static bool pipeline(const rungi_train_config *c, char *setting, size_t size, char *why,
                     size_t why_size)
{
    if (c->train.ranks < 2)
        return say(why, why_size, one_rank);
    if (c->train.strategy == RUNGI_STRATEGY_PIPELINE)
        return say(why, why_size, "the base has it already");
    if (c->precision.dtype != RUNG_F32)
        return say(why, why_size, no_halves);
    if (c->exact)
        return say(why, why_size, "exact cuts batches into shards; stages take them whole");
    if (c->data.batch_per_device)
        return say(why, why_size, "data.batch_per_device would make the batch another one");
    rungi_string text = {0};
    rungi_string_add(&text, "train.strategy=pipeline");
    without_replicas(c, &text);
    bool fits = !text.failed && text.size < size;
    snprintf(setting, size, "%s", rungi_string_text(&text));
    rungi_string_fini(&text);
    return fits || say(why, why_size, "too many keys would change");
}

// Replicas normalize, and mix, a part of the batch each, stages the whole of it.
static rungi_effect pipeline_effect(const rungi_train_config *c)
{
    return ddp_effect(c) == RUNGI_SEMANTIC ? RUNGI_SEMANTIC : RUNGI_NUMERIC;
}

// Micro-batches are normalized each by itself; that of one schedule are those of the other.
static rungi_effect micro_effect(const rungi_train_config *c)
{
    bool stages = c->train.strategy == RUNGI_STRATEGY_PIPELINE;
    if (stages && c->pipeline.schedule != RUNGI_PIPELINE_NONE)
        return RUNGI_EXACT;
    return normalizes(c) ? RUNGI_SEMANTIC : stages ? RUNGI_NUMERIC : pipeline_effect(c);
}

// With the stages themselves, where there are none yet: without micro-batches these rarely pay.
static bool schedule(const rungi_train_config *c, rungi_pipeline_schedule wanted, char *setting,
                     size_t size, char *why, size_t why_size)
{
    bool stages = c->train.strategy == RUNGI_STRATEGY_PIPELINE;
    if (stages && c->pipeline.schedule == wanted)
        return say(why, why_size, "the base has it already");
    setting[0] = '\0';
    if (!stages && !pipeline(c, setting, size, why, why_size))
        return false;
    size_t used = strlen(setting);
    snprintf(setting + used, size - used, "%spipeline.schedule=%s", used ? " " : "",
             rungi_pipeline_schedule_name(wanted));
    return true;
}

static bool pipeline_gpipe(const rungi_train_config *c, char *setting, size_t size, char *why,
                           size_t why_size)
{
    return schedule(c, RUNGI_PIPELINE_GPIPE, setting, size, why, why_size);
}

static bool pipeline_1f1b(const rungi_train_config *c, char *setting, size_t size, char *why,
                          size_t why_size)
{
    return schedule(c, RUNGI_PIPELINE_1F1B, setting, size, why, why_size);
}

// ---- parameter servers ------------------------------------------------------------------------

static bool parameter_server(const rungi_train_config *c, char *setting, size_t size, char *why,
                             size_t why_size)
{
    if (c->train.ranks < 2)
        return say(why, why_size, one_rank);
    if (c->train.strategy == RUNGI_STRATEGY_PARAMETER_SERVER)
        return say(why, why_size, "the base has it already");
    if (c->precision.dtype != RUNG_F32)
        return say(why, why_size, no_halves);
    snprintf(setting, size, "train.strategy=parameter_server%s%s%s",
             c->ddp.overlap ? " ddp.overlap=false" : "",
             c->ddp.shard_optimizer ? " ddp.shard_optimizer=false" : "",
             c->ddp.compress != RUNG_F32 ? " ddp.compress=none" : "");
    return true;
}

static rungi_effect parameter_server_effect(const rungi_train_config *c)
{
    return c->ddp.compress == RUNG_F32 ? RUNGI_EXACT : RUNGI_NUMERIC;
}

static bool ps_async(const rungi_train_config *c, char *setting, size_t size, char *why,
                     size_t why_size)
{
    if (c->train.ranks < 2)
        return say(why, why_size, one_rank);
    if (c->train.strategy != RUNGI_STRATEGY_PARAMETER_SERVER)
        return say(why, why_size, "needs train.strategy parameter_server, which was not kept");
    if (c->exact)
        return say(why, why_size, "under exact nothing depends on who comes first");
    if (c->ps.mode == RUNGI_PS_ASYNC)
        return say(why, why_size, "the base has it already");
    snprintf(setting, size, "ps.mode=async");
    return true;
}

const rungi_rung rungi_rungs[] = {
    {RUNGI_RUNG_CEILING, "data from memory: the ceiling of supply", RUNGI_SEMANTIC, preloaded,
     .not_kept = "a ceiling, not kept: the same order and augmentation in each epoch"},
    {"channels_last", "images as NHWC", RUNGI_NUMERIC, channels_last},
    {"blocked", "images in blocks of 8 or 16 channels", RUNGI_NUMERIC, blocked},
    {"fuse", "bias and activation inside of convolution and linear", RUNGI_NUMERIC, fuse},
    {"own_kernels", "rung's own kernels where they are better", RUNGI_NUMERIC, own_kernels},
    {"winograd", "3x3 convolutions by Winograd's method", RUNGI_NUMERIC, winograd},
    {"fuse_optimizer", "weights updated where their gradient is computed", RUNGI_EXACT,
     fuse_optimizer},
    {"autotune", "the fastest of several kernels, measured", RUNGI_NUMERIC, autotune},
    {"workers", "threads that load while the network trains", RUNGI_EXACT, workers},
    {"worker_nice", "threads that load leave the cores to those that compute", RUNGI_EXACT,
     worker_nice},
    {"prefetch", "more batches ahead", RUNGI_EXACT, prefetch},
    {"pinned", "copies to the device from pinned memory", RUNGI_EXACT, pinned},
    {"non_blocking", "copies to the device while it computes", RUNGI_EXACT, non_blocking},
    {"augment_device", "batches travel as bytes, the device augments them", RUNGI_EXACT,
     augment_device},
    {"pack", "the pictures' files in one pack", RUNGI_EXACT, pack, .packing = RUNGI_PACKING_FILES},
    {"pack_rows", "JPEGs in a pack whose rows above a crop are passed over", RUNGI_EXACT, pack_rows,
     .packing = RUNGI_PACKING_ROWS},
    {"pack_raw", "a pack of pixels, decoded and resized before", RUNGI_EXACT, pack_raw,
     .effect_in = rungi_pack_raw_effect,
     .not_kept = "not kept: random parts are cut from pictures that were resized before",
     .packing = RUNGI_PACKING_RAW},
    {"huge_pages", "large buffers in huge pages", RUNGI_EXACT, huge_pages},
    {"recompute", "less memory: backward computes again what is cheap", RUNGI_EXACT, recompute},
    {"bf16", "half the memory of activations: bfloat16", RUNGI_NUMERIC, bf16},
    {"fp16", "the same in float16, with a loss scale", RUNGI_NUMERIC, fp16},
    {"accumulate", "less memory: halves of the batch, their gradients added", RUNGI_NUMERIC,
     accumulate, .effect_in = accumulate_effect,
     .not_kept = "not kept: batch normalization would see halves of the batch"},
    {"threads", "another number of threads", RUNGI_NUMERIC, threads},
    {"ddp", "a rank on each core, each with a part of the batch", RUNGI_NUMERIC, ddp,
     .effect_in = ddp_effect,
     .not_kept = "not kept: batch normalization, or mixing, would see a rank's part of the batch"},
    {"ddp_overlap", "gradients added over the ranks during backward", RUNGI_EXACT, ddp_overlap},
    {"ddp_bucket", "smaller buckets of gradients", RUNGI_EXACT, ddp_bucket},
    {"ddp_shard", "each rank updates its part of the parameters", RUNGI_EXACT, ddp_shard},
    {"ddp_sync_norm", "batch normalization by the whole batch's statistics", RUNGI_SEMANTIC,
     ddp_sync_norm, .not_kept = "not kept: it changes what is trained"},
    {"ddp_compress", "gradients exchanged as bf16", RUNGI_NUMERIC, ddp_compress},
    {"data_parallel", "all devices of device.list, each with a part of the batch", RUNGI_NUMERIC,
     data_parallel, .effect_in = data_parallel_effect,
     .not_kept = "not kept: batch normalization would see a device's part of the batch"},
    {"dp_output_device", "outputs and loss on the second device", RUNGI_EXACT, dp_output_device},
    {"dp_parallel_criterion", "the loss on each device instead of a gather", RUNGI_NUMERIC,
     dp_parallel_criterion, .effect_in = dp_parallel_criterion_effect},
    {"pipeline", "each rank has some of the layers, one works at a time", RUNGI_NUMERIC, pipeline,
     .effect_in = pipeline_effect,
     .not_kept = "not kept: batch normalization, or mixing, would see the whole batch"},
    {"pipeline_gpipe", "micro-batches through the stages, forward and then backward", RUNGI_NUMERIC,
     pipeline_gpipe, .effect_in = micro_effect,
     .not_kept = "not kept: batch normalization would see a micro-batch"},
    {"pipeline_1f1b", "micro-batches in turn forward and backward: fewer are held", RUNGI_NUMERIC,
     pipeline_1f1b, .effect_in = micro_effect,
     .not_kept = "not kept: batch normalization would see a micro-batch"},
    {"parameter_server", "servers add gradients and update the weights", RUNGI_EXACT,
     parameter_server, .effect_in = parameter_server_effect},
    {"ps_async", "each worker updates the weights at its own pace", RUNGI_SEMANTIC, ps_async,
     .not_kept = "not kept: the weights depend on who comes first"},
    {0},
};

const char *rung_ladder_rung_name(int index)
{
    return index >= 0 && index < RUNG_LADDER_RUNGS ? rungi_rungs[index].name : NULL;
}

const char *rung_ladder_rung_about(int index)
{
    return index >= 0 && index < RUNG_LADDER_RUNGS ? rungi_rungs[index].about : NULL;
}

const char *rung_verdict_name(rung_verdict verdict)
{
    static const char *const names[] = {"kept", "no clear change", "slower", "wrong",
                                        "not available"};
    return names[verdict];
}
