// SPDX-License-Identifier: Apache-2.0
// One step: norm of the gradients, clip coefficient, update. Work is cut into shares of fixed
// blocks, and no result depends on which thread computed it.
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

static void plan_blocks(rung_optimizer *opt, rungi_optim_segment *segment)
{
    segment->first_block = opt->block_count;
    for (int64_t begin = segment->begin; begin < segment->end; begin += RUNGI_OPTIM_BLOCK) {
        int64_t end = begin + RUNGI_OPTIM_BLOCK;
        opt->blocks[opt->block_count++] =
            (rungi_optim_block){begin, end < segment->end ? end : segment->end};
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
    opt->run_count = opt->run_elements = opt->block_count = 0;
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
        plan_blocks(opt, segment);
        if (last && same_settings(opt, last, segment) &&
            may_bridge(opt, segment->begin - last->end)) {
            opt->run_elements += segment->end - last->end;
            last->end = segment->end;
        } else {
            opt->run_elements += segment->end - segment->begin;
            last = &opt->runs[opt->run_count++];
            *last = (rungi_optim_run){segment->begin, segment->end, segment->group, segment->steps};
        }
    }
}

static int threads_for(const rung_optimizer *opt, int threads)
{
    return threads > 1 && opt->run_elements >= RUNGI_OPTIM_PARALLEL ? threads : 1;
}

// Sums of the blocks that begin in [begin, end), zeros for the others.
static void sum_blocks(rung_optimizer *opt, const float *grads, int threads, int64_t begin,
                       int64_t end)
{
    int team = threads_for(opt, threads);
    (void)team;
#pragma omp parallel for schedule(static) num_threads(team)
    for (int64_t i = 0; i < opt->block_count; i++) {
        const rungi_optim_block *block = &opt->blocks[i];
        bool own = block->begin >= begin && block->begin < end;
        opt->block_sums[i] =
            own ? opt->sum_squares(grads + block->begin, block->end - block->begin) : 0;
    }
}

void rungi_optimizer_part_sums(rung_optimizer *opt, const float *grads, int threads,
                               double **sums_out, int64_t *count_out)
{
    rungi_optimizer_plan(opt);
    sum_blocks(opt, grads, threads, opt->part_begin, opt->part_end);
    opt->sums_given = true;
    *sums_out = opt->block_sums;
    *count_out = opt->block_count;
}

double rungi_optimizer_norm(rung_optimizer *opt, const float *grads, double scale, int threads,
                            int64_t *nonfinite_out)
{
    rungi_optimizer_plan(opt);
    if (!opt->sums_given)
        sum_blocks(opt, grads, threads, 0, opt->size);
    opt->sums_given = false;
    double total = 0;
    int64_t nonfinite = -1;
    for (int64_t i = 0; i < opt->segment_count; i++) {
        rungi_optim_segment *segment = &opt->segments[i];
        double sum = 0;
        for (int64_t b = 0; b < segment->block_count; b++)
            sum += opt->block_sums[segment->first_block + b];
        if (!isfinite(sum) && nonfinite < 0)
            nonfinite = i;
        segment->norm = sqrt(sum) * fabs(scale);
        total += sum;
    }
    *nonfinite_out = nonfinite;
    return sqrt(total) * fabs(scale);
}

double rungi_clip_coefficient(double norm, double max_norm)
{
    double coefficient = max_norm / (norm + 1e-6);
    return coefficient < 1 ? coefficient : 1;
}

static rungi_step_coef coef_of(const rung_optimizer *opt, int group, int64_t steps,
                               const rung_rates *rates, double scale, double limit)
{
    const rung_optimizer_options *o = &opt->options;
    double lr = rates->lr * opt->groups[group].lr_multiplier;
    double decay = opt->groups[group].weight_decay;
    rungi_step_coef c = {
        .grad_scale = (float)scale,
        .grad_limit = (float)limit,
        .weight_decay = o->kind == RUNG_OPTIMIZER_ADAMW ? 0 : (float)decay,
        .shrink = o->kind == RUNG_OPTIMIZER_ADAMW ? (float)(1 - lr * decay) : 1,
        .lr = (float)lr,
    };
    if (o->kind == RUNG_OPTIMIZER_SGD) {
        double momentum = rates->cycles_momentum ? rates->momentum : o->momentum;
        bool first = steps == 0;
        c.momentum = first ? 0 : (float)momentum;
        c.keep = first ? 1 : (float)(1 - o->dampening);
        c.look_ahead = (float)momentum;
        return c;
    }
    double beta1 = rates->cycles_momentum ? rates->momentum : o->betas[0];
    double t = (double)(steps + 1);
    c.keep = (float)(1 - beta1);
    c.beta2 = (float)o->betas[1];
    c.keep2 = (float)(1 - o->betas[1]);
    c.lr = (float)(lr / (1 - pow(beta1, t)));
    c.inv_sqrt_correction2 = (float)(1 / sqrt(1 - pow(o->betas[1], t)));
    c.eps = (float)o->eps;
    return c;
}

static void count_step(rung_optimizer *opt)
{
    for (int64_t i = 0; i < opt->segment_count; i++)
        opt->segments[i].steps += !opt->segments[i].frozen;
    for (int64_t i = 0; i < opt->run_count; i++)
        opt->runs[i].steps++;
}

// Where this optimizer's part of the elements lies in the runs laid end to end.
static void place_part(rung_optimizer *opt)
{
    opt->part_offset = opt->part_elements = 0;
    for (int64_t i = 0; i < opt->run_count; i++) {
        const rungi_optim_run *run = &opt->runs[i];
        int64_t begin = run->begin > opt->part_begin ? run->begin : opt->part_begin;
        int64_t end = run->end < opt->part_end ? run->end : opt->part_end;
        if (run->begin < opt->part_begin)
            opt->part_offset +=
                (run->end < opt->part_begin ? run->end : opt->part_begin) - run->begin;
        if (begin < end)
            opt->part_elements += end - begin;
    }
}

// Updates share number `share` of `shares`: a range of the runs laid end to end. Whether all of its
// gradients were finite.
static bool apply_share(const rung_optimizer *opt, float *params, const float *grads, int share,
                        int shares)
{
    // cut at multiples of a cache line
    int64_t lines = (opt->part_elements + 15) / 16;
    int64_t from = opt->part_offset + lines * share / shares * 16;
    int64_t to = opt->part_offset + lines * (share + 1) / shares * 16;
    int64_t last = opt->part_offset + opt->part_elements;
    int64_t offset = 0; // of the run's first element
    to = to < last ? to : last;
    bool bad = false;
    for (int64_t i = 0; i < opt->run_count && offset < to; i++) {
        const rungi_optim_run *run = &opt->runs[i];
        int64_t length = run->end - run->begin;
        int64_t a = from > offset ? from - offset : 0;
        int64_t b = to - offset < length ? to - offset : length;
        if (a < b) {
            int64_t at = run->begin + a, own = at - opt->part_begin;
            bad |= opt->step(&opt->coefs[i], params + at, grads + at,
                             opt->state[0] ? opt->state[0] + own : NULL,
                             opt->state[1] ? opt->state[1] + own : NULL, b - a);
        }
        offset += length;
    }
    return !bad;
}

bool rungi_optimizer_apply(rung_optimizer *opt, float *params, const float *grads,
                           const rung_rates *rates, double scale, double limit, int threads)
{
    rungi_optimizer_plan(opt);
    place_part(opt);
    for (int64_t i = 0; i < opt->run_count; i++)
        opt->coefs[i] = coef_of(opt, opt->runs[i].group, opt->runs[i].steps, rates, scale, limit);
    int shares = threads_for(opt, threads);
    atomic_bool finite = true;
#pragma omp parallel for schedule(static) num_threads(shares)
    for (int share = 0; share < shares; share++)
        if (!apply_share(opt, params, grads, share, shares))
            atomic_store(&finite, false);
    count_step(opt);
    return atomic_load(&finite);
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

static double limit_of(const rung_optimizer_update *u)
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
    part->coef = coef_of(opt, s->group, s->steps, &u->rates, unscale_of(u), limit_of(u));
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
                                  int64_t count)
{
    rungi_optim_part *p = self;
    if (p->step_scaled(&p->coef, p->param + at, factor, x, count))
        atomic_store(&p->bad, true);
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

static rung_status fail_nonfinite(const rung_optimizer *opt, const float *grads, int64_t index)
{
    const rungi_optim_segment *segment = &opt->segments[index];
    int64_t i = segment->begin;
    while (i < segment->end && isfinite(grads[i]))
        i++;
    if (i == segment->end || i < opt->part_begin || i >= opt->part_end) // another rank has it
        return RUNG_FAIL(RUNG_DIVERGED, "the gradient of %s is NaN or infinite", segment->name);
    return RUNG_FAIL(RUNG_DIVERGED, "the gradient of %s is %s (element %lld of %lld)",
                     segment->name, isnan(grads[i]) ? "NaN" : "infinite",
                     (long long)(i - segment->begin), (long long)(segment->end - segment->begin));
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
    if (report.applied && !rungi_optimizer_apply(opt, params, grads, &u->rates,
                                                 unscale * report.clip, limit_of(u), u->threads)) {
        report.nonfinite = find_nonfinite(opt, grads);
        if (report.nonfinite >= 0) // else it lies in padding that a run bridges
            return fail_nonfinite(opt, grads, report.nonfinite);
    }
    RUNG_TRY(end_parts(opt));
    if (report_out)
        *report_out = report;
    return RUNG_OK;
}
