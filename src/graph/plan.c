// SPDX-License-Identifier: Apache-2.0
// rung_compile, and the public calls that run a plan's own instance.
#include "graph/plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tensor/half.h"

static void visit(const rungi_operand *list, int n, bool write, rungi_operand_fn fn, void *user)
{
    for (int i = 0; list && i < n; i++)
        if (list[i].buffer >= 0)
            fn(user, &list[i], write);
}

void rungi_step_operands(const rungi_step *s, rungi_operand_fn fn, void *user)
{
    const rungi_query *q = &s->q;
    bool forward = q->pass == RUNGI_FORWARD;
    visit(q->in, q->n_in, false, fn, user);
    visit(q->out, q->n_out, forward, fn, user);
    if (!forward) {
        visit(q->gout, q->op->n_out, false, fn, user);
        visit(q->gin, q->n_in, true, fn, user);
    }
    for (int i = 0; i < q->n_fused; i++)
        if (forward) // in[0] is never stored
            visit(q->fused[i].in + 1, q->fused[i].n_in - 1, false, fn, user);
        else
            visit(q->fused[i].out, 1, false, fn, user);
    visit(q->sums_in, 1, false, fn, user);
    visit(q->sums_out, 1, true, fn, user);
}

static rung_status resolve_symbols(rung_plan *p, const rung_compile_options *o)
{
    const rung_graph *g = p->graph;
    RUNG_CHECK(o->batch >= 1, RUNG_INVALID, "the batch is %" PRId64 "; it must be 1 or more",
               o->batch);
    p->symbols[0] = o->batch;
    for (int s = 1; s < g->n_symbols; s++)
        for (int i = 0; i < o->n_dims; i++)
            if (strcmp(o->dims[i].symbol, g->symbols[s]) == 0)
                p->symbols[s] = o->dims[i].value;
    for (int s = 1; s < g->n_symbols; s++)
        RUNG_CHECK(p->symbols[s] >= 1, RUNG_INVALID,
                   "dimension '%s' needs a value of 1 or more to compile", g->symbols[s]);
    return RUNG_OK;
}

static rung_status check_outputs(const rung_graph *g, const rung_compile_options *o)
{
    RUNG_CHECK(g->outputs.count > 0, RUNG_INVALID, "the graph has no output and no loss");
    bool begins = g->loss != 0;
    for (size_t k = 0; k < g->outputs.count; k++)
        begins |= g->outputs.data[k].seeded;
    RUNG_CHECK(!o->gradients || begins, RUNG_INVALID, "gradients need a loss; the graph has none");
    for (int i = 0; i < o->n_outputs; i++) {
        bool found = false;
        for (size_t k = 0; k < g->outputs.count; k++)
            found |= strcmp(g->outputs.data[k].name, o->outputs[i]) == 0;
        RUNG_CHECK(found, RUNG_NOT_FOUND, "the graph has no output '%s'", o->outputs[i]);
    }
    return RUNG_OK;
}

// Sets `compute` to what it comes to.
static rung_status resolve_precision(rung_plan *p)
{
    rung_compile_options *o = &p->options;
    char why[96];
    RUNG_CHECK(o->precision == RUNG_F32 || rungi_dtype_is_half(o->precision), RUNG_INVALID,
               "plans are of float32, bf16 or f16, not of %s", rung_dtype_name(o->precision));
    bool native =
        rung_compute_native(rung_device_context(p->device), o->precision, why, sizeof why);
    RUNG_CHECK(o->precision == RUNG_F32 || o->compute != RUNG_COMPUTE_NATIVE || native,
               RUNG_UNSUPPORTED, "%s: native compute is not available: %s",
               rung_dtype_name(o->precision), why);
    if (o->compute == RUNG_COMPUTE_AUTO)
        o->compute = native ? RUNG_COMPUTE_NATIVE : RUNG_COMPUTE_STORAGE;
    return RUNG_OK;
}

static rung_status compile(rung_plan *p, const rung_compile_options *options)
{
    RUNG_TRY(rung_graph_check(p->graph));
    RUNG_TRY(resolve_precision(p));
    RUNG_TRY(resolve_symbols(p, options));
    RUNG_TRY(check_outputs(p->graph, options));
    RUNG_CHECK(!options->accumulate || !options->float64, RUNG_INVALID,
               "a float64 plan keeps its gradients to itself: it cannot accumulate");
    RUNG_TRY(rungi_plan_build(p));
    if (p->options.fuse) {
        RUNG_TRY(rungi_plan_fuse(p));
        RUNG_TRY(rungi_plan_fuse_backward(p));
    }
    RUNG_TRY(rungi_plan_select(p));
    RUNG_TRY(rungi_plan_arrange(p));
    rung_arena *arena = options->arena;
    if (!arena && !options->plan_only) {
        RUNG_TRY(rung_arena_create(p->device, &p->own_arena));
        arena = p->own_arena;
    }
    if (!options->plan_only)
        RUNG_TRY(rungi_instance_create(p, arena, p->state->grads, true, &p->instance));
    // What the caller's options point to is not kept.
    p->options.dims = NULL;
    p->options.tuning = NULL;
    p->options.outputs = NULL;
    p->options.recompute_layers = NULL;
    return RUNG_OK;
}

rung_status rung_compile(const rung_graph *graph, rung_state *state,
                         const rung_compile_options *options, rung_plan **plan_out)
{
    rung_plan *p = calloc(1, sizeof *p);
    RUNG_CHECK(p, RUNG_NO_MEMORY, "no memory for a plan");
    p->graph = graph;
    p->state = state;
    p->device = state->device;
    p->options = *options;
    p->seed = -1;
    if (p->options.threads <= 0)
        p->options.threads = rung_device_threads(p->device);
    if (p->options.float64) {
        p->options.kernels = RUNG_KERNELS_REFERENCE;
        p->options.precision = RUNG_F32;
    }
    rung_status status = compile(p, options);
    if (status != RUNG_OK) {
        rung_plan_destroy(&p);
        return status;
    }
    *plan_out = p;
    return RUNG_OK;
}

void rungi_plan_remove_step(rung_plan *p, size_t index)
{
    free(p->steps.data[index].refusals);
    memmove(&p->steps.data[index], &p->steps.data[index + 1],
            (p->steps.count - index - 1) * sizeof *p->steps.data);
    p->steps.count--;
    if (index < (size_t)p->n_forward)
        p->n_forward--;
}

void rung_plan_destroy(rung_plan **plan)
{
    if (!plan || !*plan)
        return;
    rung_plan *p = *plan;
    rungi_instance_destroy(&p->instance);
    for (size_t i = 0; i < p->steps.count; i++) {
        rungi_step *step = &p->steps.data[i];
        if (step->setup.state && step->kernel->destroy)
            step->kernel->destroy(step->setup.state);
        free(step->refusals);
    }
    rung_arena_destroy(&p->own_arena);
    for (size_t i = 0; i < p->blocks.count; i++)
        free(p->blocks.data[i]);
    rungi_array_fini(&p->blocks);
    rungi_array_fini(&p->steps);
    rungi_array_fini(&p->tensors);
    free(p);
    *plan = NULL;
}

rung_status rung_plan_bind(rung_plan *plan, const char *input, const void *data)
{
    int tensor = rungi_plan_input(plan, input);
    if (tensor == -2) {
        rungi_string names = {0};
        for (size_t i = 1; i < plan->graph->values.count; i++)
            if (plan->graph->values.data[i].kind == RUNGI_VALUE_INPUT)
                rungi_string_add(&names, "%s'%s'", names.size ? ", " : "",
                                 plan->graph->values.data[i].name);
        rung_status status = RUNG_FAIL(RUNG_NOT_FOUND, "the graph has no input '%s'; it has %s",
                                       input, rungi_string_text(&names));
        rungi_string_fini(&names);
        return status;
    }
    RUNG_CHECK(plan->instance, RUNG_INVALID, "a plan compiled with plan_only cannot be run");
    if (tensor >= 0)
        rungi_instance_bind(plan->instance, tensor, data);
    return RUNG_OK;
}

void rungi_instance_set_loss_scale(rungi_instance *instance, float scale)
{
    int seed = instance->plan->seed;
    if (seed >= 0)
        *(float *)instance->ptr[seed] = scale;
}

void rung_plan_set_loss_scale(rung_plan *plan, float scale)
{
    rungi_instance_set_loss_scale(plan->instance, scale);
}

void rung_plan_set_step(rung_plan *plan, uint64_t seed, uint64_t step)
{
    plan->instance->rt.seed = seed;
    plan->instance->rt.step = step;
}

static rung_status check_bound(const rung_plan *plan)
{
    RUNG_CHECK(plan->instance, RUNG_INVALID, "a plan compiled with plan_only cannot be run");
    for (size_t i = 0; i < plan->tensors.count; i++) {
        const rungi_tensor *t = &plan->tensors.data[i];
        const void *bound = plan->instance->ptr[i];
        if (plan->instance->behind && t->operand.dtype == RUNG_F64)
            bound = plan->instance->behind[t->root];
        RUNG_CHECK(t->kind != RUNGI_TENSOR_INPUT || bound, RUNG_INVALID, "input '%s' is not bound",
                   plan->graph->values.data[t->value].name);
    }
    return RUNG_OK;
}

rung_status rung_plan_forward(rung_plan *plan)
{
    RUNG_TRY(check_bound(plan));
    RUNG_TRY(rungi_instance_run(plan->instance, 0, plan->n_forward));
    return rungi_instances_finish(&plan->instance, 1);
}

rung_status rung_plan_backward(rung_plan *plan)
{
    RUNG_CHECK(plan->options.gradients, RUNG_INVALID, "the plan was compiled without gradients");
    for (size_t i = 0; i < plan->tensors.count; i++)
        RUNG_CHECK(plan->tensors.data[i].kind != RUNGI_TENSOR_SEED || plan->instance->ptr[i],
                   RUNG_INVALID, "the gradient of output '%s' is not given",
                   plan->graph->values.data[plan->tensors.data[i].value].name);
    return rungi_instance_run(plan->instance, plan->n_forward, (int)plan->steps.count);
}

rung_status rung_plan_output(const rung_plan *plan, const char *output, rung_view *view_out)
{
    const rung_graph *g = plan->graph;
    for (size_t i = 0; i < g->outputs.count; i++) {
        if (strcmp(g->outputs.data[i].name, output) != 0)
            continue;
        int tensor = plan->value_tensor[g->outputs.data[i].value];
        if (tensor < 0)
            break;
        const rungi_operand *o = &plan->tensors.data[tensor].operand;
        *view_out = (rung_view){o->dtype, o->shape, plan->instance->ptr[tensor]};
        return RUNG_OK;
    }
    return RUNG_FAIL(RUNG_NOT_FOUND, "the plan has no output '%s'", output);
}

rung_status rung_plan_loss(const rung_plan *plan, float *loss_out)
{
    rung_view view;
    RUNG_TRY(rung_plan_output(plan, "loss", &view));
    rung_convert(RUNG_F32, loss_out, view.dtype, view.data, 1, NULL);
    return RUNG_OK;
}

rung_status rung_plan_grad(const rung_plan *plan, const char *parameter, rung_view *view_out)
{
    for (size_t i = 0; i < plan->tensors.count; i++) {
        const rungi_tensor *t = &plan->tensors.data[i];
        if (t->kind != RUNGI_TENSOR_GRAD || t->root != (int)i ||
            strcmp(plan->graph->values.data[t->value].name, parameter) != 0)
            continue;
        *view_out = (rung_view){t->operand.dtype, t->operand.shape, plan->instance->ptr[i]};
        return RUNG_OK;
    }
    return RUNG_FAIL(RUNG_NOT_FOUND, "the plan computes no gradient of '%s'", parameter);
}

rung_plan_memory rung_plan_memory_use(const rung_plan *plan)
{
    uint64_t flat = (uint64_t)plan->state->flat_size * sizeof(float);
    rung_plan_memory m = {.arena = plan->arena_bytes,
                          .lower_bound = plan->lower_bound,
                          .params = flat,
                          .grads = flat,
                          .buffers = (uint64_t)plan->state->buffer_bytes,
                          .statistics = plan->kept_bytes};
    for (size_t i = 0; i < plan->tensors.count; i++) {
        const rungi_tensor *t = &plan->tensors.data[i];
        if (t->kind != RUNGI_TENSOR_ARENA || t->root != (int)i || t->first < 0 ||
            t->first > plan->peak_step || t->last < plan->peak_step)
            continue;
        *(t->value == 0 ? &m.peak_workspace
          : t->is_grad  ? &m.peak_gradients
                        : &m.peak_activations) += t->bytes;
    }
    return m;
}

void rung_plan_recomputed(const rung_plan *plan, int *steps_out, double *extra_out)
{
    *steps_out = plan->n_again;
    *extra_out =
        plan->n_again ? plan->again_seconds / (plan->step_seconds - plan->again_seconds) : 0;
}

void rung_plan_steps(const rung_plan *plan, int *forward_out, int *backward_out)
{
    *forward_out = plan->n_forward;
    *backward_out = (int)plan->steps.count - plan->n_forward;
}
