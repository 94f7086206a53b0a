// SPDX-License-Identifier: Apache-2.0
// Inside of the MPI communicator.
#ifndef RUNGI_COMM_COMM_MPI_INSIDE_H
#define RUNGI_COMM_COMM_MPI_INSIDE_H

#if defined(RUNG_MPI)

#    include <mpi.h>

#    include "base/thread.h"
#    include "comm/comm_mpi.h"
#    include "comm/shm.h"
#    include "comm/watch.h"

// What the ranks of a process share. The last one that leaves frees it.
typedef struct rungi_mpi_process {
    rungi_word here; // ranks of this process that have not left
    int threads, processes, process;
    MPI_Comm all;      // between machines: calls
    MPI_Comm pairs;    // send and receive
    MPI_Comm failures; // what broke
    rungi_mutex mutex; // one thread at a time talks to MPI
    int *node_of;      // machine of each process
    int nodes, node;
    int local;        // ranks of this machine
    int *local_ranks; // their numbers, increasing
    bool even;        // all machines have the same power of two of ranks, in order
    int *leaders;     // lowest process of each machine
    // One mapping: control, stages, stages of pairs, flight recorders.
    uint8_t *memory;
    uint64_t memory_bytes;
    rungi_recorder *recorders; // of the ranks of this machine, read
    rungi_watch *watch;
    rungi_comm *comms; // of this process
} rungi_mpi_process;

// A rank's end.
typedef struct rungi_mpi_link {
    rungi_shm shm; // first
    rungi_mpi_process *process;
    int thread;
    int allocations;
    uint64_t *allocation_bytes;
} rungi_mpi_link;

static inline rungi_mpi_link *rungi_mpi_link_of(const rungi_comm *comm)
{
    return comm->link;
}

rung_status rungi_mpi_fail(int error, const char *what);

// Calls of ranks on several machines (comm_mpi_nodes.c).
rung_status rungi_mpi_advance(rungi_comm *comm, rungi_comm_call *call);
void rungi_mpi_presence(rungi_comm *comm, const rungi_comm_call *call, rungi_comm_presence *out);
// Frees what a call that did not end holds.
void rungi_mpi_abandon(rungi_comm *comm, rungi_comm_call *call);

#endif
#endif
