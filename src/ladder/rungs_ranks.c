// SPDX-License-Identifier: Apache-2.0
// Rungs about ranks: replicas that add their gradients, and parameter servers.
#include "ladder/rungs_inside.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/cores.h"

bool rungi_rung_ddp(const rungi_train_config *c, char *setting, size_t size, char *why,
                    size_t why_size)
{
    int64_t ranks = rungi_core_count(), workers = c->data.num_workers;
    while (c->exact && (ranks > c->train.shards || (ranks & (ranks - 1)) != 0))
        ranks--;
    if (ranks > c->data.batch_size)
        ranks = c->data.batch_size;
    if (ranks > RUNGI_MAX_RANKS)
        ranks = RUNGI_MAX_RANKS;
    if (c->train.strategy == RUNGI_STRATEGY_PIPELINE)
        return rungi_rung_cannot(why, why_size, "train.strategy is pipeline: ranks are its stages");
    if (c->train.ranks > 1)
        return rungi_rung_cannot(why, why_size, "the base has it already");
    if (c->train.strategy == RUNGI_STRATEGY_SINGLE)
        return rungi_rung_cannot(why, why_size, "train.strategy is single");
    if (c->train.strategy == RUNGI_STRATEGY_DATA_PARALLEL)
        return rungi_rung_cannot(why, why_size,
                                 "train.strategy is data_parallel, which has one rank");
    if (c->plan.fuse_optimizer)
        return rungi_rung_cannot(why, why_size,
                                 "plan.fuse_optimizer, which was kept, is for one rank");
    if (workers < 0)
        return rungi_rung_cannot(why, why_size,
                                 "data.num_workers is auto, which is measured with one rank");
    if (c->data.batch_per_device)
        return rungi_rung_cannot(why, why_size,
                                 "data.batch_per_device would make the batch another one");
    if (c->exact && (c->data.mixup > 0 || c->data.cutmix > 0))
        return rungi_rung_cannot(why, why_size, "samples are mixed over the whole batch");
    if (ranks < 2)
        return rungi_rung_cannot(why, why_size, "there is one core");
    int used =
        snprintf(setting, size, "train.ranks=%" PRId64 " device.threads=1 data.batch_size=%" PRId64,
                 ranks, c->data.batch_size);
    if (workers > 1 && used > 0 && (size_t)used < size) // as many threads as before
        snprintf(setting + used, size - (size_t)used, " data.num_workers=%" PRId64,
                 (workers + ranks - 1) / ranks);
    return true;
}

rungi_effect rungi_rung_ddp_effect(const rungi_train_config *c)
{
    return c->exact                                                              ? RUNGI_EXACT
           : rungi_rung_normalizes(c) || c->data.mixup > 0 || c->data.cutmix > 0 ? RUNGI_SEMANTIC
                                                                                 : RUNGI_NUMERIC;
}

bool rungi_rung_ddp_overlap(const rungi_train_config *c, char *setting, size_t size, char *why,
                            size_t why_size)
{
    if (c->train.ranks < 2)
        return rungi_rung_cannot(why, why_size, rungi_rung_one_rank);
    if (c->exact && c->train.shards > c->train.ranks)
        return rungi_rung_cannot(why, why_size,
                                 "a rank has several shards, whose gradients are added first");
    snprintf(setting, size, "ddp.overlap=true");
    return true;
}

bool rungi_rung_ddp_bucket(const rungi_train_config *c, char *setting, size_t size, char *why,
                           size_t why_size)
{
    enum { SMALLER = 25, LEAST_BUCKET = 4096 };
    if (c->train.ranks < 2)
        return rungi_rung_cannot(why, why_size, rungi_rung_one_rank);
    if (!c->ddp.overlap)
        return rungi_rung_cannot(why, why_size, "needs ddp.overlap, which was not kept");
    if (c->ddp.bucket_size < SMALLER * LEAST_BUCKET)
        return rungi_rung_cannot(why, why_size, "the base has small ones already");
    snprintf(setting, size, "ddp.bucket_size=%" PRId64, c->ddp.bucket_size / SMALLER);
    return true;
}

bool rungi_rung_ddp_shard(const rungi_train_config *c, char *setting, size_t size, char *why,
                          size_t why_size)
{
    if (c->train.ranks < 2)
        return rungi_rung_cannot(why, why_size, rungi_rung_one_rank);
    if (c->optim.name == RUNG_OPTIMIZER_SGD && c->optim.momentum == 0)
        return rungi_rung_cannot(why, why_size, "sgd without momentum has no state");
    snprintf(setting, size, "ddp.shard_optimizer=true");
    return true;
}

bool rungi_rung_ddp_fuse(const rungi_train_config *c, char *setting, size_t size, char *why,
                         size_t why_size)
{
    if (c->train.ranks < 2)
        return rungi_rung_cannot(why, why_size, rungi_rung_one_rank);
    if (rungi_config_unfused(c))
        return rungi_rung_cannot(why, why_size, rungi_config_unfused(c));
    if (c->ddp.compress != RUNG_F32)
        return rungi_rung_cannot(why, why_size, "ddp.compress sends gradients");
    if (c->ddp.link_delay > 0 || c->ddp.link_rate > 0)
        return rungi_rung_cannot(why, why_size, "ranks with an emulated link share no memory");
    snprintf(setting, size, "%sddp.fuse_update=true",
             c->ddp.shard_optimizer ? "" : "ddp.shard_optimizer=true ");
    return true;
}

bool rungi_rung_ddp_sync_norm(const rungi_train_config *c, char *setting, size_t size, char *why,
                              size_t why_size)
{
    if (c->train.ranks < 2)
        return rungi_rung_cannot(why, why_size, rungi_rung_one_rank);
    if (!rungi_rung_normalizes(c))
        return rungi_rung_cannot(why, why_size, "the model has no batch normalization");
    if (c->exact && c->train.shards != c->train.ranks)
        return rungi_rung_cannot(why, why_size, "under exact it needs a shard for each rank");
    snprintf(setting, size, "ddp.sync_batch_norm=true");
    return true;
}

bool rungi_rung_ddp_compress(const rungi_train_config *c, char *setting, size_t size, char *why,
                             size_t why_size)
{
    if (c->train.ranks < 2)
        return rungi_rung_cannot(why, why_size, rungi_rung_one_rank);
    if (c->exact)
        return rungi_rung_cannot(why, why_size, "exact exchanges gradients as they are");
    if (c->ddp.fuse_update)
        return rungi_rung_cannot(why, why_size,
                                 "ddp.fuse_update, which was kept, sends no gradients");
    if (c->ddp.compress != RUNG_F32)
        return rungi_rung_cannot(why, why_size, "the base has it already");
    snprintf(setting, size, "ddp.compress=bf16");
    return true;
}

bool rungi_rung_parameter_server(const rungi_train_config *c, char *setting, size_t size, char *why,
                                 size_t why_size)
{
    if (c->train.ranks < 2)
        return rungi_rung_cannot(why, why_size, rungi_rung_one_rank);
    snprintf(setting, size, "train.strategy=parameter_server%s%s%s%s",
             c->ddp.overlap ? " ddp.overlap=false" : "",
             c->ddp.shard_optimizer ? " ddp.shard_optimizer=false" : "",
             c->ddp.fuse_update ? " ddp.fuse_update=false" : "",
             c->ddp.compress != RUNG_F32 ? " ddp.compress=none" : "");
    return true;
}

// Workers in step do what replicas do; stages do something else (rungi_rung_pipeline_effect).
rungi_effect rungi_rung_parameter_server_effect(const rungi_train_config *c)
{
    if (c->train.strategy == RUNGI_STRATEGY_PIPELINE)
        return rungi_rung_pipeline_effect(c);
    return c->ddp.compress == RUNG_F32 ? RUNGI_EXACT : RUNGI_NUMERIC;
}

bool rungi_rung_ps_async(const rungi_train_config *c, char *setting, size_t size, char *why,
                         size_t why_size)
{
    if (c->train.ranks < 2)
        return rungi_rung_cannot(why, why_size, rungi_rung_one_rank);
    if (c->train.strategy != RUNGI_STRATEGY_PARAMETER_SERVER)
        return rungi_rung_cannot(why, why_size,
                                 "needs train.strategy parameter_server, which was not kept");
    if (c->exact)
        return rungi_rung_cannot(why, why_size, "under exact nothing depends on who comes first");
    snprintf(setting, size, "ps.mode=async");
    return true;
}
