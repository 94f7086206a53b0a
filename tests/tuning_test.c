// SPDX-License-Identifier: Apache-2.0
#include "testing.h"

#include <stdlib.h>

#include "graph/plan.h"
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
        cmocka_unit_test(files_are_checked),
    };
    return RUN_TESTS(tests);
}
