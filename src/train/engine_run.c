// SPDX-License-Identifier: Apache-2.0
// One call of the engine: a batch through all its shards.
#include "train/pipeline_inside.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/error.h"
#include "optim/optimizer.h"

int64_t rungi_engine_clock_now(const rungi_engine *e)
{
    return rungi_now(rung_device_context(e->state->device));
}

// What a shard knows of its place in the whole batch.
static void place(rungi_engine *e, int s)
{
    rungi_runtime *rt = &rungi_engine_instance(e, s)->rt;
    rt->seed = e->batch->seed;
    rt->step = e->batch->step;
    rt->sample_offset =
        e->batch->begin + rungi_engine_part(e, e->whole, s).begin - rungi_engine_origin(e);
    rt->normalizer = e->counts;
    rt->group = e->group.size && e->training ? &e->group : NULL;
    rungi_instance_set_loss_scale(rungi_engine_instance(e, s),
                                  e->batch->loss_scale > 0 ? (float)e->batch->loss_scale : 1);
}

rung_status rungi_engine_bind(rungi_engine *e, int round)
{
    int begin = round * e->slots, end = rungi_engine_round_end(e, round);
    for (int s = begin; s < end; s++)
        if (e->now[s])
            place(e, s);
    for (int f = 0; f < e->batch->n_feeds; f++) {
        const char *name = e->batch->feeds[f].input;
        RUNG_CHECK(rungi_input_of(e->graph, name), RUNG_NOT_FOUND, "the graph has no input '%s'",
                   name);
        int value = rungi_input_of(e->model, name);
        for (int s = begin; s < end && value; s++) {
            if (!e->now[s])
                continue;
            int tensor = e->now[s]->plan->value_tensor[value];
            size_t size = rungi_sample_bytes(e->model, value);
            if (tensor >= 0)
                rungi_instance_bind(rungi_engine_instance(e, s), tensor,
                                    rungi_engine_input(e, f, s, size));
        }
    }
    if (e->criterion)
        rungi_criterion_bind(e, round);
    return RUNG_OK;
}

// Loss divisors over the whole batch: its labels are there before the first round.
static rung_status count_batch(rungi_engine *e)
{
    memset(e->counts, 0, (e->graph->nodes.count + 1) * sizeof *e->counts);
    for (int round = 0; round < e->turns; round++) {
        if (e->rounds > 1)
            RUNG_TRY(rungi_engine_bind(e, round));
        for (int s = round * e->slots; s < rungi_engine_round_end(e, round); s++)
            if (e->now[s])
                rungi_instance_count(rungi_engine_instance(e, s), e->counts);
        if (e->criterion)
            rungi_criterion_count(e, round);
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
                  b->update && !rungi_optimizer_needs_all(b->update) && !b->update->measure &&
                  !b->update->low;
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

rung_status rungi_engine_phase(rungi_engine *e, int member, int mark)
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
    int stride = e->between && !e->team ? 1 : end - begin;
    for (int i = begin; i < end; i += stride) {
        RUNG_TRY(e->streams[member]
                     ? rungi_instance_submit(instance, e->streams[member], i, i + stride)
                     : rungi_instance_run(instance, i, i + stride));
        if (e->between && !e->team)
            RUNG_TRY(e->between(e->between_user));
    }
    return RUNG_OK;
}

static float loss_of(const rungi_engine *e, int s)
{
    const rungi_instance *instance = rungi_engine_instance(e, s);
    return *(float *)instance->ptr[instance->plan->value_tensor[e->graph->loss]];
}

// Can gradients go out while backward of the last round goes on? Those of exact's shards are added
// first.
static bool overlaps(const rungi_engine *e)
{
    return e->exchange && rungi_exchange_overlaps(e->exchange) && !e->left &&
           (e->team ? e->shards : e->slots) == 1 && !e->state->device->options.async;
}

// One shard, from its inputs to its gradients. Its loss is read before the next shard of this
// worker takes the arena.
static rung_status run_shard(rungi_engine *e, int member, int s)
{
    rungi_instance *instance = rungi_engine_instance(e, s);
    const rung_plan *plan = e->now[s]->plan;
    RUNG_TRY(rungi_engine_phase(e, member, 0));
    RUNG_TRY(rungi_engine_run_steps(e, member, instance, 0, plan->n_forward));
    if (e->training && !(e->updating && !isfinite(loss_of(e, s)))) {
        RUNG_TRY(rungi_engine_phase(e, member, 1));
        bool last = s / e->slots == e->turns - 1;
        RUNG_TRY(last && overlaps(e) ? rungi_engine_backward_overlapped(e, instance)
                 : last && rungi_engine_sums_gradients(e)
                     ? rungi_engine_backward_summed(e, instance)
                     : rungi_engine_run_steps(e, member, instance, plan->n_forward,
                                              (int)plan->steps.count));
    }
    RUNG_TRY(rungi_engine_phase(e, member, 2));
    if (e->streams[member])
        RUNG_TRY(rung_stream_sync(e->streams[member]));
    if (e->now[s]->loss)
        e->losses[s] = loss_of(e, s);
    return RUNG_OK;
}

void rungi_engine_note_busy(rungi_engine *e, int member, int64_t began)
{
    if (e->training)
        e->busy[member] += rungi_engine_clock_now(e) - began;
}

void rungi_engine_wait_for_others(rungi_engine *e, int member, rungi_queue queue,
                                  rungi_category category)
{
    if (member == 0 && e->devices > 1 && e->options.timeline)
        rungi_timeline_begin(e->options.timeline, queue, e->training ? category : RUNGI_TIME_EVAL,
                             (int64_t)e->batch->step);
}

rung_status rungi_engine_run_team(rungi_engine *e, rungi_team_fn fn)
{
    rung_status status = rungi_team_run(e->team, fn, e);
    if (e->devices > 1 && e->options.timeline) {
        rungi_timeline_end(e->options.timeline, RUNGI_QUEUE_EXCHANGE);
        rungi_timeline_end(e->options.timeline, RUNGI_QUEUE_COPY);
    }
    return status;
}

// This worker's shards of the round.
static rung_status run_member(void *arg, int member)
{
    rungi_engine *e = arg;
    for (int s = e->round * e->slots; s < rungi_engine_round_end(e, e->round); s++) {
        if (!e->now[s] || e->worker_of[s % e->slots] != member)
            continue;
        int64_t began = rungi_engine_clock_now(e);
        RUNG_TRY(run_shard(e, member, s));
        rungi_engine_note_busy(e, member, began);
        RUNG_TRY(rungi_engine_gather(e, member, s));
        if (e->training)
            RUNG_TRY(rungi_engine_keep_statistics(e, s));
    }
    rungi_engine_wait_for_others(e, member, RUNGI_QUEUE_EXCHANGE, RUNGI_TIME_EXCHANGE);
    return RUNG_OK;
}

// Under exact: the gradients of a round, each device's blocks apart.
static rung_status add_member(void *arg, int member)
{
    rungi_engine *e = arg;
    const rungi_replica *r = &e->replicas[e->worker_device[member]];
    rungi_shard part = rungi_engine_slice(e, member - r->worker, r->workers);
    int64_t end = part.begin + part.count;
    for (int b = r->first; b < r->first + r->shards; b++) {
        int count = e->blocks[b] ? rungi_engine_in_block(e, e->round, b) : 0;
        if (!count)
            continue;
        bool last = e->round == e->rounds - 1 || !rungi_engine_in_block(e, e->round + 1, b);
        rungi_tree_add_blocks(e->grads + b, e->pairs + b, count, part.begin, end);
        rungi_tree_carry(e->grads[b], e->levels[b], e->round, last, part.begin, end);
    }
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
static rung_status run_round(rungi_engine *e, bool loss)
{
    bool idle = e->training && e->group.size && !e->now[e->round];
    if (idle)
        return rungi_engine_meet_idle(e, e->round, overlaps(e) && e->round == e->turns - 1);
    if (e->rounds > 1)
        RUNG_TRY(rungi_engine_bind(e, e->round));
    if (!e->team)
        return run_member(e, 0);
    RUNG_TRY(e->criterion ? rungi_criterion_compute(e, loss)
                          : rungi_engine_run_team(e, run_member));
    // What several devices have of one round they add when they come together.
    bool add =
        e->training && e->options.exact && e->active > 1 && (e->devices == 1 || e->rounds > 1);
    return add ? rungi_team_run(e->team, add_member, e) : RUNG_OK;
}

static rung_status compute(rungi_engine *e, bool loss)
{
    if (!e->active && e->training)
        clear_gradients(e);
    if (!e->active && !(e->training && e->group.size)) {
        for (int i = 0; e->training && overlaps(e) && i < rungi_exchange_buckets(e->exchange); i++)
            RUNG_TRY(rungi_exchange_start(e->exchange, i)); // in the order of the others' calls
        return RUNG_OK;
    }
    for (e->round = 0; e->round < e->turns; e->round++)
        RUNG_TRY(run_round(e, loss));
    return RUNG_OK;
}

// The losses of all shards in the tree's order, or that of the batch.
static int collect_losses(const rungi_engine *e, double *losses)
{
    int count = 0;
    if (e->criterion && !e->criterion->by_shard) {
        losses[0] = e->losses[0];
        return 1;
    }
    for (int i = 0; i < e->shards; i++)
        if (e->now[e->of_leaf[i]])
            losses[count++] = e->losses[e->of_leaf[i]];
    return count;
}

// After backward of all own shards: running statistics, and gradients of other devices and ranks.
static rung_status put_together(rungi_engine *e)
{
    RUNG_TRY(rungi_engine_finish_statistics(e));
    if (e->devices > 1)
        return rungi_engine_reduce(e);
    return e->exchange ? rungi_engine_share_gradients(e) : RUNG_OK;
}

static rung_status check_batch(rungi_engine *e)
{
    const rungi_batch_view *b = e->batch;
    int64_t own = 0;
    RUNG_CHECK(e->whole >= 1, RUNG_INVALID, "an empty batch cannot be run");
    for (int s = 0; s < e->shards; s++)
        own += rungi_engine_part(e, e->whole, s).count;
    RUNG_CHECK(own == b->count && rungi_engine_part(e, e->whole, 0).begin == rungi_engine_origin(e),
               RUNG_INVALID,
               "samples %" PRId64 " to %" PRId64 " of a batch of %" PRId64
               " are not this rank's part",
               b->begin, b->begin + b->count, e->whole);
    return RUNG_OK;
}

// Brings the devices that share the batch what they need for it.
static rung_status before_forward(rungi_engine *e, bool loss)
{
    if (loss) // else few samples are wanted, and no note
        rungi_engine_tell_idle(e);
    RUNG_TRY(rungi_engine_scatter(e));
    return rungi_engine_broadcast(e);
}

static rung_status run_batch(rungi_engine *e, bool training, bool loss, double *loss_out)
{
    double losses[RUNGI_MAX_SHARDS], sum;
    e->training = training;
    e->met = 0;
    e->met_bad = -1;
    e->left = false;
    if (e->pipeline) {
        RUNG_CHECK(e->whole >= 1, RUNG_INVALID, "an empty batch cannot be run");
        RUNG_TRY(rungi_pipeline_run(e->pipeline, loss, &sum));
        if (loss_out)
            *loss_out = sum;
        return RUNG_OK;
    }
    rungi_engine_cut(e, training);
    RUNG_TRY(check_batch(e));
    RUNG_TRY(rungi_engine_plans(e, training, loss, e->whole));
    int64_t began = rungi_engine_clock_now(e);
    if (e->devices > 1)
        RUNG_TRY(before_forward(e, loss));
    RUNG_TRY(rungi_engine_reserve_outputs(e));
    RUNG_TRY(rungi_engine_bind(e, 0));
    begin_updates(e);
    e->left = training && rungi_engine_leaves_gradients(e);
    if (loss)
        RUNG_TRY(count_batch(e));
    if (training)
        RUNG_TRY(rungi_engine_open_statistics(e));
    if (e->exchange) {
        e->began = rungi_engine_clock_now(e);
        rungi_exchange_step(e->exchange, (int64_t)e->batch->step, e->began);
    }
    RUNG_TRY(compute(e, loss));
    sum = rungi_engine_tree_sum(losses, collect_losses(e, losses));
    e->bad_rank = isfinite(sum) ? -1 : 0;
    if (loss && e->exchange)
        RUNG_TRY(rungi_engine_share_loss(e, &sum));
    if (training)
        RUNG_TRY(put_together(e));
    if (training)
        rungi_engine_note_step(e, began);
    if (loss_out)
        *loss_out = sum;
    return RUNG_OK;
}

static rung_status run(rungi_engine *e, const rungi_batch_view *batch, bool training, bool loss,
                       double *loss_out)
{
    rungi_exchange *exchange = e->exchange;
    RUNG_CHECK(batch->n_feeds <= RUNG_MAX_FIELDS, RUNG_UNSUPPORTED, "%d inputs; at most %d work",
               batch->n_feeds, RUNG_MAX_FIELDS);
    e->view = *batch; // for rungi_engine_shard, after the call
    for (int i = 0; i < batch->n_feeds; i++)
        e->feeds[i] = batch->feeds[i];
    e->view.feeds = e->feeds;
    e->batch = &e->view;
    e->count = batch->count;
    e->whole = batch->global_count && !batch->alone ? batch->global_count : batch->count;
    RUNG_CHECK(!batch->alone || !e->options.exact, RUNG_INVALID,
               "under exact no rank computes for itself");
    if (batch->alone)
        e->exchange = NULL;
    rung_status status = run_batch(e, training, loss, loss_out);
    e->exchange = exchange;
    return status;
}

rung_status rungi_engine_train(rungi_engine *e, const rungi_batch_view *batch, double *loss_out)
{
    return run(e, batch, true, true, loss_out);
}

rung_status rungi_engine_eval(rungi_engine *e, const rungi_batch_view *batch, double *loss_out)
{
    return run(e, batch, false, loss_out != NULL, loss_out);
}
