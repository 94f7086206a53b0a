// SPDX-License-Identifier: Apache-2.0
// Tests of processes: a program without arguments runs itself under mpirun, with the name of a
// part, and looks at what comes out.
#ifndef RUNGI_TESTS_COMM_MPI_TESTING_H
#define RUNGI_TESTS_COMM_MPI_TESTING_H

#include "testing.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/context.h"
#include "base/fs.h"
#include "base/thread.h"
#include "comm/comm_inside.h"
#include "comm/comm_mpi.h"
#include "comm/comm_testing.h"
#include "comm/recorder.h"
#include "mpirun.h"

static const int64_t SECOND = 1000000000;

// ---- the parts that ranks run -----------------------------------------------------------------

static int64_t most_elements = 40001;

static inline rung_status part_values(rungi_comm *comm)
{
    return check_everything(comm, most_elements, false);
}

// Counts at which reductions between machines change their way: one message, two, one round,
// several, and a last round that is short.
static inline rung_status part_sizes(rungi_comm *comm)
{
    static const int64_t counts[] = {495, 496, 497, 512, 513, 4096, 4097, 8193, 131073, 700019};
    void *data = malloc(8 * 131073);
    rung_status status = data ? RUNG_OK : RUNG_FAIL(RUNG_NO_MEMORY, "no memory");
    for (size_t i = 0; status == RUNG_OK && i < sizeof counts / sizeof *counts; i++) {
        bool large = counts[i] > 131073;
        void *place = large ? malloc(4 * (size_t)counts[i]) : data;
        for (int d = 0; status == RUNG_OK && place && d < (large ? 1 : CHECK_DTYPES); d++)
            status = check_reduce_one(comm, &place, 1, check_dtypes[d], RUNGI_COMM_SUM, counts[i]);
        if (large)
            free(place);
    }
    free(data);
    return status;
}

static inline rung_status part_other_call(rungi_comm *comm)
{
    float data[100] = {0};
    RUNG_TRY(rungi_comm_barrier(comm, "start"));
    if (rungi_comm_rank(comm) == 1)
        return rungi_comm_barrier(comm, "epoch");
    return rungi_comm_all_reduce(comm, data, 100, RUNG_F32, RUNGI_COMM_SUM, "gradients");
}

// Rank 1 sums fewer elements than the others: `many` of them go in rounds, `few` in one message.
static inline rung_status other_size(rungi_comm *comm, int64_t few, int64_t many)
{
    float *data = calloc((size_t)many, sizeof *data);
    RUNG_CHECK(data, RUNG_NO_MEMORY, "no memory");
    rung_status status = rungi_comm_all_reduce(comm, data, rungi_comm_rank(comm) == 1 ? few : many,
                                               RUNG_F32, RUNGI_COMM_SUM, "gradients");
    if (status == RUNG_OK)
        free(data); // else MPI may still be at it
    return status;
}

static inline rung_status part_smaller(rungi_comm *comm)
{
    return other_size(comm, 3000, 300000);
}

static inline rung_status part_shorter(rungi_comm *comm)
{
    return other_size(comm, 200000, 300000);
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

// A call of all ranks, which tells them the process of rank 1.
static inline rung_status meet(rungi_comm *comm, pid_t *first_out)
{
    int64_t own = getpid(), *all = NULL;
    uint64_t offsets[CHECK_RANKS + 1];
    RUNG_TRY(rungi_comm_gather_objects(comm, &own, sizeof own, "start", (void **)&all, offsets));
    *first_out = (pid_t)all[1];
    free(all);
    return RUNG_OK;
}

// Has that process of this machine ended, or been stopped?
static inline bool has_fallen(pid_t process)
{
    char path[32], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "re");
    if (!file)
        return true;
    const char *name_end = fgets(text, sizeof text, file) ? strrchr(text, ')') : NULL;
    fclose(file);
    return !name_end || strchr("TZX", name_end[2]);
}

// Rank 1 ends or stops itself, with a call under way if `inside`: one that takes many rounds, of
// which it has sent the first, and that rank 0 comes to only then, so that it cannot be through.
// A stopped one is woken by rank 0 as soon as that was told.
static inline rung_status fall(rungi_comm *comm, int signal_number, bool inside, int64_t timeout)
{
    enum { COUNT = 1 << 20 };
    static float data[COUNT]; // stays: MPI may be at it after a failure
    rungi_comm_call *call;
    pid_t falling;
    RUNG_TRY(meet(comm, &falling));
    comm->timeout = timeout; // of calls; to start may take longer
    while (inside && rungi_comm_rank(comm) == 0 && !has_fallen(falling))
        usleep(1000);
    if (inside)
        RUNG_TRY(rungi_comm_start_all_reduce(comm, data, COUNT, RUNG_F32, RUNGI_COMM_SUM,
                                             "gradients", &call));
    if (rungi_comm_rank(comm) == 1)
        raise(signal_number);
    rung_status status =
        inside ? rungi_comm_finish(comm, &call, NULL) : rungi_comm_barrier(comm, "step");
    if (rungi_comm_rank(comm) == 0)
        kill(falling, SIGCONT);
    return status;
}

static inline rung_status part_killed(rungi_comm *comm)
{
    return fall(comm, SIGKILL, false, 60 * SECOND);
}

static inline rung_status part_stopped(rungi_comm *comm)
{
    return fall(comm, SIGSTOP, false, 60 * SECOND);
}

static inline rung_status part_killed_inside(rungi_comm *comm)
{
    return fall(comm, SIGKILL, true, 60 * SECOND);
}

static inline rung_status part_stopped_inside(rungi_comm *comm)
{
    return fall(comm, SIGSTOP, true, SECOND);
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
    comm->timeout = 3 * SECOND;
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

static volatile sig_atomic_t may_go;

static inline void let_go(int number)
{
    (void)number;
    may_go = 1;
}

// Rank 1 does not come until the others gave it up.
static inline rung_status part_missing(rungi_comm *comm)
{
    pid_t missing;
    signal(SIGUSR1, let_go);
    RUNG_TRY(meet(comm, &missing));
    comm->timeout = SECOND;
    while (rungi_comm_rank(comm) == 1 && !may_go)
        usleep(10000);
    // Between machines, what the others said before they gave up may still be enough for one call.
    rung_status status = rungi_comm_barrier(comm, "checkpoint");
    if (rungi_comm_rank(comm) == 0)
        kill(missing, SIGUSR1);
    RUNG_TRY(status);
    return rungi_comm_barrier(comm, "step");
}

typedef struct part {
    const char *name;
    rung_status (*run)(rungi_comm *comm);
} part;

static const part parts[] = {
    {"values", part_values},
    {"sizes", part_sizes},
    {"other_call", part_other_call},
    {"smaller", part_smaller},
    {"shorter", part_shorter},
    {"failing", part_failing},
    {"leaving", part_leaving},
    {"killed", part_killed},
    {"killed_inside", part_killed_inside},
    {"stopped_inside", part_stopped_inside},
    {"stopped", part_stopped},
    {"slow", part_slow},
    {"missing", part_missing},
};

// One rank: says how it ended, in one line.
static inline rung_status rank_main(void *arg)
{
    rungi_comm *comm = ((void **)arg)[0];
    const part *p = ((void **)arg)[1];
    rung_status status = p->run(comm);
    char line[1400];
    int length = snprintf(line, sizeof line, "rank %d: %s, %s\n", rungi_comm_rank(comm),
                          rung_status_text(status), status ? rung_error_last()->message : "good");
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
        for (;;)
            pause(); // until mpirun ends all
    }
    signal(SIGTERM, SIG_IGN); // mpirun sends it to all when one fails, and they are to say why
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

static inline int run_part_with(int processes, const char *name, int threads, int nodes,
                                int timeout, bool patient)
{
    char arguments[200];
    snprintf(arguments, sizeof arguments, "%s %d %d %d %s", name, threads, nodes, timeout, folder);
    return mpirun_with(processes, arguments, patient, out, sizeof out);
}

static inline int run_part(int processes, const char *name, int threads, int nodes, int timeout)
{
    return run_part_with(processes, name, threads, nodes, timeout, false);
}

// A part in which each rank fails, says so, and ends by itself.
static inline void run_failing(int processes, const char *name, int nodes)
{
    int status = run_part_with(processes, name, 1, nodes, 60, true);
    if (status >= 124) // the status of timeout(1), or of a signal
        fail_msg("status %d: some rank does not end:\n%s", status, out);
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

// The line of a rank has a text.
static inline void rank_line(int rank, const char *text)
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
    *end = '\n';
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
