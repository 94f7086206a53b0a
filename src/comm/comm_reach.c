// SPDX-License-Identifier: Apache-2.0
// Memory of other ranks that this one reads and writes in place.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/comm_inside.h"

rung_status rungi_comm_reach(rungi_comm *comm, const void *data, uint64_t bytes, const char *label,
                             void **at_out)
{
    uint64_t *offsets = calloc((size_t)comm->size + 1, sizeof *offsets);
    uint64_t address = rungi_comm_address(comm, data, bytes);
    void *all = NULL;
    RUNG_CHECK(offsets, RUNG_NO_MEMORY, "%s: no memory", label);
    rung_status status =
        rungi_comm_gather_objects(comm, &address, sizeof address, label, &all, offsets);
    for (int r = 0; status == RUNG_OK && r < comm->size; r++) {
        memcpy(&address, (char *)all + offsets[r], sizeof address);
        at_out[r] = address ? rungi_comm_at(comm, r, address) : NULL;
    }
    free(all);
    free(offsets);
    return status;
}

void rungi_comm_sum_reached(const rungi_comm *comm, float *const *at, int64_t begin, int64_t count,
                            float *sum_out)
{
    const void *in[RUNGI_COMBINE_RANKS];
    void *out = sum_out;
    for (int r = 0; r < comm->size; r++)
        in[r] = at[r] + begin;
    rungi_combine_tree(comm->loops, RUNG_F32, RUNGI_COMM_SUM, in, comm->size, &out, 1, count);
}

void rungi_comm_give_reached(const rungi_comm *comm, float *const *at, int64_t begin, int64_t count)
{
    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank)
            comm->loops->copy(at[r] + begin, at[comm->rank] + begin, count);
}

void rungi_comm_note_reached(rungi_comm *comm, uint64_t bytes)
{
    comm->moved += bytes;
}
