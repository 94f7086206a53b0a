// SPDX-License-Identifier: Apache-2.0
#include "train/engine_inside.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

// ---- life -------------------------------------------------------------------------------------

static int rank_count(const rungi_engine *e)
{
    return e->exchange ? rungi_exchange_ranks(e->exchange) : 1;
}

static rung_status make_gradients(rungi_engine *e, const char *what, float **out)
{
    uint64_t bytes = (uint64_t)e->state->flat_size * sizeof(float);
    RUNG_TRY(rung_device_alloc(e->state->device, bytes, what, (void **)out));
    memset(*out, 0, bytes);
    return RUNG_OK;
}

static rung_status make_exact(rungi_engine *e, int threads)
{
    int s = e->options.shards;
    RUNG_CHECK(s >= 1 && s <= RUNGI_MAX_SHARDS && (s & (s - 1)) == 0, RUNG_CONFIG,
               "train.shards is %d; it must be a power of two up to %d", s, RUNGI_MAX_SHARDS);
    int ranks = rank_count(e);
    RUNG_CHECK((ranks & (ranks - 1)) == 0 && ranks <= s, RUNG_CONFIG,
               "exact with %d ranks: there must be 1, 2, 4, ... of them, at most train.shards, "
               "which is %d",
               ranks, s);
    int rounds = e->options.accumulate;
    RUNG_CHECK((rounds & (rounds - 1)) == 0, RUNG_CONFIG,
               "train.accumulate is %d; with exact it must be a power of two", rounds);
    e->slots = s / ranks;
    e->threads = 1;
    RUNG_TRY(rungi_team_create(threads < e->slots ? threads : e->slots, &e->team));
    for (int i = 1; i < e->slots; i++)
        RUNG_TRY(make_gradients(e, "gradients of a shard", &e->grads[i]));
    for (int i = 0; i < rungi_tree_levels(rounds); i++)
        RUNG_TRY(make_gradients(e, "gradients of micro-batches", &e->levels[i]));
    return RUNG_OK;
}

void rungi_engine_cut(rungi_engine *e, bool training)
{
    e->rounds = training ? e->options.accumulate : 1;
    e->shards = e->slots * e->rounds;
    e->total = e->shards * rank_count(e);
    e->first = e->exchange ? rungi_exchange_rank(e->exchange) * e->shards : 0;
}

static rung_status make(rungi_engine *e)
{
    int threads = e->options.threads ? e->options.threads : rung_device_threads(e->state->device);
    if (e->options.exchange.comm)
        RUNG_TRY(rungi_exchange_create(e->state, &e->options.exchange, &e->exchange));
    e->slots = 1;
    if (e->exchange)
        rungi_straggler_init(&e->balance, rank_count(e));
    e->threads = threads;
    e->grads[0] = e->state->grads;
    e->counts = calloc(e->graph->nodes.count + 1, sizeof *e->counts);
    e->gathered = calloc(e->graph->outputs.count + 1, sizeof *e->gathered);
    e->gathered_bytes = calloc(e->graph->outputs.count + 1, sizeof *e->gathered_bytes);
    e->numbers = calloc(e->graph->nodes.count + 2, sizeof *e->numbers);
    RUNG_CHECK(e->counts && e->gathered && e->gathered_bytes && e->numbers, RUNG_NO_MEMORY,
               "no memory for an engine");
    for (size_t i = 0; i < e->graph->nodes.count; i++)
        if (e->graph->nodes.data[i].op->normalizer)
            RUNG_CHECK(rungi_array_push(&e->divided, (int)i), RUNG_NO_MEMORY,
                       "no memory for an engine");
    if (e->options.exact)
        RUNG_TRY(make_exact(e, threads));
    int64_t total = (int64_t)e->slots * e->options.accumulate * rank_count(e);
    RUNG_CHECK(total <= RUNGI_MAX_SHARDS, RUNG_CONFIG,
               "a batch of %d ranks would be cut into %lld parts (train.accumulate is %d); at most "
               "%d work",
               rank_count(e), (long long)total, e->options.accumulate, RUNGI_MAX_SHARDS);
    rungi_engine_cut(e, true);
    const rung_device_options *device = &e->state->device->options;
    for (int i = 0; i < rungi_engine_workers(e); i++) {
        RUNG_TRY(rung_arena_create(e->state->device, &e->arenas[i]));
        if (device->async || device->delay_op || device->op_rate > 0)
            RUNG_TRY(rung_stream_create(e->state->device, &e->streams[i]));
    }
    return RUNG_OK;
}

rung_status rungi_engine_create(const rung_graph *graph, rung_state *state,
                                const rungi_engine_options *options, rungi_engine **engine_out)
{
    rungi_engine *e = calloc(1, sizeof *e);
    RUNG_CHECK(e, RUNG_NO_MEMORY, "no memory for an engine");
    e->graph = graph;
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
    for (size_t i = 0; i < e->entries.count; i++) {
        rungi_shard_plan *x = e->entries.data[i];
        for (int s = 1; s < RUNGI_MAX_SHARDS; s++)
            rungi_instance_destroy(&x->instances[s]);
        for (int s = 0; s < RUNGI_MAX_SHARDS; s++)
            rungi_instance_destroy(&x->remote[s]);
        rung_plan_destroy(&x->plan);
        free(x->ready);
        free(x);
    }
    rungi_array_fini(&e->entries);
    for (int i = 0; i < RUNGI_MAX_SHARDS; i++) {
        rung_stream_destroy(&e->streams[i]);
        rung_arena_destroy(&e->arenas[i]);
        if (i)
            rung_device_free(e->state->device, e->grads[i]);
    }
    for (int i = 0; i < RUNGI_ENGINE_LEVELS; i++)
        rung_device_free(e->state->device, e->levels[i]);
    rung_device_free(e->state->device, e->own_room);
    for (size_t i = 0; e->gathered && i < e->graph->outputs.count; i++)
        free(e->gathered[i]);
    free(e->gathered);
    free(e->gathered_bytes);
    rungi_exchange_destroy(&e->exchange);
    rungi_array_fini(&e->divided);
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
                                                    !e->exchange && e->options.accumulate == 1,
                                  .layout = e->options.layout,
                                  .kernels = e->options.kernels,
                                  .winograd = e->options.winograd,
                                  .tuning = e->options.tuning,
                                  .recompute = e->options.recompute,
                                  .recompute_layers = e->options.recompute_layers,
                                  .n_recompute_layers = e->options.n_recompute_layers,
                                  .budget = e->options.budget,
                                  .arena = e->arenas[0]};
}

int rungi_engine_width(const rungi_engine *e)
{
    return rungi_engine_workers(e);
}

int rungi_engine_round_shards(const rungi_engine *e)
{
    return e->slots;
}

int rungi_engine_rounds(const rungi_engine *e)
{
    return e->options.accumulate;
}

int rungi_engine_gradient_buffers(const rungi_engine *e)
{
    return e->slots + (e->team ? rungi_tree_levels(e->options.accumulate) : 0);
}

static rung_status compile(rungi_engine *e, rungi_shard_plan *x)
{
    const char *no_loss[64];
    int n = 0;
    for (size_t i = 0; i < e->graph->outputs.count && n < 64; i++)
        if (strcmp(e->graph->outputs.data[i].name, "loss") != 0)
            no_loss[n++] = e->graph->outputs.data[i].name;
    rung_compile_options o = rungi_engine_plan_options(e, x->key.training, x->key.count);
    o.accumulate = x->key.adds;
    if (!x->key.loss) {
        o.outputs = no_loss;
        o.n_outputs = n;
    }
    RUNG_TRY(rung_compile(e->graph, e->state, &o, &x->plan));
    x->instances[0] = x->plan->instance;
    for (size_t i = 0; i < x->plan->steps.count; i++)
        x->has_updates |= x->plan->steps.data[i].updates >= 0;
    if (!e->exchange || !x->key.training)
        return RUNG_OK;
    x->ready = calloc((size_t)rungi_exchange_buckets(e->exchange) + 1, sizeof *x->ready);
    RUNG_CHECK(x->ready, RUNG_NO_MEMORY, "no memory for a plan");
    return rungi_exchange_ready(e->exchange, x->plan, x->ready);
}

static rungi_shard_plan *compiled(const rungi_engine *e, const rungi_plan_key *key)
{
    for (size_t i = 0; i < e->entries.count; i++) {
        const rungi_plan_key *k = &e->entries.data[i]->key;
        if (k->training == key->training && k->loss == key->loss && k->adds == key->adds &&
            k->count == key->count)
            return e->entries.data[i];
    }
    return NULL;
}

rung_status rungi_engine_find(rungi_engine *e, const rungi_plan_key *key, int slot,
                              rungi_shard_plan **entry_out)
{
    rungi_shard_plan *x = compiled(e, key);
    if (!x) {
        x = calloc(1, sizeof *x);
        RUNG_CHECK(x, RUNG_NO_MEMORY, "no memory for a plan");
        x->key = *key;
        rung_status status = compile(e, x);
        if (status == RUNG_OK && !rungi_array_push(&e->entries, x))
            status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a plan");
        if (status != RUNG_OK) {
            rung_plan_destroy(&x->plan);
            free(x->ready);
            free(x);
            return status;
        }
    }
    if (slot >= 0 && !x->instances[slot])
        RUNG_TRY(rungi_instance_create(x->plan, e->arenas[slot % rungi_engine_workers(e)],
                                       e->grads[slot], false, &x->instances[slot]));
    *entry_out = x;
    return RUNG_OK;
}

rung_status rungi_engine_plans(rungi_engine *e, bool training, bool loss, int64_t count)
{
    e->active = 0;
    rungi_engine_cut(e, training);
    if (training && !e->looked)
        RUNG_TRY(rungi_engine_check_unused(e));
    for (int s = 0; s < e->shards; s++) {
        rungi_plan_key key = {.training = training,
                              .loss = loss,
                              .adds = !e->team && s > 0,
                              .count = rungi_engine_part(e, count, s).count};
        if (key.count == 0)
            break;
        RUNG_TRY(rungi_engine_find(e, &key, s % e->slots, &e->now[s]));
        e->active++;
    }
    return RUNG_OK;
}

rung_status rungi_engine_prepare(rungi_engine *e, bool training, int64_t count)
{
    return rungi_engine_plans(e, training, e->graph->loss != 0, count);
}

rung_status rungi_engine_plan(rungi_engine *e, bool training, int64_t count,
                              const rung_plan **plan_out)
{
    RUNG_TRY(rungi_engine_prepare(e, training, count));
    RUNG_CHECK(e->active, RUNG_INVALID, "this rank has no part of a batch of %" PRId64, count);
    *plan_out = e->now[0]->plan;
    return RUNG_OK;
}

const rung_plan *rungi_engine_adding_plan(const rungi_engine *e)
{
    for (int s = 0; s < e->active; s++)
        if (e->now[s]->key.adds)
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
    return e->exchange && rank_count(e) > 1 ? &e->balance : NULL;
}

const rungi_exchange *rungi_engine_exchange(const rungi_engine *e)
{
    return e->exchange;
}

const rung_plan *rungi_engine_training_plan(const rungi_engine *e)
{
    const rungi_shard_plan *largest = NULL;
    for (size_t i = 0; i < e->entries.count; i++) {
        const rungi_shard_plan *x = e->entries.data[i];
        if (!x->key.training)
            continue;
        if (!largest || x->key.count > largest->key.count ||
            (x->key.count == largest->key.count &&
             x->plan->arena_bytes > largest->plan->arena_bytes))
            largest = x;
    }
    return largest ? largest->plan : NULL;
}

bool rungi_engine_shard(rungi_engine *e, int index, const rung_plan **plan_out,
                        rungi_instance **instance_out)
{
    if (index >= e->active)
        return false;
    *plan_out = e->now[index]->plan;
    *instance_out = e->now[index]->instances[index % e->slots];
    return e->rounds == 1 || rungi_engine_bind(e, index / e->slots) == RUNG_OK;
}
