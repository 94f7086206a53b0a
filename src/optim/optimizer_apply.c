// SPDX-License-Identifier: Apache-2.0
// The update: one pass over parameters, gradients and state, in which updated parameters can also
// be rounded to 16 bits and updates be measured while they lie in the caches.
#include <math.h>
#include <stdatomic.h>

#include "optim/optimizer.h"

rungi_step_coef rungi_optimizer_coef(const rung_optimizer *opt, int group, int64_t steps,
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

// A stretch of a run: elements [begin, end), of whose gradients some may not be finite.
static bool update_piece(const rung_optimizer *opt, int64_t run, float *params, const float *grads,
                         const rung_optimizer_update *u, int64_t begin, int64_t end)
{
    int64_t own = begin - opt->part_begin, count = end - begin;
    float sums[RUNGI_OPTIM_BLOCK]; // filled where it is used
    if (opt->replicas)
        opt->replicas->add(opt->replicas->user, begin, count, sums);
    bool bad = opt->step(&opt->coefs[run], params + begin, opt->replicas ? sums : grads + begin,
                         opt->state[0] ? opt->state[0] + own : NULL,
                         opt->state[1] ? opt->state[1] + own : NULL, count);
    if (opt->replicas)
        opt->replicas->give(opt->replicas->user, begin, count);
    if (u->low && u->low_dtype == RUNG_BF16)
        opt->to_bf16((uint16_t *)u->low + begin, params + begin, count);
    else if (u->low)
        rung_convert(u->low_dtype, (uint16_t *)u->low + begin, RUNG_F32, params + begin, count,
                     NULL);
    return bad;
}

// Updates share number `share` of `shares`: a range of the runs laid end to end. Whether all of its
// gradients were finite.
static bool apply_share(const rung_optimizer *opt, float *params, const float *grads,
                        const rung_optimizer_update *u, int share, int shares)
{
    // cut at multiples of a cache line
    int64_t lines = (opt->part_elements + 15) / 16;
    int64_t from = opt->part_offset + lines * share / shares * 16;
    int64_t to = opt->part_offset + lines * (share + 1) / shares * 16;
    int64_t last = opt->part_offset + opt->part_elements;
    int64_t offset = 0; // of the run's first element
    // What is read again soon is read from the first cache.
    int64_t piece = u->low || opt->replicas ? RUNGI_OPTIM_BLOCK / 2 : INT64_MAX;
    to = to < last ? to : last;
    bool bad = false;
    for (int64_t i = 0; i < opt->run_count && offset < to; i++) {
        const rungi_optim_run *run = &opt->runs[i];
        int64_t length = run->end - run->begin;
        int64_t a = from > offset ? from - offset : 0;
        int64_t b = to - offset < length ? to - offset : length;
        for (; a < b; a += piece) {
            int64_t n = b - a < piece ? b - a : piece;
            bad |= update_piece(opt, i, params, grads, u, run->begin + a, run->begin + a + n);
            if (n < piece)
                break;
        }
        offset += length;
    }
    return !bad;
}

// Updates what of block `index` belongs to this part, and sums the squares of its parameters before
// and of the update.
static bool apply_measured(rung_optimizer *opt, float *params, const float *grads,
                           const rung_optimizer_update *u, int64_t index)
{
    const rungi_optim_block *block = &opt->blocks[index];
    int64_t begin = block->begin > opt->part_begin ? block->begin : opt->part_begin;
    int64_t end = block->end < opt->part_end ? block->end : opt->part_end;
    float before[RUNGI_OPTIM_BLOCK];
    double *sums = opt->block_updates[index];
    sums[0] = sums[1] = 0;
    if (begin >= end)
        return true;
    int64_t count = end - begin;
    for (int64_t i = 0; i < count; i++)
        before[i] = params[begin + i];
    bool bad = update_piece(opt, block->run, params, grads, u, begin, end);
    sums[0] = opt->sum_squares(before, count);
    for (int64_t i = 0; i < count; i++)
        before[i] = params[begin + i] - before[i];
    sums[1] = opt->sum_squares(before, count);
    return !bad;
}

static void add_measures(rung_optimizer *opt)
{
    for (int64_t i = 0; i < opt->segment_count; i++) {
        rungi_optim_segment *s = &opt->segments[i];
        s->param_squares = s->update_squares = 0;
        for (int64_t b = s->first_block; b < s->first_block + s->block_count; b++) {
            s->param_squares += opt->block_updates[b][0];
            s->update_squares += opt->block_updates[b][1];
        }
    }
}

typedef struct pass {
    rung_optimizer *opt;
    float *params;
    const float *grads;
    const rung_optimizer_update *u;
    int shares;
    atomic_bool finite;
} pass;

static void measure_block(void *arg, int64_t block)
{
    pass *p = arg;
    if (!apply_measured(p->opt, p->params, p->grads, p->u, block))
        atomic_store(&p->finite, false);
}

static void update_share(void *arg, int64_t share)
{
    pass *p = arg;
    if (!apply_share(p->opt, p->params, p->grads, p->u, (int)share, p->shares))
        atomic_store(&p->finite, false);
}

bool rungi_optimizer_apply(rung_optimizer *opt, float *params, const float *grads,
                           const rung_optimizer_update *u, double scale)
{
    rungi_optimizer_plan(opt);
    place_part(opt);
    for (int64_t i = 0; i < opt->run_count; i++)
        opt->coefs[i] = rungi_optimizer_coef(opt, opt->runs[i].group, opt->runs[i].steps, &u->rates,
                                             scale, rungi_optimizer_limit(u));
    pass p = {opt, params, grads, u, rungi_optimizer_threads(opt, u->threads), true};
    if (u->measure) {
        rungi_optimizer_spread(opt, u->threads, opt->block_count, measure_block, &p);
        add_measures(opt);
    } else {
        rungi_optimizer_spread(opt, u->threads, p.shares, update_share, &p);
    }
    count_step(opt);
    return atomic_load(&p.finite);
}
