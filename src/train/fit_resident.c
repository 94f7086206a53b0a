// SPDX-License-Identifier: Apache-2.0
// What of a process is resident beside the arenas and the loaders' batches: libraries, their
// buffers, weights, and what plans are made of.
#include <malloc.h>

#include "base/error.h"
#include "measure/resident.h"
#include "train/fit.h"

// Operations of a pass that cost little time without being asked for times.
#define FEW_OPERATIONS 4e8

static double operations(const rung_plan *plan)
{
    double sum = 0;
    for (size_t i = 0; i < plan->steps.count; i++)
        sum += rungi_kernel_flops(plan->steps.data[i].kernel, &plan->steps.data[i].q);
    return sum;
}

rung_status rungi_fit_sample(const rungi_session *s, bool times, int64_t *samples_out)
{
    enum { ENOUGH = 32, FEW = 2, MOST = 128 }; // ENOUGH for kernels to show their speed
    int64_t batch = rungi_session_batch(s), least = batch < FEW ? batch : FEW;
    rung_fit_row row;
    rung_plan *plan;
    rungi_fit_what what = rungi_fit_configured(s, RUNG_FIT_KEEP);
    *samples_out = batch < ENOUGH ? batch : ENOUGH;
    if (times)
        return RUNG_OK;
    RUNG_TRY(rungi_fit_predict(s, least, &what, &row, &plan));
    double each = operations(plan) / (double)least, few = FEW_OPERATIONS / (each > 1 ? each : 1);
    rung_plan_destroy(&plan);
    int64_t most = batch < MOST ? batch : MOST;
    *samples_out = few < (double)least ? least : few < (double)most ? (int64_t)few : most;
    return RUNG_OK;
}

static rung_status measure_at(rungi_session *s, int64_t batch, const rungi_fit_what *what,
                              rungi_fit_times *times)
{
    rung_fit_row row;
    rung_plan *plan;
    RUNG_TRY(rungi_fit_predict(s, batch, what, &row, &plan));
    rung_status status = rungi_fit_measure(s, plan, times);
    rung_plan_destroy(&plan);
    return status;
}

rung_status rungi_fit_measure_rest(rungi_session *s, const rungi_fit_what *what,
                                   rungi_fit_times *times)
{
    rung_loader_info info = {.last_batch = rungi_session_batch(s)};
    RUNG_TRY(measure_at(s, rungi_session_batch(s), what, times));
    if (s->train_loader)
        rung_loader_describe(s->train_loader, &info);
    return measure_at(s, info.last_batch, what, times);
}

rung_status rungi_fit_base(const rungi_session *s, uint64_t *base_out)
{
    rung_fit_row row;
    rung_plan *plan;
    rungi_fit_what what = rungi_fit_configured(s, RUNG_FIT_KEEP);
    malloc_trim(0); // of the memory that kernels were timed on
    RUNG_TRY(rungi_fit_predict(s, rungi_session_batch(s), &what, &row, &plan));
    *base_out = rungi_resident(); // with the plan, as training has it
    rung_plan_destroy(&plan);
    return RUNG_OK;
}
