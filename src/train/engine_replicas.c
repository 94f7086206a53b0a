// SPDX-License-Identifier: Apache-2.0
// What goes between the devices of an engine: see engine_replicas.h.
#include <inttypes.h>
#include <string.h>

#include "base/context.h"
#include "base/error.h"
#include "train/engine_inside.h"

// Is `member` the worker that does what is done once for its device? Not for the first device,
// whose things are where they belong.
static bool serves(const rungi_engine *e, int member)
{
    int d = e->worker_device[member];
    return d && member == e->replicas[d].worker;
}

rung_status rungi_engine_together(rungi_engine *e, rungi_queue queue, rungi_category category,
                                  rungi_team_fn fn)
{
    rungi_timeline *t = e->options.timeline;
    if (t)
        rungi_timeline_begin(t, queue, e->training ? category : RUNGI_TIME_EVAL,
                             (int64_t)e->batch->step);
    rung_status status = rungi_team_run(e->team, fn, e);
    if (t)
        rungi_timeline_end(t, queue);
    return status;
}

rung_status rungi_engine_send(rungi_engine *e, int member, int device, void *dst, const void *src,
                              uint64_t bytes)
{
    int own = e->worker_device[member];
    if (own == device) {
        memcpy(dst, src, bytes);
        return RUNG_OK;
    }
    int64_t began = rungi_engine_clock_now(e);
    rung_stream *stream = e->replicas[own].copies;
    RUNG_TRY(rung_stream_copy(stream, dst, src, bytes));
    RUNG_TRY(rung_stream_sync(stream));
    if (e->training)
        e->copying[member] += rungi_engine_clock_now(e) - began;
    return RUNG_OK;
}

rung_status rungi_engine_fetch(rungi_engine *e, int member, void *dst, const void *src,
                               uint64_t bytes)
{
    return rungi_engine_send(e, member, -1, dst, src, bytes);
}

// ---- before forward ---------------------------------------------------------------------------

static rungi_shard part_of(const rungi_engine *e, int device)
{
    return rungi_engine_device_part(e, e->whole, device);
}

static rung_status scatter_member(void *arg, int member)
{
    rungi_engine *e = arg;
    rungi_replica *r = &e->replicas[e->worker_device[member]];
    rungi_shard part = part_of(e, e->worker_device[member]);
    if (e->criterion)
        RUNG_TRY(rungi_criterion_scatter(e, member));
    if (!serves(e, member) || !part.count)
        return RUNG_OK;
    RUNG_CHECK(e->batch->n_feeds <= RUNG_MAX_FIELDS, RUNG_UNSUPPORTED, "%d inputs; at most %d work",
               e->batch->n_feeds, RUNG_MAX_FIELDS);
    for (int f = 0; f < e->batch->n_feeds; f++) {
        const rungi_feed *feed = &e->batch->feeds[f];
        int value = rungi_input_of(e->model, feed->input);
        if (!value)
            continue; // targets, which the loss reads elsewhere
        uint64_t size = rungi_sample_bytes(e->model, value), bytes = size * (uint64_t)part.count;
        if (bytes > r->input_bytes[f]) {
            rung_device_free(r->device, r->inputs[f]);
            r->inputs[f] = NULL;
            r->input_bytes[f] = 0;
            RUNG_TRY(rung_device_alloc(r->device, bytes, "a part of a batch", &r->inputs[f]));
            r->input_bytes[f] = bytes;
        }
        RUNG_TRY(rungi_engine_fetch(e, member, r->inputs[f],
                                    (const char *)feed->data + (uint64_t)part.begin * size, bytes));
    }
    return RUNG_OK;
}

rung_status rungi_engine_scatter(rungi_engine *e)
{
    return e->options.replicas.copies
               ? rungi_engine_together(e, RUNGI_QUEUE_COPY, RUNGI_TIME_COPY, scatter_member)
               : RUNG_OK;
}

const void *rungi_engine_input(const rungi_engine *e, int feed, int shard, size_t sample_bytes)
{
    int d = e->device_of[shard % e->slots];
    int64_t begin = rungi_engine_part(e, e->whole, shard).begin;
    bool copied = d && e->options.replicas.copies;
    const char *data = copied ? e->replicas[d].inputs[feed] : e->batch->feeds[feed].data;
    return data +
           (size_t)(begin - (copied ? part_of(e, d).begin : rungi_engine_origin(e))) * sample_bytes;
}

static rung_status broadcast_member(void *arg, int member)
{
    rungi_engine *e = arg;
    const rungi_replica *r = &e->replicas[e->worker_device[member]];
    if (!serves(e, member))
        return RUNG_OK;
    RUNG_TRY(rungi_engine_fetch(e, member, r->state->params, e->state->params,
                                (uint64_t)e->state->flat_size * sizeof(float)));
    return rungi_engine_fetch(e, member, r->state->buffers, e->state->buffers,
                              (uint64_t)e->state->buffer_bytes);
}

rung_status rungi_engine_broadcast(rungi_engine *e)
{
    return rungi_engine_together(e, RUNGI_QUEUE_EXCHANGE, RUNGI_TIME_EXCHANGE, broadcast_member);
}

void rungi_engine_tell_idle(rungi_engine *e)
{
    int idle = 0, first = 0;
    for (int d = e->devices - 1; d >= 0; d--)
        if (!part_of(e, d).count) {
            idle++;
            first = d;
        }
    if (!idle || e->told_idle)
        return;
    e->told_idle = true;
    rungi_log(rung_device_context(e->state->device), RUNG_LOG_NOTICE,
              "a batch of %" PRId64 " sample%s leaves %d of %d devices idle, from %s on", e->whole,
              e->whole == 1 ? "" : "s", idle, e->devices,
              rung_device_name(e->replicas[first].device));
}

// ---- after backward ---------------------------------------------------------------------------

rungi_shard rungi_engine_slice(const rungi_engine *e, int index, int workers)
{
    int64_t blocks = (e->state->flat_size + RUNGI_TREE_BLOCK - 1) / RUNGI_TREE_BLOCK;
    rungi_shard part = rungi_shard_of(blocks, workers, index);
    int64_t begin = part.begin * RUNGI_TREE_BLOCK, end = begin + part.count * RUNGI_TREE_BLOCK;
    return (rungi_shard){begin, (end < e->state->flat_size ? end : e->state->flat_size) - begin};
}

int rungi_engine_in_block(const rungi_engine *e, int round, int first)
{
    int count = 0;
    while (count < e->blocks[first] && e->now[round * e->slots + first + count])
        count++;
    return count;
}

// Places of a round up to the last one that has a gradient.
static int used_places(const rungi_engine *e)
{
    int count = e->slots;
    while (!e->now[count - 1])
        count--;
    return count;
}

// The blocks of a device, each added into its first shard. (Those of several rounds have been.)
static rung_status add_own(void *arg, int member)
{
    rungi_engine *e = arg;
    const rungi_replica *r = &e->replicas[e->worker_device[member]];
    rungi_shard part = rungi_engine_slice(e, member - r->worker, r->workers);
    for (int b = r->first; b < r->first + r->shards; b++) {
        int count = e->blocks[b] ? rungi_engine_in_block(e, 0, b) : 0;
        if (count > 1)
            rungi_tree_add(e->grads + b, count, part.begin, part.begin + part.count);
    }
    return RUNG_OK;
}

static rung_status stage(void *arg, int member)
{
    rungi_engine *e = arg;
    const rungi_replica *r = &e->replicas[e->worker_device[member]];
    if (!serves(e, member))
        return RUNG_OK;
    for (int s = r->first; s < r->first + r->shards; s++)
        if (e->blocks[s] && e->now[s])
            RUNG_TRY(rungi_engine_send(e, member, 0, e->staged[s], e->grads[s],
                                       (uint64_t)e->state->flat_size * sizeof(float)));
    return RUNG_OK;
}

static rung_status add_blocks(void *arg, int member)
{
    rungi_engine *e = arg;
    rungi_shard part = rungi_engine_slice(e, member, e->workers);
    float *grads[RUNGI_MAX_SHARDS];
    int count = used_places(e);
    for (int s = 0; s < count; s++)
        grads[s] = e->staged[s] ? e->staged[s] : e->grads[s];
    rungi_tree_add_blocks(grads, e->blocks, count, part.begin, part.begin + part.count);
    return RUNG_OK;
}

// Running statistics go to all copies with it, so that these are equal after every step.
static rung_status add_all(void *arg, int member)
{
    rungi_engine *e = arg;
    const rungi_replica *r = &e->replicas[e->worker_device[member]];
    if (serves(e, member))
        RUNG_TRY(rungi_engine_fetch(e, member, r->state->buffers, e->state->buffers,
                                    (uint64_t)e->state->buffer_bytes));
    if (e->options.replicas.copies || e->rounds > 1)
        return add_blocks(e, member);
    rungi_shard part = rungi_engine_slice(e, member, e->workers);
    rungi_tree_add(e->grads, e->active, part.begin, part.begin + part.count);
    return RUNG_OK;
}

rung_status rungi_engine_reduce(rungi_engine *e)
{
    if (e->options.replicas.copies) {
        if (e->options.exact && e->rounds == 1)
            RUNG_TRY(rungi_engine_together(e, RUNGI_QUEUE_EXCHANGE, RUNGI_TIME_EXCHANGE, add_own));
        RUNG_TRY(rungi_engine_together(e, RUNGI_QUEUE_EXCHANGE, RUNGI_TIME_EXCHANGE, stage));
    }
    return rungi_engine_together(e, RUNGI_QUEUE_EXCHANGE, RUNGI_TIME_EXCHANGE, add_all);
}

// ---- looking ----------------------------------------------------------------------------------

int rungi_engine_devices(const rungi_engine *e)
{
    return e->devices;
}

rungi_replica_use rungi_engine_use(const rungi_engine *e, int device)
{
    const rungi_replica *r = &e->replicas[device];
    rungi_replica_use use = {.device = r->device, .samples = r->samples, .copying = 0};
    for (int w = r->worker; w < r->worker + r->workers; w++) {
        use.busy += e->busy[w] / r->workers;
        use.copying += e->copying[w];
    }
    return use;
}

const rung_state *rungi_engine_replica(const rungi_engine *e, int device)
{
    return device ? e->replicas[device].state : e->state;
}

int64_t rungi_engine_spent(const rungi_engine *e)
{
    return e->spent;
}

void rungi_engine_note_update(rungi_engine *e, int64_t nanoseconds)
{
    for (int w = 0; w < e->replicas[0].workers; w++)
        e->busy[w] += nanoseconds;
    e->spent += nanoseconds;
}

void rungi_engine_note_step(rungi_engine *e, int64_t began)
{
    e->spent += rungi_engine_clock_now(e) - began;
    for (int d = 0; d < e->devices; d++)
        e->replicas[d].samples += part_of(e, d).count;
}
