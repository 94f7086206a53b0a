// SPDX-License-Identifier: Apache-2.0
// Plans in 16 bits: which values are kept so, beside PyTorch's autocast (tests/fixtures/
// autocast.txt), what comes out of them, and what they take of memory. Case C49.
#include "testing.h"

#include <math.h>
#include <stdio.h>

#include "base/philox.h"
#include "graph/plan.h"
#include "ops/halves.h"
#include "rung/models.h"
#include "rung/nn.h"

enum { BATCH = 6, CLASSES = 5, SEED = 11 };

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

// ---- weights and images as the scripts make them ------------------------------------------------

// FNV-1a, 64 bits (Fowler, Noll, Vo).
static uint64_t fnv1a(const char *text)
{
    uint64_t h = 0xCBF29CE484222325;
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001B3;
    return h;
}

static uint32_t word(const rungi_random *random, int64_t i)
{
    return rungi_random_block(random, (uint64_t)i / 4).v[i % 4];
}

static void fill(const rung_state_entry *e)
{
    rungi_random random = rungi_random_make(SEED, RUNGI_PURPOSE_TEST, fnv1a(e->name), 0, 0);
    int64_t fan = 1, count;
    for (int d = 1; d < e->shape.rank; d++)
        fan *= e->shape.dim[d];
    bool scale = e->shape.rank == 1 && strcmp(strrchr(e->name, '.'), ".weight") == 0;
    double high = e->shape.rank > 1 ? sqrt(6 / (double)fan) : scale ? 1.2 : 0.05;
    double low = scale ? 0.8 : -high;
    assert_ok(rung_shape_count(&e->shape, &count));
    for (int64_t i = 0; i < count; i++)
        ((float *)e->data)[i] =
            (float)(low + (high - low) * (double)rungi_unit_f32(word(&random, i)));
}

typedef struct net {
    rung_graph *graph;
    rung_state *state;
    float *image;
    int64_t label[64];
    int64_t batch;
} net;

static void fill_net(net *n, int64_t batch, int64_t pixels, int64_t classes)
{
    rungi_random image = rungi_random_make(SEED, RUNGI_PURPOSE_TEST, fnv1a("image"), 0, 0);
    rungi_random label = rungi_random_make(SEED, RUNGI_PURPOSE_TEST, fnv1a("label"), 0, 0);
    n->batch = batch;
    assert_ok(rung_graph_check(n->graph));
    assert_ok(rung_state_create(n->graph, device, &n->state));
    assert_ok(rung_state_init(n->state, SEED)); // of the buffers
    for (int i = 0; i < rung_state_count(n->state); i++) {
        rung_state_entry e = rung_state_at(n->state, i);
        if (!e.buffer)
            fill(&e);
    }
    n->image = malloc((size_t)(batch * pixels) * sizeof *n->image);
    assert_non_null(n->image);
    for (int64_t i = 0; i < batch * pixels; i++)
        n->image[i] = rungi_unit_f32(word(&image, i)) - 0.5f;
    for (int64_t i = 0; i < batch; i++)
        n->label[i] = word(&label, i) % (uint32_t)classes;
}

// The Net of tools/fixtures/autocast.py.
static void build(net *n, int64_t batch, int64_t side)
{
    assert_ok(rung_graph_create(context, &n->graph));
    rung_graph *g = n->graph;
    rung_value x = rung_input(g, "image", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 3, side, side));
    rung_value y = rung_input(g, "label", RUNG_I64, RUNG_SHAPE(RUNG_BATCH));
    x = rung_conv2d(g, x, "conv1", .out = 16, .kernel = 3, .pad = 1);
    x = rung_relu(g, rung_batch_norm(g, x, "bn1"));
    x = rung_add(g, x, rung_conv2d(g, x, "conv2", .out = 16, .kernel = 3, .pad = 1));
    x = rung_flatten(g, rung_max_pool2d(g, x, .kernel = 2), 1);
    x = rung_linear(g, x, "fc", .out = CLASSES);
    rung_graph_output(g, "logits", x);
    rung_graph_loss(g, rung_cross_entropy(g, x, y, 0));
    fill_net(n, batch, 3 * side * side, CLASSES);
}

static void drop(net *n)
{
    rung_state_destroy(&n->state);
    rung_graph_destroy(&n->graph);
    free(n->image);
}

static rung_plan *compile(const net *n, rung_compile_options o)
{
    rung_plan *plan;
    o.batch = n->batch;
    o.training = o.gradients = true;
    assert_ok(rung_compile(n->graph, n->state, &o, &plan));
    return plan;
}

static void run(const net *n, rung_plan *plan)
{
    assert_ok(rung_plan_bind(plan, "image", n->image));
    assert_ok(rung_plan_bind(plan, "label", n->label));
    assert_ok(rung_plan_forward(plan));
    assert_ok(rung_plan_backward(plan));
}

// ---- classes ------------------------------------------------------------------------------------

// The dtype that PyTorch gives, F32 where the fixture says float32.
static rung_dtype expected_dtype(const char *name)
{
    char line[2048], got[32], dtype[32];
    FILE *file = fopen(RUNG_SOURCE_DIR "/tests/fixtures/autocast.txt", "r");
    assert_non_null(file);
    do {
        if (!fgets(line, sizeof line, file))
            fail_msg("no dtype of %s in the fixture", name);
    } while (sscanf(line, "dtype %31s %31s", got, dtype) != 2 || strcmp(got, name) != 0);
    fclose(file);
    return strcmp(dtype, "bfloat16") == 0 ? RUNG_BF16 : RUNG_F32;
}

// What the plan's step of that operator gives.
static rung_dtype dtype_of(const rung_plan *plan, const char *op)
{
    for (size_t i = 0; i < plan->steps.count; i++)
        if (strcmp(plan->steps.data[i].q.op->name, op) == 0)
            return plan->steps.data[i].q.out[0].dtype;
    fail_msg("no step of %s", op);
    return RUNG_F32;
}

static void classes_as_pytorch(void **state)
{
    (void)state;
    rung_graph *g;
    rung_state *s;
    rung_plan *plan;
    static const char *const ops[] = {"conv2d",      "linear",   "matmul",         "relu",
                                      "add",         "mul",      "max_pool2d",     "avg_pool2d",
                                      "batch_norm",  "gelu",     "dropout",        "softmax",
                                      "log_softmax", "sum",      "mean",           "cross_entropy",
                                      "nll_loss",    "mse_loss", "bce_with_logits"};
    assert_ok(rung_graph_create(context, &g));
    rung_value x = rung_input(g, "image", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 4, 6, 6));
    rung_value flat = rung_input(g, "flat", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 8));
    rung_value other = rung_input(g, "other", RUNG_F32, RUNG_SHAPE(8, 3));
    rung_value target = rung_input(g, "target", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 8));
    rung_value y = rung_input(g, "label", RUNG_I64, RUNG_SHAPE(RUNG_BATCH));
    rung_value low = rung_conv2d(g, x, "conv", .out = 4, .kernel = 1);
    rung_value row = rung_linear(g, flat, "fc", .out = 8);
    rung_value outputs[] = {low,
                            row,
                            rung_matmul(g, flat, other, 0),
                            rung_relu(g, low),
                            rung_add(g, low, low),
                            rung_mul(g, low, x), // bfloat16 and float32
                            rung_max_pool2d(g, low, .kernel = 2),
                            rung_avg_pool2d(g, low, .kernel = 2),
                            rung_batch_norm(g, low, "bn"),
                            rung_gelu(g, low),
                            rung_dropout(g, low, 0.5),
                            rung_softmax(g, row, 1),
                            rung_log_softmax(g, row, 1),
                            rung_sum(g, low, .keepdim = false),
                            rung_mean(g, low, .keepdim = false),
                            rung_cross_entropy(g, row, y, .sum = false),
                            rung_nll_loss(g, rung_log_softmax(g, row, 1), y, .sum = false),
                            rung_mse_loss(g, row, target, 0),
                            rung_bce_with_logits(g, row, target, .sum = false)};
    enum { COUNT = sizeof ops / sizeof *ops, FIRST_CUDA = 11, LAST_CUDA = 14 };
    assert_int_equal(COUNT, sizeof outputs / sizeof *outputs);
    for (int i = 0; i < COUNT; i++)
        rung_graph_output(g, ops[i], outputs[i]);
    assert_ok(rung_graph_check(g));
    assert_ok(rung_state_create(g, device, &s));
    assert_ok(rung_compile(
        g, s, &(rung_compile_options){.batch = 2, .training = true, .precision = RUNG_BF16},
        &plan));
    for (int i = 0; i < COUNT; i++) {
        const char *as = strcmp(ops[i], "mul") == 0 ? "add_f32" : ops[i];
        // PyTorch's CPU list has no softmax, sum and mean; in its CUDA list, which is the one that
        // is followed, they are float32.
        bool cuda = i >= FIRST_CUDA && i <= LAST_CUDA;
        if (dtype_of(plan, ops[i]) != (cuda ? RUNG_F32 : expected_dtype(as)))
            fail_msg("%s gives %s", ops[i], rung_dtype_name(dtype_of(plan, ops[i])));
        rung_view view; // callers see what was declared
        assert_ok(rung_plan_output(plan, ops[i], &view));
        assert_int_equal(view.dtype, RUNG_F32);
    }
    rung_plan_destroy(&plan);
    rung_state_destroy(&s);
    rung_graph_destroy(&g);
}

// ---- values -------------------------------------------------------------------------------------

// Some values of the fixture's network: PyTorch's under autocast, and in float64.
typedef struct expected {
    long long count, step;
    double top, low[64], exact[64];
    int n;
} expected;

static expected read_expected(const char *name)
{
    char got[64];
    expected e = {0};
    char line[4096];
    FILE *file = fopen(RUNG_SOURCE_DIR "/tests/fixtures/autocast.txt", "r");
    assert_non_null(file);
    do {
        if (!fgets(line, sizeof line, file))
            fail_msg("no %s in the fixture", name);
    } while (sscanf(line, "net %63s %lld %lld %lf", got, &e.count, &e.step, &e.top) != 4 ||
             strcmp(got, name) != 0);
    e.n = (int)((e.count + e.step - 1) / e.step);
    assert_true(e.n <= 64);
    for (int i = 0; i < 2 * e.n; i++)
        assert_int_equal(fscanf(file, "%lf", i < e.n ? &e.low[i] : &e.exact[i - e.n]), 1);
    fclose(file);
    return e;
}

// Our values are as near to PyTorch's autocast ones as a rounding or two to 8 digits, and as near
// to the exact ones as twice what PyTorch's are.
static double compare(const char *name, const float *data)
{
    expected e = read_expected(name);
    double theirs = 0, ours = 0, apart = 0;
    for (int i = 0; i < e.n; i++) {
        double value = data[i * e.step];
        theirs = fmax(theirs, fabs(e.low[i] - e.exact[i]) / e.top);
        ours = fmax(ours, fabs(value - e.exact[i]) / e.top);
        apart = fmax(apart, fabs(value - e.low[i]) / e.top);
    }
    print_message("%-14s PyTorch %.1e, ours %.1e from float64; %.1e apart\n", name, theirs, ours,
                  apart);
    assert_true(ours <= fmax(2 * theirs, 0x1p-8) && apart <= 0x1p-7);
    return ours;
}

static void values_as_pytorch(void **state)
{
    (void)state;
    static const rung_compile_options ways[] = {
        {.precision = RUNG_BF16, .kernels = RUNG_KERNELS_REFERENCE},
        {.precision = RUNG_BF16, .kernels = RUNG_KERNELS_LIBRARY},
        {.precision = RUNG_BF16,
         .kernels = RUNG_KERNELS_OWN,
         .layout = RUNG_LAYOUT_CHANNELS_LAST,
         .fuse = true},
        {.precision = RUNG_BF16,
         .kernels = RUNG_KERNELS_OWN,
         .layout = RUNG_LAYOUT_BLOCKED,
         .fuse = true,
         .recompute = RUNG_RECOMPUTE_AUTO},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        net n;
        rung_view view;
        build(&n, BATCH, 12);
        rung_plan *plan = compile(&n, ways[i]);
        run(&n, plan);
        assert_ok(rung_plan_output(plan, "logits", &view));
        assert_true(compare("logits", view.data) > 1e-6); // it is not float32
        assert_ok(rung_plan_output(plan, "loss", &view));
        compare("loss", view.data);
        for (int k = 0; k < rung_state_count(n.state); k++) {
            rung_state_entry e = rung_state_at(n.state, k);
            if (e.buffer && e.dtype == RUNG_F32)
                compare(e.name, e.data);
            if (e.buffer || strcmp(e.name, "conv1.bias") == 0)
                continue; // which normalization takes away: its gradient is nothing but rounding
            assert_ok(rung_plan_grad(plan, e.name, &view));
            assert_int_equal(view.dtype, RUNG_F32);
            compare(e.name, view.data);
        }
        rung_plan_destroy(&plan);
        drop(&n);
    }
}

// Float32 kernels get some samples at a time, in pieces that do not divide the batch: nothing of
// that shows but the order of sums.
static void pieces(void **state)
{
    (void)state;
    enum { MANY = 11 };
    net n;
    build(&n, MANY, 96); // 16 x 96 x 96 floats in and out: 1.2 MB a sample
    rung_plan *plan = compile(&n, (rung_compile_options){.precision = RUNG_F16});
    int cut = 0;
    for (size_t i = 0; i < plan->steps.count; i++) {
        const struct rungi_halves *h = plan->steps.data[i].q.halves;
        cut += h && h->cut == RUNGI_HALVES_SAMPLES && MANY % h->part;
    }
    assert_true(cut >= 4);
    rung_plan_set_loss_scale(plan, 4096); // gradients of so many pixels are small
    run(&n, plan);
    int64_t size;
    const float *grads = rung_state_grads(n.state, &size);
    float *kept = malloc((size_t)size * sizeof *kept);
    for (int64_t i = 0; i < size; i++)
        kept[i] = grads[i] / 4096;
    rung_plan_destroy(&plan);
    plan = compile(&n, (rung_compile_options){0});
    run(&n, plan);
    for (int k = 0; k < rung_state_count(n.state); k++) {
        rung_state_entry e = rung_state_at(n.state, k);
        int64_t count;
        double top = 0, apart = 0;
        // What lies before the normalization gets differences of large sums.
        if (e.buffer || strncmp(e.name, "conv1", 5) == 0 || strncmp(e.name, "bn1", 3) == 0)
            continue;
        assert_ok(rung_shape_count(&e.shape, &count));
        for (int64_t i = 0; i < count; i++) {
            top = fmax(top, fabsf(e.grad[i]));
            apart = fmax(apart, fabsf(e.grad[i] - kept[e.grad - grads + i]));
        }
        print_message("%s: %.1e\n", e.name, apart / top);
        assert_true(apart <= 0.05 * top);
    }
    free(kept);
    rung_plan_destroy(&plan);
    drop(&n);
}

// C49: values 0 and 600 in float16 have a variance of 90,000, more than float16 can hold.
static void batch_norm_in_half(void **state)
{
    (void)state;
    enum { COUNT = 1024 };
    rung_graph *g;
    rung_state *s;
    rung_plan *plan;
    rung_view view;
    rung_state_entry weight, running;
    float x[COUNT], y[COUNT];
    assert_ok(rung_graph_create(context, &g));
    rung_value in = rung_input(g, "x", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 1));
    rung_value target = rung_input(g, "target", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 1));
    rung_value out = rung_batch_norm(g, rung_linear(g, in, "fc", .out = 1, .no_bias = true), "bn");
    rung_graph_output(g, "y", out);
    rung_graph_loss(g, rung_mse_loss(g, out, target, 0));
    assert_ok(rung_graph_check(g));
    assert_ok(rung_state_create(g, device, &s));
    assert_ok(rung_state_init(s, 1));
    assert_true(rung_state_find(s, "fc.weight", &weight));
    *(float *)weight.data = 1;
    for (int i = 0; i < COUNT; i++) {
        x[i] = i % 2 ? 600 : 0;
        y[i] = 0.5f;
    }
    assert_ok(rung_compile(
        g, s,
        &(rung_compile_options){
            .batch = COUNT, .training = true, .gradients = true, .precision = RUNG_F16},
        &plan));
    assert_int_equal(dtype_of(plan, "batch_norm"), RUNG_F16);
    assert_ok(rung_plan_bind(plan, "x", x));
    assert_ok(rung_plan_bind(plan, "target", y));
    assert_ok(rung_plan_forward(plan));
    assert_ok(rung_plan_backward(plan));
    assert_ok(rung_plan_output(plan, "y", &view));
    for (int i = 0; i < COUNT; i++)
        assert_near(((float *)view.data)[i], i % 2 ? 1 : -1, 1e-2);
    assert_true(rung_state_find(s, "bn.running_var", &running));
    assert_int_equal(running.dtype, RUNG_F32);
    // 0.9 + 0.1 times the unbiased variance.
    assert_near(*(float *)running.data, 0.9 + 0.1 * 90000.0 * COUNT / (COUNT - 1), 0.01);
    for (int i = 0; i < rung_state_count(s); i++) {
        rung_state_entry e = rung_state_at(s, i);
        assert_true(e.buffer || isfinite(*e.grad));
    }
    rung_plan_destroy(&plan);
    rung_state_destroy(&s);
    rung_graph_destroy(&g);
}

// ---- memory and listings ------------------------------------------------------------------------

static uint64_t arena_of(const char *model, int64_t side, int64_t batch, rung_dtype precision)
{
    rung_graph *g;
    rung_state *s;
    rung_plan *plan;
    rung_value logits;
    assert_ok(rung_graph_create(context, &g));
    rung_value x = rung_input(g, "image", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 3, side, side));
    rung_value y = rung_input(g, "label", RUNG_I64, RUNG_SHAPE(RUNG_BATCH));
    assert_ok(rung_model_build(g, model, &(rung_model_options){.classes = 10}, x, &logits));
    rung_graph_loss(g, rung_cross_entropy(g, logits, y, 0));
    assert_ok(rung_graph_check(g));
    assert_ok(rung_state_create(g, device, &s));
    assert_ok(rung_compile(g, s,
                           &(rung_compile_options){.batch = batch,
                                                   .training = true,
                                                   .gradients = true,
                                                   .layout = RUNG_LAYOUT_CHANNELS_LAST,
                                                   .fuse = true,
                                                   .precision = precision,
                                                   .plan_only = true},
                           &plan));
    uint64_t bytes = rung_plan_memory_use(plan).arena;
    rung_plan_destroy(&plan);
    rung_state_destroy(&s);
    rung_graph_destroy(&g);
    return bytes;
}

// Half of what lies between layers, and what the pieces and the copies of the weights take.
static void half_the_memory(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        int64_t side, batch;
        double share;
    } cases[] = {
        {"dlf_cnn", 32, 64, 0.85}, {"dlf_cnn", 32, 256, 0.65}, {"resnet18", 128, 64, 0.65}};
    size_t count = sizeof cases / sizeof *cases;
#ifdef __SANITIZE_ADDRESS__
    count--; // placing so many tensors takes long
#endif
    for (size_t i = 0; i < count; i++) {
        double full = (double)arena_of(cases[i].model, cases[i].side, cases[i].batch, RUNG_F32);
        double half = (double)arena_of(cases[i].model, cases[i].side, cases[i].batch, RUNG_BF16);
        print_message("%s, batch %d: %.1f MB, %.1f MB in bf16: %.2f\n", cases[i].model,
                      (int)cases[i].batch, full * 1e-6, half * 1e-6, half / full);
        assert_true(half / full <= cases[i].share && half / full >= 0.45);
    }
}

static int count_text(const char *text, const char *what)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, what)); at++)
        count++;
    return count;
}

static void the_listing_says_it(void **state)
{
    (void)state;
    net n;
    char *text;
    build(&n, BATCH, 12);
    rung_plan *plan = compile(&n, (rung_compile_options){.precision = RUNG_BF16});
    assert_ok(rung_plan_explain(plan, &text));
    bool native = rung_compute_native(context, RUNG_BF16, NULL, 0);
    assert_non_null(strstr(text, native ? "precision bf16, compute native"
                                        : "precision bf16, compute storage"));
    free(text);
    rung_plan_destroy(&plan);
    plan = compile(&n,
                   (rung_compile_options){.precision = RUNG_BF16, .compute = RUNG_COMPUTE_STORAGE});
    assert_ok(rung_plan_explain(plan, &text));
    assert_non_null(strstr(text, "precision bf16, compute storage"));
    // The image, weight and bias of three layers, the logits back: each once.
    assert_int_equal(count_text(text, "cast.forward {to bf16}"), 7);
    assert_int_equal(count_text(text, "cast.forward {to f32}"), 1);
    assert_int_equal(count_text(text, "cast."), 8);
    assert_non_null(strstr(text, "in float32, around operands of 16 bits"));
    free(text);
    rung_plan_destroy(&plan);
    plan = compile(&n, (rung_compile_options){0});
    assert_ok(rung_plan_explain(plan, &text));
    assert_null(strstr(text, "cast"));
    free(text);
    rung_plan_destroy(&plan);
    drop(&n);
}

static void refusals(void **state)
{
    (void)state;
    net n;
    rung_plan *plan;
    char why[96] = "";
    build(&n, BATCH, 12);
    assert_fails(RUNG_INVALID, "plans are of float32, bf16 or f16, not of i32",
                 rung_compile(n.graph, n.state,
                              &(rung_compile_options){.batch = BATCH, .precision = RUNG_I32},
                              &plan));
    // Configurations are checked without a context, too.
    assert_int_equal(rung_compute_native(NULL, RUNG_BF16, NULL, 0),
                     rung_compute_native(context, RUNG_BF16, NULL, 0));
    assert_false(rung_compute_native(context, RUNG_F16, why, sizeof why));
    assert_fails(RUNG_UNSUPPORTED, why,
                 rung_compile(n.graph, n.state,
                              &(rung_compile_options){.batch = BATCH,
                                                      .precision = RUNG_F16,
                                                      .compute = RUNG_COMPUTE_NATIVE},
                              &plan));
    drop(&n);
}

// The gradients of a scaled loss are so many times the others, exactly: the scale is a power of two
// and nothing leaves bfloat16's range.
static void scaled_loss(void **state)
{
    (void)state;
    net n;
    int64_t size;
    build(&n, BATCH, 12);
    rung_plan *plan = compile(&n, (rung_compile_options){.precision = RUNG_BF16});
    run(&n, plan);
    const float *grads = rung_state_grads(n.state, &size);
    float *kept = malloc((size_t)size * sizeof *kept);
    memcpy(kept, grads, (size_t)size * sizeof *kept);
    rung_plan_set_loss_scale(plan, 1024);
    run(&n, plan);
    for (int64_t i = 0; i < size; i++)
        assert_true(grads[i] == 1024 * kept[i]);
    free(kept);
    rung_plan_destroy(&plan);
    drop(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_as_pytorch),
        cmocka_unit_test(values_as_pytorch),
        cmocka_unit_test(pieces),
        cmocka_unit_test(batch_norm_in_half),
        cmocka_unit_test(half_the_memory),
        cmocka_unit_test(the_listing_says_it),
        cmocka_unit_test(refusals),
        cmocka_unit_test(scaled_loss),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
