// SPDX-License-Identifier: Apache-2.0
// What mpirun or srun tells a process that it starts, and a board on which the processes of a
// machine write that they have come: for naming those that are missing before MPI itself works.
#ifndef RUNGI_COMM_LAUNCH_H
#define RUNGI_COMM_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "rung/status.h"

enum { RUNGI_LAUNCH_PROCESSES = 4096 };

typedef struct rungi_launch {
    bool launched; // as one of several processes
    int rank, size, local_size;
    bool one_machine; // the launcher says that all processes are on this machine
} rungi_launch;

// Reads the launcher's variables: Open MPI's, PMI's (MPICH), Slurm's. Where there are none, the
// process was started by itself. Errors: RUNG_CONFIG naming a variable that is missing beside its
// partner, or not a number in its range ("allowed are 0 to 3").
rung_status rungi_launch_read(rungi_launch *out);

// ---- the board --------------------------------------------------------------------------------

typedef struct rungi_board rungi_board;

// Opens the board of this machine's processes and enters this one. The board is a file in memory
// that the first one makes. Errors: RUNG_IO.
rung_status rungi_board_enter(const rungi_launch *launch, rungi_board **board_out);
// This process gives up for a reason of its own: the others are told that it has died.
void rungi_board_fail(rungi_board *board);
// Takes the file away, when all have met, or nobody waits any more; and forgets the board.
void rungi_board_close(rungi_board **board, bool remove);

// The first process that came but is gone or stopped (SIGSTOP), or that has not come and is not
// among the launcher's children (any more, or yet: believe it after a while); -1: none. `why` is
// set to words for it.
#define RUNGI_BOARD_DIED "has died"
#define RUNGI_BOARD_STOPPED "was stopped"
#define RUNGI_BOARD_ABSENT "has not come, and has no process"
// For one that died this process is taken to give up: others are told of the same one.
int rungi_board_fallen(rungi_board *board, const char **why);
// "ranks 2-3" of the processes that have not come; how many.
int rungi_board_missing(const rungi_board *board, rungi_string *out);

#endif
