// SPDX-License-Identifier: Apache-2.0
// A batch of several devices whose loss is computed on one: see engine_criterion.c.
#include <string.h>

#include "base/context.h"
#include "base/error.h"
#include "train/engine_inside.h"

// ---- what the loss reads -----------------------------------------------------------------------

// Where what crosses by `crossing` is gathered.
static const char *gathered(const rungi_engine *e, const rungi_crossing *crossing)
{
    return e->gathered[rungi_engine_output_of(e, crossing->part)];
}

// The targets of a batch, on the output device.
static rung_status bring_targets(rungi_engine *e, int member, int feed, size_t size)
{
    rungi_criterion *c = e->criterion;
    uint64_t bytes = (uint64_t)e->whole * size;
    if (bytes > c->target_bytes[feed]) {
        rung_device_free(c->output->device, c->targets[feed]);
        c->targets[feed] = NULL;
        c->target_bytes[feed] = 0;
        RUNG_TRY(
            rung_device_alloc(c->output->device, bytes, "targets of a batch", &c->targets[feed]));
        c->target_bytes[feed] = bytes;
    }
    return rungi_engine_fetch(e, member, c->targets[feed], e->batch->feeds[feed].data, bytes);
}

rung_status rungi_criterion_scatter(rungi_engine *e, int member)
{
    rungi_criterion *c = e->criterion;
    if (!e->options.replicas.output_device || member != c->output->worker)
        return RUNG_OK;
    for (int f = 0; f < e->batch->n_feeds; f++) {
        int value = rungi_input_of(c->loss.graph, e->batch->feeds[f].input);
        if (value)
            RUNG_TRY(bring_targets(e, member, f, rungi_sample_bytes(c->loss.graph, value)));
    }
    return RUNG_OK;
}

// Pieces of a round lie in [*begin_out, this); of those of shards some may have no samples.
static int pieces(const rungi_engine *e, int round, int *begin_out)
{
    const rungi_criterion *c = e->criterion;
    int begin = round * e->slots;
    *begin_out = c->by_shard ? begin : 0;
    return !c->count ? *begin_out : c->by_shard ? begin + e->slots : 1;
}

static bool is_empty(const rungi_engine *e, int piece)
{
    return e->criterion->by_shard && !e->now[piece];
}

static rungi_instance *instance_of(const rungi_engine *e, int piece)
{
    return e->criterion->now[piece]->instances[piece % e->slots];
}

static void bind_input(const rungi_engine *e, int piece, int value, const char *data)
{
    int tensor = e->criterion->now[piece]->plan->value_tensor[value];
    if (tensor >= 0)
        rungi_instance_bind(instance_of(e, piece), tensor, data);
}

static void bind_piece(const rungi_engine *e, int piece)
{
    const rungi_criterion *c = e->criterion;
    bool copied = e->options.replicas.copies && e->options.replicas.output_device;
    size_t begin = (size_t)rungi_criterion_piece(e, e->whole, piece).begin;
    for (int f = 0; f < e->batch->n_feeds; f++) {
        int value = rungi_input_of(c->loss.graph, e->batch->feeds[f].input);
        const char *data = copied ? c->targets[f] : e->batch->feeds[f].data;
        if (value)
            bind_input(e, piece, value, data + begin * rungi_sample_bytes(c->loss.graph, value));
    }
    for (int k = 0; k < c->loss.n_in; k++) {
        int value = c->loss.in[k].part;
        bind_input(e, piece, value,
                   gathered(e, &c->model.out[k]) +
                       begin * rungi_sample_bytes(c->loss.graph, value));
    }
    rungi_runtime *rt = &instance_of(e, piece)->rt;
    rt->seed = e->batch->seed;
    rt->step = e->batch->step;
    rt->sample_offset = (int64_t)begin;
    rt->normalizer = e->counts;
    rungi_instance_set_loss_scale(instance_of(e, piece),
                                  e->batch->loss_scale > 0 ? (float)e->batch->loss_scale : 1);
}

void rungi_criterion_bind(rungi_engine *e, int round)
{
    int begin, end = pieces(e, round, &begin);
    for (int i = begin; i < end; i++)
        if (!is_empty(e, i))
            bind_piece(e, i);
}

void rungi_criterion_count(rungi_engine *e, int round)
{
    int begin, end = pieces(e, round, &begin);
    for (int i = begin; i < end; i++)
        if (!is_empty(e, i))
            rungi_instance_count(instance_of(e, i), e->counts);
}

static rung_status run_loss(rungi_engine *e, int member)
{
    rungi_criterion *c = e->criterion;
    int begin, end = pieces(e, e->round, &begin);
    for (int i = begin; i < end; i++) {
        if (is_empty(e, i) || member != c->output->worker + i % c->output->workers)
            continue;
        rungi_instance *instance = instance_of(e, i);
        const rung_plan *plan = c->now[i]->plan;
        RUNG_TRY(rungi_engine_run_steps(e, member, instance, 0, (int)plan->steps.count));
        if (e->streams[member])
            RUNG_TRY(rung_stream_sync(e->streams[member]));
        e->losses[i] = *(float *)instance->ptr[plan->value_tensor[c->loss.graph->loss]];
    }
    return RUNG_OK;
}

// ---- gradients of the outputs -----------------------------------------------------------------

// Where the gradient of crossing k lies for shard s, on the output device.
static const char *gradient_of(const rungi_engine *e, int k, int s)
{
    const rungi_criterion *c = e->criterion;
    int piece = c->by_shard ? s : 0, value = c->loss.in[k].part;
    const rungi_shard_plan *x = c->now[piece];
    size_t begin = (size_t)(rungi_engine_part(e, e->whole, s).begin -
                            rungi_criterion_piece(e, e->whole, piece).begin);
    return (const char *)instance_of(e, piece)->ptr[x->plan->input_grad[value]] +
           begin * rungi_sample_bytes(c->loss.graph, value);
}

// Room on a device for the gradients of its part of a batch.
static rung_status reserve(rungi_engine *e, int d, int k, uint64_t bytes)
{
    rungi_criterion *c = e->criterion;
    if (bytes <= c->seed_bytes[d][k])
        return RUNG_OK;
    rung_device_free(e->replicas[d].device, c->seeds[d][k]);
    c->seeds[d][k] = NULL;
    c->seed_bytes[d][k] = 0;
    RUNG_TRY(
        rung_device_alloc(e->replicas[d].device, bytes, "gradients of outputs", &c->seeds[d][k]));
    c->seed_bytes[d][k] = bytes;
    return RUNG_OK;
}

// Copies them there, by the worker that does it for its device.
static rung_status bring(rungi_engine *e, int member, int k)
{
    rungi_criterion *c = e->criterion;
    int d = e->worker_device[member];
    const rungi_replica *r = &e->replicas[d];
    size_t size = rungi_sample_bytes(c->loss.graph, c->loss.in[k].part);
    rungi_shard all = rungi_engine_device_part(e, e->whole, d);
    RUNG_TRY(reserve(e, d, k, (uint64_t)all.count * size));
    for (int i = r->first; i < r->first + r->shards; i++) {
        int s = e->round * e->slots + i;
        if (!e->now[s])
            continue;
        rungi_shard part = rungi_engine_part(e, e->whole, s);
        RUNG_TRY(rungi_engine_fetch(
            e, member, (char *)c->seeds[d][k] + (size_t)(part.begin - all.begin) * size,
            gradient_of(e, k, s), (uint64_t)part.count * size));
    }
    return RUNG_OK;
}

static rung_status return_gradients(rungi_engine *e, int member)
{
    rungi_criterion *c = e->criterion;
    int d = e->worker_device[member], output = e->options.replicas.output_device;
    const rungi_replica *r = &e->replicas[d];
    bool copied = e->options.replicas.copies && d != output;
    if (member != r->worker)
        return RUNG_OK;
    for (int k = 0; k < c->loss.n_in; k++) {
        if (!c->loss.in[k].gradient)
            continue;
        size_t size = rungi_sample_bytes(c->loss.graph, c->loss.in[k].part);
        int64_t first = rungi_engine_device_part(e, e->whole, d).begin;
        if (copied)
            RUNG_TRY(bring(e, member, k));
        for (int i = r->first; i < r->first + r->shards; i++) {
            int s = e->round * e->slots + i;
            if (!e->now[s])
                continue;
            int seed = rungi_plan_seed(e->now[s]->plan, c->model.out[k].part);
            size_t at = (size_t)(rungi_engine_part(e, e->whole, s).begin - first) * size;
            if (seed >= 0)
                rungi_instance_bind(e->now[s]->instances[i], seed,
                                    copied ? (char *)c->seeds[d][k] + at : gradient_of(e, k, s));
        }
    }
    return RUNG_OK;
}

// ---- all of it --------------------------------------------------------------------------------

// Forward or backward of one shard.
static rung_status run_half(rungi_engine *e, int member, int s, bool backward)
{
    const rung_plan *plan = e->now[s]->plan;
    int64_t began = rungi_engine_clock_now(e);
    RUNG_TRY(rungi_engine_phase(e, member, backward));
    RUNG_TRY(rungi_engine_run_steps(e, member, rungi_engine_instance(e, s),
                                    backward ? plan->n_forward : 0,
                                    backward ? (int)plan->steps.count : plan->n_forward));
    RUNG_TRY(rungi_engine_phase(e, member, 2));
    if (e->streams[member])
        RUNG_TRY(rung_stream_sync(e->streams[member]));
    rungi_engine_note_busy(e, member, began);
    return RUNG_OK;
}

static rung_status forward_member(void *arg, int member)
{
    rungi_engine *e = arg;
    for (int s = e->round * e->slots; s < rungi_engine_round_end(e, e->round); s++)
        if (e->now[s] && e->worker_of[s % e->slots] == member) {
            RUNG_TRY(run_half(e, member, s, false));
            RUNG_TRY(rungi_engine_gather(e, member, s));
        }
    rungi_engine_wait_for_others(e, member, RUNGI_QUEUE_COPY, RUNGI_TIME_COPY);
    return RUNG_OK;
}

static rung_status loss_member(void *arg, int member)
{
    rungi_engine *e = arg;
    int64_t began = rungi_engine_clock_now(e);
    RUNG_TRY(run_loss(e, member));
    if (e->criterion->output == &e->replicas[e->worker_device[member]])
        rungi_engine_note_busy(e, member, began);
    return RUNG_OK;
}

static rung_status return_member(void *arg, int member)
{
    return return_gradients(arg, member);
}

static rung_status backward_member(void *arg, int member)
{
    rungi_engine *e = arg;
    for (int s = e->round * e->slots; s < rungi_engine_round_end(e, e->round); s++)
        if (e->now[s] && e->worker_of[s % e->slots] == member) {
            RUNG_TRY(run_half(e, member, s, true));
            RUNG_TRY(rungi_engine_keep_statistics(e, s));
        }
    rungi_engine_wait_for_others(e, member, RUNGI_QUEUE_EXCHANGE, RUNGI_TIME_EXCHANGE);
    return RUNG_OK;
}

rung_status rungi_criterion_compute(rungi_engine *e, bool loss)
{
    RUNG_TRY(rungi_engine_run_team(e, forward_member));
    if (!loss)
        return RUNG_OK;
    RUNG_TRY(rungi_engine_together(e, RUNGI_QUEUE_COMPUTE, RUNGI_TIME_FORWARD, loss_member));
    if (!e->training)
        return RUNG_OK;
    RUNG_TRY(rungi_engine_together(e, RUNGI_QUEUE_COPY, RUNGI_TIME_COPY, return_member));
    return rungi_engine_run_team(e, backward_member);
}
