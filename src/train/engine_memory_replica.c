// SPDX-License-Identifier: Apache-2.0
// What one of several devices that share a batch holds for the others' sake.
#include <stdlib.h>

#include "base/error.h"
#include "train/engine_memory_inside.h"

// Values of a batch that go from one device to another: see engine_criterion_run.c.
static rung_status note_criterion(rungi_survey *v, const rungi_cut *c, bool training, int64_t count,
                                  uint64_t *seeds, uint64_t *targets)
{
    const rungi_engine *e = v->e;
    const rungi_criterion *k = e->criterion;
    int output = e->options.replicas.output_device;
    bool copies = e->options.replicas.copies;
    uint64_t bytes = 0;
    for (int i = 0; i < k->loss.n_in; i++)
        if (training && copies && v->device != output && k->loss.in[i].gradient)
            bytes += (uint64_t)rungi_cut_samples(v, c, count) *
                     rungi_sample_bytes(k->loss.graph, k->loss.in[i].part);
    rungi_need(seeds, bytes);
    bytes = 0;
    for (size_t i = 1; i < e->graph->values.count; i++) {
        const rungi_value *x = &e->graph->values.data[i];
        int value = x->kind == RUNGI_VALUE_INPUT ? rungi_input_of(k->loss.graph, x->name) : 0;
        if (value && copies && output && v->device == output)
            bytes += (uint64_t)count * rungi_sample_bytes(k->loss.graph, value);
    }
    rungi_need(targets, bytes);
    return RUNG_OK;
}

// The arenas in which the output device computes losses.
static rung_status note_losses(rungi_survey *v, const rungi_cut *c, bool training, int64_t count,
                               uint64_t *arenas)
{
    const rungi_engine *e = v->e;
    const rungi_criterion *k = e->criterion;
    bool by_shard = e->options.exact || c->rounds > 1;
    int pieces = by_shard ? c->shards : 1;
    for (int i = 0; i < pieces; i++) {
        int64_t samples = by_shard ? rungi_cut_part(e, c, count, i).count : count;
        rung_compile_options o = rungi_survey_options(v, training, false, samples);
        rung_plan *plan;
        if (!samples)
            continue;
        o.gradients = training && rungi_criterion_gradients(k);
        o.recompute = RUNG_RECOMPUTE_NONE;
        o.budget = 0;
        RUNG_TRY(rung_compile(k->loss.graph, k->state, &o, &plan));
        rungi_need(&arenas[i % e->slots], rung_plan_memory_use(plan).arena);
        if (i == 0) // the plan's own instance
            rungi_need(&arenas[0], rung_plan_memory_use(plan).arena);
        rung_plan_destroy(&plan);
    }
    return RUNG_OK;
}

// Outputs of all shards, put together on the output device.
static uint64_t gathered(const rungi_survey *v, bool training, int64_t count)
{
    const rungi_engine *e = v->e;
    uint64_t sum = 0;
    if (v->device != e->options.replicas.output_device ||
        (training && e->options.replicas.parallel_criterion))
        return 0;
    for (size_t i = 0; i < e->model->outputs.count; i++) {
        int value = e->model->outputs.data[i].value;
        const rung_shape *shape = &e->model->values.data[value].shape;
        if (shape->rank > 0 && shape->dim[0] == RUNG_BATCH &&
            rungi_engine_output_of(e, value) == (int)i)
            sum += (uint64_t)count * rungi_sample_bytes(e->model, value);
    }
    return sum;
}

// Inputs that a device gets its part of.
static uint64_t inputs(const rungi_survey *v, const rungi_cut *c, int64_t count)
{
    const rungi_engine *e = v->e;
    uint64_t sum = 0;
    for (size_t i = 1; i < e->model->values.count; i++) {
        const rungi_value *x = &e->model->values.data[i];
        if (x->kind == RUNGI_VALUE_INPUT && rungi_input_of(e->graph, x->name))
            sum += (uint64_t)rungi_cut_samples(v, c, count) * rungi_sample_bytes(e->model, (int)i);
    }
    return v->device && e->options.replicas.copies ? sum : 0;
}

rung_status rungi_survey_replica(rungi_survey *v)
{
    const rungi_engine *e = v->e;
    uint64_t seeds = 0, targets = 0, outputs = 0, parts = 0, *losses;
    rung_status status = RUNG_OK;
    if (e->devices == 1)
        return RUNG_OK;
    losses = calloc(RUNGI_MAX_SHARDS, sizeof *losses);
    RUNG_CHECK(losses, RUNG_NO_MEMORY, "no memory to look at plans");
    for (int i = 0; i < 2 * RUNGI_LOAD_BATCHES && status == RUNG_OK; i++) {
        bool training = i < RUNGI_LOAD_BATCHES;
        int64_t count = training ? v->load->trained[i] : v->load->evaluated[i - RUNGI_LOAD_BATCHES];
        rungi_cut c = rungi_cut_of(v, training);
        if (!count)
            continue;
        rungi_need(&outputs, gathered(v, training, count));
        rungi_need(&parts, inputs(v, &c, count));
        if (e->criterion)
            status = note_criterion(v, &c, training, count, &seeds, &targets);
        if (status == RUNG_OK && e->criterion && v->device == e->options.replicas.output_device)
            status = note_losses(v, &c, training, count, losses);
    }
    v->bytes->communication += seeds + targets + outputs + parts;
    for (int s = 0; s < RUNGI_MAX_SHARDS; s++) {
        v->bytes->activations += losses[s];
        if (v->device == 0 && e->staged[s])
            v->bytes->communication += (uint64_t)e->state->flat_size * sizeof(float);
    }
    free(losses);
    return status;
}
