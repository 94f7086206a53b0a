// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "train/engine_memory_inside.h"

// ---- plans ------------------------------------------------------------------------------------

rung_compile_options rungi_survey_options(const rungi_survey *v, bool training, bool adds,
                                          int64_t count)
{
    rung_compile_options o = rungi_engine_plan_options(v->e, training, count);
    o.plan_only = true;
    o.arena = NULL;
    o.accumulate = adds;
    o.fuse = v->load->fuse;
    o.precision = v->load->precision;
    o.recompute = v->load->recompute;
    o.budget = v->load->budget;
    o.fuse_optimizer &= v->load->rounds == 1;
    return o;
}

static rung_status compile(rungi_survey *v, rungi_look *x)
{
    const rungi_engine *e = v->e;
    rung_plan *plan;
    rung_compile_options o = rungi_survey_options(v, x->training, x->adds, x->count);
    if (e->criterion)
        o.gradients &= rungi_criterion_gradients(e->criterion);
    if (e->pipeline)
        o.gradients &= rungi_pipeline_has_backward(e->pipeline);
    RUNG_TRY(rung_compile(e->model, e->replicas[v->device].state, &o, &plan));
    rung_plan_memory m = rung_plan_memory_use(plan);
    x->arena = m.arena ? m.arena : 1; // the least that is allocated
    x->workspace = m.peak_workspace;
    x->statistics = m.statistics;
    bool larger = !v->largest || x->count > v->largest->options.batch;
    if (x->training && !x->adds && larger) {
        rung_plan_destroy(&v->largest);
        v->largest = plan;
    } else {
        rung_plan_destroy(&plan);
    }
    return RUNG_OK;
}

static rung_status find(rungi_survey *v, bool training, bool adds, int64_t count, rungi_look **out)
{
    for (size_t i = 0; i < v->looks.count; i++) {
        rungi_look *x = v->looks.data[i];
        if (x->training == training && x->adds == adds && x->count == count) {
            *out = x;
            return RUNG_OK;
        }
    }
    rungi_look *x = calloc(1, sizeof *x);
    RUNG_CHECK(x, RUNG_NO_MEMORY, "no memory to look at plans");
    *x = (rungi_look){.training = training, .adds = adds, .count = count};
    rung_status status = compile(v, x);
    if (status == RUNG_OK && !rungi_array_push(&v->looks, x))
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory to look at plans");
    if (status != RUNG_OK) {
        free(x);
        return status;
    }
    *out = x;
    return RUNG_OK;
}

rung_status rungi_survey_note(rungi_survey *v, bool training, bool adds, int64_t count, int slot,
                              int arena, int first, int first_arena)
{
    rungi_look *x = NULL;
    RUNG_TRY(find(v, training, adds, count, &x));
    x->used[first] = x->used[slot] = true;
    rungi_need(&v->arenas[first_arena], x->arena);
    rungi_need(&v->arenas[arena], x->arena);
    return RUNG_OK;
}

// ---- shards -----------------------------------------------------------------------------------

rungi_cut rungi_cut_of(const rungi_survey *v, bool training)
{
    const rungi_engine *e = v->e;
    bool several = e->exchange && !(training && v->load->alone);
    rungi_cut c = {.ranks = several ? rungi_exchange_ranks(e->exchange) : 1,
                   .rank = several ? rungi_exchange_rank(e->exchange) : 0,
                   .rounds = training ? v->load->rounds : 1};
    c.shards = e->slots * c.rounds;
    c.total = c.shards * c.ranks;
    c.first = c.rank * c.shards;
    return c;
}

rungi_shard rungi_cut_part(const rungi_engine *e, const rungi_cut *c, int64_t count, int s)
{
    if (e->devices == 1 || e->options.exact)
        return rungi_shard_of(count, c->total, c->first + rungi_engine_leaf(e, s, c->rounds));
    rungi_shard whole = rungi_engine_share(e, count, s % e->slots);
    rungi_shard part = rungi_shard_of(whole.count, c->rounds, s / e->slots);
    return (rungi_shard){whole.begin + part.begin, part.count};
}

int64_t rungi_cut_samples(const rungi_survey *v, const rungi_cut *c, int64_t count)
{
    int64_t sum = 0;
    for (int s = 0; s < c->shards; s++)
        if (v->e->device_of[s % v->e->slots] == v->device)
            sum += rungi_cut_part(v->e, c, count, s).count;
    return sum;
}

static int arena_of(const rungi_engine *e, int slot)
{
    return e->criterion ? slot : e->worker_of[slot];
}

static rung_status note_batch(rungi_survey *v, const rungi_cut *c, bool training, int64_t count)
{
    const rungi_engine *e = v->e;
    int first = e->replicas[v->device].first;
    for (int s = 0; s < c->shards; s++) {
        int slot = s % e->slots;
        int64_t own = rungi_cut_part(e, c, count, s).count;
        bool adds = training && (e->options.exact ? rungi_engine_adds(e, slot) : s >= e->slots);
        if (own && e->device_of[slot] == v->device)
            RUNG_TRY(rungi_survey_note(v, training, adds, own, slot, arena_of(e, slot), first,
                                       arena_of(e, first)));
    }
    return RUNG_OK;
}

// Shards of other ranks whose statistics come: their plans tell how these lie (find_remote of
// engine_statistics.c).
static rung_status note_remote(rungi_survey *v, const rungi_cut *c, int64_t count)
{
    int arena = arena_of(v->e, 0), shards = 1; // the first one is looked at in any case
    uint64_t kept = 0;
    for (int k = 0; k < shards && (c->ranks > 1 || c->rounds > 1); k++) {
        int64_t others = rungi_shard_of(count, c->total, k).count;
        bool own = k >= c->first && k < c->first + c->shards;
        if (others && !own)
            RUNG_TRY(rungi_survey_note(v, true, false, others, 0, arena, 0, arena));
        kept = v->largest ? rung_plan_memory_use(v->largest).statistics : 0;
        shards = kept ? c->total : 1;
    }
    rungi_need(&v->room, kept * (uint64_t)c->total);
    return RUNG_OK;
}

// ---- all of it --------------------------------------------------------------------------------

static rung_status survey_shards(rungi_survey *v)
{
    const rungi_engine *e = v->e;
    uint64_t flat = (uint64_t)e->state->flat_size * sizeof(float);
    const rungi_replica *r = &e->replicas[v->device];
    int levels = e->options.exact ? rungi_tree_levels(v->load->rounds) : 0;
    for (int s = r->first; s < r->first + r->shards; s++)
        v->bytes->gradients +=
            flat * (uint64_t)(!rungi_engine_adds(e, s) + (e->blocks[s] ? levels : 0));
    for (int i = 0; i < RUNGI_LOAD_BATCHES; i++) {
        rungi_cut train = rungi_cut_of(v, true), evaluate = rungi_cut_of(v, false);
        if (v->load->trained[i])
            RUNG_TRY(note_batch(v, &train, true, v->load->trained[i]));
        if (v->load->trained[i] && v->device == 0)
            RUNG_TRY(note_remote(v, &train, v->load->trained[i]));
        if (v->load->evaluated[i])
            RUNG_TRY(note_batch(v, &evaluate, false, v->load->evaluated[i]));
    }
    if (e->exchange)
        v->bytes->communication += rungi_exchange_bytes(e->exchange) + v->room;
    else
        v->bytes->statistics += v->room;
    return rungi_survey_replica(v);
}

static void add_up(rungi_survey *v)
{
    uint64_t workspace = v->largest ? rung_plan_memory_use(v->largest).peak_workspace : 0;
    for (int i = 0; i < RUNGI_MAX_SHARDS; i++) {
        if (!v->arenas[i])
            continue;
        v->bytes->workspace += workspace;
        v->bytes->activations += v->arenas[i] - workspace;
    }
    for (size_t i = 0; i < v->looks.count; i++) {
        const rungi_look *x = v->looks.data[i];
        for (int s = 0; s < RUNGI_MAX_SHARDS; s++)
            v->bytes->statistics += x->used[s] ? x->statistics : 0;
    }
}

rung_status rungi_engine_foresee(const rungi_engine *engine, const rungi_engine_load *load,
                                 int device, rungi_engine_bytes *bytes_out, rung_plan **plan_out)
{
    rungi_survey *v = calloc(1, sizeof *v);
    RUNG_CHECK(v, RUNG_NO_MEMORY, "no memory to look at plans");
    *bytes_out = (rungi_engine_bytes){0};
    v->e = engine;
    v->load = load;
    v->device = device;
    v->bytes = bytes_out;
    rung_status status = engine->pipeline ? rungi_survey_stage(v) : survey_shards(v);
    add_up(v);
    for (size_t i = 0; i < v->looks.count; i++)
        free(v->looks.data[i]);
    rungi_array_fini(&v->looks);
    if (status == RUNG_OK)
        *plan_out = v->largest;
    else
        rung_plan_destroy(&v->largest);
    free(v);
    return status;
}
