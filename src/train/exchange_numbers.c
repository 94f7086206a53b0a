// SPDX-License-Identifier: Apache-2.0
// What ranks tell each other beside gradients: sums, numbers, batch statistics.
#include <string.h>

#include "base/error.h"
#include "train/exchange_inside.h"

void rungi_exchange_begin(const rungi_exchange *x, int64_t step)
{
    if (x->o.timeline)
        rungi_timeline_begin(x->o.timeline, RUNGI_QUEUE_EXCHANGE, RUNGI_TIME_EXCHANGE, step);
}

void rungi_exchange_end(const rungi_exchange *x)
{
    if (x->o.timeline)
        rungi_timeline_end(x->o.timeline, RUNGI_QUEUE_EXCHANGE);
}

rung_status rungi_exchange_sum(rungi_exchange *x, double *values, int64_t count, int64_t step,
                               const char *label)
{
    rungi_exchange_begin(x, step);
    rung_status status =
        rungi_comm_all_reduce(x->o.comm, values, count, RUNG_F64, RUNGI_COMM_SUM, label);
    rungi_exchange_end(x);
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
        rungi_exchange_free(x, x->room);
        x->room = NULL;
        x->room_bytes = 0;
        RUNG_TRY(rungi_exchange_alloc(x, wanted, "batch statistics", &room));
        x->room = room;
        x->room_bytes = wanted;
    }
    *room_out = x->room;
    return RUNG_OK;
}

rung_status rungi_exchange_gather(rungi_exchange *x, int shards, size_t bytes, int64_t step)
{
    rungi_exchange_begin(x, step);
    rung_status status =
        rungi_comm_all_gather(x->o.comm, x->room, (int64_t)((size_t)shards * bytes / sizeof(float)),
                              RUNG_F32, "batch statistics");
    rungi_exchange_end(x);
    return status;
}

rung_status rungi_exchange_meet(rungi_exchange *x, const double *own, int64_t count, int64_t step,
                                const double **all_out, int64_t *stride_out)
{
    enum { UNIT = 16 }; // parts of a gather are multiples of it
    int64_t stride = (count + UNIT - 1) / UNIT * UNIT, all = stride * rungi_exchange_ranks(x);
    rungi_exchange_begin(x, step);
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
    rungi_exchange_end(x);
    *all_out = x->meeting;
    *stride_out = stride;
    return status;
}
