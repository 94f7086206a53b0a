// SPDX-License-Identifier: Apache-2.0
// Workers that minimize a quadratic, for tests of the parameter server on threads and processes.
//
// The loss is |w - t|^2 / 2: its gradient at w is w - t. A worker's gradient was computed up to D
// updates before it is applied: with rate r each update takes an element's error e from e_k to
// e_k - r e_(k-d), d <= D, and e_(k-d) differs from e_k by at most r times the sum of D errors. So
// |e_(k+1)| <= (1 - r + r^2 D) max of the last 2 D + 1 errors: while r D < 1 the error shrinks by
// 1 - r (1 - r D) in each 2 D + 1 updates. Under a staleness bound of N steps each of the other
// W - 1 workers pushes at most 2 N + 1 times between a pull and the push that follows.
#ifndef RUNGI_COMM_PARAM_SERVER_TESTING_H
#define RUNGI_COMM_PARAM_SERVER_TESTING_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/param_server.h"

enum { QUADRATIC_SIZE = 1000 };

typedef struct quadratic {
    int servers;
    int64_t staleness, steps;
    double rate;
    // Called before each step of a worker, may hold it up; NULL: nothing.
    void (*before)(void *user, int worker, int64_t step);
    void *user;
    int64_t stop_at; // a worker's step at which it asks to stop: the last worker's; -1: never
} quadratic;

// What a worker found.
typedef struct quadratic_result {
    float weights[QUADRATIC_SIZE];
    int64_t steps, updates;
    rungi_ps_worker workers[RUNGI_PS_WORKERS]; // on rank 0
} quadratic_result;

static inline float quadratic_target(int64_t i)
{
    return (float)(i % 17) - 8;
}

// The state counts the updates of each element.
typedef struct quadratic_servers {
    rungi_ps *ps;
    int servers;
} quadratic_servers;

static inline rung_status quadratic_update(void *user, int server, float *weights,
                                           const float *grads, const rungi_ps_terms *terms,
                                           int64_t updates)
{
    quadratic_servers *v = user;
    rungi_comm_part range = rungi_ps_range(QUADRATIC_SIZE, v->servers, server);
    float *counts = rungi_ps_state(v->ps, server, 0);
    for (int64_t i = 0; i < range.count; i++) {
        RUNG_CHECK(counts[i] == (float)updates, RUNG_GATE, "update %lld comes after %g",
                   (long long)updates, counts[i]);
        weights[i] -= (float)(terms->rates.lr * terms->scale) * grads[i];
        counts[i]++;
    }
    return RUNG_OK;
}

static inline rung_status quadratic_step(rungi_ps *ps, const quadratic *q, int64_t samples,
                                         float *weights)
{
    static _Thread_local float grads[QUADRATIC_SIZE];
    RUNG_TRY(rungi_ps_pull(ps, weights));
    for (int64_t i = 0; i < QUADRATIC_SIZE; i++)
        grads[i] = weights[i] - quadratic_target(i);
    return rungi_ps_push(ps, samples ? grads : NULL,
                         &(rungi_ps_terms){.rates = {.lr = q->rate}, .scale = 1, .limit = INFINITY},
                         samples);
}

// A phase of q->steps steps that begins at clock `clock`, all weights at 1 if it is 0.
static inline rung_status quadratic_phase(rungi_comm *comm, rungi_ps *ps, const quadratic *q,
                                          int64_t clock, quadratic_result *out)
{
    int rank = rungi_comm_rank(comm);
    for (int64_t i = 0; clock == 0 && i < QUADRATIC_SIZE; i++)
        out->weights[i] = 1;
    RUNG_TRY(rungi_ps_open(ps, out->weights, clock));
    bool go = true;
    for (out->steps = 0; out->steps < q->steps; out->steps++) {
        if (q->before)
            q->before(q->user, rank, out->steps);
        bool stop = rank == rungi_comm_size(comm) - 1 && q->stop_at == out->steps;
        RUNG_TRY(rungi_ps_begin(ps, stop, &go));
        if (!go)
            break;
        RUNG_TRY(quadratic_step(ps, q, 2, out->weights));
    }
    RUNG_TRY(rungi_ps_meet(ps, out->weights));
    out->updates = rungi_ps_updates(ps);
    for (int r = 0; rank == 0 && r < rungi_comm_size(comm); r++)
        rungi_ps_report(ps, r, &out->workers[r]);
    return RUNG_OK;
}

// A whole run. `out` is this rank's.
static inline rung_status quadratic_run(rungi_comm *comm, const quadratic *q, int phases,
                                        quadratic_result *out)
{
    quadratic_servers v = {.servers = q->servers};
    RUNG_TRY(rungi_ps_create(&(rungi_ps_setup){.comm = comm,
                                               .size = QUADRATIC_SIZE,
                                               .servers = q->servers,
                                               .states = 1,
                                               .staleness = q->staleness,
                                               .update = quadratic_update,
                                               .user = &v},
                             &v.ps));
    rung_status status = RUNG_OK;
    for (int p = 0; p < phases && status == RUNG_OK; p++)
        status = quadratic_phase(comm, v.ps, q, p * q->steps, out);
    rungi_ps_destroy(&v.ps);
    return status;
}

// Fails when the weights are farther from the target than the closed form allows.
static inline rung_status quadratic_check(const quadratic *q, int workers, int64_t updates,
                                          const quadratic_result *r)
{
    double d = (double)((workers - 1) * (2 * q->staleness + 1)), rate = q->rate;
    RUNG_CHECK(rate * d < 1, RUNG_GATE, "the rate is too large for a bound");
    double bound = pow(1 - rate * (1 - rate * d), floor((double)updates / (2 * d + 1)));
    for (int64_t i = 0; i < QUADRATIC_SIZE; i++) {
        double first = fabs(1 - (double)quadratic_target(i));
        double error = fabs((double)r->weights[i] - quadratic_target(i));
        RUNG_CHECK(error <= bound * first + 1e-5, RUNG_GATE,
                   "after %lld updates element %lld is off by %g, more than %g", (long long)updates,
                   (long long)i, error, bound * first);
    }
    return RUNG_OK;
}

#endif
