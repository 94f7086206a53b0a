// SPDX-License-Identifier: Apache-2.0
// Ranks that are processes started by mpirun or srun, or several threads in each of them.
//
// MPI (3.0 or later) starts the processes and carries data between machines; processes of one
// machine exchange over shared memory (shm.h). Built where MPI is found; else the calls fail with
// RUNG_UNSUPPORTED.
#ifndef RUNGI_COMM_COMM_MPI_H
#define RUNGI_COMM_COMM_MPI_H

#include "comm/comm.h"

typedef struct rungi_comm_mpi_options {
    rungi_comm_options common;
    int threads; // ranks in each process, the same everywhere; rank = process * threads + thread
    // A rank whose process is stopped (SIGSTOP) is named after so many nanoseconds; 0: 2 s. One
    // whose process has ended is named within half a second.
    int64_t stall;
    // For tests: processes are cut into so many machines, which exchange by MPI. 0 or 1: as it is.
    int pretend_nodes;
} rungi_comm_mpi_options;

// Does the environment say that mpirun or srun started this process (as one of several)? Also true
// where what it says makes no sense: rungi_comm_mpi_create tells why.
bool rungi_comm_mpi_launched(void);

// Collective over all processes, on one thread each: starts MPI when that has not been done, and
// makes this process's ends, comms_out[threads]. Each is destroyed by its rank.
// Errors: RUNG_UNSUPPORTED (built without MPI); RUNG_LIBRARY; RUNG_INVALID; RUNG_CONFIG (the
// launcher's variables); RUNG_TIMEOUT: processes did not come within the timeout, or one was
// stopped meanwhile: they are named, and MPI cannot be used any more.
rung_status rungi_comm_mpi_create(const rungi_comm_mpi_options *options, rungi_comm **comms_out);

// Ends MPI, after the last communicator. Collective unless `failed`: then the process just ends its
// part, without waiting for others, and should exit with a status other than 0 soon.
void rungi_comm_mpi_end(bool failed);

#endif
