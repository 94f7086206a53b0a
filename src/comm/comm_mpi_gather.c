// SPDX-License-Identifier: Apache-2.0
// Objects of all ranks to all ranks, over several machines: gathered on each machine, exchanged by
// the leaders, and given to the others. All-gathers are made of it, and so are reductions where
// machines are unlike: then each rank gets all ranks' data and sums it in the tree by itself, which
// is right for any placement, but neither fast nor small.
#include "comm/comm_mpi_inside.h"

#if defined(RUNG_MPI)

#    include <stdlib.h>
#    include <string.h>

#    include "base/error.h"

static rungi_mpi_process *process_of(const rungi_comm *comm)
{
    return rungi_mpi_link_of(comm)->process;
}

static int node_of(const rungi_comm *comm, int rank)
{
    const rungi_mpi_process *p = process_of(comm);
    return p->node_of[rank / p->threads];
}

static rung_status no_memory(rungi_comm *comm, uint64_t bytes)
{
    return rungi_comm_break(comm, RUNG_NO_MEMORY, "rank %d: no memory for %llu bytes", comm->rank,
                            (unsigned long long)bytes);
}

// What a rank gives.
static rungi_comm_part object_of(const rungi_comm *comm, const rungi_comm_call *call)
{
    if (call->act == RUNGI_COMM_ALL_GATHER)
        return rungi_comm_part_of(call->count, comm->size, comm->rank);
    return (rungi_comm_part){0, call->count};
}

static rung_status gather_local(rungi_comm *comm, rungi_comm_call *call)
{
    rungi_mpi_between *b = call->inner;
    size_t ranks = (size_t)comm->size;
    b->offsets = calloc(ranks + 1, sizeof *b->offsets);
    b->sizes = calloc(ranks, sizeof *b->sizes);
    if (!b->offsets || !b->sizes)
        return no_memory(comm, ranks * 16);
    int64_t size = rungi_comm_element(call);
    rungi_comm_part own = object_of(comm, call);
    rungi_mpi_sub(comm, call, 0, RUNGI_COMM_GATHER);
    b->sub.data = call->data ? (uint8_t *)call->data + own.begin * size : NULL;
    b->sub.count = own.count * size;
    b->sub.what.bytes = (uint64_t)b->sub.count;
    b->sub.all_out = &b->local;
    b->sub.offsets = b->offsets;
    return RUNG_OK;
}

// The sizes of a machine's objects follow each other in `sizes`, machine by machine.
static int sizes_at(const rungi_comm *comm, int node)
{
    int at = 0;
    for (int r = 0; r < comm->size; r++)
        at += node_of(comm, r) < node;
    return at;
}

static rung_status post_sizes(rungi_comm *comm, rungi_comm_call *call)
{
    rungi_mpi_between *b = call->inner;
    const rungi_mpi_process *p = process_of(comm);
    RUNG_TRY(rungi_mpi_check_headers(comm, call, call->what.kind != RUNGI_COMM_GATHER));
    // Objects of this machine lie one after the other, in the order of its ranks.
    uint64_t *own = b->sizes + sizes_at(comm, p->node);
    for (int i = 0; i < p->local; i++) {
        int next = i + 1 < p->local ? p->local_ranks[i + 1] : p->local_ranks[i] + 1;
        own[i] = b->offsets[next] - b->offsets[p->local_ranks[i]];
    }
    for (int n = 0; n < p->nodes; n++) {
        int rank = rungi_mpi_leader(comm, n);
        uint64_t count = (uint64_t)(sizes_at(comm, n + 1) - sizes_at(comm, n));
        if (n == p->node)
            continue;
        RUNG_TRY(rungi_mpi_post(comm, call, &b->messages, RUNGI_MPI_SIZES, true, rank,
                                b->sizes + sizes_at(comm, n), count * 8));
        RUNG_TRY(rungi_mpi_post(comm, call, &b->messages, RUNGI_MPI_SIZES, false, rank, own,
                                (uint64_t)p->local * 8));
    }
    return RUNG_OK;
}

static uint64_t node_bytes(const rungi_comm *comm, const rungi_mpi_between *b, int node)
{
    uint64_t bytes = 0;
    for (int i = sizes_at(comm, node); i < sizes_at(comm, node + 1); i++)
        bytes += b->sizes[i];
    return bytes;
}

// The machines' blocks come one after the other.
static rung_status post_blocks(rungi_comm *comm, rungi_comm_call *call)
{
    rungi_mpi_between *b = call->inner;
    const rungi_mpi_process *p = process_of(comm);
    uint64_t total = 0, at = 0, own = node_bytes(comm, b, p->node);
    for (int n = 0; n < p->nodes; n++)
        total += node_bytes(comm, b, n);
    b->blocks = malloc(total + 1);
    if (!b->blocks)
        return no_memory(comm, total);
    for (int n = 0; n < p->nodes; n++) {
        int rank = rungi_mpi_leader(comm, n);
        uint64_t bytes = node_bytes(comm, b, n);
        if (n == p->node) {
            memcpy(b->blocks + at, b->local, bytes);
        } else {
            RUNG_TRY(rungi_mpi_post(comm, call, &b->messages, RUNGI_MPI_PIECES, true, rank,
                                    b->blocks + at, bytes));
            RUNG_TRY(rungi_mpi_post(comm, call, &b->messages, RUNGI_MPI_PIECES, false, rank,
                                    b->local, own));
        }
        at += bytes;
    }
    return RUNG_OK;
}

// Puts the objects into the order of their ranks.
static rung_status assemble(rungi_comm *comm, rungi_comm_call *call)
{
    rungi_mpi_between *b = call->inner;
    const rungi_mpi_process *p = process_of(comm);
    uint64_t size_of[RUNGI_COMBINE_RANKS], from[RUNGI_COMBINE_RANKS], at = 0;
    int k = 0;
    for (int n = 0; n < p->nodes; n++)
        for (int r = 0; r < comm->size; r++) {
            if (node_of(comm, r) != n)
                continue;
            size_of[r] = b->sizes[k++];
            from[r] = at;
            at += size_of[r];
        }
    b->block = malloc(at + 1);
    if (!b->block)
        return no_memory(comm, at);
    b->offsets[0] = 0;
    for (int r = 0; r < comm->size; r++) {
        memcpy(b->block + b->offsets[r], b->blocks + from[r], size_of[r]);
        b->offsets[r + 1] = b->offsets[r] + size_of[r];
    }
    return RUNG_OK;
}

// The leader's memory comes to the ranks of its machine.
static void give(rungi_comm *comm, rungi_comm_call *call, int part, void *data, uint64_t bytes)
{
    rungi_mpi_between *b = call->inner;
    rungi_mpi_sub(comm, call, part, RUNGI_COMM_BROADCAST);
    b->sub.data = data;
    b->sub.count = (int64_t)bytes;
    b->sub.what.bytes = bytes;
    b->sub.root = rungi_mpi_leader(comm, process_of(comm)->node);
}

static void sum_objects(rungi_comm *comm, rungi_comm_call *call)
{
    const rungi_mpi_between *b = call->inner;
    const void *in[RUNGI_COMBINE_RANKS];
    void *out[1] = {call->data};
    for (int r = 0; r < comm->size; r++)
        in[r] = b->block + b->offsets[r];
    rungi_combine_tree(comm->loops, call->what.dtype, call->what.op, in, comm->size, out, 1,
                       call->count);
}

static void hand_over(rungi_comm *comm, rungi_comm_call *call)
{
    rungi_mpi_between *b = call->inner;
    switch (call->act) {
    case RUNGI_COMM_GATHER:
        *call->all_out = b->block;
        b->block = NULL;
        memcpy(call->offsets, b->offsets, ((size_t)comm->size + 1) * sizeof *b->offsets);
        break;
    case RUNGI_COMM_ALL_GATHER: // the parts follow each other as they do in the data
        if (b->offsets[comm->size])
            memcpy(call->data, b->block, b->offsets[comm->size]);
        break;
    case RUNGI_COMM_REDUCE:
        if (call->root == comm->rank)
            sum_objects(comm, call);
        break;
    default:
        sum_objects(comm, call);
    }
}

rung_status rungi_mpi_gather_step(rungi_comm *comm, rungi_comm_call *call)
{
    rungi_mpi_between *b = call->inner;
    bool leads = rungi_mpi_leads(comm);
    switch (b->phase++) {
    case 0:
        return gather_local(comm, call);
    case 1:
        return leads ? rungi_mpi_post_headers(comm, call, false, NULL, 0) : RUNG_OK;
    case 2:
        return leads ? post_sizes(comm, call) : RUNG_OK;
    case 3:
        return leads ? post_blocks(comm, call) : RUNG_OK;
    case 4:
        if (leads)
            RUNG_TRY(assemble(comm, call));
        give(comm, call, 1, b->offsets, ((uint64_t)comm->size + 1) * 8);
        return RUNG_OK;
    case 5:
        if (!leads)
            b->block = malloc(b->offsets[comm->size] + 1);
        if (!b->block)
            return no_memory(comm, b->offsets[comm->size]);
        give(comm, call, 2, b->block, b->offsets[comm->size]);
        return RUNG_OK;
    default:
        hand_over(comm, call);
        call->state = RUNGI_COMM_LANDED;
        return RUNG_OK;
    }
}

#endif
