// SPDX-License-Identifier: Apache-2.0
// Messages between machines.
#include "comm/comm_mpi_inside.h"

#if defined(RUNG_MPI)

#    include <stdlib.h>
#    include <string.h>

#    include "base/array.h"
#    include "base/error.h"

enum { STREAMS = 4 };
static const uint64_t MESSAGE_MOST = 1 << 30; // MPI counts in int

static void lock(rungi_mpi_process *p)
{
    if (p->threads > 1)
        rungi_mutex_lock(&p->mutex);
}

static void unlock(rungi_mpi_process *p)
{
    if (p->threads > 1)
        rungi_mutex_unlock(&p->mutex);
}

void rungi_mpi_header_fill(const rungi_comm *comm, const rungi_comm_call *call,
                           rungi_mpi_header *out)
{
    *out = (rungi_mpi_header){
        .what = rungi_comm_pack(&call->what),
        .bytes = call->what.bytes,
        .sequence = call->what.sequence,
        .rank = comm->rank,
    };
    memcpy(out->label, call->what.label, strnlen(call->what.label, sizeof out->label - 1));
}

rung_status rungi_mpi_header_check(rungi_comm *comm, const rungi_comm_call *call,
                                   const rungi_mpi_header *other, bool sizes)
{
    rungi_mpi_header mine;
    rungi_mpi_header_fill(comm, call, &mine);
    bool pair = call->act == RUNGI_COMM_SEND || call->act == RUNGI_COMM_RECEIVE;
    if ((pair || mine.what == other->what) && (!sizes || mine.bytes == other->bytes) &&
        mine.sequence == other->sequence &&
        memcmp(mine.label, other->label, sizeof mine.label) == 0)
        return RUNG_OK;
    char text[RUNGI_COMM_TEXT], others[RUNGI_COMM_TEXT];
    rungi_comm_what what = {.bytes = other->bytes, .sequence = other->sequence};
    what.label = other->label;
    rungi_comm_unpack(other->what, &what);
    return rungi_comm_break(comm, RUNG_MISMATCH, "rank %d calls %s, but rank %d calls %s",
                            comm->rank, rungi_comm_text(&call->what, text, sizeof text),
                            (int)other->rank, rungi_comm_text(&what, others, sizeof others));
}

// Distinct among the messages that may be under way between two ranks.
static int tag_of(const rungi_comm *comm, const rungi_comm_call *call, rungi_mpi_stream stream,
                  bool receives, int rank)
{
    const rungi_mpi_link *l = rungi_mpi_link_of(comm);
    int threads = l->process->threads, other = rank % threads;
    if (call->act == RUNGI_COMM_SEND || call->act == RUNGI_COMM_RECEIVE) {
        int from = receives ? other : l->thread, to = receives ? l->thread : other;
        return (from * threads + to) * 2 + (stream != RUNGI_MPI_HEADER);
    }
    int turn = (int)(call->what.sequence % RUNGI_COMM_AHEAD);
    return (turn * STREAMS + (int)stream) * threads + (receives ? l->thread : other);
}

rung_status rungi_mpi_post(rungi_comm *comm, const rungi_comm_call *call,
                           rungi_mpi_messages *messages, rungi_mpi_stream stream, bool receives,
                           int rank, void *data, uint64_t bytes)
{
    rungi_mpi_process *p = rungi_mpi_link_of(comm)->process;
    bool pair = call->act == RUNGI_COMM_SEND || call->act == RUNGI_COMM_RECEIVE;
    MPI_Comm group = pair ? p->pairs : p->all;
    int tag = tag_of(comm, call, stream, receives, rank), process = rank / p->threads;
    for (uint64_t at = 0; at < bytes; at += MESSAGE_MOST) {
        int count = (int)(bytes - at < MESSAGE_MOST ? bytes - at : MESSAGE_MOST);
        rungi_mpi_message m = {.rank = rank, .receives = receives};
        char *from = (char *)data + at;
        lock(p);
        int error = receives ? MPI_Irecv(from, count, MPI_BYTE, process, tag, group, &m.request)
                             : MPI_Isend(from, count, MPI_BYTE, process, tag, group, &m.request);
        unlock(p);
        if (error != MPI_SUCCESS) {
            rungi_mpi_fail(error, "a message could not be started");
            return rungi_comm_break(comm, RUNG_LIBRARY, "rank %d: %s", comm->rank,
                                    rung_error_last()->message);
        }
        comm->moved += (uint64_t)count;
        if (!rungi_array_push(messages, m))
            return rungi_comm_break(comm, RUNG_NO_MEMORY, "rank %d: no memory", comm->rank);
    }
    return RUNG_OK;
}

static rung_status test_one(rungi_comm *comm, rungi_mpi_message *m)
{
    rungi_mpi_process *p = rungi_mpi_link_of(comm)->process;
    int done = 0;
    lock(p);
    int error = MPI_Test(&m->request, &done, MPI_STATUS_IGNORE);
    unlock(p);
    if (error != MPI_SUCCESS) {
        rungi_mpi_fail(error, m->receives ? "a message from" : "a message to");
        return rungi_comm_break(comm, RUNG_LIBRARY, "rank %d: %s rank %d", comm->rank,
                                rung_error_last()->message, m->rank);
    }
    m->done = done;
    return RUNG_OK;
}

rung_status rungi_mpi_test(rungi_comm *comm, rungi_mpi_messages *messages, bool *over_out)
{
    *over_out = false;
    for (; messages->done < messages->count; messages->done++) {
        rungi_mpi_message *m = &messages->data[messages->done];
        if (!m->done)
            RUNG_TRY(test_one(comm, m));
        if (!m->done)
            return RUNG_OK;
    }
    messages->count = messages->done = 0;
    *over_out = true;
    return RUNG_OK;
}

void rungi_mpi_missing(rungi_comm *comm, const rungi_mpi_messages *messages,
                       rungi_comm_presence *out)
{
    for (size_t i = messages->done; i < messages->count; i++) {
        rungi_mpi_message *m = &messages->data[i];
        if (m->done || (test_one(comm, m) == RUNG_OK && m->done) || out->missing[m->rank])
            continue;
        out->missing[m->rank] = true;
        out->count++;
    }
}

void rungi_mpi_drop(rungi_comm *comm, rungi_mpi_messages *messages)
{
    rungi_mpi_process *p = rungi_mpi_link_of(comm)->process;
    lock(p);
    for (size_t i = messages->done; i < messages->count; i++)
        if (messages->data[i].receives && messages->data[i].request != MPI_REQUEST_NULL)
            MPI_Cancel(&messages->data[i].request);
    unlock(p);
}

// ---- failures ---------------------------------------------------------------------------------

void rungi_mpi_tell(rungi_comm *comm, const rung_error *error)
{
    rungi_mpi_process *p = rungi_mpi_link_of(comm)->process;
    if (p->nodes == 1 || atomic_exchange(&p->told, 1))
        return;
    // Where MPI does not take it at once it must stay, and nobody waits for its end.
    rung_error *kept = malloc(sizeof *kept);
    if (!kept)
        return;
    *kept = *error;
    bool all_sent = true;
    lock(p);
    for (int i = 0; i < p->processes; i++) {
        MPI_Request request;
        int sent = 0;
        if (p->node_of[i] == p->node)
            continue;
        if (MPI_Isend(kept, (int)sizeof *kept, MPI_BYTE, i, 0, p->failures, &request) ==
            MPI_SUCCESS)
            MPI_Test(&request, &sent, MPI_STATUS_IGNORE);
        all_sent &= sent;
    }
    unlock(p);
    if (all_sent)
        free(kept);
}

void rungi_mpi_listen(rungi_comm *comm)
{
    rungi_mpi_link *l = rungi_mpi_link_of(comm);
    rungi_mpi_process *p = l->process;
    int there = 0;
    MPI_Status from;
    rung_error error;
    lock(p);
    if (MPI_Iprobe(MPI_ANY_SOURCE, 0, p->failures, &there, &from) == MPI_SUCCESS && there)
        there = MPI_Recv(&error, (int)sizeof error, MPI_BYTE, from.MPI_SOURCE, 0, p->failures,
                         MPI_STATUS_IGNORE) == MPI_SUCCESS;
    unlock(p);
    if (!there)
        return;
    atomic_store(&p->told, 1);
    error.message[sizeof error.message - 1] = 0;
    rungi_shm_publish(&l->shm, &error);
}

#endif
