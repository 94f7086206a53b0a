// SPDX-License-Identifier: Apache-2.0
// A kernel for each step: the first of its operator's list that the policy allows and that can run.
#include <stdlib.h>

#include "base/error.h"
#include "graph/plan.h"
#include "graph/tune.h"
#include "ops/halves.h"
#include "ops/threads.h"

rungi_policy rungi_plan_policy(const rung_plan *p)
{
    return p->options.kernels == RUNG_KERNELS_REFERENCE ? RUNGI_POLICY_REFERENCE
           : p->options.kernels == RUNG_KERNELS_LIBRARY ? RUNGI_POLICY_LIBRARY
                                                        : RUNGI_POLICY_ALL;
}

static rung_status add_workspace(rung_plan *p, rungi_step *step)
{
    if (!step->setup.workspace)
        return RUNG_OK;
    rungi_tensor t = {.kind = RUNGI_TENSOR_ARENA};
    t.operand.dtype = RUNG_U8;
    t.operand.shape = (rung_shape){.rank = 1, .dim = {(int64_t)step->setup.workspace}};
    step->workspace = rungi_plan_tensor(p, &t);
    RUNG_CHECK(step->workspace >= 0, RUNG_NO_MEMORY, "no memory for a plan");
    return RUNG_OK;
}

// The fastest of the kernels that can do the step, measured; *kernel stays when there is no choice.
// Where one computes natively in 16 bits, one of float32 around them may still be faster (not of
// operators with hidden outputs, which forward would have to make in float32 to measure backward).
static rung_status tune(rung_plan *p, const rungi_step *step, struct rungi_halves *halves,
                        const rungi_kernel **kernel)
{
    rung_context *context = rung_device_context(p->device);
    rungi_device_kind kind = p->device->backend->kind;
    rungi_halves_query within = {.q = step->q};
    struct rungi_halves around = {0};
    const rungi_kernel *fastest;
    bool native = step->q.native && step->q.op->precision == RUNGI_LOW && !step->q.op->n_hidden &&
                  rungi_kernel_choose(&step->q, kind, rungi_plan_policy(p), NULL);
    if (native)
        rungi_halves_around(&step->q, kind, rungi_plan_policy(p), &around);
    else if (halves->kernel)
        RUNG_TRY(rungi_halves_query_init(&within, &step->q, halves, halves->part));
    rung_status status = rungi_tuning_choose(p->options.tuning, context, &within.q, kind,
                                             around.kernel ? &around : NULL, &fastest);
    rungi_halves_query_fini(&within);
    RUNG_TRY(status);
    if (!fastest)
        return RUNG_OK;
    *kernel = fastest;
    if (native)
        *halves = fastest == around.kernel ? around : (struct rungi_halves){0};
    else if (halves->kernel)
        halves->kernel = fastest;
    return RUNG_OK;
}

// Where the kernel is one of float32 and the step has operands of 16 bits: what goes between.
static rung_status wrap(rung_plan *p, rungi_step *step, const struct rungi_halves *halves)
{
    if (!halves->kernel)
        return RUNG_OK;
    struct rungi_halves *how = rungi_plan_block(p, sizeof *how);
    rungi_kernel *kernel = rungi_plan_block(p, sizeof *kernel);
    RUNG_CHECK(how && kernel, RUNG_NO_MEMORY, "no memory for a plan");
    *how = *halves;
    *kernel = rungi_halves_kernel(halves);
    step->q.halves = how;
    step->kernel = kernel;
    return RUNG_OK;
}

static rung_status select_step(rung_plan *p, rungi_step *step)
{
    const char *layer = p->graph->nodes.data[step->q.node].name;
    if (step->q.op->check && step->q.op->check(&step->q) != RUNG_OK)
        return rungi_fail_prefix("layer %s", layer);
    rungi_string log = {0};
    struct rungi_halves halves;
    step->kernel = rungi_halves_choose(&step->q, p->device->backend->kind, rungi_plan_policy(p),
                                       &log, &halves);
    step->refusals = log.data;
    if (p->options.tuning && step->kernel)
        RUNG_TRY(tune(p, step, &halves, &step->kernel));
    RUNG_CHECK(step->kernel, RUNG_UNSUPPORTED, "layer %s: no kernel of %s for %s can run here (%s)",
               layer, step->q.op->name, rungi_query_pass(&step->q)->name, rungi_string_text(&log));
    return wrap(p, step, &halves);
}

static rung_status prepare_step(rung_plan *p, rungi_step *step)
{
    const char *layer = p->graph->nodes.data[step->q.node].name;
    if (step->kernel->create && step->kernel->create(&step->q, &step->setup) != RUNG_OK)
        return rungi_fail_prefix("layer %s (%s)", layer, step->kernel->name);
    return add_workspace(p, step);
}

rung_status rungi_plan_select(rung_plan *p)
{
    rungi_threads_use(p->options.threads);
    for (size_t i = 0; i < p->steps.count; i++)
        RUNG_TRY(select_step(p, &p->steps.data[i]));
    if (p->options.fuse)
        RUNG_TRY(rungi_plan_sums(p));
    RUNG_TRY(rungi_plan_accumulate(p));
    for (size_t i = 0; i < p->steps.count; i++)
        RUNG_TRY(prepare_step(p, &p->steps.data[i]));
    return RUNG_OK;
}
