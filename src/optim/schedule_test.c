// SPDX-License-Identifier: Apache-2.0
// Rates against torch.optim.lr_scheduler (tests/fixtures/schedules.txt, made by
// tools/fixtures/optim.py), and C53.
#include "testing.h"

#include <math.h>
#include <stdio.h>

#include "rung/schedule.h"

enum { COUNT = 100 };

// Reads line "KIND NAME 100 numbers" of the fixture.
static void read_list(const char *kind, const char *name, double *out)
{
    FILE *file = fopen(RUNG_SOURCE_DIR "/tests/fixtures/schedules.txt", "r");
    assert_non_null(file);
    static char line[8192];
    char wanted[80];
    snprintf(wanted, sizeof wanted, "%s %s %d ", kind, name, COUNT);
    bool found = false;
    while (!found && fgets(line, sizeof line, file))
        found = strncmp(line, wanted, strlen(wanted)) == 0;
    fclose(file);
    if (!found)
        fail_msg("no %s in the fixture", wanted);
    char *at = line + strlen(wanted);
    for (int i = 0; i < COUNT; i++)
        out[i] = strtod(at, &at);
}

// The schedules of the script, by name. `name` may begin with "warm_".
static rung_schedule schedule_of(const char *name)
{
    bool warm = strncmp(name, "warm_", 5) == 0;
    name += warm ? 5 : 0;
    // the kind is the longest one with which the name begins
    int kind = -1;
    for (int i = 0; i < RUNG_SCHEDULE_COUNT; i++)
        if (strncmp(name, rung_schedule_name((rung_schedule_kind)i),
                    strlen(rung_schedule_name((rung_schedule_kind)i))) == 0)
            kind = i;
    assert_true(kind >= 0);
    rung_schedule s = rung_schedule_defaults((rung_schedule_kind)kind);
    s.lr = 0.1;
    s.warmup = warm ? 10 : 0;
    s.start_factor = 0.01;
    if (s.kind == RUNG_SCHEDULE_STEP)
        s.step_size = 17, s.gamma = 0.3;
    if (s.kind == RUNG_SCHEDULE_MULTISTEP) {
        s.milestone_count = 4, s.gamma = 0.5;
        memcpy(s.milestones, (int64_t[]){5, 30, 30, 80}, 4 * sizeof(int64_t));
    }
    if (s.kind == RUNG_SCHEDULE_EXPONENTIAL)
        s.gamma = 0.93;
    if (strcmp(name, "polynomial") == 0)
        s.total_iters = 90, s.power = 1.7;
    if (strcmp(name, "polynomial_linear") == 0)
        s.total_iters = 100;
    if (strcmp(name, "cosine") == 0)
        s.T_max = 100, s.eta_min = 1e-3;
    if (strcmp(name, "cosine_again") == 0)
        s.T_max = 30;
    if (strcmp(name, "one_cycle_linear") == 0) {
        s.anneal_strategy = RUNG_ANNEAL_LINEAR;
        s.pct_start = 0.25, s.div_factor = 10, s.final_div_factor = 100;
    }
    if (strcmp(name, "plateau_max") == 0) {
        s.mode = RUNG_PLATEAU_MAX, s.factor = 0.5, s.patience = 3, s.threshold = 0.01;
        s.cooldown = 4, s.min_lr = 2e-3;
    }
    if (strcmp(name, "plateau_abs") == 0) {
        s.threshold_mode = RUNG_THRESHOLD_ABS;
        s.factor = 0.3, s.patience = 2, s.threshold = 0.02, s.cooldown = 1;
    }
    if (strcmp(name, "plateau_max_abs") == 0) {
        s.mode = RUNG_PLATEAU_MAX, s.threshold_mode = RUNG_THRESHOLD_ABS;
        s.factor = 0.7, s.patience = 1, s.threshold = 0.02;
    }
    return s;
}

static const char *const names[] = {
    "constant",
    "warm_constant",
    "step",
    "warm_step",
    "multistep",
    "warm_multistep",
    "exponential",
    "warm_exponential",
    "polynomial",
    "warm_polynomial",
    "polynomial_linear",
    "warm_polynomial_linear",
    "cosine",
    "warm_cosine",
    "cosine_again",
    "warm_cosine_again",
    "one_cycle",
    "one_cycle_linear",
    "plateau",
    "plateau_max",
    "plateau_abs",
    "plateau_max_abs",
};
enum { NAMES = sizeof names / sizeof *names };

// 100 rates in units of one step; the second half after a resume in the middle when asked for.
static void list_rates(const char *name, int resume_at, rung_rates *out)
{
    double metrics[COUNT];
    read_list("metrics", "falling", metrics);
    rung_schedule s = schedule_of(name);
    s.unit = RUNG_UNIT_STEP;
    assert_ok(rung_schedule_resolve(&s, COUNT, 10, &s));
    rung_schedule_state plateau = rung_schedule_start(&s);
    for (int t = 0; t < COUNT; t++) {
        if (t == resume_at) { // all that a checkpoint keeps
            char text[RUNG_SCHEDULE_TEXT];
            rung_schedule_state_text(&plateau, text, sizeof text);
            memset(&plateau, 0, sizeof plateau);
            assert_ok(rung_schedule_state_parse(text, &plateau));
            s = schedule_of(name);
            s.unit = RUNG_UNIT_STEP;
            assert_ok(rung_schedule_resolve(&s, COUNT, 10, &s));
        }
        out[t] = rung_schedule_rates(&s, &plateau, t);
        rung_schedule_observe(&s, &plateau, t + 1,
                              s.mode == RUNG_PLATEAU_MAX ? -metrics[t] : metrics[t]);
    }
}

static void assert_close(const char *name, int t, double ours, double theirs)
{
    if (!(fabs(ours - theirs) <= 1e-12 * fabs(theirs)))
        fail_msg("%s at %d: %.17g, PyTorch %.17g", name, t, ours, theirs);
}

static void equals_pytorch(void **state)
{
    (void)state;
    for (int n = 0; n < NAMES; n++) {
        rung_rates ours[COUNT];
        double theirs[COUNT], momenta[COUNT];
        list_rates(names[n], -1, ours);
        read_list("rates", names[n], theirs);
        bool cycles = strncmp(names[n], "one_cycle", 9) == 0;
        if (cycles)
            read_list("momenta", names[n], momenta);
        for (int t = 0; t < COUNT; t++) {
            assert_close(names[n], t, ours[t].lr, theirs[t]);
            assert_int_equal(ours[t].cycles_momentum, cycles);
            if (cycles)
                assert_close(names[n], t, ours[t].momentum, momenta[t]);
        }
    }
}

// C53: the list of 100 rates from one run equals, bit for bit, that from 45 + 55.
static void resumes_bit_for_bit(void **state)
{
    (void)state;
    for (int n = 0; n < NAMES; n++) {
        rung_rates whole[COUNT], parts[COUNT];
        list_rates(names[n], -1, whole);
        list_rates(names[n], 45, parts);
        for (int t = 0; t < COUNT; t++)
            assert_true(whole[t].lr == parts[t].lr && whole[t].momentum == parts[t].momentum);
    }
}

static void epochs_are_steps_of_the_rate(void **state)
{
    (void)state;
    rung_schedule s = schedule_of("warm_cosine"), by_step = s;
    s.T_max = by_step.T_max = 0;
    by_step.unit = RUNG_UNIT_STEP;
    assert_ok(rung_schedule_resolve(&s, 7 * 100 - 3, 7, &s)); // the last epoch is incomplete
    assert_ok(rung_schedule_resolve(&by_step, 100, 7, &by_step));
    assert_int_equal(s.unit, RUNG_UNIT_EPOCH);
    assert_int_equal(s.T_max, 90);
    for (int64_t step = 0; step < 697; step++)
        assert_true(rung_schedule_rates(&s, NULL, step).lr ==
                    rung_schedule_rates(&by_step, NULL, step / 7).lr);
    rung_schedule cycle = schedule_of("one_cycle");
    assert_ok(rung_schedule_resolve(&cycle, 697, 7, &cycle));
    assert_int_equal(cycle.unit, RUNG_UNIT_STEP);
    assert_int_equal(cycle.total_steps, 697);
    // what PyTorch refuses: the last rate is held
    assert_true(rung_schedule_rates(&cycle, NULL, 696).lr ==
                rung_schedule_rates(&cycle, NULL, 1000).lr);
    assert_near(rung_schedule_rates(&cycle, NULL, 1000).lr, 0.1 / 25 / 1e4, 1e-18);
}

static void plateau_begins_after_the_warm_up(void **state)
{
    (void)state;
    rung_schedule s = schedule_of("warm_plateau");
    s.patience = 0;
    assert_ok(rung_schedule_resolve(&s, 200, 4, &s));
    rung_schedule_state plateau = rung_schedule_start(&s);
    rung_schedule_observe(&s, &plateau, 40, 1); // after the tenth epoch, the last of the warm-up
    assert_true(isinf(plateau.best));
    rung_schedule_observe(&s, &plateau, 44, 1);
    rung_schedule_observe(&s, &plateau, 48, NAN); // no better than anything
    assert_true(plateau.best == 1);
    assert_near(plateau.lr, 0.01, 1e-15);
    assert_near(rung_schedule_rates(&s, &plateau, 0).lr, 0.001, 1e-15);
    assert_near(rung_schedule_rates(&s, &plateau, 48).lr, 0.01, 1e-15);
}

#define REFUSES(name, text, field, ...)                                            \
    do {                                                                           \
        rung_schedule s_ = schedule_of(name);                                      \
        s_.field = __VA_ARGS__;                                                    \
        assert_fails(RUNG_CONFIG, text, rung_schedule_resolve(&s_, 100, 10, &s_)); \
    } while (0)

static void refuses_bad_parameters(void **state)
{
    (void)state;
    REFUSES("constant", "optim.lr: -0.1", lr, -0.1);
    REFUSES("constant", "schedule.warmup: -1", warmup, -1);
    REFUSES("constant", "schedule.start_factor", start_factor, 2);
    REFUSES("step", "schedule.step_size", step_size, 0);
    REFUSES("step", "schedule.gamma", gamma, NAN);
    REFUSES("exponential", "schedule.gamma: exponential needs", gamma, 0);
    REFUSES("multistep", "schedule.milestones", milestone_count, 0);
    REFUSES("multistep", "schedule.milestones: 4", milestones[1], 4);
    REFUSES("polynomial", "schedule.power", power, -1);
    REFUSES("polynomial", "schedule.total_iters", total_iters, -1);
    REFUSES("cosine", "schedule.eta_min", eta_min, -1);
    REFUSES("cosine", "schedule.T_max", T_max, -1);
    REFUSES("one_cycle", "schedule.pct_start: 1.5 must be in [0, 1]", pct_start, 1.5);
    REFUSES("one_cycle", "schedule.div_factor", div_factor, 0);
    REFUSES("plateau", "schedule.factor: 1", factor, 1);
    REFUSES("plateau", "schedule.patience", patience, -1);
    rung_schedule s = schedule_of("warm_cosine");
    s.T_max = 0;
    assert_fails(RUNG_CONFIG, "schedule.warmup: 10 epochs leave nothing of a run of 10",
                 rung_schedule_resolve(&s, 100, 10, &s));
    rung_schedule_kind kind;
    assert_fails(RUNG_CONFIG, "did you mean \"cosine\"", rung_schedule_find("cosin", &kind));
    assert_ok(rung_schedule_find("one_cycle", &kind));
    assert_int_equal(kind, RUNG_SCHEDULE_ONE_CYCLE);
}

static void texts(void **state)
{
    (void)state;
    char a[RUNG_SCHEDULE_TEXT], b[RUNG_SCHEDULE_TEXT];
    for (int n = 0; n < NAMES; n++) {
        rung_schedule s = schedule_of(names[n]);
        assert_ok(rung_schedule_resolve(&s, 1000, 10, &s));
        assert_true(strlen(rung_schedule_text(&s, a, sizeof a)) < sizeof a - 1);
        s.lr = 0.2;
        assert_string_not_equal(a, rung_schedule_text(&s, b, sizeof b));
    }
    rung_schedule s = schedule_of("warm_cosine");
    assert_ok(rung_schedule_resolve(&s, 1000, 10, &s));
    assert_string_equal(rung_schedule_text(&s, a, sizeof a),
                        "cosine lr=0.1 T_max=100 eta_min=0.001, in epochs of 10 steps, warm-up 10 "
                        "from 0.01");
    rung_schedule_state state_in = {0.1, INFINITY, 3, 1}, state_out;
    assert_ok(
        rung_schedule_state_parse(rung_schedule_state_text(&state_in, a, sizeof a), &state_out));
    assert_memory_equal(&state_in, &state_out, sizeof state_in);
    assert_fails(RUNG_FORMAT, "cannot read", rung_schedule_state_parse("lr=0x1p-3", &state_out));
    assert_fails(RUNG_FORMAT, "cannot read", rung_schedule_state_parse("", &state_out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_pytorch),
        cmocka_unit_test(resumes_bit_for_bit),
        cmocka_unit_test(epochs_are_steps_of_the_rate),
        cmocka_unit_test(plateau_begins_after_the_warm_up),
        cmocka_unit_test(refuses_bad_parameters),
        cmocka_unit_test(texts),
    };
    return RUN_TESTS(tests);
}
