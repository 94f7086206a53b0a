// SPDX-License-Identifier: Apache-2.0
// Rungs about several devices of one process, and about stages of a pipeline.
#include "ladder/rungs_inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

bool rungi_rung_data_parallel(const rungi_train_config *c, char *setting, size_t size, char *why,
                              size_t why_size)
{
    if (c->train.strategy == RUNGI_STRATEGY_DATA_PARALLEL)
        return rungi_rung_cannot(why, why_size, "the base has it already");
    if (c->device.list.count < 2)
        return rungi_rung_cannot(why, why_size, "device.list names one device");
    if (c->train.ranks > 1)
        return rungi_rung_cannot(why, why_size, "there are several ranks: the rung ddp was kept");
    if (c->plan.fuse_optimizer)
        return rungi_rung_cannot(why, why_size,
                                 "plan.fuse_optimizer, which was kept, is for one device");
    if (c->data.batch_per_device)
        return rungi_rung_cannot(why, why_size,
                                 "data.batch_per_device would make the batch another one");
    if (c->exact && (int64_t)c->device.list.count > c->train.shards)
        return rungi_rung_cannot(why, why_size, "there are more devices than train.shards");
    snprintf(setting, size, "train.strategy=data_parallel data.batch_size=%" PRId64,
             c->data.batch_size);
    return true;
}

rungi_effect rungi_rung_data_parallel_effect(const rungi_train_config *c)
{
    return c->exact ? RUNGI_EXACT : rungi_rung_normalizes(c) ? RUNGI_SEMANTIC : RUNGI_NUMERIC;
}

static bool data_parallel_kept(const rungi_train_config *c, char *why, size_t why_size)
{
    return rungi_train_devices(c) > 1 ||
           rungi_rung_cannot(why, why_size,
                             "devices share no batches: the rung data_parallel was not kept");
}

bool rungi_rung_dp_output_device(const rungi_train_config *c, char *setting, size_t size, char *why,
                                 size_t why_size)
{
    if (!data_parallel_kept(c, why, why_size))
        return false;
    if (c->data_parallel.parallel_criterion)
        return rungi_rung_cannot(why, why_size,
                                 "data_parallel.parallel_criterion gathers no outputs");
    snprintf(setting, size, "data_parallel.output_device=1");
    return true;
}

bool rungi_rung_dp_parallel_criterion(const rungi_train_config *c, char *setting, size_t size,
                                      char *why, size_t why_size)
{
    if (!data_parallel_kept(c, why, why_size))
        return false;
    // Outputs of validation are gathered all the same.
    snprintf(setting, size, "%sdata_parallel.parallel_criterion=true",
             c->data_parallel.output_device ? "data_parallel.output_device=0 " : "");
    return true;
}

rungi_effect rungi_rung_dp_parallel_criterion_effect(const rungi_train_config *c)
{
    return c->exact ? RUNGI_EXACT : RUNGI_NUMERIC;
}

// Adds what is to be switched off with it: keys of replicas.
static void without_replicas(const rungi_train_config *c, rungi_string *out)
{
    if (c->ddp.overlap)
        rungi_string_add(out, " ddp.overlap=false");
    if (c->ddp.shard_optimizer)
        rungi_string_add(out, " ddp.shard_optimizer=false");
    if (c->ddp.fuse_update)
        rungi_string_add(out, " ddp.fuse_update=false");
    if (c->ddp.sync_batch_norm)
        rungi_string_add(out, " ddp.sync_batch_norm=false");
    if (c->ddp.compress != RUNG_F32)
        rungi_string_add(out, " ddp.compress=none");
    if (c->ddp.bucket_size != RUNGI_DDP_BUCKET)
        rungi_string_add(out, " ddp.bucket_size=%d", RUNGI_DDP_BUCKET);
    if (c->data.num_workers > 0) // one rank reads for all
        rungi_string_add(out, " data.num_workers=%" PRId64, c->data.num_workers * c->train.ranks);
}

bool rungi_rung_pipeline(const rungi_train_config *c, char *setting, size_t size, char *why,
                         size_t why_size)
{
    if (c->train.ranks < 2)
        return rungi_rung_cannot(why, why_size, rungi_rung_one_rank);
    if (c->train.strategy == RUNGI_STRATEGY_PIPELINE)
        return rungi_rung_cannot(why, why_size, "the base has it already");
    if (c->exact)
        return rungi_rung_cannot(why, why_size,
                                 "exact cuts batches into shards; stages take them whole");
    if (c->data.batch_per_device)
        return rungi_rung_cannot(why, why_size,
                                 "data.batch_per_device would make the batch another one");
    rungi_string text = {0};
    rungi_string_add(&text, "train.strategy=pipeline");
    without_replicas(c, &text);
    bool fits = !text.failed && text.size < size;
    snprintf(setting, size, "%s", rungi_string_text(&text));
    rungi_string_fini(&text);
    return fits || rungi_rung_cannot(why, why_size, "too many keys would change");
}

// Replicas normalize, and mix, a part of the batch each, stages the whole of it.
rungi_effect rungi_rung_pipeline_effect(const rungi_train_config *c)
{
    return rungi_rung_ddp_effect(c) == RUNGI_SEMANTIC ? RUNGI_SEMANTIC : RUNGI_NUMERIC;
}

// Micro-batches are normalized each by itself; that of one schedule are those of the other.
rungi_effect rungi_rung_micro_effect(const rungi_train_config *c)
{
    bool stages = c->train.strategy == RUNGI_STRATEGY_PIPELINE;
    if (stages && c->pipeline.schedule != RUNGI_PIPELINE_NONE)
        return RUNGI_EXACT;
    return rungi_rung_normalizes(c) ? RUNGI_SEMANTIC
           : stages                 ? RUNGI_NUMERIC
                                    : rungi_rung_pipeline_effect(c);
}

// With the stages themselves, where there are none yet: without micro-batches these rarely pay.
static bool schedule(const rungi_train_config *c, rungi_pipeline_schedule wanted, char *setting,
                     size_t size, char *why, size_t why_size)
{
    bool stages = c->train.strategy == RUNGI_STRATEGY_PIPELINE;
    setting[0] = '\0';
    if (!stages && !rungi_rung_pipeline(c, setting, size, why, why_size))
        return false;
    size_t used = strlen(setting);
    snprintf(setting + used, size - used, "%spipeline.schedule=%s", used ? " " : "",
             rungi_pipeline_schedule_name(wanted));
    return true;
}

bool rungi_rung_pipeline_gpipe(const rungi_train_config *c, char *setting, size_t size, char *why,
                               size_t why_size)
{
    return schedule(c, RUNGI_PIPELINE_GPIPE, setting, size, why, why_size);
}

bool rungi_rung_pipeline_1f1b(const rungi_train_config *c, char *setting, size_t size, char *why,
                              size_t why_size)
{
    return schedule(c, RUNGI_PIPELINE_1F1B, setting, size, why, why_size);
}
