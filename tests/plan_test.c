// SPDX-License-Identifier: Apache-2.0
#include "testing.h"

#include <math.h>
#include <stdlib.h>

#include "base/philox.h"
#include "graph/plan.h"
#include "rung/nn.h"

static rung_context *context;
static rung_device *device;

static int set_up(void **state)
{
    (void)state;
    return rung_context_create(NULL, &context) ||
           rung_device_create(context, "cpu:0", &(rung_device_options){.threads = 2}, &device);
}

static int tear_down(void **state)
{
    (void)state;
    rung_device_destroy(&device);
    rung_context_destroy(&context);
    return 0;
}

typedef struct model {
    rung_graph *graph;
    rung_state *state;
    float *image;
    int64_t *label;
    int64_t batch;
} model;

static void fill_normal(float *data, int64_t count, uint64_t id)
{
    rungi_random random = rungi_random_make(3, RUNGI_PURPOSE_TEST, id, 0, 0);
    for (int64_t i = 0; i < count; i++)
        data[i] = (float)rungi_random_normal(&random, (uint64_t)i);
}

// A small network with branches: values used several times, a sum whose gradient passes through,
// a view, and layers whose layout can differ.
static void build(model *m, int64_t batch)
{
    m->batch = batch;
    assert_ok(rung_graph_create(context, &m->graph));
    rung_graph *g = m->graph;
    rung_value x = rung_input(g, "image", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 3, 8, 8));
    rung_value y = rung_input(g, "label", RUNG_I64, RUNG_SHAPE(RUNG_BATCH));
    rung_value a = rung_relu(g, rung_conv2d(g, x, "conv1", .out = 16, .kernel = 3, .pad = 1));
    rung_value b = rung_conv2d(g, a, "conv2", .out = 16, .kernel = 3, .pad = 1);
    rung_value c = rung_relu(g, rung_add(g, a, b)); // as in a residual block
    rung_value d = rung_add(g, c, c);
    rung_value p = rung_max_pool2d(g, d, .kernel = 2);
    rung_value f = rung_flatten(g, p, 1);
    rung_value h = rung_relu(g, rung_linear(g, f, "fc1", .out = 20));
    rung_value logits = rung_linear(g, h, "fc2", .out = 5);
    rung_graph_output(g, "logits", logits);
    rung_graph_loss(g, rung_cross_entropy(g, logits, y, 0));
    assert_ok(rung_state_create(g, device, &m->state));
    assert_ok(rung_state_init(m->state, 1));
    m->image = malloc((size_t)batch * 3 * 8 * 8 * sizeof(float));
    m->label = malloc((size_t)batch * sizeof(int64_t));
    fill_normal(m->image, batch * 3 * 8 * 8, 1);
    for (int64_t i = 0; i < batch; i++)
        m->label[i] = i % 5;
}

static void drop(model *m)
{
    rung_state_destroy(&m->state);
    rung_graph_destroy(&m->graph);
    free(m->image);
    free(m->label);
}

static rung_plan *compiled(model *m, rung_compile_options options)
{
    rung_plan *plan;
    options.batch = m->batch;
    assert_ok(rung_compile(m->graph, m->state, &options, &plan));
    assert_ok(rung_plan_bind(plan, "image", m->image));
    assert_ok(rung_plan_bind(plan, "label", m->label));
    return plan;
}

static float run(rung_plan *plan)
{
    float loss;
    assert_ok(rung_plan_forward(plan));
    assert_ok(rung_plan_backward(plan));
    assert_ok(rung_plan_loss(plan, &loss));
    return loss;
}

static const rung_compile_options train = {.training = true, .gradients = true};

// Gradients against central differences of the loss. In float32 these are good to about 1e-3 of the
// largest gradient, except where the step crosses a kink of ReLU or of the maximum: 4 of the 50 do
// (a wiring mistake shows in all entries of a parameter).
static void gradients_are_derivatives(void **state)
{
    (void)state;
    model m;
    build(&m, 4);
    rung_plan *plan = compiled(&m, train);
    run(plan);
    int64_t size;
    float *params = rung_state_params(m.state, &size);
    float *grads = malloc((size_t)size * sizeof *grads);
    memcpy(grads, rung_state_grads(m.state, &size), (size_t)size * sizeof *grads);
    float top = 0;
    int kinks = 0;
    for (int64_t i = 0; i < size; i++)
        top = fmaxf(top, fabsf(grads[i]));
    for (int e = 0; e < rung_state_count(m.state); e++) {
        rung_state_entry entry = rung_state_at(m.state, e);
        int64_t count;
        assert_ok(rung_shape_count(&entry.shape, &count));
        for (int64_t k = 0; k < count; k += count / 7 + 1) {
            int64_t i = (float *)entry.data - params + k;
            float old = params[i], h = 1e-3f;
            params[i] = old + h;
            float up = run(plan);
            params[i] = old - h;
            float down = run(plan);
            params[i] = old;
            kinks += fabsf((up - down) / (2 * h) - grads[i]) > 3e-3f * top;
        }
    }
    assert_true(kinks <= 4);
    free(grads);
    rung_plan_destroy(&plan);
    drop(&m);
}

static float *run_grads(model *m, rung_compile_options options, float *loss_out)
{
    rung_plan *plan = compiled(m, options);
    *loss_out = run(plan);
    int64_t size;
    const float *grads = rung_state_grads(m->state, &size);
    float *copy = malloc((size_t)size * sizeof *copy);
    memcpy(copy, grads, (size_t)size * sizeof *copy);
    rung_plan_destroy(&plan);
    return copy;
}

// Every combination of switches gives the reference kernels' loss and gradients to rounding.
static void switches_agree(void **state)
{
    (void)state;
    model m;
    build(&m, 6);
    rung_compile_options o = train;
    o.kernels = RUNG_KERNELS_REFERENCE;
    float truth_loss, loss;
    float *truth = run_grads(&m, o, &truth_loss);
    int64_t size;
    rung_state_grads(m.state, &size);
    float top = 0;
    for (int64_t i = 0; i < size; i++)
        top = fmaxf(top, fabsf(truth[i]));
    for (int layout = RUNG_LAYOUT_PLAIN; layout <= RUNG_LAYOUT_BLOCKED; layout++)
        for (int fuse = 0; fuse <= 1; fuse++)
            for (int kernels = RUNG_KERNELS_OWN; kernels <= RUNG_KERNELS_LIBRARY; kernels++)
                for (int threads = 1; threads <= 2; threads++) {
                    o = train;
                    o.layout = (rung_layout)layout;
                    o.fuse = fuse;
                    o.kernels = (rung_kernels)kernels;
                    o.threads = threads;
                    float *grads = run_grads(&m, o, &loss);
                    assert_near(loss, truth_loss, 1e-6);
                    for (int64_t i = 0; i < size; i++)
                        assert_near(grads[i], truth[i], 3e-6 * top);
                    free(grads);
                }
    free(truth);
    drop(&m);
}

// No two tensors that live at the same time share a byte, and the arena is within 2 % of the
// largest live set.
static void memory_plan_is_sound(void **state)
{
    (void)state;
    model m;
    build(&m, 6);
    for (int layout = RUNG_LAYOUT_PLAIN; layout <= RUNG_LAYOUT_BLOCKED; layout++) {
        rung_compile_options o = train;
        o.layout = (rung_layout)layout;
        rung_plan *p = compiled(&m, o);
        for (size_t i = 0; i < p->tensors.count; i++)
            for (size_t k = 0; k < i; k++) {
                const rungi_tensor *a = &p->tensors.data[i], *b = &p->tensors.data[k];
                if (a->kind != RUNGI_TENSOR_ARENA || b->kind != RUNGI_TENSOR_ARENA ||
                    a->root != (int)i || b->root != (int)k || a->first < 0 || b->first < 0)
                    continue;
                bool together = a->first <= b->last && b->first <= a->last;
                bool overlap = a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
                assert_false(together && overlap);
            }
        rung_plan_memory memory = rung_plan_memory_use(p);
        assert_true((double)memory.arena <= 1.02 * (double)memory.lower_bound);
        rung_plan_destroy(&p);
    }
    drop(&m);
}

// What lies in the arena before a run does not matter.
static void nothing_is_read_before_written(void **state)
{
    (void)state;
    model m;
    build(&m, 4);
    for (int fuse = 0; fuse <= 1; fuse++) {
        rung_compile_options o = train;
        o.fuse = fuse;
        o.layout = RUNG_LAYOUT_CHANNELS_LAST;
        rung_plan *plan = compiled(&m, o);
        float first = run(plan);
        int64_t size;
        float *grads = rung_state_grads(m.state, &size);
        float *copy = malloc((size_t)size * sizeof *copy);
        memcpy(copy, grads, (size_t)size * sizeof *copy);
        memset(plan->instance->arena->data, 0xFF, plan->instance->arena->bytes); // NaN
        for (int64_t i = 0; i < size; i++)
            grads[i] = grads[i] == 0 ? 0 : NAN;
        float second = run(plan);
        assert_memory_equal(&first, &second, sizeof first);
        assert_memory_equal(grads, copy, (size_t)size * sizeof *copy);
        free(copy);
        rung_plan_destroy(&plan);
    }
    drop(&m);
}

static void short_batch_shares_the_arena(void **state)
{
    (void)state;
    model m;
    build(&m, 6);
    rung_arena *arena;
    assert_ok(rung_arena_create(device, &arena));
    rung_compile_options o = train;
    o.arena = arena;
    m.batch = 1;
    rung_plan *small = compiled(&m, o);
    float alone = run(small);
    m.batch = 6;
    rung_plan *large = compiled(&m, o); // the arena grows and moves
    run(large);
    float again = run(small);
    assert_memory_equal(&alone, &again, sizeof again);
    rung_plan_destroy(&small);
    rung_plan_destroy(&large);
    rung_arena_destroy(&arena);
    drop(&m);
}

static void outputs_leave_out_what_they_do_not_need(void **state)
{
    (void)state;
    model m;
    build(&m, 2);
    const char *wanted[] = {"logits"};
    rung_plan *plan;
    rung_compile_options o = {.batch = 2, .outputs = wanted, .n_outputs = 1};
    assert_ok(rung_compile(m.graph, m.state, &o, &plan));
    assert_fails(RUNG_INVALID, "input 'image' is not bound", rung_plan_forward(plan));
    assert_ok(rung_plan_bind(plan, "image", m.image));
    assert_ok(rung_plan_forward(plan)); // no label is needed
    rung_view view;
    assert_ok(rung_plan_output(plan, "logits", &view));
    assert_int_equal(view.shape.dim[1], 5);
    assert_fails(RUNG_NOT_FOUND, "no output 'loss'", rung_plan_output(plan, "loss", &view));
    assert_fails(RUNG_NOT_FOUND, "it has 'image', 'label'", rung_plan_bind(plan, "imgae", NULL));
    assert_fails(RUNG_INVALID, "without gradients", rung_plan_backward(plan));
    rung_plan_destroy(&plan);
    wanted[0] = "logit";
    assert_fails(RUNG_NOT_FOUND, "no output 'logit'", rung_compile(m.graph, m.state, &o, &plan));
    o = (rung_compile_options){.batch = 0};
    assert_fails(RUNG_INVALID, "the batch is 0", rung_compile(m.graph, m.state, &o, &plan));
    drop(&m);
}

static void frozen_parameters_get_no_gradient(void **state)
{
    (void)state;
    model m;
    build(&m, 2);
    int forward, backward, frozen_forward, frozen_backward;
    rung_plan *plan = compiled(&m, train);
    rung_plan_steps(plan, &forward, &backward);
    rung_plan_destroy(&plan);
    assert_int_equal(rung_graph_freeze(m.graph, "conv*"), 4);
    plan = compiled(&m, train);
    rung_plan_steps(plan, &frozen_forward, &frozen_backward);
    assert_int_equal(forward, frozen_forward);
    assert_true(frozen_backward < backward - 4); // nothing below fc1's weight is computed
    run(plan);
    rung_state_entry e;
    assert_true(rung_state_find(m.state, "conv1.weight", &e));
    assert_null(e.grad);
    assert_true(rung_state_find(m.state, "fc1.weight", &e));
    assert_non_null(e.grad);
    rung_plan_destroy(&plan);
    drop(&m);
}

static void bad_label_names_the_sample(void **state)
{
    (void)state;
    model m;
    build(&m, 4);
    rung_plan *plan = compiled(&m, train);
    m.label[2] = 5;
    assert_fails(RUNG_DATA, "label 5 of sample 2 in the batch is out of range for 5 classes",
                 rung_plan_forward(plan));
    m.label[2] = 0;
    run(plan);
    rung_plan_destroy(&plan);
    drop(&m);
}

// The float64 plan is the reference that float32 plans are near to; the state stays as it is.
static void float64_plan_is_near(void **state)
{
    (void)state;
    model m;
    build(&m, 4);
    rung_plan *plan = compiled(&m, train);
    float loss = run(plan);
    int64_t size;
    const float *grads = rung_state_grads(m.state, &size);
    float *copy = malloc((size_t)size * sizeof *copy);
    memcpy(copy, grads, (size_t)size * sizeof *copy);
    rung_compile_options o = train;
    o.float64 = true;
    rung_plan *reference = compiled(&m, o);
    assert_near(run(reference), loss, 1e-6);
    assert_memory_equal(copy, grads, (size_t)size * sizeof *copy);
    for (int e = 0; e < rung_state_count(m.state); e++) {
        rung_state_entry entry = rung_state_at(m.state, e);
        rung_view a, b;
        assert_ok(rung_plan_grad(plan, entry.name, &a));
        assert_ok(rung_plan_grad(reference, entry.name, &b));
        assert_int_equal(a.dtype, RUNG_F32);
        assert_int_equal(b.dtype, RUNG_F64);
        int64_t count;
        double top = 0;
        assert_ok(rung_shape_count(&a.shape, &count));
        for (int64_t i = 0; i < count; i++)
            top = fmax(top, fabs(((double *)b.data)[i]));
        for (int64_t i = 0; i < count; i++)
            assert_near(((float *)a.data)[i], ((double *)b.data)[i], 3e-6 * top);
    }
    rung_view view;
    assert_fails(RUNG_NOT_FOUND, "no gradient of 'fc9'", rung_plan_grad(plan, "fc9", &view));
    free(copy);
    rung_plan_destroy(&reference);
    rung_plan_destroy(&plan);
    drop(&m);
}

static void explain_lists_every_step(void **state)
{
    (void)state;
    model m;
    build(&m, 2);
    rung_compile_options o = train;
    o.fuse = true;
    rung_plan *plan = compiled(&m, o);
    char *text;
    assert_ok(rung_plan_explain(plan, &text));
    assert_non_null(strstr(text, "conv2d.forward + relu (relu_1)"));
    assert_non_null(strstr(text, "fc2  linear.backward_weight"));
    assert_non_null(strstr(text, "max_pool2d.backward"));
    assert_non_null(strstr(text, " steps are done by libraries, whose bits may depend"));
    free(text);
    rung_plan_destroy(&plan);
    o.kernels = RUNG_KERNELS_REFERENCE;
    plan = compiled(&m, o);
    assert_ok(rung_plan_explain(plan, &text));
    assert_non_null(strstr(text, "\nthe bits do not depend on the number of threads\n"));
    free(text);
    rung_plan_destroy(&plan);
    drop(&m);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(gradients_are_derivatives),
        TEST(switches_agree),
        TEST(memory_plan_is_sound),
        TEST(nothing_is_read_before_written),
        TEST(short_batch_shares_the_arena),
        TEST(outputs_leave_out_what_they_do_not_need),
        TEST(frozen_parameters_get_no_gradient),
        TEST(bad_label_names_the_sample),
        TEST(float64_plan_is_near),
        TEST(explain_lists_every_step),
    };
    return RUN_TESTS(tests);
}
