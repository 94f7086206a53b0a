// SPDX-License-Identifier: Apache-2.0
// An all-reduce of two ranks, each bound to a core, timed on request.
//
//   allreduce threads BYTES CALLS                    threads of this process
//   mpirun -n 2 allreduce processes BYTES CALLS      processes that share memory
//   mpirun -n 2 allreduce between BYTES CALLS        processes that exchange by messages of MPI
//   mpirun -n 2 allreduce library BYTES CALLS        MPI_Allreduce itself
//
// Rank 0 prints "ready" and answers lines of stdin: "run N" takes N steps of CALLS calls each and
// prints the times of the steps in milliseconds, in one line; "quit" ends.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(RUNG_MPI)
#    include <mpi.h>
#endif

#include "base/context.h"
#include "base/cores.h"
#include "base/error.h"
#include "base/thread.h"
#include "comm/comm.h"
#include "comm/comm_mpi.h"

static const int64_t IDLE = 86400000000000; // nanoseconds: between commands ranks wait for rank 0

typedef struct measured {
    rungi_comm *comm;
    float *data;
    int64_t count, calls;
    bool library;
} measured;

static rung_status call(const measured *m)
{
#if defined(RUNG_MPI)
    if (m->library) {
        int error =
            MPI_Allreduce(MPI_IN_PLACE, m->data, (int)m->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        return error == MPI_SUCCESS ? RUNG_OK : RUNG_FAIL(RUNG_LIBRARY, "MPI_Allreduce failed");
    }
#endif
    return rungi_comm_all_reduce(m->comm, m->data, m->count, RUNG_F32, RUNGI_COMM_SUM, "bench");
}

static rung_status take_steps(const measured *m, int64_t steps)
{
    const rung_clock *clock = rungi_clock_monotonic();
    double *ms = malloc((size_t)steps * sizeof *ms);
    RUNG_CHECK(ms, RUNG_NO_MEMORY, "no memory for %lld times", (long long)steps);
    rung_status status = rungi_comm_barrier(m->comm, "start");
    int64_t last = clock->now(clock->user);
    for (int64_t i = 0; i < steps && status == RUNG_OK; i++) {
        for (int64_t k = 0; k < m->calls && status == RUNG_OK; k++)
            status = call(m);
        int64_t now = clock->now(clock->user);
        ms[i] = (double)(now - last) / 1e6;
        last = now;
    }
    for (int64_t i = 0; i < steps && status == RUNG_OK && rungi_comm_rank(m->comm) == 0; i++)
        printf("%.6g%c", ms[i], i == steps - 1 ? '\n' : ' ');
    free(ms);
    return status;
}

// Rank 0 reads how many steps come next; 0 ends.
static rung_status next_steps(const measured *m, int64_t *steps_out)
{
    char line[256];
    long long steps = 0;
    if (rungi_comm_rank(m->comm) == 0 &&
        (!fgets(line, sizeof line, stdin) || sscanf(line, "run %lld", &steps) != 1))
        steps = 0;
    *steps_out = steps;
    return rungi_comm_broadcast(m->comm, steps_out, sizeof *steps_out, 0, "command");
}

static rung_status serve(void *arg)
{
    measured *m = arg;
    void *data;
    cpu_set_t cores;
    rungi_cores_allowed(&cores);
    rungi_cores_bind(&cores, rungi_comm_rank(m->comm));
    RUNG_TRY(rungi_comm_alloc(m->comm, (uint64_t)m->count * sizeof(float), "data", &data));
    m->data = data; // zeros stay zeros, however often they are summed
    if (rungi_comm_rank(m->comm) == 0) {
        printf("ready\n");
        fflush(stdout);
    }
    int64_t steps = 0;
    for (;;) {
        RUNG_TRY(next_steps(m, &steps));
        if (steps <= 0)
            break;
        RUNG_TRY(take_steps(m, steps));
        fflush(stdout);
    }
    rungi_comm_free(m->comm, data);
    return RUNG_OK;
}

static rung_status serve_threads(const measured *plain, const rungi_comm_options *options)
{
    rungi_comm *comms[2];
    rungi_thread thread;
    measured ranks[2] = {*plain, *plain};
    RUNG_TRY(rungi_comm_local_create(2, options, comms));
    ranks[0].comm = comms[0];
    ranks[1].comm = comms[1];
    RUNG_TRY(rungi_thread_start(&thread, "rank", serve, &ranks[1]));
    rung_status status = serve(&ranks[0]);
    rungi_thread_join(&thread);
    rungi_comm_destroy(&comms[0]);
    rungi_comm_destroy(&comms[1]);
    return status;
}

static rung_status serve_process(measured *m, const rungi_comm_options *options, int nodes)
{
    RUNG_TRY(rungi_comm_mpi_create(
        &(rungi_comm_mpi_options){.common = *options, .pretend_nodes = nodes}, &m->comm));
    rung_status status = serve(m);
    rungi_comm_destroy(&m->comm);
    rungi_comm_mpi_end(status != RUNG_OK);
    return status;
}

int main(int argc, char **argv)
{
    rung_context *context;
    if (argc != 4 || rung_context_create(NULL, &context) != RUNG_OK) {
        fprintf(stderr, "usage: allreduce threads|processes|between|library BYTES CALLS\n");
        return 2;
    }
    measured m = {.count = atoll(argv[2]) / 4, .calls = atoll(argv[3])};
    m.library = strcmp(argv[1], "library") == 0;
    rungi_comm_options options = {.context = context, .timeout = IDLE};
    rung_status status = strcmp(argv[1], "threads") == 0
                             ? serve_threads(&m, &options)
                             : serve_process(&m, &options, strcmp(argv[1], "between") == 0 ? 2 : 1);
    if (status != RUNG_OK)
        fprintf(stderr, "allreduce: %s\n", rung_error_last()->message);
    rung_context_destroy(&context);
    return status ? 1 : 0;
}
