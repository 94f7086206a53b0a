// SPDX-License-Identifier: Apache-2.0
// The loss scale: GradScaler's sequence (tests/fixtures/autocast.txt), cases C44 and C46.
#include "testing.h"

#include <math.h>
#include <stdio.h>

#include "rung/loss_scale.h"

enum { COUNT = 25 };

typedef struct world {
    rung_context *context;
    rung_optimizer *optimizer;
    float params[COUNT], grads[COUNT];
} world;

// Two parameters, adam's moments started: what a wrong step would leave behind shows.
static void begin(world *w)
{
    static const rung_segment segments[] = {{.name = "conv.weight", .begin = 0, .end = 20},
                                            {.name = "conv.bias", .begin = 20, .end = COUNT}};
    rung_optimizer_options o = rung_optimizer_defaults(RUNG_OPTIMIZER_ADAM);
    assert_ok(rung_context_create(NULL, &w->context));
    assert_ok(rung_optimizer_create(w->context, &o, segments, 2, &w->optimizer));
    for (int i = 0; i < COUNT; i++)
        w->params[i] = 0.1f * (float)(i + 1);
}

static void end(world *w)
{
    rung_optimizer_destroy(&w->optimizer);
    rung_context_destroy(&w->context);
}

static void set_grads(world *w, float value)
{
    for (int i = 0; i < COUNT; i++)
        w->grads[i] = value;
}

static const rung_optimizer_update plain = {.rates = {.lr = 1e-3}};

static void as_grad_scaler(void **state)
{
    (void)state;
    world w = {0};
    char line[2048] = "", pattern[128];
    long long interval;
    int used;
    FILE *file = fopen(RUNG_SOURCE_DIR "/tests/fixtures/autocast.txt", "r");
    assert_non_null(file);
    do {
        assert_non_null(fgets(line, sizeof line, file));
    } while (sscanf(line, "scaler %lld %127s%n", &interval, pattern, &used) != 2);
    fclose(file);
    begin(&w);
    rung_loss_scale s = rung_loss_scale_defaults();
    assert_true(s.scale == 65536 && s.growth_interval == 2000);
    s.growth_interval = interval;
    int64_t bad = 0;
    char *at = line + used;
    for (int i = 0; pattern[i]; i++) {
        rung_optimizer_report report;
        set_grads(&w, pattern[i] == '1' ? INFINITY : 1);
        assert_ok(rung_loss_scale_step(&s, w.optimizer, w.params, w.grads, &plain, &report));
        assert_true(report.applied == (pattern[i] == '0'));
        bad += pattern[i] == '1';
        assert_true(s.scale == strtod(at, &at));
        assert_int_equal(s.skipped, bad);
    }
    assert_true(bad > 10);
    end(&w);
}

// C44: the norm that is clipped is that of the true gradients; the update is the unscaled one's.
static void clipping_scaled_gradients(void **state)
{
    (void)state;
    world scaled = {0}, expected = {0};
    begin(&scaled);
    begin(&expected);
    rung_loss_scale s = rung_loss_scale_defaults();
    rung_optimizer_update update = {.rates = {.lr = 0.1}, .max_grad_norm = 1};
    for (int step = 0; step < 3; step++) {
        rung_optimizer_report report, other;
        for (int i = 0; i < COUNT; i++) {
            expected.grads[i] = 10.0f / 5 * (i % 2 ? 1 : -1); // norm 10
            scaled.grads[i] = expected.grads[i] * 65536;
        }
        assert_ok(rung_loss_scale_step(&s, scaled.optimizer, scaled.params, scaled.grads, &update,
                                       &report));
        assert_ok(rung_optimizer_step(expected.optimizer, expected.params, expected.grads, &update,
                                      &other));
        assert_near(report.grad_norm, 10, 1e-5);
        assert_near(report.clip, 0.1, 1e-6);
        for (int i = 0; i < COUNT; i++)
            assert_near(scaled.params[i] / expected.params[i], 1, 1e-6);
    }
    end(&scaled);
    end(&expected);
}

// A step that is left out changes nothing but the scale.
static void skipped_steps_change_nothing(void **state)
{
    (void)state;
    world w = {0};
    begin(&w);
    rung_loss_scale s = rung_loss_scale_defaults();
    set_grads(&w, 65536);
    assert_ok(rung_loss_scale_step(&s, w.optimizer, w.params, w.grads, &plain, NULL));
    float params[COUNT], moments[2][COUNT];
    memcpy(params, w.params, sizeof params);
    for (int k = 0; k < 2; k++)
        memcpy(moments[k], rung_optimizer_state_data(w.optimizer, k), sizeof moments[k]);
    w.grads[22] = NAN;
    assert_ok(rung_loss_scale_step(&s, w.optimizer, w.params, w.grads, &plain, NULL));
    assert_true(s.scale == 32768 && s.good == 0 && s.skipped == 1);
    assert_memory_equal(params, w.params, sizeof params);
    for (int k = 0; k < 2; k++)
        assert_memory_equal(moments[k], rung_optimizer_state_data(w.optimizer, k),
                            sizeof moments[k]);
    assert_int_equal(rung_optimizer_steps(w.optimizer, 0), 1);
    end(&w);
}

// C46: 16 steps to the floor, then RUNG_LOSS_SCALE_PATIENCE more, then the end with a name.
static void sinks_to_the_floor(void **state)
{
    (void)state;
    world w = {0};
    begin(&w);
    rung_loss_scale s = rung_loss_scale_defaults();
    set_grads(&w, 1);
    w.grads[21] = -INFINITY;
    for (int i = 1; i <= 16 + RUNG_LOSS_SCALE_PATIENCE - 1; i++) {
        assert_ok(rung_loss_scale_step(&s, w.optimizer, w.params, w.grads, &plain, NULL));
        assert_true(s.scale == (i < 16 ? 65536.0 / (1 << i) : 1));
        assert_int_equal(s.skipped, i);
    }
    assert_fails(RUNG_DIVERGED, "the gradient of conv.bias is not finite, in 10 steps in a row",
                 rung_loss_scale_step(&s, w.optimizer, w.params, w.grads, &plain, NULL));
    assert_true(s.scale == 1);
    end(&w);
}

// A good step at the floor begins the count anew; growth stops before the scale's inverse would be
// too small a number.
static void bounds(void **state)
{
    (void)state;
    world w = {0};
    begin(&w);
    rung_loss_scale s = {.scale = 1, .growth_interval = 1000};
    for (int i = 0; i < 5 * RUNG_LOSS_SCALE_PATIENCE; i++) {
        set_grads(&w, i % 5 ? INFINITY : 1);
        assert_ok(rung_loss_scale_step(&s, w.optimizer, w.params, w.grads, &plain, NULL));
        assert_true(s.scale == 1);
    }
    s = (rung_loss_scale){.scale = 0x1p120, .growth_interval = 1};
    set_grads(&w, 1);
    for (int i = 0; i < 20; i++)
        assert_ok(rung_loss_scale_step(&s, w.optimizer, w.params, w.grads, &plain, NULL));
    assert_true(s.scale == 0x1p126);
    for (int i = 0; i < COUNT; i++)
        assert_true(isfinite(w.params[i]));
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_grad_scaler),
        cmocka_unit_test(clipping_scaled_gradients),
        cmocka_unit_test(skipped_steps_change_nothing),
        cmocka_unit_test(sinks_to_the_floor),
        cmocka_unit_test(bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
