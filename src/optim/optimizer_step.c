// SPDX-License-Identifier: Apache-2.0
// One step: norm of the gradients (optimizer_norm.c), clip coefficient, update (optimizer_apply.c).
// Work is cut into shares of fixed blocks, and no result depends on which thread computed it.
#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/error.h"
#include "optim/optimizer.h"

static bool same_settings(const rung_optimizer *opt, const rungi_optim_run *run,
                          const rungi_optim_segment *segment)
{
    const rung_param_group *a = &opt->groups[run->group], *b = &opt->groups[segment->group];
    return run->steps == segment->steps && a->lr_multiplier == b->lr_multiplier &&
           a->weight_decay == b->weight_decay;
}

// May an update run over the zeros between two segments? With eps = 0 Adam would make 0/0 there.
static bool may_bridge(const rung_optimizer *opt, int64_t gap)
{
    bool keeps_zeros = opt->options.kind == RUNG_OPTIMIZER_SGD || opt->options.eps > 0;
    return gap == 0 || (keeps_zeros && gap < RUNGI_OPTIM_PADDING);
}

static void plan_blocks(rung_optimizer *opt, rungi_optim_segment *segment, int64_t run)
{
    segment->first_block = opt->block_count;
    for (int64_t begin = segment->begin; begin < segment->end; begin += RUNGI_OPTIM_BLOCK) {
        int64_t end = begin + RUNGI_OPTIM_BLOCK;
        opt->blocks[opt->block_count++] =
            (rungi_optim_block){begin, end < segment->end ? end : segment->end, run};
    }
    segment->block_count = opt->block_count - segment->first_block;
}

// Are other segments taken than when the runs were planned?
static bool others_taken(const rung_optimizer *opt)
{
    for (int64_t i = 0; i < opt->segment_count; i++)
        if (opt->segments[i].taken != opt->segments[i].left_out)
            return true;
    return false;
}

void rungi_optimizer_plan(rung_optimizer *opt)
{
    if (opt->planned && !others_taken(opt))
        return;
    opt->planned = true;
    opt->run_count = opt->run_elements = opt->block_count = opt->summed = 0;
    rungi_optim_run *last = NULL; // the run that the next segment may join
    for (int64_t i = 0; i < opt->segment_count; i++) {
        rungi_optim_segment *segment = &opt->segments[i];
        segment->norm = 0;
        segment->block_count = 0;
        segment->left_out = segment->taken;
        if (segment->begin == segment->end)
            continue;
        if (segment->frozen || segment->taken) {
            last = NULL;
            continue;
        }
        if (last && same_settings(opt, last, segment) &&
            may_bridge(opt, segment->begin - last->end)) {
            opt->run_elements += segment->end - last->end;
            last->end = segment->end;
        } else {
            opt->run_elements += segment->end - segment->begin;
            last = &opt->runs[opt->run_count++];
            *last = (rungi_optim_run){segment->begin, segment->end, segment->group, segment->steps};
        }
        plan_blocks(opt, segment, opt->run_count - 1);
    }
}

int rungi_optimizer_threads(const rung_optimizer *opt, int threads)
{
    return threads > 1 && opt->run_elements >= RUNGI_OPTIM_PARALLEL ? threads : 1;
}

// The first segment with a gradient that is not finite; -1: none.
static int64_t find_nonfinite(const rung_optimizer *opt, const float *grads)
{
    for (int64_t i = 0; i < opt->segment_count; i++)
        for (int64_t k = opt->segments[i].begin; k < opt->segments[i].end; k++)
            if (k >= opt->part_begin && k < opt->part_end && !opt->segments[i].frozen &&
                !opt->segments[i].taken && !isfinite(grads[k]))
                return i;
    return -1;
}

rung_status rungi_optimizer_check(const rung_optimizer *opt, const rung_optimizer_update *u)
{
    const rung_rates *rates = &u->rates;
    RUNG_CHECK(rates->lr >= 0 && isfinite(rates->lr), RUNG_CONFIG,
               "optimizer step: learning rate %g must be a number >= 0", rates->lr);
    RUNG_CHECK(u->loss_scale >= 0 && isfinite(u->loss_scale), RUNG_CONFIG,
               "optimizer step: loss scale %g must be > 0", u->loss_scale);
    RUNG_CHECK(u->max_grad_norm >= 0, RUNG_CONFIG,
               "train.max_grad_norm: %g must be >= 0 (0 is off)", u->max_grad_norm);
    RUNG_CHECK(u->max_grad_value >= 0, RUNG_CONFIG,
               "train.max_grad_value: %g must be >= 0 (0 is off)", u->max_grad_value);
    RUNG_CHECK(!u->low || u->low_dtype == RUNG_BF16 || u->low_dtype == RUNG_F16, RUNG_INVALID,
               "optimizer step: parameters are rounded to bf16 or f16, not to %s",
               rung_dtype_name(u->low_dtype));
    if (!rates->cycles_momentum)
        return RUNG_OK;
    RUNG_CHECK(rates->momentum >= 0 && rates->momentum < 1, RUNG_CONFIG,
               "schedule.max_momentum: a momentum of %g must be in [0, 1)", rates->momentum);
    RUNG_CHECK(opt->state_count > 0, RUNG_CONFIG,
               "schedule.cycle_momentum: sgd without momentum has none to cycle; set "
               "optim.momentum or schedule.cycle_momentum=false");
    return RUNG_OK;
}

static double unscale_of(const rung_optimizer_update *u)
{
    return u->loss_scale > 0 ? 1 / u->loss_scale : 1;
}

double rungi_optimizer_limit(const rung_optimizer_update *u)
{
    return u->max_grad_value > 0 ? u->max_grad_value : INFINITY;
}

bool rungi_optimizer_needs_all(const rung_optimizer_update *u)
{
    return u->max_grad_norm > 0 || u->want_norm || u->skip_nonfinite;
}

rungi_optim_part *rungi_optimizer_take(rung_optimizer *opt, int64_t segment, float *params,
                                       const rung_optimizer_update *u)
{
    rungi_optim_segment *s = &opt->segments[segment];
    rungi_optim_part *part = &s->part;
    part->step = opt->step;
    part->step_scaled = opt->step_scaled;
    part->coef = rungi_optimizer_coef(opt, s->group, s->steps, &u->rates, unscale_of(u),
                                      rungi_optimizer_limit(u));
    part->plain = opt->options.kind == RUNG_OPTIMIZER_SGD && rungi_step_is_plain(&part->coef) &&
                  opt->state_count == 0;
    part->param = params + s->begin;
    for (int i = 0; i < RUNG_OPTIMIZER_STATES; i++)
        part->state[i] = opt->state[i] ? opt->state[i] + s->begin : NULL;
    atomic_store(&part->bad, false);
    s->taken = true;
    return part;
}

void rungi_optimizer_apply_part(void *self, int64_t at, const float *grad, int64_t count)
{
    rungi_optim_part *p = self;
    if (p->step(&p->coef, p->param + at, grad, p->state[0] ? p->state[0] + at : NULL,
                p->state[1] ? p->state[1] + at : NULL, count))
        atomic_store(&p->bad, true);
}

void rungi_optimizer_apply_scaled(void *self, int64_t at, float factor, const float *x,
                                  float largest, int64_t count)
{
    rungi_optim_part *p = self;
    if (!isfinite(factor * largest)) // then no smaller product is larger
        atomic_store(&p->bad, true);
    p->step_scaled(&p->coef, p->param + at, factor, x, count);
}

int64_t rungi_optimizer_segment_at(const rung_optimizer *opt, int64_t begin)
{
    for (int64_t i = 0; i < opt->segment_count; i++)
        if (opt->segments[i].begin == begin)
            return i;
    return -1;
}

// Ends what was done in parts.
static rung_status end_parts(rung_optimizer *opt)
{
    const rungi_optim_segment *bad = NULL;
    for (int64_t i = 0; i < opt->segment_count; i++) {
        rungi_optim_segment *s = &opt->segments[i];
        if (s->taken && !bad && atomic_load(&s->part.bad))
            bad = s;
        s->taken = false;
    }
    return bad ? RUNG_FAIL(RUNG_DIVERGED, "the gradient of %s is NaN or infinite", bad->name)
               : RUNG_OK;
}

rung_status rungi_optimizer_fail_element(const rungi_optim_segment *segment, int64_t i, float value)
{
    return RUNG_FAIL(RUNG_DIVERGED, "the gradient of %s is %s (element %lld of %lld)",
                     segment->name, isnan(value) ? "NaN" : "infinite",
                     (long long)(i - segment->begin), (long long)(segment->end - segment->begin));
}

static rung_status fail_nonfinite(const rung_optimizer *opt, const float *grads, int64_t index)
{
    const rungi_optim_segment *segment = &opt->segments[index];
    int64_t i = segment->begin;
    while (i < segment->end && isfinite(grads[i]))
        i++;
    if (i == segment->end || i < opt->part_begin || i >= opt->part_end) // another rank has it
        return RUNG_FAIL(RUNG_DIVERGED, "the gradient of %s is NaN or infinite", segment->name);
    return rungi_optimizer_fail_element(segment, i, grads[i]);
}

static rung_status make_measures(rung_optimizer *opt)
{
    rungi_optimizer_plan(opt);
    if (opt->block_updates)
        return RUNG_OK;
    int64_t room = 0; // of any plan
    for (int64_t i = 0; i < opt->segment_count; i++)
        room += (opt->segments[i].end - opt->segments[i].begin) / RUNGI_OPTIM_BLOCK + 1;
    opt->block_updates = calloc((size_t)room + 1, sizeof *opt->block_updates);
    RUNG_CHECK(opt->block_updates, RUNG_NO_MEMORY, "no memory to measure updates");
    return RUNG_OK;
}

// The norm of all peers' gradients, after that of the own ones.
static rung_status share_norm(const rung_optimizer *opt, const rungi_optimizer_peers *peers,
                              double scale, double *norm)
{
    double *sums = calloc((size_t)opt->segment_count + 1, sizeof *sums), total = 0;
    RUNG_CHECK(sums, RUNG_NO_MEMORY, "no memory for a norm");
    for (int64_t i = 0; i < opt->segment_count; i++)
        for (int64_t b = 0; b < opt->segments[i].block_count; b++)
            sums[i] += opt->block_sums[opt->segments[i].first_block + b];
    rung_status status = peers->share(peers->user, sums, opt->segment_count, &total);
    free(sums);
    *norm = sqrt(total) * fabs(scale);
    return status;
}

rung_status rung_optimizer_step(rung_optimizer *opt, float *params, const float *grads,
                                const rung_optimizer_update *u, rung_optimizer_report *report_out)
{
    return rungi_optimizer_step_with(opt, params, grads, u, NULL, report_out);
}

rung_status rungi_optimizer_step_with(rung_optimizer *opt, float *params, const float *grads,
                                      const rung_optimizer_update *u,
                                      const rungi_optimizer_peers *peers,
                                      rung_optimizer_report *report_out)
{
    RUNG_TRY(rungi_optimizer_check(opt, u));
    assert(!opt->replicas || (!peers && rungi_optimizer_takes_replicas(u)));
    rung_optimizer_report report = {.applied = true, .grad_norm = NAN, .clip = 1, .nonfinite = -1};
    double unscale = unscale_of(u);
    if (rungi_optimizer_needs_all(u)) {
        report.grad_norm = rungi_optimizer_norm(opt, grads, unscale, u->threads, &report.nonfinite);
        if (peers)
            RUNG_TRY(share_norm(opt, peers, unscale, &report.grad_norm));
        if (report.nonfinite >= 0 && !u->skip_nonfinite)
            return fail_nonfinite(opt, grads, report.nonfinite);
        report.applied = report.nonfinite < 0 && (!peers || isfinite(report.grad_norm));
        if (u->max_grad_norm > 0 && report.applied)
            report.clip = rungi_clip_coefficient(report.grad_norm, u->max_grad_norm);
    }
    if (u->measure)
        RUNG_TRY(make_measures(opt));
    if (report.applied && !rungi_optimizer_apply(opt, params, grads, u, unscale * report.clip)) {
        if (opt->replicas)
            RUNG_TRY(rungi_optimizer_look_at_replicas(opt));
        else
            report.nonfinite = find_nonfinite(opt, grads);
        if (report.nonfinite >= 0) // else it lies in padding that a run bridges
            return fail_nonfinite(opt, grads, report.nonfinite);
    }
    RUNG_TRY(end_parts(opt));
    if (report_out)
        *report_out = report;
    return RUNG_OK;
}
