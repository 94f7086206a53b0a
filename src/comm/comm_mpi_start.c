// SPDX-License-Identifier: Apache-2.0
// The start of processes that mpirun or srun made: MPI's own calls wait without a limit, so they
// are made on a thread that is given up when the time is over, and who is missing is named by a
// board that does without MPI (launch.h).
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/error.h"
#include "base/text.h"
#include "base/thread.h"
#include "comm/comm_mpi_inside.h"
#include "comm/launch.h"

bool rungi_comm_mpi_launched(void)
{
    rungi_launch launch;
    rung_error kept = *rung_error_last();
    bool launched = rungi_launch_read(&launch) != RUNG_OK || launch.launched;
    rungi_fail_adopt(&kept);
    return launched;
}

#if !defined(RUNG_MPI)

rung_status rungi_comm_mpi_create(const rungi_comm_mpi_options *options, rungi_comm **comms_out)
{
    (void)options;
    (void)comms_out;
    return RUNG_FAIL(RUNG_UNSUPPORTED, "this build of rung has no MPI: install libopenmpi-dev and "
                                       "build again, or use threads as ranks");
}

void rungi_comm_mpi_end(bool failed)
{
    (void)failed;
}

#else

// What the thread needs, which outlives a wait that was given up.
typedef struct creation {
    rungi_comm_mpi_options options;
    int threads;
    char *recorder; // copy of the option's
    rungi_thread thread;
    rungi_mutex mutex;
    rungi_cond wake;
    bool done;
    rungi_mpi_process *process;
} creation;

static rung_status creation_main(void *arg)
{
    creation *c = arg;
    rung_status status = rungi_mpi_process_create(&c->options, c->threads, &c->process);
    rungi_mutex_lock(&c->mutex);
    c->done = true;
    rungi_cond_signal(&c->wake);
    rungi_mutex_unlock(&c->mutex);
    return status;
}

static rung_status creation_start(const rungi_comm_mpi_options *options, int threads,
                                  creation **creation_out)
{
    creation *c = calloc(1, sizeof *c);
    RUNG_CHECK(c, RUNG_NO_MEMORY, "no memory for a communicator");
    c->options = *options;
    c->threads = threads;
    const char *folder = options->common.recorder;
    c->options.common.recorder = c->recorder = folder ? rungi_text_copy(folder) : NULL;
    rungi_mutex_init(&c->mutex);
    rungi_cond_init(&c->wake);
    rung_status status = folder && !c->recorder
                             ? RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a communicator")
                             : rungi_thread_start(&c->thread, "rung-mpi", creation_main, c);
    if (status != RUNG_OK) {
        free(c->recorder);
        free(c);
        return status;
    }
    *creation_out = c;
    return RUNG_OK;
}

// Who is missing, or fell while the others wait; RUNG_OK: nobody yet.
static rung_status look_around(const rungi_launch *launch, rungi_board *board, int64_t waited,
                               const rungi_comm_mpi_options *o, int *fallen, int64_t *fallen_since)
{
    int64_t stall = o->stall > 0 ? o->stall : RUNGI_MPI_STALL;
    int64_t timeout = o->common.timeout > 0 ? o->common.timeout : 30 * RUNGI_MPI_STALL;
    const char *why = "";
    int rank = board ? rungi_board_fallen(board, &why) : -1;
    if (rank != *fallen) {
        *fallen = rank;
        *fallen_since = waited;
    }
    // A stopped one may be woken, an absent one be about to start.
    int64_t patience = stall;
    if (rank >= 0 && strcmp(why, RUNGI_BOARD_STOPPED) != 0)
        patience = strcmp(why, RUNGI_BOARD_DIED) == 0 ? 0 : stall / 2;
    RUNG_CHECK(rank < 0 || waited - *fallen_since < patience, RUNG_CANCELLED,
               "rank %d %s while the processes met", rank * o->threads, why);
    if (waited < timeout)
        return RUNG_OK;
    rungi_string text = {0};
    int missing = board ? rungi_board_missing(board, &text) : 0;
    rung_status status =
        missing ? RUNG_FAIL(RUNG_TIMEOUT,
                            "process %d waited %.3g s for the others to start; of %d processes "
                            "missing%s: %s",
                            launch->rank, (double)waited / 1e9, launch->size,
                            launch->local_size < launch->size ? " on this machine" : "",
                            rungi_string_text(&text))
                : RUNG_FAIL(RUNG_TIMEOUT,
                            "process %d waited %.3g s for MPI to start, though all %d processes "
                            "are there",
                            launch->rank, (double)waited / 1e9, launch->size);
    rungi_string_fini(&text);
    return status;
}

static rung_status creation_wait(creation *c, const rungi_launch *launch, rungi_board *board)
{
    const rung_clock *clock = rungi_clock_monotonic();
    int64_t began = clock->now(clock->user), since = 0;
    int fallen = -1;
    rung_status status = RUNG_OK;
    rungi_mutex_lock(&c->mutex);
    while (!c->done && status == RUNG_OK) {
        int64_t until = clock->now(clock->user) + RUNGI_MPI_STALL / 20;
        while (!c->done && rungi_cond_wait_until(&c->wake, &c->mutex, clock, until))
            continue;
        if (!c->done)
            status = look_around(launch, board, clock->now(clock->user) - began, &c->options,
                                 &fallen, &since);
    }
    rungi_mutex_unlock(&c->mutex);
    return status;
}

rung_status rungi_comm_mpi_create(const rungi_comm_mpi_options *options, rungi_comm **comms_out)
{
    int threads = options->threads > 0 ? options->threads : 1;
    rungi_launch launch;
    rungi_board *board = NULL;
    creation *c = NULL;
    RUNG_TRY(rungi_launch_read(&launch));
    RUNG_CHECK(threads <= RUNGI_MPI_THREADS, RUNG_INVALID, "%d ranks in a process: at most %d",
               threads, RUNGI_MPI_THREADS);
    rungi_comm_mpi_options own = *options;
    own.threads = threads;
    if (launch.launched && rungi_board_enter(&launch, &board) != RUNG_OK)
        board = NULL; // then nobody can be named
    rung_status status = creation_start(&own, threads, &c);
    if (status == RUNG_OK) {
        status = creation_wait(c, &launch, board);
    } else {
        rungi_board_fail(board);
        rungi_fail_prefix("rank %d", launch.rank * threads);
    }
    rungi_board_close(&board, true);
    RUNG_TRY(status); // the thread hangs in MPI, and has what it needs
    status = rungi_thread_join(&c->thread);
    for (int t = 0; status == RUNG_OK && t < threads; t++)
        comms_out[t] = &c->process->comms[t];
    rungi_mutex_fini(&c->mutex);
    rungi_cond_fini(&c->wake);
    free(c->recorder);
    free(c);
    return status;
}

#endif
