// SPDX-License-Identifier: Apache-2.0
// Runs that go on with another number of ranks or devices.
#include <inttypes.h>
#include <stdio.h>

#include "base/context.h"
#include "base/error.h"
#include "base/json.h"
#include "train/trainer.h"

// A batch that is said for each device would be another one with another number of them.
static rung_status keep_batch(const rung_trainer *t, const json_t *state, const char *where)
{
    const rungi_session *s = t->s;
    int64_t devices = s->ranks * rungi_train_devices(s->c), batch = rungi_session_batch(s);
    int64_t devices_then, then, rounds = s->c->gradients.accumulate;
    RUNG_TRY(rungi_json_i64(state, where, "ranks", 1, INT64_MAX, &devices_then));
    RUNG_TRY(rungi_json_i64(state, where, "batch_size", 1, INT64_MAX, &then));
    RUNG_CHECK(!s->c->data.batch_per_device || devices == devices_then || batch == then,
               RUNG_CONFIG,
               "data.batch_per_device is %" PRId64 ", which makes a step's batch %" PRId64
               " with %" PRId64 " ranks or devices; the run was begun with %" PRId64 " on %" PRId64
               ": keep that with data.batch_size=%" PRId64
               ", or say that it is to change with data.batch_size=%" PRId64,
               s->c->data.batch_per_device, batch, devices, then, devices_then, then / rounds,
               batch / rounds);
    return RUNG_OK;
}

static bool normalizes(const rungi_session *s)
{
    const rung_graph *g = s->graph;
    for (size_t i = 0; i < g->nodes.count; i++)
        if (g->nodes.data[i].op->meets)
            return true;
    return false;
}

// Whose statistics batch normalization uses.
static rung_status note_normalization(const rung_trainer *t, const json_t *state, const char *where)
{
    bool then, now = t->s->c->ddp.sync_batch_norm;
    if (!json_object_get(state, "sync_batch_norm") || !normalizes(t->s))
        return RUNG_OK; // from before it was kept
    RUNG_TRY(rungi_json_bool(state, where, "sync_batch_norm", &then));
    if (then != now)
        rungi_log(t->context, RUNG_LOG_NOTICE,
                  "ddp.sync_batch_norm is %s now, the run was begun with %s: batch normalization "
                  "uses the statistics of %s from here on",
                  now ? "true" : "false", then ? "true" : "false",
                  now ? "the whole batch" : "each rank's part of the batch");
    return RUNG_OK;
}

rung_status rungi_run_config_batch(rung_config *config)
{
    const rungi_options *o = rungi_config_options(config);
    size_t whole, part;
    RUNG_TRY(rungi_options_find(o, "data.batch_size", &whole));
    RUNG_TRY(rungi_options_find(o, "data.batch_per_device", &part));
    return o->entries[whole].source.kind == RUNGI_SOURCE_COMMAND_LINE &&
                   o->entries[part].source.kind == RUNGI_SOURCE_FILE
               ? rung_config_override(config, "data.batch_per_device=none")
               : RUNG_OK;
}

rung_status rungi_trainer_compare_ranks(const rung_trainer *t, const json_t *state,
                                        const char *where)
{
    RUNG_TRY(keep_batch(t, state, where));
    return note_normalization(t, state, where);
}
