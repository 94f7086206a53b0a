// SPDX-License-Identifier: Apache-2.0
#include "rung/roofline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "measure/ceilings.h"
#include "train/fit.h"
#include "train/session_crew.h"

enum { STEPS = 15, WARMUP = 2, MOST_STEPS = 256 };

// An instance that was run, and the rows that its steps belong to.
typedef struct work {
    rungi_engine_work of;
    int times;    // in a step
    int64_t *row; // by step of its plan
} work;

// What is kept of a row until there is a median.
typedef struct row {
    rung_roofline_row out;
    const rung_plan *plan;
    int64_t ns[MOST_STEPS];
} row;

// A rank.
typedef struct profile {
    rungi_session *s;
    const rung_roofline_options *o;
    rung_batch batch;
    int steps;
    RUNGI_ARRAY(work) works;
    RUNGI_ARRAY(row *) rows;
    int64_t whole[MOST_STEPS], exchange[MOST_STEPS];
    int64_t computing[RUNGI_MAX_DEVICES][MOST_STEPS];
} profile;

// ---- rows -------------------------------------------------------------------------------------

static void describe(const rungi_engine_work *of, int64_t i, rung_roofline_row *out)
{
    const rungi_step *step = &of->plan->steps.data[i];
    const rungi_query *q = &step->q;
    size_t used = 0;
    out->device = of->device;
    snprintf(out->layer, sizeof out->layer, "%s", of->plan->graph->nodes.data[q->node].name);
    for (int k = 0; k < q->n_fused && used < sizeof out->fused; k++)
        used += (size_t)snprintf(out->fused + used, sizeof out->fused - used, " + %s",
                                 q->fused[k].op->name);
    out->op = q->op->name;
    out->pass = rungi_query_pass(q)->name;
    out->kernel = step->kernel->name;
}

static bool same_row(const row *a, const rung_roofline_row *b)
{
    return a->out.device == b->device && strcmp(a->out.layer, b->layer) == 0 &&
           strcmp(a->out.op, b->op) == 0 && strcmp(a->out.pass, b->pass) == 0 &&
           strcmp(a->out.kernel, b->kernel) == 0 && strcmp(a->out.fused, b->fused) == 0;
}

// The row of a step of a plan: steps of one plan have rows of their own, those of other plans of
// the device (shards and micro-batches of another size) share them.
static int64_t find_row(profile *p, const rungi_engine_work *of, const rung_roofline_row *like)
{
    for (size_t i = 0; i < p->rows.count; i++)
        if (p->rows.data[i]->plan != of->plan && same_row(p->rows.data[i], like)) {
            p->rows.data[i]->plan = of->plan;
            return (int64_t)i;
        }
    row *r = calloc(1, sizeof *r);
    if (!r || !rungi_array_push(&p->rows, r)) {
        free(r);
        return -1;
    }
    r->out = *like;
    r->plan = of->plan;
    return (int64_t)p->rows.count - 1;
}

// A plan whose rows are known: its steps have the same.
static const work *known_plan(const profile *p, const rung_plan *plan)
{
    for (size_t i = 0; i < p->works.count; i++)
        if (p->works.data[i].of.plan == plan && p->works.data[i].row)
            return &p->works.data[i];
    return NULL;
}

static rung_status add_rows(profile *p, work *w)
{
    int64_t steps = (int64_t)w->of.plan->steps.count;
    const work *known = known_plan(p, w->of.plan);
    int64_t *rows = calloc((size_t)steps + 1, sizeof *rows);
    RUNG_CHECK(rows, RUNG_NO_MEMORY, "no memory for a roofline");
    for (int64_t i = 0; i < steps; i++) {
        rung_roofline_row like = {.device = 0};
        describe(&w->of, i, &like);
        rows[i] = known ? known->row[i] : find_row(p, &w->of, &like);
        if (rows[i] < 0) {
            free(rows);
            return RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a roofline");
        }
    }
    w->row = rows;
    return RUNG_OK;
}

static void add_costs(profile *p, const work *w)
{
    for (size_t i = 0; i < w->of.plan->steps.count; i++) {
        const rungi_step *step = &w->of.plan->steps.data[i];
        rung_roofline_row *r = &p->rows.data[w->row[i]]->out;
        r->flops += rungi_kernel_flops(step->kernel, &step->q) * w->times;
        r->bytes += rungi_query_cost(&step->q).bytes * w->times;
    }
}

// What a step consists of, as the last one showed.
static rung_status list_works(profile *p)
{
    rungi_engine_work of;
    for (int index = 0; rungi_engine_work_of(p->s->engine, index, &of); index++) {
        size_t i = 0;
        while (i < p->works.count && p->works.data[i].of.instance != of.instance)
            i++;
        if (i == p->works.count)
            RUNG_CHECK(rungi_array_push(&p->works, ((work){.of = of})), RUNG_NO_MEMORY,
                       "no memory for a roofline");
        p->works.data[i].times++;
    }
    for (size_t i = 0; i < p->works.count; i++) {
        work *w = &p->works.data[i];
        RUNG_TRY(add_rows(p, w));
        add_costs(p, w);
        w->of.instance->step_ns =
            calloc(w->of.plan->steps.count + 1, sizeof *w->of.instance->step_ns);
        RUNG_CHECK(w->of.instance->step_ns, RUNG_NO_MEMORY, "no memory for a roofline");
    }
    return RUNG_OK;
}

// Reads parameters, gradients and state, writes parameters and state; of a rank's part.
static rung_status add_optimizer(profile *p)
{
    const rungi_session *s = p->s;
    double elements = 0;
    int states = rung_optimizer_state_count(s->optimizer);
    rungi_comm_part part = rungi_session_optimizer_part(s);
    for (int64_t i = 0; i < s->n_segments; i++) {
        int64_t begin = s->segments[i].begin, end = s->segments[i].end;
        begin = begin < part.begin ? part.begin : begin;
        end = end > part.begin + part.count ? part.begin + part.count : end;
        elements += end > begin ? (double)(end - begin) : 0;
    }
    for (size_t k = 0; k < p->works.count; k++)
        for (size_t i = 0; i < p->works.data[k].of.plan->steps.count; i++) {
            const rung_plan *plan = p->works.data[k].of.plan;
            int grad = plan->steps.data[i].updates;
            if (grad >= 0) // done by a kernel of backward
                elements -= (double)rungi_operand_count(&plan->tensors.data[grad].operand);
        }
    row *r = calloc(1, sizeof *r);
    RUNG_CHECK(r, RUNG_NO_MEMORY, "no memory for a roofline");
    r->out = (rung_roofline_row){.op = rung_optimizer_name(s->c->optim.name),
                                 .pass = "step",
                                 .kernel = "one pass",
                                 .flops = elements * (2 + 4 * states),
                                 .bytes = elements * (double)sizeof(float) * (3 + 2 * states)};
    if (rungi_array_push(&p->rows, r))
        return RUNG_OK;
    free(r);
    return RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a roofline");
}

// ---- steps ------------------------------------------------------------------------------------

static void keep_step(profile *p, int step, int64_t begin, int64_t end)
{
    rungi_breakdown parts;
    row *optimizer = p->rows.data[p->rows.count - 1];
    for (size_t k = 0; k < p->works.count; k++) {
        work *w = &p->works.data[k];
        for (size_t i = 0; i < w->of.plan->steps.count; i++) {
            int64_t ns = w->of.instance->step_ns[i];
            p->rows.data[w->row[i]]->ns[step] += ns;
            p->computing[w->of.device][step] += ns;
            w->of.instance->step_ns[i] = 0;
        }
    }
    rungi_timeline_between(p->s->timeline, begin, end, &parts);
    optimizer->ns[step] = parts.ns[RUNGI_TIME_OPTIMIZER];
    p->exchange[step] = parts.ns[RUNGI_TIME_EXCHANGE];
    p->whole[step] = end - begin;
}

static rung_status measure_rank(void *user, rungi_session *s, int rank)
{
    profile *p = (profile *)user + rank;
    double loss;
    int64_t begin = 0;
    p->s = s;
    RUNG_TRY(rungi_session_next(s, 0, &p->batch));
    for (int i = 0; i < WARMUP + p->steps; i++) {
        if (i == WARMUP) {
            RUNG_TRY(list_works(p));
            RUNG_CHECK(p->works.count, RUNG_UNSUPPORTED, "rank %d had nothing to compute", rank);
            RUNG_TRY(add_optimizer(p));
        }
        if (i >= WARMUP && rank == 0 && p->o->progress)
            p->o->progress(p->o->user, i - WARMUP, p->steps, "training");
        begin = rungi_now(s->context);
        RUNG_TRY(rungi_session_step(s, &p->batch, i, &loss));
        if (i >= WARMUP)
            keep_step(p, i - WARMUP, begin, rungi_now(s->context));
    }
    return rungi_session_meet(s, WARMUP + p->steps);
}

// ---- the result -------------------------------------------------------------------------------

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// In seconds.
static double median(const int64_t *values, int count)
{
    int64_t sorted[MOST_STEPS];
    memcpy(sorted, values, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, by_value);
    return (double)(sorted[(count - 1) / 2] + sorted[count / 2]) * 0.5e-9;
}

static void finish_row(const profile *p, const row *from, int first_device, rung_roofline *r)
{
    int top = r->machine.threads > 1;
    rung_roofline_row *out = &r->rows[r->count++];
    *out = from->out;
    out->device += first_device;
    out->seconds = median(from->ns, p->steps);
    out->share = out->seconds / r->step_seconds;
    double flops = out->seconds > 0 ? out->flops / out->seconds / r->machine.flops[top] : 0;
    double bytes = out->seconds > 0 ? out->bytes / out->seconds / r->machine.bytes[top] : 0;
    out->arithmetic = flops > bytes;
    out->ceiling = out->arithmetic ? flops : bytes;
}

// The rows of a rank's devices; the optimizer is the first device's.
static void fill_rank(const profile *p, rung_roofline *r)
{
    int first = r->device_count, devices = rungi_engine_devices(p->s->engine);
    size_t optimizer = p->rows.count - 1;
    for (int d = 0; d < devices; d++) {
        rung_fit_device like;
        rung_roofline_device *out = &r->devices[r->device_count++];
        rungi_fit_describe(p->s, d, &like);
        memcpy(out->name, like.name, sizeof out->name);
        memcpy(out->what, like.what, sizeof out->what);
        out->computing = median(p->computing[d], p->steps);
        out->exchange = median(p->exchange, p->steps);
        for (size_t i = 0; i < optimizer; i++)
            if (p->rows.data[i]->out.device == d)
                finish_row(p, p->rows.data[i], first, r);
        if (d == 0)
            finish_row(p, p->rows.data[optimizer], first, r);
    }
}

static rung_status fill(const profile *all, int ranks, rung_roofline *r)
{
    size_t rows = 0;
    for (int k = 0; k < ranks; k++)
        rows += all[k].rows.count;
    r->rows = calloc(rows + 1, sizeof *r->rows);
    r->devices = calloc((size_t)ranks * RUNGI_MAX_DEVICES, sizeof *r->devices);
    RUNG_CHECK(r->rows && r->devices, RUNG_NO_MEMORY, "no memory for a roofline");
    r->step_seconds = median(all[0].whole, all[0].steps);
    for (int k = 0; k < ranks; k++)
        fill_rank(&all[k], r);
    return RUNG_OK;
}

static void profile_fini(profile *p)
{
    if (p->s && p->batch.count)
        rungi_session_release(p->s, &p->batch);
    for (size_t i = 0; i < p->works.count; i++)
        free(p->works.data[i].row);
    for (size_t i = 0; i < p->rows.count; i++)
        free(p->rows.data[i]);
    rungi_array_fini(&p->works);
    rungi_array_fini(&p->rows);
}

static rung_status run(rungi_session_crew *crew, profile **all, rung_context *context,
                       const rung_config *config, const rung_roofline_options *o, rung_roofline *r)
{
    RUNG_TRY(rungi_session_crew_create(context, config, RUNGI_SESSION_TRAIN, crew));
    const rungi_session *s = crew->of[0];
    RUNG_CHECK(!s->c->exact, RUNG_UNSUPPORTED,
               "a roofline needs exact=false: under exact shards run side by side");
    *all = calloc((size_t)crew->ranks, sizeof **all);
    RUNG_CHECK(*all, RUNG_NO_MEMORY, "no memory for a roofline");
    for (int k = 0; k < crew->ranks; k++) {
        (*all)[k].o = o;
        (*all)[k].steps = o->steps > 0 ? o->steps : STEPS;
    }
    snprintf(r->model, sizeof r->model, "%s", s->c->model.name);
    r->batch = rungi_session_batch(s);
    if (o->machine)
        r->machine = *o->machine;
    else
        RUNG_TRY(rung_machine_measure(context, rung_device_threads(s->device), &r->machine));
    RUNG_TRY(rungi_session_crew_run(crew, measure_rank, *all));
    RUNG_TRY(fill(*all, crew->ranks, r));
    return r->machine.threads > 1 ? rungi_round_trip_measure(context, &r->machine.round_trip[1])
                                  : RUNG_OK;
}

rung_status rung_roofline_run(rung_context *context, const rung_config *config,
                              const rung_roofline_options *options, rung_roofline *result_out)
{
    rungi_session_crew crew = {0};
    profile *all = NULL;
    rung_roofline result = {.count = 0};
    RUNG_CHECK(options->steps <= MOST_STEPS, RUNG_INVALID, "a roofline of %d steps: at most %d",
               options->steps, MOST_STEPS);
    rung_status status = run(&crew, &all, context, config, options, &result);
    rung_error error = *rung_error_last();
    for (int k = 0; all && k < crew.ranks; k++)
        profile_fini(&all[k]);
    free(all);
    rungi_session_crew_fini(&crew);
    if (status != RUNG_OK) {
        rung_roofline_fini(&result);
        return rungi_fail_adopt(&error);
    }
    *result_out = result;
    return RUNG_OK;
}

void rung_roofline_fini(rung_roofline *result)
{
    free(result->devices);
    free(result->rows);
    *result = (rung_roofline){0};
}
