// SPDX-License-Identifier: Apache-2.0
// The formulas are PyTorch's closed forms (_get_closed_form_lr), not its recurrences from rate to
// rate, so that no rounding depends on where a run began.
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "rung/schedule.h"

static const double pi = 3.141592653589793;

static const char *const schedule_names[RUNG_SCHEDULE_COUNT] = {
#define SCHEDULE_NAME(id, name) name,
    RUNG_SCHEDULE_MAP(SCHEDULE_NAME)
#undef SCHEDULE_NAME
};

const char *rung_schedule_name(rung_schedule_kind kind)
{
    return (unsigned)kind < RUNG_SCHEDULE_COUNT ? schedule_names[kind] : "unknown";
}

rung_status rung_schedule_find(const char *name, rung_schedule_kind *kind_out)
{
    for (int i = 0; i < RUNG_SCHEDULE_COUNT; i++) {
        if (strcmp(name, schedule_names[i]) == 0) {
            *kind_out = (rung_schedule_kind)i;
            return RUNG_OK;
        }
    }
    const char *near = rungi_text_nearest(name, schedule_names, RUNG_SCHEDULE_COUNT);
    return RUNG_FAIL(RUNG_CONFIG, "schedule.name: no schedule \"%s\"%s%s%s", name,
                     near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

rung_schedule rung_schedule_defaults(rung_schedule_kind kind)
{
    return (rung_schedule){
        .kind = kind,
        .lr = 1e-3,
        .start_factor = 1.0 / 3,
        .gamma = kind == RUNG_SCHEDULE_EXPONENTIAL ? 0 : 0.1,
        .power = 1,
        .pct_start = 0.3,
        .div_factor = 25,
        .final_div_factor = 1e4,
        .cycle_momentum = true,
        .base_momentum = 0.85,
        .max_momentum = 0.95,
        .factor = 0.1,
        .patience = 10,
        .threshold = 1e-4,
        .eps = 1e-8,
    };
}

static double anneal(rung_anneal strategy, double from, double to, double part)
{
    if (strategy == RUNG_ANNEAL_LINEAR)
        return (to - from) * part + from;
    return to + (from - to) / 2 * (cos(pi * part) + 1);
}

static rung_rates one_cycle(const rung_schedule *s, int64_t t)
{
    double peak_at = s->pct_start * (double)s->total_steps - 1, end = (double)s->total_steps - 1;
    double first = s->max_lr / s->div_factor, last = first / s->final_div_factor;
    bool rising = (double)t <= peak_at;
    double from = rising ? 0 : peak_at, to = rising ? peak_at : end;
    double part = to > from ? ((double)t - from) / (to - from) : 1;
    part = part < 1 ? part : 1;
    rung_rates rates = {.cycles_momentum = s->cycle_momentum};
    if (rising) {
        rates.lr = anneal(s->anneal_strategy, first, s->max_lr, part);
        rates.momentum = anneal(s->anneal_strategy, s->max_momentum, s->base_momentum, part);
    } else {
        rates.lr = anneal(s->anneal_strategy, s->max_lr, last, part);
        rates.momentum = anneal(s->anneal_strategy, s->base_momentum, s->max_momentum, part);
    }
    return rates;
}

// The rate at position t of the schedule proper.
static double closed_form(const rung_schedule *s, int64_t t)
{
    switch (s->kind) {
    case RUNG_SCHEDULE_STEP:
        return s->lr * pow(s->gamma, (double)(t / s->step_size));
    case RUNG_SCHEDULE_MULTISTEP: {
        int passed = 0;
        while (passed < s->milestone_count && s->milestones[passed] <= t)
            passed++;
        return s->lr * pow(s->gamma, passed);
    }
    case RUNG_SCHEDULE_EXPONENTIAL:
        return s->lr * pow(s->gamma, (double)t);
    case RUNG_SCHEDULE_POLYNOMIAL: {
        double done = (double)(t < s->total_iters ? t : s->total_iters) / (double)s->total_iters;
        return s->lr * pow(1 - done, s->power);
    }
    case RUNG_SCHEDULE_COSINE:
        return s->eta_min + (s->lr - s->eta_min) * (1 + cos(pi * (double)t / (double)s->T_max)) / 2;
    default:
        return s->lr;
    }
}

// Whole units that lie before `step`.
static int64_t position(const rung_schedule *s, int64_t step)
{
    return s->unit == RUNG_UNIT_EPOCH ? step / s->steps_per_epoch : step;
}

rung_rates rung_schedule_rates(const rung_schedule *s, const rung_schedule_state *state,
                               int64_t step)
{
    int64_t t = position(s, step);
    rung_rates start = s->kind == RUNG_SCHEDULE_ONE_CYCLE ? one_cycle(s, 0)
                                                          : (rung_rates){.lr = closed_form(s, 0)};
    if (t < s->warmup) {
        double part = (double)t / (double)s->warmup;
        start.lr *= s->start_factor + (1 - s->start_factor) * part;
        return start;
    }
    if (s->kind == RUNG_SCHEDULE_PLATEAU)
        return (rung_rates){.lr = state->lr};
    if (s->kind == RUNG_SCHEDULE_ONE_CYCLE)
        return one_cycle(s, t - s->warmup);
    return (rung_rates){.lr = closed_form(s, t - s->warmup)};
}

rung_schedule_state rung_schedule_start(const rung_schedule *s)
{
    return (rung_schedule_state){.lr = s->lr,
                                 .best = s->mode == RUNG_PLATEAU_MIN ? INFINITY : -INFINITY};
}

static bool is_better(const rung_schedule *s, double metric, double best)
{
    bool relative = s->threshold_mode == RUNG_THRESHOLD_REL;
    if (s->mode == RUNG_PLATEAU_MIN)
        return metric < (relative ? best * (1 - s->threshold) : best - s->threshold);
    return metric > (relative ? best * (1 + s->threshold) : best + s->threshold);
}

void rung_schedule_observe(const rung_schedule *s, rung_schedule_state *state, int64_t steps_done,
                           double metric)
{
    int64_t unit = s->unit == RUNG_UNIT_EPOCH ? s->steps_per_epoch : 1;
    if (s->kind != RUNG_SCHEDULE_PLATEAU || steps_done <= s->warmup * unit)
        return;
    if (is_better(s, metric, state->best)) {
        state->best = metric;
        state->num_bad_epochs = 0;
    } else {
        state->num_bad_epochs++;
    }
    if (state->cooldown_counter > 0) {
        state->cooldown_counter--;
        state->num_bad_epochs = 0;
    }
    if (state->num_bad_epochs <= s->patience)
        return;
    double reduced = state->lr * s->factor;
    reduced = reduced > s->min_lr ? reduced : s->min_lr;
    if (state->lr - reduced > s->eps)
        state->lr = reduced;
    state->cooldown_counter = s->cooldown;
    state->num_bad_epochs = 0;
}
