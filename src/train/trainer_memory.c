// SPDX-License-Identifier: Apache-2.0
// The memory of a step: memory.json and memory.svg of a run folder.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file_io.h"
#include "base/fs.h"
#include "base/json.h"
#include "formats/svg_chart.h"
#include "graph/history.h"
#include "measure/resident.h"
#include "train/session_stages.h"
#include "train/trainer.h"

// What is held during the whole step.
enum { WEIGHTS, GRADIENTS, OPTIMIZER, FIXED };

static const char *const fixed_names[] = {"weights and buffers", "gradients", "optimizer"};

typedef struct history {
    const rung_trainer *t;
    const rung_plan *plan;
    uint64_t workers; // shards that run at once, each in an arena of its own
    uint64_t fixed[FIXED];
    uint64_t (*live)[RUNGI_MEMORY_KINDS]; // by step of the plan
    int peak;
    uint64_t peak_bytes;
} history;

static uint64_t total_at(const history *h, int step)
{
    uint64_t sum = 0;
    for (int k = 0; k < FIXED; k++)
        sum += h->fixed[k];
    for (int k = 0; k < RUNGI_MEMORY_KINDS; k++)
        sum += h->workers * h->live[step][k];
    return sum;
}

static rung_status collect(history *h)
{
    rungi_session *s = h->t->s;
    rung_plan_memory m = rung_plan_memory_use(h->plan);
    h->workers = (uint64_t)rungi_engine_width(s->engine);
    h->fixed[WEIGHTS] = m.params + m.buffers;
    h->fixed[GRADIENTS] = m.grads * (uint64_t)rungi_engine_gradient_buffers(s->engine);
    if (s->stages && s->stages->total > 1)
        h->fixed[GRADIENTS] *= 2; // those of a micro-batch, to be added
    for (int i = 0; i < RUNG_OPTIMIZER_STATES; i++)
        h->fixed[OPTIMIZER] += s->optimizer_state[i] ? m.params : 0;
    h->live = calloc(h->plan->steps.count + 1, sizeof *h->live);
    RUNG_CHECK(h->live, RUNG_NO_MEMORY, "no memory for memory.json");
    rungi_plan_live(h->plan, h->live);
    for (int i = 0; i < (int)h->plan->steps.count; i++)
        if (total_at(h, i) > h->peak_bytes) {
            h->peak = i;
            h->peak_bytes = total_at(h, i);
        }
    return RUNG_OK;
}

// "layer1.0.conv1 conv2d.backward_data"
static void name_step(const history *h, int index, char *out, size_t size)
{
    const rungi_step *step = &h->plan->steps.data[index];
    snprintf(out, size, "%s %s.%s%s", h->plan->graph->nodes.data[step->q.node].name,
             step->q.op->name, rungi_query_pass(&step->q)->name, step->again ? " again" : "");
}

// ---- memory.json ------------------------------------------------------------------------------

static json_t *bytes(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *step_json(const history *h, int index)
{
    char name[160];
    json_t *o = json_object();
    name_step(h, index, name, sizeof name);
    json_object_set_new(o, "step", json_integer(index));
    json_object_set_new(o, "operator", rungi_json_string(name));
    json_object_set_new(o, "phase",
                        json_string(index < h->plan->n_forward ? "forward" : "backward"));
    for (int k = 0; k < RUNGI_MEMORY_KINDS; k++)
        json_object_set_new(o, rungi_memory_kind_name((rungi_memory_kind)k),
                            bytes(h->workers * h->live[index][k]));
    json_object_set_new(o, "total", bytes(total_at(h, index)));
    return o;
}

static json_t *peak_json(const history *h)
{
    enum { MOST = 20 };
    rungi_held held[MOST];
    json_t *o = step_json(h, h->peak), *list = json_array();
    int n = h->plan->steps.count ? rungi_plan_largest(h->plan, h->peak, held, MOST) : 0;
    for (int i = 0; i < n; i++) {
        char shape[RUNG_SHAPE_TEXT];
        json_t *tensor = json_object();
        json_object_set_new(tensor, "layer", rungi_json_string(held[i].layer));
        json_object_set_new(tensor, "operator", json_string(held[i].op));
        json_object_set_new(tensor, "kind", json_string(rungi_memory_kind_name(held[i].kind)));
        json_object_set_new(tensor, "bytes", bytes(held[i].bytes));
        json_object_set_new(tensor, "shape",
                            json_string(rung_shape_text(&held[i].shape, shape, sizeof shape)));
        json_object_set_new(tensor, "dtype", json_string(rung_dtype_name(held[i].dtype)));
        json_array_append_new(list, tensor);
    }
    json_object_set_new(o, "largest", list);
    return o;
}

static json_t *device_json(const rung_device *device)
{
    rung_memory_stats m = rung_device_memory(device);
    json_t *o = json_object();
    json_object_set_new(o, "name", json_string(rung_device_name(device)));
    json_object_set_new(o, "live", bytes(m.live));
    json_object_set_new(o, "peak_live", bytes(m.peak_live));
    json_object_set_new(o, "reserved", bytes(m.reserved));
    json_object_set_new(o, "peak_reserved", bytes(m.peak_reserved));
    json_object_set_new(o, "cap", bytes(m.cap));
    json_object_set_new(o, "allocations", bytes(m.allocations));
    return o;
}

// Of data_parallel: what each device holds, and of what; and how its time was spent.
static json_t *devices_json(const rungi_session *s)
{
    json_t *list = json_array();
    int64_t spent = rungi_engine_spent(s->engine);
    for (int d = 0; d < rungi_engine_devices(s->engine); d++) {
        rungi_replica_use use = rungi_engine_use(s->engine, d);
        json_t *o = device_json(use.device);
        char *text = NULL;
        json_object_set_new(o, "samples", json_integer(use.samples));
        json_object_set_new(o, "busy_share",
                            rungi_json_real(spent ? (double)use.busy / (double)spent : 0));
        json_object_set_new(o, "copy_share",
                            rungi_json_real(spent ? (double)use.copying / (double)spent : 0));
        if (rung_device_memory_text(use.device, &text) == RUNG_OK)
            json_object_set_new(o, "holds", rungi_json_string(text));
        free(text);
        json_array_append_new(list, o);
    }
    return list;
}

static rung_status write_json(const history *h)
{
    rung_plan_memory m = rung_plan_memory_use(h->plan);
    json_t *o = json_object(), *steps = json_array(), *fixed = json_object();
    json_object_set_new(o, "unit", json_string("bytes"));
    json_object_set_new(o, "model", json_string(h->t->s->c->model.name));
    json_object_set_new(o, "batch", json_integer(h->plan->options.batch));
    json_object_set_new(o, "accumulate", json_integer(rungi_engine_rounds(h->t->s->engine)));
    json_object_set_new(o, "shards_at_once", bytes(h->workers));
    for (int k = 0; k < FIXED; k++)
        json_object_set_new(fixed, fixed_names[k], bytes(h->fixed[k]));
    json_object_set_new(o, "held", fixed);
    json_object_set_new(o, "arena", bytes(m.arena));
    json_object_set_new(o, "largest_live_set", bytes(m.lower_bound));
    if (h->plan->steps.count)
        json_object_set_new(o, "peak", peak_json(h));
    for (int i = 0; i < (int)h->plan->steps.count; i++)
        json_array_append_new(steps, step_json(h, i));
    json_object_set_new(o, "device", device_json(h->t->s->device));
    if (rungi_engine_devices(h->t->s->engine) > 1)
        json_object_set_new(o, "devices", devices_json(h->t->s));
    json_object_set_new(o, "peak_resident", bytes(rungi_peak_resident()));
    json_object_set_new(o, "steps", steps);
    char *path = rungi_path_join(h->t->run, "memory.json");
    rung_status status =
        path ? rungi_json_save(path, o) : RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a path");
    free(path);
    json_decref(o);
    return status;
}

// ---- memory.svg -------------------------------------------------------------------------------

enum { LAYERS = FIXED + RUNGI_MEMORY_KINDS };

// `values` has room for LAYERS times the steps and the optimizer's.
static rung_status draw(const history *h, double *values, rungi_string *svg)
{
    size_t n = h->plan->steps.count, all = n + 1;
    double unit = h->peak_bytes < 10 << 20 ? 1024 : 1 << 20;
    char title[160], peak[256], name[160], size[32];
    rungi_svg_layer layers[LAYERS];
    for (size_t k = 0; k < LAYERS; k++) {
        bool fixed = k < FIXED;
        layers[k] = (rungi_svg_layer){
            .name = fixed ? fixed_names[k] : rungi_memory_kind_name((rungi_memory_kind)(k - FIXED)),
            .y = values + k * all};
        for (size_t i = 0; i < all; i++)
            values[k * all + i] =
                fixed ? (double)h->fixed[k] / unit
                      : (i < n ? (double)(h->workers * h->live[i][k - FIXED]) / unit : 0);
    }
    const rungi_svg_part parts[] = {
        {"forward", 0}, {"backward", (size_t)h->plan->n_forward}, {"optimizer", n}};
    name_step(h, h->peak, name, sizeof name);
    snprintf(title, sizeof title, "Memory of a training step: %s, batch %lld",
             h->t->s->c->model.name, (long long)rungi_session_micro_batch(h->t->s));
    snprintf(peak, sizeof peak, "peak %s: %s", rungi_text_bytes(h->peak_bytes, size, sizeof size),
             name);
    return rungi_svg_stack_chart(&(rungi_svg_stack){.title = title,
                                                    .y_label = unit == 1024
                                                                   ? "KiB, by operators of a step"
                                                                   : "MiB, by operators of a step",
                                                    .peak_label = peak,
                                                    .layers = layers,
                                                    .count = LAYERS,
                                                    .points = all,
                                                    .parts = parts,
                                                    .n_parts = 3},
                                 svg);
}

static rung_status write_svg(const history *h)
{
    rungi_string svg = {0};
    double *values = calloc(LAYERS * (h->plan->steps.count + 1), sizeof *values);
    char *path = rungi_path_join(h->t->run, "memory.svg");
    rung_status status = values && path ? draw(h, values, &svg)
                                        : RUNG_FAIL(RUNG_NO_MEMORY, "no memory for memory.svg");
    if (status == RUNG_OK)
        status = rungi_fs_write(path, svg.data, svg.size);
    rungi_string_fini(&svg);
    free(values);
    free(path);
    return status;
}

rung_status rungi_trainer_memory_write(const rung_trainer *t)
{
    history h = {.t = t, .plan = rungi_engine_training_plan(t->s->engine)};
    if (!h.plan || !h.plan->steps.count)
        return RUNG_OK;
    rung_status status = collect(&h);
    if (status == RUNG_OK)
        status = write_json(&h);
    if (status == RUNG_OK)
        status = write_svg(&h);
    free(h.live);
    return status;
}
