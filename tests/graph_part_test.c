// SPDX-License-Identifier: Apache-2.0
// Parts of a graph (src/graph/part.h): chained by hand they do what the whole does, with the same
// bits, wherever it is cut.
#include "testing.h"

#include "base/philox.h"
#include "graph/part.h"
#include "graph/plan.h"
#include "rung/models.h"
#include "rung/ops.h"

#ifdef RUNG_OPENMP
static const rung_kernels own = RUNG_KERNELS_OWN;
#else
static const rung_kernels own = RUNG_KERNELS_REFERENCE; // the build for ThreadSanitizer
#endif

enum { BATCH = 3, SIDE = 8, PIXELS = 3 * SIDE * SIDE, PARTS = 3 };

static rung_context *context;
static rung_device *device;
static float images[BATCH * PIXELS];
static const int64_t labels[BATCH] = {1, 3, 0};

static int set_up(void **state)
{
    (void)state;
    rungi_random random = rungi_random_make(1, RUNGI_PURPOSE_TEST, 0, 0, 0);
    for (int i = 0; i < BATCH * PIXELS; i++)
        images[i] = (float)rungi_random_normal(&random, (uint64_t)i);
    return rung_context_create(NULL, &context) ||
           rung_device_create(context, "cpu:0", &(rung_device_options){.threads = 1}, &device);
}

static int tear_down(void **state)
{
    (void)state;
    rung_device_destroy(&device);
    rung_context_destroy(&context);
    return 0;
}

// A residual block, normalization, dropout before and inside of it, and a value that is read far
// behind where it is made. The last convolution's bias is frozen.
static rung_value small_network(rung_graph *g, rung_value x)
{
    rung_value a = rung_relu(g, rung_conv2d(g, x, "conv1", .out = 8, .kernel = 3, .pad = 1));
    rung_value b = rung_dropout(g, a, 0.3);
    b = rung_batch_norm(g, rung_conv2d(g, b, "conv2", .out = 8, .kernel = 3, .pad = 1), "bn2", 0);
    b = rung_conv2d(g, rung_relu(g, b), "conv3", .out = 8, .kernel = 3, .pad = 1);
    b = rung_relu(g, rung_add(g, a, rung_dropout(g, b, 0.3)));
    b = rung_flatten(g, rung_max_pool2d(g, rung_add(g, b, a), .kernel = 2), 1);
    b = rung_relu(g, rung_linear(g, rung_dropout(g, b, 0.5), "fc1", .out = 16));
    rung_graph_freeze(g, "conv3.bias");
    return rung_linear(g, b, "fc2", .out = 4);
}

static rung_graph *make_graph(const char *model)
{
    rung_graph *g;
    assert_ok(rung_graph_create(context, &g));
    rung_value x = rung_input(g, "image", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 3, SIDE, SIDE));
    rung_value y = rung_input(g, "label", RUNG_I64, RUNG_SHAPE(RUNG_BATCH));
    rung_value logits;
    if (model)
        assert_ok(rung_model_build(g, model, &(rung_model_options){.classes = 4}, x, &logits));
    else
        logits = small_network(g, x);
    rung_graph_output(g, "logits", logits);
    rung_graph_loss(g, rung_cross_entropy(g, logits, y, 0));
    assert_ok(rung_graph_check(g));
    return g;
}

// A graph with all that it takes to run it.
typedef struct world {
    rung_graph *graph;
    rung_state *state;
    rung_plan *plan;
} world;

static void make_world(rung_graph *g, const rung_compile_options *o, world *w)
{
    w->graph = g;
    assert_ok(rung_state_create(g, device, &w->state));
    assert_ok(rung_state_init(w->state, 7));
    assert_ok(rung_compile(g, w->state, o, &w->plan));
    for (size_t i = 1; i < g->values.count; i++) {
        const rungi_value *v = &g->values.data[i];
        if (v->kind == RUNGI_VALUE_INPUT && strcmp(v->name, "image") == 0)
            assert_ok(rung_plan_bind(w->plan, "image", images));
        if (v->kind == RUNGI_VALUE_INPUT && strcmp(v->name, "label") == 0)
            assert_ok(rung_plan_bind(w->plan, "label", labels));
    }
    rung_plan_set_step(w->plan, 3, 11);
    w->plan->instance->rt.sample_offset = 5; // as the second part of some batch
}

static void drop_world(world *w)
{
    rung_plan_destroy(&w->plan);
    rung_state_destroy(&w->state);
}

static void run_whole(world *w)
{
    assert_ok(rung_plan_forward(w->plan));
    assert_ok(rung_plan_backward(w->plan));
}

// Values of the part before go in, gradients of the part behind come back.
static void run_parts(rungi_part *parts, world *w, int count)
{
    for (int p = 0; p < count; p++) {
        for (int i = 0; i < parts[p].n_in; i++) {
            rung_view view;
            const char *name = parts[p].in[i].name;
            assert_string_equal(name, parts[p - 1].out[i].name);
            assert_int_equal(parts[p].in[i].gradient, parts[p - 1].out[i].gradient);
            assert_ok(rung_plan_output(w[p - 1].plan, name, &view));
            assert_ok(rung_plan_bind(w[p].plan, name, view.data));
        }
        assert_ok(rung_plan_forward(w[p].plan));
    }
    for (int p = count - 1; p >= 0; p--) {
        for (int i = 0; i < parts[p].n_out; i++) {
            if (!parts[p].out[i].gradient)
                continue;
            int seed = rungi_plan_seed(w[p].plan, parts[p].out[i].part);
            int grad = w[p + 1].plan->input_grad[parts[p + 1].in[i].part];
            assert_true(seed >= 0 && grad >= 0);
            rungi_instance_bind(w[p].plan->instance, seed, w[p + 1].plan->instance->ptr[grad]);
        }
        assert_ok(rung_plan_backward(w[p].plan));
    }
}

static void compare_entries(const world *whole, const world *parts, int count)
{
    int found = 0;
    for (int p = 0; p < count; p++)
        for (int i = 0; i < rung_state_count(parts[p].state); i++, found++) {
            rung_state_entry own_entry = rung_state_at(parts[p].state, i), e;
            int64_t n;
            assert_true(rung_state_find(whole->state, own_entry.name, &e));
            assert_ok(rung_shape_count(&e.shape, &n));
            if (memcmp(e.data, own_entry.data, (size_t)n * rung_dtype_size(e.dtype)) != 0)
                fail_msg("%s: other values", e.name);
            assert_int_equal(e.trainable, own_entry.trainable);
            if (e.grad && memcmp(e.grad, own_entry.grad, (size_t)n * sizeof(float)) != 0)
                fail_msg("gradient of %s: other bits", e.name);
        }
    assert_int_equal(found, rung_state_count(whole->state));
}

static void compare_output(const world *whole, const world *parts, int count, const char *name)
{
    rung_view a, b;
    assert_ok(rung_plan_output(whole->plan, name, &a));
    for (int p = 0; p < count; p++)
        if (rung_plan_output(parts[p].plan, name, &b) == RUNG_OK) {
            // What crosses a cut as well is seen as it is kept.
            float values[BATCH * 4];
            int64_t n = a.shape.rank ? BATCH * 4 : 1;
            rung_convert(RUNG_F32, values, b.dtype, b.data, n, NULL);
            assert_memory_equal(a.data, values, sizeof(float) * (size_t)n);
            return;
        }
    fail_msg("no part has %s", name);
}

// Cuts before nodes cuts[0], ...
static void check_cuts(const rung_graph *g, const world *whole, const rung_compile_options *o,
                       const int *cuts, int count)
{
    rungi_part parts[PARTS];
    world worlds[PARTS] = {0};
    for (int p = 0; p <= count; p++) {
        int end = p < count ? cuts[p] : (int)g->nodes.count;
        assert_ok(rungi_part_create(g, p ? cuts[p - 1] : 0, end, true, &parts[p]));
        make_world(parts[p].graph, o, &worlds[p]);
    }
    run_parts(parts, worlds, count + 1);
    compare_output(whole, worlds, count + 1, "loss");
    compare_output(whole, worlds, count + 1, "logits");
    compare_entries(whole, worlds, count + 1);
    for (int p = 0; p <= count; p++) {
        drop_world(&worlds[p]);
        rungi_part_fini(&parts[p]);
    }
}

// Every place for one cut, and with `pairs` for two.
static void check_all(const char *model, const rung_compile_options *o, bool pairs)
{
    rung_graph *g = make_graph(model);
    int n = (int)g->nodes.count;
    world whole;
    make_world(g, o, &whole);
    run_whole(&whole);
    for (int k = 1; k < n; k++) {
        char why[256];
        if (!rungi_part_can_cut(g, k, why, sizeof why))
            fail_msg("%s", why);
        check_cuts(g, &whole, o, (int[]){k}, 1);
        for (int m = k + 1; pairs && m < n; m++)
            check_cuts(g, &whole, o, (int[]){k, m}, 2);
    }
    drop_world(&whole);
    rung_graph_destroy(&g);
}

static void reference_kernels(void **state)
{
    (void)state;
    check_all(
        NULL,
        &(rung_compile_options){
            .batch = BATCH, .training = true, .gradients = true, .kernels = RUNG_KERNELS_REFERENCE},
        true);
}

static void own_kernels_in_every_layout(void **state)
{
    (void)state;
    for (int layout = RUNG_LAYOUT_PLAIN; layout <= RUNG_LAYOUT_BLOCKED; layout++)
        check_all(NULL,
                  &(rung_compile_options){.batch = BATCH,
                                          .training = true,
                                          .gradients = true,
                                          .layout = (rung_layout)layout,
                                          .kernels = own},
                  false);
}

// In 16 bits what crosses a cut is of these where the whole keeps it so.
static void parts_of_16_bits(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        check_all(NULL,
                  &(rung_compile_options){.batch = BATCH,
                                          .training = true,
                                          .gradients = true,
                                          .precision = i ? RUNG_F16 : RUNG_BF16,
                                          .kernels = own},
                  false);
}

static void dlf_cnn(void **state)
{
    (void)state;
    check_all("dlf_cnn",
              &(rung_compile_options){.batch = BATCH,
                                      .training = true,
                                      .gradients = true,
                                      .layout = RUNG_LAYOUT_CHANNELS_LAST,
                                      .kernels = own},
              false);
}

// What backward computes again may lie in a part, too.
static void recomputed_parts(void **state)
{
    (void)state;
    check_all(NULL,
              &(rung_compile_options){.batch = BATCH,
                                      .training = true,
                                      .gradients = true,
                                      .kernels = RUNG_KERNELS_REFERENCE,
                                      .recompute = RUNG_RECOMPUTE_AUTO},
              false);
}

// Evaluation: no gradients are planned, and dropout passes through.
static void evaluation(void **state)
{
    (void)state;
    rung_graph *g = make_graph(NULL);
    rung_compile_options o = {.batch = BATCH, .kernels = RUNG_KERNELS_REFERENCE};
    rung_view a, b;
    world whole, worlds[2];
    make_world(g, &o, &whole);
    assert_ok(rung_plan_forward(whole.plan));
    assert_ok(rung_plan_output(whole.plan, "logits", &a));
    for (int k = 1; k < (int)g->nodes.count - 2; k++) {
        rungi_part parts[2];
        for (int p = 0; p < 2; p++) {
            assert_ok(
                rungi_part_create(g, p ? k : 0, p ? (int)g->nodes.count : k, true, &parts[p]));
            make_world(parts[p].graph, &o, &worlds[p]);
            for (int i = 0; i < parts[p].n_in; i++) {
                assert_ok(rung_plan_output(worlds[0].plan, parts[p].in[i].name, &b));
                assert_ok(rung_plan_bind(worlds[1].plan, parts[p].in[i].name, b.data));
            }
            assert_ok(rung_plan_forward(worlds[p].plan));
        }
        assert_ok(rung_plan_output(worlds[1].plan, "logits", &b));
        assert_memory_equal(a.data, b.data, sizeof(float) * BATCH * 4);
        for (int p = 0; p < 2; p++) {
            drop_world(&worlds[p]);
            rungi_part_fini(&parts[p]);
        }
    }
    drop_world(&whole);
    rung_graph_destroy(&g);
}

static void mistakes(void **state)
{
    (void)state;
    rung_graph *g;
    rungi_part part;
    world w;
    assert_ok(rung_graph_create(context, &g));
    rung_value x = rung_input(g, "x", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, rung_symbol(g, "T"), 4));
    rung_value shared = rung_param(g, "shared", RUNG_SHAPE(4), NULL);
    x = rung_flatten(g, rung_mul(g, x, shared), 1);
    x = rung_mul(g, rung_reshape(g, x, RUNG_SHAPE(-1, 4)), shared);
    rung_graph_loss(g, rung_mean(g, x));
    assert_ok(rung_graph_check(g));
    assert_fails(RUNG_INVALID, "are no part", rungi_part_create(g, 2, 2, true, &part));
    assert_fails(RUNG_UNSUPPORTED, "cannot be cut before", rungi_part_create(g, 0, 2, true, &part));
    assert_int_equal(rungi_part_tied(g, 1), shared.id);
    assert_int_equal(rungi_part_tied(g, 4), 0);
    // Backward of a part without the loss needs the gradients of its outputs.
    assert_ok(rungi_part_create(g, 0, 1, true, &part));
    const rung_dim_value dims[] = {{"T", 2}};
    static float values[8];
    w.graph = part.graph;
    assert_ok(rung_state_create(part.graph, device, &w.state));
    assert_ok(rung_compile(
        part.graph, w.state,
        &(rung_compile_options){.batch = 1, .dims = dims, .n_dims = 1, .gradients = true},
        &w.plan));
    assert_ok(rung_plan_bind(w.plan, "x", values));
    assert_ok(rung_plan_forward(w.plan));
    assert_fails(RUNG_INVALID, "is not given", rung_plan_backward(w.plan));
    drop_world(&w);
    rungi_part_fini(&part);
    rung_graph_destroy(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reference_kernels, set_up, tear_down),
        cmocka_unit_test_setup_teardown(own_kernels_in_every_layout, set_up, tear_down),
        cmocka_unit_test_setup_teardown(parts_of_16_bits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(dlf_cnn, set_up, tear_down),
        cmocka_unit_test_setup_teardown(recomputed_parts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(evaluation, set_up, tear_down),
        cmocka_unit_test_setup_teardown(mistakes, set_up, tear_down),
    };
    return RUN_TESTS(tests);
}
