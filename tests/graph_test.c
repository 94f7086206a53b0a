// SPDX-License-Identifier: Apache-2.0
#include "testing.h"

#include "graph/graph.h"
#include "rung/nn.h"

static rung_context *context;
static rung_graph *g;

static int set_up(void **state)
{
    (void)state;
    return rung_context_create(NULL, &context) || rung_graph_create(context, &g);
}

static int tear_down(void **state)
{
    (void)state;
    rung_graph_destroy(&g);
    rung_context_destroy(&context);
    return 0;
}

static void shape_is(rung_value v, const char *expected)
{
    char text[RUNG_SHAPE_TEXT];
    rung_shape shape = rung_value_shape(g, v);
    assert_string_equal(rung_shape_text(&shape, text, sizeof text), expected);
}

static void symbolic_shapes(void **state)
{
    (void)state;
    rung_value x = rung_input(g, "x", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 3, 32, 32));
    x = rung_conv2d(g, x, "conv1", .out = 8, .kernel = 3, .pad = 1);
    shape_is(x, "[N, 8, 32, 32]");
    x = rung_max_pool2d(g, rung_relu(g, x), .kernel = 2);
    shape_is(x, "[N, 8, 16, 16]");
    shape_is(rung_flatten(g, x, 1), "[N, 2048]");
    shape_is(rung_flatten(g, x, 0), "[-1]"); // 2048 N
    int64_t t = rung_symbol(g, "length");
    assert_int_equal(t, rung_symbol(g, "length"));
    rung_value text = rung_input(g, "t", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, t, 16));
    rung_value y = rung_linear(g, text, "fc", .out = 4);
    assert_int_equal(rung_value_shape(g, y).dim[1], t);
    assert_int_equal(rung_value_shape(g, y).dim[2], 4);
    assert_ok(rung_graph_check(g));
}

static void first_mistake_is_kept(void **state)
{
    (void)state;
    rung_value x = rung_input(g, "x", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 3, 8, 8));
    rung_scope_push(g, "features");
    rung_value w = rung_param(g, "w", RUNG_SHAPE(4, 5, 3, 3), NULL);
    rung_value bad = rung_f_conv2d(g, x, w, (rung_value){0}, &(rung_conv2d_options){.pad = 1});
    rung_scope_pop(g);
    assert_false(rung_value_given(bad));
    // Later calls do nothing, also with values that were never made.
    rung_value more = rung_linear(g, rung_relu(g, bad), "fc", .out = 3);
    assert_false(rung_value_given(more));
    rung_graph_loss(g, more);
    assert_fails(RUNG_MISMATCH,
                 "layer features.conv2d_1: the weight [4, 5, 3, 3] with 1 groups "
                 "does not fit the input [N, 3, 8, 8]",
                 rung_graph_check(g));
}

static void layers_need_fixed_dimensions(void **state)
{
    (void)state;
    rung_value x = rung_input(g, "x", RUNG_F32, RUNG_SHAPE(4, RUNG_BATCH));
    rung_linear(g, x, "fc", .out = 3);
    assert_fails(RUNG_MISMATCH, "layer fc: the number of features must not depend on a symbolic",
                 rung_graph_check(g));
}

static void names_are_unique(void **state)
{
    (void)state;
    rung_param(g, "w", RUNG_SHAPE(2), NULL);
    rung_scope_push(g, "a");
    assert_true(rung_value_given(rung_param(g, "w", RUNG_SHAPE(2), NULL)));
    rung_param(g, "w", RUNG_SHAPE(2), NULL);
    assert_fails(RUNG_INVALID, "the name 'a.w' is taken", rung_graph_check(g));
}

static void loss_must_be_scalar(void **state)
{
    (void)state;
    rung_value x = rung_input(g, "x", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 4));
    rung_graph_loss(g, x);
    assert_fails(RUNG_MISMATCH, "'x' is [N, 4]", rung_graph_check(g));
}

static void reshape_mistakes(void **state)
{
    (void)state;
    rung_value x = rung_input(g, "x", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 4, 3));
    shape_is(rung_reshape(g, x, RUNG_SHAPE(0, 12)), "[N, 12]");
    shape_is(rung_reshape(g, x, RUNG_SHAPE(0, 2, -1)), "[N, 2, 6]");
    rung_reshape(g, x, RUNG_SHAPE(0, 5, -1));
    assert_fails(RUNG_MISMATCH, "the number of elements differs", rung_graph_check(g));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(symbolic_shapes),  TEST(first_mistake_is_kept), TEST(layers_need_fixed_dimensions),
        TEST(names_are_unique), TEST(loss_must_be_scalar),   TEST(reshape_mistakes),
    };
    return RUN_TESTS(tests);
}
