// SPDX-License-Identifier: Apache-2.0
// ctest-labels: mpirun
// The parameter server between processes: over shared memory, and by messages between machines (so
// many that processes pretend to be). Without arguments: runs itself under mpirun.
#include "testing.h"

#include <signal.h>
#include <stdio.h>

#include "comm/comm_mpi.h"
#include "comm/param_server_testing.h"
#include "mpirun.h"

static const int64_t SECOND = 1000000000;

static quadratic_result result;

static rung_status part_converges(rungi_comm *comm)
{
    int ranks = rungi_comm_size(comm);
    for (int servers = 1; servers <= ranks; servers++) {
        quadratic q = {
            .servers = servers, .staleness = 1, .steps = 20, .rate = 0.05, .stop_at = -1};
        RUNG_TRY(quadratic_run(comm, &q, 2, &result));
        RUNG_TRY(quadratic_check(&q, ranks, 40 * ranks, &result));
        float first[QUADRATIC_SIZE];
        memcpy(first, result.weights, sizeof first);
        RUNG_TRY(rungi_comm_broadcast(comm, first, sizeof first, 0, "weights of rank 0"));
        RUNG_CHECK(memcmp(first, result.weights, sizeof first) == 0, RUNG_GATE,
                   "ranks end with different weights");
        for (int r = 0; rungi_comm_rank(comm) == 0 && r < ranks; r++) {
            const rungi_ps_worker *w = &result.workers[r];
            RUNG_CHECK(w->clock == 40 && w->pushes == 40 && w->samples == 80 &&
                           w->ahead.most <= 1 && w->staleness.count == 40 &&
                           w->staleness.most <= 3 * (ranks - 1),
                       RUNG_GATE, "worker %d: clock %lld, %lld pushes, ahead %lld, staleness %lld",
                       r, (long long)w->clock, (long long)w->pushes, (long long)w->ahead.most,
                       (long long)w->staleness.most);
        }
    }
    return RUNG_OK;
}

static rung_status part_stops(rungi_comm *comm)
{
    quadratic q = {.servers = 2, .staleness = -1, .steps = 2000, .rate = 0.01, .stop_at = 5};
    RUNG_TRY(quadratic_run(comm, &q, 1, &result));
    int64_t least = result.steps, most = result.steps;
    RUNG_TRY(rungi_comm_all_reduce(comm, &least, 1, RUNG_I64, RUNGI_COMM_MIN, "steps"));
    RUNG_TRY(rungi_comm_all_reduce(comm, &most, 1, RUNG_I64, RUNGI_COMM_MAX, "steps"));
    RUNG_CHECK(least == most && most >= 6, RUNG_GATE, "workers end after %lld to %lld steps",
               (long long)least, (long long)most);
    return RUNG_OK;
}

static void die(void *user, int worker, int64_t step)
{
    (void)user;
    if (worker == 1 && step == 3)
        raise(SIGKILL);
}

static rung_status part_dies(rungi_comm *comm)
{
    signal(SIGTERM, SIG_IGN); // mpirun sends it to all when one dies
    quadratic q = {.servers = 2, .steps = 20, .rate = 0.05, .before = die, .stop_at = -1};
    return quadratic_run(comm, &q, 1, &result);
}

static int child(char **argv)
{
    static const struct {
        const char *name;
        rung_status (*run)(rungi_comm *);
    } parts[] = {{"converges", part_converges}, {"stops", part_stops}, {"dies", part_dies}};
    rungi_comm *comm;
    rungi_comm_mpi_options o = {
        .common = {.timeout = 20 * SECOND}, .threads = 1, .pretend_nodes = atoi(argv[2])};
    rung_status status = rungi_comm_mpi_create(&o, &comm);
    int rank = status == RUNG_OK ? rungi_comm_rank(comm) : -1;
    for (size_t i = 0; status == RUNG_OK && i < sizeof parts / sizeof *parts; i++)
        if (strcmp(argv[1], parts[i].name) == 0)
            status = parts[i].run(comm);
    if (status != RUNG_OK) {
        printf("rank %d: %s\n", rank, rung_error_last()->message);
        if (rank >= 0)
            rungi_comm_fail(comm);
    }
    fflush(stdout);
    if (rank >= 0)
        rungi_comm_destroy(&comm);
    rungi_comm_mpi_end(status != RUNG_OK);
    return status == RUNG_OK ? 0 : 1;
}

static char out[16384];

static int run_part(int processes, const char *part, int nodes)
{
    char arguments[64];
    snprintf(arguments, sizeof arguments, "%s %d", part, nodes);
    return mpirun(processes, arguments, out, sizeof out);
}

static void assert_part(int processes, const char *part, int nodes)
{
    int status = run_part(processes, part, nodes);
    if (status)
        fail_msg("%s on %d machines: status %d: %s", part, nodes, status, out);
}

static void processes_share_servers(void **state)
{
    (void)state;
    assert_part(3, "converges", 1);
}

static void machines_send_to_servers(void **state)
{
    (void)state;
    assert_part(3, "converges", 2);
    assert_part(3, "stops", 3);
}

// By the others, on its machine or another one.
static void a_dead_process_is_named(void **state)
{
    (void)state;
    for (int nodes = 1; nodes <= 2; nodes++) {
        assert_int_not_equal(run_part(2, "dies", nodes), 0);
        if (nodes == 1 && !strstr(out, "rank 0: rank 1 has died (process "))
            fail_msg("%s", out);
    }
}

int main(int argc, char **argv)
{
    if (argc == 3)
        return child(argv);
    if (!mpirun_found()) {
        printf("skipped: there is no mpirun\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_share_servers),
        cmocka_unit_test(machines_send_to_servers),
        cmocka_unit_test(a_dead_process_is_named),
    };
    return RUN_TESTS(tests);
}
