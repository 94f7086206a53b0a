// SPDX-License-Identifier: Apache-2.0
// Reductions of ranks on several machines that all have the same power of two of ranks, in order.
//
// First each machine sums, every local rank its own part: these sums are nodes of the tree over all
// ranks. Then ranks of the same local number exchange their part. A small one goes whole to all of
// them, behind the header that tells the call, and each sums all machines in their order, which is
// the rest of the tree: one exchange. A large one is cut into a piece for each machine: its rank
// there sums the piece over all machines and gives it to the others, so that each byte of a
// machine's sum leaves and comes once in each direction, over all local ranks at once. That goes in
// rounds of a chunk of each piece, several under way: what has come is summed and passed on while
// it is in the caches, and others come meanwhile.
#include "comm/comm_mpi_inside.h"

#if defined(RUNG_MPI)

#    include <stdlib.h>
#    include <string.h>

#    include "base/error.h"

enum {
    CHUNK_MOST = 1 << 18,  // bytes
    CHUNK_LEAST = 1 << 15, // bytes
    ROUND_BYTES = 1 << 20, // of the chunks of all machines, but for CHUNK_LEAST
};

// A rank's part of its machine's sum.
typedef struct share {
    uint8_t *data;
    int64_t count, size; // elements, bytes of one
    int nodes, node;
    bool small; // exchanged whole
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
    return s;
}

static rungi_mpi_rounds *rounds_of(const rungi_comm_call *call)
{
    return &((rungi_mpi_between *)call->inner)->rounds;
}

// Does machine `node` need the sum?
static bool wants(const rungi_comm *comm, const rungi_comm_call *call, int node)
{
    const rungi_mpi_process *p = rungi_mpi_link_of(comm)->process;
    return call->act != RUNGI_COMM_REDUCE || p->node_of[call->root / p->threads] == node;
}

// Everybody has everybody's whole share.
static void sum_small(rungi_comm *comm, rungi_comm_call *call, const share *s)
{
    const void *in[RUNGI_COMBINE_RANKS];
    void *out[1] = {s->data};
    for (int n = 0; n < s->nodes; n++)
        in[n] = rungi_mpi_header_of(call->inner, n) + 1;
    rungi_combine_tree(comm->loops, call->what.dtype, call->what.op, in, s->nodes, out, 1,
                       s->count);
}

// ---- rounds -----------------------------------------------------------------------------------

// A machine's chunk of a round.
typedef struct chunk {
    uint8_t *data;
    int64_t count;
    uint64_t bytes;
} chunk;

static chunk chunk_of(const rungi_comm_call *call, const share *s, int node, int64_t round)
{
    int64_t most = rounds_of(call)->chunk, at = round * most;
    rungi_comm_part piece = rungi_comm_part_of(s->count, s->nodes, node);
    at = at < piece.count ? at : piece.count;
    int64_t count = piece.count - at < most ? piece.count - at : most;
    return (chunk){s->data + (piece.begin + at) * s->size, count, (uint64_t)(count * s->size)};
}

// Where the chunk of this machine's piece that machine `node` has comes to.
static uint8_t *place_of(const rungi_comm_call *call, const share *s, int node, int64_t round)
{
    const rungi_mpi_rounds *r = rounds_of(call);
    return r->scratch + ((round % RUNGI_MPI_DEPTH) * s->nodes + node) * (r->chunk * s->size);
}

static rung_status post(rungi_comm *comm, rungi_comm_call *call, rungi_mpi_stream stream,
                        bool receives, int node, int64_t round, void *data, uint64_t bytes)
{
    return rungi_mpi_post(comm, call, &rounds_of(call)->messages[round % RUNGI_MPI_DEPTH], stream,
                          receives, rungi_mpi_counterpart(comm, node), data, bytes);
}

// This rank's chunks of the next round go to those that sum them.
static rung_status send_round(rungi_comm *comm, rungi_comm_call *call, const share *s)
{
    int64_t round = rounds_of(call)->sent++;
    for (int n = 0; n < s->nodes; n++) {
        chunk c = chunk_of(call, s, n, round);
        if (n != s->node)
            RUNG_TRY(post(comm, call, RUNGI_MPI_PIECES, false, n, round, c.data, c.bytes));
    }
    return RUNG_OK;
}

static rung_status receive_round(rungi_comm *comm, rungi_comm_call *call, const share *s)
{
    int64_t round = rounds_of(call)->received++;
    chunk own = chunk_of(call, s, s->node, round);
    for (int n = 0; n < s->nodes; n++)
        if (n != s->node)
            RUNG_TRY(post(comm, call, RUNGI_MPI_PIECES, true, n, round, place_of(call, s, n, round),
                          own.bytes));
    return RUNG_OK;
}

// Sums this rank's chunk and gives it to the others, or to the root's machine alone.
static rung_status sum_round(rungi_comm *comm, rungi_comm_call *call, const share *s)
{
    int64_t round = rounds_of(call)->summed++;
    const void *in[RUNGI_COMBINE_RANKS];
    chunk own = chunk_of(call, s, s->node, round);
    void *out[1] = {own.data};
    for (int n = 0; n < s->nodes; n++)
        in[n] = n == s->node ? own.data : place_of(call, s, n, round);
    rungi_combine_tree(comm->loops, call->what.dtype, call->what.op, in, s->nodes, out, 1,
                       own.count);
    for (int n = 0; n < s->nodes; n++) {
        chunk c = chunk_of(call, s, n, round);
        if (n != s->node && wants(comm, call, n))
            RUNG_TRY(post(comm, call, RUNGI_MPI_RESULTS, false, n, round, own.data, own.bytes));
        if (n != s->node && wants(comm, call, s->node))
            RUNG_TRY(post(comm, call, RUNGI_MPI_RESULTS, true, n, round, c.data, c.bytes));
    }
    return RUNG_OK;
}

// Plans the rounds and sends what the first ones need, before it is known what the others call.
static rung_status begin_rounds(rungi_comm *comm, rungi_comm_call *call, const share *s)
{
    rungi_mpi_rounds *r = rounds_of(call);
    int64_t bytes = ROUND_BYTES / s->nodes;
    bytes = bytes > CHUNK_MOST ? CHUNK_MOST : bytes < CHUNK_LEAST ? CHUNK_LEAST : bytes;
    int64_t most = rungi_comm_part_of(s->count, s->nodes, 0).count; // of the pieces
    r->chunk = bytes / s->size / 16 * 16;
    r->count = (most + r->chunk - 1) / r->chunk;
    r->sent = r->received = r->summed = r->over = 0;
    uint64_t scratch = (uint64_t)(RUNGI_MPI_DEPTH * s->nodes * r->chunk * s->size);
    if (r->scratch_bytes < scratch) {
        free(r->scratch);
        r->scratch = aligned_alloc(64, scratch);
        r->scratch_bytes = r->scratch ? scratch : 0;
        if (!r->scratch)
            return rungi_comm_break(comm, RUNG_NO_MEMORY, "rank %d: no memory for %llu bytes",
                                    comm->rank, (unsigned long long)scratch);
    }
    while (r->sent < r->count && r->sent < RUNGI_MPI_DEPTH)
        RUNG_TRY(send_round(comm, call, s));
    return RUNG_OK;
}

// Goes on with the rounds that are under way; are all over?
static rung_status go_on(rungi_comm *comm, rungi_comm_call *call, const share *s, bool *over_out)
{
    rungi_mpi_rounds *r = rounds_of(call);
    for (bool moved = true; moved && r->over < r->count;) {
        moved = false;
        while (r->received < r->count && r->received - r->over < RUNGI_MPI_DEPTH) {
            if (r->sent == r->received)
                RUNG_TRY(send_round(comm, call, s));
            RUNG_TRY(receive_round(comm, call, s));
        }
        // Rounds are summed in their order: messages between two ranks are told apart by it.
        if (r->summed < r->received) {
            RUNG_TRY(rungi_mpi_test(comm, &r->messages[r->summed % RUNGI_MPI_DEPTH], &moved));
            if (moved)
                RUNG_TRY(sum_round(comm, call, s));
        }
        if (r->over < r->summed) {
            bool over;
            RUNG_TRY(rungi_mpi_test(comm, &r->messages[r->over % RUNGI_MPI_DEPTH], &over));
            r->over += over;
            moved |= over;
        }
    }
    *over_out = r->over == r->count;
    return RUNG_OK;
}

// ---- the way of a reduction -------------------------------------------------------------------

rung_status rungi_mpi_reduce_step(rungi_comm *comm, rungi_comm_call *call)
{
    rungi_mpi_between *b = call->inner;
    share s = share_of(comm, call);
    bool alone = rungi_mpi_link_of(comm)->shm.size == 1, over = true;
    switch (b->phase++) {
    case 0:
        if (!alone)
            rungi_mpi_sub(comm, call, 0, RUNGI_COMM_REDUCE_SCATTER);
        return RUNG_OK;
    case 1:
        RUNG_TRY(rungi_mpi_post_headers(comm, call, true, s.data,
                                        s.small ? (uint64_t)(s.count * s.size) : 0));
        return s.small ? RUNG_OK : begin_rounds(comm, call, &s);
    case 2:
        RUNG_TRY(rungi_mpi_check_headers(comm, call, true));
        if (s.small)
            sum_small(comm, call, &s);
        return RUNG_OK;
    case 3:
        if (!s.small)
            RUNG_TRY(go_on(comm, call, &s, &over));
        b->phase = over ? 4 : 3;
        return RUNG_OK;
    case 4:
        if (!alone)
            rungi_mpi_sub(comm, call, 1,
                          wants(comm, call, s.node) ? RUNGI_COMM_ALL_GATHER : RUNGI_COMM_BARRIER);
        return RUNG_OK;
    default:
        call->state = RUNGI_COMM_LANDED;
        return RUNG_OK;
    }
}

#endif
