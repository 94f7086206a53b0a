// SPDX-License-Identifier: Apache-2.0
// After a loss that is not finite: which tensor was the first to be so.
#include <inttypes.h>
#include <math.h>

#include "base/error.h"
#include "ops/element.h"
#include "train/trainer.h"

// Without the sign that NaN may have.
static const char *value_text(double value)
{
    return isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
}

// Index of the first element that is not finite, or -1.
static int64_t first_bad(const float *data, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(data[i]))
            return i;
    return -1;
}

static int64_t first_bad_of(rung_dtype dtype, const void *data, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(rungi_get(dtype, data, i)))
            return i;
    return -1;
}

// Parameters, or the buffers: index of the first with a value that is not finite, or -1.
static int bad_entry(const rung_trainer *t, bool buffers, int64_t *element_out)
{
    for (int i = 0; i < rung_state_count(t->s->state); i++) {
        rung_state_entry e = rung_state_at(t->s->state, i);
        int64_t count;
        if (e.buffer != buffers || e.dtype != RUNG_F32 ||
            rung_shape_count(&e.shape, &count) != RUNG_OK)
            continue;
        *element_out = first_bad(e.data, count);
        if (*element_out >= 0)
            return i;
    }
    return -1;
}

static bool name_bad_state(const rung_trainer *t, bool buffers, rungi_string *out)
{
    int64_t element;
    int i = bad_entry(t, buffers, &element);
    if (i < 0)
        return false;
    rung_state_entry e = rung_state_at(t->s->state, i);
    rungi_string_add(out, "%s is %s at element %" PRId64, e.name,
                     value_text(((float *)e.data)[element]), element);
    if (!buffers && t->at.step > 0)
        rungi_string_add(out, ", made so by the update of step %" PRId64, t->at.step);
    return true;
}

rung_status rungi_trainer_check_finite(const rung_trainer *t)
{
    if (t->s->stages)
        return rungi_trainer_check_stages(t);
    rungi_string what = {0};
    bool bad = name_bad_state(t, false, &what) || name_bad_state(t, true, &what);
    for (int k = 0; !bad && k < rung_optimizer_state_count(t->s->optimizer); k++)
        for (int64_t i = 0; !bad && i < t->s->n_segments; i++) {
            const rung_segment *g = &t->s->segments[i];
            const float *data = rungi_session_optimizer_state(t->s, k) + g->begin;
            int64_t element = first_bad(data, g->end - g->begin);
            bad = element >= 0;
            if (bad)
                rungi_string_add(&what, "%s of %s is %s at element %" PRId64,
                                 rung_optimizer_state_name(t->s->optimizer, k), g->name,
                                 value_text(data[element]), element);
        }
    rung_status status = RUNG_OK;
    if (bad)
        status = RUNG_FAIL(RUNG_DIVERGED,
                           "step %" PRId64 ": %s: no checkpoint is written, the last good one is "
                           "kept",
                           t->at.step, rungi_string_text(&what));
    rungi_string_fini(&what);
    return status;
}

static bool name_bad_input(const rung_trainer *t, const rung_batch *batch, rungi_string *out)
{
    for (int f = 0; f < batch->field_count; f++) {
        int64_t count, bad = -1;
        if (batch->fields[f].dtype == RUNG_F32 &&
            rung_shape_count(&batch->fields[f].shape, &count) == RUNG_OK)
            bad = first_bad(batch->fields[f].data, count);
        if (bad >= 0) {
            char name[512] = "";
            int64_t sample = batch->samples[bad / (count / batch->count)];
            if (t->s->train_source->describe)
                t->s->train_source->describe(t->s->train_source->self, sample, name, sizeof name);
            rungi_string_add(out, "the input is not finite in sample %" PRId64 " %s", sample, name);
            return true;
        }
    }
    return false;
}

static bool name_bad_output(const rung_plan *plan, const rungi_instance *instance, int step,
                            rungi_string *out)
{
    const rungi_query *q = &plan->steps.data[step].q;
    for (int k = 0; k < q->op->n_out; k++) {
        rung_dtype dtype = q->out[k].dtype;
        if (q->out[k].buffer < 0 || !rung_dtype_is_float(dtype))
            continue;
        const void *data = instance->ptr[q->out[k].buffer];
        int64_t bad = first_bad_of(dtype, data, rungi_operand_count(&q->out[k]));
        if (bad < 0)
            continue;
        rungi_string_add(out, "the first tensor at fault is the output of %s (%s%s%s)",
                         plan->graph->nodes.data[q->node].name,
                         value_text(rungi_get(dtype, data, bad)), dtype == RUNG_F32 ? "" : " in ",
                         dtype == RUNG_F32 ? "" : rung_dtype_name(dtype));
        return true;
    }
    return false;
}

// The first output of a layer that is not finite, found by running forward again step by step,
// shard by shard.
static bool name_bad_layer(const rung_trainer *t, rungi_string *out)
{
    const rung_plan *plan;
    rungi_instance *instance;
    for (int s = 0; rungi_engine_shard(t->s->engine, s, &plan, &instance); s++)
        for (int i = 0; i < plan->n_forward; i++) {
            if (rungi_instance_run(instance, i, i + 1) != RUNG_OK)
                return false;
            if (!name_bad_output(plan, instance, i, out))
                continue;
            if (rungi_engine_devices(t->s->engine) > 1)
                rungi_string_add(out, " on %s", rung_device_name(plan->device));
            return true;
        }
    return false;
}

rung_status rungi_trainer_diverged(rung_trainer *t, const rung_batch *batch, double loss,
                                   const char *gradient)
{
    rungi_string why = {0}, samples = {0};
    if (gradient)
        rungi_string_add(&why, "%s; the loss is %.6g", gradient, loss);
    else
        rungi_string_add(&why, "the loss is %s (last finite loss %.6g); ", value_text(loss),
                         t->last_loss);
    if (!gradient && !name_bad_state(t, false, &why) && !name_bad_input(t, batch, &why) &&
        !name_bad_layer(t, &why))
        name_bad_state(t, true, &why);
    for (int64_t i = 0; i < batch->count && i < 8; i++)
        rungi_string_add(&samples, "%s%" PRId64, i ? ", " : "", batch->samples[i]);
    rung_status status =
        RUNG_FAIL(RUNG_DIVERGED,
                  "step %" PRId64 ": %s; samples %s%s; checkpoints are as they were: try a smaller "
                  "optim.lr, or train.max_grad_norm",
                  t->at.step + 1, rungi_string_text(&why), rungi_string_text(&samples),
                  batch->count > 8 ? ", ..." : "");
    rungi_string_fini(&why);
    rungi_string_fini(&samples);
    return status;
}
