// SPDX-License-Identifier: Apache-2.0
// What plans make of normalization, dropout and pooling: refusals, aliases, fusion, shards.
#include "testing.h"

#include "base/philox.h"
#include "graph/plan.h"
#include "rung/nn.h"

static rung_context *context;
static rung_device *device;

static char *explain(const rung_graph *g, rung_state *s, rung_compile_options options)
{
    rung_plan *plan;
    char *text;
    options.batch = 4;
    assert_ok(rung_compile(g, s, &options, &plan));
    assert_ok(rung_plan_explain(plan, &text));
    rung_plan_destroy(&plan);
    return text;
}

static int count_text(const char *text, const char *what)
{
    int n = 0;
    for (; (text = strstr(text, what)); text++)
        n++;
    return n;
}

static void one_value_per_channel_is_refused(void **state)
{
    (void)state;
    rung_graph *g;
    rung_state *s;
    rung_plan *plan;
    assert_ok(rung_graph_create(context, &g));
    rung_value x = rung_input(g, "x", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 8));
    rung_scope_push(g, "features");
    rung_value y = rung_batch_norm(g, x, "bn1");
    rung_scope_pop(g);
    rung_graph_output(g, "y", y);
    assert_ok(rung_state_create(g, device, &s));
    assert_fails(RUNG_INVALID,
                 "layer features.bn1: Expected more than 1 value per channel when training, got "
                 "input [1, 8]",
                 rung_compile(g, s, &(rung_compile_options){.batch = 1, .training = true}, &plan));
    assert_ok(rung_compile(g, s, &(rung_compile_options){.batch = 1}, &plan));
    rung_plan_destroy(&plan);
    assert_ok(rung_compile(g, s, &(rung_compile_options){.batch = 2, .training = true}, &plan));
    rung_plan_destroy(&plan);
    rung_state_destroy(&s);
    rung_graph_destroy(&g);
}

static void dropout_costs_nothing_in_evaluation(void **state)
{
    (void)state;
    rung_graph *g;
    rung_state *s;
    assert_ok(rung_graph_create(context, &g));
    rung_value x = rung_input(g, "x", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 8, 4, 4));
    rung_value y = rung_dropout(g, rung_max_pool2d(g, x, .kernel = 2), 0.25);
    rung_graph_output(g, "y", rung_relu(g, rung_dropout(g, y, 0)));
    assert_ok(rung_state_create(g, device, &s));
    for (int layout = RUNG_LAYOUT_PLAIN; layout <= RUNG_LAYOUT_BLOCKED; layout++) {
        char *text = explain(g, s, (rung_compile_options){.layout = (rung_layout)layout});
        assert_null(strstr(text, "dropout"));
        free(text);
        text =
            explain(g, s, (rung_compile_options){.layout = (rung_layout)layout, .training = true});
        assert_int_equal(count_text(text, "dropout.forward"), 1); // not the one with p = 0
        free(text);
    }
    rung_state_destroy(&s);
    rung_graph_destroy(&g);
}

// The gradient passes where the value did, and the mask depends on the step.
static void dropout_drops_value_and_gradient_alike(void **state)
{
    (void)state;
    enum { ROWS = 3, COUNT = ROWS * 8 * 3 * 5 };
    int64_t labels[ROWS] = {0};
    float first[COUNT] = {0};
    for (int layout = RUNG_LAYOUT_PLAIN; layout <= RUNG_LAYOUT_BLOCKED; layout++) {
        rung_graph *g;
        rung_state *s;
        rung_plan *plan;
        rung_view y;
        rung_state_entry x;
        assert_ok(rung_graph_create(context, &g));
        rung_value v = rung_param(g, "x", RUNG_SHAPE(ROWS, 8, 3, 5),
                                  &(rung_param_options){.init = RUNG_INIT_CONSTANT_OF(3)});
        v = rung_dropout(g, rung_max_pool2d(g, v, .kernel = 1), 0.25);
        rung_graph_output(g, "y", v);
        rung_graph_loss(g, rung_cross_entropy(g, rung_flatten(g, v, 1),
                                              rung_input(g, "labels", RUNG_I64, RUNG_SHAPE(ROWS)),
                                              .sum = true));
        assert_ok(rung_state_create(g, device, &s));
        assert_ok(rung_state_init(s, 1));
        assert_ok(rung_compile(
            g, s,
            &(rung_compile_options){
                .batch = ROWS, .layout = (rung_layout)layout, .training = true, .gradients = true},
            &plan));
        assert_ok(rung_plan_bind(plan, "labels", labels));
        assert_true(rung_state_find(s, "x", &x));
        for (int step = 0; step < 2; step++) {
            rung_plan_set_step(plan, 7, (uint64_t)step);
            assert_ok(rung_plan_forward(plan));
            assert_ok(rung_plan_backward(plan));
            assert_ok(rung_plan_output(plan, "y", &y));
            const float *got = y.data;
            for (int i = 0; i < COUNT; i++) {
                assert_true(got[i] == 0 || got[i] == 4);
                assert_int_equal(got[i] != 0, x.grad[i] != 0);
            }
            if (layout == RUNG_LAYOUT_PLAIN && step == 0)
                memcpy(first, got, sizeof first);
            assert_int_equal(memcmp(first, got, sizeof first) == 0, step == 0);
        }
        rung_plan_destroy(&plan);
        rung_state_destroy(&s);
        rung_graph_destroy(&g);
    }
}

// Shards of 4 and 3 samples, one after the other in one arena, leave the running statistics that
// one batch of 7 does.
static void shards_share_an_arena(void **state)
{
    (void)state;
    enum { ROWS = 7, SIZE = 6 * 5 };
    static float data[ROWS * SIZE];
    for (int i = 0; i < ROWS * SIZE; i++)
        data[i] = (float)(i * 37 % 101) / 10;
    double seen[2][12];
    for (int sharded = 0; sharded < 2; sharded++) {
        rung_graph *g;
        rung_state *s;
        rung_arena *arena;
        rung_plan *plans[2] = {NULL, NULL};
        rungi_instance *shards[2];
        int sizes[2] = {sharded ? 4 : ROWS, 3}, count = sharded ? 2 : 1, at = 0;
        assert_ok(rung_graph_create(context, &g));
        rung_value x = rung_input(g, "x", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 6, 5));
        rung_value y = rung_batch_norm(g, rung_relu(g, x), "bn");
        for (int i = 0; i < 4; i++) // what would take the place of the statistics
            y = rung_pad(g, y, (int64_t[]){0, 0, 0}, (int64_t[]){0, 0, 1}, 1);
        rung_graph_output(g, "y", y);
        assert_ok(rung_state_create(g, device, &s));
        assert_ok(rung_state_init(s, 1));
        assert_ok(rung_arena_create(device, &arena));
        for (int k = 0; k < count; k++) {
            assert_ok(rung_compile(
                g, s, &(rung_compile_options){.batch = sizes[k], .training = true, .arena = arena},
                &plans[k]));
            shards[k] = plans[k]->instance;
        }
        for (int k = 0; k < count; k++) {
            assert_ok(rung_plan_bind(plans[k], "x", data + at));
            at += sizes[k] * SIZE;
            assert_ok(rungi_instance_run(shards[k], 0, plans[k]->n_forward));
        }
        assert_ok(rungi_instances_finish(shards, count));
        for (int i = 0; i < 12; i++) {
            rung_state_entry e;
            assert_true(rung_state_find(s, i < 6 ? "bn.running_mean" : "bn.running_var", &e));
            seen[sharded][i] = ((float *)e.data)[i % 6];
        }
        rung_plan_destroy(&plans[0]);
        rung_plan_destroy(&plans[1]);
        rung_arena_destroy(&arena);
        rung_state_destroy(&s);
        rung_graph_destroy(&g);
    }
    for (int i = 0; i < 12; i++)
        assert_near(seen[1][i], seen[0][i], 1e-6);
}

static void residual_and_relu_are_fused(void **state)
{
    (void)state;
    rung_graph *g;
    rung_state *s;
    assert_ok(rung_graph_create(context, &g));
    rung_value x = rung_input(g, "x", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 8, 4, 4));
    rung_value a = rung_batch_norm(g, x, "bn1"), b = rung_batch_norm(g, x, "bn2"); // b after a
    rung_value pool = rung_max_pool2d(g, rung_relu(g, rung_add(g, a, b)), .kernel = 2);
    rung_graph_output(g, "y", rung_relu(g, pool));
    assert_ok(rung_state_create(g, device, &s));
    char *text = explain(g, s, (rung_compile_options){.fuse = true, .training = true});
    assert_non_null(strstr(text, "batch_norm.forward + add (add_1) + relu (relu_1)"));
    assert_non_null(strstr(text, "max_pool2d.forward + relu (relu_2)"));
    free(text);
    rung_state_destroy(&s);
    rung_graph_destroy(&g);
}

// A convolution takes a pooling and what follows it: the same bits as one after the other.
static void pooling_is_fused(void **state)
{
    enum { SIZE = 16 * 9 * 10 };
    static const rung_compile_options options = {.batch = 4,
                                                 .training = true,
                                                 .gradients = true,
                                                 .layout = RUNG_LAYOUT_CHANNELS_LAST,
                                                 .kernels = RUNG_KERNELS_OWN,
                                                 .winograd = true};
    (void)state;
    rung_graph *g;
    rung_state *s;
    assert_ok(rung_graph_create(context, &g));
    rung_value x = rung_input(g, "x", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 16, 9, 10));
    rung_value y = rung_conv2d(g, x, "conv1", .out = 20, .kernel = 3, .pad = 1);
    y = rung_relu(g, rung_max_pool2d(g, y, .kernel = 2));
    y = rung_max_pool2d(g, rung_conv2d(g, y, "conv2", .out = 16, .kernel = 3, .pad = 1),
                        .kernel = 2);
    rung_value target = rung_input(g, "target", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 16, 2, 2));
    rung_graph_loss(g, rung_mse_loss(g, y, target));
    assert_ok(rung_state_create(g, device, &s));
    assert_ok(rung_state_init(s, 3));
    static float data[4 * SIZE], zeros[4 * 16 * 2 * 2];
    rungi_random random = rungi_random_make(7, RUNGI_PURPOSE_TEST, 0, 0, 0);
    for (int i = 0; i < 4 * SIZE; i++)
        data[i] = (float)rungi_random_normal(&random, (uint64_t)i);
    float losses[2], *grads[2];
    for (int fuse = 0; fuse < 2; fuse++) {
        rung_compile_options o = options;
        rung_plan *plan;
        o.fuse = fuse;
        assert_ok(rung_compile(g, s, &o, &plan));
        assert_ok(rung_plan_bind(plan, "x", data));
        assert_ok(rung_plan_bind(plan, "target", zeros));
        assert_ok(rung_plan_forward(plan));
        assert_ok(rung_plan_backward(plan));
        assert_ok(rung_plan_loss(plan, &losses[fuse]));
        size_t bytes = (size_t)s->flat_size * sizeof(float);
        grads[fuse] = memcpy(malloc(bytes), s->grads, bytes);
        char *text;
        assert_ok(rung_plan_explain(plan, &text));
        assert_int_equal(count_text(text, "conv2d.forward + max_pool2d (max_pool2d_"), 2 * fuse);
        assert_int_equal(count_text(text, ") + relu (relu_1)"), fuse);
        assert_int_equal(count_text(text, "conv2d.backward_weight + max_pool2d (max_pool2d_"),
                         2 * fuse);
        assert_int_equal(count_text(text, "conv2d.backward_data + max_pool2d (max_pool2d_"), fuse);
        assert_int_equal(count_text(text, "max_pool2d.backward"), fuse ? 0 : 2);
        free(text);
        rung_plan_destroy(&plan);
    }
    assert_true(losses[0] > 0 && losses[0] == losses[1]);
    assert_memory_equal(grads[0], grads[1], (size_t)s->flat_size * sizeof(float));
    free(grads[0]);
    free(grads[1]);
    rung_state_destroy(&s);
    rung_graph_destroy(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_value_per_channel_is_refused),
        cmocka_unit_test(dropout_costs_nothing_in_evaluation),
        cmocka_unit_test(dropout_drops_value_and_gradient_alike),
        cmocka_unit_test(shards_share_an_arena),
        cmocka_unit_test(residual_and_relu_are_fused),
        cmocka_unit_test(pooling_is_fused),
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
