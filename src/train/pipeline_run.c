// SPDX-License-Identifier: Apache-2.0
// A batch through a stage: its micro-batches in the order of the schedule.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/error.h"
#include "ops/element.h"
#include "train/pipeline_inside.h"

static int64_t now(const rungi_pipeline *p)
{
    return rungi_now(rung_device_context(p->e->state->device));
}

// ---- inputs -----------------------------------------------------------------------------------

static size_t sample_bytes(const rungi_value *v)
{
    size_t bytes = rung_dtype_size(v->dtype);
    for (int d = 1; d < v->shape.rank; d++)
        bytes *= (size_t)v->shape.dim[d];
    return bytes;
}

// Binds what the stage reads of the batch itself; feeds of other stages are passed over.
static void bind_feeds(const rungi_pipeline *p, const rungi_stage_slot *s, int micro)
{
    const rung_graph *g = p->e->graph;
    const rungi_batch_view *b = p->e->batch;
    for (int f = 0; f < b->n_feeds; f++)
        for (size_t i = 1; i < g->values.count; i++) {
            const rungi_value *v = &g->values.data[i];
            int tensor = s->now->plan->value_tensor[i];
            if (v->kind == RUNGI_VALUE_INPUT && tensor >= 0 &&
                strcmp(v->name, b->feeds[f].input) == 0)
                rungi_instance_bind(s->instance, tensor,
                                    (const char *)b->feeds[f].data +
                                        (size_t)rungi_pipeline_micro(p, micro).begin *
                                            sample_bytes(v));
        }
}

static rung_status check_bound(const rungi_pipeline *p, const rungi_stage_slot *s)
{
    const rung_plan *plan = s->now->plan;
    for (size_t i = 0; i < plan->tensors.count; i++)
        RUNG_CHECK(plan->tensors.data[i].kind != RUNGI_TENSOR_INPUT || s->instance->ptr[i],
                   RUNG_INVALID, "input '%s' is not given to stage %d",
                   plan->graph->values.data[plan->tensors.data[i].value].name, p->stage);
    return RUNG_OK;
}

// Loss divisors over the whole batch: labels are known before forward.
static rung_status count_batch(rungi_pipeline *p)
{
    rungi_engine *e = p->e;
    memset(e->counts, 0, (e->graph->nodes.count + 1) * sizeof *e->counts);
    for (int m = 0; p->loss && e->divided.count && m < p->active; m++) {
        rungi_stage_slot *s;
        RUNG_TRY(rungi_pipeline_slot(p, m, &s));
        bind_feeds(p, s, m);
        rungi_instance_count(s->instance, e->counts);
    }
    return RUNG_OK;
}

// ---- passes -----------------------------------------------------------------------------------

// Runs steps and carries what is on its way on in between.
static rung_status run_steps(rungi_pipeline *p, rungi_instance *instance, bool backward)
{
    static const rungi_category categories[] = {RUNGI_TIME_FORWARD, RUNGI_TIME_BACKWARD};
    rungi_engine *e = p->e;
    const rung_plan *plan = instance->plan;
    int begin = backward ? plan->n_forward : 0;
    int end = backward ? (int)plan->steps.count : plan->n_forward;
    int64_t from = now(p);
    rung_status status = RUNG_OK;
    if (e->options.timeline)
        rungi_timeline_begin(e->options.timeline, RUNGI_QUEUE_COMPUTE,
                             p->training ? categories[backward] : RUNGI_TIME_EVAL,
                             (int64_t)e->batch->step);
    for (int i = begin; i < end && status == RUNG_OK; i++) {
        status = rungi_engine_run_steps(e, 0, instance, i, i + 1);
        if (status == RUNG_OK)
            status = rungi_comm_progress(p->o.comm);
    }
    if (status == RUNG_OK && e->streams[0])
        status = rung_stream_sync(e->streams[0]);
    if (e->options.timeline)
        rungi_timeline_end(e->options.timeline, RUNGI_QUEUE_COMPUTE);
    p->busy += now(p) - from;
    return status;
}

static void read_loss(rungi_pipeline *p, const rungi_stage_slot *s, int micro)
{
    int value = p->e->graph->loss;
    if (!p->loss || !value)
        return;
    float loss = *(float *)s->instance->ptr[s->now->plan->value_tensor[value]];
    p->sum += loss;
    if (!isfinite(loss) && p->bad_micro < 0)
        p->bad_micro = micro;
}

// Copies the values of named outputs to their place among those of the batch.
static rung_status gather(rungi_pipeline *p, const rungi_stage_slot *s, int micro)
{
    const rung_graph *g = p->e->graph;
    size_t named = g->outputs.count - (size_t)p->o.part->n_out;
    for (size_t i = 0; i < named; i++) {
        const rungi_value *v = &g->values.data[g->outputs.data[i].value];
        int tensor = s->now->plan->value_tensor[g->outputs.data[i].value];
        if (v->shape.rank == 0 || v->shape.dim[0] != RUNG_BATCH || tensor < 0)
            continue;
        size_t bytes = (size_t)p->e->whole * sample_bytes(v);
        if (bytes > p->gathered_bytes[i]) {
            char *data = realloc(p->gathered[i], bytes);
            RUNG_CHECK(data, RUNG_NO_MEMORY, "no memory for output '%s'", g->outputs.data[i].name);
            p->gathered[i] = data;
            p->gathered_bytes[i] = bytes;
        }
        rungi_shard part = rungi_pipeline_micro(p, micro);
        // What crosses the cut as well may be of 16 bits.
        rung_convert(v->dtype, p->gathered[i] + (size_t)part.begin * sample_bytes(v),
                     s->now->plan->tensors.data[tensor].operand.dtype, s->instance->ptr[tensor],
                     part.count * (int64_t)(sample_bytes(v) / rung_dtype_size(v->dtype)), NULL);
    }
    return RUNG_OK;
}

static rung_status begin_forward(rungi_pipeline *p, int micro, rungi_stage_slot **slot_out)
{
    const rungi_engine *e = p->e;
    rungi_stage_slot *s;
    // The arena is taken: nothing in it may still be on its way.
    RUNG_TRY(rungi_pipeline_finish_sends(p, micro % p->used, false));
    RUNG_TRY(rungi_pipeline_finish_sends(p, micro % p->used, true));
    RUNG_TRY(rungi_pipeline_slot(p, micro, &s));
    RUNG_TRY(rungi_pipeline_take_inputs(p, micro));
    bind_feeds(p, s, micro);
    RUNG_TRY(check_bound(p, s));
    rungi_runtime *rt = &s->instance->rt;
    rt->seed = e->batch->seed;
    rt->step = e->batch->step;
    rt->sample_offset = rungi_pipeline_micro(p, micro).begin;
    rt->normalizer = p->loss ? e->counts : NULL;
    rungi_instance_set_loss_scale(s->instance,
                                  e->batch->loss_scale > 0 ? (float)e->batch->loss_scale : 1);
    *slot_out = s;
    return RUNG_OK;
}

static rung_status forward(rungi_pipeline *p, int micro)
{
    rungi_stage_slot *s;
    RUNG_TRY(begin_forward(p, micro, &s));
    RUNG_TRY(run_steps(p, s->instance, false));
    if (p->training)
        RUNG_TRY(rungi_pipeline_keep_statistics(p, micro));
    RUNG_TRY(rungi_pipeline_send_outputs(p, micro));
    read_loss(p, s, micro);
    p->forwards++;
    return gather(p, s, micro);
}

// Gradients are added in the order of the micro-batches.
static void add_gradients(rungi_pipeline *p)
{
    float *sum = p->e->state->grads;
    const float *more = p->scratch;
    int64_t count = p->e->state->flat_size;
    int team = p->e->threads;
    (void)team;
#pragma omp parallel for schedule(static) num_threads(team) if (count > 1 << 16)
    for (int64_t i = 0; i < count; i++)
        sum[i] += more[i];
}

static rung_status backward(rungi_pipeline *p, int micro)
{
    rungi_stage_slot *s = &p->slot[micro % p->used];
    RUNG_TRY(rungi_pipeline_take_seeds(p, micro));
    if (s->now->plan->options.gradients) {
        float *grads = micro == 0 || !p->scratch ? p->e->state->grads : p->scratch;
        if (s->instance->grads != grads) { // pointers are set anew
            s->instance->grads = grads;
            s->instance->arena_generation = -1;
        }
        RUNG_TRY(run_steps(p, s->instance, true));
        RUNG_TRY(rungi_pipeline_send_gradients(p, micro));
        int64_t from = now(p);
        if (grads == p->scratch && grads)
            add_gradients(p);
        p->busy += now(p) - from;
    }
    p->backwards++;
    return RUNG_OK;
}

static rung_status run_schedule(rungi_pipeline *p)
{
    const rungi_pipeline_action *a = p->actions;
    rungi_pipeline_actions(p->training ? p->o.schedule : RUNGI_PIPELINE_GPIPE, p->stage, p->stages,
                           p->o.micro, p->active, p->actions);
    int count = p->training ? 2 * p->active : p->active; // forward passes come first
    for (int i = 0; i < count; i++) {
        RUNG_TRY(rungi_pipeline_prefetch(p));
        RUNG_TRY(a[i].backward ? backward(p, a[i].micro) : forward(p, a[i].micro));
    }
    if (p->training)
        RUNG_TRY(rungi_pipeline_finish_statistics(p));
    RUNG_TRY(rungi_pipeline_finish_sends(p, -1, false));
    return rungi_pipeline_finish_sends(p, -1, true);
}

// ---- what the stages tell each other ----------------------------------------------------------

// The numbers of each stage, in parts that rungi_comm_all_gather makes whole.
enum { LOSS, BAD_MICRO, BUSY, WALL, STOP, FAULT, NUMBERS = 16 };

static rung_status share(rungi_pipeline *p, double (*all)[NUMBERS], const char *what)
{
    rungi_timeline *t = p->e->options.timeline;
    if (t)
        rungi_timeline_begin(t, RUNGI_QUEUE_EXCHANGE, RUNGI_TIME_EXCHANGE,
                             (int64_t)p->e->batch->step);
    rung_status status =
        rungi_comm_all_gather(p->o.comm, all, (int64_t)p->stages * NUMBERS, RUNG_F64, what);
    if (t)
        rungi_timeline_end(t, RUNGI_QUEUE_EXCHANGE);
    return status;
}

static void add_times(rungi_pipeline *p, const double (*all)[NUMBERS])
{
    double wall = 0;
    p->times.steps++;
    p->times.stages = p->stages;
    p->times.micro = p->total;
    p->times.most = p->o.micro;
    for (int r = 0; r < p->stages; r++) {
        p->times.busy[r] += all[r][BUSY];
        wall = fmax(wall, all[r][WALL]);
    }
    p->times.wall += wall;
}

static rung_status share_end(rungi_pipeline *p, int64_t took, double *loss)
{
    rungi_engine *e = p->e;
    double all[RUNGI_PIPELINE_STAGES][NUMBERS] = {{0}}, sum = 0;
    double *own = all[p->stage];
    own[LOSS] = p->sum;
    own[BAD_MICRO] = p->bad_micro;
    own[BUSY] = (double)p->busy * 1e-9;
    own[WALL] = (double)took * 1e-9;
    own[STOP] = e->batch->stop;
    RUNG_TRY(share(p, all, "losses"));
    e->stop = false;
    for (int r = 0; r < p->stages; r++) {
        sum += all[r][LOSS]; // of one of them
        p->bad_micro = all[r][BAD_MICRO] >= 0 ? (int)all[r][BAD_MICRO] : p->bad_micro;
        e->stop |= all[r][STOP] > 0;
    }
    if (p->training)
        add_times(p, all);
    *loss = sum;
    return RUNG_OK;
}

static bool all_finite(const rungi_operand *o, const void *data)
{
    int64_t count = rung_dtype_is_float(o->dtype) ? rungi_operand_count(o) : 0;
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(rungi_get(o->dtype, data, i)))
            return false;
    return true;
}

// Does something that is not finite begin or pass on here?
static bool at_fault(const rungi_pipeline *p, const rungi_stage_slot *s)
{
    const rungi_part *part = p->o.part;
    for (int i = 0; i < part->n_out; i++) {
        int tensor = s->now->plan->value_tensor[part->out[i].part];
        if (!all_finite(&s->now->plan->tensors.data[tensor].operand, s->instance->ptr[tensor]))
            return true;
    }
    return p->e->graph->loss != 0;
}

// The loss is not finite: the micro-batch at fault goes forward once more, to find the first stage
// that gives what is not finite. What it has then is kept for rungi_engine_shard.
static rung_status find_fault(rungi_pipeline *p)
{
    double all[RUNGI_PIPELINE_STAGES][NUMBERS] = {{0}};
    int micro = p->bad_micro < 0 ? 0 : p->bad_micro;
    rungi_stage_slot *s;
    for (int i = 0; i < RUNGI_PIPELINE_MICRO; i++)
        p->slot[i].received_for = -1;
    RUNG_TRY(begin_forward(p, micro, &s));
    RUNG_TRY(run_steps(p, s->instance, false));
    RUNG_TRY(rungi_pipeline_send_outputs(p, micro));
    RUNG_TRY(rungi_pipeline_finish_sends(p, -1, false));
    all[p->stage][FAULT] = at_fault(p, s);
    RUNG_TRY(share(p, all, "which stage is at fault"));
    p->e->bad_rank = p->stages - 1;
    for (int r = p->stages - 1; r >= 0; r--)
        if (all[r][FAULT] > 0)
            p->e->bad_rank = r;
    p->bad_slot = micro % p->used;
    return RUNG_OK;
}

rung_status rungi_pipeline_run(rungi_pipeline *p, bool loss, double *loss_out)
{
    rungi_engine *e = p->e;
    RUNG_CHECK(e->batch->count == e->whole, RUNG_INVALID,
               "a pipeline's stages take whole batches, not %" PRId64 " of %" PRId64,
               e->batch->count, e->whole);
    RUNG_TRY(rungi_pipeline_prepare(p, e->training, loss, e->whole));
    for (int i = 0; i < RUNGI_PIPELINE_MICRO; i++)
        p->slot[i].received_for = -1;
    for (int i = 0; i < RUNGI_STAGE_SEEDS; i++)
        p->seeded_for[i] = -1;
    p->forwards = p->backwards = 0;
    p->sum = 0;
    p->busy = 0;
    p->bad_micro = -1;
    e->bad_rank = -1;
    int64_t from = now(p);
    RUNG_TRY(count_batch(p));
    RUNG_TRY(run_schedule(p));
    RUNG_TRY(share_end(p, now(p) - from, loss_out));
    return p->training && !isfinite(*loss_out) ? find_fault(p) : RUNG_OK;
}
