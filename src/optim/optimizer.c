// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"

static const char *const optimizer_names[RUNG_OPTIMIZER_COUNT] = {
#define OPTIMIZER_NAME(id, name) name,
    RUNG_OPTIMIZER_MAP(OPTIMIZER_NAME)
#undef OPTIMIZER_NAME
};

const char *rung_optimizer_name(rung_optimizer_kind kind)
{
    return (unsigned)kind < RUNG_OPTIMIZER_COUNT ? optimizer_names[kind] : "unknown";
}

rung_status rung_optimizer_find(const char *name, rung_optimizer_kind *kind_out)
{
    for (int i = 0; i < RUNG_OPTIMIZER_COUNT; i++) {
        if (strcmp(name, optimizer_names[i]) == 0) {
            *kind_out = (rung_optimizer_kind)i;
            return RUNG_OK;
        }
    }
    const char *near = rungi_text_nearest(name, optimizer_names, RUNG_OPTIMIZER_COUNT);
    if (near)
        return RUNG_FAIL(RUNG_CONFIG, "optim.name: no optimizer \"%s\"; did you mean \"%s\"?", name,
                         near);
    return RUNG_FAIL(RUNG_CONFIG, "optim.name: no optimizer \"%s\"; there are sgd, adam and adamw",
                     name);
}

rung_optimizer_options rung_optimizer_defaults(rung_optimizer_kind kind)
{
    rung_optimizer_options options = {.kind = kind, .lr = 1e-3};
    if (kind != RUNG_OPTIMIZER_SGD) {
        options.betas[0] = 0.9;
        options.betas[1] = 0.999;
        options.eps = 1e-8;
    }
    if (kind == RUNG_OPTIMIZER_ADAMW)
        options.weight_decay = 1e-2;
    return options;
}

// Refuses NaN too.
static rung_status check_not_negative(const char *key, double value)
{
    RUNG_CHECK(value >= 0 && isfinite(value), RUNG_CONFIG, "%s: %g must be a number >= 0", key,
               value);
    return RUNG_OK;
}

static rung_status check_sgd(const rung_optimizer_options *o)
{
    RUNG_TRY(check_not_negative("optim.momentum", o->momentum));
    RUNG_CHECK(isfinite(o->dampening), RUNG_CONFIG, "optim.dampening: %g is not a number",
               o->dampening);
    RUNG_CHECK(!o->nesterov || o->momentum > 0, RUNG_CONFIG,
               "optim.nesterov: needs optim.momentum > 0");
    RUNG_CHECK(!o->nesterov || o->dampening == 0, RUNG_CONFIG,
               "optim.nesterov: needs optim.dampening = 0, not %g", o->dampening);
    return RUNG_OK;
}

static rung_status check_adam(const rung_optimizer_options *o)
{
    for (int i = 0; i < 2; i++)
        RUNG_CHECK(o->betas[i] >= 0 && o->betas[i] < 1, RUNG_CONFIG,
                   "optim.betas[%d]: %g must be in [0, 1)", i, o->betas[i]);
    RUNG_TRY(check_not_negative("optim.eps", o->eps));
    RUNG_CHECK(o->betas[0] != 0 || o->betas[1] != 0 || o->eps != 0, RUNG_CONFIG,
               "optim.betas and optim.eps are all 0: start from rung_optimizer_defaults()");
    return RUNG_OK;
}

static rung_status check_options(const rung_optimizer_options *o)
{
    RUNG_CHECK((unsigned)o->kind < RUNG_OPTIMIZER_COUNT, RUNG_CONFIG,
               "optim.name: no optimizer number %d", (int)o->kind);
    RUNG_TRY(check_not_negative("optim.lr", o->lr));
    RUNG_TRY(check_not_negative("optim.weight_decay", o->weight_decay));
    RUNG_TRY(o->kind == RUNG_OPTIMIZER_SGD ? check_sgd(o) : check_adam(o));
    RUNG_CHECK(o->group_count >= 0 && (o->group_count == 0 || o->groups), RUNG_INVALID,
               "optim.groups: %d groups without a list", o->group_count);
    for (int i = 0; i < o->group_count; i++) {
        const rung_param_group *g = &o->groups[i];
        RUNG_CHECK(g->lr_multiplier > 0 && isfinite(g->lr_multiplier), RUNG_CONFIG,
                   "optim.groups[%d].lr_multiplier: %g must be > 0 (freeze parameters that shall "
                   "not learn)",
                   i, g->lr_multiplier);
        RUNG_CHECK(g->weight_decay >= 0 && isfinite(g->weight_decay), RUNG_CONFIG,
                   "optim.groups[%d].weight_decay: %g must be a number >= 0", i, g->weight_decay);
    }
    return RUNG_OK;
}

static rung_status check_segments(const rung_optimizer_options *o, const rung_segment *segments,
                                  int64_t count)
{
    RUNG_CHECK(count >= 0 && (count == 0 || segments), RUNG_INVALID,
               "an optimizer for %lld segments without a list", (long long)count);
    int64_t end = 0;
    for (int64_t i = 0; i < count; i++) {
        const rung_segment *s = &segments[i];
        const char *name = s->name ? s->name : "";
        RUNG_CHECK(s->begin >= end && s->end >= s->begin, RUNG_INVALID,
                   "segment %lld (%s): [%lld, %lld) must follow the one before, which ends at %lld",
                   (long long)i, name, (long long)s->begin, (long long)s->end, (long long)end);
        RUNG_CHECK(s->group >= 0 && s->group <= o->group_count, RUNG_INVALID,
                   "segment %lld (%s): group %d, but there are %d", (long long)i, name, s->group,
                   o->group_count);
        end = s->end;
    }
    return RUNG_OK;
}

int rungi_optimizer_states(const rung_optimizer_options *options)
{
    if (options->kind == RUNG_OPTIMIZER_SGD)
        return options->momentum > 0 ? 1 : 0;
    return 2;
}

static void *zeroed(int64_t count, size_t size)
{
    size_t bytes;
    if (!rungi_size_mul((size_t)count, size, &bytes) || !rungi_size_round(bytes, 64, &bytes))
        return NULL;
    void *memory = aligned_alloc(64, bytes ? bytes : 64);
    if (memory)
        memset(memory, 0, bytes);
    return memory;
}

static rung_status copy_groups(rung_optimizer *opt)
{
    const rung_optimizer_options *o = &opt->options;
    opt->groups = calloc((size_t)o->group_count + 1, sizeof *opt->groups);
    RUNG_CHECK(opt->groups, RUNG_NO_MEMORY, "no memory for an optimizer");
    opt->groups[0] = (rung_param_group){.lr_multiplier = 1, .weight_decay = o->weight_decay};
    for (int i = 0; i < o->group_count; i++)
        opt->groups[i + 1] = o->groups[i];
    opt->options.groups = opt->groups + 1;
    return RUNG_OK;
}

static rung_status copy_segments(rung_optimizer *opt, const rung_segment *segments, int64_t count)
{
    opt->segments = zeroed(count, sizeof *opt->segments);
    opt->runs = zeroed(count, sizeof *opt->runs);
    opt->coefs = zeroed(count, sizeof *opt->coefs);
    RUNG_CHECK(opt->segments && opt->runs && opt->coefs, RUNG_NO_MEMORY,
               "no memory for an optimizer of %lld segments", (long long)count);
    int64_t blocks = 0;
    for (int64_t i = 0; i < count; i++) {
        const rung_segment *from = &segments[i];
        rungi_optim_segment *to = &opt->segments[i];
        *to = (rungi_optim_segment){.name = rungi_text_copy(from->name ? from->name : ""),
                                    .begin = from->begin,
                                    .end = from->end,
                                    .group = from->group,
                                    .frozen = from->frozen};
        RUNG_CHECK(to->name, RUNG_NO_MEMORY, "no memory for an optimizer");
        opt->segment_count = i + 1;
        opt->size = to->end;
        blocks += (to->end - to->begin) / RUNGI_OPTIM_BLOCK + 1;
    }
    opt->blocks = zeroed(blocks, sizeof *opt->blocks);
    opt->block_sums = zeroed(blocks, sizeof *opt->block_sums);
    RUNG_CHECK(opt->blocks && opt->block_sums, RUNG_NO_MEMORY, "no memory for an optimizer");
    return RUNG_OK;
}

static rung_status make_state(rung_optimizer *opt, float *const *state)
{
    opt->state_count = rungi_optimizer_states(&opt->options);
    opt->owns_state = !state;
    for (int i = 0; i < opt->state_count; i++) {
        int64_t count = opt->part_end - opt->part_begin;
        opt->state[i] = state ? state[i] : zeroed(count, sizeof(float));
        RUNG_CHECK(opt->state[i], RUNG_NO_MEMORY,
                   "no memory for the optimizer's state %s (%lld numbers)",
                   rung_optimizer_state_name(opt, i), (long long)count);
    }
    return RUNG_OK;
}

static void choose_kernels(rung_optimizer *opt, rung_isa isa)
{
    const rungi_step_kernels *kernels = rungi_step_kernels_for(isa);
    const rung_optimizer_options *o = &opt->options;
    opt->sum_squares = kernels->sum_squares;
    opt->to_bf16 = kernels->to_bf16;
    opt->step_scaled = kernels->sgd_scaled;
    if (o->kind != RUNG_OPTIMIZER_SGD)
        opt->step = kernels->adam;
    else if (o->nesterov)
        opt->step = kernels->sgd_nesterov;
    else
        opt->step = o->momentum > 0 ? kernels->sgd_momentum : kernels->sgd;
}

// `end` -1: all elements.
static rung_status create(const rung_context *context, const rung_optimizer_options *options,
                          const rung_segment *segments, int64_t count, float *const *state,
                          int64_t begin, int64_t end, rung_optimizer **optimizer_out)
{
    RUNG_TRY(check_options(options));
    RUNG_TRY(check_segments(options, segments, count));
    rung_optimizer *opt = calloc(1, sizeof *opt);
    RUNG_CHECK(opt, RUNG_NO_MEMORY, "no memory for an optimizer");
    rung_status status;
    opt->options = *options;
    RUNG_TRY_GOTO(destroy, copy_groups(opt));
    RUNG_TRY_GOTO(destroy, copy_segments(opt, segments, count));
    opt->part_begin = begin;
    opt->part_end = end < 0 || end > opt->size ? opt->size : end;
    if (opt->part_begin > opt->part_end)
        opt->part_begin = opt->part_end;
    RUNG_TRY_GOTO(destroy, make_state(opt, state));
    choose_kernels(opt, rung_context_isa(context));
    *optimizer_out = opt;
    return RUNG_OK;

destroy:
    rung_optimizer_destroy(&opt);
    return status;
}

rung_status rungi_optimizer_create_in(const rung_context *context,
                                      const rung_optimizer_options *options,
                                      const rung_segment *segments, int64_t count,
                                      float *const *state, rung_optimizer **optimizer_out)
{
    return create(context, options, segments, count, state, 0, -1, optimizer_out);
}

rung_status rungi_optimizer_create_part(const rung_context *context,
                                        const rung_optimizer_options *options,
                                        const rung_segment *segments, int64_t count, int64_t begin,
                                        int64_t end, float *const *state,
                                        rung_optimizer **optimizer_out)
{
    RUNG_CHECK(begin >= 0 && begin % 16 == 0 && end >= begin, RUNG_INVALID,
               "an optimizer cannot have the part [%lld, %lld)", (long long)begin, (long long)end);
    return create(context, options, segments, count, state, begin, end, optimizer_out);
}

rung_status rung_optimizer_create(const rung_context *context,
                                  const rung_optimizer_options *options,
                                  const rung_segment *segments, int64_t count,
                                  rung_optimizer **optimizer_out)
{
    return rungi_optimizer_create_in(context, options, segments, count, NULL, optimizer_out);
}

void rung_optimizer_destroy(rung_optimizer **optimizer)
{
    if (!optimizer || !*optimizer)
        return;
    rung_optimizer *opt = *optimizer;
    for (int64_t i = 0; i < opt->segment_count; i++)
        free(opt->segments[i].name);
    for (int i = 0; opt->owns_state && i < opt->state_count; i++)
        free(opt->state[i]);
    free(opt->segments);
    free(opt->runs);
    free(opt->coefs);
    free(opt->blocks);
    free(opt->block_sums);
    free(opt->block_updates);
    free(opt->groups);
    free(opt);
    *optimizer = NULL;
}

int rung_optimizer_state_count(const rung_optimizer *optimizer)
{
    return optimizer->state_count;
}

const char *rung_optimizer_state_name(const rung_optimizer *optimizer, int index)
{
    if (optimizer->options.kind == RUNG_OPTIMIZER_SGD)
        return "momentum_buffer";
    return index == 0 ? "exp_avg" : "exp_avg_sq";
}

float *rung_optimizer_state_data(const rung_optimizer *optimizer, int index)
{
    bool whole = optimizer->part_begin == 0 && optimizer->part_end == optimizer->size;
    return whole ? optimizer->state[index] : NULL;
}

float *rungi_optimizer_part_state(const rung_optimizer *opt, int index, int64_t *begin_out,
                                  int64_t *end_out)
{
    *begin_out = opt->part_begin;
    *end_out = opt->part_end;
    return opt->state[index];
}

int64_t rung_optimizer_steps(const rung_optimizer *optimizer, int64_t segment)
{
    return optimizer->segments[segment].steps;
}

void rung_optimizer_set_steps(rung_optimizer *optimizer, int64_t segment, int64_t steps)
{
    optimizer->segments[segment].steps = steps;
    optimizer->planned = false;
}

void rung_optimizer_freeze(rung_optimizer *optimizer, int64_t segment, bool frozen)
{
    optimizer->segments[segment].frozen = frozen;
    optimizer->planned = false;
}

double rung_optimizer_segment_norm(const rung_optimizer *optimizer, int64_t segment)
{
    return optimizer->segments[segment].norm;
}

void rung_optimizer_segment_update(const rung_optimizer *optimizer, int64_t segment,
                                   double *params_out, double *update_out)
{
    *params_out = optimizer->segments[segment].param_squares;
    *update_out = optimizer->segments[segment].update_squares;
}
