// SPDX-License-Identifier: Apache-2.0
// Estimated step times: each step of one plan is timed by itself, on memory of its own; for other
// batch sizes that time is scaled as the cost model grows.
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/error.h"
#include "graph/tune.h"
#include "train/fit.h"

static rung_status measure_optimizer(rungi_session *s, rungi_fit_times *times)
{
    enum { RUNS = 4 };
    rung_optimizer_update update = {.rates = {.lr = 0}, .threads = rung_device_threads(s->device)};
    times->optimizer = 0;
    for (int i = 0; i < RUNS; i++) {
        int64_t begin = rungi_now(s->context);
        RUNG_TRY(
            rung_optimizer_step(s->optimizer, s->state->params, s->state->grads, &update, NULL));
        double took = (double)(rungi_now(s->context) - begin) * 1e-9;
        if (i == 1 || (i > 1 && took < times->optimizer))
            times->optimizer = took;
    }
    return RUNG_OK;
}

static const rungi_fit_time *find(const rungi_fit_times *times, const rungi_step *step)
{
    for (size_t i = 0; i < times->list.count; i++) {
        const rungi_fit_time *t = &times->list.data[i];
        if (t->node == step->q.node && t->op == step->q.op && t->pass == step->q.pass &&
            strcmp(t->kernel, step->kernel->name) == 0)
            return t;
    }
    return NULL;
}

rung_status rungi_fit_measure(rungi_session *s, const rung_plan *plan, rungi_fit_times *times)
{
    double measured = 0, model = 0;
    for (size_t i = 0; i < plan->steps.count; i++) {
        const rungi_step *step = &plan->steps.data[i];
        if (find(times, step))
            continue;
        int64_t ns;
        rungi_fit_time t = {.node = step->q.node,
                            .op = step->q.op,
                            .kernel = step->kernel->name,
                            .pass = step->q.pass,
                            .model = rungi_step_seconds(step)};
        RUNG_TRY(
            rungi_kernel_time(s->context, &step->q, s->device->backend->kind, step->kernel, &ns));
        t.seconds = (double)ns * 1e-9;
        measured += t.seconds;
        model += t.model;
        RUNG_CHECK(rungi_array_push(&times->list, t), RUNG_NO_MEMORY, "no memory for a fit");
    }
    times->ratio = model > 0 ? measured / model : 1;
    return measure_optimizer(s, times);
}

void rungi_fit_seconds(const rungi_fit_times *times, const rung_plan *plan, double *forward,
                       double *backward)
{
    for (size_t i = 0; i < plan->steps.count; i++) {
        const rungi_step *step = &plan->steps.data[i];
        const rungi_fit_time *t = find(times, step);
        double model = rungi_step_seconds(step);
        *((int)i < plan->n_forward ? forward : backward) +=
            t ? t->seconds * model / t->model : model * times->ratio;
    }
}
