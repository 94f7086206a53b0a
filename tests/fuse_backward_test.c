// SPDX-License-Identifier: Apache-2.0
// The backward of a ReLU is done while the step that follows reads the gradient, with the bits of a
// pass of its own.
#include "testing.h"

#include "graph/plan.h"
#include "rung/nn.h"

static rung_context *context;
static rung_device *device;

enum { SAMPLES = 3, CHANNELS = 18, HEIGHT = 5, WIDTH = 7, PIXELS = HEIGHT * WIDTH };
enum { VALUES = SAMPLES * CHANNELS * PIXELS, GRADIENTS = VALUES + CHANNELS * (9 * CHANNELS + 1) };

// What stands in front of the ReLU.
typedef enum source { NORM, NORM_AND_RESIDUAL, CONV, CONV_READ_TWICE } source;

static rung_value build(rung_graph *g, source from)
{
    rung_value r = rung_input(g, "r", RUNG_F32, RUNG_SHAPE(SAMPLES, CHANNELS, HEIGHT, WIDTH));
    if (from == CONV) // its input wants no gradient: backward_weight alone reads the ReLU's
        return rung_conv2d(g, r, "layer", .out = CHANNELS, .kernel = 3, .pad = 1);
    rung_value x = rung_param(g, "x", RUNG_SHAPE(SAMPLES, CHANNELS, HEIGHT, WIDTH), NULL);
    if (from == CONV_READ_TWICE)
        return rung_conv2d(g, x, "layer", .out = CHANNELS, .kernel = 3, .pad = 1);
    rung_value y = rung_batch_norm(g, x, "layer");
    return from == NORM ? y : rung_add(g, y, r);
}

static rung_graph *graph_of(source from)
{
    rung_graph *g;
    assert_ok(rung_graph_create(context, &g));
    rung_value y = rung_flatten(g, rung_relu(g, build(g, from)), 1);
    rung_value labels = rung_input(g, "labels", RUNG_I64, RUNG_SHAPE(SAMPLES));
    rung_graph_loss(g, rung_cross_entropy(g, y, labels));
    return g;
}

static void fill(const rung_state *s, const char *name, float scale)
{
    rung_state_entry e;
    if (!rung_state_find(s, name, &e))
        return;
    int64_t count = 1;
    for (int d = 0; d < e.shape.rank; d++)
        count *= e.shape.dim[d];
    for (int64_t i = 0; i < count; i++)
        ((float *)e.data)[i] = scale * ((float)(i * 31 % 211) / 105 - 1);
}

static bool has(const rung_plan *plan, const char *what)
{
    char *text;
    assert_ok(rung_plan_explain(plan, &text));
    bool found = strstr(text, what) != NULL;
    free(text);
    return found;
}

// All gradients of a step, one after the other; whether the ReLU's backward has a step of its own.
static bool gradients(const rung_graph *g, rung_state *s, rung_compile_options o, float *out)
{
    static const char *const names[] = {"x", "layer.weight", "layer.bias"};
    static float r[VALUES];
    static const int64_t labels[SAMPLES] = {0, 7, 300};
    rung_plan *plan;
    for (int i = 0; i < VALUES; i++)
        r[i] = (float)(i * 37 % 101) / 50 - 1;
    o.batch = SAMPLES;
    o.training = o.gradients = o.winograd = true;
    o.threads = 2;
    assert_ok(rung_compile(g, s, &o, &plan));
    assert_ok(rung_plan_bind(plan, "labels", labels));
    if (rungi_plan_input(plan, "r") != -2)
        assert_ok(rung_plan_bind(plan, "r", r));
    assert_ok(rung_plan_forward(plan));
    assert_ok(rung_plan_backward(plan));
    memset(out, 0, sizeof(float) * GRADIENTS);
    for (int i = 0; i < 3; i++) {
        rung_view view;
        if (rung_plan_grad(plan, names[i], &view) != RUNG_OK)
            continue;
        int64_t count = rungi_shape_size(&view.shape);
        memcpy(out, view.data, sizeof(float) * (size_t)count);
        out += count;
    }
    bool apart = has(plan, "relu.backward");
    assert_true(apart != (has(plan, "batch_norm.backward + relu (") ||
                          has(plan, "conv2d.backward_weight + relu (")));
    rung_plan_destroy(&plan);
    return apart;
}

static void check(source from, rung_layout layout, bool fuses)
{
    static float apart[GRADIENTS], joined[GRADIENTS];
    rung_graph *g = graph_of(from);
    rung_state *s;
    assert_ok(rung_state_create(g, device, &s));
    assert_ok(rung_state_init(s, 1));
    fill(s, "x", 2);
    fill(s, "layer.bias", 0.5F);
    rung_compile_options o = {.layout = layout};
    assert_true(gradients(g, s, o, apart));
    o.fuse = true;
    assert_int_equal(gradients(g, s, o, joined), !fuses);
    assert_memory_equal(apart, joined, sizeof apart);
    int zeros = 0;
    for (int i = 0; i < VALUES / 4; i++)
        zeros += apart[i] == 0;
    assert_true(zeros < VALUES / 8); // there is something to compare
    rung_state_destroy(&s);
    rung_graph_destroy(&g);
}

static void of_normalization(void **state)
{
    (void)state;
    for (int layout = RUNG_LAYOUT_PLAIN; layout <= RUNG_LAYOUT_CHANNELS_LAST; layout++) {
        check(NORM, (rung_layout)layout, true);
        check(NORM_AND_RESIDUAL, (rung_layout)layout, true);
    }
}

// Winograd's gradient of the weight alone, which is chosen where channels lie side by side.
static void of_convolution(void **state)
{
    (void)state;
    check(CONV, RUNG_LAYOUT_CHANNELS_LAST, true);
    check(CONV, RUNG_LAYOUT_PLAIN, false);
    check(CONV_READ_TWICE, RUNG_LAYOUT_CHANNELS_LAST, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_normalization),
        cmocka_unit_test(of_convolution),
    };
    if (rung_context_create(NULL, &context) != RUNG_OK ||
        rung_device_create(context, "cpu:0", &(rung_device_options){.threads = 2}, &device) !=
            RUNG_OK)
        return 1;
    int status = RUN_TESTS(tests);
    rung_device_destroy(&device);
    rung_context_destroy(&context);
    return status;
}
