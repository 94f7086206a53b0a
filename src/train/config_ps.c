// SPDX-License-Identifier: Apache-2.0
// What strategy parameter_server needs of a configuration.
#include <inttypes.h>

#include "train/train_config.h"

// Another value is the user's wish.
enum { DEFAULT_BUCKET = 25 << 20 };

bool rungi_config_has_servers(const rungi_train_config *v, int64_t ranks)
{
    return ranks > 1 && v->train.strategy == RUNGI_STRATEGY_PARAMETER_SERVER;
}

bool rungi_config_is_async(const rungi_train_config *v, int64_t ranks)
{
    return rungi_config_has_servers(v, ranks) && v->ps.mode == RUNGI_PS_ASYNC;
}

int rungi_config_servers(const rungi_train_config *v, int64_t ranks)
{
    return (int)(v->ps.servers ? v->ps.servers : ranks);
}

// What belongs to ddp, where gradients are added by the ranks themselves.
static rung_status check_ddp(const rungi_options *o, const rungi_ddp_config *d)
{
    const struct {
        const char *key;
        bool set;
    } switches[] = {{"ddp.overlap", d->overlap},
                    {"ddp.shard_optimizer", d->shard_optimizer},
                    {"ddp.fuse_update", d->fuse_update},
                    {"ddp.compress", d->compress != RUNG_F32}};
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++)
        if (switches[i].set)
            return rungi_options_fail(o, switches[i].key,
                                      "belongs to train.strategy ddp, not to parameter_server: "
                                      "switch it off");
    return RUNG_OK;
}

rung_status rungi_train_config_check_counts(const rungi_options *o, const rungi_train_config *v,
                                            int64_t ranks)
{
    size_t slowdowns = v->device.slowdown.count;
    bool servers = v->train.strategy == RUNGI_STRATEGY_PARAMETER_SERVER;
    const char *are = ranks == 1 ? "is" : "are", *s = ranks == 1 ? "" : "s";
    size_t devices = (size_t)rungi_train_devices(v);
    if (slowdowns && devices > 1 && slowdowns != devices)
        return rungi_options_fail(o, "device.slowdown",
                                  "has %zu numbers, but there are %zu devices: one for each",
                                  slowdowns, devices);
    if (slowdowns && devices == 1 && slowdowns != (size_t)ranks)
        return rungi_options_fail(o, "device.slowdown",
                                  "has %zu numbers, but there %s %" PRId64 " rank%s: one for each",
                                  slowdowns, are, ranks, s);
    if (servers && v->ps.servers > ranks)
        return rungi_options_fail(o, "ps.servers",
                                  "is %" PRId64 ", but there %s %" PRId64
                                  " rank%s, and a server lives with a rank: set it to at most "
                                  "that, or start more ranks",
                                  v->ps.servers, are, ranks, s);
    return RUNG_OK;
}

rung_status rungi_train_config_check_ps(const rungi_options *o, const rungi_train_config *v,
                                        rung_context *context)
{
    const rungi_ps_config *p = &v->ps;
    if (v->device.slowdown.count && v->device.op_rate <= 0)
        return rungi_options_fail(o, "device.slowdown", "needs device.op_rate");
    if (p->mode == RUNGI_PS_SYNC && p->staleness >= 0)
        return rungi_options_fail(o, "ps.staleness",
                                  "belongs to ps.mode async: in sync all go in step");
    if (v->train.strategy != RUNGI_STRATEGY_PARAMETER_SERVER)
        return RUNG_OK;
    if (v->exact && p->mode == RUNGI_PS_ASYNC)
        return rungi_options_fail(o, "ps.mode",
                                  "async cannot be combined with exact: its result depends on who "
                                  "comes first");
    if (p->mode == RUNGI_PS_ASYNC && (v->ddp.link_delay > 0 || v->ddp.link_rate > 0))
        return rungi_options_fail(o, v->ddp.link_delay > 0 ? "ddp.link_delay" : "ddp.link_rate",
                                  "emulates a network for collective calls, which ps.mode async "
                                  "does without: switch it off");
    if (p->mode == RUNGI_PS_ASYNC && v->ddp.sync_batch_norm)
        return rungi_options_fail(o, "ddp.sync_batch_norm",
                                  "needs all ranks in step, which ps.mode async are not: switch it "
                                  "off");
    if (v->ddp.bucket_size != DEFAULT_BUCKET)
        rungi_options_note(o, context, "ddp.bucket_size",
                           "ignored, because servers are given their ranges as a whole");
    return check_ddp(o, &v->ddp);
}
