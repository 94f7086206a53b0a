// SPDX-License-Identifier: Apache-2.0
// Normalization, pooling, shapes and products through the public graph API, against PyTorch:
// tests/fixtures/ops_norm_pool.txt, made by tools/fixtures/ops_norm_pool.py. Every case runs in
// each layout, with own, library and reference kernels, fused or not.
#include "testing.h"

#include <math.h>
#include <stdio.h>

#include "base/philox.h"
#include "rung/nn.h"
#include "rung/plan.h"

enum { STEPS = 3 };

static rung_context *context;
static rung_device *device;

// ---- the graphs -------------------------------------------------------------------------------

typedef struct graph_case {
    const char *name;
    int rows;                                                       // of the logits
    rung_shape shape[2];                                            // of x and r; rank 0: no r
    rung_value (*build)(rung_graph *g, rung_value x, rung_value r); // y
    bool norm;                                                      // has a layer "bn"
} graph_case;

static rung_value bn_usual(rung_graph *g, rung_value x, rung_value r)
{
    (void)r;
    return rung_batch_norm(g, x, "bn");
}

static rung_value bn_features(rung_graph *g, rung_value x, rung_value r)
{
    (void)r;
    return rung_batch_norm(g, x, "bn", .eps = 1e-3, .momentum = 0.3);
}

static rung_value bn_sequence(rung_graph *g, rung_value x, rung_value r)
{
    (void)r;
    return rung_batch_norm(g, x, "bn", .cumulative = true);
}

static rung_value bn_bare(rung_graph *g, rung_value x, rung_value r)
{
    (void)r;
    return rung_batch_norm(g, x, "bn", .no_affine = true, .no_running = true);
}

static rung_value bn_frozen(rung_graph *g, rung_value x, rung_value r)
{
    (void)r;
    rung_value y = rung_batch_norm(g, x, "bn");
    assert_int_equal(rung_graph_set_eval(g, "b*"), 1);
    return y;
}

static rung_value bn_residual(rung_graph *g, rung_value x, rung_value r)
{
    return rung_relu(g, rung_add(g, rung_batch_norm(g, x, "bn"), r));
}

static rung_value max_pool(rung_graph *g, rung_value x, rung_value r)
{
    (void)r;
    return rung_max_pool2d(g, x, .kernel = 3, .stride = 2, .pad = 1);
}

static rung_value max_pool_ceil(rung_graph *g, rung_value x, rung_value r)
{
    (void)r;
    return rung_relu(g, rung_max_pool2d(g, x, .kernel = 3, .kernel_w = 2, .stride = 2, .pad = 1,
                                        .ceil_mode = true));
}

static rung_value avg_pool(rung_graph *g, rung_value x, rung_value r)
{
    (void)r;
    return rung_avg_pool2d(g, x, .kernel = 2);
}

static rung_value avg_pool_padded(rung_graph *g, rung_value x, rung_value r)
{
    (void)r;
    return rung_avg_pool2d(g, x, .kernel = 3, .stride = 2, .pad = 1, .ceil_mode = true);
}

static rung_value avg_pool_excluded(rung_graph *g, rung_value x, rung_value r)
{
    (void)r;
    return rung_avg_pool2d(g, x, .kernel = 3, .stride = 2, .pad = 1, .ceil_mode = true,
                           .exclude_pad = true);
}

static rung_value avg_pool_divisor(rung_graph *g, rung_value x, rung_value r)
{
    (void)r;
    return rung_avg_pool2d(g, x, .kernel = 2, .stride = 1, .divisor = 3);
}

static rung_value adaptive(rung_graph *g, rung_value x, rung_value r)
{
    (void)r;
    return rung_adaptive_avg_pool2d(g, x, 3, 4);
}

static rung_value global(rung_graph *g, rung_value x, rung_value r)
{
    (void)r;
    return rung_adaptive_avg_pool2d(g, x, 1, 1);
}

// A pooling that changes nothing, but is kept in the plan's layout.
static rung_value image(rung_graph *g, rung_value x)
{
    return rung_max_pool2d(g, x, .kernel = 1);
}

static rung_value concat(rung_graph *g, rung_value x, rung_value r)
{
    return rung_concat(g, (rung_value[]){image(g, x), image(g, r), x}, 3, 1);
}

static rung_value slice(rung_graph *g, rung_value x, rung_value r)
{
    (void)r;
    rung_value y = rung_slice(g, image(g, x), 1, 8, 16, 1);
    return rung_slice(g, rung_slice(g, y, 2, -4, INT64_MAX, 1), -1, 1, INT64_MAX, 2);
}

static rung_value pad(rung_graph *g, rung_value x, rung_value r)
{
    (void)r;
    return rung_pad(g, image(g, x), (int64_t[]){0, 0, 0, 1}, (int64_t[]){0, 0, 1, 2}, 0.5);
}

static rung_value permute(rung_graph *g, rung_value x, rung_value r)
{
    (void)r;
    return rung_transpose(g, rung_permute(g, x, (int[]){2, 0, 3, 1}), 1, -1);
}

static rung_value matmul(rung_graph *g, rung_value x, rung_value r)
{
    return rung_matmul(g, x, r, .transpose_a = false);
}

static rung_value matmul_turned(rung_graph *g, rung_value x, rung_value r)
{
    return rung_matmul(g, x, r, .transpose_a = true, .transpose_b = true);
}

#define S(...)                                                                                    \
    {                                                                                             \
        .rank = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .dim = { __VA_ARGS__ } \
    }

// In the order of the script: the index keys the random numbers.
static const graph_case cases[] = {
    {"bn_image", 4, {S(4, 8, 2, 2)}, bn_usual, true},
    {"bn_features", 6, {S(6, 5)}, bn_features, true},
    {"bn_sequence", 3, {S(3, 4, 5)}, bn_sequence, true},
    {"bn_bare", 3, {S(3, 4, 2, 2)}, bn_bare, true},
    {"bn_frozen", 2, {S(2, 3, 2, 3)}, bn_frozen, true},
    {"bn_residual", 2, {S(2, 8, 3, 3), S(2, 8, 3, 3)}, bn_residual, true},
    {"max_pool", 1, {S(1, 8, 7, 6)}, max_pool},
    {"max_pool_ceil", 1, {S(1, 3, 6, 7)}, max_pool_ceil},
    {"avg_pool", 1, {S(1, 8, 6, 7)}, avg_pool},
    {"avg_pool_padded", 1, {S(1, 3, 6, 7)}, avg_pool_padded},
    {"avg_pool_excluded", 1, {S(1, 3, 6, 7)}, avg_pool_excluded},
    {"avg_pool_divisor", 1, {S(1, 3, 6, 7)}, avg_pool_divisor},
    {"adaptive", 1, {S(1, 8, 7, 5)}, adaptive},
    {"global", 2, {S(2, 8, 3, 5)}, global},
    {"concat", 2, {S(2, 8, 2, 2), S(2, 16, 2, 2)}, concat},
    {"slice", 1, {S(1, 16, 5, 6)}, slice},
    {"pad", 2, {S(2, 8, 3, 2)}, pad},
    {"permute", 4, {S(2, 3, 4, 5)}, permute},
    {"matmul", 4, {S(2, 3, 4, 5), S(3, 5, 2)}, matmul},
    {"matmul_turned", 2, {S(2, 5, 4), S(6, 5)}, matmul_turned},
};
enum { CASES = sizeof cases / sizeof *cases };

static rung_graph *build(const graph_case *c)
{
    rung_graph *g;
    assert_ok(rung_graph_create(context, &g));
    rung_value in[2] = {rung_param(g, "x", c->shape[0], NULL)};
    if (c->shape[1].rank)
        in[1] = rung_param(g, "r", c->shape[1], NULL);
    rung_value y = c->build(g, in[0], in[1]);
    rung_value labels = rung_input(g, "labels", RUNG_I64, RUNG_SHAPE(c->rows));
    rung_graph_output(g, "y", y);
    rung_value logits = rung_reshape(g, y, RUNG_SHAPE(c->rows, -1));
    rung_graph_loss(g, rung_cross_entropy(g, logits, labels, .sum = false));
    assert_ok(rung_graph_check(g));
    return g;
}

// ---- running them -----------------------------------------------------------------------------

// As draw() of the script.
static void draw(int index, int tensor, int step, float add, rung_state *state, const char *name)
{
    rung_state_entry e;
    int64_t count;
    if (!rung_state_find(state, name, &e))
        return;
    assert_ok(rung_shape_count(&e.shape, &count));
    rungi_random random = rungi_random_make(31, RUNGI_PURPOSE_TEST, (uint64_t)index,
                                            (uint64_t)tensor, (uint64_t)step);
    for (int64_t i = 0; i < count; i++)
        ((float *)e.data)[i] =
            rungi_unit_f32(rungi_random_block(&random, (uint64_t)i / 4).v[i % 4]) * 4 - 2 + add;
}

typedef struct run {
    rung_graph *graph;
    rung_state *state;
    rung_plan *train, *eval;
    int64_t labels[8];
} run;

static void run_init(run *r, int index, rung_compile_options options)
{
    const graph_case *c = &cases[index];
    r->graph = build(c);
    assert_ok(rung_state_create(r->graph, device, &r->state));
    assert_ok(rung_state_init(r->state, 1));
    options.batch = 1;
    options.training = options.gradients = true;
    assert_ok(rung_compile(r->graph, r->state, &options, &r->train));
    options.training = options.gradients = false;
    options.outputs = (const char *[]){"y"};
    options.n_outputs = 1;
    assert_ok(rung_compile(r->graph, r->state, &options, &r->eval));
    draw(index, 10, 0, 0, r->state, "bn.weight");
    draw(index, 11, 0, 0, r->state, "bn.bias");
    if (strcmp(c->name, "bn_frozen") == 0) {
        draw(index, 12, 0, 0, r->state, "bn.running_mean");
        draw(index, 13, 0, 2.25f, r->state, "bn.running_var");
    }
    rung_view y;
    assert_ok(rung_plan_output(r->train, "y", &y));
    int64_t count;
    assert_ok(rung_shape_count(&y.shape, &count));
    for (int i = 0; i < c->rows; i++)
        r->labels[i] = i % (count / c->rows);
    assert_ok(rung_plan_bind(r->train, "labels", r->labels));
    for (int step = 0; step < (c->norm ? STEPS : 1); step++) {
        draw(index, 0, step, 0, r->state, "x");
        draw(index, 1, step, 0, r->state, "r");
        assert_ok(rung_plan_forward(r->train));
        assert_ok(rung_plan_backward(r->train));
    }
    assert_ok(rung_plan_forward(r->eval));
}

static void run_fini(run *r)
{
    rung_plan_destroy(&r->train);
    rung_plan_destroy(&r->eval);
    rung_state_destroy(&r->state);
    rung_graph_destroy(&r->graph);
}

// Element i of what the fixture calls `name`.
static double value_of(const run *r, const char *name, int64_t i)
{
    rung_state_entry e;
    rung_view view;
    if (strncmp(name, "grad.", 5) == 0) {
        assert_true(rung_state_find(r->state, name + 5, &e));
        return e.grad[i];
    }
    if (rung_state_find(r->state, name, &e))
        return e.dtype == RUNG_I64 ? (double)((int64_t *)e.data)[i] : ((float *)e.data)[i];
    bool eval = strcmp(name, "eval") == 0;
    assert_ok(rung_plan_output(eval ? r->eval : r->train, eval ? "y" : name, &view));
    return ((float *)view.data)[i];
}

// Checks a line "tensor NAME COUNT values".
static void check_tensor(const run *r, const graph_case *c, const rung_compile_options *o,
                         char *line)
{
    char *save = NULL;
    strtok_r(line, " ", &save);
    const char *name = strtok_r(NULL, " ", &save);
    int64_t count = atoll(strtok_r(NULL, " ", &save));
    double theirs[512], largest = 0;
    assert_true(count <= 512);
    for (int64_t i = 0; i < count; i++) {
        theirs[i] = strtod(strtok_r(NULL, " ", &save), NULL);
        largest = fmax(largest, fabs(theirs[i]));
    }
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(value_of(r, name, i) - theirs[i]) <= 2e-6 * fmax(largest, 0.1)))
            fail_msg("%s, layout %d, kernels %d, fuse %d: %s[%d] is %.9g, PyTorch has %.9g",
                     c->name, o->layout, o->kernels, o->fuse, name, (int)i, value_of(r, name, i),
                     theirs[i]);
}

static void check_file(const rung_compile_options *options)
{
    FILE *file = fopen(RUNG_SOURCE_DIR "/tests/fixtures/ops_norm_pool.txt", "r");
    assert_non_null(file);
    static char line[16384];
    run r = {0};
    int index = -1, tensors = 0;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "case ", 5) == 0) {
            run_fini(&r);
            assert_string_equal(line + 5, cases[++index].name);
            run_init(&r, index, *options);
        } else if (strncmp(line, "tensor ", 7) == 0) {
            check_tensor(&r, &cases[index], options, line);
            tensors++;
        }
    }
    fclose(file);
    run_fini(&r);
    assert_int_equal(index + 1, CASES);
    assert_int_equal(tensors, 95);
}

static void equals_pytorch(void **state)
{
    (void)state;
    for (int layout = RUNG_LAYOUT_PLAIN; layout <= RUNG_LAYOUT_BLOCKED; layout++)
        for (int kernels = RUNG_KERNELS_OWN; kernels <= RUNG_KERNELS_REFERENCE; kernels++)
            for (int fuse = 0; fuse < 2; fuse++)
                check_file(&(rung_compile_options){.layout = (rung_layout)layout,
                                                   .kernels = (rung_kernels)kernels,
                                                   .fuse = fuse,
                                                   .threads = 2});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_pytorch),
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
