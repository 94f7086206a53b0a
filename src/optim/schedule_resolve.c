// SPDX-License-Identifier: Apache-2.0
// Checks of a schedule's parameters, and what they are in words.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "rung/schedule.h"

// Is every one of the keys' numbers within [low, high]? NaN is not.
typedef struct bounds {
    const char *key;
    double value, low, high;
} bounds;

static rung_status check_bounds(const bounds *list, int count)
{
    for (int i = 0; i < count; i++) {
        const bounds *b = &list[i];
        if (b->value >= b->low && b->value <= b->high)
            continue;
        if (b->high < HUGE_VAL)
            return RUNG_FAIL(RUNG_CONFIG, "schedule.%s: %g must be in [%g, %g]", b->key, b->value,
                             b->low, b->high);
        return RUNG_FAIL(RUNG_CONFIG, "schedule.%s: %g must be a number >= %g", b->key, b->value,
                         b->low);
    }
    return RUNG_OK;
}

#define CHECK_BOUNDS(...)                                \
    RUNG_TRY(check_bounds((const bounds[]){__VA_ARGS__}, \
                          (int)(sizeof((const bounds[]){__VA_ARGS__}) / sizeof(bounds))))

static const char *unit_name(rung_schedule_unit unit)
{
    return unit == RUNG_UNIT_EPOCH ? "epochs" : "steps";
}

// A length that is 0 becomes what the run has after the warm-up.
static rung_status default_length(const rung_schedule *s, const char *key, int64_t run,
                                  int64_t *length)
{
    RUNG_CHECK(*length >= 0, RUNG_CONFIG, "schedule.%s: %lld must be > 0", key, (long long)*length);
    if (*length > 0)
        return RUNG_OK;
    RUNG_CHECK(run > s->warmup, RUNG_CONFIG,
               "schedule.warmup: %lld %s leave nothing of a run of %lld; shorten it or set "
               "schedule.%s",
               (long long)s->warmup, unit_name(s->unit), (long long)run, key);
    *length = run - s->warmup;
    return RUNG_OK;
}

static rung_status check_gamma(const rung_schedule *s)
{
    RUNG_CHECK(s->gamma > 0 && isfinite(s->gamma), RUNG_CONFIG,
               "schedule.gamma: %s needs a factor > 0, not %g", rung_schedule_name(s->kind),
               s->gamma);
    return RUNG_OK;
}

static rung_status check_milestones(const rung_schedule *s)
{
    RUNG_TRY(check_gamma(s));
    RUNG_CHECK(s->milestone_count > 0 && s->milestone_count <= RUNG_SCHEDULE_MILESTONES,
               RUNG_CONFIG, "schedule.milestones: multistep needs 1 to %d of them, not %d",
               RUNG_SCHEDULE_MILESTONES, s->milestone_count);
    for (int i = 0; i < s->milestone_count; i++)
        RUNG_CHECK(s->milestones[i] >= (i ? s->milestones[i - 1] : 0), RUNG_CONFIG,
                   "schedule.milestones: %lld must not be smaller than what stands before it",
                   (long long)s->milestones[i]);
    return RUNG_OK;
}

static rung_status resolve_one_cycle(rung_schedule *s, int64_t run)
{
    RUNG_TRY(default_length(s, "total_steps", run, &s->total_steps));
    if (s->max_lr == 0)
        s->max_lr = s->lr;
    CHECK_BOUNDS({"max_lr", s->max_lr, 0, HUGE_VAL}, {"pct_start", s->pct_start, 0, 1},
                 {"base_momentum", s->base_momentum, 0, 1},
                 {"max_momentum", s->max_momentum, 0, 1});
    RUNG_CHECK(s->div_factor > 0 && s->final_div_factor > 0, RUNG_CONFIG,
               "schedule.div_factor, schedule.final_div_factor: %g, %g must be > 0", s->div_factor,
               s->final_div_factor);
    return RUNG_OK;
}

static rung_status check_plateau(const rung_schedule *s)
{
    RUNG_CHECK(s->factor >= 0 && s->factor < 1, RUNG_CONFIG,
               "schedule.factor: %g must be in [0, 1)", s->factor);
    CHECK_BOUNDS({"patience", (double)s->patience, 0, HUGE_VAL},
                 {"threshold", s->threshold, 0, HUGE_VAL},
                 {"cooldown", (double)s->cooldown, 0, HUGE_VAL}, {"min_lr", s->min_lr, 0, HUGE_VAL},
                 {"eps", s->eps, 0, HUGE_VAL});
    return RUNG_OK;
}

static rung_status resolve_kind(rung_schedule *s, int64_t run)
{
    switch (s->kind) {
    case RUNG_SCHEDULE_STEP:
        RUNG_CHECK(s->step_size > 0, RUNG_CONFIG,
                   "schedule.step_size: step needs one > 0, not %lld", (long long)s->step_size);
        return check_gamma(s);
    case RUNG_SCHEDULE_MULTISTEP:
        return check_milestones(s);
    case RUNG_SCHEDULE_EXPONENTIAL:
        return check_gamma(s);
    case RUNG_SCHEDULE_POLYNOMIAL:
        CHECK_BOUNDS({"power", s->power, 0, HUGE_VAL});
        return default_length(s, "total_iters", run, &s->total_iters);
    case RUNG_SCHEDULE_COSINE:
        CHECK_BOUNDS({"eta_min", s->eta_min, 0, HUGE_VAL});
        return default_length(s, "T_max", run, &s->T_max);
    case RUNG_SCHEDULE_ONE_CYCLE:
        return resolve_one_cycle(s, run);
    case RUNG_SCHEDULE_PLATEAU:
        return check_plateau(s);
    default:
        return RUNG_OK;
    }
}

rung_status rung_schedule_resolve(const rung_schedule *schedule, int64_t total_steps,
                                  int64_t steps_per_epoch, rung_schedule *out)
{
    rung_schedule s = *schedule;
    RUNG_CHECK((unsigned)s.kind < RUNG_SCHEDULE_COUNT, RUNG_CONFIG,
               "schedule.name: no schedule number %d", (int)s.kind);
    RUNG_CHECK(total_steps > 0 && steps_per_epoch > 0, RUNG_INVALID,
               "a schedule for a run of %lld steps, %lld in an epoch", (long long)total_steps,
               (long long)steps_per_epoch);
    RUNG_CHECK(s.lr >= 0 && isfinite(s.lr), RUNG_CONFIG, "optim.lr: %g must be a number >= 0",
               s.lr);
    CHECK_BOUNDS({"warmup", (double)s.warmup, 0, HUGE_VAL}, {"start_factor", s.start_factor, 0, 1});
    if (s.unit == RUNG_UNIT_AUTO)
        s.unit = s.kind == RUNG_SCHEDULE_ONE_CYCLE ? RUNG_UNIT_STEP : RUNG_UNIT_EPOCH;
    s.steps_per_epoch = steps_per_epoch;
    int64_t epochs = (total_steps - 1) / steps_per_epoch + 1;
    RUNG_TRY(resolve_kind(&s, s.unit == RUNG_UNIT_EPOCH ? epochs : total_steps));
    *out = s;
    return RUNG_OK;
}

static void add_kind(rungi_string *text, const rung_schedule *s)
{
    switch (s->kind) {
    case RUNG_SCHEDULE_STEP:
        rungi_string_add(text, " step_size=%lld gamma=%.12g", (long long)s->step_size, s->gamma);
        break;
    case RUNG_SCHEDULE_MULTISTEP:
        rungi_string_add(text, " milestones=");
        for (int i = 0; i < s->milestone_count; i++)
            rungi_string_add(text, "%s%lld", i ? "," : "", (long long)s->milestones[i]);
        rungi_string_add(text, " gamma=%.12g", s->gamma);
        break;
    case RUNG_SCHEDULE_EXPONENTIAL:
        rungi_string_add(text, " gamma=%.12g", s->gamma);
        break;
    case RUNG_SCHEDULE_POLYNOMIAL:
        rungi_string_add(text, " total_iters=%lld power=%.12g", (long long)s->total_iters,
                         s->power);
        break;
    case RUNG_SCHEDULE_COSINE:
        rungi_string_add(text, " T_max=%lld eta_min=%.12g", (long long)s->T_max, s->eta_min);
        break;
    case RUNG_SCHEDULE_ONE_CYCLE:
        rungi_string_add(text,
                         " total_steps=%lld max_lr=%.12g pct_start=%.12g anneal_strategy=%s "
                         "div_factor=%.12g final_div_factor=%.12g",
                         (long long)s->total_steps, s->max_lr, s->pct_start,
                         s->anneal_strategy == RUNG_ANNEAL_COS ? "cos" : "linear", s->div_factor,
                         s->final_div_factor);
        if (s->cycle_momentum)
            rungi_string_add(text, " momentum=%.12g..%.12g", s->base_momentum, s->max_momentum);
        break;
    case RUNG_SCHEDULE_PLATEAU:
        rungi_string_add(text,
                         " mode=%s factor=%.12g patience=%lld threshold=%.12g threshold_mode=%s "
                         "cooldown=%lld min_lr=%.12g eps=%.12g",
                         s->mode == RUNG_PLATEAU_MIN ? "min" : "max", s->factor,
                         (long long)s->patience, s->threshold,
                         s->threshold_mode == RUNG_THRESHOLD_REL ? "rel" : "abs",
                         (long long)s->cooldown, s->min_lr, s->eps);
        break;
    default:
        break;
    }
}

char *rung_schedule_text(const rung_schedule *s, char *out, size_t size)
{
    rungi_string text = {0};
    rungi_string_add(&text, "%s lr=%.12g", rung_schedule_name(s->kind), s->lr);
    add_kind(&text, s);
    if (s->unit == RUNG_UNIT_EPOCH)
        rungi_string_add(&text, ", in epochs of %lld steps", (long long)s->steps_per_epoch);
    else
        rungi_string_add(&text, ", in steps");
    if (s->warmup > 0)
        rungi_string_add(&text, ", warm-up %lld from %.12g", (long long)s->warmup, s->start_factor);
    snprintf(out, size, "%s", rungi_string_text(&text));
    rungi_string_fini(&text);
    return out;
}

char *rung_schedule_state_text(const rung_schedule_state *state, char *out, size_t size)
{
    snprintf(out, size, "lr=%a best=%a num_bad_epochs=%lld cooldown_counter=%lld", state->lr,
             state->best, (long long)state->num_bad_epochs, (long long)state->cooldown_counter);
    return out;
}

rung_status rung_schedule_state_parse(const char *text, rung_schedule_state *state_out)
{
    rung_schedule_state state;
    long long bad, cooldown;
    int end = -1;
    int found = sscanf(text, "lr=%la best=%la num_bad_epochs=%lld cooldown_counter=%lld%n",
                       &state.lr, &state.best, &bad, &cooldown, &end);
    RUNG_CHECK(found == 4 && text[end] == 0 && state.lr >= 0 && bad >= 0 && cooldown >= 0,
               RUNG_FORMAT, "schedule state: cannot read \"%s\"", text);
    state.num_bad_epochs = bad;
    state.cooldown_counter = cooldown;
    *state_out = state;
    return RUNG_OK;
}
