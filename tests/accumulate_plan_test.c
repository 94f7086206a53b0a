// SPDX-License-Identifier: Apache-2.0
// Plans that add to the gradients that are there, and parameters without a part in the loss.
#include "testing.h"

#include <math.h>
#include <stdlib.h>

#include "base/philox.h"
#include "graph/plan.h"
#include "rung/models.h"
#include "rung/nn.h"
#include "rung/ops.h"
#include "rung/optim.h"

enum { BATCH = 3, SIDE = 12, PIXELS = SIDE * SIDE };

typedef struct world {
    rung_context *context;
    rung_device *device;
    rung_graph *graph;
    rung_state *state;
    float image[2][BATCH * PIXELS];
    int64_t label[2][BATCH];
} world;

static void open(world *w)
{
    *w = (world){0};
    assert_ok(rung_context_create(NULL, &w->context));
    assert_ok(
        rung_device_create(w->context, "cpu:0", &(rung_device_options){.threads = 2}, &w->device));
    assert_ok(rung_graph_create(w->context, &w->graph));
    rungi_random random = rungi_random_make(4, RUNGI_PURPOSE_TEST, 0, 0, 0);
    for (int i = 0; i < 2 * BATCH * PIXELS; i++)
        w->image[i / (BATCH * PIXELS)][i % (BATCH * PIXELS)] =
            (float)rungi_random_normal(&random, (uint64_t)i);
    for (int i = 0; i < 2 * BATCH; i++)
        w->label[i / BATCH][i % BATCH] = i % 4;
}

static void drop(world *w)
{
    rung_state_destroy(&w->state);
    rung_graph_destroy(&w->graph);
    rung_device_destroy(&w->device);
    rung_context_destroy(&w->context);
}

static void run(world *w, rung_plan *plan, int batch)
{
    assert_ok(rung_plan_bind(plan, "image", w->image[batch]));
    assert_ok(rung_plan_bind(plan, "label", w->label[batch]));
    assert_ok(rung_plan_forward(plan));
    assert_ok(rung_plan_backward(plan));
}

static float *kept(const world *w)
{
    size_t bytes = (size_t)w->state->flat_size * sizeof(float);
    float *copy = malloc(bytes);
    assert_non_null(copy);
    return memcpy(copy, w->state->grads, bytes);
}

// The sum of two batches' gradients, to the last bit, in every layout and with recomputation.
static void gradients_are_added(void **state)
{
    (void)state;
    static const rung_compile_options variants[] = {
        {.kernels = RUNG_KERNELS_REFERENCE},
        {.kernels = RUNG_KERNELS_LIBRARY},
        {.kernels = RUNG_KERNELS_OWN, .layout = RUNG_LAYOUT_CHANNELS_LAST, .fuse = true},
        {.kernels = RUNG_KERNELS_OWN,
         .layout = RUNG_LAYOUT_CHANNELS_LAST,
         .fuse = true,
         .winograd = true,
         .fuse_optimizer = true},
        {.kernels = RUNG_KERNELS_OWN, .layout = RUNG_LAYOUT_BLOCKED, .fuse = true},
        {.kernels = RUNG_KERNELS_OWN, .fuse = true, .recompute = RUNG_RECOMPUTE_AUTO},
    };
    static world w;
    open(&w);
    rung_value x = rung_input(w.graph, "image", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 1, SIDE, SIDE));
    rung_value y = rung_input(w.graph, "label", RUNG_I64, RUNG_SHAPE(RUNG_BATCH)), logits;
    assert_ok(
        rung_model_build(w.graph, "fashion_cnn", &(rung_model_options){.classes = 4}, x, &logits));
    rung_graph_loss(w.graph, rung_cross_entropy(w.graph, logits, y, 0));
    assert_ok(rung_state_create(w.graph, w.device, &w.state));
    assert_ok(rung_state_init(w.state, 5));
    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
        rung_compile_options o = variants[v];
        rung_arena *arena;
        rung_plan *plain, *adding;
        assert_ok(rung_arena_create(w.device, &arena));
        o.batch = BATCH;
        o.training = o.gradients = true;
        o.arena = arena;
        assert_ok(rung_compile(w.graph, w.state, &o, &plain));
        o.accumulate = true;
        assert_ok(rung_compile(w.graph, w.state, &o, &adding));
        char *text;
        assert_ok(rung_plan_explain(adding, &text));
        assert_int_equal(strstr(text, "adds to the gradients itself") != NULL,
                         o.kernels == RUNG_KERNELS_OWN);
        free(text);
        run(&w, plain, 1);
        float *second = kept(&w);
        run(&w, plain, 0);
        float *first = kept(&w);
        run(&w, adding, 1);
        for (int64_t i = 0; i < w.state->flat_size; i++)
            assert_true(w.state->grads[i] == first[i] + second[i]);
        rung_view view;
        assert_ok(rung_plan_grad(adding, "fc1.weight", &view));
        assert_true((float *)view.data >= w.state->grads &&
                    (float *)view.data < w.state->grads + w.state->flat_size);
        free(first);
        free(second);
        rung_plan_destroy(&adding);
        rung_plan_destroy(&plain);
        rung_arena_destroy(&arena);
    }
    rung_plan *plan;
    rung_compile_options o = {.batch = 1, .gradients = true, .float64 = true, .accumulate = true};
    assert_fails(RUNG_INVALID, "it cannot accumulate", rung_compile(w.graph, w.state, &o, &plan));
    drop(&w);
}

// A head that only an argmax uses, one that nothing uses, and one that is frozen.
static void unused_parameters(void **state)
{
    (void)state;
    static world w;
    const char *names[4];
    rung_optimizer *optimizer;
    rung_plan *plan;
    rung_state_entry dead;
    open(&w);
    rung_graph *g = w.graph;
    rung_value x = rung_input(g, "image", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, PIXELS));
    rung_value y = rung_input(g, "label", RUNG_I64, RUNG_SHAPE(RUNG_BATCH));
    rung_graph_output(g, "class", rung_argmax(g, rung_linear(g, x, "choice", .out = 3), 1));
    rung_linear(g, x, "left", .out = 2);
    rung_linear(g, x, "frozen", .out = 2);
    rung_graph_loss(g, rung_cross_entropy(g, rung_linear(g, x, "fc", .out = 4), y, 0));
    assert_int_equal(rung_graph_freeze(g, "frozen.*"), 2);
    assert_int_equal(rung_graph_unused(g, names, 4), 4);
    assert_string_equal(names[0], "choice.weight");
    assert_string_equal(names[1], "choice.bias");
    assert_string_equal(names[2], "left.weight");
    assert_int_equal(rung_graph_unused(g, NULL, 0), 4);
    assert_ok(rung_state_create(g, w.device, &w.state));
    assert_ok(rung_state_init(w.state, 5));
    // As PyTorch's with grad None: weight decay does not touch them.
    rung_optimizer_options o = rung_optimizer_defaults(RUNG_OPTIMIZER_ADAMW);
    assert_ok(rung_optimizer_for_state(w.context, &o, w.state, &optimizer));
    assert_ok(rung_compile(
        g, w.state, &(rung_compile_options){.batch = BATCH, .training = true, .gradients = true},
        &plan));
    assert_true(rung_state_find(w.state, "left.weight", &dead));
    float before = *(float *)dead.data;
    assert_true(before != 0);
    run(&w, plan, 0);
    const rung_optimizer_update u = {.rates.lr = 0.1};
    assert_ok(rung_optimizer_step(optimizer, w.state->params, w.state->grads, &u, NULL));
    assert_true(*(float *)dead.data == before);
    rung_plan_destroy(&plan);
    rung_optimizer_destroy(&optimizer);
    drop(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_added),
        cmocka_unit_test(unused_parameters),
    };
    return RUN_TESTS(tests);
}
