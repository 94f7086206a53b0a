// SPDX-License-Identifier: Apache-2.0
// rung's side of the benchmarks: training steps on one fixed batch, as the product takes them
// (session, engine, optimizer), timed on request. With train.ranks all ranks take them together,
// and rank 0 is timed.
//
//   step [--timeline-off] KEY=VALUE...
//
// Prints "ready" and what the libraries compute with, then answers lines of stdin:
//   run N   takes N steps and prints their times in milliseconds, in one line
//   rss     prints the highest resident size of the process in kB
//   memory  prints what the device held at most, the arena's size and the largest set of its
//   tensors
//           that live at once, in bytes, of rank 0 (after the first steps)
//   quit    ends (so does the end of stdin)
// Mistakes end the program with one line on stderr and status 1.
#include <cblas.h>
#include <inttypes.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/context.h"
#include "base/error.h"
#include "measure/resident.h"
#include "rung/config.h"
#include "train/crew.h"
#include "train/session.h"

typedef struct stepper {
    rungi_session *s;
    rung_batch batch; // the same in all steps
    int64_t step;
    double loss;
} stepper;

typedef struct program {
    rung_context *context;
    const rung_config *config;
    bool timeline_off;
    rungi_crew *crew; // NULL: one rank
    stepper *steppers;
    long steps; // wanted
    double *ms; // of rank 0
} program;

// Forward, backward, optimizer, the loss read: what rung train does between two batches.
static rung_status one_step(stepper *x)
{
    rungi_timeline_begin(x->s->timeline, RUNGI_QUEUE_HOST, RUNGI_TIME_WAIT, x->step);
    rungi_timeline_end(x->s->timeline, RUNGI_QUEUE_HOST);
    return rungi_session_step(x->s, &x->batch, x->step++, &x->loss);
}

static rung_status run_steps(program *p, int rank)
{
    stepper *x = &p->steppers[rank];
    rung_status status = RUNG_OK;
    int64_t last = rungi_now(x->s->context);
    for (long i = 0; i < p->steps && status == RUNG_OK; i++) {
        status = one_step(x);
        int64_t now = rungi_now(x->s->context);
        if (rank == 0)
            p->ms[i] = (double)(now - last) * 1e-6;
        last = now;
    }
    return status == RUNG_OK ? rungi_session_meet(x->s, x->step) : status;
}

static rung_status run_member(void *arg, rungi_member *m)
{
    return run_steps(arg, m->index);
}

static rung_status run(program *p, long steps)
{
    p->steps = steps;
    p->ms = malloc((size_t)steps * sizeof *p->ms);
    if (!p->ms)
        return rung_error_set(RUNG_NO_MEMORY, "no memory for %ld times", steps);
    rung_status status = p->crew ? rungi_crew_run(p->crew, run_member, p) : run_steps(p, 0);
    for (long i = 0; i < steps && status == RUNG_OK; i++)
        printf("%.6g%c", p->ms[i], i == steps - 1 ? '\n' : ' ');
    free(p->ms);
    return status;
}

static void print_memory(const program *p)
{
    const rungi_session *s = p->steppers[0].s;
    const rung_plan *plan = rungi_engine_training_plan(s->engine);
    rung_plan_memory m = plan ? rung_plan_memory_use(plan) : (rung_plan_memory){0};
    printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", rung_device_memory(s->device).peak_live,
           m.arena, m.lower_bound);
}

static rung_status serve(program *p)
{
    char line[256];
    long steps;
    printf("ready oneDNN isa 0x%x, OpenBLAS %s\n", (unsigned)dnnl_get_effective_cpu_isa(),
           openblas_get_corename());
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) && strcmp(line, "quit\n") != 0) {
        rung_status status = RUNG_OK;
        if (sscanf(line, "run %ld", &steps) == 1 && steps > 0)
            status = run(p, steps);
        else if (strcmp(line, "rss\n") == 0)
            printf("%llu\n", (unsigned long long)rungi_peak_resident() / 1024);
        else if (strcmp(line, "memory\n") == 0)
            print_memory(p);
        else
            status = rung_error_set(RUNG_INVALID, "unknown command: %s", line);
        if (status != RUNG_OK)
            return status;
        fflush(stdout);
    }
    return RUNG_OK;
}

// device.isa holds for our kernels; libraries must have been told by their environment variables.
static rung_status check_libraries(const rung_config *config)
{
    static const char *const with_avx512[] = {"SkylakeX", "Cooperlake", "Sapphirerapids"};
    if (rung_config_isa(config) != RUNG_ISA_AVX2)
        return RUNG_OK;
    RUNG_CHECK(!((unsigned)dnnl_get_effective_cpu_isa() & ~(unsigned)dnnl_cpu_isa_avx2),
               RUNG_INVALID, "device.isa is avx2, and oneDNN uses more: set DNNL_MAX_CPU_ISA=AVX2");
    for (size_t i = 0; i < sizeof with_avx512 / sizeof *with_avx512; i++)
        RUNG_CHECK(strcasecmp(openblas_get_corename(), with_avx512[i]) != 0, RUNG_INVALID,
                   "device.isa is avx2, and OpenBLAS uses AVX-512: set OPENBLAS_CORETYPE=Haswell");
    return RUNG_OK;
}

static rung_status begin(program *p, rung_context *context, rungi_comm *comm, int rank)
{
    stepper *x = &p->steppers[rank];
    rung_status status = rungi_session_create(context, p->config,
                                              &(rungi_session_options){
                                                  .parts = RUNGI_SESSION_TRAIN,
                                                  .comm = comm,
                                                  .timeline_off = p->timeline_off,
                                              },
                                              &x->s);
    return status == RUNG_OK ? rung_loader_next(x->s->train_loader, &x->batch) : status;
}

static rung_status begin_member(void *arg, rungi_member *m)
{
    return begin(arg, m->context, m->comm, m->index);
}

static rung_status begin_all(program *p)
{
    int ranks = (int)rungi_config_values(p->config)->train.ranks;
    p->steppers = calloc((size_t)ranks, sizeof *p->steppers);
    if (!p->steppers)
        return rung_error_set(RUNG_NO_MEMORY, "no memory for %d ranks", ranks);
    if (ranks == 1)
        return begin(p, p->context, NULL, 0);
    rung_status status = rungi_crew_for(p->context, rungi_config_values(p->config), NULL, &p->crew);
    return status == RUNG_OK ? rungi_crew_run(p->crew, begin_member, p) : status;
}

static void end_all(program *p)
{
    int ranks = (int)rungi_config_values(p->config)->train.ranks;
    for (int i = 0; p->steppers && i < ranks; i++) {
        stepper *x = &p->steppers[i];
        if (x->s && x->batch.count)
            rung_loader_release(x->s->train_loader, &x->batch);
        rungi_session_destroy(&x->s);
    }
    rungi_crew_destroy(&p->crew);
    free(p->steppers);
}

static void log_line(void *user, rung_log_level level, const char *line)
{
    (void)user;
    if (level >= RUNG_LOG_WARNING)
        fprintf(stderr, "%s\n", line);
}

int main(int argc, char **argv)
{
    rung_config *config = NULL;
    program p = {0};
    rung_status status = rung_config_create(NULL, &config);
    for (int i = 1; i < argc && status == RUNG_OK; i++) {
        if (strcmp(argv[i], "--timeline-off") == 0)
            p.timeline_off = true;
        else
            status = rung_config_override(config, argv[i]);
    }
    p.config = config;
    if (status == RUNG_OK)
        status = check_libraries(config);
    if (status == RUNG_OK)
        status = rung_context_create(
            &(rung_context_options){.log = log_line, .isa = rung_config_isa(config)}, &p.context);
    if (status == RUNG_OK)
        status = begin_all(&p);
    if (status == RUNG_OK)
        status = serve(&p);
    if (status != RUNG_OK)
        fprintf(stderr, "step: %s\n", rung_error_last()->message);
    if (config)
        end_all(&p);
    rung_config_destroy(&config);
    rung_context_destroy(&p.context);
    return status == RUNG_OK ? 0 : 1;
}
