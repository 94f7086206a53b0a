// SPDX-License-Identifier: Apache-2.0
// `--explain`: the plan as a listing.
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "graph/plan.h"
#include "ops/halves.h"

static void add_operands(rungi_string *out, const rungi_operand *list, int n)
{
    bool first = true;
    for (int i = 0; list && i < n; i++) {
        if (list[i].buffer < 0)
            continue;
        char text[RUNG_SHAPE_TEXT];
        rungi_string_add(out, "%s%s", first ? "" : " ",
                         rung_shape_text(&list[i].shape, text, sizeof text));
        if (list[i].dtype != RUNG_F32)
            rungi_string_add(out, ":%s", rung_dtype_name(list[i].dtype));
        if (list[i].layout != RUNGI_PLAIN)
            rungi_string_add(out, ":%s", rungi_layout_name(list[i].layout));
        first = false;
    }
}

static void add_places(const rung_plan *p, rungi_string *out, const rungi_operand *list, int n)
{
    for (int i = 0; list && i < n; i++) {
        if (list[i].buffer < 0)
            continue;
        const rungi_tensor *t = &p->tensors.data[p->tensors.data[list[i].buffer].root];
        if (t->kind == RUNGI_TENSOR_ARENA)
            rungi_string_add(out, " @%zu+%zu", t->offset, t->bytes);
        else
            rungi_string_add(out, " @%s",
                             t->kind == RUNGI_TENSOR_GRAD   ? "gradients"
                             : t->kind == RUNGI_TENSOR_KEPT ? "statistics"
                                                            : "state");
    }
}

static void add_step(const rung_plan *p, rungi_string *out, size_t index)
{
    const rungi_step *s = &p->steps.data[index];
    const rungi_query *q = &s->q;
    bool forward = q->pass == RUNGI_FORWARD;
    rungi_cost cost = rungi_query_cost(q);
    rungi_string_add(out, "%4zu  %s  %s.%s", index, p->graph->nodes.data[q->node].name, q->op->name,
                     rungi_query_pass(q)->name);
    if (s->again)
        rungi_string_add(out, " again");
    for (int i = 0; i < q->n_fused; i++)
        rungi_string_add(out, " + %s (%s)", q->fused[i].op->name,
                         p->graph->nodes.data[q->fused[i].node].name);
    if (q->op->describe) {
        rungi_string_add(out, " {");
        q->op->describe(q->attr, out);
        rungi_string_add(out, "}");
    }
    rungi_string_add(out, "\n        ");
    add_operands(out, forward ? q->in : q->gout, forward ? q->n_in : q->op->n_out);
    rungi_string_add(out, " -> ");
    add_operands(out, forward ? q->out : q->gin, forward ? q->n_out : q->n_in);
    rungi_string_add(out, "\n        kernel %s, %.4g Mflop, %.4g MB", s->kernel->name,
                     cost.flops * 1e-6, cost.bytes * 1e-6);
    add_places(p, out, forward ? q->out : q->gin, forward ? q->n_out : q->n_in);
    if (s->setup.workspace)
        rungi_string_add(out, " workspace %zu", s->setup.workspace);
    if (q->sums_out)
        rungi_string_add(out, "\n        leaves the sums of its output by channel");
    if (q->sums_in)
        rungi_string_add(out, "\n        takes the sums of its input from whoever made that");
    if (q->halves)
        rungi_string_add(out, "\n        in float32, around operands of 16 bits");
    if (q->halves && q->halves->cut != RUNGI_HALVES_WHOLE)
        rungi_string_add(out, ", %lld %s at a time", (long long)q->halves->part,
                         q->halves->cut == RUNGI_HALVES_SAMPLES ? "samples" : "outputs");
    if (s->updates >= 0)
        rungi_string_add(out, "\n        updates %s itself, unless its gradient is wanted",
                         p->graph->values.data[p->tensors.data[s->updates].value].name);
    if (q->adds)
        rungi_string_add(out, "\n        adds to the gradients itself");
    if (s->refusals)
        rungi_string_add(out, "\n        refused: %s", s->refusals);
    rungi_string_add(out, "\n");
}

// Own kernels and references give the same bits with any number of threads.
static void add_libraries(const rung_plan *p, rungi_string *out)
{
    int count = 0;
    for (size_t i = 0; i < p->steps.count; i++)
        count += p->steps.data[i].kernel->kind == RUNGI_LIBRARY;
    if (count)
        rungi_string_add(out,
                         "%d of %zu steps are done by libraries, whose bits may depend on the "
                         "number of threads\n",
                         count, p->steps.count);
    else
        rungi_string_add(out, "the bits do not depend on the number of threads\n");
}

static void add_memory(const rung_plan *p, rungi_string *out)
{
    char arena[32], bound[32];
    double above = p->lower_bound ? (double)p->arena_bytes / (double)p->lower_bound - 1 : 0;
    rungi_string_add(out, "arena %s, %.2f %% above the largest live set of %s",
                     rungi_text_bytes(p->arena_bytes, arena, sizeof arena), above * 100,
                     rungi_text_bytes(p->lower_bound, bound, sizeof bound));
    if (p->steps.count) {
        const rungi_query *q =
            &p->steps
                 .data[(size_t)p->peak_step < p->steps.count ? (size_t)p->peak_step
                                                             : p->steps.count - 1]
                 .q;
        rungi_string_add(out, " (at step %d, %s %s.%s)", p->peak_step,
                         p->graph->nodes.data[q->node].name, q->op->name,
                         rungi_query_pass(q)->name);
    }
    rungi_string_add(out, "\n");
    int again;
    double extra;
    rung_plan_recomputed(p, &again, &extra);
    if (p->options.recompute != RUNG_RECOMPUTE_NONE && p->options.gradients)
        rungi_string_add(
            out, "recompute: %d steps are done again in backward, about %.1f %% more time\n", again,
            extra * 100);
}

static bool winograd_f4(const rung_compile_options *o)
{
    return o->winograd && o->winograd_bf16 == RUNG_WINOGRAD_F4 && o->precision == RUNG_BF16 &&
           o->compute == RUNG_COMPUTE_NATIVE;
}

rung_status rung_plan_explain(const rung_plan *plan, char **text_out)
{
    rungi_string out = {0};
    static const char *const layouts[] = {"plain", "channels_last", "blocked"};
    static const char *const kernels[] = {"own", "library", "reference"};
    static const char *const computes[] = {"auto", "native", "storage"};
    bool halves = plan->options.precision != RUNG_F32;
    rungi_string_add(
        &out,
        "plan: batch %lld, %s%s, %d threads, layout %s, kernels %s, fuse %s, winograd "
        "%s%s%s%s%s%s%s%s\n",
        (long long)plan->options.batch, plan->options.training ? "training" : "evaluation",
        plan->options.gradients ? " with gradients" : "", plan->options.threads,
        layouts[plan->options.layout], kernels[plan->options.kernels],
        plan->options.fuse ? "on" : "off", plan->options.winograd ? "on" : "off",
        winograd_f4(&plan->options) ? " (bf16: f4)" : "",
        plan->options.fuse_optimizer ? ", fuse_optimizer on" : "", halves ? ", precision " : "",
        halves ? rung_dtype_name(plan->options.precision) : "", halves ? ", compute " : "",
        halves ? computes[plan->options.compute] : "",
        plan->options.accumulate ? ", adds to the gradients" : "");
    add_memory(plan, &out);
    for (size_t i = 0; i < plan->steps.count; i++) {
        if (i == 0 || (int)i == plan->n_forward)
            rungi_string_add(&out, "%s\n", i == 0 ? "forward" : "backward");
        add_step(plan, &out, i);
    }
    add_libraries(plan, &out);
    if (out.failed) {
        rungi_string_fini(&out);
        return RUNG_FAIL(RUNG_NO_MEMORY, "no memory for the listing");
    }
    *text_out = out.data;
    return RUNG_OK;
}
