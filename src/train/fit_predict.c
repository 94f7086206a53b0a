// SPDX-License-Identifier: Apache-2.0
// Bytes of a device of a session, before any step.
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "data/source.h"
#include "optim/optimizer.h"
#include "train/engine_memory.h"
#include "train/fit.h"
#include "train/session_servers.h"
#include "train/session_stages.h"

rungi_fit_what rungi_fit_configured(const rungi_session *s, rung_fit_way way)
{
    return (rungi_fit_what){.way = way,
                            .precision = s->c->precision.dtype,
                            .fuse = s->c->plan.fuse,
                            .rounds = rungi_engine_rounds(s->engine)};
}

// ---- batches ----------------------------------------------------------------------------------

// Cuts `count` samples of an epoch into batches: a full one and what is left.
static void cut_epoch(int64_t count, int64_t batch, bool drop_last, int64_t *out)
{
    out[0] = batch < count ? batch : count;
    out[1] = batch < count && !drop_last ? count % batch : 0;
}

static int64_t epoch_of(const rung_loader *loader, int64_t batch)
{
    rung_loader_info info;
    if (!loader)
        return batch;
    rung_loader_describe(loader, &info);
    return info.samples_per_epoch + info.dropped;
}

static rungi_engine_load load_of(const rungi_session *s, int64_t batch, const rungi_fit_what *what)
{
    rungi_engine_load load = {.rounds = what->rounds,
                              .alone = rungi_config_is_async(s->c, s->ranks),
                              .fuse = what->fuse,
                              .precision = what->precision,
                              .recompute = what->way == RUNG_FIT_KEEP ? RUNG_RECOMPUTE_NONE
                                                                      : RUNG_RECOMPUTE_AUTO,
                              .budget = what->way == RUNG_FIT_LEAST ? 1 : 0};
    int64_t micro = batch / what->rounds > 0 ? batch / what->rounds : 1;
    cut_epoch(epoch_of(s->train_loader, batch), batch, s->c->data.drop_last, load.trained);
    if (s->val_loader && s->c->train.eval_every != RUNGI_NEVER)
        cut_epoch(epoch_of(s->val_loader, micro), micro, false, load.evaluated);
    if (what->full_only)
        load.trained[1] = load.evaluated[0] = load.evaluated[1] = 0;
    for (int i = 0; i < RUNGI_LOAD_BATCHES && load.alone; i++)
        load.trained[i] = rungi_shard_of(load.trained[i], s->ranks, s->rank).count;
    return load;
}

// Host memory of the batches that a rank's loaders have at once, and of copies on their way.
static uint64_t loader_bytes(const rungi_session *s, int64_t batch)
{
    enum { COPIES = 2 }; // of a feeder
    const rung_loader *loaders[] = {s->train_loader, s->val_loader};
    const rungi_feeder *feeders[] = {s->feeder, s->val_feeder};
    const int64_t parts = rungi_session_parts(s);
    uint64_t bytes = 0;
    if (s->stages && s->rank)
        return 0; // the first stage reads for all
    for (int i = 0; i < 2; i++) {
        rung_loader_info info;
        if (!loaders[i])
            continue;
        rung_loader_describe(loaders[i], &info);
        int64_t samples = batch < info.samples_per_epoch ? batch : info.samples_per_epoch;
        int64_t part = (samples + parts - 1) / parts;
        uint64_t slots = (uint64_t)info.slots + (feeders[i] ? COPIES : 0);
        for (int f = 0; f < info.field_count; f++)
            bytes += slots * (uint64_t)part * rungi_field_bytes(&info.fields[f]);
    }
    return bytes;
}

// ---- what is beside the engine ----------------------------------------------------------------

// State of the optimizer: of the first device of a rank, or in a server.
static void add_optimizer(const rungi_session *s, rung_fit_bytes *bytes)
{
    rung_optimizer_options o = rungi_config_optimizer(s->c);
    int states = rungi_optimizer_states(&o);
    if (rungi_config_is_async(s->c, s->ranks)) {
        rungi_ps_memory m =
            rungi_ps_memory_of(s->state->flat_size, rungi_config_servers(s->c, s->ranks), states);
        bytes->weights += m.weights;
        bytes->optimizer = m.states;
        bytes->communication += m.rest;
        return;
    }
    uint64_t part = (uint64_t)rungi_session_optimizer_part(s).count * sizeof(float);
    bytes->optimizer = part * (uint64_t)states;
    if (rungi_session_owns_gradients(s)) // for the norm, which the first step logs
        bytes->communication += (uint64_t)s->ranks * RUNGI_OPTIM_BLOCK * sizeof(float);
}

static void add_up(rung_fit_bytes *b)
{
    b->total = b->weights + b->buffers + b->gradients + b->optimizer + b->activations +
               b->workspace + b->statistics + b->communication;
}

rung_status rungi_fit_predict(const rungi_session *s, int device, int64_t batch,
                              const rungi_fit_what *what, rungi_fit_prediction *out,
                              rung_plan **plan_out)
{
    rungi_engine_load load = load_of(s, batch, what);
    rungi_engine_bytes e;
    rung_plan *plan;
    int64_t left_out = 0;
    rung_status status = rungi_engine_foresee(s->engine, &load, device, &e, &plan);
    if (status == RUNG_INVALID && load.trained[1]) {
        left_out = load.trained[1];
        load.trained[1] = 0;
        status = rungi_engine_foresee(s->engine, &load, device, &e, &plan);
    }
    if (status != RUNG_OK)
        return status;
    int again;
    *out = (rungi_fit_prediction){
        .left_out = left_out,
        .bytes = {.weights = (uint64_t)s->state->flat_size * sizeof(float),
                  .buffers = s->state->buffer_bytes ? (uint64_t)s->state->buffer_bytes : 1,
                  .gradients = e.gradients,
                  .activations = e.activations,
                  .workspace = e.workspace,
                  .statistics = e.statistics,
                  .communication = e.communication}};
    if (plan)
        rung_plan_recomputed(plan, &again, &out->extra);
    if (device == 0) {
        add_optimizer(s, &out->bytes);
        out->bytes.loader = loader_bytes(s, batch);
    }
    add_up(&out->bytes);
    *plan_out = plan;
    return RUNG_OK;
}

rung_status rungi_fit_predict_fullest(const rungi_session *s, int64_t batch,
                                      const rungi_fit_what *what, rungi_fit_prediction *out,
                                      rung_plan **plan_out)
{
    rung_plan *fullest = NULL;
    rung_status status = RUNG_OK;
    *out = (rungi_fit_prediction){.extra = 0};
    for (int d = 0; d < rungi_engine_devices(s->engine) && status == RUNG_OK; d++) {
        rungi_fit_prediction one;
        rung_plan *plan = NULL;
        status = rungi_fit_predict(s, d, batch, what, &one, &plan);
        if (status == RUNG_OK && one.bytes.total > out->bytes.total) {
            rung_plan *other = fullest;
            fullest = plan;
            plan = other;
            *out = one;
        }
        rung_plan_destroy(&plan);
    }
    if (status == RUNG_OK && plan_out)
        *plan_out = fullest;
    else
        rung_plan_destroy(&fullest);
    return status;
}

// ---- for people -------------------------------------------------------------------------------

static void describe_stage(const rungi_session *s, char *out, size_t size)
{
    const rungi_stage_info *i = &s->stages->info[s->rank];
    const rungi_node *nodes = s->stages->whole->nodes.data;
    snprintf(out, size, "stage %d: %s to %s, %d in flight", s->rank, nodes[i->begin].name,
             nodes[i->end - 1].name, i->in_flight);
}

static void describe_rank(const rungi_session *s, char *out, size_t size)
{
    int servers =
        rungi_config_has_servers(s->c, s->ranks) ? rungi_config_servers(s->c, s->ranks) : 0;
    int own = servers ? rungi_ps_hosted(s->ranks, servers, s->rank) : -1;
    int used = snprintf(out, size, "%s %d", servers ? "worker" : "rank", s->rank);
    rungi_comm_part part = rungi_session_optimizer_part(s);
    if (own >= 0)
        part = rungi_ps_range(s->state->flat_size, servers, own);
    if (used < 0 || (size_t)used >= size)
        return;
    if (own >= 0)
        snprintf(out + used, size - (size_t)used, ", server %d of weights %lld to %lld", own,
                 (long long)part.begin, (long long)(part.begin + part.count) - 1);
    else if (!servers && rungi_session_shards_optimizer(s))
        snprintf(out + used, size - (size_t)used, ", updates weights %lld to %lld",
                 (long long)part.begin, (long long)(part.begin + part.count) - 1);
}

void rungi_fit_describe(const rungi_session *s, int device, rung_fit_device *out)
{
    const rungi_data_parallel_config *c = &s->c->data_parallel;
    bool gathers = !c->parallel_criterion && c->output_device == device;
    snprintf(out->name, sizeof out->name, "%s", rung_device_name(s->devices[device]));
    if (rungi_engine_devices(s->engine) > 1)
        snprintf(out->what, sizeof out->what, "replica %d%s%s", device,
                 device ? "" : ", master weights and optimizer",
                 gathers ? ", outputs and loss" : "");
    else if (s->stages)
        describe_stage(s, out->what, sizeof out->what);
    else if (s->ranks > 1)
        describe_rank(s, out->what, sizeof out->what);
    else
        snprintf(out->what, sizeof out->what, "the network");
}
