// SPDX-License-Identifier: Apache-2.0
#include "train/pipeline_inside.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

// ---- life -------------------------------------------------------------------------------------

static rung_status make(rungi_engine *e)
{
    int threads = e->options.threads ? e->options.threads : rung_device_threads(e->state->device);
    if (e->options.exchange.comm)
        RUNG_TRY(rungi_exchange_create(e->state, &e->options.exchange, &e->exchange));
    RUNG_TRY(rungi_engine_place(e, threads));
    if (e->exchange)
        rungi_straggler_init(&e->balance, rungi_exchange_ranks(e->exchange));
    if (e->exchange && e->options.synchronize && rungi_exchange_ranks(e->exchange) > 1) {
        RUNG_CHECK(e->shards == 1, RUNG_INVALID,
                   "synchronized batch normalization needs one shard for each rank: there are %d "
                   "shards, %d ranks",
                   e->total, rungi_exchange_ranks(e->exchange));
        rungi_engine_meet_init(e);
    }
    e->counts = calloc(e->graph->nodes.count + 1, sizeof *e->counts);
    e->gathered = calloc(e->model->outputs.count + 1, sizeof *e->gathered);
    e->gathered_bytes = calloc(e->model->outputs.count + 1, sizeof *e->gathered_bytes);
    e->numbers = calloc(e->graph->nodes.count + 2, sizeof *e->numbers);
    RUNG_CHECK(e->counts && e->gathered && e->gathered_bytes && e->numbers, RUNG_NO_MEMORY,
               "no memory for an engine");
    for (size_t i = 0; i < e->graph->nodes.count; i++)
        if (e->graph->nodes.data[i].op->normalizer)
            RUNG_CHECK(rungi_array_push(&e->divided, (int)i), RUNG_NO_MEMORY,
                       "no memory for an engine");
    if (e->options.pipeline.comm)
        RUNG_TRY(rungi_pipeline_create(e, &e->options.pipeline, &e->pipeline));
    return RUNG_OK;
}

rung_status rungi_engine_create(const rung_graph *graph, rung_state *state,
                                const rungi_engine_options *options, rungi_engine **engine_out)
{
    rungi_engine *e = calloc(1, sizeof *e);
    RUNG_CHECK(e, RUNG_NO_MEMORY, "no memory for an engine");
    e->graph = e->model = graph;
    e->state = state;
    e->options = *options;
    e->options.exchange.timeline = options->timeline;
    if (e->options.accumulate < 1)
        e->options.accumulate = 1;
    e->bad_rank = -1;
    rung_status status = make(e);
    if (status != RUNG_OK) {
        rungi_engine_destroy(&e);
        return status;
    }
    *engine_out = e;
    return RUNG_OK;
}

void rungi_engine_destroy(rungi_engine **engine)
{
    if (!engine || !*engine)
        return;
    rungi_engine *e = *engine;
    rungi_team_destroy(&e->team);
    rungi_pipeline_destroy(&e->pipeline);
    for (size_t i = 0; i < e->entries.count; i++) {
        rungi_shard_plan *x = e->entries.data[i];
        for (int s = 0; s < RUNGI_MAX_SHARDS; s++)
            if (x->instances[s] != x->plan->instance)
                rungi_instance_destroy(&x->instances[s]);
        for (int s = 0; s < RUNGI_MAX_SHARDS; s++)
            rungi_instance_destroy(&x->remote[s]);
        rung_plan_destroy(&x->plan);
        free(x->complete);
        free(x);
    }
    rungi_array_fini(&e->entries);
    for (size_t i = 0; e->gathered && e->gathered_bytes && i < e->model->outputs.count; i++)
        rungi_engine_drop_output(e, i);
    rung_device_free(e->state->device, e->own_room);
    rungi_engine_leave(e);
    rungi_criterion_destroy(e);
    free(e->gathered);
    free(e->gathered_bytes);
    rungi_exchange_destroy(&e->exchange);
    rungi_array_fini(&e->divided);
    rungi_array_fini(&e->zeros);
    free(e->numbers);
    free(e->counts);
    free(e);
    *engine = NULL;
}

// ---- plans ------------------------------------------------------------------------------------

rung_compile_options rungi_engine_plan_options(const rungi_engine *e, bool training, int64_t count)
{
    return (rung_compile_options){.batch = count,
                                  .training = training,
                                  .gradients = training,
                                  .threads = e->threads,
                                  .fuse = e->options.fuse,
                                  .fuse_optimizer = e->options.fuse_optimizer && !e->team &&
                                                    !e->exchange && !e->pipeline &&
                                                    e->options.accumulate == 1,
                                  .layout = e->options.layout,
                                  .kernels = e->options.kernels,
                                  .winograd = e->options.winograd,
                                  .winograd_bf16 = e->options.winograd_bf16,
                                  .precision = e->options.precision,
                                  .compute = e->options.compute,
                                  .synchronize = e->group.size > 1,
                                  .tuning = e->options.tuning,
                                  .recompute = e->options.recompute,
                                  .recompute_layers = e->options.recompute_layers,
                                  .n_recompute_layers = e->options.n_recompute_layers,
                                  .budget = e->options.budget,
                                  .arena = e->arenas[0]};
}

int rungi_engine_width(const rungi_engine *e)
{
    return e->pipeline    ? e->pipeline->slots
           : e->criterion ? e->replicas[0].shards
                          : e->replicas[0].workers;
}

int rungi_engine_round_shards(const rungi_engine *e)
{
    return e->slots;
}

int rungi_engine_turns(const rungi_engine *e, int device)
{
    const rungi_replica *r = &e->replicas[device];
    return (r->shards + r->workers - 1) / r->workers;
}

int rungi_engine_rounds(const rungi_engine *e)
{
    return e->options.accumulate;
}

bool rungi_engine_adds(const rungi_engine *e, int slot)
{
    return !e->pairs[slot];
}

int rungi_engine_gradient_buffers(const rungi_engine *e)
{
    int own = e->replicas[0].shards, stored = 0;
    int branches = e->options.exact ? rungi_tree_branches(own) : 0;
    for (int s = 0; s < own; s++)
        stored += !rungi_engine_adds(e, s);
    return stored + branches * rungi_tree_levels(e->options.accumulate);
}

const rungi_pipeline_times *rungi_engine_pipeline(const rungi_engine *e)
{
    return e->pipeline && e->pipeline->times.steps ? &e->pipeline->times : NULL;
}

static rung_status compile(rungi_engine *e, rungi_shard_plan *x)
{
    const rungi_replica *r = &e->replicas[x->device];
    const char *no_loss[64];
    int n = 0;
    for (size_t i = 0; i < e->model->outputs.count && n < 64; i++)
        if (strcmp(e->model->outputs.data[i].name, "loss") != 0)
            no_loss[n++] = e->model->outputs.data[i].name;
    rung_compile_options o = rungi_engine_plan_options(e, x->training, x->count);
    o.accumulate = x->adds;
    if (!x->loss) {
        o.outputs = no_loss;
        o.n_outputs = n;
    }
    o.arena = rungi_engine_arena(e, r->first);
    o.gradients &= !e->criterion || rungi_criterion_gradients(e->criterion);
    RUNG_TRY(rung_compile(e->model, r->state, &o, &x->plan));
    x->instances[r->first] = x->plan->instance;
    for (size_t i = 0; i < x->plan->steps.count; i++)
        x->has_updates |= x->plan->steps.data[i].updates >= 0;
    return x->training ? rungi_engine_note_complete(x) : RUNG_OK;
}

rung_status rungi_engine_find(rungi_engine *e, bool training, bool loss, bool adds, int64_t count,
                              int shard, rungi_shard_plan **entry_out)
{
    rungi_shard_plan *x = NULL;
    int device = shard < 0 ? 0 : e->device_of[shard];
    for (size_t i = 0; i < e->entries.count && !x; i++) {
        rungi_shard_plan *y = e->entries.data[i];
        if (y->training == training && y->loss == loss && y->adds == adds && y->count == count &&
            y->device == device)
            x = y;
    }
    if (!x) {
        x = calloc(1, sizeof *x);
        RUNG_CHECK(x, RUNG_NO_MEMORY, "no memory for a plan");
        *x = (rungi_shard_plan){
            .training = training, .loss = loss, .adds = adds, .count = count, .device = device};
        rung_status status = compile(e, x);
        const char *name = rung_device_name(e->replicas[device].device);
        if (status != RUNG_OK && e->devices > 1 &&
            strncmp(rung_error_last()->message, name, strlen(name)) != 0)
            rungi_fail_prefix("%s", name);
        if (status == RUNG_OK && !rungi_array_push(&e->entries, x))
            status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a plan");
        if (status != RUNG_OK) {
            rung_plan_destroy(&x->plan);
            free(x->complete);
            free(x);
            return status;
        }
    }
    if (shard >= 0 && !x->instances[shard])
        RUNG_TRY(rungi_instance_create(x->plan, rungi_engine_arena(e, shard), e->grads[shard],
                                       false, &x->instances[shard]));
    *entry_out = x;
    return RUNG_OK;
}

rung_status rungi_engine_plans(rungi_engine *e, bool training, bool loss, int64_t count)
{
    rungi_engine_cut(e, training);
    e->active = e->turns = 0;
    if (training && !e->looked)
        RUNG_TRY(rungi_engine_check_unused(e));
    for (int s = 0; s < e->shards; s++) {
        rungi_shard part = rungi_engine_part(e, count, s);
        e->now[s] = NULL;
        if (part.count == 0)
            continue;
        bool adds =
            training && (e->options.exact ? rungi_engine_adds(e, s % e->slots) : s >= e->slots);
        RUNG_TRY(rungi_engine_find(e, training, loss, adds, part.count, s % e->slots, &e->now[s]));
        e->active++;
        e->turns = s / e->slots + 1;
    }
    if (training && e->group.size) // the first rank has the most
        e->turns = (int)(count < e->rounds ? count : e->rounds);
    if (e->criterion)
        e->criterion->count = 0;
    return e->criterion && loss ? rungi_criterion_plans(e, training, count) : RUNG_OK;
}

rung_status rungi_engine_prepare(rungi_engine *e, bool training, int64_t count)
{
    return e->pipeline ? rungi_pipeline_prepare(e->pipeline, training, true, count)
                       : rungi_engine_plans(e, training, e->graph->loss != 0, count);
}

rung_status rungi_engine_plan(rungi_engine *e, bool training, int64_t count,
                              const rung_plan **plan_out)
{
    if (e->pipeline)
        return rungi_pipeline_plan(e->pipeline, training, count, plan_out);
    RUNG_TRY(rungi_engine_prepare(e, training, count));
    RUNG_CHECK(e->active, RUNG_INVALID, "this rank has no part of a batch of %" PRId64, count);
    *plan_out = e->now[0]->plan;
    return RUNG_OK;
}

const rung_plan *rungi_engine_adding_plan(const rungi_engine *e)
{
    for (int s = 0; s < e->shards; s++)
        if (e->now[s] && e->now[s]->adds)
            return e->now[s]->plan;
    return NULL;
}

bool rungi_engine_stop(const rungi_engine *e)
{
    return e->stop;
}

int rungi_engine_bad_rank(const rungi_engine *e)
{
    return e->bad_rank;
}

const rungi_straggler *rungi_engine_balance(const rungi_engine *e)
{
    return e->exchange && rungi_exchange_ranks(e->exchange) > 1 ? &e->balance : NULL;
}

void rungi_engine_between(rungi_engine *e, rungi_engine_between_fn fn, void *user)
{
    e->between = fn;
    e->between_user = user;
}

rungi_team *rungi_engine_team(const rungi_engine *e)
{
    return e->team;
}

const rungi_exchange *rungi_engine_exchange(const rungi_engine *e)
{
    return e->exchange;
}

const rung_plan *rungi_engine_training_plan(const rungi_engine *e)
{
    if (e->pipeline)
        return rungi_pipeline_training_plan(e->pipeline);
    const rungi_shard_plan *largest = NULL;
    for (size_t i = 0; i < e->entries.count; i++) {
        const rungi_shard_plan *x = e->entries.data[i];
        if (!x->training || x->device)
            continue;
        if (!largest || x->count > largest->count ||
            (x->count == largest->count && x->plan->arena_bytes > largest->plan->arena_bytes))
            largest = x;
    }
    return largest ? largest->plan : NULL;
}

bool rungi_engine_work_of(const rungi_engine *e, int index, rungi_engine_work *out)
{
    if (e->pipeline)
        return rungi_pipeline_work_of(e->pipeline, index, out);
    for (int s = 0; s < e->shards; s++) {
        const rungi_shard_plan *x = e->now[s];
        if (!x || index-- > 0)
            continue;
        *out = (rungi_engine_work){x->plan, rungi_engine_instance(e, s), e->device_of[s % e->slots],
                                   x->count};
        return true;
    }
    const rungi_criterion *c = e->criterion;
    for (int i = 0; c && i < c->count; i++) {
        const rungi_shard_plan *x = c->now[i];
        if ((c->by_shard && !e->now[i]) || index-- > 0)
            continue;
        *out = (rungi_engine_work){x->plan, x->instances[i % e->slots],
                                   e->options.replicas.output_device, x->count};
        return true;
    }
    return false;
}

bool rungi_engine_shard(rungi_engine *e, int index, const rung_plan **plan_out,
                        rungi_instance **instance_out)
{
    if (e->pipeline) {
        const rungi_stage_slot *slot = &e->pipeline->slot[e->pipeline->bad_slot];
        *plan_out = index ? NULL : slot->now->plan;
        *instance_out = index ? NULL : slot->instance;
        return index == 0;
    }
    int s = 0;
    if (index >= e->active)
        return false;
    while (!e->now[s] || index-- > 0)
        s++;
    *plan_out = e->now[s]->plan;
    *instance_out = rungi_engine_instance(e, s);
    return e->rounds == 1 || rungi_engine_bind(e, s / e->slots) == RUNG_OK;
}
