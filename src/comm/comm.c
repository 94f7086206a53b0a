// SPDX-License-Identifier: Apache-2.0
// The calls of comm.h: arguments are checked and put into a rungi_comm_call.
#include "comm/comm.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/context.h"
#include "base/error.h"
#include "comm/comm_inside.h"

enum { PART_UNIT = 16 }; // elements

rung_status rungi_comm_init(rungi_comm *comm, int rank, int size, const rungi_comm_options *options,
                            rungi_word *memory)
{
    const int64_t second = 1000000000;
    comm->rank = rank;
    comm->size = size;
    comm->context = options->context;
    comm->clock = options->context ? rungi_clock(options->context) : rungi_clock_monotonic();
    comm->timeout = options->timeout > 0 ? options->timeout : 60 * second;
    comm->busy_timeout = options->busy_timeout > 0 ? options->busy_timeout : 3600 * second;
    bool delayed = !options->delay_one || options->delay_rank == rank;
    comm->delay = delayed ? options->delay : 0;
    comm->delay_byte = delayed ? options->delay_byte : 0;
    comm->loops = rungi_combine_loops_for(options->context ? rung_context_isa(options->context)
                                                           : RUNG_ISA_SCALAR);
    comm->sent = calloc((size_t)size, 2 * sizeof *comm->sent);
    RUNG_CHECK(comm->sent, RUNG_NO_MEMORY, "no memory for a communicator of %d ranks", size);
    comm->received = comm->sent + size;
    return rungi_recorder_init(&comm->recorder, options->recorder, memory, rank, size, comm->clock);
}

void rungi_comm_fini(rungi_comm *comm)
{
    free(comm->sent);
    rungi_recorder_fini(&comm->recorder);
}

int rungi_comm_rank(const rungi_comm *comm)
{
    return comm->rank;
}

int rungi_comm_size(const rungi_comm *comm)
{
    return comm->size;
}

int rungi_comm_local_rank(const rungi_comm *comm)
{
    return comm->local_rank;
}

int rungi_comm_local_size(const rungi_comm *comm)
{
    return comm->local_size;
}

int64_t rungi_comm_now(const rungi_comm *comm)
{
    return comm->clock->now(comm->clock->user);
}

uint64_t rungi_comm_moved(const rungi_comm *comm)
{
    return comm->moved;
}

int64_t rungi_comm_link_time(const rungi_comm *comm)
{
    return comm->link_time;
}

rungi_comm_part rungi_comm_part_of(int64_t count, int size, int rank)
{
    int64_t units = (count + PART_UNIT - 1) / PART_UNIT;
    int64_t base = units / size, more = units % size;
    int64_t begin = (base * rank + (rank < more ? rank : more)) * PART_UNIT;
    int64_t end = begin + (base + (rank < more)) * PART_UNIT;
    begin = begin < count ? begin : count;
    end = end < count ? end : count;
    return (rungi_comm_part){begin, end - begin};
}

// ---- descriptions of calls --------------------------------------------------------------------

static rungi_comm_call plain_call(rungi_comm_kind kind, const void *data, uint64_t bytes, int peer,
                                  const char *label)
{
    return (rungi_comm_call){
        .what = {.kind = kind,
                 .dtype = RUNG_U8,
                 .peer = peer,
                 .bytes = bytes,
                 .label = label ? label : ""},
        .data = (void *)data,
        .count = (int64_t)bytes,
    };
}

// A call on `count` elements; `reduces`: with arithmetic.
static rung_status typed_call(const rungi_comm *comm, rungi_comm_kind kind, void *data,
                              int64_t count, rung_dtype dtype, rungi_comm_op op, bool reduces,
                              const char *label, rungi_comm_call *call_out)
{
    int64_t bytes, size = (int64_t)rung_dtype_size(dtype);
    RUNG_CHECK(size > 0 && count >= 0 && rungi_i64_mul(count, size, &bytes), RUNG_INVALID,
               "%s: %lld elements of %s cannot be exchanged", label ? label : "", (long long)count,
               rung_dtype_name(dtype));
    if (reduces) {
        RUNG_CHECK((unsigned)op < RUNGI_COMBINE_OPS && comm->loops->pair[dtype][op],
                   RUNG_UNSUPPORTED, "%s: %s cannot be reduced (f32, f64, i64, bf16 and f16 can)",
                   label ? label : "", rung_dtype_name(dtype));
    }
    *call_out = plain_call(kind, data, (uint64_t)bytes, -1, label);
    call_out->what.dtype = dtype;
    call_out->what.op = reduces ? op : RUNGI_COMM_SUM;
    call_out->count = count;
    return RUNG_OK;
}

static rung_status check_peer(const rungi_comm *comm, int rank, bool may_be_self, const char *label)
{
    RUNG_CHECK(rank >= 0 && rank < comm->size, RUNG_INVALID,
               "%s: there is no rank %d (allowed: 0 to %d)", label ? label : "", rank,
               comm->size - 1);
    RUNG_CHECK(may_be_self || rank != comm->rank, RUNG_INVALID,
               "%s: rank %d cannot send to or receive from itself", label ? label : "", rank);
    return RUNG_OK;
}

// ---- calls ------------------------------------------------------------------------------------

rung_status rungi_comm_barrier(rungi_comm *comm, const char *label)
{
    rungi_comm_call call = plain_call(RUNGI_COMM_BARRIER, NULL, 0, -1, label);
    return rungi_comm_call_run(comm, &call);
}

rung_status rungi_comm_broadcast(rungi_comm *comm, void *data, uint64_t bytes, int root,
                                 const char *label)
{
    RUNG_TRY(check_peer(comm, root, true, label));
    rungi_comm_call call = plain_call(RUNGI_COMM_BROADCAST, data, bytes, root, label);
    return rungi_comm_call_run(comm, &call);
}

rung_status rungi_comm_all_reduce(rungi_comm *comm, void *data, int64_t count, rung_dtype dtype,
                                  rungi_comm_op op, const char *label)
{
    rungi_comm_call call;
    RUNG_TRY(typed_call(comm, RUNGI_COMM_ALL_REDUCE, data, count, dtype, op, true, label, &call));
    return rungi_comm_call_run(comm, &call);
}

rung_status rungi_comm_reduce_scatter(rungi_comm *comm, void *data, int64_t count, rung_dtype dtype,
                                      rungi_comm_op op, const char *label)
{
    rungi_comm_call call;
    RUNG_TRY(
        typed_call(comm, RUNGI_COMM_REDUCE_SCATTER, data, count, dtype, op, true, label, &call));
    return rungi_comm_call_run(comm, &call);
}

static rung_status reduce_call(const rungi_comm *comm, void *data, int64_t count, rung_dtype dtype,
                               rungi_comm_op op, int root, const char *label,
                               rungi_comm_call *call_out)
{
    RUNG_TRY(check_peer(comm, root, true, label));
    RUNG_TRY(typed_call(comm, RUNGI_COMM_REDUCE, data, count, dtype, op, true, label, call_out));
    call_out->what.peer = root;
    return RUNG_OK;
}

rung_status rungi_comm_reduce(rungi_comm *comm, void *data, int64_t count, rung_dtype dtype,
                              rungi_comm_op op, int root, const char *label)
{
    rungi_comm_call call;
    RUNG_TRY(reduce_call(comm, data, count, dtype, op, root, label, &call));
    return rungi_comm_call_run(comm, &call);
}

rung_status rungi_comm_all_gather(rungi_comm *comm, void *data, int64_t count, rung_dtype dtype,
                                  const char *label)
{
    rungi_comm_call call;
    RUNG_TRY(typed_call(comm, RUNGI_COMM_ALL_GATHER, data, count, dtype, RUNGI_COMM_SUM, false,
                        label, &call));
    return rungi_comm_call_run(comm, &call);
}

rung_status rungi_comm_gather_objects(rungi_comm *comm, const void *data, uint64_t bytes,
                                      const char *label, void **all_out, uint64_t *offsets_out)
{
    rungi_comm_call call = plain_call(RUNGI_COMM_GATHER, data, bytes, -1, label);
    uint8_t *all = NULL;
    uint64_t *offsets = calloc((size_t)comm->size + 1, sizeof *offsets);
    RUNG_CHECK(offsets, RUNG_NO_MEMORY, "%s: no memory", call.what.label);
    call.all_out = &all;
    call.offsets = offsets;
    rung_status status = rungi_comm_call_run(comm, &call);
    if (status == RUNG_OK) {
        *all_out = all;
        for (int i = 0; i <= comm->size; i++)
            offsets_out[i] = offsets[i];
    } else {
        free(all);
    }
    free(offsets);
    return status;
}

rung_status rungi_comm_send(rungi_comm *comm, const void *data, uint64_t bytes, int to,
                            const char *label)
{
    RUNG_TRY(check_peer(comm, to, false, label));
    rungi_comm_call call = plain_call(RUNGI_COMM_SEND, data, bytes, to, label);
    return rungi_comm_call_run(comm, &call);
}

rung_status rungi_comm_receive(rungi_comm *comm, void *data, uint64_t bytes, int from,
                               const char *label)
{
    RUNG_TRY(check_peer(comm, from, false, label));
    rungi_comm_call call = plain_call(RUNGI_COMM_RECEIVE, data, bytes, from, label);
    return rungi_comm_call_run(comm, &call);
}

rung_status rungi_comm_start_all_reduce(rungi_comm *comm, void *data, int64_t count,
                                        rung_dtype dtype, rungi_comm_op op, const char *label,
                                        rungi_comm_call **call_out)
{
    rungi_comm_call call;
    RUNG_TRY(typed_call(comm, RUNGI_COMM_ALL_REDUCE, data, count, dtype, op, true, label, &call));
    return rungi_comm_call_enter(comm, &call, call_out);
}

rung_status rungi_comm_start_reduce(rungi_comm *comm, void *data, int64_t count, rung_dtype dtype,
                                    rungi_comm_op op, int root, const char *label,
                                    rungi_comm_call **call_out)
{
    rungi_comm_call call;
    RUNG_TRY(reduce_call(comm, data, count, dtype, op, root, label, &call));
    return rungi_comm_call_enter(comm, &call, call_out);
}

rung_status rungi_comm_start_send(rungi_comm *comm, const void *data, uint64_t bytes, int to,
                                  const char *label, rungi_comm_call **call_out)
{
    RUNG_TRY(check_peer(comm, to, false, label));
    rungi_comm_call call = plain_call(RUNGI_COMM_SEND, data, bytes, to, label);
    return rungi_comm_call_enter(comm, &call, call_out);
}

rung_status rungi_comm_start_receive(rungi_comm *comm, void *data, uint64_t bytes, int from,
                                     const char *label, rungi_comm_call **call_out)
{
    RUNG_TRY(check_peer(comm, from, false, label));
    rungi_comm_call call = plain_call(RUNGI_COMM_RECEIVE, data, bytes, from, label);
    return rungi_comm_call_enter(comm, &call, call_out);
}

// ---- memory and the end -----------------------------------------------------------------------

rung_status rungi_comm_alloc(rungi_comm *comm, uint64_t bytes, const char *label, void **data_out)
{
    rungi_comm_call call = plain_call(RUNGI_COMM_ALLOC, NULL, bytes, -1, label);
    RUNG_TRY(rungi_comm_call_run(comm, &call)); // all ask for the same
    return comm->transport->alloc(comm, bytes, data_out);
}

void rungi_comm_free(rungi_comm *comm, void *data)
{
    if (data)
        comm->transport->free(comm, data);
}

void rungi_comm_busy(rungi_comm *comm, const char *label)
{
    rungi_recorder_state(&comm->recorder, label ? RUNGI_RANK_BUSY : RUNGI_RANK_RUNNING, label);
}

void rungi_comm_destroy(rungi_comm **comm)
{
    if (!*comm)
        return;
    if ((*comm)->active_count > 0 && !(*comm)->broken) {
        rung_error kept = *rung_error_last();
        rungi_comm_break(*comm, RUNG_CANCELLED, "rank %d left with %d calls under way",
                         (*comm)->rank, (*comm)->active_count);
        rungi_fail_adopt(&kept);
    }
    if (!(*comm)->broken)
        rungi_recorder_state(&(*comm)->recorder, RUNGI_RANK_LEFT, NULL);
    (*comm)->transport->destroy(*comm);
    *comm = NULL;
}
