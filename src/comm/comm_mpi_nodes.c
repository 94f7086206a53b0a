// SPDX-License-Identifier: Apache-2.0
// Calls of ranks on several machines: a part among the ranks of each machine over their shared
// memory (shm.h), messages between machines, a part on each machine again.
#include "comm/comm_mpi_inside.h"

#if defined(RUNG_MPI)

#    include <stdlib.h>
#    include <string.h>

#    include "base/error.h"

static rungi_mpi_between *between_of(const rungi_comm_call *call)
{
    return call->inner;
}

int rungi_mpi_leader(const rungi_comm *comm, int node)
{
    const rungi_mpi_process *p = rungi_mpi_link_of(comm)->process;
    return p->leaders[node] * p->threads;
}

bool rungi_mpi_leads(const rungi_comm *comm)
{
    return rungi_mpi_leader(comm, rungi_mpi_link_of(comm)->process->node) == comm->rank;
}

void rungi_mpi_sub(const rungi_comm *comm, rungi_comm_call *call, int part, rungi_comm_kind act)
{
    rungi_mpi_between *b = between_of(call);
    b->sub = (rungi_comm_call){
        .what = call->what,
        .data = call->data,
        .count = call->count,
        .state = RUNGI_COMM_MOVING,
        .act = act,
        .root = call->what.peer,
        .part = part,
    };
    b->in_sub = true;
    if (part > 0 && !rungi_mpi_leads(comm))
        call->patience = 2; // the leader may be waiting for another machine: it is the one to tell
}

int rungi_mpi_counterpart(const rungi_comm *comm, int node)
{
    const rungi_mpi_link *l = rungi_mpi_link_of(comm);
    return node * l->shm.size + l->shm.index;
}

// A header and the data behind it go to a rank, or come from there.
static rung_status post_header(rungi_comm *comm, rungi_comm_call *call, bool receives, int rank,
                               void *header, uint64_t bytes)
{
    rungi_mpi_between *b = between_of(call);
    uint64_t first = bytes < RUNGI_MPI_FIRST ? bytes : RUNGI_MPI_FIRST, second = bytes - first;
    // Room for what a rank with another call may send.
    uint64_t room = receives ? RUNGI_MPI_FIRST : first;
    uint64_t more_room = receives ? RUNGI_MPI_ROOM - RUNGI_MPI_FIRST : second;
    RUNG_TRY(
        rungi_mpi_post(comm, call, &b->messages, RUNGI_MPI_HEADER, receives, rank, header, room));
    if (!second)
        return RUNG_OK;
    return rungi_mpi_post(comm, call, &b->messages, RUNGI_MPI_HEADER, receives, rank,
                          (uint8_t *)header + RUNGI_MPI_FIRST, more_room);
}

rung_status rungi_mpi_post_headers(rungi_comm *comm, rungi_comm_call *call, bool counterparts,
                                   const void *data, uint64_t bytes)
{
    rungi_mpi_between *b = between_of(call);
    const rungi_mpi_process *p = rungi_mpi_link_of(comm)->process;
    rungi_mpi_header *own = rungi_mpi_header_of(b, p->node);
    rungi_mpi_header_fill(comm, call, own);
    if (bytes)
        memcpy(own + 1, data, bytes);
    for (int receives = 0; receives < 2; receives++)
        for (int n = 0; n < p->nodes; n++) {
            int rank = counterparts ? rungi_mpi_counterpart(comm, n) : rungi_mpi_leader(comm, n);
            if (n != p->node)
                RUNG_TRY(post_header(comm, call, receives, rank,
                                     receives ? rungi_mpi_header_of(b, n) : own,
                                     sizeof *own + bytes));
        }
    return RUNG_OK;
}

rung_status rungi_mpi_check_headers(rungi_comm *comm, rungi_comm_call *call, bool sizes)
{
    const rungi_mpi_process *p = rungi_mpi_link_of(comm)->process;
    rungi_comm_met(comm, call);
    for (int n = 0; n < p->nodes; n++)
        if (n != p->node)
            RUNG_TRY(rungi_mpi_header_check(comm, call, rungi_mpi_header_of(between_of(call), n),
                                            sizes));
    return RUNG_OK;
}

// ---- barrier and broadcast --------------------------------------------------------------------

static rung_status barrier_step(rungi_comm *comm, rungi_comm_call *call)
{
    switch (between_of(call)->phase++) {
    case 0:
        rungi_mpi_sub(comm, call, 0, RUNGI_COMM_BARRIER);
        return RUNG_OK;
    case 1:
        return rungi_mpi_leads(comm) ? rungi_mpi_post_headers(comm, call, false, NULL, 0) : RUNG_OK;
    case 2:
        if (rungi_mpi_leads(comm))
            RUNG_TRY(rungi_mpi_check_headers(comm, call, true));
        rungi_mpi_sub(comm, call, 1, RUNGI_COMM_BARRIER);
        return RUNG_OK;
    default:
        call->state = RUNGI_COMM_LANDED;
        return RUNG_OK;
    }
}

// The leaders send and receive the data, in place.
static rung_status post_broadcast(rungi_comm *comm, rungi_comm_call *call, int root_node)
{
    rungi_mpi_between *b = between_of(call);
    const rungi_mpi_process *p = rungi_mpi_link_of(comm)->process;
    if (p->node != root_node)
        return rungi_mpi_post(comm, call, &b->messages, RUNGI_MPI_PIECES, true,
                              rungi_mpi_leader(comm, root_node), call->data, call->what.bytes);
    for (int n = 0; n < p->nodes; n++)
        if (n != root_node)
            RUNG_TRY(rungi_mpi_post(comm, call, &b->messages, RUNGI_MPI_PIECES, false,
                                    rungi_mpi_leader(comm, n), call->data, call->what.bytes));
    return RUNG_OK;
}

static rung_status broadcast_step(rungi_comm *comm, rungi_comm_call *call)
{
    rungi_mpi_between *b = between_of(call);
    const rungi_mpi_process *p = rungi_mpi_link_of(comm)->process;
    int root_node = p->node_of[call->what.peer / p->threads];
    bool here = p->node == root_node;
    switch (b->phase++) {
    case 0:
        rungi_mpi_sub(comm, call, 0, here ? RUNGI_COMM_BROADCAST : RUNGI_COMM_BARRIER);
        return RUNG_OK;
    case 1:
        return rungi_mpi_leads(comm) ? rungi_mpi_post_headers(comm, call, false, NULL, 0) : RUNG_OK;
    case 2:
        if (!rungi_mpi_leads(comm))
            return RUNG_OK;
        RUNG_TRY(rungi_mpi_check_headers(comm, call, true));
        return post_broadcast(comm, call, root_node);
    case 3:
        rungi_mpi_sub(comm, call, 1, here ? RUNGI_COMM_BARRIER : RUNGI_COMM_BROADCAST);
        b->sub.root = rungi_mpi_leader(comm, p->node);
        return RUNG_OK;
    default:
        call->state = RUNGI_COMM_LANDED;
        return RUNG_OK;
    }
}

// ---- send and receive -------------------------------------------------------------------------

static rung_status pair_step(rungi_comm *comm, rungi_comm_call *call)
{
    rungi_mpi_between *b = between_of(call);
    rungi_mpi_link *l = rungi_mpi_link_of(comm);
    bool receives = call->act == RUNGI_COMM_RECEIVE;
    int peer = call->what.peer;
    switch (b->phase++) {
    case 0:
        if (receives && l->received[peer] + 1 != call->what.sequence) {
            b->phase = 0; // an earlier one comes first
            return RUNG_OK;
        }
        rungi_mpi_header_fill(comm, call, &b->header);
        return rungi_mpi_post(comm, call, &b->messages, RUNGI_MPI_HEADER, receives, peer,
                              receives ? (void *)b->headers : &b->header, sizeof b->header);
    case 1:
        if (receives)
            RUNG_TRY(rungi_mpi_header_check(comm, call, rungi_mpi_header_of(b, 0), true));
        return rungi_mpi_post(comm, call, &b->messages, RUNGI_MPI_PIECES, receives, peer,
                              call->data, call->what.bytes);
    default:
        if (receives)
            l->received[peer]++;
        call->state = RUNGI_COMM_LANDED;
        return RUNG_OK;
    }
}

// ---- the way of a call ------------------------------------------------------------------------

static rung_status step(rungi_comm *comm, rungi_comm_call *call)
{
    switch (call->act) {
    case RUNGI_COMM_BARRIER:
    case RUNGI_COMM_ALLOC:
        return barrier_step(comm, call);
    case RUNGI_COMM_BROADCAST:
        return broadcast_step(comm, call);
    case RUNGI_COMM_SEND:
    case RUNGI_COMM_RECEIVE:
        return pair_step(comm, call);
    case RUNGI_COMM_ALL_REDUCE:
    case RUNGI_COMM_REDUCE_SCATTER:
    case RUNGI_COMM_REDUCE:
        if (rungi_mpi_link_of(comm)->process->even)
            return rungi_mpi_reduce_step(comm, call);
        return rungi_mpi_gather_step(comm, call);
    default:
        return rungi_mpi_gather_step(comm, call);
    }
}

static rung_status between_create(rungi_comm *comm, rungi_comm_call *call)
{
    rungi_mpi_link *l = rungi_mpi_link_of(comm);
    if (l->spares > 0) {
        call->inner = l->spare[--l->spares];
        return RUNG_OK;
    }
    rungi_mpi_between *b = calloc(1, sizeof *b);
    uint8_t *headers = malloc((size_t)l->process->nodes * RUNGI_MPI_ROOM);
    if (!b || !headers) {
        free(b);
        free(headers);
        return rungi_comm_break(comm, RUNG_NO_MEMORY, "rank %d: no memory", comm->rank);
    }
    b->headers = headers;
    call->inner = b;
    return RUNG_OK;
}

static void free_gather(rungi_mpi_between *b)
{
    free(b->local);
    free(b->blocks);
    free(b->block);
    free(b->offsets);
    free(b->sizes);
    b->local = b->blocks = b->block = NULL;
    b->offsets = b->sizes = NULL;
}

void rungi_mpi_between_free(rungi_mpi_between *b)
{
    free_gather(b);
    for (int i = 0; i < RUNGI_MPI_DEPTH; i++)
        free(b->rounds.messages[i].data);
    free(b->rounds.scratch);
    free(b->messages.data);
    free(b->headers);
    free(b);
}

bool rungi_mpi_between_moves(const rungi_mpi_between *b)
{
    bool moves = b->messages.count > 0;
    for (int i = 0; i < RUNGI_MPI_DEPTH; i++)
        moves |= b->rounds.messages[i].count > 0;
    return moves;
}

// A call is over: what it held serves the next one.
static void between_end(rungi_mpi_link *l, rungi_comm_call *call)
{
    rungi_mpi_between *b = between_of(call);
    call->inner = NULL;
    if (l->spares == RUNGI_MPI_SPARE) {
        rungi_mpi_between_free(b);
        return;
    }
    free_gather(b);
    b->phase = 0;
    l->spare[l->spares++] = b;
}

static bool is_pair(const rungi_comm_call *call)
{
    return call->act == RUNGI_COMM_SEND || call->act == RUNGI_COMM_RECEIVE;
}

// Could a part of the call go through this rank's stage?
static bool needs_stage(const rungi_comm *comm, const rungi_comm_call *call)
{
    const rungi_mpi_link *l = rungi_mpi_link_of(comm);
    bool reduces = call->act == RUNGI_COMM_ALL_REDUCE || call->act == RUNGI_COMM_REDUCE_SCATTER ||
                   call->act == RUNGI_COMM_REDUCE;
    if (is_pair(call) || call->act == RUNGI_COMM_BARRIER || call->act == RUNGI_COMM_ALLOC)
        return false;
    return !(reduces && l->process->even &&
             rungi_shm_address(&l->shm, call->data, call->what.bytes) != 0);
}

// Begins a call between machines, when its turn has come.
static rung_status begin(rungi_comm *comm, rungi_comm_call *call)
{
    rungi_mpi_link *l = rungi_mpi_link_of(comm);
    if (needs_stage(comm, call)) {
        if (l->holder)
            return RUNG_OK;
        l->holder = call;
    }
    return between_create(comm, call);
}

// Calls that get on need not know of failures.
static void listen_at_times(rungi_comm *comm)
{
    if (rungi_mpi_link_of(comm)->polls++ % 16 == 0)
        rungi_mpi_listen(comm);
}

// Carries on what the call waits for; is that over?
static rung_status wait_over(rungi_comm *comm, rungi_comm_call *call, bool *over_out)
{
    rungi_mpi_link *l = rungi_mpi_link_of(comm);
    rungi_mpi_between *b = between_of(call);
    *over_out = true;
    if (b->in_sub) {
        RUNG_TRY(rungi_shm_advance(comm, &l->shm, &b->sub));
        b->in_sub = b->sub.state == RUNGI_COMM_MOVING;
        *over_out = !b->in_sub;
    }
    if (*over_out && b->messages.count > 0)
        RUNG_TRY(rungi_mpi_test(comm, &b->messages, over_out));
    return RUNG_OK;
}

rung_status rungi_mpi_advance(rungi_comm *comm, rungi_comm_call *call)
{
    rungi_mpi_link *l = rungi_mpi_link_of(comm);
    if (is_pair(call) && rungi_shm_index_of(&l->shm, call->what.peer) >= 0) {
        listen_at_times(comm);
        return rungi_shm_advance(comm, &l->shm, call);
    }
    if (!call->inner)
        RUNG_TRY(begin(comm, call));
    while (call->inner && call->state == RUNGI_COMM_MOVING) {
        const rungi_mpi_between *b = between_of(call);
        int phase = b->phase;
        bool over;
        RUNG_TRY(wait_over(comm, call, &over));
        if (over)
            RUNG_TRY(step(comm, call));
        if (b->phase == phase) { // something has to come first
            listen_at_times(comm);
            return RUNG_OK;
        }
    }
    if (!call->inner)
        return RUNG_OK; // its turn has not come
    between_end(l, call);
    if (l->holder == call)
        l->holder = NULL;
    return RUNG_OK;
}

void rungi_mpi_presence(rungi_comm *comm, const rungi_comm_call *call, rungi_comm_presence *out)
{
    const rungi_mpi_link *l = rungi_mpi_link_of(comm);
    if (!call->inner && !is_pair(call) && l->holder)
        call = l->holder; // it waits for that one
    const rungi_mpi_between *b = between_of(call);
    if (is_pair(call) || !b) {
        rungi_shm_presence(&l->shm, call, out);
    } else if (b->in_sub) {
        rungi_shm_presence(&l->shm, &b->sub, out);
    } else {
        rungi_mpi_missing(comm, &b->messages, out);
        for (int i = 0; i < RUNGI_MPI_DEPTH; i++)
            rungi_mpi_missing(comm, &b->rounds.messages[i], out);
    }
}

// Nobody sees this process's own memory, and what is shared stays mapped; only messages that are
// on their way could still come into it.
void rungi_mpi_settle(rungi_comm *comm)
{
    for (int i = 0; i < comm->active_count; i++) {
        rungi_mpi_between *b = between_of(&comm->calls[comm->active[i]]);
        if (!b)
            continue;
        rungi_mpi_drop(comm, &b->messages);
        for (int k = 0; k < RUNGI_MPI_DEPTH; k++)
            rungi_mpi_drop(comm, &b->rounds.messages[k]);
    }
}

#endif
