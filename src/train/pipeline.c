// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "train/pipeline_inside.h"

// ---- life -------------------------------------------------------------------------------------

static rung_status make(rungi_pipeline *p)
{
    rung_device *device = p->e->state->device;
    const rungi_part *part = p->o.part;
    size_t named = p->e->graph->outputs.count - (size_t)part->n_out;
    p->stage = rungi_comm_rank(p->o.comm);
    p->stages = rungi_comm_size(p->o.comm);
    p->slots = rungi_pipeline_in_flight(p->o.schedule, p->stage, p->stages, p->o.micro);
    p->total = p->o.micro * p->e->options.accumulate;
    p->actions = calloc(2 * (size_t)p->total, sizeof *p->actions);
    p->gathered = calloc(named + 1, sizeof *p->gathered);
    p->gathered_bytes = calloc(named + 1, sizeof *p->gathered_bytes);
    RUNG_CHECK(p->gathered && p->gathered_bytes && p->actions, RUNG_NO_MEMORY,
               "no memory for a pipeline");
    for (int i = 0; i < RUNGI_PIPELINE_MICRO; i++) {
        p->slot[i].received_for = -1;
        p->slot[i].receives = calloc((size_t)part->n_in + 1, sizeof *p->slot[i].receives);
        RUNG_CHECK(p->slot[i].receives, RUNG_NO_MEMORY, "no memory for a pipeline");
    }
    for (int i = 0; i < RUNGI_STAGE_SEEDS; i++) {
        p->seeded_for[i] = -1;
        p->seed_calls[i] = calloc((size_t)part->n_out + 1, sizeof *p->seed_calls[i]);
        RUNG_CHECK(p->seed_calls[i], RUNG_NO_MEMORY, "no memory for a pipeline");
    }
    if (p->total > 1 && p->e->state->flat_size) {
        uint64_t bytes = (uint64_t)p->e->state->flat_size * sizeof(float);
        RUNG_TRY(
            rung_device_alloc(device, bytes, "gradients of a micro-batch", (void **)&p->scratch));
        memset(p->scratch, 0, bytes);
    }
    return RUNG_OK;
}

rung_status rungi_pipeline_create(rungi_engine *e, const rungi_pipeline_options *options,
                                  rungi_pipeline **pipeline_out)
{
    RUNG_CHECK(options->micro >= 1 && options->micro <= RUNGI_PIPELINE_MICRO, RUNG_CONFIG,
               "pipeline.micro_batches is %d; 1 to %d work", options->micro, RUNGI_PIPELINE_MICRO);
    rungi_pipeline *p = calloc(1, sizeof *p);
    RUNG_CHECK(p, RUNG_NO_MEMORY, "no memory for a pipeline");
    p->e = e;
    p->o = *options;
    rung_status status = make(p);
    if (status != RUNG_OK) {
        rungi_pipeline_destroy(&p);
        return status;
    }
    *pipeline_out = p;
    return RUNG_OK;
}

void rungi_pipeline_destroy(rungi_pipeline **pipeline)
{
    if (!pipeline || !*pipeline)
        return;
    rungi_pipeline *p = *pipeline;
    rung_device *device = p->e->state->device;
    rungi_pipeline_drop_calls(p);
    for (size_t i = 0; i < p->entries.count; i++) {
        rungi_stage_plan *x = p->entries.data[i];
        for (int s = 1; s < RUNGI_PIPELINE_MICRO; s++)
            rungi_instance_destroy(&x->instances[s]);
        for (int m = 0; m < RUNGI_MAX_SHARDS; m++)
            rungi_instance_destroy(&x->remote[m]);
        rung_plan_destroy(&x->plan);
        free(x);
    }
    rungi_array_fini(&p->entries);
    for (int i = 0; i < RUNGI_PIPELINE_MICRO; i++) {
        rung_arena_destroy(&p->slot[i].arena);
        rung_device_free(device, p->slot[i].inputs);
        free(p->slot[i].receives);
    }
    for (int i = 0; i < RUNGI_STAGE_SEEDS; i++) {
        rung_device_free(device, p->seeds[i]);
        free(p->seed_calls[i]);
    }
    size_t named = p->e->graph->outputs.count - (size_t)p->o.part->n_out;
    for (size_t i = 0; p->gathered && i < named; i++)
        free(p->gathered[i]);
    free(p->gathered);
    free(p->gathered_bytes);
    rung_device_free(device, p->scratch);
    rung_device_free(device, p->kept);
    free(p->actions);
    free(p);
    *pipeline = NULL;
}

// ---- plans ------------------------------------------------------------------------------------

// Backward has nothing to begin with where no parameter lies in or before this stage.
bool rungi_pipeline_has_backward(const rungi_pipeline *p)
{
    bool any = p->e->graph->loss != 0;
    for (int i = 0; i < p->o.part->n_out; i++)
        any |= p->o.part->out[i].gradient;
    return any;
}

static rung_status compile(rungi_pipeline *p, rungi_stage_plan *x)
{
    const rung_graph *g = p->e->graph;
    const char **wanted = calloc(g->outputs.count + 1, sizeof *wanted);
    RUNG_CHECK(wanted, RUNG_NO_MEMORY, "no memory for a plan");
    rung_compile_options o = rungi_engine_plan_options(p->e, x->training, x->count);
    o.gradients = x->training && rungi_pipeline_has_backward(p);
    o.arena = p->slot[0].arena;
    for (size_t i = 0; i < g->outputs.count; i++)
        if (x->loss || strcmp(g->outputs.data[i].name, "loss") != 0)
            wanted[o.n_outputs++] = g->outputs.data[i].name;
    o.outputs = wanted;
    rung_status status = rung_compile(g, p->e->state, &o, &x->plan);
    free(wanted);
    if (status == RUNG_OK)
        x->instances[0] = x->plan->instance;
    return status;
}

static rung_status find(rungi_pipeline *p, bool training, bool loss, int64_t count,
                        rungi_stage_plan **entry_out)
{
    for (size_t i = 0; i < p->entries.count; i++) {
        rungi_stage_plan *y = p->entries.data[i];
        if (y->training == training && y->loss == loss && y->count == count) {
            *entry_out = y;
            return RUNG_OK;
        }
    }
    rungi_stage_plan *x = calloc(1, sizeof *x);
    RUNG_CHECK(x, RUNG_NO_MEMORY, "no memory for a plan");
    *x = (rungi_stage_plan){.training = training, .loss = loss, .count = count};
    rung_status status = compile(p, x);
    if (status == RUNG_OK && !rungi_array_push(&p->entries, x))
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a plan");
    if (status != RUNG_OK) {
        rung_plan_destroy(&x->plan);
        free(x);
        return status;
    }
    *entry_out = x;
    return RUNG_OK;
}

uint64_t rungi_pipeline_crossing_bytes(const rungi_pipeline *p, const rungi_crossing *list, int n,
                                       int64_t count, rung_dtype precision, bool gradients)
{
    uint64_t sum = 0;
    for (int i = 0; i < n; i++)
        if (!gradients || list[i].gradient)
            sum += rungi_crossing_bytes(p->e->graph, &list[i], count, precision);
    return sum;
}

static rung_status reserve(rungi_pipeline *p, char **data, uint64_t *has, uint64_t bytes,
                           const char *what)
{
    if (*has >= bytes)
        return RUNG_OK;
    rungi_device_free_now(p->e->state->device, *data);
    *data = NULL;
    *has = 0;
    RUNG_TRY(rung_device_alloc(p->e->state->device, bytes, what, (void **)data));
    *has = bytes;
    return RUNG_OK;
}

static rung_status make_slot(rungi_pipeline *p, int index, int64_t count)
{
    rungi_stage_slot *s = &p->slot[index];
    const rungi_part *part = p->o.part;
    rung_dtype precision = p->e->options.precision;
    if (!s->arena)
        RUNG_TRY(rung_arena_create(p->e->state->device, &s->arena));
    RUNG_TRY(
        reserve(p, &s->inputs, &s->input_bytes,
                rungi_pipeline_crossing_bytes(p, part->in, part->n_in, count, precision, false),
                "values at a cut"));
    uint64_t bytes =
        rungi_pipeline_crossing_bytes(p, part->out, part->n_out, count, precision, true);
    for (int i = 0; p->training && i < RUNGI_STAGE_SEEDS && i < p->active; i++)
        RUNG_TRY(reserve(p, &p->seeds[i], &p->seed_bytes[i], bytes, "gradients at a cut"));
    return RUNG_OK;
}

rung_status rungi_pipeline_slot(rungi_pipeline *p, int micro, rungi_stage_slot **slot_out)
{
    int index = micro % p->used;
    int64_t count = rungi_pipeline_micro(p, micro).count;
    rungi_stage_slot *s = &p->slot[index];
    RUNG_TRY(find(p, p->training, p->loss, count, &s->now));
    if (!s->now->instances[index])
        RUNG_TRY(rungi_instance_create(s->now->plan, s->arena, p->e->state->grads, false,
                                       &s->now->instances[index]));
    s->instance = s->now->instances[index];
    if (slot_out)
        *slot_out = s;
    return RUNG_OK;
}

rungi_pipeline_use rungi_pipeline_use_of(const rungi_pipeline *p, bool training, int64_t count,
                                         int rounds)
{
    int most = training ? p->o.micro * rounds : p->o.micro;
    rungi_pipeline_use use = {.active = count < most ? (int)count : most};
    // Evaluation needs one, and another one to go on while values are sent.
    use.slots = training || p->slots == 1 ? p->slots : 2;
    use.slots = use.slots < use.active ? use.slots : use.active;
    return use;
}

rung_status rungi_pipeline_prepare(rungi_pipeline *p, bool training, bool loss, int64_t count)
{
    p->training = training;
    p->loss = loss;
    p->e->whole = count;
    rungi_pipeline_use use = rungi_pipeline_use_of(p, training, count, p->e->options.accumulate);
    p->active = use.active;
    p->used = use.slots;
    for (int i = 0; i < p->used; i++) // the first ones are the largest
        RUNG_TRY(make_slot(p, i, rungi_pipeline_micro(p, 0).count));
    for (int m = 0; m < p->active; m++)
        RUNG_TRY(rungi_pipeline_slot(p, m, NULL));
    return RUNG_OK;
}

rung_status rungi_pipeline_plan(rungi_pipeline *p, bool training, int64_t count,
                                const rung_plan **plan_out)
{
    rungi_stage_slot *slot;
    RUNG_TRY(rungi_pipeline_prepare(p, training, true, count));
    RUNG_TRY(rungi_pipeline_slot(p, 0, &slot));
    *plan_out = slot->now->plan;
    return RUNG_OK;
}

const rung_plan *rungi_pipeline_training_plan(const rungi_pipeline *p)
{
    const rungi_stage_plan *largest = NULL;
    for (size_t i = 0; i < p->entries.count; i++) {
        const rungi_stage_plan *x = p->entries.data[i];
        if (x->training && (!largest || x->count > largest->count))
            largest = x;
    }
    return largest ? largest->plan : NULL;
}

bool rungi_pipeline_work_of(const rungi_pipeline *p, int micro, rungi_engine_work *out)
{
    if (micro >= p->active)
        return false;
    int64_t count = rungi_pipeline_micro(p, micro).count;
    for (size_t i = 0; i < p->entries.count; i++) {
        const rungi_stage_plan *x = p->entries.data[i];
        if (x->training && x->loss && x->count == count) {
            *out = (rungi_engine_work){x->plan, x->instances[micro % p->used], 0, count};
            return true;
        }
    }
    return false;
}

rung_status rungi_pipeline_output(const rungi_pipeline *p, const char *name, rung_view *view_out)
{
    const rung_graph *g = p->e->graph;
    size_t named = g->outputs.count - (size_t)p->o.part->n_out;
    for (size_t i = 0; i < named; i++) {
        if (strcmp(g->outputs.data[i].name, name) != 0)
            continue;
        const rungi_value *v = &g->values.data[g->outputs.data[i].value];
        RUNG_CHECK(p->gathered[i], RUNG_UNSUPPORTED,
                   "output '%s' is not one value a sample: it cannot be put together from "
                   "micro-batches",
                   name);
        int64_t symbols[RUNGI_MAX_SYMBOLS] = {p->e->whole};
        *view_out =
            (rung_view){v->dtype, rungi_shape_resolve(g, &v->shape, symbols), p->gathered[i]};
        return RUNG_OK;
    }
    return RUNG_FAIL(RUNG_NOT_FOUND, "this stage has no output '%s'", name);
}
