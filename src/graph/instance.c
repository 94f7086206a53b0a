// SPDX-License-Identifier: Apache-2.0
// Instances: a plan's pointers and kernel states, and the loop that runs its steps.
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/error.h"
#include "graph/plan.h"
#include "ops/threads.h"

static rung_status arena_reserve(rung_arena *arena, size_t bytes)
{
    if (arena->bytes >= bytes && arena->data)
        return RUNG_OK;
    void *data;
    size_t before = arena->data ? arena->bytes : 0;
    rungi_device_free_now(arena->device, arena->data);
    arena->data = NULL;
    arena->bytes = 0;
    arena->generation++;
    rung_status status = rung_device_alloc(arena->device, bytes, "activations", &data);
    if (status == RUNG_OK) {
        arena->data = data;
        arena->bytes = bytes;
        return RUNG_OK;
    }
    // Plans that fitted go on with what they had.
    rung_error error = *rung_error_last();
    if (before && rung_device_alloc(arena->device, before, "activations", &data) == RUNG_OK) {
        arena->data = data;
        arena->bytes = before;
    }
    return rungi_fail_adopt(&error);
}

rung_status rung_arena_create(rung_device *device, rung_arena **arena_out)
{
    rung_arena *arena = calloc(1, sizeof *arena);
    RUNG_CHECK(arena, RUNG_NO_MEMORY, "no memory for an arena");
    arena->device = device;
    *arena_out = arena;
    return RUNG_OK;
}

void rung_arena_destroy(rung_arena **arena)
{
    if (!arena || !*arena)
        return;
    rungi_device_free_now((*arena)->device, (*arena)->data);
    free(*arena);
    *arena = NULL;
}

// ---- pointers ---------------------------------------------------------------------------------

// Is this a float64 plan's own copy of what the state or the caller keeps in float32?
static bool is_copy(const rung_plan *p, const rungi_tensor *t)
{
    bool leaf = t->kind == RUNGI_TENSOR_INPUT || t->kind == RUNGI_TENSOR_PARAM ||
                t->kind == RUNGI_TENSOR_GRAD || t->kind == RUNGI_TENSOR_BUFFER;
    return p->options.float64 && leaf && t->operand.dtype == RUNG_F64 &&
           p->graph->values.data[t->value].dtype == RUNG_F32;
}

static void *root_pointer(const rungi_instance *s, int index)
{
    const rung_plan *p = s->plan;
    const rungi_tensor *t = &p->tensors.data[index];
    int entry = p->state->entry_of[t->value];
    if (is_copy(p, t))
        return s->ptr[index];
    switch (t->kind) {
    case RUNGI_TENSOR_ARENA:
        return s->arena->data + t->offset;
    case RUNGI_TENSOR_KEPT:
        return s->kept + t->offset;
    case RUNGI_TENSOR_PARAM:
        return p->state->params + p->state->entries[entry].offset;
    case RUNGI_TENSOR_GRAD:
        return s->grads + p->state->entries[entry].offset;
    case RUNGI_TENSOR_BUFFER:
        return p->state->buffers + p->state->entries[entry].offset;
    default:
        return s->ptr[index]; // inputs are bound, constants are set once
    }
}

static void set_pointers(rungi_instance *s)
{
    const rung_plan *p = s->plan;
    for (size_t i = 0; i < p->tensors.count; i++)
        if (p->tensors.data[i].root == (int)i)
            s->ptr[i] = root_pointer(s, (int)i);
    for (size_t i = 0; i < p->tensors.count; i++)
        s->ptr[i] = s->ptr[p->tensors.data[i].root];
    for (size_t i = 0; i < p->steps.count; i++) {
        int workspace = p->steps.data[i].workspace;
        s->calls[i].workspace = workspace < 0 ? NULL : s->ptr[workspace];
    }
    s->arena_generation = s->arena->generation;
}

static rung_status make_constants(rungi_instance *s)
{
    for (size_t i = 0; i < s->plan->tensors.count; i++) {
        const rungi_tensor *t = &s->plan->tensors.data[i];
        if (t->kind != RUNGI_TENSOR_CONST || t->root != (int)i)
            continue;
        float *value = calloc(1, sizeof *value);
        RUNG_CHECK(value, RUNG_NO_MEMORY, "no memory for an instance");
        *value = (float)t->fill;
        s->ptr[i] = value;
    }
    return RUNG_OK;
}

static rung_status make_copies(rungi_instance *s)
{
    const rung_plan *p = s->plan;
    if (!p->options.float64)
        return RUNG_OK;
    s->behind = calloc(p->tensors.count + 1, sizeof *s->behind);
    RUNG_CHECK(s->behind, RUNG_NO_MEMORY, "no memory for an instance");
    for (size_t i = 0; i < p->tensors.count; i++) {
        const rungi_tensor *t = &p->tensors.data[i];
        int entry = p->state->entry_of[t->value];
        if (t->root != (int)i || !is_copy(p, t))
            continue;
        RUNG_TRY(rung_device_alloc(p->device, t->bytes, "float64 copies", &s->ptr[i]));
        if (t->kind == RUNGI_TENSOR_PARAM)
            s->behind[i] = p->state->params + p->state->entries[entry].offset;
        else if (t->kind == RUNGI_TENSOR_BUFFER)
            s->behind[i] = p->state->buffers + p->state->entries[entry].offset;
    }
    return RUNG_OK;
}

static void fill_copies(rungi_instance *s)
{
    for (size_t i = 0; s->behind && i < s->plan->tensors.count; i++)
        if (s->behind[i])
            rung_convert(RUNG_F64, s->ptr[i], RUNG_F32, s->behind[i],
                         rungi_operand_count(&s->plan->tensors.data[i].operand), NULL);
}

static rung_status make_calls(rungi_instance *s, bool first)
{
    const rung_plan *p = s->plan;
    s->own_states = !first;
    rungi_threads_use(p->options.threads);
    for (size_t i = 0; i < p->steps.count; i++) {
        const rungi_step *step = &p->steps.data[i];
        rungi_call *c = &s->calls[i];
        *c = (rungi_call){.q = &step->q, .state = step->setup.state, .ptr = s->ptr, .rt = &s->rt};
        if (first || !step->kernel->create)
            continue;
        rungi_setup setup = {0};
        c->state = NULL;
        RUNG_TRY(step->kernel->create(&step->q, &setup));
        c->state = setup.state;
    }
    return RUNG_OK;
}

rung_status rungi_instance_create(const rung_plan *plan, rung_arena *arena, float *grads,
                                  bool first, rungi_instance **instance_out)
{
    rungi_instance *s = calloc(1, sizeof *s);
    RUNG_CHECK(s, RUNG_NO_MEMORY, "no memory for an instance");
    s->plan = plan;
    s->arena = arena;
    s->grads = grads;
    s->arena_generation = -1;
    s->rt.samples = plan->options.batch;
    rung_status status = RUNG_OK;
    s->ptr = calloc(plan->tensors.count + 1, sizeof *s->ptr);
    s->calls = calloc(plan->steps.count + 1, sizeof *s->calls);
    s->normalizer = calloc(plan->graph->nodes.count + 1, sizeof *s->normalizer);
    s->updates = calloc(plan->tensors.count + 1, sizeof *s->updates);
    if (!s->ptr || !s->calls || !s->normalizer || !s->updates) {
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for an instance");
        goto undo;
    }
    RUNG_TRY_GOTO(undo, arena_reserve(arena, plan->arena_bytes));
    if (plan->kept_bytes)
        RUNG_TRY_GOTO(undo, rung_device_alloc(plan->device, plan->kept_bytes, "statistics",
                                              (void **)&s->kept));
    RUNG_TRY_GOTO(undo, make_constants(s));
    RUNG_TRY_GOTO(undo, make_copies(s));
    RUNG_TRY_GOTO(undo, make_calls(s, first));
    set_pointers(s);
    *instance_out = s;
    return RUNG_OK;
undo:
    rungi_instance_destroy(&s);
    return status;
}

rung_status rungi_instance_create_remote(const rung_plan *plan, rungi_instance **instance_out)
{
    rungi_instance *s = calloc(1, sizeof *s);
    RUNG_CHECK(s, RUNG_NO_MEMORY, "no memory for an instance");
    s->plan = plan;
    s->ptr = calloc(plan->tensors.count + 1, sizeof *s->ptr);
    s->calls = calloc(plan->steps.count + 1, sizeof *s->calls);
    if (!s->ptr || !s->calls) {
        rungi_instance_destroy(&s);
        return RUNG_FAIL(RUNG_NO_MEMORY, "no memory for an instance");
    }
    for (size_t i = 0; i < plan->steps.count; i++)
        s->calls[i] = (rungi_call){.q = &plan->steps.data[i].q, .ptr = s->ptr, .rt = &s->rt};
    *instance_out = s;
    return RUNG_OK;
}

void rungi_instance_place_kept(rungi_instance *s, void *kept)
{
    const rung_plan *p = s->plan;
    for (size_t i = 0; i < p->tensors.count; i++) {
        const rungi_tensor *t = &p->tensors.data[p->tensors.data[i].root];
        int entry = p->state->entry_of[t->value];
        if (t->kind == RUNGI_TENSOR_KEPT)
            s->ptr[i] = (char *)kept + t->offset;
        else if (t->kind == RUNGI_TENSOR_BUFFER && !is_copy(p, t))
            s->ptr[i] = p->state->buffers + p->state->entries[entry].offset;
    }
}

void rungi_instance_destroy(rungi_instance **instance)
{
    if (!instance || !*instance)
        return;
    rungi_instance *s = *instance;
    const rung_plan *p = s->plan;
    for (size_t i = 0; s->own_states && s->calls && i < p->steps.count; i++)
        if (s->calls[i].state && p->steps.data[i].kernel->destroy)
            p->steps.data[i].kernel->destroy(s->calls[i].state);
    for (size_t i = 0; s->ptr && i < p->tensors.count; i++)
        if (p->tensors.data[i].kind == RUNGI_TENSOR_CONST && p->tensors.data[i].root == (int)i)
            free(s->ptr[i]);
    for (size_t i = 0; s->behind && i < p->tensors.count; i++)
        if (p->tensors.data[i].root == (int)i && is_copy(p, &p->tensors.data[i]))
            rung_device_free(p->device, s->ptr[i]);
    free(s->behind);
    rung_device_free(p->device, s->kept);
    free(s->ptr);
    free(s->calls);
    free(s->normalizer);
    free(s->updates);
    free(s->step_ns);
    free(s->works);
    free(s);
    *instance = NULL;
}

// ---- running ----------------------------------------------------------------------------------

int rungi_plan_input(const rung_plan *plan, const char *name)
{
    const rung_graph *g = plan->graph;
    for (size_t i = 1; i < g->values.count; i++)
        if (g->values.data[i].kind == RUNGI_VALUE_INPUT &&
            strcmp(g->values.data[i].name, name) == 0)
            return plan->value_tensor[i];
    return -2;
}

int rungi_plan_seed(const rung_plan *plan, int value)
{
    for (size_t i = 0; i < plan->tensors.count; i++) {
        const rungi_tensor *t = &plan->tensors.data[i];
        if (t->kind == RUNGI_TENSOR_SEED && t->root == (int)i && t->value == value)
            return (int)i;
    }
    return -1;
}

void rungi_instance_bind(rungi_instance *instance, int tensor, const void *data)
{
    const rung_plan *p = instance->plan;
    if (instance->ptr[tensor] == data)
        return;
    int root = p->tensors.data[tensor].root;
    if (is_copy(p, &p->tensors.data[root])) {
        instance->behind[root] = data;
        return;
    }
    for (size_t i = 0; i < p->tensors.count; i++)
        if (p->tensors.data[i].root == root)
            instance->ptr[i] = (void *)data;
}

void rungi_instance_count(rungi_instance *s, double *counts)
{
    for (int i = 0; i < s->plan->n_forward; i++) {
        const rungi_query *q = &s->plan->steps.data[i].q;
        if (q->op->normalizer)
            counts[q->node] += q->op->normalizer(q, s->ptr);
    }
}

static rung_status run_step(rungi_instance *s, int i)
{
    const rungi_step *step = &s->plan->steps.data[i];
    if (step->kernel->run(&s->calls[i]) == RUNG_OK)
        return RUNG_OK;
    return rungi_fail_prefix("layer %s", s->plan->graph->nodes.data[step->q.node].name);
}

static rung_status run_timed(rungi_instance *s, int i)
{
    rung_context *context = rung_device_context(s->plan->device);
    int64_t begin = rungi_now(context);
    rung_status status = run_step(s, i);
    s->step_ns[i] += rungi_now(context) - begin;
    return status;
}

rung_status rungi_instance_run(rungi_instance *s, int begin, int end)
{
    if (s->arena_generation != s->arena->generation)
        set_pointers(s);
    rungi_threads_use(s->plan->options.threads);
    if (begin == 0)
        fill_copies(s);
    for (int i = begin; i < end; i++)
        RUNG_TRY(s->step_ns ? run_timed(s, i) : run_step(s, i));
    return RUNG_OK;
}

typedef struct rungi_step_work {
    rungi_instance *instance;
    int step;
    int64_t least; // nanoseconds
} rungi_step_work;

static rung_status run_work(void *arg)
{
    rungi_step_work *w = arg;
    const rung_context *context = rung_device_context(w->instance->plan->device);
    int64_t until = w->least ? rungi_now(context) + w->least : 0;
    RUNG_TRY(rungi_instance_run(w->instance, w->step, w->step + 1));
    int64_t left = w->least ? until - rungi_now(context) : 0;
    if (left > 0)
        rungi_sleep(context, left);
    return RUNG_OK;
}

static int64_t least_time(const rungi_instance *s, size_t step)
{
    double rate = s->plan->device->options.op_rate;
    return rate > 0 ? (int64_t)(rungi_query_cost(&s->plan->steps.data[step].q).flops / rate) : 0;
}

rung_status rungi_instance_submit(rungi_instance *s, rung_stream *stream, int begin, int end)
{
    size_t count = s->plan->steps.count;
    if (!s->works) {
        s->works = calloc(count + 1, sizeof *s->works);
        RUNG_CHECK(s->works, RUNG_NO_MEMORY, "no memory for an instance");
        for (size_t i = 0; i < count; i++)
            s->works[i] = (rungi_step_work){s, (int)i, least_time(s, i)};
    }
    for (int i = begin; i < end; i++)
        RUNG_TRY(rungi_stream_submit(stream, RUNGI_WORK_OP, run_work, &s->works[i]));
    return RUNG_OK;
}

// The call of a node's forward step in an instance. Plans of shards of different sizes may differ
// in what was fused, so steps are found by node.
static const rungi_call *forward_call(const rungi_instance *s, int node)
{
    for (int i = 0; i < s->plan->n_forward; i++)
        if (s->plan->steps.data[i].q.node == node &&
            s->plan->steps.data[i].q.op == s->plan->graph->nodes.data[node].op)
            return &s->calls[i];
    return NULL;
}

rung_status rungi_instances_finish(rungi_instance *const *shards, int count)
{
    const rung_plan *p = shards[0]->plan;
    for (int i = 0; i < p->n_forward; i++) {
        const rungi_query *q = &p->steps.data[i].q;
        if (!q->op->finish || !q->training)
            continue;
        const rungi_call *calls[RUNGI_MAX_SHARDS];
        RUNG_CHECK(count <= RUNGI_MAX_SHARDS, RUNG_INVALID, "more than %d shards",
                   RUNGI_MAX_SHARDS);
        for (int k = 0; k < count; k++)
            calls[k] = k ? forward_call(shards[k], q->node) : &shards[0]->calls[i];
        RUNG_TRY(q->op->finish(calls, count));
    }
    return RUNG_OK;
}
