// SPDX-License-Identifier: Apache-2.0
#include "rung/roofline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "formats/svg_chart.h"
#include "measure/ceilings.h"
#include "train/session.h"

enum { STEPS = 15, WARMUP = 2 };

typedef struct profile {
    rungi_session *s;
    rung_batch batch;
    const rung_roofline_options *o;
    const rung_plan *plan;
    rungi_instance *instance;
    int steps;
    int64_t count;  // rows: the plan's steps and the optimizer
    int64_t *ns;    // [steps][count]
    int64_t *whole; // [steps]
    rung_roofline result;
} profile;

// A step as training takes it, the optimizer timed apart.
static rung_status one_step(profile *p, int64_t step, int64_t *optimizer_ns, int64_t *whole_ns)
{
    rungi_session *s = p->s;
    rung_optimizer_update update = rungi_session_update(s, step);
    double loss;
    int64_t begin = rungi_now(s->context);
    RUNG_TRY(rungi_session_gradients(s, &p->batch, step, &update, &loss));
    int64_t middle = rungi_now(s->context);
    RUNG_TRY(rung_optimizer_step(s->optimizer, s->state->params, s->state->grads, &update, NULL));
    int64_t end = rungi_now(s->context);
    *optimizer_ns = end - middle;
    *whole_ns = end - begin;
    return RUNG_OK;
}

static rung_status measure_steps(profile *p)
{
    int64_t optimizer, whole;
    for (int i = 0; i < WARMUP; i++)
        RUNG_TRY(one_step(p, i, &optimizer, &whole));
    RUNG_CHECK(rungi_engine_devices(p->s->engine) == 1, RUNG_UNSUPPORTED,
               "a roofline is of one device: give train.strategy=single");
    RUNG_CHECK(rungi_engine_shard(p->s->engine, 0, &p->plan, &p->instance), RUNG_UNSUPPORTED,
               "nothing was run");
    int64_t steps = (int64_t)p->plan->steps.count;
    p->count = steps + 1;
    p->ns = calloc((size_t)(p->count * p->steps), sizeof *p->ns);
    p->whole = calloc((size_t)p->steps, sizeof *p->whole);
    p->instance->step_ns = calloc((size_t)p->count, sizeof *p->instance->step_ns);
    RUNG_CHECK(p->ns && p->whole && p->instance->step_ns, RUNG_NO_MEMORY,
               "no memory for a roofline");
    for (int i = 0; i < p->steps; i++) {
        if (p->o->progress)
            p->o->progress(p->o->user, i, p->steps, "training");
        memset(p->instance->step_ns, 0, (size_t)steps * sizeof *p->instance->step_ns);
        RUNG_TRY(one_step(p, WARMUP + i, &optimizer, &p->whole[i]));
        memcpy(p->ns + i * p->count, p->instance->step_ns, (size_t)steps * sizeof *p->ns);
        p->ns[i * p->count + steps] = optimizer;
    }
    return RUNG_OK;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// Median of values[0], values[stride], ... in seconds.
static double median(const int64_t *values, int64_t stride, int count)
{
    int64_t sorted[256];
    for (int i = 0; i < count; i++)
        sorted[i] = values[i * stride];
    qsort(sorted, (size_t)count, sizeof *sorted, by_value);
    return (double)(sorted[(count - 1) / 2] + sorted[count / 2]) * 0.5e-9;
}

static void describe(const profile *p, int64_t i, rung_roofline_row *row)
{
    const rungi_step *step = &p->plan->steps.data[i];
    const rungi_query *q = &step->q;
    size_t used = 0;
    snprintf(row->layer, sizeof row->layer, "%s", p->s->graph->nodes.data[q->node].name);
    for (int k = 0; k < q->n_fused && used < sizeof row->fused; k++)
        used += (size_t)snprintf(row->fused + used, sizeof row->fused - used, " + %s",
                                 q->fused[k].op->name);
    row->op = q->op->name;
    row->pass = rungi_query_pass(q)->name;
    row->kernel = step->kernel->name;
    row->flops = rungi_kernel_flops(step->kernel, q);
    row->bytes = rungi_query_cost(q).bytes;
}

// Reads parameters, gradients and state, writes parameters and state.
static void describe_optimizer(const profile *p, rung_roofline_row *row)
{
    double elements = 0;
    int states = rung_optimizer_state_count(p->s->optimizer);
    for (int64_t i = 0; i < p->s->n_segments; i++)
        elements += (double)(p->s->segments[i].end - p->s->segments[i].begin);
    for (size_t i = 0; i < p->plan->steps.count; i++) {
        int grad = p->plan->steps.data[i].updates;
        if (grad >= 0) // done by a kernel of backward
            elements -= (double)rungi_operand_count(&p->plan->tensors.data[grad].operand);
    }
    row->op = rung_optimizer_name(p->s->c->optim.name);
    row->pass = "step";
    row->kernel = "one pass";
    row->flops = elements * (2 + 4 * states);
    row->bytes = elements * (double)sizeof(float) * (3 + 2 * states);
}

static void fill_rows(profile *p)
{
    rung_roofline *r = &p->result;
    int top = r->machine.threads > 1;
    r->count = p->count;
    r->step_seconds = median(p->whole, 1, p->steps);
    for (int64_t i = 0; i < p->count; i++) {
        rung_roofline_row *row = &r->rows[i];
        if (i + 1 < p->count)
            describe(p, i, row);
        else
            describe_optimizer(p, row);
        row->seconds = median(p->ns + i, p->count, p->steps);
        row->share = row->seconds / r->step_seconds;
        double flops = row->seconds > 0 ? row->flops / row->seconds / r->machine.flops[top] : 0;
        double bytes = row->seconds > 0 ? row->bytes / row->seconds / r->machine.bytes[top] : 0;
        row->arithmetic = flops > bytes;
        row->ceiling = row->arithmetic ? flops : bytes;
    }
}

static rung_status run(profile *p, rung_context *context, const rung_config *config)
{
    rung_roofline *r = &p->result;
    RUNG_CHECK(rungi_config_values(config)->train.strategy != RUNGI_STRATEGY_PIPELINE,
               RUNG_UNSUPPORTED,
               "a roofline is of a whole network: give train.strategy=single and train.ranks=1");
    RUNG_TRY(rungi_session_create(context, config,
                                  &(rungi_session_options){.parts = RUNGI_SESSION_TRAIN}, &p->s));
    RUNG_CHECK(!p->s->c->exact, RUNG_UNSUPPORTED,
               "a roofline needs exact=false: under exact shards run side by side");
    RUNG_CHECK(p->s->c->gradients.accumulate == 1, RUNG_UNSUPPORTED,
               "a roofline is of one plan: give train.accumulate=1");
    snprintf(r->model, sizeof r->model, "%s", p->s->c->model.name);
    r->batch = rungi_session_batch(p->s);
    if (p->o->machine) {
        r->machine = *p->o->machine;
    } else {
        RUNG_TRY(rung_machine_measure(context, rung_device_threads(p->s->device), &r->machine));
    }
    RUNG_TRY(rung_loader_next(p->s->train_loader, &p->batch));
    RUNG_TRY(measure_steps(p));
    r->rows = calloc((size_t)p->count, sizeof *r->rows);
    RUNG_CHECK(r->rows, RUNG_NO_MEMORY, "no memory for a roofline");
    fill_rows(p);
    if (r->machine.threads > 1)
        RUNG_TRY(rungi_round_trip_measure(context, &r->machine.round_trip[1]));
    return RUNG_OK;
}

rung_status rung_roofline_run(rung_context *context, const rung_config *config,
                              const rung_roofline_options *options, rung_roofline *result_out)
{
    profile p = {.o = options, .steps = options->steps > 0 ? options->steps : STEPS};
    RUNG_CHECK(p.steps <= 256, RUNG_INVALID, "a roofline of %d steps: at most 256", p.steps);
    rung_status status = run(&p, context, config);
    rung_error error = *rung_error_last();
    if (p.s && p.batch.count)
        rung_loader_release(p.s->train_loader, &p.batch);
    rungi_session_destroy(&p.s);
    free(p.ns);
    free(p.whole);
    if (status != RUNG_OK) {
        rung_roofline_fini(&p.result);
        return rungi_fail_adopt(&error);
    }
    *result_out = p.result;
    return RUNG_OK;
}

void rung_roofline_fini(rung_roofline *result)
{
    free(result->rows);
    *result = (rung_roofline){0};
}

// ---- the picture ------------------------------------------------------------------------------

rung_status rung_roofline_draw(const rung_roofline *r, char **svg_out)
{
    char title[160];
    rungi_string out = {0};
    rungi_svg_point *points = calloc((size_t)r->count + 1, sizeof *points);
    char(*labels)[128] = calloc((size_t)r->count + 1, sizeof *labels);
    rung_status status = RUNG_OK;
    if (!points || !labels)
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a drawing");
    for (int64_t i = 0; i < r->count && status == RUNG_OK; i++) {
        const rung_roofline_row *row = &r->rows[i];
        snprintf(labels[i], sizeof labels[i], "%s%s%s", row->layer, row->layer[0] ? " " : "",
                 row->layer[0] ? row->pass : row->op);
        points[i] = (rungi_svg_point){.label = labels[i],
                                      .group = row->op,
                                      .flops = row->flops,
                                      .bytes = row->bytes,
                                      .seconds = row->seconds};
    }
    snprintf(title, sizeof title, "%s, batch %lld: a training step of %.4g ms", r->model,
             (long long)r->batch, r->step_seconds * 1e3);
    int top = r->machine.threads > 1;
    rungi_svg_roofline chart = {.title = title,
                                .flops = r->machine.flops[top],
                                .bytes = r->machine.bytes[top],
                                .flops_one = r->machine.flops[0],
                                .bytes_one = r->machine.bytes[0],
                                .threads = r->machine.threads,
                                .total = r->step_seconds,
                                .points = points,
                                .count = (size_t)r->count};
    if (status == RUNG_OK)
        status = rungi_svg_roofline_chart(&chart, &out);
    free(points);
    free(labels);
    if (status == RUNG_OK)
        *svg_out = out.data;
    else
        rungi_string_fini(&out);
    return status;
}
