// SPDX-License-Identifier: Apache-2.0
// Creation of a communicator of processes: who is where, and what they share.
#include "comm/comm_mpi.h"

#include <stdlib.h>

#include "base/error.h"

#if defined(RUNG_MPI)

#    include <string.h>
#    include <unistd.h>

#    include "base/context.h"
#    include "base/cores.h"
#    include "comm/comm_mpi_inside.h"
#    include "comm/node_memory.h"

enum {
    STAGE_BYTES = 1 << 20,
    PAIR_BYTES = 1 << 16,
    PAGE = 4096,
};

rung_status rungi_mpi_fail(int error, const char *what)
{
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    MPI_Error_string(error, text, &length);
    return RUNG_FAIL(RUNG_LIBRARY, "MPI: %s: %s", what, text);
}

#    define MPI_TRY(call)                               \
        do {                                            \
            int mpi_try_ = (call);                      \
            if (mpi_try_ != MPI_SUCCESS)                \
                return rungi_mpi_fail(mpi_try_, #call); \
        } while (0)

// ---- who is where -----------------------------------------------------------------------------

static rung_status start_mpi(void)
{
    int running = 0, given = 0;
    MPI_TRY(MPI_Initialized(&running));
    if (!running)
        MPI_TRY(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &given));
    else
        MPI_TRY(MPI_Query_thread(&given));
    RUNG_CHECK(given >= MPI_THREAD_SERIALIZED, RUNG_LIBRARY,
               "this MPI cannot be called from several threads, one at a time");
    return RUNG_OK;
}

static rung_status own_communicators(rungi_mpi_process *p)
{
    MPI_TRY(MPI_Comm_dup(MPI_COMM_WORLD, &p->all));
    MPI_TRY(MPI_Comm_dup(MPI_COMM_WORLD, &p->pairs));
    MPI_TRY(MPI_Comm_dup(MPI_COMM_WORLD, &p->failures));
    MPI_TRY(MPI_Comm_set_errhandler(p->all, MPI_ERRORS_RETURN));
    MPI_TRY(MPI_Comm_set_errhandler(p->pairs, MPI_ERRORS_RETURN));
    MPI_TRY(MPI_Comm_set_errhandler(p->failures, MPI_ERRORS_RETURN));
    MPI_TRY(MPI_Comm_size(p->all, &p->processes));
    MPI_TRY(MPI_Comm_rank(p->all, &p->process));
    return RUNG_OK;
}

// Groups the processes by machine: `node_out` is the group of this process.
static rung_status find_node(rungi_mpi_process *p, int pretend, MPI_Comm *node_out)
{
    MPI_TRY(MPI_Comm_split_type(p->all, MPI_COMM_TYPE_SHARED, p->process, MPI_INFO_NULL, node_out));
    if (pretend > 1) {
        MPI_Comm whole = *node_out;
        int color = (int)((int64_t)p->process * pretend / p->processes);
        MPI_TRY(MPI_Comm_split(whole, color, p->process, node_out));
        MPI_TRY(MPI_Comm_free(&whole));
    }
    // Machines are numbered by their lowest process.
    int lowest = p->process;
    MPI_TRY(MPI_Allreduce(MPI_IN_PLACE, &lowest, 1, MPI_INT, MPI_MIN, *node_out));
    MPI_TRY(MPI_Allgather(&lowest, 1, MPI_INT, p->node_of, 1, MPI_INT, p->all));
    p->nodes = 0;
    for (int i = 0; i < p->processes; i++)
        if (p->node_of[i] == i)
            p->leaders[p->nodes++] = i;
    for (int i = 0; i < p->processes; i++)
        for (int n = 0; n < p->nodes; n++)
            if (p->leaders[n] == p->node_of[i]) {
                p->node_of[i] = n;
                break;
            }
    p->node = p->node_of[p->process];
    return RUNG_OK;
}

// Ranks of this machine, and whether all machines are alike.
static void count_ranks(rungi_mpi_process *p)
{
    p->local = 0;
    p->even = true;
    int before = 0;
    for (int i = 0; i < p->processes; i++) {
        p->even &= p->node_of[i] >= before; // in order
        before = p->node_of[i];
        for (int t = 0; t < p->threads && p->node_of[i] == p->node; t++)
            p->local_ranks[p->local++] = i * p->threads + t;
    }
    for (int n = 0; n < p->nodes; n++) {
        int ranks = 0;
        for (int i = 0; i < p->processes; i++)
            ranks += p->node_of[i] == n ? p->threads : 0;
        p->even &= ranks == p->local;
    }
    p->even &= (p->local & (p->local - 1)) == 0;
}

// ---- what is shared ---------------------------------------------------------------------------

static uint64_t pages(uint64_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static uint64_t stages_at(const rungi_mpi_process *p)
{
    return pages(rungi_shm_control_bytes(p->local));
}

static uint64_t pairs_at(const rungi_mpi_process *p)
{
    return stages_at(p) + (uint64_t)p->local * STAGE_BYTES;
}

static uint64_t recorders_at(const rungi_mpi_process *p)
{
    return pairs_at(p) + (uint64_t)p->local * (uint64_t)p->local * PAIR_BYTES;
}

static rungi_word *recorder_memory(const rungi_mpi_process *p, int index)
{
    return (rungi_word *)(p->memory + recorders_at(p)) + (size_t)index * RUNGI_RECORDER_WORDS;
}

// The lowest process of the machine makes the memory, the others open it.
static rung_status share_memory(rungi_mpi_process *p, MPI_Comm node)
{
    int index, file = -1;
    MPI_TRY(MPI_Comm_rank(node, &index));
    p->memory_bytes = recorders_at(p) + (uint64_t)p->local * RUNGI_RECORDER_WORDS * 8;
    rung_status status = RUNG_OK;
    void *memory = NULL;
    int64_t where[2] = {getpid(), -1};
    if (index == 0)
        status = rungi_node_memory_create(p->memory_bytes, &file, &memory);
    where[1] = file;
    MPI_TRY(MPI_Bcast(where, 2, MPI_INT64_T, 0, node));
    if (index != 0 && where[1] >= 0)
        status = rungi_node_memory_open(where[0], (int)where[1], p->memory_bytes, &memory);
    p->memory = memory;
    int ready = memory != NULL, all_ready = 0;
    MPI_TRY(MPI_Allreduce(&ready, &all_ready, 1, MPI_INT, MPI_MIN, node));
    if (file >= 0)
        close(file);
    RUNG_TRY(status);
    RUNG_CHECK(all_ready, RUNG_LIBRARY, "another process of this machine cannot share memory");
    return RUNG_OK;
}

static void process_free(rungi_mpi_process *p)
{
    rungi_watch_stop(&p->watch);
    for (int i = 0; p->comms && i < p->threads; i++) {
        rungi_mpi_link *l = p->comms[i].link;
        if (l) {
            for (int k = 0; k < l->shm.segment_count * l->shm.size; k++)
                rungi_node_memory_close(l->shm.segments[k], l->shm.segment_bytes[k / l->shm.size]);
            free(l->shm.segments);
            free(l->shm.segment_bytes);
            free(l->shm.sends);
            free(l->received);
            for (int k = 0; k < l->spares; k++)
                rungi_mpi_between_free(l->spare[k]);
            free(l);
        }
        for (int k = 0; k < RUNGI_COMM_CALLS; k++) {
            // What MPI may still be reading or writing has to stay.
            rungi_mpi_between *b = p->comms[i].calls[k].inner;
            if (b && !rungi_mpi_between_moves(b))
                rungi_mpi_between_free(b);
        }
        rungi_comm_fini(&p->comms[i]);
    }
    for (int i = 0; p->recorders && i < p->local; i++)
        rungi_recorder_fini(&p->recorders[i]);
    rungi_node_memory_close(p->memory, p->memory_bytes);
    rungi_mutex_fini(&p->mutex);
    free(p->node_of);
    free(p->recorders);
    free(p->comms);
    free(p);
}

// ---- the transport ----------------------------------------------------------------------------

static rung_status mpi_advance(rungi_comm *comm, rungi_comm_call *call)
{
    if (rungi_mpi_link_of(comm)->process->nodes > 1)
        return rungi_mpi_advance(comm, call);
    return rungi_shm_advance(comm, comm->link, call);
}

static void mpi_presence(rungi_comm *comm, const rungi_comm_call *call, rungi_comm_presence *out)
{
    if (rungi_mpi_link_of(comm)->process->nodes > 1)
        rungi_mpi_presence(comm, call, out);
    else
        rungi_shm_presence(comm->link, call, out);
}

static const rungi_word *mpi_recorder(rungi_comm *comm, int rank)
{
    const rungi_mpi_link *l = rungi_mpi_link_of(comm);
    int index = rungi_shm_index_of(&l->shm, rank);
    return index < 0 ? NULL : l->process->recorders[index].words;
}

static bool mpi_gone(rungi_comm *comm, int rank, char *why, size_t size)
{
    const rungi_mpi_link *l = rungi_mpi_link_of(comm);
    int index = rungi_shm_index_of(&l->shm, rank);
    return index >= 0 && rungi_shm_gone(&l->shm, index, mpi_recorder(comm, rank), why, size);
}

static void mpi_publish(rungi_comm *comm, const rung_error *error)
{
    rungi_shm_publish(comm->link, error);
}

static bool mpi_broken(rungi_comm *comm)
{
    return rungi_shm_broken(comm->link);
}

static void mpi_failure(rungi_comm *comm, rung_error *error_out)
{
    rungi_shm_failure_get(comm->link, error_out);
    rungi_mpi_tell(comm, error_out);
}

// Room for one more call of rungi_comm_alloc.
static rung_status more_segments(rungi_shm *shm)
{
    size_t calls = (size_t)shm->segment_count + 1, size = (size_t)shm->size;
    uint8_t **segments = realloc(shm->segments, calls * size * sizeof *segments);
    if (segments)
        shm->segments = segments;
    uint64_t *bytes = realloc(shm->segment_bytes, calls * sizeof *bytes);
    if (bytes)
        shm->segment_bytes = bytes;
    RUNG_CHECK(segments && bytes, RUNG_NO_MEMORY, "no memory");
    for (size_t i = 0; i < size; i++)
        segments[(size_t)shm->segment_count * size + i] = NULL;
    bytes[shm->segment_count++] = 0;
    return RUNG_OK;
}

// What a rank tells of memory that it made.
typedef struct offer {
    int64_t pid, file;
} offer;

static rung_status open_offers(rungi_shm *shm, const offer *offers, uint64_t bytes)
{
    uint8_t **row = shm->segments + (size_t)(shm->segment_count - 1) * (size_t)shm->size;
    for (int i = 0; i < shm->size; i++) {
        const offer *o = &offers[rungi_shm_rank_of(shm, i)];
        void *data = row[i];
        if (i != shm->index)
            RUNG_TRY(rungi_node_memory_open(o->pid, (int)o->file, bytes, &data));
        row[i] = data;
    }
    return RUNG_OK;
}

// Each rank makes its own memory and opens that of the others on its machine.
static rung_status mpi_alloc(rungi_comm *comm, uint64_t bytes, void **data_out)
{
    rungi_shm *shm = comm->link;
    void *data = NULL, *all = NULL;
    uint64_t whole = rungi_node_memory_round(bytes);
    uint64_t *offsets = calloc((size_t)comm->size + 1, sizeof *offsets);
    int file = -1;
    rung_status status = offsets ? more_segments(shm) : RUNG_FAIL(RUNG_NO_MEMORY, "no memory");
    if (status == RUNG_OK)
        status = rungi_node_memory_create(whole, &file, &data);
    if (status == RUNG_OK) {
        offer own = {getpid(), file};
        shm->segment_bytes[shm->segment_count - 1] = whole;
        shm->segments[(shm->segment_count - 1) * shm->size + shm->index] = data;
        status = rungi_comm_gather_objects(comm, &own, sizeof own, "shared memory", &all, offsets);
    }
    if (status == RUNG_OK)
        status = open_offers(shm, all, whole);
    if (status == RUNG_OK)
        status = rungi_comm_barrier(comm, "shared memory");
    else
        rungi_comm_fail(comm);
    if (file >= 0)
        close(file);
    free(all);
    free(offsets);
    if (status == RUNG_OK)
        *data_out = data;
    return status;
}

static void mpi_free(rungi_comm *comm, void *data)
{
    rungi_shm *shm = comm->link;
    for (int k = 0; k < shm->segment_count; k++) {
        uint8_t **row = shm->segments + (size_t)k * (size_t)shm->size;
        if (row[shm->index] != data)
            continue;
        for (int i = 0; i < shm->size; i++) {
            rungi_node_memory_close(row[i], shm->segment_bytes[k]);
            row[i] = NULL;
        }
        return;
    }
}

static void mpi_destroy(rungi_comm *comm)
{
    rungi_mpi_link *l = rungi_mpi_link_of(comm);
    rungi_mpi_process *p = l->process;
    atomic_store_explicit(&l->shm.control->ranks[l->shm.index].left, 1, memory_order_release);
    if (atomic_fetch_sub(&p->here, 1) == 1)
        process_free(p);
}

static const rungi_comm_transport mpi_transport = {
    .name = "mpi",
    .advance = mpi_advance,
    .presence = mpi_presence,
    .recorder = mpi_recorder,
    .gone = mpi_gone,
    .publish = mpi_publish,
    .broken = mpi_broken,
    .failure = mpi_failure,
    .settle = rungi_mpi_settle,
    .alloc = mpi_alloc,
    .free = mpi_free,
    .destroy = mpi_destroy,
};

// ---- creation ---------------------------------------------------------------------------------

static rung_status rank_create(rungi_mpi_process *p, int thread, const rungi_comm_options *options)
{
    rungi_comm *comm = &p->comms[thread];
    int rank = p->process * p->threads + thread, size = p->processes * p->threads;
    rungi_mpi_link *l = calloc(1, sizeof *l);
    RUNG_CHECK(l, RUNG_NO_MEMORY, "no memory for rank %d", rank);
    comm->link = l;
    l->process = p;
    l->thread = thread;
    l->shm = (rungi_shm){
        .control = (rungi_shm_control *)p->memory,
        .size = p->local,
        .direct = p->local == 1, // nobody else has to reach what it has
        .ranks = p->local_ranks,
        .parts = p->nodes > 1 ? RUNGI_SHM_PARTS : 1,
        .stages = p->memory + stages_at(p),
        .stage_bytes = STAGE_BYTES,
        .pair_stages = p->memory + pairs_at(p),
        .pair_bytes = PAIR_BYTES,
    };
    l->shm.index = rungi_shm_index_of(&l->shm, rank);
    l->shm.sends = calloc((size_t)p->local, 2 * sizeof *l->shm.sends);
    l->received = calloc((size_t)size, sizeof *l->received);
    RUNG_CHECK(l->shm.sends && l->received, RUNG_NO_MEMORY, "no memory for rank %d", rank);
    l->shm.receives = l->shm.sends + p->local;
    comm->transport = &mpi_transport;
    comm->local_rank = l->shm.index;
    comm->local_size = p->local;
    comm->crowded = p->local > rungi_core_count();
    return rungi_comm_init(comm, rank, size, options, recorder_memory(p, l->shm.index));
}

static rung_status process_init(rungi_mpi_process *p, const rungi_comm_mpi_options *options,
                                MPI_Comm *node_out)
{
    RUNG_TRY(own_communicators(p));
    RUNG_CHECK((int64_t)p->processes * p->threads <= RUNGI_COMBINE_RANKS, RUNG_INVALID,
               "%d processes of %d ranks: at most %d ranks are allowed", p->processes, p->threads,
               RUNGI_COMBINE_RANKS);
    size_t processes = (size_t)p->processes, ranks = processes * (size_t)p->threads;
    p->node_of = calloc(2 * processes + ranks, sizeof(int));
    RUNG_CHECK(p->node_of, RUNG_NO_MEMORY, "no memory for %d processes", p->processes);
    p->leaders = p->node_of + processes;
    p->local_ranks = p->leaders + processes;
    RUNG_TRY(find_node(p, options->pretend_nodes, node_out));
    count_ranks(p);
    RUNG_TRY(share_memory(p, *node_out));
    p->comms = calloc((size_t)p->threads, sizeof *p->comms);
    p->recorders = calloc((size_t)p->local, sizeof *p->recorders);
    RUNG_CHECK(p->comms && p->recorders, RUNG_NO_MEMORY, "no memory for %d ranks", p->local);
    for (int t = 0; t < p->threads; t++)
        RUNG_TRY(rank_create(p, t, &options->common));
    return RUNG_OK;
}

// With all ranks' flight recorders in place: opens them, and begins to watch.
static rung_status process_watch(rungi_mpi_process *p, const rungi_comm_mpi_options *options)
{
    for (int i = 0; i < p->local; i++)
        RUNG_TRY(rungi_recorder_open(&p->recorders[i], options->common.recorder,
                                     recorder_memory(p, i), p->local_ranks[i]));
    const rungi_shm *shm = p->comms[0].link;
    return rungi_watch_start(shm, p->recorders, shm->index, p->threads,
                             options->stall > 0 ? options->stall : RUNGI_MPI_STALL, &p->watch);
}

// All processes go on together, or none.
static rung_status agree(const rungi_mpi_process *p, rung_status status)
{
    if (p->processes == 0)
        return status; // MPI itself does not work
    int mine = status == RUNG_OK, all = 0;
    rung_error kept = *rung_error_last();
    MPI_TRY(MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, p->all));
    if (status != RUNG_OK)
        return rungi_fail_adopt(&kept);
    RUNG_CHECK(all, RUNG_CANCELLED, "another process could not make its communicator");
    return RUNG_OK;
}

rung_status rungi_mpi_process_create(const rungi_comm_mpi_options *options, int threads,
                                     rungi_mpi_process **process_out)
{
    RUNG_TRY(start_mpi());
    rungi_mpi_process *p = calloc(1, sizeof *p);
    RUNG_CHECK(p, RUNG_NO_MEMORY, "no memory for a communicator");
    p->threads = threads;
    atomic_init(&p->here, (uint64_t)threads);
    rungi_mutex_init(&p->mutex);
    MPI_Comm node = MPI_COMM_NULL;
    rung_status status = agree(p, process_init(p, options, &node));
    if (status == RUNG_OK)
        status = agree(p, process_watch(p, options));
    if (node != MPI_COMM_NULL)
        MPI_Comm_free(&node);
    if (status != RUNG_OK) {
        process_free(p);
        return status;
    }
    *process_out = p;
    return RUNG_OK;
}

void rungi_comm_mpi_end(bool failed)
{
    int running = 0, ended = 0;
    MPI_Initialized(&running);
    MPI_Finalized(&ended);
    if (running && !ended && !failed)
        MPI_Finalize();
}

#endif
