// SPDX-License-Identifier: Apache-2.0
// After a loss that is not finite: which tensor was the first to be so.
#include <inttypes.h>
#include <math.h>

#include "base/error.h"
#include "train/trainer.h"

// Index of the first element that is not finite, or -1.
static int64_t first_bad(const float *data, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(data[i]))
            return i;
    return -1;
}

static bool name_bad_state(const rung_trainer *t, rungi_string *out)
{
    for (int i = 0; i < rung_state_count(t->s->state); i++) {
        rung_state_entry e = rung_state_at(t->s->state, i);
        int64_t count, bad = -1;
        if (e.dtype == RUNG_F32 && rung_shape_count(&e.shape, &count) == RUNG_OK)
            bad = first_bad(e.data, count);
        if (bad >= 0) {
            rungi_string_add(
                out, "%s is %g at element %" PRId64 ", made so by the update of step %" PRId64,
                e.name, (double)((float *)e.data)[bad], bad, t->at.step);
            return true;
        }
    }
    return false;
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

// The first output of a layer that is not finite, found by running forward again step by step.
static void name_bad_layer(const rung_trainer *t, const rung_batch *batch, rungi_string *out)
{
    const rung_plan *plan;
    if (rungi_engine_plan(t->s->engine, true, batch->count, &plan) != RUNG_OK)
        return;
    for (int i = 0; i < plan->n_forward; i++) {
        const rungi_query *q = &plan->steps.data[i].q;
        if (rungi_instance_run(plan->instance, i, i + 1) != RUNG_OK)
            return;
        for (int k = 0; k < q->op->n_out; k++) {
            if (q->out[k].buffer < 0 || q->out[k].dtype != RUNG_F32)
                continue;
            const float *data = plan->instance->ptr[q->out[k].buffer];
            int64_t bad = first_bad(data, rungi_operand_count(&q->out[k]));
            if (bad < 0)
                continue;
            rungi_string_add(out, "the first tensor at fault is the output of %s (%g)",
                             t->s->graph->nodes.data[q->node].name, (double)data[bad]);
            return;
        }
    }
}

rung_status rungi_trainer_diverged(rung_trainer *t, const rung_batch *batch, double loss)
{
    rungi_string why = {0}, samples = {0};
    if (!name_bad_state(t, &why) && !name_bad_input(t, batch, &why))
        name_bad_layer(t, batch, &why);
    for (int64_t i = 0; i < batch->count && i < 8; i++)
        rungi_string_add(&samples, "%s%" PRId64, i ? ", " : "", batch->samples[i]);
    rung_status status =
        RUNG_FAIL(RUNG_DIVERGED,
                  "step %" PRId64 ": the loss is %g (last finite loss %.6g); %s; samples %s%s; "
                  "checkpoints are as they were. Try a smaller optim.lr or train.max_grad_norm",
                  t->at.step + 1, loss, t->last_loss, rungi_string_text(&why),
                  rungi_string_text(&samples), batch->count > 8 ? ", ..." : "");
    rungi_string_fini(&why);
    rungi_string_fini(&samples);
    return status;
}
