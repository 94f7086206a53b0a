// SPDX-License-Identifier: Apache-2.0
// Tests of processes: a program without arguments runs itself under mpirun, with the name of a
// part, and looks at what comes out.
#ifndef RUNGI_COMM_COMM_MPI_TESTING_H
#define RUNGI_COMM_COMM_MPI_TESTING_H

#include "testing.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/context.h"
#include "base/fs.h"
#include "base/thread.h"
#include "comm/comm_mpi.h"
#include "comm/comm_testing.h"
#include "comm/recorder.h"
#include "mpirun.h"

static const int64_t SECOND = 1000000000;

// ---- the parts that ranks run -----------------------------------------------------------------

static int64_t most_elements = 40001;

static inline rung_status part_values(rungi_comm *comm)
{
    return check_all(comm, most_elements);
}

static inline rung_status part_other_call(rungi_comm *comm)
{
    float data[100] = {0};
    RUNG_TRY(rungi_comm_barrier(comm, "start"));
    if (rungi_comm_rank(comm) == 1)
        return rungi_comm_barrier(comm, "epoch");
    return rungi_comm_all_reduce(comm, data, 100, RUNG_F32, RUNGI_COMM_SUM, "gradients");
}

static inline rung_status part_failing(rungi_comm *comm)
{
    RUNG_TRY(rungi_comm_barrier(comm, "start"));
    if (rungi_comm_rank(comm) == 1) {
        rung_status status = RUNG_FAIL(RUNG_DATA, "sample 7: cannot be read");
        rungi_comm_fail(comm);
        return status;
    }
    return rungi_comm_barrier(comm, "step");
}

static inline rung_status part_leaving(rungi_comm *comm)
{
    RUNG_TRY(rungi_comm_barrier(comm, "start"));
    return rungi_comm_rank(comm) == 1 ? RUNG_OK : rungi_comm_barrier(comm, "step");
}

static inline rung_status part_killed(rungi_comm *comm)
{
    signal(SIGTERM, SIG_IGN); // mpirun sends it to all when one dies
    RUNG_TRY(rungi_comm_barrier(comm, "start"));
    if (rungi_comm_rank(comm) == 1)
        raise(SIGKILL);
    return rungi_comm_barrier(comm, "step");
}

static inline rung_status part_stopped(rungi_comm *comm)
{
    RUNG_TRY(rungi_comm_barrier(comm, "start"));
    pid_t own = getpid();
    if (rungi_comm_rank(comm) == 1 && fork() == 0) { // wakes it when all is told
        sleep(8);
        kill(own, SIGCONT);
        _exit(0);
    }
    if (rungi_comm_rank(comm) == 1)
        raise(SIGSTOP);
    return rungi_comm_barrier(comm, "step");
}

// Longer at work than a stopped process is left alone, with far more threads than cores.
static inline rung_status burn(void *arg)
{
    const rung_clock *clock = rungi_clock_monotonic();
    int64_t until = clock->now(clock->user) + *(int64_t *)arg;
    while (clock->now(clock->user) < until)
        continue;
    return RUNG_OK;
}

static inline rung_status part_slow(rungi_comm *comm)
{
    enum { THREADS = 4 };
    int64_t time = 4 * SECOND;
    rungi_thread threads[THREADS];
    RUNG_TRY(rungi_comm_barrier(comm, "start"));
    for (int i = 0; i < THREADS; i++)
        RUNG_TRY(rungi_thread_start(&threads[i], "burn", burn, &time));
    if (rungi_comm_rank(comm) == 1) {
        rungi_comm_busy(comm, "save");
        burn(&time); // longer than the deadline of a call
        rungi_comm_busy(comm, NULL);
    }
    rung_status status = rungi_comm_barrier(comm, "step");
    for (int i = 0; i < THREADS; i++)
        rungi_thread_join(&threads[i]);
    RUNG_TRY(status);
    return rungi_comm_barrier(comm, "next step");
}

static inline rung_status part_missing(rungi_comm *comm)
{
    RUNG_TRY(rungi_comm_barrier(comm, "start"));
    if (rungi_comm_rank(comm) == 1)
        sleep(2);
    // Between machines, what the others said before they gave up may still be enough for one call.
    RUNG_TRY(rungi_comm_barrier(comm, "checkpoint"));
    return rungi_comm_barrier(comm, "step");
}

typedef struct part {
    const char *name;
    rung_status (*run)(rungi_comm *comm);
} part;

static const part parts[] = {
    {"values", part_values},   {"other_call", part_other_call}, {"failing", part_failing},
    {"leaving", part_leaving}, {"killed", part_killed},         {"stopped", part_stopped},
    {"slow", part_slow},       {"missing", part_missing},
};

// One rank: says how it ended, in one line.
static inline rung_status rank_main(void *arg)
{
    rungi_comm *comm = ((void **)arg)[0];
    const part *p = ((void **)arg)[1];
    const rung_clock *clock = rungi_clock_monotonic();
    int64_t start = clock->now(clock->user);
    rung_status status = p->run(comm);
    char line[1400];
    int length = snprintf(line, sizeof line, "rank %d: %s, %s, %.1f s\n", rungi_comm_rank(comm),
                          rung_status_text(status), status ? rung_error_last()->message : "good",
                          (double)(clock->now(clock->user) - start) / 1e9);
    ssize_t written = write(1, line, (size_t)length);
    if (status != RUNG_OK)
        rungi_comm_fail(comm);
    rungi_comm_destroy(&comm);
    return written == length ? status : RUNG_FAIL(RUNG_IO, "cannot write");
}

// PART THREADS NODES TIMEOUT FOLDER
static inline int child(char **arguments)
{
    enum { THREADS = 4 };
    rungi_comm *comms[THREADS];
    rungi_comm_mpi_options options = {
        .threads = atoi(arguments[1]),
        .pretend_nodes = atoi(arguments[2]),
        .common = {.timeout = atoi(arguments[3]) * SECOND, .recorder = arguments[4]},
    };
    const char *own = getenv("OMPI_COMM_WORLD_RANK");
    if (strcmp(arguments[0], "absent") == 0 && own && atoi(own) >= 2) {
        sleep(4);
        return 0;
    }
    if (!rungi_comm_mpi_launched() || rungi_comm_mpi_create(&options, comms) != RUNG_OK) {
        fprintf(stderr, "no communicator: %s\n", rung_error_last()->message);
        rungi_comm_mpi_end(true);
        return 1;
    }
    const part *chosen = NULL;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(parts[i].name, arguments[0]) == 0)
            chosen = &parts[i];
    rungi_thread threads[THREADS];
    void *args[THREADS][2];
    for (int t = 0; t < options.threads; t++) {
        args[t][0] = comms[t];
        args[t][1] = (void *)chosen;
    }
    for (int t = 1; t < options.threads; t++)
        if (rungi_thread_start(&threads[t], "rank", rank_main, args[t]) != RUNG_OK)
            return 1;
    rung_status status = rank_main(args[0]);
    for (int t = 1; t < options.threads; t++)
        if (rungi_thread_join(&threads[t]) != RUNG_OK)
            status = RUNG_GATE;
    rungi_comm_mpi_end(status != RUNG_OK);
    return status ? 1 : 0;
}

// ---- what comes out ---------------------------------------------------------------------------

static char folder[] = "/tmp/rung_mpi_XXXXXX";
static char out[65536];

static inline int run_part(int processes, const char *name, int threads, int nodes, int timeout)
{
    char arguments[200];
    snprintf(arguments, sizeof arguments, "%s %d %d %d %s", name, threads, nodes, timeout, folder);
    return mpirun(processes, arguments, out, sizeof out);
}

static inline void assert_line(const char *text)
{
    if (!strstr(out, text))
        fail_msg("no \"%s\" in:\n%s", text, out);
}

static inline void assert_good(int status, int ranks)
{
    if (status != 0)
        fail_msg("status %d:\n%s", status, out);
    for (int r = 0; r < ranks; r++) {
        char text[40];
        snprintf(text, sizeof text, "rank %d: ok, good", r);
        assert_line(text);
    }
}

// The line of a rank, and the seconds in it.
static inline double rank_line(int rank, const char *text)
{
    char start[40];
    snprintf(start, sizeof start, "rank %d: ", rank);
    char *line = out;
    while (line && strncmp(line, start, strlen(start)) != 0)
        line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL;
    if (!line)
        fail_msg("no line of rank %d in:\n%s", rank, out);
    char *end = strchr(line, '\n');
    *end = 0;
    if (!strstr(line, text))
        fail_msg("no \"%s\" in: %s", text, line);
    double seconds = atof(strrchr(line, ',') + 1);
    *end = '\n';
    return seconds;
}

static inline int remove_folder(void **state)
{
    (void)state;
    return rungi_fs_remove_tree(folder);
}

// main: one rank of a part, or in the first process what `run` does.
static inline int run_parts(int argc, char **argv, int (*run)(void))
{
    if (argc == 6)
        return child(argv + 1);
    if (!mpirun_found()) {
        printf("skipped: there is no mpirun\n");
        return 77;
    }
    return mkdtemp(folder) ? run() : 1;
}

#endif
