// SPDX-License-Identifier: Apache-2.0
// ctest-labels: long
// Recomputation gives the bits of a plan without it: gradients, outputs, running statistics, with
// dropout and batch normalization, fused or not, and takes the memory that was asked for.
#include "testing.h"

#include <math.h>
#include <stdio.h>

#include "base/philox.h"
#include "graph/plan.h"
#include "graph/state.h"
#include "rung/models.h"
#include "rung/nn.h"

typedef struct world {
    rung_context *context;
    rung_device *device;
    rung_graph *graph;
    rung_state *state;
    float *image;
    int64_t *label;
    int64_t batch;
    char *buffers; // as they began
} world;

typedef rung_value (*build_fn)(rung_graph *g, rung_value image);

static void finish_world(world *w, const int64_t image[3], int64_t batch)
{
    int64_t count = batch * image[0] * image[1] * image[2];
    rungi_random random = rungi_random_make(3, RUNGI_PURPOSE_TEST, 1, 0, 0);
    w->batch = batch;
    w->image = malloc((size_t)count * sizeof *w->image);
    w->label = malloc((size_t)batch * sizeof *w->label);
    for (int64_t i = 0; i < count; i++)
        w->image[i] = (float)rungi_random_normal(&random, (uint64_t)i);
    for (int64_t i = 0; i < batch; i++)
        w->label[i] = i % 10;
    assert_ok(rung_state_create(w->graph, w->device, &w->state));
    assert_ok(rung_state_init(w->state, 1));
    w->buffers = malloc((size_t)w->state->buffer_bytes + 1);
    memcpy(w->buffers, w->state->buffers, (size_t)w->state->buffer_bytes);
}

static void make_world(world *w, const char *model, build_fn build, const int64_t image[3],
                       int64_t batch)
{
    *w = (world){0};
    assert_ok(rung_context_create(NULL, &w->context));
    assert_ok(
        rung_device_create(w->context, "cpu:0", &(rung_device_options){.threads = 1}, &w->device));
    assert_ok(rung_graph_create(w->context, &w->graph));
    rung_graph *g = w->graph;
    rung_value x =
        rung_input(g, "image", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, image[0], image[1], image[2]));
    rung_value y = rung_input(g, "label", RUNG_I64, RUNG_SHAPE(RUNG_BATCH)), logits;
    rung_model_options o = {.classes = 10, .stem = RUNG_STEM_CIFAR};
    if (model)
        assert_ok(rung_model_build(g, model, &o, x, &logits));
    else
        logits = build(g, x);
    rung_graph_output(g, "logits", logits);
    rung_graph_loss(g, rung_cross_entropy(g, logits, y, 0));
    finish_world(w, image, batch);
}

static void drop_world(world *w)
{
    free(w->image);
    free(w->label);
    free(w->buffers);
    rung_state_destroy(&w->state);
    rung_graph_destroy(&w->graph);
    rung_device_destroy(&w->device);
    rung_context_destroy(&w->context);
}

// What two steps leave.
typedef struct outcome {
    float loss;
    float *grads, *logits;
    char *buffers;
    rung_plan_memory memory;
    int again;
    double extra;
} outcome;

static void *copy_of(const void *data, size_t bytes)
{
    void *copy = malloc(bytes + 1);
    memcpy(copy, data, bytes);
    return copy;
}

static outcome run(world *w, rung_compile_options o)
{
    rung_plan *plan;
    rung_view logits;
    outcome out;
    o.batch = w->batch;
    o.training = o.gradients = true;
    memcpy(w->state->buffers, w->buffers, (size_t)w->state->buffer_bytes);
    assert_ok(rung_compile(w->graph, w->state, &o, &plan));
    // What is not written must not be read: nothing of the arena is there by chance.
    memset(plan->instance->arena->data, 0xFF, plan->instance->arena->bytes);
    memset(w->state->grads, 0xFF, (size_t)w->state->flat_size * sizeof(float));
    assert_ok(rung_plan_bind(plan, "image", w->image));
    assert_ok(rung_plan_bind(plan, "label", w->label));
    for (uint64_t step = 0; step < 2; step++) {
        rung_plan_set_step(plan, 7, step);
        assert_ok(rung_plan_forward(plan));
        assert_ok(rung_plan_loss(plan, &out.loss));
        assert_ok(rung_plan_backward(plan));
    }
    assert_ok(rung_plan_output(plan, "logits", &logits));
    out.logits = copy_of(logits.data, (size_t)w->batch * 10 * sizeof(float));
    out.grads = copy_of(w->state->grads, (size_t)w->state->flat_size * sizeof(float));
    out.buffers = copy_of(w->state->buffers, (size_t)w->state->buffer_bytes);
    out.memory = rung_plan_memory_use(plan);
    rung_plan_recomputed(plan, &out.again, &out.extra);
    rung_plan_destroy(&plan);
    return out;
}

static void drop(outcome *o)
{
    free(o->grads);
    free(o->logits);
    free(o->buffers);
}

static void assert_same(const world *w, const outcome *a, const outcome *b)
{
    assert_memory_equal(&a->loss, &b->loss, sizeof(float));
    assert_memory_equal(a->logits, b->logits, (size_t)w->batch * 10 * sizeof(float));
    assert_memory_equal(a->grads, b->grads, (size_t)w->state->flat_size * sizeof(float));
    assert_memory_equal(a->buffers, b->buffers, (size_t)w->state->buffer_bytes);
    assert_true(isfinite(a->loss));
}

static const rung_compile_options switches[] = {
    {.kernels = RUNG_KERNELS_LIBRARY},
    {.kernels = RUNG_KERNELS_LIBRARY, .layout = RUNG_LAYOUT_BLOCKED, .fuse = true},
    {.kernels = RUNG_KERNELS_OWN, .layout = RUNG_LAYOUT_CHANNELS_LAST, .fuse = true},
    {.kernels = RUNG_KERNELS_OWN,
     .layout = RUNG_LAYOUT_CHANNELS_LAST,
     .fuse = true,
     .fuse_optimizer = true,
     .winograd = true},
};

// Can the plan do with that share of the memory?
static bool fits(const world *w, rung_compile_options o, const outcome *whole, double share)
{
    rung_plan *plan;
    o.recompute = RUNG_RECOMPUTE_AUTO;
    o.budget = (uint64_t)((double)whole->memory.arena * share);
    o.batch = w->batch;
    o.training = o.gradients = o.plan_only = true;
    assert_ok(rung_compile(w->graph, w->state, &o, &plan));
    bool does = plan->arena_bytes <= o.budget;
    rung_plan_destroy(&plan);
    return does;
}

// With the least memory that it can do with, and half way there.
static void check_budgets(world *w, rung_compile_options o, const outcome *whole, double least)
{
    double low = 0, high = 1;
    while (high - low > 0.02) {
        double middle = (low + high) / 2;
        *(fits(w, o, whole, middle) ? &high : &low) = middle;
    }
    print_message("needs %.2f of the memory\n", high);
    if (o.layout == RUNG_LAYOUT_CHANNELS_LAST)
        assert_true(high <= least);
    o.recompute = RUNG_RECOMPUTE_AUTO;
    if (low > 0) {
        rung_plan *plan;
        o.budget = (uint64_t)((double)whole->memory.arena * low);
        o.batch = w->batch;
        o.training = o.gradients = true;
        assert_fails(RUNG_NO_MEMORY, "more than the budget",
                     rung_compile(w->graph, w->state, &o, &plan));
    }
    for (int half = 0; half < 2 && high < 0.97; half++) {
        o.budget = (uint64_t)((double)whole->memory.arena * (half ? (1 + high) / 2 : high));
        outcome less = run(w, o);
        assert_true(less.memory.arena <= o.budget);
        assert_true(less.again > 0 && less.extra > 0 && less.extra < 0.7);
        assert_same(w, whole, &less);
        drop(&less);
    }
}

// `least`: the share of the memory that a plan of own kernels surely can do with. (A library's may
// have a step that takes as much by itself.)
static void check(const char *model, build_fn build, const int64_t image[3], int64_t batch,
                  const char *pattern, double least)
{
    world w;
    make_world(&w, model, build, image, batch);
    // The library's plain loops take minutes for the many small convolutions of a ResNet; with
    // sanitizers all networks but small graphs take long, and go through the last switches alone.
    size_t count = sizeof switches / sizeof *switches, first = 0;
    if (model && SANITIZED)
        first = count - 1;
    else if (model && strcmp(model, "resnet18") == 0)
        first = 2;
    for (size_t i = first; i < count; i++) {
        rung_compile_options o = switches[i];
        outcome whole = run(&w, o);
        assert_int_equal(whole.again, 0);
        check_budgets(&w, o, &whole, least);
        o.recompute = RUNG_RECOMPUTE_AUTO;
        outcome cheap = run(&w, o);
        assert_same(&w, &whole, &cheap);
        assert_true(cheap.extra <= 0.2);
        assert_true(cheap.memory.arena <= whole.memory.arena);
        o.recompute = RUNG_RECOMPUTE_LAYERS;
        o.recompute_layers = &pattern;
        o.n_recompute_layers = 1;
        outcome layers = run(&w, o);
        assert_same(&w, &whole, &layers);
        assert_true(layers.again > 0);
        drop(&whole);
        drop(&cheap);
        drop(&layers);
    }
    drop_world(&w);
}

// Each value of it is used several times, and nowhere but at its ends one value alone leads on.
static rung_value dense(rung_graph *g, rung_value x)
{
    rung_value a = rung_conv2d(g, x, "a", .out = 16, .kernel = 3, .pad = 1);
    a = rung_dropout(g, rung_relu(g, rung_batch_norm(g, a, "bn_a", 0)), 0.3);
    rung_value b = rung_relu(g, rung_conv2d(g, a, "b", .out = 16, .kernel = 3, .pad = 1));
    rung_value c = rung_conv2d(g, rung_add(g, a, b), "c", .out = 16, .kernel = 3, .pad = 1);
    c = rung_batch_norm(g, c, "bn_c", 0);
    rung_value d = rung_tanh(g, rung_add(g, rung_mul(g, a, c), b));
    rung_value e = rung_gelu(g, rung_add(g, d, rung_sigmoid(g, c)));
    e = rung_dropout(g, rung_max_pool2d(g, rung_add(g, e, a), .kernel = 2), 0.5);
    return rung_linear(g, rung_flatten(g, e, 1), "fc", .out = 10);
}

static void networks_with_residuals(void **state)
{
    (void)state;
    if (SANITIZED)
        skip(); // takes long; dense() has residuals and normalization in all ways
    check("resnet18", NULL, (int64_t[]){3, 16, 16}, 3, "layer2.*", 0.95);
}

static void networks_with_dropout(void **state)
{
    (void)state;
    check("dlf_cnn", NULL, (int64_t[]){3, 32, 32}, 8, "*", 0.9);
}

static void chains_of_linear_layers(void **state)
{
    (void)state;
    check("fashion_cnn", NULL, (int64_t[]){1, 28, 28}, 3, "*", 1.0);
}

static void graphs_that_cannot_be_cut(void **state)
{
    (void)state;
    check(NULL, dense, (int64_t[]){3, 12, 12}, 5, "*", 0.95);
}

static void patterns_without_a_layer_are_refused(void **state)
{
    (void)state;
    world w;
    rung_plan *plan;
    const char *pattern = "layer9.*";
    make_world(&w, "fashion_cnn", NULL, (int64_t[]){1, 28, 28}, 2);
    assert_fails(RUNG_NOT_FOUND, "no layer matches 'layer9.*'",
                 rung_compile(w.graph, w.state,
                              &(rung_compile_options){.batch = 2,
                                                      .training = true,
                                                      .gradients = true,
                                                      .recompute = RUNG_RECOMPUTE_LAYERS,
                                                      .recompute_layers = &pattern,
                                                      .n_recompute_layers = 1},
                              &plan));
    drop_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_that_cannot_be_cut),
        cmocka_unit_test(chains_of_linear_layers),
        cmocka_unit_test(networks_with_dropout),
        cmocka_unit_test(networks_with_residuals),
        cmocka_unit_test(patterns_without_a_layer_are_refused),
    };
    return RUN_TESTS(tests);
}
