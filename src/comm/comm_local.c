// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads of one process. All memory is seen by all, so every call works in place.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cores.h"
#include "base/error.h"
#include "comm/shm.h"

// The group; the rank that leaves last frees it.
typedef struct group {
    int size;
    rungi_word here; // ranks that have not left
    rungi_shm_control *control;
    rungi_comm *comms;
} group;

typedef struct local_link {
    rungi_shm shm; // first: what transports see
    group *group;
} local_link;

static group *group_of(const rungi_comm *comm)
{
    return ((local_link *)comm->link)->group;
}

static void group_free(group *g)
{
    for (int i = 0; i < g->size; i++) {
        local_link *l = g->comms[i].link;
        if (l) {
            free(l->shm.sends);
            free(l);
        }
        rungi_comm_fini(&g->comms[i]);
    }
    free(g->comms);
    free(g->control);
    free(g);
}

// ---- the transport ----------------------------------------------------------------------------

static rung_status local_advance(rungi_comm *comm, rungi_comm_call *call)
{
    return rungi_shm_advance(comm, comm->link, call);
}

static void local_presence(rungi_comm *comm, const rungi_comm_call *call, rungi_comm_presence *out)
{
    rungi_shm_presence(comm->link, call, out);
}

static const rungi_word *local_recorder(rungi_comm *comm, int rank)
{
    return group_of(comm)->comms[rank].recorder.words;
}

static bool local_gone(rungi_comm *comm, int rank, char *why, size_t size)
{
    return rungi_shm_gone(comm->link, rank, local_recorder(comm, rank), why, size);
}

static void local_publish(rungi_comm *comm, const rung_error *error)
{
    rungi_shm_publish(comm->link, error);
}

static bool local_broken(rungi_comm *comm)
{
    return rungi_shm_broken(comm->link);
}

static void local_failure(rungi_comm *comm, rung_error *error_out)
{
    rungi_shm_failure_get(comm->link, error_out);
}

static void local_settle(rungi_comm *comm)
{
    rungi_shm_settle(comm->link);
}

static rung_status local_alloc(rungi_comm *comm, uint64_t bytes, void **data_out)
{
    (void)comm;
    const uint64_t huge = 2 << 20;
    uint64_t unit = bytes >= huge ? huge : 64;
    RUNG_CHECK(bytes <= UINT64_MAX / 2, RUNG_NO_MEMORY, "no memory for %llu bytes to exchange",
               (unsigned long long)bytes);
    uint64_t rounded = (bytes + (bytes == 0) + unit - 1) / unit * unit;
    void *data = aligned_alloc(unit, rounded);
    RUNG_CHECK(data, RUNG_NO_MEMORY, "no memory for %llu bytes to exchange",
               (unsigned long long)bytes);
    if (unit == huge)
        madvise(data, rounded, MADV_HUGEPAGE); // a wish
    memset(data, 0, rounded);
    *data_out = data;
    return RUNG_OK;
}

static void local_free(rungi_comm *comm, void *data)
{
    (void)comm;
    free(data);
}

static void local_destroy(rungi_comm *comm)
{
    local_link *l = comm->link;
    group *g = l->group;
    atomic_store_explicit(&g->control->ranks[comm->rank].left, 1, memory_order_release);
    if (atomic_fetch_sub(&g->here, 1) == 1)
        group_free(g);
}

static const rungi_comm_transport local_transport = {
    .name = "local",
    .advance = local_advance,
    .presence = local_presence,
    .recorder = local_recorder,
    .gone = local_gone,
    .publish = local_publish,
    .broken = local_broken,
    .failure = local_failure,
    .settle = local_settle,
    .alloc = local_alloc,
    .free = local_free,
    .destroy = local_destroy,
};

// ---- creation ---------------------------------------------------------------------------------

static rung_status link_create(group *g, int rank)
{
    rungi_comm *comm = &g->comms[rank];
    local_link *l = calloc(1, sizeof *l);
    RUNG_CHECK(l, RUNG_NO_MEMORY, "no memory for rank %d", rank);
    comm->link = l;
    l->group = g;
    l->shm = (rungi_shm){
        .control = g->control, .index = rank, .size = g->size, .parts = 1, .direct = true};
    l->shm.sends = calloc((size_t)g->size, 2 * sizeof *l->shm.sends);
    RUNG_CHECK(l->shm.sends, RUNG_NO_MEMORY, "no memory for rank %d", rank);
    l->shm.receives = l->shm.sends + g->size;
    return RUNG_OK;
}

rung_status rungi_comm_local_create(int size, const rungi_comm_options *options,
                                    rungi_comm **comms_out)
{
    RUNG_CHECK(size >= 1 && size <= RUNGI_COMBINE_RANKS, RUNG_INVALID,
               "%d ranks: allowed are 1 to %d", size, RUNGI_COMBINE_RANKS);
    rung_status status = RUNG_OK;
    group *g = calloc(1, sizeof *g);
    RUNG_CHECK(g, RUNG_NO_MEMORY, "no memory for %d ranks", size);
    atomic_init(&g->here, (uint64_t)size);
    size_t bytes = (rungi_shm_control_bytes(size) + 127) / 128 * 128;
    g->control = aligned_alloc(128, bytes);
    g->comms = calloc((size_t)size, sizeof *g->comms);
    g->size = g->comms ? size : 0;
    if (!g->control || !g->comms)
        RUNG_TRY_GOTO(free_group, RUNG_FAIL(RUNG_NO_MEMORY, "no memory for %d ranks", size));
    memset((void *)g->control, 0, bytes);
    bool crowded = size > rungi_core_count();
    for (int rank = 0; rank < size; rank++) {
        rungi_comm *comm = &g->comms[rank];
        RUNG_TRY_GOTO(free_group, rungi_comm_init(comm, rank, size, options, NULL));
        RUNG_TRY_GOTO(free_group, link_create(g, rank));
        comm->transport = &local_transport;
        comm->local_rank = rank;
        comm->local_size = size;
        comm->crowded = crowded;
    }
    for (int rank = 0; rank < size; rank++)
        comms_out[rank] = &g->comms[rank];
    return RUNG_OK;
free_group:
    group_free(g);
    return status;
}
