// SPDX-License-Identifier: Apache-2.0
// What of a process is resident beside the arenas and the loaders' batches: libraries, their
// buffers, weights, and what plans are made of.
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "measure/resident.h"
#include "train/fit_group.h"

// Operations of a pass that cost little time without being asked for times.
#define FEW_OPERATIONS 4e8

static double operations(const rung_plan *plan)
{
    double sum = 0;
    for (size_t i = 0; plan && i < plan->steps.count; i++)
        sum += rungi_kernel_flops(plan->steps.data[i].kernel, &plan->steps.data[i].q);
    return sum;
}

rung_status rungi_fit_sample(const rungi_fit_group *g, bool times, int64_t *batch_out)
{
    enum { ENOUGH = 32, FEW = 2, MOST = 128 }; // samples of a part; ENOUGH to show kernels' speed
    const rungi_session *s = g->sessions[0];
    int64_t batch = rungi_session_batch(s), parts = rungi_fit_parts(s), each = ENOUGH;
    if (!times) {
        rungi_fit_prediction p;
        rung_plan *plan;
        rungi_fit_what what = rungi_fit_configured(s, RUNG_FIT_KEEP);
        int64_t least = batch < FEW * parts ? batch : FEW * parts;
        what.full_only = true;
        RUNG_TRY(rungi_fit_predict(s, 0, least, &what, &p, &plan));
        double few = FEW_OPERATIONS * FEW / (operations(plan) + 1);
        rung_plan_destroy(&plan);
        each = few < FEW ? FEW : few < MOST ? (int64_t)few : MOST;
    }
    *batch_out = batch < each * parts ? batch : each * parts;
    return RUNG_OK;
}

// Gradients and the optimizer's state are resident from the first step on, of all devices.
static void touch(rungi_fit_group *g)
{
    for (int r = 0; r < g->ranks; r++) {
        const rungi_session *s = g->sessions[r];
        size_t part = (size_t)rungi_session_optimizer_part(s).count * sizeof(float);
        for (int i = 0; i < RUNG_OPTIMIZER_STATES; i++)
            if (s->optimizer_state[i])
                memset(s->optimizer_state[i], 0, part);
        for (int d = 0; d < rungi_engine_devices(s->engine); d++) {
            const rung_state *state = rungi_engine_replica(s->engine, d);
            memset(state->grads, 0, (size_t)state->flat_size * sizeof(float));
            if (d)
                memset(state->params, 0, (size_t)state->flat_size * sizeof(float));
        }
    }
}

rung_status rungi_fit_base(rungi_fit_group *g, uint64_t *base_out)
{
    touch(g);
    rung_plan **plans = calloc((size_t)g->ranks, sizeof *plans); // as training has them
    RUNG_CHECK(plans, RUNG_NO_MEMORY, "no memory for a fit");
    rung_status status = RUNG_OK;
    malloc_trim(0); // of the memory that kernels were timed on
    for (int r = 0; r < g->ranks && status == RUNG_OK; r++) {
        const rungi_session *s = g->sessions[r];
        rungi_fit_what what = rungi_fit_configured(s, RUNG_FIT_KEEP);
        status = rungi_fit_predict_fullest(s, rungi_session_batch(s), &what,
                                           &(rungi_fit_prediction){.extra = 0}, &plans[r]);
    }
    *base_out = rungi_resident();
    for (int r = 0; r < g->ranks; r++)
        rung_plan_destroy(&plans[r]);
    free(plans);
    return status;
}
