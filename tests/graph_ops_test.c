// SPDX-License-Identifier: Apache-2.0
// The public operator functions: dtypes and shapes of what they give, and their mistakes; fused
// activations against separate ones; means over shards.
#include "testing.h"

#include <math.h>

#include "base/philox.h"
#include "graph/plan.h"
#include "rung/ops.h"

typedef struct fixture {
    rung_context *context;
    rung_device *device;
    rung_graph *g;
    rung_value image, row, labels;
} fixture;

static int set_up(void **state)
{
    static fixture f;
    memset(&f, 0, sizeof f);
    assert_ok(rung_context_create(NULL, &f.context));
    assert_ok(rung_device_create(f.context, "cpu:0", NULL, &f.device));
    assert_ok(rung_graph_create(f.context, &f.g));
    f.image = rung_input(f.g, "image", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 3, 8, 6));
    f.row = rung_input(f.g, "row", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 5));
    f.labels = rung_input(f.g, "labels", RUNG_I64, RUNG_SHAPE(RUNG_BATCH));
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    rung_graph_destroy(&f->g);
    rung_device_destroy(&f->device);
    rung_context_destroy(&f->context);
    return 0;
}

static void expect(const rung_graph *g, rung_value v, rung_dtype dtype, rung_shape shape)
{
    assert_ok(rung_graph_check(g));
    rung_shape got = rung_value_shape(g, v);
    char a[RUNG_SHAPE_TEXT], b[RUNG_SHAPE_TEXT];
    if (!rung_shape_equal(&got, &shape))
        fail_msg("got %s, expected %s", rung_shape_text(&got, a, sizeof a),
                 rung_shape_text(&shape, b, sizeof b));
    assert_int_equal(rung_value_dtype(g, v), dtype);
}

static void shapes(void **state)
{
    fixture *f = *state;
    rung_graph *g = f->g;
    rung_shape image = RUNG_SHAPE(RUNG_BATCH, 3, 8, 6), row = RUNG_SHAPE(RUNG_BATCH, 5);
    expect(g, rung_leaky_relu(g, f->image, 0.1), RUNG_F32, image);
    expect(g, rung_sigmoid(g, f->image), RUNG_F32, image);
    expect(g, rung_tanh(g, f->image), RUNG_F32, image);
    expect(g, rung_gelu(g, f->row), RUNG_F32, row);
    expect(g, rung_gelu_tanh(g, f->row), RUNG_F32, row);
    expect(g, rung_silu(g, f->row), RUNG_F32, row);
    expect(g, rung_scale(g, f->row, 2, 1), RUNG_F32, row);
    expect(g, rung_softmax(g, f->image, 1), RUNG_F32, image);
    expect(g, rung_log_softmax(g, f->row, -1), RUNG_F32, row);

    rung_value bias = rung_param(g, "bias", RUNG_SHAPE(3, 1, 1), NULL);
    expect(g, rung_sub(g, f->image, bias), RUNG_F32, image);
    expect(g, rung_mul(g, bias, f->image), RUNG_F32, image);
    expect(g, rung_div(g, f->row, f->row), RUNG_F32, row);

    expect(g, rung_sum(g, f->image, .keepdim = false), RUNG_F32, RUNG_SCALAR);
    expect(g, rung_sum(g, f->image, .dims = RUNG_DIMS(2, 3)), RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 3));
    expect(g, rung_mean(g, f->image, .dims = RUNG_DIMS(0, -1), .keepdim = true), RUNG_F32,
           RUNG_SHAPE(1, 3, 8, 1));
    expect(g, rung_mean(g, f->row, .dims = RUNG_DIMS(-1)), RUNG_F32, RUNG_SHAPE(RUNG_BATCH));
    expect(g, rung_argmax(g, f->row, 1), RUNG_I64, RUNG_SHAPE(RUNG_BATCH));
    expect(g, rung_argmax(g, f->image, -3), RUNG_I64, RUNG_SHAPE(RUNG_BATCH, 8, 6));

    expect(g, rung_cast(g, f->labels, RUNG_F32), RUNG_F32, RUNG_SHAPE(RUNG_BATCH));
    assert_int_equal(rung_cast(g, f->row, RUNG_F32).id, f->row.id);

    rung_value pixels = rung_input(g, "pixels", RUNG_I64, RUNG_SHAPE(RUNG_BATCH, 8, 6));
    expect(g, rung_cross_entropy(g, f->row, f->labels, .sum = true), RUNG_F32, RUNG_SCALAR);
    expect(g, rung_cross_entropy(g, f->image, pixels, .sum = true), RUNG_F32, RUNG_SCALAR);
    expect(g, rung_nll_loss(g, f->row, f->labels, .ignore_index = 3), RUNG_F32, RUNG_SCALAR);
    expect(g, rung_mse_loss(g, f->row, f->row, .sum = true), RUNG_F32, RUNG_SCALAR);
    expect(g, rung_bce_with_logits(g, f->image, f->image, .pos_weight = bias), RUNG_F32,
           RUNG_SCALAR);
}

// Each mistake is made in a graph of its own.
#define MISTAKE(code, text, call)                      \
    do {                                               \
        void *state_;                                  \
        set_up(&state_);                               \
        fixture *f = state_;                           \
        rung_graph *g = f->g;                          \
        (void)(call);                                  \
        assert_fails(code, text, rung_graph_check(g)); \
        tear_down(&state_);                            \
    } while (0)

static void mistakes(void **state)
{
    (void)state;
    MISTAKE(RUNG_INVALID, "layer leaky_relu_1: the slope is -1; it must be 0 or more",
            rung_leaky_relu(g, f->row, -1));
    MISTAKE(RUNG_MISMATCH, "layer sigmoid_1: takes floats, not i64", rung_sigmoid(g, f->labels));
    MISTAKE(RUNG_MISMATCH, "do not broadcast", rung_mul(g, f->image, f->row));
    MISTAKE(RUNG_MISMATCH, "layer add_1: the inputs are f32 and i64; cast one of them",
            rung_add(g, f->row, f->labels));
    MISTAKE(RUNG_MISMATCH, "sum: [N, 5] has no dimension 2",
            rung_sum(g, f->row, .dims = RUNG_DIMS(0, 2)));
    MISTAKE(RUNG_MISMATCH, "mean: [N, 5] has no dimension -3",
            rung_mean(g, f->row, .dims = RUNG_DIMS(-3)));
    MISTAKE(RUNG_MISMATCH, "has no dimension 4", rung_softmax(g, f->image, 4));
    MISTAKE(RUNG_MISMATCH, "has no dimension -3", rung_argmax(g, f->row, -3));
    MISTAKE(RUNG_MISMATCH, "takes scores [N, C] or [N, C, ...]",
            rung_cross_entropy(g, f->image, f->labels, .sum = true));
    MISTAKE(RUNG_MISMATCH, "labels must be i64 or i32, not f32",
            rung_nll_loss(g, f->row, rung_mean(g, f->row, .dims = RUNG_DIMS(1)), .sum = true));
    MISTAKE(RUNG_INVALID, "nll_loss has no label_smoothing",
            rung_nll_loss(g, f->row, f->labels, .label_smoothing = 0.1));
    MISTAKE(RUNG_MISMATCH, "the prediction is", rung_mse_loss(g, f->row, f->image, .sum = true));
    MISTAKE(RUNG_MISMATCH, "do not broadcast to the prediction",
            rung_bce_with_logits(g, f->row, f->row, .weight = f->image));
    MISTAKE(RUNG_INVALID, "input 1 of sub is missing", rung_sub(g, f->row, (rung_value){0}));
}

// ---- fused activations ------------------------------------------------------------------------

typedef rung_value activation(rung_graph *g, rung_value x);

static rung_value leaky(rung_graph *g, rung_value x)
{
    return rung_leaky_relu(g, x, 0.2);
}

static rung_value scaled(rung_graph *g, rung_value x)
{
    return rung_scale(g, x, -0.5, 0.25);
}

static void fill(float *x, int64_t n, int id)
{
    rungi_random random = rungi_random_make(3, RUNGI_PURPOSE_TEST, (uint64_t)id, 0, 0);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)rungi_random_normal(&random, (uint64_t)i) * 0.5f;
}

enum { BATCH = 2, IMAGE = 16 * 5 * 5, OUT = BATCH * IMAGE };

typedef struct result {
    int forward;
    float y[OUT], grads[4096];
    int64_t n_grads;
} result;

// conv2d or linear with an activation behind it, and the sum of squares as its loss.
static void run_model(const fixture *f, activation *act, bool conv, bool gradients, bool fuse,
                      rung_layout layout, result *r)
{
    rung_graph *g;
    rung_state *state;
    rung_plan *plan;
    static float x[OUT];
    assert_ok(rung_graph_create(f->context, &g));
    rung_value in, w, y;
    rung_value b = rung_param(g, "bias", RUNG_SHAPE(16), NULL);
    if (conv) {
        in = rung_input(g, "x", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 16, 5, 5));
        w = rung_param(g, "weight", RUNG_SHAPE(16, 16, 3, 3), NULL);
        y = rung_f_conv2d(g, in, w, b, &(rung_conv2d_options){.pad = 1});
    } else {
        in = rung_input(g, "x", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 25, 16));
        w = rung_param(g, "weight", RUNG_SHAPE(16, 16), NULL);
        y = rung_f_linear(g, in, w, b);
    }
    y = act(g, y);
    rung_graph_output(g, "y", y);
    rung_graph_loss(g, rung_sum(g, rung_mul(g, y, y), .keepdim = false));
    assert_ok(rung_state_create(g, f->device, &state));
    float *params = rung_state_params(state, &r->n_grads);
    fill(params, r->n_grads, 1);
    fill(x, OUT, 2);
    rung_compile_options options = {.batch = BATCH, .gradients = gradients, .fuse = fuse};
    options.layout = layout;
    assert_ok(rung_compile(g, state, &options, &plan));
    int backward;
    rung_plan_steps(plan, &r->forward, &backward);
    assert_ok(rung_plan_bind(plan, "x", x));
    assert_ok(rung_plan_forward(plan));
    rung_view view;
    assert_ok(rung_plan_output(plan, "y", &view));
    memcpy(r->y, view.data, sizeof r->y);
    if (gradients) {
        assert_ok(rung_plan_backward(plan));
        memcpy(r->grads, rung_state_grads(state, &r->n_grads), (size_t)r->n_grads * sizeof(float));
    }
    rung_plan_destroy(&plan);
    rung_state_destroy(&state);
    rung_graph_destroy(&g);
}

static void check_close(const float *a, const float *b, int64_t n, const char *what)
{
    double top = 0;
    for (int64_t i = 0; i < n; i++)
        top = fmax(top, fabs((double)a[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)a[i] - b[i]) <= 3e-6 * top))
            fail_msg("%s: element %d is %.9g fused and %.9g otherwise", what, (int)i, b[i], a[i]);
}

static void fused(void **state)
{
    const fixture *f = *state;
    // Backward of the first five reads their output, or nothing; the others' their input, so that
    // they are fused in evaluation only.
    const struct {
        const char *name;
        activation *act;
        bool trains_fused;
    } acts[] = {
        {"relu", rung_relu, true},
        {"leaky_relu", leaky, true},
        {"sigmoid", rung_sigmoid, true},
        {"tanh", rung_tanh, true},
        {"scale", scaled, true},
        {"gelu", rung_gelu, false},
        {"gelu_tanh", rung_gelu_tanh, false},
        {"silu", rung_silu, false},
    };
    static result plain, merged;
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
        for (int kind = 0; kind < 12; kind++) {
            bool conv = kind & 1, gradients = kind & 2;
            rung_layout layout = (rung_layout)(kind >> 2);
            run_model(f, acts[i].act, conv, gradients, false, layout, &plain);
            run_model(f, acts[i].act, conv, gradients, true, layout, &merged);
            bool expected = !gradients || acts[i].trains_fused;
            if (merged.forward != plain.forward - (expected ? 1 : 0))
                fail_msg("%s (%d): %d steps fused, %d otherwise", acts[i].name, kind,
                         merged.forward, plain.forward);
            check_close(plain.y, merged.y, OUT, acts[i].name);
            if (gradients)
                check_close(plain.grads, merged.grads, plain.n_grads, acts[i].name);
        }
}

// ---- shards -----------------------------------------------------------------------------------

enum { SAMPLES = 6, WIDTH = 5 };

typedef rung_value loss_function(rung_graph *g, rung_value x, rung_value target, rung_value label);

static rung_value mse(rung_graph *g, rung_value x, rung_value target, rung_value label)
{
    (void)label;
    return rung_mse_loss(g, x, target, .sum = false);
}

static rung_value bce(rung_graph *g, rung_value x, rung_value target, rung_value label)
{
    (void)label;
    return rung_bce_with_logits(g, x, target, .sum = false);
}

static rung_value nll(rung_graph *g, rung_value x, rung_value target, rung_value label)
{
    (void)target;
    return rung_nll_loss(g, rung_log_softmax(g, x, -1), label, .ignore_index = 2);
}

static rung_value cross(rung_graph *g, rung_value x, rung_value target, rung_value label)
{
    (void)target;
    return rung_cross_entropy(g, x, label, .ignore_index = 2);
}

static rung_value mean_of_all(rung_graph *g, rung_value x, rung_value target, rung_value label)
{
    (void)label;
    return rung_mean(g, rung_mul(g, x, target), .keepdim = false);
}

// Not a mean over the batch: each row's mean, summed.
static rung_value mean_of_rows(rung_graph *g, rung_value x, rung_value target, rung_value label)
{
    (void)label;
    rung_value rows = rung_mean(g, rung_mul(g, x, target), .dims = RUNG_DIMS(1));
    return rung_sum(g, rows, .keepdim = false);
}

// Loss and gradient of samples [begin, begin + count), with divisors counted or given.
static double run_shard(const rung_graph *g, rung_state *s, int begin, int count, double *counts,
                        bool count_only)
{
    static float x[SAMPLES * WIDTH], target[SAMPLES * WIDTH];
    static const int64_t label[SAMPLES] = {0, 2, 4, 1, 2, 3};
    rung_plan *plan;
    float loss = 0;
    fill(x, SAMPLES * WIDTH, 4);
    fill(target, SAMPLES * WIDTH, 5);
    assert_ok(
        rung_compile(g, s, &(rung_compile_options){.batch = count, .gradients = true}, &plan));
    assert_ok(rung_plan_bind(plan, "x", x + begin * WIDTH));
    assert_ok(rung_plan_bind(plan, "target", target + begin * WIDTH));
    assert_ok(rung_plan_bind(plan, "label", label + begin));
    if (count_only) {
        rungi_instance_count(plan->instance, counts);
    } else {
        plan->instance->rt.normalizer = counts;
        assert_ok(rung_plan_forward(plan));
        assert_ok(rung_plan_backward(plan));
        assert_ok(rung_plan_loss(plan, &loss));
    }
    rung_plan_destroy(&plan);
    return (double)loss;
}

// Losses and gradients of two shards of different sizes add up to those of the whole batch.
static void shards(void **state)
{
    const fixture *f = *state;
    loss_function *const losses[] = {mse, bce, nll, cross, mean_of_all, mean_of_rows};
    for (size_t k = 0; k < sizeof losses / sizeof *losses; k++) {
        rung_graph *g;
        rung_state *s;
        assert_ok(rung_graph_create(f->context, &g));
        rung_value x = rung_input(g, "x", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, WIDTH));
        rung_value t = rung_input(g, "target", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, WIDTH));
        rung_value l = rung_input(g, "label", RUNG_I64, RUNG_SHAPE(RUNG_BATCH));
        rung_value w = rung_param(g, "w", RUNG_SHAPE(WIDTH), NULL);
        rung_graph_loss(g, losses[k](g, rung_mul(g, x, w), t, l));
        assert_ok(rung_state_create(g, f->device, &s));
        int64_t n;
        float *params = rung_state_params(s, &n), *grads = rung_state_grads(s, &n);
        fill(params, n, 6);
        double whole = run_shard(g, s, 0, SAMPLES, NULL, false), parts = 0, sum[WIDTH] = {0};
        float full[WIDTH];
        memcpy(full, grads, sizeof full);
        double counts[8] = {0};
        assert_true(g->nodes.count <= 8);
        for (int pass = 0; pass < 2; pass++)
            for (int shard = 0; shard < 2; shard++) {
                parts += run_shard(g, s, shard ? 4 : 0, shard ? 2 : 4, counts, pass == 0);
                for (int i = 0; pass && i < WIDTH; i++)
                    sum[i] += (double)grads[i];
            }
        assert_near(parts, whole, 1e-6 * fmax(1, fabs(whole)));
        for (int i = 0; i < WIDTH; i++)
            assert_near(sum[i], (double)full[i], 1e-6);
        rung_state_destroy(&s);
        rung_graph_destroy(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(shapes, set_up, tear_down),
        cmocka_unit_test(mistakes),
        cmocka_unit_test_setup_teardown(fused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(shards, set_up, tear_down),
    };
    return RUN_TESTS(tests);
}
