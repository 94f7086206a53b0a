// SPDX-License-Identifier: Apache-2.0
// Gradients on their way: buckets, or ranges of parameter servers.
#include "base/error.h"
#include "comm/param_server.h"
#include "train/exchange_inside.h"

// Writes down what became of a bucket, also as time that the link was busy.
static void note(rungi_exchange *x, const rungi_bucket *b, const rungi_comm_times *t)
{
    const rungi_bucket_span span = {.bucket = (int)(b - x->buckets.data),
                                    .step = x->step,
                                    .bytes = t->bytes,
                                    .ready = b->ready,
                                    .started = t->started,
                                    .met = t->met,
                                    .ended = t->ended};
    int64_t from;
    rungi_bucket_log_add(x->log, &span, x->waiting, &from);
    if (x->o.timeline && from < t->ended)
        rungi_timeline_add(
            x->o.timeline, RUNGI_QUEUE_LINK,
            &(rungi_span){
                .begin = from, .end = t->ended, .category = RUNGI_TIME_EXCHANGE, .step = x->step});
}

static rung_status finish_bucket(rungi_exchange *x, rungi_bucket *b)
{
    rungi_comm_times times;
    RUNG_TRY(rungi_comm_finish(x->o.comm, &b->call, &times));
    note(x, b, &times);
    if (x->packed && (!x->o.owned || b->owner == rungi_exchange_rank(x)))
        rung_convert(RUNG_F32, x->grads + b->begin, x->o.compress,
                     (char *)x->packed + (size_t)b->begin * rung_dtype_size(x->o.compress),
                     b->end - b->begin, NULL);
    return RUNG_OK;
}

rung_status rungi_exchange_start(rungi_exchange *x, int index)
{
    rungi_bucket *b = &x->buckets.data[index];
    if (index >= RUNGI_COMM_STARTED) // no more may be under way
        RUNG_TRY(finish_bucket(x, &x->buckets.data[index - RUNGI_COMM_STARTED]));
    int64_t count = b->end - b->begin;
    void *data = x->grads + b->begin;
    b->ready = rungi_comm_now(x->o.comm);
    if (x->packed) {
        data = (char *)x->packed + (size_t)b->begin * rung_dtype_size(x->o.compress);
        rung_convert(x->o.compress, data, RUNG_F32, x->grads + b->begin, count, NULL);
    }
    RUNG_TRY(x->o.owned ? rungi_comm_start_reduce(x->o.comm, data, count, x->o.compress,
                                                  RUNGI_COMM_SUM, b->owner, "gradients", &b->call)
                        : rungi_comm_start_all_reduce(x->o.comm, data, count, x->o.compress,
                                                      RUNGI_COMM_SUM, "gradients", &b->call));
    b->started = true;
    x->count++;
    return RUNG_OK;
}

rung_status rungi_exchange_progress(rungi_exchange *x)
{
    return rungi_comm_progress(x->o.comm);
}

static rung_status finish(rungi_exchange *x)
{
    for (size_t i = 0; i < x->buckets.count; i++)
        if (!x->buckets.data[i].started)
            RUNG_TRY(rungi_exchange_start(x, (int)i));
    for (size_t i = 0; i < x->buckets.count; i++) {
        rungi_bucket *b = &x->buckets.data[i];
        if (b->call)
            RUNG_TRY(finish_bucket(x, b));
        b->started = false;
    }
    return RUNG_OK;
}

rung_status rungi_exchange_pull(rungi_comm *comm, int servers, float *data, int64_t count,
                                const char *label)
{
    int ranks = rungi_comm_size(comm);
    if (servers == ranks)
        return rungi_comm_all_gather(comm, data, count, RUNG_F32, label);
    for (int s = 0; s < servers; s++) {
        rungi_comm_part part = rungi_ps_range(count, servers, s);
        RUNG_TRY(rungi_comm_broadcast(comm, data + part.begin, (uint64_t)part.count * sizeof(float),
                                      rungi_ps_host(ranks, servers, s), label));
    }
    return RUNG_OK;
}

// Each server gets the sums of its range.
static rung_status push(rungi_exchange *x, bool whole)
{
    int ranks = rungi_exchange_ranks(x), servers = x->o.servers;
    int64_t size = x->state->flat_size;
    x->count += servers;
    if (servers == ranks)
        RUNG_TRY(rungi_comm_reduce_scatter(x->o.comm, x->grads, size, RUNG_F32, RUNGI_COMM_SUM,
                                           "pushed gradients"));
    for (int s = 0; servers < ranks && s < servers; s++) {
        rungi_comm_part part = rungi_ps_range(size, servers, s);
        RUNG_TRY(rungi_comm_all_reduce(x->o.comm, x->grads + part.begin, part.count, RUNG_F32,
                                       RUNGI_COMM_SUM, "pushed gradients"));
    }
    return whole && servers == ranks
               ? rungi_exchange_pull(x->o.comm, servers, x->grads, size, "added gradients")
               : RUNG_OK;
}

rung_status rungi_exchange_finish(rungi_exchange *x, int64_t step, bool whole)
{
    rungi_exchange_begin(x, step);
    x->waiting = rungi_comm_now(x->o.comm);
    rung_status status = x->o.servers ? push(x, whole) : finish(x);
    x->waiting = INT64_MAX;
    rungi_exchange_end(x);
    return status;
}

void rungi_exchange_step(rungi_exchange *x, int64_t step, int64_t began)
{
    x->step = step;
    rungi_bucket_log_step(x->log, began);
}
