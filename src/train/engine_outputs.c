// SPDX-License-Identifier: Apache-2.0
// Outputs of an engine: those of its shards, put together.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "train/pipeline_inside.h"

size_t rungi_sample_bytes(const rung_graph *graph, int value)
{
    const rungi_value *v = &graph->values.data[value];
    size_t bytes = rung_dtype_size(v->dtype);
    for (int d = 1; d < v->shape.rank; d++)
        bytes *= (size_t)v->shape.dim[d];
    return bytes;
}

int rungi_input_of(const rung_graph *graph, const char *name)
{
    for (size_t i = 1; i < graph->values.count; i++)
        if (graph->values.data[i].kind == RUNGI_VALUE_INPUT &&
            strcmp(graph->values.data[i].name, name) == 0)
            return (int)i;
    return 0;
}

int rungi_engine_output_of(const rungi_engine *e, int value)
{
    int i = 0;
    while (e->model->outputs.data[i].value != value)
        i++;
    return i;
}

// Is output i one value a sample, wanted by the plans under way, and not the loss?
static bool per_sample(const rungi_engine *e, size_t i)
{
    int value = e->model->outputs.data[i].value;
    const rung_shape *shape = &e->model->values.data[value].shape;
    return shape->rank > 0 && shape->dim[0] == RUNG_BATCH &&
           e->now[0]->plan->value_tensor[value] >= 0 && rungi_engine_output_of(e, value) == (int)i;
}

bool rungi_engine_gathers(const rungi_engine *e)
{
    return (e->team || e->rounds > 1) &&
           !(e->devices > 1 && e->training && e->options.replicas.parallel_criterion);
}

void rungi_engine_drop_output(rungi_engine *e, size_t i)
{
    if (e->devices > 1)
        rung_device_free(e->replicas[e->options.replicas.output_device].device, e->gathered[i]);
    else
        free(e->gathered[i]);
    e->gathered[i] = NULL;
    e->gathered_bytes[i] = 0;
}

static rung_status reserve(rungi_engine *e, size_t i, size_t bytes)
{
    rungi_engine_drop_output(e, i);
    if (e->devices > 1) {
        rung_device *device = e->replicas[e->options.replicas.output_device].device;
        RUNG_TRY(rung_device_alloc(device, bytes, "gathered outputs", (void **)&e->gathered[i]));
    } else {
        e->gathered[i] = malloc(bytes);
        RUNG_CHECK(e->gathered[i], RUNG_NO_MEMORY, "no memory for output '%s'",
                   e->model->outputs.data[i].name);
    }
    e->gathered_bytes[i] = bytes;
    return RUNG_OK;
}

rung_status rungi_engine_reserve_outputs(rungi_engine *e)
{
    for (size_t i = 0; e->active && i < e->model->outputs.count && rungi_engine_gathers(e); i++) {
        if (!per_sample(e, i))
            continue;
        size_t bytes =
            (size_t)e->count * rungi_sample_bytes(e->model, e->model->outputs.data[i].value);
        if (bytes > e->gathered_bytes[i])
            RUNG_TRY(reserve(e, i, bytes));
    }
    return RUNG_OK;
}

rung_status rungi_engine_gather(rungi_engine *e, int member, int s)
{
    rungi_shard part = rungi_engine_part(e, e->whole, s);
    for (size_t i = 0; i < e->model->outputs.count && rungi_engine_gathers(e); i++) {
        if (!per_sample(e, i))
            continue;
        int value = e->model->outputs.data[i].value;
        size_t size = rungi_sample_bytes(e->model, value);
        RUNG_TRY(rungi_engine_send(
            e, member, e->options.replicas.output_device,
            e->gathered[i] + (size_t)(part.begin - rungi_engine_origin(e)) * size,
            rungi_engine_instance(e, s)->ptr[e->now[s]->plan->value_tensor[value]],
            (uint64_t)part.count * size));
    }
    return RUNG_OK;
}

rung_status rungi_engine_output(rungi_engine *e, const char *name, rung_view *view_out)
{
    rung_view view;
    if (e->pipeline)
        return rungi_pipeline_output(e->pipeline, name, view_out);
    RUNG_CHECK(e->active, RUNG_INVALID, "this rank had no sample of the batch");
    RUNG_CHECK(!e->team || rungi_engine_gathers(e), RUNG_UNSUPPORTED,
               "output '%s' of a training step stays on its devices "
               "(data_parallel.parallel_criterion)",
               name);
    RUNG_TRY(rung_plan_output(e->now[0]->plan, name, &view));
    for (size_t i = 0; rungi_engine_gathers(e) && i < e->model->outputs.count; i++) {
        if (strcmp(e->model->outputs.data[i].name, name) != 0)
            continue;
        int first = rungi_engine_output_of(e, e->model->outputs.data[i].value);
        RUNG_CHECK(per_sample(e, (size_t)first), RUNG_UNSUPPORTED,
                   "output '%s' is not one value a sample: it cannot be put together from shards",
                   name);
        view.data = e->gathered[first];
        view.shape.dim[0] = e->count;
    }
    *view_out = view;
    return RUNG_OK;
}
