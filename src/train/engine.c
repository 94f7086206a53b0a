// SPDX-License-Identifier: Apache-2.0
#include "train/engine.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "train/shards.h"

// A plan for one size of shard, with an instance for each shard that needs one.
typedef struct entry {
    bool training, loss;
    int64_t count;
    rung_plan *plan;
    rungi_instance *instances[RUNGI_MAX_SHARDS]; // [0] is the plan's own
} entry;

struct rungi_engine {
    const rung_graph *graph;
    rung_state *state;
    rungi_engine_options options;
    int shards, threads; // shards of a batch; threads that a shard is computed with
    rungi_team *team;    // under exact: workers that run shards at once
    rung_arena *arenas[RUNGI_MAX_SHARDS];
    float *grads[RUNGI_MAX_SHARDS]; // [0] is the state's
    RUNGI_ARRAY(entry *) entries;
    double *counts; // loss divisors by node
    // of the call under way
    const rungi_batch_view *batch;
    bool training;
    entry *now[RUNGI_MAX_SHARDS];
    float losses[RUNGI_MAX_SHARDS];
    int active;      // shards that have samples
    char **gathered; // under exact, by output: its values of all shards
    size_t *gathered_bytes;
};

static int workers_of(const rungi_engine *e)
{
    return e->team ? rungi_team_size(e->team) : 1;
}

// ---- life -------------------------------------------------------------------------------------

static rung_status make_exact(rungi_engine *e, int threads)
{
    int s = e->options.shards;
    RUNG_CHECK(s >= 1 && s <= RUNGI_MAX_SHARDS && (s & (s - 1)) == 0, RUNG_CONFIG,
               "train.shards is %d; it must be a power of two up to %d", s, RUNGI_MAX_SHARDS);
    e->shards = s;
    e->threads = 1;
    RUNG_TRY(rungi_team_create(threads < s ? threads : s, &e->team));
    for (int i = 1; i < s; i++) {
        uint64_t bytes = (uint64_t)e->state->flat_size * sizeof(float);
        RUNG_TRY(rung_device_alloc(e->state->device, bytes, "gradients of a shard",
                                   (void **)&e->grads[i]));
        memset(e->grads[i], 0, bytes);
    }
    return RUNG_OK;
}

static rung_status make(rungi_engine *e)
{
    int threads = e->options.threads ? e->options.threads : rung_device_threads(e->state->device);
    e->shards = 1;
    e->threads = threads;
    e->grads[0] = e->state->grads;
    e->counts = calloc(e->graph->nodes.count + 1, sizeof *e->counts);
    e->gathered = calloc(e->graph->outputs.count + 1, sizeof *e->gathered);
    e->gathered_bytes = calloc(e->graph->outputs.count + 1, sizeof *e->gathered_bytes);
    RUNG_CHECK(e->counts && e->gathered && e->gathered_bytes, RUNG_NO_MEMORY,
               "no memory for an engine");
    if (e->options.exact)
        RUNG_TRY(make_exact(e, threads));
    for (int i = 0; i < workers_of(e); i++)
        RUNG_TRY(rung_arena_create(e->state->device, &e->arenas[i]));
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
        entry *x = e->entries.data[i];
        for (int s = 1; s < RUNGI_MAX_SHARDS; s++)
            rungi_instance_destroy(&x->instances[s]);
        rung_plan_destroy(&x->plan);
        free(x);
    }
    rungi_array_fini(&e->entries);
    for (int i = 0; i < RUNGI_MAX_SHARDS; i++) {
        rung_arena_destroy(&e->arenas[i]);
        if (i)
            rung_device_free(e->state->device, e->grads[i]);
    }
    for (size_t i = 0; e->gathered && i < e->graph->outputs.count; i++)
        free(e->gathered[i]);
    free(e->gathered);
    free(e->gathered_bytes);
    free(e->counts);
    free(e);
    *engine = NULL;
}

// ---- plans ------------------------------------------------------------------------------------

static rung_status compile(rungi_engine *e, entry *x)
{
    const char *no_loss[64];
    int n = 0;
    for (size_t i = 0; i < e->graph->outputs.count && n < 64; i++)
        if (strcmp(e->graph->outputs.data[i].name, "loss") != 0)
            no_loss[n++] = e->graph->outputs.data[i].name;
    rung_compile_options o = {.batch = x->count,
                              .training = x->training,
                              .gradients = x->training,
                              .outputs = x->loss ? NULL : no_loss,
                              .n_outputs = x->loss ? 0 : n,
                              .threads = e->threads,
                              .fuse = e->options.fuse,
                              .layout = e->options.layout,
                              .kernels = e->options.kernels,
                              .arena = e->arenas[0]};
    RUNG_TRY(rung_compile(e->graph, e->state, &o, &x->plan));
    x->instances[0] = x->plan->instance;
    return RUNG_OK;
}

static rung_status find(rungi_engine *e, bool training, bool loss, int64_t count, int shard,
                        entry **entry_out)
{
    entry *x = NULL;
    for (size_t i = 0; i < e->entries.count && !x; i++) {
        entry *y = e->entries.data[i];
        if (y->training == training && y->loss == loss && y->count == count)
            x = y;
    }
    if (!x) {
        x = calloc(1, sizeof *x);
        RUNG_CHECK(x, RUNG_NO_MEMORY, "no memory for a plan");
        *x = (entry){.training = training, .loss = loss, .count = count};
        rung_status status = compile(e, x);
        if (status == RUNG_OK && !rungi_array_push(&e->entries, x))
            status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a plan");
        if (status != RUNG_OK) {
            rung_plan_destroy(&x->plan);
            free(x);
            return status;
        }
    }
    if (!x->instances[shard])
        RUNG_TRY(rungi_instance_create(x->plan, e->arenas[shard % workers_of(e)], e->grads[shard],
                                       false, &x->instances[shard]));
    *entry_out = x;
    return RUNG_OK;
}

static rung_status prepare(rungi_engine *e, bool training, bool loss, int64_t count)
{
    e->active = 0;
    for (int s = 0; s < e->shards; s++) {
        rungi_shard part = rungi_shard_of(count, e->shards, s);
        if (part.count == 0)
            break;
        RUNG_TRY(find(e, training, loss, part.count, s, &e->now[s]));
        e->active++;
    }
    return RUNG_OK;
}

rung_status rungi_engine_prepare(rungi_engine *e, bool training, int64_t count)
{
    return prepare(e, training, e->graph->loss != 0, count);
}

rung_status rungi_engine_plan(rungi_engine *e, bool training, int64_t count,
                              const rung_plan **plan_out)
{
    RUNG_TRY(rungi_engine_prepare(e, training, count));
    *plan_out = e->now[0]->plan;
    return RUNG_OK;
}

// ---- a step -----------------------------------------------------------------------------------

static size_t sample_bytes(const rungi_engine *e, int value)
{
    const rungi_value *v = &e->graph->values.data[value];
    size_t bytes = rung_dtype_size(v->dtype);
    for (int d = 1; d < v->shape.rank; d++)
        bytes *= (size_t)v->shape.dim[d];
    return bytes;
}

static rung_status bind(rungi_engine *e)
{
    for (int f = 0; f < e->batch->n_feeds; f++) {
        const rungi_feed *feed = &e->batch->feeds[f];
        int value = 0;
        for (size_t i = 1; i < e->graph->values.count; i++)
            if (e->graph->values.data[i].kind == RUNGI_VALUE_INPUT &&
                strcmp(e->graph->values.data[i].name, feed->input) == 0)
                value = (int)i;
        RUNG_CHECK(value, RUNG_NOT_FOUND, "the graph has no input '%s'", feed->input);
        for (int s = 0; s < e->active; s++) {
            int tensor = e->now[s]->plan->value_tensor[value];
            rungi_shard part = rungi_shard_of(e->batch->count, e->shards, s);
            if (tensor >= 0)
                rungi_instance_bind(e->now[s]->instances[s], tensor,
                                    (const char *)feed->data +
                                        (size_t)part.begin * sample_bytes(e, value));
        }
    }
    return RUNG_OK;
}

// Loss divisors over the whole batch, and each shard's place in it.
static void count_batch(rungi_engine *e)
{
    memset(e->counts, 0, (e->graph->nodes.count + 1) * sizeof *e->counts);
    for (int s = 0; s < e->active; s++)
        rungi_instance_count(e->now[s]->instances[s], e->counts);
    for (int s = 0; s < e->active; s++) {
        rungi_runtime *rt = &e->now[s]->instances[s]->rt;
        rt->seed = e->batch->seed;
        rt->step = e->batch->step;
        rt->sample_offset = rungi_shard_of(e->batch->count, e->shards, s).begin;
        rt->normalizer = e->counts;
    }
}

static void phase(rungi_engine *e, int member, rungi_category category)
{
    if (member == 0 && e->options.timeline)
        rungi_timeline_begin(e->options.timeline, RUNGI_QUEUE_COMPUTE,
                             e->training ? category : RUNGI_TIME_EVAL, (int64_t)e->batch->step);
}

// One shard, from its inputs to its gradients. Its loss is read before the next shard of this
// worker takes the arena.
static rung_status run_shard(rungi_engine *e, int member, int s)
{
    rungi_instance *instance = e->now[s]->instances[s];
    const rung_plan *plan = e->now[s]->plan;
    phase(e, member, RUNGI_TIME_FORWARD);
    RUNG_TRY(rungi_instance_run(instance, 0, plan->n_forward));
    if (e->now[s]->loss)
        e->losses[s] = *(float *)instance->ptr[plan->value_tensor[e->graph->loss]];
    if (!e->training)
        return RUNG_OK;
    phase(e, member, RUNGI_TIME_BACKWARD);
    return rungi_instance_run(instance, plan->n_forward, (int)plan->steps.count);
}

// Is output i one value a sample, wanted by the plans under way, and not the loss?
static bool per_sample(const rungi_engine *e, size_t i)
{
    int value = e->graph->outputs.data[i].value;
    const rung_shape *shape = &e->graph->values.data[value].shape;
    return shape->rank > 0 && shape->dim[0] == RUNG_BATCH &&
           e->now[0]->plan->value_tensor[value] >= 0;
}

// Under exact a worker's next shard takes the arena, so outputs are copied out after each shard.
static rung_status reserve_outputs(rungi_engine *e)
{
    for (size_t i = 0; i < e->graph->outputs.count; i++) {
        if (!per_sample(e, i))
            continue;
        size_t bytes = (size_t)e->batch->count * sample_bytes(e, e->graph->outputs.data[i].value);
        if (bytes <= e->gathered_bytes[i])
            continue;
        char *data = realloc(e->gathered[i], bytes);
        RUNG_CHECK(data, RUNG_NO_MEMORY, "no memory for output '%s'",
                   e->graph->outputs.data[i].name);
        e->gathered[i] = data;
        e->gathered_bytes[i] = bytes;
    }
    return RUNG_OK;
}

static void gather(rungi_engine *e, int s)
{
    rungi_shard part = rungi_shard_of(e->batch->count, e->shards, s);
    for (size_t i = 0; i < e->graph->outputs.count; i++) {
        if (!per_sample(e, i))
            continue;
        int value = e->graph->outputs.data[i].value;
        size_t size = sample_bytes(e, value);
        memcpy(e->gathered[i] + (size_t)part.begin * size,
               e->now[s]->instances[s]->ptr[e->now[s]->plan->value_tensor[value]],
               (size_t)part.count * size);
    }
}

static rung_status run_member(void *arg, int member)
{
    rungi_engine *e = arg;
    for (int s = member; s < e->active; s += workers_of(e)) {
        RUNG_TRY(run_shard(e, member, s));
        gather(e, s);
    }
    return RUNG_OK;
}

static rung_status add_member(void *arg, int member)
{
    rungi_engine *e = arg;
    int64_t size = e->state->flat_size, workers = workers_of(e);
    int64_t unit = (size / workers + RUNGI_TREE_BLOCK - 1) / RUNGI_TREE_BLOCK * RUNGI_TREE_BLOCK;
    int64_t begin = unit * member, end = member == workers - 1 ? size : unit * (member + 1);
    rungi_tree_add(e->grads, e->active, begin < size ? begin : size, end < size ? end : size);
    return RUNG_OK;
}

static double tree_sum(const float *values, int count)
{
    double level[RUNGI_MAX_SHARDS];
    for (int i = 0; i < count; i++)
        level[i] = values[i];
    for (int stride = 1; stride < count; stride *= 2)
        for (int i = 0; i + stride < count; i += 2 * stride)
            level[i] += level[i + stride];
    return count ? level[0] : 0;
}

static rung_status run(rungi_engine *e, const rungi_batch_view *batch, bool training, bool loss,
                       double *loss_out)
{
    RUNG_CHECK(batch->count >= 1, RUNG_INVALID, "an empty batch cannot be run");
    e->batch = batch;
    e->training = training;
    RUNG_TRY(prepare(e, training, loss, batch->count));
    RUNG_TRY(bind(e));
    if (loss)
        count_batch(e);
    if (e->team) {
        RUNG_TRY(reserve_outputs(e));
        RUNG_TRY(rungi_team_run(e->team, run_member, e));
    } else {
        RUNG_TRY(run_shard(e, 0, 0));
    }
    if (training) {
        rungi_instance *shards[RUNGI_MAX_SHARDS];
        for (int s = 0; s < e->active; s++)
            shards[s] = e->now[s]->instances[s];
        RUNG_TRY(rungi_instances_finish(shards, e->active));
        if (e->active > 1)
            RUNG_TRY(rungi_team_run(e->team, add_member, e));
    }
    if (e->options.timeline)
        rungi_timeline_end(e->options.timeline, RUNGI_QUEUE_COMPUTE);
    if (loss_out)
        *loss_out = tree_sum(e->losses, e->active);
    return RUNG_OK;
}

rung_status rungi_engine_train(rungi_engine *e, const rungi_batch_view *batch, double *loss_out)
{
    return run(e, batch, true, true, loss_out);
}

rung_status rungi_engine_eval(rungi_engine *e, const rungi_batch_view *batch, double *loss_out)
{
    return run(e, batch, false, loss_out != NULL, loss_out);
}

rung_status rungi_engine_output(rungi_engine *e, const char *name, rung_view *view_out)
{
    rung_view view;
    RUNG_TRY(rung_plan_output(e->now[0]->plan, name, &view));
    for (size_t i = 0; e->team && i < e->graph->outputs.count; i++) {
        if (strcmp(e->graph->outputs.data[i].name, name) != 0)
            continue;
        RUNG_CHECK(per_sample(e, i), RUNG_UNSUPPORTED,
                   "output '%s' is not one value a sample: it cannot be put together from shards",
                   name);
        view.data = e->gathered[i];
        view.shape.dim[0] = e->batch->count;
    }
    *view_out = view;
    return RUNG_OK;
}

uint64_t rungi_engine_bytes(const rungi_engine *e)
{
    uint64_t bytes = 0;
    for (int i = 0; i < RUNGI_MAX_SHARDS; i++) {
        bytes += e->arenas[i] ? e->arenas[i]->bytes : 0;
        bytes += i && e->grads[i] ? (uint64_t)e->state->flat_size * sizeof(float) : 0;
    }
    return bytes;
}
