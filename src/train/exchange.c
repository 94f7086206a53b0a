// SPDX-License-Identifier: Apache-2.0
#include "train/exchange_inside.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "device/device.h"

enum { LOG_SPANS = 8192 };

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
            RUNG_CHECK(
                rungi_array_push(&x->buckets, ((rungi_bucket){.begin = begin, .owner = owner})),
                RUNG_NO_MEMORY, "no memory for buckets of gradients");
        rungi_bucket *b = &x->buckets.data[x->buckets.count - 1];
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

rung_status rungi_exchange_alloc(rungi_exchange *x, uint64_t bytes, const char *what,
                                 void **data_out)
{
    void *data;
    RUNG_TRY(rungi_comm_alloc(x->o.comm, bytes, what, &data));
    rung_status status = rungi_device_adopt(x->state->device, data, bytes, what);
    if (status == RUNG_OK)
        *data_out = data;
    else
        rungi_comm_free(x->o.comm, data);
    return status;
}

void rungi_exchange_free(rungi_exchange *x, void *data)
{
    rungi_device_disown(x->state->device, data);
    rungi_comm_free(x->o.comm, data);
}

static rung_status make(rungi_exchange *x)
{
    uint64_t floats = (uint64_t)x->state->flat_size;
    RUNG_TRY(cut(x));
    RUNG_TRY(rungi_bucket_log_create((int)x->buckets.count, LOG_SPANS, &x->log));
    x->numbers =
        calloc((size_t)rungi_exchange_ranks(x) * RUNGI_EXCHANGE_NUMBERS, sizeof *x->numbers);
    RUNG_CHECK(x->numbers, RUNG_NO_MEMORY, "no memory for an exchange");
    rungi_state_lend_grads(x->state, NULL); // its own are free before there are others
    if (x->o.fuse)
        RUNG_TRY(rungi_exchange_share_params(x));
    void *grads;
    RUNG_TRY(rungi_exchange_alloc(x, floats * sizeof(float), "gradients", &grads));
    x->grads = grads;
    rungi_state_lend_grads(x->state, x->grads);
    if (x->o.compress != RUNG_F32)
        RUNG_TRY(rungi_exchange_alloc(x, floats * rung_dtype_size(x->o.compress),
                                      "compressed gradients", &x->packed));
    return x->o.fuse ? rungi_exchange_reach(x) : RUNG_OK;
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
    if (x->params)
        x->state->params = NULL;
    rungi_exchange_free(x, x->grads);
    rungi_exchange_free(x, x->params);
    free(x->grads_of);
    rungi_exchange_free(x, x->packed);
    rungi_exchange_free(x, x->room);
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

int rungi_exchange_last(const rungi_exchange *x, int bucket)
{
    return x->buckets.data[bucket].last;
}

bool rungi_exchange_overlaps(const rungi_exchange *x)
{
    return x->o.overlap;
}

int64_t rungi_exchange_count(const rungi_exchange *x)
{
    return x->count;
}

int64_t rungi_exchange_link_time(const rungi_exchange *x)
{
    return rungi_comm_link_time(x->o.comm);
}

const rungi_bucket_log *rungi_exchange_log(const rungi_exchange *x)
{
    return x->log;
}

uint64_t rungi_exchange_bytes(const rungi_exchange *x)
{
    return x->packed ? (uint64_t)x->state->flat_size * rung_dtype_size(x->o.compress) : 0;
}
