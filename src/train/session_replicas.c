// SPDX-License-Identifier: Apache-2.0
// The devices of train.strategy data_parallel.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "base/error.h"
#include "base/text.h"
#include "train/session.h"
#include "train/shards.h"

rung_status rungi_session_make_devices(rungi_session *s, const rung_device_options *options)
{
    const rungi_device_config *c = &s->c->device;
    rung_device_options o = *options;
    int count = (int)c->list.count, threads = o.threads ? o.threads : rungi_core_count();
    o.threads = threads > count ? threads / count : 1;
    if (c->copy == RUNGI_COPY_EMULATE) {
        o.delay_copy = c->copy_delay;
        o.delay_copy_byte = c->copy_rate > 0 ? 1 / c->copy_rate : 0;
    }
    for (int d = 0; d < count; d++)
        RUNG_TRY(rung_device_create(s->context, c->list.data[d], &o, &s->devices[d]));
    s->device = s->devices[0];
    return RUNG_OK;
}

rungi_replicas_options rungi_session_replicas(const rungi_session *s)
{
    const rungi_data_parallel_config *c = &s->c->data_parallel;
    return (rungi_replicas_options){
        .devices = s->devices,
        .count = rungi_train_devices(s->c),
        .weights = c->device_weights.count ? c->device_weights.data : NULL,
        .output_device = (int)c->output_device,
        .parallel_criterion = c->parallel_criterion,
        .first_statistics = c->batch_norm == RUNGI_REPLICA_NORM_FIRST,
        .copies = s->c->device.copy == RUNGI_COPY_EMULATE,
    };
}

int rungi_session_own_shards(const rungi_session *s)
{
    const rungi_reals *weights = &s->c->data_parallel.device_weights;
    int devices = rungi_train_devices(s->c), shards = rungi_session_shards(s);
    if (devices == 1)
        return shards / (s->ranks > 1 ? s->ranks : 1);
    return (int)(weights->count ? rungi_share_of(shards, weights->data, devices, 0)
                                : rungi_shard_of(shards, devices, 0))
        .count;
}

int rungi_session_arenas(const rungi_session *s)
{
    int threads = rung_device_threads(s->device), shards = rungi_session_own_shards(s);
    bool all = rungi_train_devices(s->c) > 1 && !s->c->data_parallel.parallel_criterion;
    return all || threads > shards ? shards : s->c->exact ? threads : 1;
}

uint64_t rungi_session_replica_bytes(const rungi_session *s)
{
    const rungi_data_parallel_config *c = &s->c->data_parallel;
    uint64_t bytes = 0;
    int devices = rungi_train_devices(s->c);
    if (devices == 1)
        return 0;
    if (s->c->device.copy == RUNGI_COPY_EMULATE) // gradients of the others, at least one each
        bytes += (uint64_t)(devices - 1) * (uint64_t)s->state->flat_size * sizeof(float);
    if (c->output_device == 0) // gathered outputs and the gradients of these
        bytes += 2 * (uint64_t)rungi_session_batch(s) * (uint64_t)rungi_session_logits(s) *
                 sizeof(float);
    return bytes;
}

static bool has_norms(const rung_graph *g)
{
    for (size_t k = 0; k < g->nodes.count; k++)
        if (strcmp(g->nodes.data[k].op->name, "batch_norm") == 0)
            return true;
    return false;
}

void rungi_session_replicas_text(const rungi_session *s, rungi_string *out)
{
    const rungi_data_parallel_config *c = &s->c->data_parallel;
    int64_t batch = rungi_session_batch(s);
    rungi_string_add(out, "replicas   ");
    for (int d = 0; d < rungi_engine_devices(s->engine); d++)
        rungi_string_add(out, "%s%s %" PRId64, d ? ", " : "", rung_device_name(s->devices[d]),
                         rungi_engine_part_of(s->engine, batch, d).count);
    rungi_string_add(out, " samples; weights and optimizer on %s; ", rung_device_name(s->device));
    if (c->parallel_criterion)
        rungi_string_add(out, "loss on each device\n");
    else
        rungi_string_add(out, "outputs and loss on %s\n",
                         rung_device_name(s->devices[c->output_device]));
    if (!has_norms(s->graph))
        return;
    rungi_string_add(out, "norms      each device normalizes by its part; running statistics: %s\n",
                     c->batch_norm == RUNGI_REPLICA_NORM_FIRST ? "those of the first device"
                                                               : "average of all devices");
}

static rung_status add_plan(const rung_plan *plan, rungi_string *out)
{
    char *text;
    RUNG_TRY(rung_plan_explain(plan, &text));
    rungi_string_add(out, "%s", text);
    free(text);
    return RUNG_OK;
}

rung_status rungi_session_explain_replicas(const rungi_session *s, rungi_string *out)
{
    const rungi_data_parallel_config *c = &s->c->data_parallel;
    int64_t batch = rungi_session_batch(s);
    const char *output = rung_device_name(s->devices[c->output_device]);
    const rung_plan *plan, *loss;
    RUNG_TRY(rungi_engine_plan(s->engine, true, batch, &plan));
    RUNG_TRY(rungi_engine_loss_plan(s->engine, true, batch, &loss));
    rungi_string_add(out, "data_parallel, a step:\n");
    for (int d = 0; d < rungi_engine_devices(s->engine); d++) {
        rungi_shard part = rungi_engine_part_of(s->engine, batch, d);
        rungi_string_add(out, "  %s: ", rung_device_name(s->devices[d]));
        if (part.count)
            rungi_string_add(out, "samples %" PRId64 " to %" PRId64 "\n", part.begin,
                             part.begin + part.count - 1);
        else
            rungi_string_add(out, "idle\n");
    }
    rungi_string_add(out, "  weights are copied from %s to the others, all run forward\n",
                     rung_device_name(s->device));
    if (loss)
        rungi_string_add(out,
                         "  outputs are gathered on %s, which computes the loss; their gradients "
                         "go back\n",
                         output);
    rungi_string_add(out,
                     "  all run backward; gradients are added on %s, which updates the weights\n",
                     rung_device_name(s->device));
    rungi_string_add(out, "\nplan of a part of the batch on %s:\n", rung_device_name(s->device));
    RUNG_TRY(add_plan(plan, out));
    if (!loss)
        return RUNG_OK;
    rungi_string_add(out, "\nplan of the loss on %s%s:\n", output,
                     s->c->exact ? ", of each shard" : "");
    return add_plan(loss, out);
}

void rungi_session_balance_text(const rungi_session *s, rungi_string *out)
{
    double spent = (double)rungi_engine_spent(s->engine);
    for (int d = 0; d < rungi_engine_devices(s->engine); d++) {
        rungi_replica_use use = rungi_engine_use(s->engine, d);
        double share = spent > 0 ? 100 / spent : 0;
        char bytes[32];
        rungi_string_add(
            out, "%s%s: peak %s, busy %.0f %%, copying %.0f %%", d ? "; " : "",
            rung_device_name(use.device),
            rungi_text_bytes(rung_device_memory(use.device).peak_live, bytes, sizeof bytes),
            (double)use.busy * share, (double)use.copying * share);
    }
}
