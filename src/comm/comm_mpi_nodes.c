// SPDX-License-Identifier: Apache-2.0
// Calls of ranks on several machines: a part among the ranks of each machine over their shared
// memory (shm.h), messages between machines, a part on each machine again.
//
// Where all machines have the same power of two of ranks, in order, an all-reduce first sums on
// each machine, every local rank its own part: these sums are nodes of the tree over all ranks.
// Then ranks of the same local number exchange pieces of their part, each sums its piece over all
// machines in their order, which is the rest of the tree, and gives it to the others. So each byte
// of a machine's sum leaves and comes once in each direction, over all local ranks at once.
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

static int counterpart(const rungi_comm *comm, int node)
{
    const rungi_mpi_link *l = rungi_mpi_link_of(comm);
    return node * l->shm.size + l->shm.index;
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
    for (int n = 0; n < p->nodes; n++) {
        int rank = counterparts ? counterpart(comm, n) : rungi_mpi_leader(comm, n);
        if (n == p->node)
            continue;
        RUNG_TRY(rungi_mpi_post(comm, call, &b->messages, RUNGI_MPI_HEADER, true, rank,
                                rungi_mpi_header_of(b, n), RUNGI_MPI_ROOM));
        RUNG_TRY(rungi_mpi_post(comm, call, &b->messages, RUNGI_MPI_HEADER, false, rank, own,
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

// ---- all-reduce -------------------------------------------------------------------------------

// A rank's part of its machine's sum.
typedef struct share {
    uint8_t *data;
    int64_t count, size; // elements, bytes of one
    int nodes, node;
    bool small;    // exchanged whole
    uint64_t slot; // bytes of scratch for each machine
} share;

static share share_of(const rungi_comm *comm, const rungi_comm_call *call)
{
    const rungi_mpi_link *l = rungi_mpi_link_of(comm);
    rungi_comm_part part = rungi_comm_part_of(call->count, l->shm.size, l->shm.index);
    share s = {.size = rungi_comm_element(call),
               .count = part.count,
               .nodes = l->process->nodes,
               .node = l->process->node};
    s.data = (uint8_t *)call->data + part.begin * s.size;
    s.small = s.count * s.size <= RUNGI_MPI_SMALL;
    int64_t most = rungi_comm_part_of(s.count, s.nodes, 0).count;
    s.slot = (uint64_t)(most * s.size + 63) / 64 * 64;
    return s;
}

// Everybody has everybody's whole share.
static void sum_small(rungi_comm *comm, rungi_comm_call *call, const share *s)
{
    const void *in[RUNGI_COMBINE_RANKS];
    void *out[1] = {s->data};
    for (int n = 0; n < s->nodes; n++)
        in[n] = rungi_mpi_header_of(between_of(call), n) + 1;
    rungi_combine_tree(comm->loops, call->what.dtype, call->what.op, in, s->nodes, out, 1, s->count,
                       false);
}

// Each machine's piece of the share goes to its rank there; this one's comes from all.
static rung_status post_pieces(rungi_comm *comm, rungi_comm_call *call, const share *s)
{
    rungi_mpi_between *b = between_of(call);
    b->scratch = malloc(s->slot * (uint64_t)s->nodes);
    if (!b->scratch)
        return rungi_comm_break(comm, RUNG_NO_MEMORY, "rank %d: no memory for %llu bytes",
                                comm->rank, (unsigned long long)s->slot * (uint64_t)s->nodes);
    rungi_comm_part own = rungi_comm_part_of(s->count, s->nodes, s->node);
    for (int n = 0; n < s->nodes; n++) {
        rungi_comm_part piece = rungi_comm_part_of(s->count, s->nodes, n);
        if (n == s->node)
            continue;
        RUNG_TRY(rungi_mpi_post(comm, call, &b->messages, RUNGI_MPI_PIECES, true,
                                counterpart(comm, n), b->scratch + (uint64_t)n * s->slot,
                                (uint64_t)(own.count * s->size)));
        RUNG_TRY(rungi_mpi_post(comm, call, &b->messages, RUNGI_MPI_PIECES, false,
                                counterpart(comm, n), s->data + piece.begin * s->size,
                                (uint64_t)(piece.count * s->size)));
    }
    return RUNG_OK;
}

// Does machine `node` need the sum?
static bool wants(const rungi_comm *comm, const rungi_comm_call *call, int node)
{
    const rungi_mpi_process *p = rungi_mpi_link_of(comm)->process;
    return call->act != RUNGI_COMM_REDUCE || p->node_of[call->root / p->threads] == node;
}

// Sums this rank's piece and gives it to the others, or to the root's machine alone.
static rung_status sum_pieces(rungi_comm *comm, rungi_comm_call *call, const share *s)
{
    rungi_mpi_between *b = between_of(call);
    const void *in[RUNGI_COMBINE_RANKS];
    rungi_comm_part own = rungi_comm_part_of(s->count, s->nodes, s->node);
    uint8_t *mine = s->data + own.begin * s->size;
    void *out[1] = {mine};
    for (int n = 0; n < s->nodes; n++)
        in[n] = n == s->node ? mine : b->scratch + (uint64_t)n * s->slot;
    rungi_combine_tree(comm->loops, call->what.dtype, call->what.op, in, s->nodes, out, 1,
                       own.count, false);
    for (int n = 0; n < s->nodes; n++) {
        rungi_comm_part piece = rungi_comm_part_of(s->count, s->nodes, n);
        if (n == s->node)
            continue;
        if (wants(comm, call, s->node))
            RUNG_TRY(rungi_mpi_post(comm, call, &b->messages, RUNGI_MPI_RESULTS, true,
                                    counterpart(comm, n), s->data + piece.begin * s->size,
                                    (uint64_t)(piece.count * s->size)));
        if (wants(comm, call, n))
            RUNG_TRY(rungi_mpi_post(comm, call, &b->messages, RUNGI_MPI_RESULTS, false,
                                    counterpart(comm, n), mine, (uint64_t)(own.count * s->size)));
    }
    return RUNG_OK;
}

static rung_status reduce_step(rungi_comm *comm, rungi_comm_call *call)
{
    rungi_mpi_between *b = between_of(call);
    share s = share_of(comm, call);
    switch (b->phase++) {
    case 0:
        rungi_mpi_sub(comm, call, 0, RUNGI_COMM_REDUCE_SCATTER);
        return RUNG_OK;
    case 1:
        return rungi_mpi_post_headers(comm, call, true, s.data,
                                      s.small ? (uint64_t)(s.count * s.size) : 0);
    case 2:
        RUNG_TRY(rungi_mpi_check_headers(comm, call, true));
        if (!s.small)
            return post_pieces(comm, call, &s);
        sum_small(comm, call, &s);
        return RUNG_OK;
    case 3:
        return s.small ? RUNG_OK : sum_pieces(comm, call, &s);
    case 4:
        rungi_mpi_sub(comm, call, 1,
                      wants(comm, call, s.node) ? RUNGI_COMM_ALL_GATHER : RUNGI_COMM_BARRIER);
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
            return reduce_step(comm, call);
        return rungi_mpi_gather_step(comm, call);
    default:
        return rungi_mpi_gather_step(comm, call);
    }
}

static rung_status between_create(rungi_comm *comm, rungi_comm_call *call)
{
    rungi_mpi_between *b = calloc(1, sizeof *b);
    uint8_t *headers = malloc((size_t)rungi_mpi_link_of(comm)->process->nodes * RUNGI_MPI_ROOM);
    if (!b || !headers) {
        free(b);
        free(headers);
        return rungi_comm_break(comm, RUNG_NO_MEMORY, "rank %d: no memory", comm->rank);
    }
    b->headers = headers;
    call->inner = b;
    return RUNG_OK;
}

void rungi_mpi_between_free(rungi_comm_call *call)
{
    rungi_mpi_between *b = between_of(call);
    free(b->messages.data);
    free(b->headers);
    free(b->scratch);
    free(b->local);
    free(b->block);
    free(b->offsets);
    free(b->sizes);
    free(b);
    call->inner = NULL;
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

rung_status rungi_mpi_advance(rungi_comm *comm, rungi_comm_call *call)
{
    rungi_mpi_link *l = rungi_mpi_link_of(comm);
    if (l->polls++ % 16 == 0)
        rungi_mpi_listen(comm);
    if (is_pair(call) && rungi_shm_index_of(&l->shm, call->what.peer) >= 0)
        return rungi_shm_advance(comm, &l->shm, call);
    if (!call->inner)
        RUNG_TRY(begin(comm, call));
    if (!call->inner)
        return RUNG_OK;
    rungi_mpi_between *b = between_of(call);
    while (call->state == RUNGI_COMM_MOVING) {
        if (b->in_sub) {
            RUNG_TRY(rungi_shm_advance(comm, &l->shm, &b->sub));
            if (b->sub.state == RUNGI_COMM_MOVING)
                return RUNG_OK;
            b->in_sub = false;
        }
        if (b->messages.left > 0)
            RUNG_TRY(rungi_mpi_test(comm, &b->messages));
        if (b->messages.left > 0)
            return RUNG_OK;
        int phase = b->phase;
        RUNG_TRY(step(comm, call));
        if (b->phase == phase)
            return RUNG_OK; // its turn has not come
    }
    rungi_mpi_between_free(call);
    if (l->holder == call)
        l->holder = NULL;
    return RUNG_OK;
}

void rungi_mpi_presence(const rungi_comm *comm, const rungi_comm_call *call,
                        rungi_comm_presence *out)
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
        for (size_t i = 0; i < b->messages.count; i++) {
            const rungi_mpi_message *m = &b->messages.data[i];
            if (m->done || out->missing[m->rank])
                continue;
            out->missing[m->rank] = true;
            out->count++;
        }
    }
}

#endif
