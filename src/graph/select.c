// SPDX-License-Identifier: Apache-2.0
// A kernel for each step: the first of its operator's list that the policy allows and that can run.
#include <stdlib.h>

#include "base/error.h"
#include "graph/plan.h"
#include "graph/tune.h"
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

static rung_status select_step(rung_plan *p, rungi_step *step)
{
    const char *layer = p->graph->nodes.data[step->q.node].name;
    if (step->q.op->check && step->q.op->check(&step->q) != RUNG_OK)
        return rungi_fail_prefix("layer %s", layer);
    rungi_string log = {0};
    step->kernel =
        rungi_kernel_choose(&step->q, p->device->backend->kind, rungi_plan_policy(p), &log);
    step->refusals = log.data;
    if (p->options.tuning && step->kernel) {
        const rungi_kernel *fastest;
        RUNG_TRY(rungi_tuning_choose(p->options.tuning, rung_device_context(p->device), &step->q,
                                     p->device->backend->kind, &fastest));
        step->kernel = fastest ? fastest : step->kernel;
    }
    RUNG_CHECK(step->kernel, RUNG_UNSUPPORTED, "layer %s: no kernel of %s for %s can run here (%s)",
               layer, step->q.op->name, rungi_query_pass(&step->q)->name, rungi_string_text(&log));
    if (step->kernel->create && step->kernel->create(&step->q, &step->setup) != RUNG_OK)
        return rungi_fail_prefix("layer %s (%s)", layer, step->kernel->name);
    return add_workspace(p, step);
}

rung_status rungi_plan_select(rung_plan *p)
{
    rungi_threads_use(p->options.threads);
    for (size_t i = 0; i < p->steps.count; i++)
        RUNG_TRY(select_step(p, &p->steps.data[i]));
    return RUNG_OK;
}
