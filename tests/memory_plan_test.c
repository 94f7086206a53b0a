// SPDX-License-Identifier: Apache-2.0
// Memory plans of all built-in networks: how near their arenas are to the largest live set, which
// no placement can go below, and that nothing that lives at the same time overlaps.
#include "testing.h"

#include <stdio.h>

#include "graph/plan.h"
#include "rung/models.h"
#include "rung/nn.h"

typedef struct world {
    rung_context *context;
    rung_device *device;
    rung_graph *graph;
    rung_state *state;
} world;

static void make_world(world *w, const char *model, rung_shape image, rung_stem stem)
{
    rung_value logits;
    assert_ok(rung_context_create(NULL, &w->context));
    assert_ok(
        rung_device_create(w->context, "cpu:0", &(rung_device_options){.threads = 2}, &w->device));
    assert_ok(rung_graph_create(w->context, &w->graph));
    rung_value x = rung_input(w->graph, "image", RUNG_F32, image);
    rung_value y = rung_input(w->graph, "label", RUNG_I64, RUNG_SHAPE(RUNG_BATCH));
    assert_ok(rung_model_build(w->graph, model, &(rung_model_options){.classes = 10, .stem = stem},
                               x, &logits));
    rung_graph_output(w->graph, "logits", logits);
    rung_graph_loss(w->graph, rung_cross_entropy(w->graph, logits, y, 0));
    assert_ok(rung_state_create(w->graph, w->device, &w->state));
}

static void drop_world(world *w)
{
    rung_state_destroy(&w->state);
    rung_graph_destroy(&w->graph);
    rung_device_destroy(&w->device);
    rung_context_destroy(&w->context);
}

static rung_plan *plan_of(const world *w, rung_compile_options o)
{
    rung_plan *plan;
    o.training = o.gradients = o.plan_only = true;
    assert_ok(rung_compile(w->graph, w->state, &o, &plan));
    return plan;
}

// Roots that live at the same step lie apart, inside of the arena.
static void check_places(const rung_plan *p)
{
    for (size_t i = 0; i < p->tensors.count; i++) {
        const rungi_tensor *a = &p->tensors.data[i];
        if (a->kind != RUNGI_TENSOR_ARENA || a->root != (int)i || a->first < 0)
            continue;
        assert_int_equal(a->offset % 64, 0);
        assert_true(a->offset + a->bytes <= p->arena_bytes);
        for (size_t k = 0; k < i; k++) {
            const rungi_tensor *b = &p->tensors.data[k];
            if (b->kind != RUNGI_TENSOR_ARENA || b->root != (int)k || b->first < 0 ||
                a->first > b->last || b->first > a->last)
                continue;
            assert_true(a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset);
        }
    }
}

// ---- distance to the bound --------------------------------------------------------------------

static const rung_compile_options switches[] = {
    {.kernels = RUNG_KERNELS_LIBRARY},
    {.kernels = RUNG_KERNELS_LIBRARY, .layout = RUNG_LAYOUT_BLOCKED, .fuse = true},
    {.kernels = RUNG_KERNELS_OWN, .layout = RUNG_LAYOUT_CHANNELS_LAST, .fuse = true},
    {.kernels = RUNG_KERNELS_OWN,
     .layout = RUNG_LAYOUT_CHANNELS_LAST,
     .fuse = true,
     .winograd = true},
    {.kernels = RUNG_KERNELS_OWN,
     .layout = RUNG_LAYOUT_CHANNELS_LAST,
     .fuse = true,
     .recompute = RUNG_RECOMPUTE_AUTO},
};

static void check_model(const char *model, rung_shape image, rung_stem stem)
{
    world w;
    make_world(&w, model, image, stem);
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++)
        for (int64_t batch = 32; batch <= 128; batch *= 2) {
            rung_compile_options o = switches[i];
            o.batch = batch;
            rung_plan *plan = plan_of(&w, o);
            rung_plan_memory m = rung_plan_memory_use(plan);
            double above = (double)m.arena / (double)m.lower_bound - 1;
            int again;
            double extra;
            rung_plan_recomputed(plan, &again, &extra);
            print_message("%s, switches %d, batch %d: %.1f MiB, %.2f %% above the bound; %d again, "
                          "%.1f %% more time\n",
                          model, (int)i, (int)batch, (double)m.arena / 1048576, above * 100, again,
                          extra * 100);
            check_places(plan);
            assert_true(m.arena >= m.lower_bound);
            assert_true(above <= 0.02);
            assert_int_equal(m.peak_activations + m.peak_gradients + m.peak_workspace > 0, true);
            rung_plan_destroy(&plan);
        }
    drop_world(&w);
}

static void small_networks(void **state)
{
    (void)state;
    static const char *const models[] = {"mlp", "lenet5", "fashion_cnn"};
    for (int i = 0; i < 3; i++)
        check_model(models[i], RUNG_SHAPE(RUNG_BATCH, 1, 28, 28), RUNG_STEM_CIFAR);
}

static void dlf_cnn(void **state)
{
    (void)state;
    check_model("dlf_cnn", RUNG_SHAPE(RUNG_BATCH, 3, 32, 32), RUNG_STEM_CIFAR);
}

static void resnet18(void **state)
{
    (void)state;
    check_model("resnet18", RUNG_SHAPE(RUNG_BATCH, 3, 32, 32), RUNG_STEM_CIFAR);
    check_model("resnet18", RUNG_SHAPE(RUNG_BATCH, 3, 224, 224), RUNG_STEM_IMAGENET);
}

// A model that joins the list joins these tests.
static void no_network_is_left_out(void **state)
{
    (void)state;
    static const char *const tested[] = {"mlp", "lenet5", "fashion_cnn", "dlf_cnn", "resnet18"};
    for (int i = 0; rung_model_name(i); i++) {
        bool found = false;
        for (size_t k = 0; k < sizeof tested / sizeof *tested; k++)
            found |= strcmp(tested[k], rung_model_name(i)) == 0;
        assert_true(found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_networks),
        cmocka_unit_test(dlf_cnn),
        cmocka_unit_test(resnet18),
        cmocka_unit_test(no_network_is_left_out),
    };
    return RUN_TESTS(tests);
}
