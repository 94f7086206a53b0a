// SPDX-License-Identifier: Apache-2.0
// Batch normalization takes the sums that the convolution before it leaves (plan.fuse): the same
// results but for rounding, whatever the number of threads and what is computed again; and where
// nobody leaves them it sums for itself.
#include "testing.h"

#include <math.h>

#include "base/philox.h"
#include "graph/plan.h"
#include "rung/nn.h"

static rung_context *context;
static rung_device *device;

enum { BATCH = 3, SIZE = 16 * 13 * 10, OUT = 20 * 13 * 10 };

// Two blocks as in a residual network.
typedef struct world {
    rung_graph *g;
    rung_state *s;
    char *buffers; // as they began
} world;

static world make_world(void)
{
    world w;
    assert_ok(rung_graph_create(context, &w.g));
    rung_value x = rung_input(w.g, "x", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 16, 13, 10));
    rung_value y = rung_conv2d(w.g, x, "conv1", .out = 20, .kernel = 3, .pad = 1, .no_bias = true);
    rung_value a = rung_relu(w.g, rung_batch_norm(w.g, y, "bn1"));
    y = rung_conv2d(w.g, a, "conv2", .out = 20, .kernel = 3, .pad = 1);
    y = rung_relu(w.g, rung_add(w.g, rung_batch_norm(w.g, y, "bn2"), a));
    rung_value target = rung_input(w.g, "target", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 20, 13, 10));
    rung_graph_loss(w.g, rung_mse_loss(w.g, y, target));
    assert_ok(rung_state_create(w.g, device, &w.s));
    assert_ok(rung_state_init(w.s, 3));
    w.buffers = memcpy(malloc((size_t)w.s->buffer_bytes), w.s->buffers, (size_t)w.s->buffer_bytes);
    return w;
}

static void drop_world(world *w)
{
    free(w->buffers);
    rung_state_destroy(&w->s);
    rung_graph_destroy(&w->g);
}

// What a step leaves.
typedef struct outcome {
    float loss, *grads;
    char *buffers;
    int left, taken; // steps that leave sums, and that take them
} outcome;

static int count_text(const char *text, const char *what)
{
    int n = 0;
    for (; (text = strstr(text, what)); text++)
        n++;
    return n;
}

static outcome step(const world *w, rung_compile_options o)
{
    static float x[BATCH * SIZE], target[BATCH * OUT];
    rungi_random random = rungi_random_make(7, RUNGI_PURPOSE_TEST, 0, 0, 0);
    for (int i = 0; i < BATCH * SIZE; i++)
        x[i] = (float)rungi_random_normal(&random, (uint64_t)i) + 3;
    for (int i = 0; i < BATCH * OUT; i++)
        target[i] = (float)(i % 7) / 3;
    rung_plan *plan;
    outcome out;
    char *text;
    o.batch = BATCH;
    o.threads = o.threads ? o.threads : 2;
    memcpy(w->s->buffers, w->buffers, (size_t)w->s->buffer_bytes);
    assert_ok(rung_compile(w->g, w->s, &o, &plan));
    assert_ok(rung_plan_bind(plan, "x", x));
    assert_ok(rung_plan_bind(plan, "target", target));
    assert_ok(rung_plan_forward(plan));
    if (o.gradients)
        assert_ok(rung_plan_backward(plan));
    assert_ok(rung_plan_loss(plan, &out.loss));
    size_t bytes = (size_t)w->s->flat_size * sizeof(float);
    out.grads = memcpy(malloc(bytes), w->s->grads, bytes);
    bytes = (size_t)w->s->buffer_bytes;
    out.buffers = memcpy(malloc(bytes), w->s->buffers, bytes);
    assert_ok(rung_plan_explain(plan, &text));
    out.left = count_text(text, "leaves the sums of its output by channel");
    out.taken = count_text(text, "takes the sums of its input");
    free(text);
    rung_plan_destroy(&plan);
    return out;
}

static void drop(outcome *o)
{
    free(o->grads);
    free(o->buffers);
}

static const rung_compile_options fused = {.training = true,
                                           .gradients = true,
                                           .layout = RUNG_LAYOUT_CHANNELS_LAST,
                                           .kernels = RUNG_KERNELS_OWN,
                                           .fuse = true,
                                           .winograd = true};

static void results_are_equal_but_for_rounding(void **state)
{
    (void)state;
    world w = make_world();
    rung_compile_options apart = fused;
    apart.fuse = false;
    outcome a = step(&w, apart), b = step(&w, fused);
    assert_int_equal(a.left + a.taken, 0);
    assert_int_equal(b.left, 2);
    assert_int_equal(b.taken, 2);
    assert_near(b.loss, a.loss, 1e-5);
    double top = 0;
    for (int64_t i = 0; i < w.s->flat_size; i++)
        top = fmax(top, fabs((double)a.grads[i]));
    for (int64_t i = 0; i < w.s->flat_size; i++)
        assert_near(b.grads[i], a.grads[i], 1e-5 * top);
    for (int i = 0; i < 4 * 20; i++) {
        static const char *const names[] = {"bn1.running_mean", "bn1.running_var",
                                            "bn2.running_mean", "bn2.running_var"};
        rung_state_entry e;
        assert_true(rung_state_find(w.s, names[i / 20], &e));
        int64_t at = (char *)e.data - w.s->buffers + i % 20 * 4;
        float was, is;
        memcpy(&was, a.buffers + at, 4);
        memcpy(&is, b.buffers + at, 4);
        assert_near(is, was, 1e-6 * (1 + fabs((double)was)));
    }
    drop(&a);
    drop(&b);
    drop_world(&w);
}

static void check_same(const world *w, rung_compile_options o, int taken)
{
    outcome a = step(w, fused), b = step(w, o);
    assert_int_equal(b.taken, taken);
    assert_memory_equal(&a.loss, &b.loss, sizeof a.loss);
    assert_memory_equal(a.grads, b.grads, (size_t)w->s->flat_size * sizeof(float));
    assert_memory_equal(a.buffers, b.buffers, (size_t)w->s->buffer_bytes);
    drop(&a);
    drop(&b);
}

static void the_same_bits(void **state)
{
    (void)state;
    world w = make_world();
    rung_compile_options o = fused;
    for (o.threads = 1; o.threads <= 5; o.threads += 2)
        check_same(&w, o, 2);
    o.threads = 0;
    o.recompute = RUNG_RECOMPUTE_AUTO; // normalizations are done again, with their kept numbers
    check_same(&w, o, 2);
    o.recompute = RUNG_RECOMPUTE_NONE;
    o.synchronize = true; // of one rank
    check_same(&w, o, 2);
    drop_world(&w);
}

static void sums_for_itself_where_nobody_does(void **state)
{
    (void)state;
    world w = make_world();
    rung_compile_options cases[] = {fused, fused, fused, fused, fused};
    cases[0].kernels = RUNG_KERNELS_LIBRARY;
    cases[1].layout = RUNG_LAYOUT_PLAIN;
    cases[2].winograd = false;
    cases[3].precision = RUNG_BF16;
    cases[4].training = cases[4].gradients = false;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        outcome o = step(&w, cases[i]);
        assert_int_equal(o.left + o.taken, 0);
        assert_true(isfinite(o.loss));
        drop(&o);
    }
    drop_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_equal_but_for_rounding),
        cmocka_unit_test(the_same_bits),
        cmocka_unit_test(sums_for_itself_where_nobody_does),
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
