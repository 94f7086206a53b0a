// SPDX-License-Identifier: Apache-2.0
#include "testing.h"

#include <math.h>

#include "base/philox.h"
#include "optim/optimizer.h"

static rung_context *make_context(rung_isa isa)
{
    rung_context *context = NULL;
    assert_ok(rung_context_create(&(rung_context_options){.isa = isa}, &context));
    return context;
}

// Options of every kind of loop.
enum { KINDS = 5 };
static rung_optimizer_options options_of(int kind)
{
    rung_optimizer_kind base = kind == 3   ? RUNG_OPTIMIZER_ADAM
                               : kind == 4 ? RUNG_OPTIMIZER_ADAMW
                                           : RUNG_OPTIMIZER_SGD;
    rung_optimizer_options options = rung_optimizer_defaults(base);
    options.momentum = kind == 1 || kind == 2 ? 0.9 : 0;
    options.dampening = kind == 1 ? 0.1 : 0;
    options.nesterov = kind == 2;
    options.weight_decay = 1e-2;
    return options;
}

static void fill(float *x, int64_t count, uint64_t key)
{
    rungi_random random = rungi_random_make(5, RUNGI_PURPOSE_TEST, key, 0, 0);
    for (int64_t i = 0; i < count; i++)
        x[i] = rungi_unit_f32(rungi_random_block(&random, (uint64_t)i).v[0]) - 0.5f;
}

static float *numbers(int64_t count, uint64_t key)
{
    float *x = malloc((size_t)count * sizeof *x);
    assert_non_null(x);
    fill(x, count, key);
    return x;
}

// Odd sizes, unaligned ends, padding, a group, an empty and a frozen segment, one of many blocks.
static const rung_param_group groups[1] = {{.lr_multiplier = 0.5, .weight_decay = 0}};
static const rung_segment segments[] = {
    {"a.weight", 0, 3, 0, false},           {"a.bias", 3, 20, 0, false},
    {"b.weight", 32, 32 + 40007, 0, false}, {"b.bias", 40041, 40042, 1, false},
    {"c.weight", 40050, 40061, 0, true},    {"d.weight", 40061, 40061, 0, false},
    {"e.weight", 40070, 52345, 1, false},
};
enum { SEGMENTS = sizeof segments / sizeof *segments, SIZE = 52352 };

static void clear_padding(float *x)
{
    int64_t end = 0;
    for (int i = 0; i <= SEGMENTS; i++) {
        int64_t begin = i < SEGMENTS ? segments[i].begin : SIZE;
        memset(x + end, 0, (size_t)(begin - end) * sizeof *x);
        end = i < SEGMENTS ? segments[i].end : 0;
    }
}

// Three steps from fixed numbers; returns the parameters, and the states in *optimizer_out.
static float *three_steps(int kind, rung_isa isa, int threads, rung_optimizer **optimizer_out)
{
    rung_context *context = make_context(isa);
    rung_optimizer_options options = options_of(kind);
    options.groups = groups;
    options.group_count = 1;
    assert_ok(rung_optimizer_create(context, &options, segments, SEGMENTS, optimizer_out));
    rung_context_destroy(&context);
    float *params = numbers(SIZE, 1), *grads = numbers(SIZE, 2);
    clear_padding(params);
    for (uint64_t step = 0; step < 3; step++) {
        fill(grads, SIZE, 10 + step);
        clear_padding(grads);
        rung_optimizer_report report;
        assert_ok(rung_optimizer_step(
            *optimizer_out, params, grads,
            &(rung_optimizer_update){
                .rates.lr = 0.01, .max_grad_norm = 1, .max_grad_value = 0.01, .threads = threads},
            &report));
        assert_true(report.applied && report.clip < 1);
    }
    free(grads);
    return params;
}

static void check_equal(int kind, rung_isa isa, int threads, const float *params,
                        const rung_optimizer *optimizer)
{
    rung_optimizer *other;
    float *got = three_steps(kind, isa, threads, &other);
    assert_memory_equal(got, params, SIZE * sizeof *got);
    for (int i = 0; i < rung_optimizer_state_count(optimizer); i++)
        assert_memory_equal(rung_optimizer_state_data(other, i),
                            rung_optimizer_state_data(optimizer, i), SIZE * sizeof *got);
    rung_optimizer_destroy(&other);
    free(got);
}

static void same_bits_for_threads_and_isa(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        rung_optimizer *optimizer;
        float *params = three_steps(kind, RUNG_ISA_SCALAR, 1, &optimizer);
        for (int threads = 1; threads <= 3; threads++) {
            check_equal(kind, RUNG_ISA_SCALAR, threads, params, optimizer);
            check_equal(kind, RUNG_ISA_AUTO, threads, params, optimizer);
        }
        rung_optimizer_destroy(&optimizer);
        free(params);
    }
}

static void frozen_and_padding_untouched(void **state)
{
    (void)state;
    float *start = numbers(SIZE, 1);
    clear_padding(start);
    for (int kind = 0; kind < KINDS; kind++) {
        rung_optimizer *optimizer;
        float *params = three_steps(kind, RUNG_ISA_AUTO, 2, &optimizer);
        float *padding = malloc(SIZE * sizeof *padding);
        memcpy(padding, params, SIZE * sizeof *padding);
        clear_padding(padding);
        assert_memory_equal(params, padding, SIZE * sizeof *params);
        free(padding);
        for (int i = 0; i < SEGMENTS; i++) {
            const rung_segment *s = &segments[i];
            bool changed = false;
            for (int64_t j = s->begin; j < s->end; j++)
                changed = changed || params[j] != start[j];
            assert_int_equal(changed, !s->frozen && s->end > s->begin);
            assert_int_equal(rung_optimizer_steps(optimizer, i), s->frozen ? 0 : 3);
        }
        assert_true(rung_optimizer_segment_norm(optimizer, 4) == 0);
        rung_optimizer_destroy(&optimizer);
        free(params);
    }
    free(start);
}

// Numbers outside all segments, NaN in gradients included, stay as they are when the distance is
// too large for padding, and always with eps = 0.
static void gaps_untouched(void **state)
{
    (void)state;
    rung_context *context = make_context(RUNG_ISA_AUTO);
    const rung_segment far[] = {{"a", 1, 18, 0, false}, {"b", 100, 117, 0, false}};
    for (int kind = 0; kind < KINDS; kind++) {
        rung_optimizer *optimizer;
        rung_optimizer_options options = options_of(kind);
        assert_ok(rung_optimizer_create(context, &options, far, 2, &optimizer));
        float params[130], grads[130];
        for (int i = 0; i < 130; i++)
            params[i] = 7, grads[i] = i < 1 || (i >= 18 && i < 100) || i >= 117 ? NAN : 1;
        assert_ok(rung_optimizer_step(optimizer, params, grads,
                                      &(rung_optimizer_update){.rates.lr = 0.1, .want_norm = true},
                                      NULL));
        for (int i = 0; i < 130; i++)
            assert_true((params[i] == 7) == !!isnan(grads[i]));
        rung_optimizer_destroy(&optimizer);
    }
    rung_optimizer_options options = rung_optimizer_defaults(RUNG_OPTIMIZER_ADAM);
    options.eps = 0;
    const rung_segment near[] = {{"a", 0, 3, 0, false}, {"b", 5, 8, 0, false}};
    rung_optimizer *optimizer;
    assert_ok(rung_optimizer_create(context, &options, near, 2, &optimizer));
    float params[8] = {1, 1, 1, 0, 0, 1, 1, 1}, grads[8] = {1, 1, 1, 0, 0, 1, 1, 1};
    assert_ok(rung_optimizer_step(optimizer, params, grads,
                                  &(rung_optimizer_update){.rates.lr = 0.5}, NULL));
    const float want[8] = {0.5, 0.5, 0.5, 0, 0, 0.5, 0.5, 0.5};
    for (int i = 0; i < 8; i++)
        assert_near(params[i], want[i], 1e-6);
    rung_optimizer_destroy(&optimizer);
    rung_context_destroy(&context);
}

// Padded segments with equal settings become one run; other settings, other step counts, frozen
// segments and wide gaps end it.
static void segments_merge(void **state)
{
    (void)state;
    rung_context *context = make_context(RUNG_ISA_AUTO);
    const rung_segment list[] = {
        {"a", 0, 10, 0, false},    {"b", 16, 20, 0, false},   {"c", 32, 40, 0, false},
        {"d", 40, 50, 1, false},   {"e", 64, 70, 0, false},   {"f", 80, 90, 0, false},
        {"g", 200, 210, 0, false}, {"h", 210, 220, 0, false},
    };
    rung_optimizer_options options = options_of(1);
    options.groups = groups;
    options.group_count = 1;
    rung_optimizer *optimizer;
    assert_ok(rung_optimizer_create(context, &options, list, 8, &optimizer));
    rungi_optimizer_plan(optimizer);
    assert_int_equal(optimizer->run_count, 4); // a-c d e-f g-h
    assert_int_equal(optimizer->run_elements, 40 + 10 + 26 + 20);
    rung_optimizer_freeze(optimizer, 1, true);
    rungi_optimizer_plan(optimizer);
    assert_int_equal(optimizer->run_count, 5); // a c d e-f g-h
    rung_optimizer_set_steps(optimizer, 7, 3);
    rungi_optimizer_plan(optimizer);
    assert_int_equal(optimizer->run_count, 6);
    rung_optimizer_destroy(&optimizer);
    rung_context_destroy(&context);
}

// C54: 20 steps equal 10 + 10 in bits when state and step counts are carried over.
static void resumes(void **state)
{
    (void)state;
    enum { N = 1003 };
    const rung_segment one = {"w", 0, N, 0, false};
    rung_context *context = make_context(RUNG_ISA_AUTO);
    for (int kind = 0; kind < KINDS; kind++) {
        rung_optimizer_options options = options_of(kind);
        rung_optimizer *whole, *part;
        assert_ok(rung_optimizer_create(context, &options, &one, 1, &whole));
        assert_ok(rung_optimizer_create(context, &options, &one, 1, &part));
        float *a = numbers(N, 1), *b = numbers(N, 1), *grads = numbers(N, 2);
        for (uint64_t step = 0; step < 20; step++) {
            fill(grads, N, 20 + step);
            const rung_optimizer_update update = {.rates.lr = 0.01};
            assert_ok(rung_optimizer_step(whole, a, grads, &update, NULL));
            assert_ok(rung_optimizer_step(part, b, grads, &update, NULL));
            if (step != 9)
                continue;
            rung_optimizer *resumed;
            assert_ok(rung_optimizer_create(context, &options, &one, 1, &resumed));
            for (int i = 0; i < rung_optimizer_state_count(part); i++)
                memcpy(rung_optimizer_state_data(resumed, i), rung_optimizer_state_data(part, i),
                       N * sizeof(float));
            rung_optimizer_set_steps(resumed, 0, rung_optimizer_steps(part, 0));
            rung_optimizer_destroy(&part);
            part = resumed;
        }
        assert_memory_equal(a, b, N * sizeof *a);
        assert_int_equal(rung_optimizer_steps(part, 0), 20);
        rung_optimizer_destroy(&whole);
        rung_optimizer_destroy(&part);
        free(a), free(b), free(grads);
    }
    rung_context_destroy(&context);
}

// A parameter thawed later starts like a new one, as in PyTorch: its first gradient sets the
// momentum buffer, undampened.
static void thawed_segment_starts_anew(void **state)
{
    (void)state;
    rung_context *context = make_context(RUNG_ISA_AUTO);
    rung_optimizer_options options = options_of(1);
    options.weight_decay = 0;
    options.dampening = 0.5;
    const rung_segment two[] = {{"a", 0, 1, 0, false}, {"b", 1, 2, 0, true}};
    rung_optimizer *optimizer;
    assert_ok(rung_optimizer_create(context, &options, two, 2, &optimizer));
    float params[2] = {0, 0}, grads[2] = {1, 1};
    const rung_optimizer_update update = {.rates.lr = 1};
    assert_ok(rung_optimizer_step(optimizer, params, grads, &update, NULL));
    assert_true(params[0] == -1 && params[1] == 0);
    rung_optimizer_freeze(optimizer, 1, false);
    assert_ok(rung_optimizer_step(optimizer, params, grads, &update, NULL));
    assert_near(params[0], -1 - (0.9 + 0.5), 1e-6);
    assert_true(params[1] == -1);
    assert_int_equal(rung_optimizer_steps(optimizer, 0), 2);
    assert_int_equal(rung_optimizer_steps(optimizer, 1), 1);
    rung_optimizer_freeze(optimizer, 0, true);
    assert_ok(rung_optimizer_step(optimizer, params, grads, &update, NULL));
    assert_near(params[0], -1 - (0.9 + 0.5), 1e-6);
    assert_near(params[1], -1 - (0.9 + 0.5), 1e-6);
    rung_optimizer_destroy(&optimizer);
    rung_context_destroy(&context);
}

// State in memory of the caller; the optimizer does not free it.
static void borrowed_state(void **state)
{
    (void)state;
    rung_context *context = make_context(RUNG_ISA_AUTO);
    rung_optimizer_options options = options_of(3);
    const rung_segment one = {"w", 0, 5, 0, false};
    float m[5] = {0}, v[5] = {0}, params[5] = {1, 2, 3, 4, 5}, grads[5] = {1, 1, 1, 1, 1};
    rung_optimizer *optimizer;
    assert_int_equal(rungi_optimizer_states(&options), 2);
    assert_ok(rungi_optimizer_create_in(context, &options, &one, 1, (float *[]){m, v}, &optimizer));
    assert_ok(rung_optimizer_step(optimizer, params, grads,
                                  &(rung_optimizer_update){.rates.lr = 0.1}, NULL));
    assert_true(m[4] > 0 && v[4] > 0);
    assert_string_equal(rung_optimizer_state_name(optimizer, 0), "exp_avg");
    assert_string_equal(rung_optimizer_state_name(optimizer, 1), "exp_avg_sq");
    rung_optimizer_destroy(&optimizer);
    rung_context_destroy(&context);
}

static rung_status try_create(const rung_optimizer_options *options, const rung_segment *list,
                              int64_t count)
{
    rung_context *context = make_context(RUNG_ISA_AUTO);
    rung_optimizer *optimizer = NULL;
    rung_status status = rung_optimizer_create(context, options, list, count, &optimizer);
    rung_optimizer_destroy(&optimizer);
    rung_context_destroy(&context);
    return status;
}

#define REFUSES(kind, text, field, ...)                                             \
    do {                                                                            \
        rung_optimizer_options o_ = rung_optimizer_defaults(RUNG_OPTIMIZER_##kind); \
        o_.field = __VA_ARGS__;                                                     \
        assert_fails(RUNG_CONFIG, text, try_create(&o_, segments, 1));              \
    } while (0)

static void refuses_bad_options(void **state)
{
    (void)state;
    REFUSES(SGD, "optim.lr: -0.1", lr, -0.1);
    REFUSES(SGD, "optim.lr", lr, NAN);
    REFUSES(ADAM, "optim.weight_decay", weight_decay, -1);
    REFUSES(SGD, "optim.momentum", momentum, -0.9);
    REFUSES(SGD, "optim.nesterov: needs optim.momentum", nesterov, true);
    REFUSES(ADAM, "optim.betas[0]", betas[0], 1);
    REFUSES(ADAMW, "optim.betas[1]", betas[1], -0.1);
    REFUSES(ADAMW, "optim.eps", eps, -1e-8);
    REFUSES(SGD, "optim.groups[0].lr_multiplier", groups,
            (o_.group_count = 1, (const rung_param_group[]){{0, 0}}));
    rung_optimizer_options options = rung_optimizer_defaults(RUNG_OPTIMIZER_SGD);
    options.momentum = 0.9;
    options.dampening = 0.1;
    options.nesterov = true;
    assert_fails(RUNG_CONFIG, "optim.dampening = 0", try_create(&options, segments, 1));
    options = (rung_optimizer_options){.kind = RUNG_OPTIMIZER_ADAM, .lr = 1e-3};
    assert_fails(RUNG_CONFIG, "rung_optimizer_defaults", try_create(&options, segments, 1));
    options = rung_optimizer_defaults(RUNG_OPTIMIZER_SGD);
    const rung_segment overlapping[] = {{"a", 0, 10, 0, false}, {"b", 9, 20, 0, false}};
    assert_fails(RUNG_INVALID, "segment 1 (b)", try_create(&options, overlapping, 2));
    const rung_segment ungrouped[] = {{"a", 0, 10, 1, false}};
    assert_fails(RUNG_INVALID, "group 1", try_create(&options, ungrouped, 1));
    assert_ok(try_create(&options, NULL, 0));
}

static void refuses_bad_updates(void **state)
{
    (void)state;
    rung_context *context = make_context(RUNG_ISA_AUTO);
    rung_optimizer_options options = options_of(0);
    const rung_segment one = {"w", 0, 1, 0, false};
    float param = 1, grad = 1;
    rung_optimizer *optimizer;
    assert_ok(rung_optimizer_create(context, &options, &one, 1, &optimizer));
    assert_fails(RUNG_CONFIG, "learning rate -1",
                 rung_optimizer_step(optimizer, &param, &grad,
                                     &(rung_optimizer_update){.rates.lr = -1}, NULL));
    assert_fails(RUNG_CONFIG, "train.max_grad_norm",
                 rung_optimizer_step(optimizer, &param, &grad,
                                     &(rung_optimizer_update){.rates.lr = 1, .max_grad_norm = NAN},
                                     NULL));
    assert_fails(RUNG_CONFIG, "schedule.cycle_momentum",
                 rung_optimizer_step(optimizer, &param, &grad,
                                     &(rung_optimizer_update){
                                         .rates = {1, .cycles_momentum = true, .momentum = 0.9}},
                                     NULL));
    assert_true(param == 1 && rung_optimizer_steps(optimizer, 0) == 0);
    rung_optimizer_destroy(&optimizer);
    rung_optimizer_destroy(&optimizer);
    rung_optimizer_destroy(NULL);
    rung_context_destroy(&context);
}

static void names(void **state)
{
    (void)state;
    rung_optimizer_kind kind;
    for (int i = 0; i < RUNG_OPTIMIZER_COUNT; i++) {
        assert_ok(rung_optimizer_find(rung_optimizer_name((rung_optimizer_kind)i), &kind));
        assert_int_equal(kind, i);
    }
    assert_fails(RUNG_CONFIG, "did you mean \"adamw\"", rung_optimizer_find("adanw", &kind));
    assert_fails(RUNG_CONFIG, "sgd, adam and adamw", rung_optimizer_find("lion", &kind));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_for_threads_and_isa),
        cmocka_unit_test(frozen_and_padding_untouched),
        cmocka_unit_test(gaps_untouched),
        cmocka_unit_test(segments_merge),
        cmocka_unit_test(resumes),
        cmocka_unit_test(thawed_segment_starts_anew),
        cmocka_unit_test(borrowed_state),
        cmocka_unit_test(refuses_bad_options),
        cmocka_unit_test(refuses_bad_updates),
        cmocka_unit_test(names),
    };
    return RUN_TESTS(tests);
}
