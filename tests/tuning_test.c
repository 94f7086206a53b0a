// SPDX-License-Identifier: Apache-2.0
#include "testing.h"

#include <stdlib.h>

#include "graph/plan.h"
#include "graph/tune.h"
#include "ops/conv2d/conv2d.h"
#include "ops/halves.h"
#include "ops/pool_window.h"
#include "ops/trial.h"
#include "rung/nn.h"
#include "test_folder.h"

typedef struct world {
    rung_context *context;
    rung_device *device;
    rung_graph *graph;
    rung_state *state;
} world;

static void make(world *w)
{
    assert_ok(rung_context_create(NULL, &w->context));
    assert_ok(
        rung_device_create(w->context, "cpu:0", &(rung_device_options){.threads = 1}, &w->device));
    assert_ok(rung_graph_create(w->context, &w->graph));
    rung_value x = rung_input(w->graph, "image", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 8, 6, 6));
    rung_value y = rung_input(w->graph, "label", RUNG_I64, RUNG_SHAPE(RUNG_BATCH));
    x = rung_relu(w->graph, rung_conv2d(w->graph, x, "conv", .out = 8, .kernel = 3, .pad = 1));
    x = rung_flatten(w->graph, rung_max_pool2d(w->graph, x, .kernel = 2), 1);
    rung_graph_loss(w->graph,
                    rung_cross_entropy(w->graph, rung_linear(w->graph, x, "fc", .out = 3), y, 0));
    assert_ok(rung_state_create(w->graph, w->device, &w->state));
    assert_ok(rung_state_init(w->state, 1));
}

static void drop(world *w)
{
    rung_state_destroy(&w->state);
    rung_graph_destroy(&w->graph);
    rung_device_destroy(&w->device);
    rung_context_destroy(&w->context);
}

static rung_plan *compiled(world *w, rung_tuning *tuning)
{
    rung_plan *plan;
    assert_ok(rung_compile(w->graph, w->state,
                           &(rung_compile_options){.batch = 4,
                                                   .training = true,
                                                   .gradients = true,
                                                   .layout = RUNG_LAYOUT_CHANNELS_LAST,
                                                   .tuning = tuning},
                           &plan));
    return plan;
}

// What was measured once is kept: the same plan again measures nothing and has the same kernels,
// also through a file, also when that file says otherwise than a measurement would.
static void choices_are_kept(void **state)
{
    (void)state;
    world w;
    char path[512];
    test_folder folder;
    test_folder_init(&folder);
    snprintf(path, sizeof path, "%s/tuning.json", folder.path);
    make(&w);
    rung_tuning *first, *second;
    assert_ok(rung_tuning_create(&first));
    rung_plan *a = compiled(&w, first);
    int measured, again;
    int count = rung_tuning_count(first, &measured);
    assert_true(count > 0);
    assert_int_equal(measured, count);
    rung_plan *b = compiled(&w, first);
    rung_tuning_count(first, &again);
    assert_int_equal(again, measured);
    assert_ok(rung_tuning_save(first, path));
    assert_ok(rung_tuning_create(&second));
    assert_ok(rung_tuning_load(second, path, true));
    assert_int_equal(rung_tuning_count(second, &measured), count);
    assert_int_equal(measured, 0);
    rung_plan *c = compiled(&w, second);
    rung_tuning_count(second, &measured);
    assert_int_equal(measured, 0);
    for (size_t i = 0; i < a->steps.count; i++) {
        assert_ptr_equal(a->steps.data[i].kernel, b->steps.data[i].kernel);
        assert_ptr_equal(a->steps.data[i].kernel, c->steps.data[i].kernel);
    }
    rung_plan_destroy(&a);
    rung_plan_destroy(&b);
    rung_plan_destroy(&c);
    rung_tuning_destroy(&first);
    rung_tuning_destroy(&second);
    drop(&w);
    test_folder_fini(&folder);
}

// Kernels are measured on valid operands: backward of a padded pooling follows the places that
// forward has kept, none of which may lie in the padding.
static void backward_gets_what_forward_keeps(void **state)
{
    (void)state;
    world w = {0};
    rung_tuning *tuning;
    assert_ok(rung_context_create(NULL, &w.context));
    assert_ok(rung_device_create(w.context, "cpu:0", NULL, &w.device));
    assert_ok(rung_graph_create(w.context, &w.graph));
    rung_value x = rung_input(w.graph, "image", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 3, 224, 224));
    rung_value y = rung_input(w.graph, "label", RUNG_I64, RUNG_SHAPE(RUNG_BATCH));
    x = rung_conv2d(w.graph, x, "conv", .out = 16, .kernel = 3, .stride = 2, .pad = 1);
    x = rung_max_pool2d(w.graph, x, .kernel = 3, .stride = 2, .pad = 1);
    x = rung_flatten(w.graph, rung_adaptive_avg_pool2d(w.graph, x, 1, 1), 1);
    rung_graph_loss(w.graph,
                    rung_cross_entropy(w.graph, rung_linear(w.graph, x, "fc", .out = 3), y, 0));
    assert_ok(rung_state_create(w.graph, w.device, &w.state));
    assert_ok(rung_tuning_create(&tuning));
    for (int layout = RUNG_LAYOUT_PLAIN; layout <= RUNG_LAYOUT_BLOCKED; layout++) {
        rung_plan *plan;
        rung_compile_options o = {.batch = 2,
                                  .training = true,
                                  .gradients = true,
                                  .layout = (rung_layout)layout,
                                  .tuning = tuning};
        assert_ok(rung_compile(w.graph, w.state, &o, &plan));
        rung_plan_destroy(&plan);
    }
    rung_tuning_destroy(&tuning);
    drop(&w);
}

// A convolution in bf16 with a pooling, which the library does not take. Without bf16 dot products
// its own kernel widens: slowly, but rightly.
static const rungi_conv2d_attr same = {{1, 1}, {1, 1}, {1, 1}, 1};
static const rungi_pool_attr two = {{2, 2}, {2, 2}, {0, 0}, false, false, 0};

// Where kernels take 16 bits as they are, one of float32 around them is measured too, and taken if
// it was the fastest.
static void float32_around_halves_is_a_candidate(void **state)
{
    static const rungi_case c = {
        "pooled", {RUNGI_IN(2, 32, 8, 8), RUNGI_IN(32, 32, 3, 3)}, 2, &same};
    (void)state;
    rung_context *context;
    rungi_trial t;
    struct rungi_halves around;
    const rungi_kernel *kernel, *again;
    assert_ok(rung_context_create(NULL, &context));
    assert_ok(rungi_trial_init(&t, rungi_op_find("conv2d"), &c, RUNG_BF16, RUNGI_CHANNELS_LAST, 1));
    rungi_query q = rungi_trial_query(&t, RUNGI_FORWARD, ~0u, NULL);
    rungi_operand out[2] = {{RUNG_BF16, RUNGI_CHANNELS_LAST, {4, {2, 32, 4, 4}}, t.n_ptr},
                            {RUNG_U8, RUNGI_CHANNELS_LAST, {4, {2, 32, 4, 4}}, -1}};
    rungi_fused pool = {rungi_op_find("max_pool2d"), &two, 0, &t.out[0], 1, out};
    q.native = true;
    q.out = out;
    q.n_out = 2;
    q.fused = &pool;
    q.n_fused = 1;
    rungi_halves_around(&q, RUNGI_CPU, RUNGI_POLICY_ALL, &around);
    assert_non_null(around.kernel);
    rung_tuning *first;
    int measured;
    rungi_string table = {0};
    assert_ok(rung_tuning_create(&first));
    assert_ok(rungi_tuning_choose(first, context, &q, RUNGI_CPU, &around, &kernel));
    assert_true(kernel == around.kernel || strcmp(kernel->name, "winograd_bf16") == 0);
    rung_tuning_count(first, &measured);
    assert_int_equal(measured, 1);
    rungi_tuning_give(first, false, &table);
    char *work = strtok(table.data, "\t"), other[1024];
    for (int i = 0; i < 2; i++) { // whatever the table says
        rung_tuning *second;
        snprintf(other, sizeof other, "%s\t%s\n", work, i ? "winograd" : "winograd_bf16");
        assert_ok(rung_tuning_create(&second));
        assert_ok(rungi_tuning_take(second, other, false));
        assert_ok(rungi_tuning_choose(second, context, &q, RUNGI_CPU, &around, &again));
        assert_int_equal(again == around.kernel, i);
        rung_tuning_count(second, &measured);
        assert_int_equal(measured, 0);
        rung_tuning_destroy(&second);
    }
    rungi_string_fini(&table);
    rung_tuning_destroy(&first);
    rungi_trial_fini(&t);
    rung_context_destroy(&context);
}

static void files_are_checked(void **state)
{
    (void)state;
    char path[512];
    test_folder folder;
    test_folder_init(&folder);
    snprintf(path, sizeof path, "%s/tuning.json", folder.path);
    rung_tuning *t;
    assert_ok(rung_tuning_create(&t));
    assert_ok(rung_tuning_load(t, path, true)); // none yet
    FILE *file = fopen(path, "w");
    fputs("{\"cpu\": \"another\", \"choices\": {\"work\": \"kernel\"}}", file);
    fclose(file);
    assert_ok(rung_tuning_load(t, path, true));
    assert_int_equal(rung_tuning_count(t, NULL), 0);
    assert_ok(rung_tuning_load(t, path, false));
    assert_int_equal(rung_tuning_count(t, NULL), 1);
    file = fopen(path, "w");
    fputs("{\"cpu\": 3}", file);
    fclose(file);
    assert_fails(RUNG_FORMAT, "cpu", rung_tuning_load(t, path, true));
    rung_tuning_destroy(&t);
    test_folder_fini(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices_are_kept),
        cmocka_unit_test(backward_gets_what_forward_keeps),
        cmocka_unit_test(float32_around_halves_is_a_candidate),
        cmocka_unit_test(files_are_checked),
    };
    return RUN_TESTS(tests);
}
