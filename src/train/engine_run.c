// SPDX-License-Identifier: Apache-2.0
// One call of the engine: a batch through all its shards.
#include "train/engine_inside.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/error.h"
#include "optim/optimizer.h"

static size_t sample_bytes(const rungi_engine *e, int value)
{
    const rungi_value *v = &e->graph->values.data[value];
    size_t bytes = rung_dtype_size(v->dtype);
    for (int d = 1; d < v->shape.rank; d++)
        bytes *= (size_t)v->shape.dim[d];
    return bytes;
}

// Place of own shard s among this rank's samples.
static int64_t own_begin(const rungi_engine *e, int s)
{
    return rungi_engine_part(e, e->whole, s).begin - e->batch->begin;
}

// What a shard knows of its place in the whole batch.
static void place(rungi_engine *e, int s)
{
    rungi_runtime *rt = &e->now[s]->instances[s % e->slots]->rt;
    rt->seed = e->batch->seed;
    rt->step = e->batch->step;
    rt->sample_offset = rungi_engine_part(e, e->whole, s).begin;
    rt->normalizer = e->counts;
}

rung_status rungi_engine_bind(rungi_engine *e, int round)
{
    int begin = round * e->slots, end = rungi_engine_round_end(e, round);
    for (int s = begin; s < end; s++)
        place(e, s);
    for (int f = 0; f < e->batch->n_feeds; f++) {
        const rungi_feed *feed = &e->batch->feeds[f];
        int value = 0;
        for (size_t i = 1; i < e->graph->values.count; i++)
            if (e->graph->values.data[i].kind == RUNGI_VALUE_INPUT &&
                strcmp(e->graph->values.data[i].name, feed->input) == 0)
                value = (int)i;
        RUNG_CHECK(value, RUNG_NOT_FOUND, "the graph has no input '%s'", feed->input);
        for (int s = begin; s < end; s++) {
            int tensor = e->now[s]->plan->value_tensor[value];
            if (tensor >= 0)
                rungi_instance_bind(e->now[s]->instances[s % e->slots], tensor,
                                    (const char *)feed->data +
                                        (size_t)own_begin(e, s) * sample_bytes(e, value));
        }
    }
    return RUNG_OK;
}

static int rounds_of(const rungi_engine *e)
{
    return (e->active + e->slots - 1) / e->slots;
}

// Loss divisors over the whole batch: its labels are there before the first round.
static rung_status count_batch(rungi_engine *e)
{
    memset(e->counts, 0, (e->graph->nodes.count + 1) * sizeof *e->counts);
    for (int round = 0; round < rounds_of(e); round++) {
        RUNG_TRY(rungi_engine_bind(e, round));
        for (int s = round * e->slots; s < rungi_engine_round_end(e, round); s++)
            rungi_instance_count(e->now[s]->instances[s % e->slots], e->counts);
    }
    e->stop = e->batch->stop;
    return e->exchange ? rungi_engine_share_counts(e) : RUNG_OK;
}

// Lets kernels that can do it update their parameters, if nothing else needs the gradients.
static void begin_updates(rungi_engine *e)
{
    const rungi_batch_view *b = e->batch;
    e->updating = false;
    if (!e->active)
        return;
    rungi_instance *instance = e->now[0]->instances[0];
    const rung_plan *plan = e->now[0]->plan;
    e->updating = e->training && e->now[0]->has_updates && !e->streams[0] && b->optimizer &&
                  b->update && !rungi_optimizer_needs_all(b->update);
    instance->rt.updates = e->updating ? instance->updates : NULL;
    for (size_t i = 0; e->updating && i < plan->steps.count; i++) {
        int grad = plan->steps.data[i].updates;
        if (grad < 0)
            continue;
        int entry = e->state->entry_of[plan->tensors.data[grad].value];
        int64_t segment = rungi_optimizer_segment_at(b->optimizer, e->state->entries[entry].offset);
        instance->updates[grad] = (rungi_update){0};
        if (segment < 0)
            continue;
        rungi_optim_part *part =
            rungi_optimizer_take(b->optimizer, segment, e->state->params, b->update);
        instance->updates[grad] = (rungi_update){
            .apply = rungi_optimizer_apply_part,
            .apply_scaled = part->plain ? rungi_optimizer_apply_scaled : NULL,
            .self = part,
            .zero_is_nothing = part->plain,
        };
    }
}

// Marks what compute is doing: mark 0 forward, 1 backward, 2 the end.
static rung_status phase(rungi_engine *e, int member, int mark)
{
    static const rungi_category categories[] = {RUNGI_TIME_FORWARD, RUNGI_TIME_BACKWARD,
                                                RUNGI_TIME_OTHER};
    if (member != 0 || !e->options.timeline)
        return RUNG_OK;
    rungi_timeline_work *work = &e->marks[mark];
    *work = (rungi_timeline_work){e->options.timeline, RUNGI_QUEUE_COMPUTE,
                                  e->training ? categories[mark] : RUNGI_TIME_EVAL,
                                  (int64_t)e->batch->step};
    rungi_work_fn fn = mark == 2 ? rungi_timeline_end_work : rungi_timeline_begin_work;
    return e->streams[0] ? rungi_stream_submit(e->streams[0], RUNGI_WORK_MARK, fn, work) : fn(work);
}

rung_status rungi_engine_run_steps(rungi_engine *e, int member, rungi_instance *instance, int begin,
                                   int end)
{
    return e->streams[member] ? rungi_instance_submit(instance, e->streams[member], begin, end)
                              : rungi_instance_run(instance, begin, end);
}

static float loss_of(const rungi_engine *e, int s)
{
    const rungi_instance *instance = e->now[s]->instances[s % e->slots];
    return *(float *)instance->ptr[instance->plan->value_tensor[e->graph->loss]];
}

// Can gradients go out while backward of the last round goes on? Those of exact's shards are added
// first.
static bool overlaps(const rungi_engine *e)
{
    return e->exchange && rungi_exchange_overlaps(e->exchange) &&
           (e->team ? e->shards : e->slots) == 1 && !e->state->device->options.async;
}

// One shard, from its inputs to its gradients. Its loss is read before the next shard of this
// worker takes the arena.
static rung_status run_shard(rungi_engine *e, int member, int s)
{
    rungi_instance *instance = e->now[s]->instances[s % e->slots];
    const rung_plan *plan = e->now[s]->plan;
    RUNG_TRY(phase(e, member, 0));
    RUNG_TRY(rungi_engine_run_steps(e, member, instance, 0, plan->n_forward));
    if (e->training && !(e->updating && !isfinite(loss_of(e, s)))) {
        RUNG_TRY(phase(e, member, 1));
        RUNG_TRY(overlaps(e) && s == e->active - 1
                     ? rungi_engine_backward_overlapped(e, instance)
                     : rungi_engine_run_steps(e, member, instance, plan->n_forward,
                                              (int)plan->steps.count));
    }
    RUNG_TRY(phase(e, member, 2));
    if (e->streams[member])
        RUNG_TRY(rung_stream_sync(e->streams[member]));
    if (e->now[s]->key.loss)
        e->losses[s] = loss_of(e, s);
    return RUNG_OK;
}

// Is output i one value a sample, wanted by the plans under way, and not the loss?
static bool per_sample(const rungi_engine *e, size_t i)
{
    int value = e->graph->outputs.data[i].value;
    const rung_shape *shape = &e->graph->values.data[value].shape;
    return shape->rank > 0 && shape->dim[0] == RUNG_BATCH &&
           e->now[0]->plan->value_tensor[value] >= 0;
}

// A worker's next shard takes the arena, so outputs are copied out after each shard.
static rung_status reserve_outputs(rungi_engine *e)
{
    for (size_t i = 0; i < e->graph->outputs.count; i++) {
        if (!per_sample(e, i))
            continue;
        size_t bytes = (size_t)e->count * sample_bytes(e, e->graph->outputs.data[i].value);
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
    int64_t begin = own_begin(e, s), count = rungi_engine_part(e, e->whole, s).count;
    for (size_t i = 0; i < e->graph->outputs.count; i++) {
        if (!per_sample(e, i))
            continue;
        int value = e->graph->outputs.data[i].value;
        size_t size = sample_bytes(e, value);
        memcpy(e->gathered[i] + (size_t)begin * size,
               e->now[s]->instances[s % e->slots]->ptr[e->now[s]->plan->value_tensor[value]],
               (size_t)count * size);
    }
}

// This worker's shards of the round.
static rung_status run_member(void *arg, int member)
{
    rungi_engine *e = arg;
    int end = rungi_engine_round_end(e, e->round);
    for (int s = e->round * e->slots + member; s < end; s += rungi_engine_workers(e)) {
        RUNG_TRY(run_shard(e, member, s));
        if (rungi_engine_gathers(e))
            gather(e, s);
        if (e->training)
            RUNG_TRY(rungi_engine_keep_statistics(e, s));
    }
    return RUNG_OK;
}

static rung_status add_member(void *arg, int member)
{
    rungi_engine *e = arg;
    int64_t size = e->state->flat_size, workers = rungi_engine_workers(e);
    int64_t unit = (size / workers + RUNGI_TREE_BLOCK - 1) / RUNGI_TREE_BLOCK * RUNGI_TREE_BLOCK;
    int64_t begin = unit * member, end = member == workers - 1 ? size : unit * (member + 1);
    int count = rungi_engine_round_end(e, e->round) - e->round * e->slots;
    begin = begin < size ? begin : size;
    end = end < size ? end : size;
    rungi_tree_add(e->grads, count, begin, end);
    rungi_tree_carry(e->grads[0], e->levels, e->round, e->round == rounds_of(e) - 1, begin, end);
    return RUNG_OK;
}

double rungi_engine_tree_sum(const double *values, int count)
{
    double level[RUNGI_MAX_SHARDS];
    memcpy(level, values, (size_t)count * sizeof *level);
    for (int stride = 1; stride < count; stride *= 2)
        for (int i = 0; i + stride < count; i += 2 * stride)
            level[i] += level[i + stride];
    return count ? level[0] : 0;
}

// Adds nothing to any number, a negative zero included.
static void clear_gradients(rungi_engine *e)
{
    for (int64_t i = 0; i < e->state->flat_size; i++)
        e->grads[0][i] = -0.0f;
}

// A round: its shards, and under exact the sum of their gradients.
static rung_status run_round(rungi_engine *e)
{
    if (e->rounds > 1)
        RUNG_TRY(rungi_engine_bind(e, e->round));
    if (!e->team)
        return run_member(e, 0);
    RUNG_TRY(rungi_team_run(e->team, run_member, e));
    return e->training && e->active > 1 ? rungi_team_run(e->team, add_member, e) : RUNG_OK;
}

static rung_status compute(rungi_engine *e)
{
    if (!e->active) {
        if (e->training)
            clear_gradients(e);
        for (int i = 0; e->training && overlaps(e) && i < rungi_exchange_buckets(e->exchange); i++)
            RUNG_TRY(rungi_exchange_start(e->exchange, i)); // in the order of the others' calls
        return RUNG_OK;
    }
    if (rungi_engine_gathers(e))
        RUNG_TRY(reserve_outputs(e));
    for (e->round = 0; e->round < rounds_of(e); e->round++)
        RUNG_TRY(run_round(e));
    return RUNG_OK;
}

// After backward of all own shards: running statistics, and gradients of the other ranks.
static rung_status put_together(rungi_engine *e)
{
    RUNG_TRY(rungi_engine_finish_statistics(e));
    return e->exchange ? rungi_engine_share_gradients(e) : RUNG_OK;
}

static rung_status check_batch(rungi_engine *e)
{
    const rungi_batch_view *b = e->batch;
    int64_t own = 0;
    RUNG_CHECK(e->whole >= 1, RUNG_INVALID, "an empty batch cannot be run");
    for (int s = 0; s < e->shards; s++)
        own += rungi_engine_part(e, e->whole, s).count;
    RUNG_CHECK(own == b->count && rungi_engine_part(e, e->whole, 0).begin == b->begin, RUNG_INVALID,
               "samples %" PRId64 " to %" PRId64 " of a batch of %" PRId64
               " are not this rank's part",
               b->begin, b->begin + b->count, e->whole);
    return RUNG_OK;
}

// Keeps the batch for the call, and for rungi_engine_shard after it.
static rung_status take(rungi_engine *e, const rungi_batch_view *batch)
{
    RUNG_CHECK(batch->n_feeds <= RUNGI_ENGINE_FEEDS, RUNG_UNSUPPORTED, "%d inputs; at most %d work",
               batch->n_feeds, RUNGI_ENGINE_FEEDS);
    e->view = *batch;
    for (int i = 0; i < batch->n_feeds; i++)
        e->feeds[i] = batch->feeds[i];
    e->view.feeds = e->feeds;
    e->batch = &e->view;
    e->count = batch->count;
    e->whole = batch->global_count ? batch->global_count : batch->count;
    return RUNG_OK;
}

static rung_status run(rungi_engine *e, const rungi_batch_view *batch, bool training, bool loss,
                       double *loss_out)
{
    double losses[RUNGI_MAX_SHARDS], sum;
    RUNG_TRY(take(e, batch));
    e->training = training;
    rungi_engine_cut(e, training);
    RUNG_TRY(check_batch(e));
    RUNG_TRY(rungi_engine_plans(e, training, loss, e->whole));
    RUNG_TRY(loss ? count_batch(e) : rungi_engine_bind(e, 0));
    begin_updates(e);
    if (training)
        RUNG_TRY(rungi_engine_open_statistics(e));
    if (e->exchange)
        e->began = rungi_now(rung_device_context(e->state->device));
    RUNG_TRY(compute(e));
    for (int s = 0; s < e->active; s++)
        losses[s] = e->losses[s];
    sum = rungi_engine_tree_sum(losses, e->active);
    e->bad_rank = isfinite(sum) ? -1 : 0;
    if (loss && e->exchange)
        RUNG_TRY(rungi_engine_share_loss(e, &sum));
    if (training)
        RUNG_TRY(put_together(e));
    if (loss_out)
        *loss_out = sum;
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
    RUNG_CHECK(e->active, RUNG_INVALID, "this rank had no sample of the batch");
    RUNG_TRY(rung_plan_output(e->now[0]->plan, name, &view));
    for (size_t i = 0; rungi_engine_gathers(e) && i < e->graph->outputs.count; i++) {
        if (strcmp(e->graph->outputs.data[i].name, name) != 0)
            continue;
        RUNG_CHECK(per_sample(e, i), RUNG_UNSUPPORTED,
                   "output '%s' is not one value a sample: it cannot be put together from shards",
                   name);
        view.data = e->gathered[i];
        view.shape.dim[0] = e->count;
    }
    *view_out = view;
    return RUNG_OK;
}
