// SPDX-License-Identifier: Apache-2.0
#include "train/exchange.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "comm/param_server.h"

typedef struct bucket {
    int64_t begin, end; // floats of the flat buffer
    int last;           // the last of its parameters: index in the order of the flat buffer
    int owner;          // the rank that gets the sums, where they are `owned`
    rungi_comm_call *call;
    bool started;
    int64_t ready; // clock
} bucket;

enum { LOG_SPANS = 8192 };

struct rungi_exchange {
    rung_state *state;
    rungi_exchange_options o;
    float *grads; // shared; lent to the state
    void *packed; // of 16 bits, shared; NULL where nothing is compressed
    RUNGI_ARRAY(bucket) buckets;
    char *room; // of statistics, shared
    uint64_t room_bytes;
    double *meeting; // of rungi_exchange_meet, shared
    int64_t meeting_count;
    double *numbers; // of the ranks
    int64_t count;
    rungi_bucket_log *log;
    int64_t waiting; // clock: since when the rank waits for buckets; INT64_MAX: it computes
    int64_t step;
};

// ---- life -------------------------------------------------------------------------------------

// End of the part that element `at` lies in, and whose it is.
static int64_t part_end(const rungi_exchange *x, int64_t at, int *owner_out)
{
    int ranks = rungi_exchange_ranks(x);
    *owner_out = 0;
    for (int r = 0; x->o.owned && r < ranks; r++) {
        rungi_comm_part part = rungi_comm_part_of(x->state->flat_size, ranks, r);
        *owner_out = r;
        if (at < part.begin + part.count)
            return part.begin + part.count;
    }
    return x->state->flat_size;
}

// Adds elements [begin, end), of parameter `param`, to the last bucket if that is open, or to new
// ones.
static rung_status add_elements(rungi_exchange *x, int64_t begin, int64_t end, int param,
                                bool *open)
{
    while (begin < end) {
        int owner;
        int64_t until = part_end(x, begin, &owner);
        if (!*open)
            RUNG_CHECK(rungi_array_push(&x->buckets, ((bucket){.begin = begin, .owner = owner})),
                       RUNG_NO_MEMORY, "no memory for buckets of gradients");
        bucket *b = &x->buckets.data[x->buckets.count - 1];
        b->end = end < until ? end : until;
        b->last = param;
        *open = b->end < until && (b->end - b->begin) * (int64_t)sizeof(float) < x->o.bucket_bytes;
        begin = b->end;
    }
    return RUNG_OK;
}

// Buckets hold whole parameters, but where these are cut among ranks; what is frozen has no
// gradient and lies in none.
static rung_status cut(rungi_exchange *x)
{
    const rung_state *s = x->state;
    bool open = false;
    for (int i = 0; i < s->n_params; i++) {
        const rungi_entry *e = &s->entries[s->flat_order[i]];
        int64_t end = i + 1 < s->n_params ? s->entries[s->flat_order[i + 1]].offset : s->flat_size;
        if (s->graph->values.data[e->value].frozen)
            open = false;
        else
            RUNG_TRY(add_elements(x, e->offset, end, i, &open));
    }
    return RUNG_OK;
}

static rung_status make(rungi_exchange *x)
{
    uint64_t floats = (uint64_t)x->state->flat_size;
    RUNG_TRY(cut(x));
    RUNG_TRY(rungi_bucket_log_create((int)x->buckets.count, LOG_SPANS, &x->log));
    x->numbers =
        calloc((size_t)rungi_exchange_ranks(x) * RUNGI_EXCHANGE_NUMBERS, sizeof *x->numbers);
    RUNG_CHECK(x->numbers, RUNG_NO_MEMORY, "no memory for an exchange");
    void *grads;
    RUNG_TRY(rungi_comm_alloc(x->o.comm, floats * sizeof(float), "gradients", &grads));
    x->grads = grads;
    rungi_state_lend_grads(x->state, x->grads);
    if (x->o.compress != RUNG_F32)
        RUNG_TRY(rungi_comm_alloc(x->o.comm, floats * rung_dtype_size(x->o.compress),
                                  "compressed gradients", &x->packed));
    return RUNG_OK;
}

rung_status rungi_exchange_create(rung_state *state, const rungi_exchange_options *options,
                                  rungi_exchange **exchange_out)
{
    rungi_exchange *x = calloc(1, sizeof *x);
    RUNG_CHECK(x, RUNG_NO_MEMORY, "no memory for an exchange");
    x->state = state;
    x->o = *options;
    x->waiting = INT64_MAX;
    rung_status status = make(x);
    if (status != RUNG_OK) {
        rungi_exchange_destroy(&x);
        return status;
    }
    *exchange_out = x;
    return RUNG_OK;
}

void rungi_exchange_destroy(rungi_exchange **exchange)
{
    if (!exchange || !*exchange)
        return;
    rungi_exchange *x = *exchange;
    for (size_t i = 0; i < x->buckets.count; i++)
        if (x->buckets.data[i].call) // the run has failed
            rungi_comm_finish(x->o.comm, &x->buckets.data[i].call, NULL);
    rungi_array_fini(&x->buckets);
    rungi_bucket_log_destroy(&x->log);
    if (x->grads)
        x->state->grads = NULL;
    rungi_comm_free(x->o.comm, x->grads);
    rungi_comm_free(x->o.comm, x->packed);
    rungi_comm_free(x->o.comm, x->room);
    rungi_comm_free(x->o.comm, x->meeting);
    free(x->numbers);
    free(x);
    *exchange = NULL;
}

int rungi_exchange_rank(const rungi_exchange *x)
{
    return rungi_comm_rank(x->o.comm);
}

int rungi_exchange_ranks(const rungi_exchange *x)
{
    return rungi_comm_size(x->o.comm);
}

int rungi_exchange_buckets(const rungi_exchange *x)
{
    return (int)x->buckets.count;
}

bool rungi_exchange_overlaps(const rungi_exchange *x)
{
    return x->o.overlap;
}

int64_t rungi_exchange_count(const rungi_exchange *x)
{
    return x->count;
}

// ---- numbers and statistics -------------------------------------------------------------------

static void begin(const rungi_exchange *x, int64_t step)
{
    if (x->o.timeline)
        rungi_timeline_begin(x->o.timeline, RUNGI_QUEUE_EXCHANGE, RUNGI_TIME_EXCHANGE, step);
}

static void end(const rungi_exchange *x)
{
    if (x->o.timeline)
        rungi_timeline_end(x->o.timeline, RUNGI_QUEUE_EXCHANGE);
}

rung_status rungi_exchange_sum(rungi_exchange *x, double *values, int64_t count, int64_t step,
                               const char *label)
{
    begin(x, step);
    rung_status status =
        rungi_comm_all_reduce(x->o.comm, values, count, RUNG_F64, RUNGI_COMM_SUM, label);
    end(x);
    return status;
}

rung_status rungi_exchange_numbers(rungi_exchange *x, const double *own, int count, double *all_out,
                                   int64_t step, const char *label)
{
    int64_t all = (int64_t)rungi_exchange_ranks(x) * count;
    memset(x->numbers, 0, (size_t)all * sizeof *x->numbers);
    memcpy(x->numbers + (int64_t)rungi_exchange_rank(x) * count, own, (size_t)count * sizeof *own);
    RUNG_TRY(rungi_exchange_sum(x, x->numbers, all, step, label));
    memcpy(all_out, x->numbers, (size_t)all * sizeof *x->numbers);
    return RUNG_OK;
}

rung_status rungi_exchange_room(rungi_exchange *x, int shards, size_t bytes, char **room_out)
{
    uint64_t wanted = (uint64_t)shards * bytes;
    if (wanted > x->room_bytes) {
        void *room;
        rungi_comm_free(x->o.comm, x->room);
        x->room = NULL;
        x->room_bytes = 0;
        RUNG_TRY(rungi_comm_alloc(x->o.comm, wanted, "batch statistics", &room));
        x->room = room;
        x->room_bytes = wanted;
    }
    *room_out = x->room;
    return RUNG_OK;
}

rung_status rungi_exchange_gather(rungi_exchange *x, int shards, size_t bytes, int64_t step)
{
    begin(x, step);
    rung_status status =
        rungi_comm_all_gather(x->o.comm, x->room, (int64_t)((size_t)shards * bytes / sizeof(float)),
                              RUNG_F32, "batch statistics");
    end(x);
    return status;
}

rung_status rungi_exchange_meet(rungi_exchange *x, const double *own, int64_t count, int64_t step,
                                const double **all_out, int64_t *stride_out)
{
    enum { UNIT = 16 }; // parts of a gather are multiples of it
    int64_t stride = (count + UNIT - 1) / UNIT * UNIT, all = stride * rungi_exchange_ranks(x);
    begin(x, step);
    rung_status status = RUNG_OK;
    if (all > x->meeting_count) {
        void *room;
        rungi_comm_free(x->o.comm, x->meeting);
        x->meeting = NULL;
        x->meeting_count = 0;
        status = rungi_comm_alloc(x->o.comm, (uint64_t)all * sizeof(double),
                                  "numbers of synchronized steps", &room);
        if (status == RUNG_OK) {
            x->meeting = room;
            x->meeting_count = all;
        }
    }
    if (status == RUNG_OK) {
        memcpy(x->meeting + stride * rungi_exchange_rank(x), own, (size_t)count * sizeof *own);
        status = rungi_comm_all_gather(x->o.comm, x->meeting, all, RUNG_F64, "synchronized step");
    }
    end(x);
    *all_out = x->meeting;
    *stride_out = stride;
    return status;
}

// ---- gradients --------------------------------------------------------------------------------

typedef struct writes {
    const rung_plan *plan;
    const rung_state *state;
    int *last; // by entry: the last step that writes its gradient
    int step;
} writes;

static void note_write(void *user, const rungi_operand *operand, bool write)
{
    writes *w = user;
    const rungi_tensor *t = &w->plan->tensors.data[w->plan->tensors.data[operand->buffer].root];
    if (write && t->kind == RUNGI_TENSOR_GRAD)
        w->last[w->state->entry_of[t->value]] = w->step;
}

rung_status rungi_exchange_ready(const rungi_exchange *x, const rung_plan *plan, int *ready)
{
    const rung_state *s = x->state;
    int *last = malloc((size_t)(s->n_entries + 1) * sizeof *last), at = 0;
    RUNG_CHECK(last, RUNG_NO_MEMORY, "no memory for a plan");
    writes w = {plan, s, last, 0};
    for (int i = 0; i < s->n_entries; i++)
        last[i] = plan->n_forward - 1;
    for (w.step = plan->n_forward; w.step < (int)plan->steps.count; w.step++)
        rungi_step_operands(&plan->steps.data[w.step], note_write, &w);
    int latest = plan->n_forward - 1;
    for (size_t b = 0; b < x->buckets.count; b++) {
        for (; at <= x->buckets.data[b].last; at++)
            if (last[s->flat_order[at]] > latest)
                latest = last[s->flat_order[at]];
        ready[b] = latest;
    }
    free(last);
    return RUNG_OK;
}

// Writes down what became of a bucket, also as time that the link was busy.
static void note(rungi_exchange *x, const bucket *b, const rungi_comm_times *t)
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

static rung_status finish_bucket(rungi_exchange *x, bucket *b)
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
    bucket *b = &x->buckets.data[index];
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
        bucket *b = &x->buckets.data[i];
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
    begin(x, step);
    x->waiting = rungi_comm_now(x->o.comm);
    rung_status status = x->o.servers ? push(x, whole) : finish(x);
    x->waiting = INT64_MAX;
    end(x);
    return status;
}

void rungi_exchange_step(rungi_exchange *x, int64_t step, int64_t began)
{
    x->step = step;
    rungi_bucket_log_step(x->log, began);
}

int64_t rungi_exchange_link_time(const rungi_exchange *x)
{
    return rungi_comm_link_time(x->o.comm);
}

const rungi_bucket_log *rungi_exchange_log(const rungi_exchange *x)
{
    return x->log;
}
