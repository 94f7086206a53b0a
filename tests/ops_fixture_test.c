// SPDX-License-Identifier: Apache-2.0
// Outputs and gradients of operators against PyTorch's: tests/fixtures/ops.txt, made by
// tools/fixtures/ops.py. Each case is a graph through the public API, whose loss is sum(y * w), run
// with the best kernels and with the reference kernels. PyTorch computed in float64: ours may be
// off by 2e-6 of a tensor's largest value, that is by the rounding of terms and results.
#include "testing.h"

#include <math.h>
#include <stdio.h>

#include "base/philox.h"
#include "rung/ops.h"
#include "rung/plan.h"

enum { MAX_LEAVES = 5, MAX_SIZE = 512, WEIGHT = 9 };

// How a leaf is drawn: as the functions of these names in the script.
typedef enum fill { NORMAL, POSITIVE, UNIT, LABELS } fill;

typedef struct leaf {
    char name[2];
    float values[MAX_SIZE];
    int64_t labels[MAX_SIZE]; // where limit > 0
    int limit;
    bool trainable;
    int64_t size;
} leaf;

typedef struct model {
    rung_graph *g;
    leaf leaves[MAX_LEAVES];
    int count;
} model;

static int64_t size_of(rung_shape shape)
{
    int64_t count;
    assert_ok(rung_shape_count(&shape, &count));
    assert_true(count <= MAX_SIZE);
    return count;
}

// Leaf "a" is tensor 0 of the script, and so on.
static rung_value add_leaf(model *m, int number, fill how, int limit, bool trainable,
                           rung_shape shape)
{
    assert_true(m->count < MAX_LEAVES);
    leaf *l = &m->leaves[m->count++];
    *l = (leaf){.name = {(char)('a' + number)}, .limit = limit, .trainable = trainable};
    l->size = size_of(shape);
    rungi_random random = rungi_random_make(21, RUNGI_PURPOSE_TEST, (uint64_t)number, 0, 0);
    for (int64_t i = 0; i < l->size; i++) {
        uint32_t word = rungi_random_block(&random, (uint64_t)i / 4).v[i % 4] >> 16;
        l->values[i] = how == NORMAL     ? (float)word / 16384 - 2
                       : how == POSITIVE ? (float)word / 65536 + 0.5f
                                         : (float)word / 65536;
        l->labels[i] = limit ? word % (uint32_t)limit : 0;
    }
    return trainable ? rung_param(m->g, l->name, shape, NULL)
                     : rung_input(m->g, l->name, limit ? RUNG_I64 : RUNG_F32, shape);
}

#define PARAM(number, fill, ...) add_leaf(m, number, fill, 0, true, RUNG_SHAPE(__VA_ARGS__))
#define GIVEN(number, fill, ...) add_leaf(m, number, fill, 0, false, RUNG_SHAPE(__VA_ARGS__))
#define CLASS(number, limit, ...) add_leaf(m, number, LABELS, limit, false, RUNG_SHAPE(__VA_ARGS__))
#define X PARAM(0, NORMAL, 3, 11)
#define X3 PARAM(0, NORMAL, 2, 5, 4)
#define A PARAM(0, NORMAL, 2, 1, 5)
#define B PARAM(1, POSITIVE, 3, 1)
#define LOGITS PARAM(0, NORMAL, 6, 5)
#define IMAGES PARAM(0, NORMAL, 2, 5, 3)
#define NONE ((rung_value){0})

#define CASES(ENTRY)                                                                             \
    ENTRY(relu, rung_relu(g, X))                                                                 \
    ENTRY(leaky_relu, rung_leaky_relu(g, X, 0.1))                                                \
    ENTRY(sigmoid, rung_sigmoid(g, X))                                                           \
    ENTRY(tanh, rung_tanh(g, X))                                                                 \
    ENTRY(gelu, rung_gelu(g, X))                                                                 \
    ENTRY(gelu_tanh, rung_gelu_tanh(g, X))                                                       \
    ENTRY(silu, rung_silu(g, X))                                                                 \
    ENTRY(scale, rung_scale(g, X, 1.5, -0.25))                                                   \
    ENTRY(sum_all, rung_sum(g, X, .keepdim = false))                                             \
    ENTRY(mean_all, rung_mean(g, X, .keepdim = false))                                           \
    ENTRY(mean_last, rung_mean(g, X, .dims = RUNG_DIMS(-1)))                                     \
    ENTRY(softmax, rung_softmax(g, X, -1))                                                       \
    ENTRY(log_softmax, rung_log_softmax(g, X, -1))                                               \
    ENTRY(cast_bf16, rung_cast(g, rung_cast(g, X, RUNG_BF16), RUNG_F32))                         \
    ENTRY(add, rung_add(g, A, B))                                                                \
    ENTRY(sub, rung_sub(g, A, B))                                                                \
    ENTRY(mul, rung_mul(g, A, B))                                                                \
    ENTRY(div, rung_div(g, A, B))                                                                \
    ENTRY(sum_outer, rung_sum(g, X3, .dims = RUNG_DIMS(0, 2), .keepdim = true))                  \
    ENTRY(softmax_middle, rung_softmax(g, X3, 1))                                                \
    ENTRY(log_softmax_middle, rung_log_softmax(g, X3, -2))                                       \
    ENTRY(argmax_middle, rung_argmax(g, X3, 1))                                                  \
    ENTRY(nll_loss, rung_nll_loss(g, LOGITS, CLASS(1, 5, 6), .weight = GIVEN(2, POSITIVE, 5),    \
                                  .ignore_index = 2))                                            \
    ENTRY(nll_loss_images, rung_nll_loss(g, IMAGES, CLASS(1, 5, 2, 3), .sum = true))             \
    ENTRY(cross_entropy, rung_cross_entropy(g, LOGITS, CLASS(1, 5, 6), .sum = false))            \
    ENTRY(cross_entropy_all,                                                                     \
          rung_cross_entropy(g, LOGITS, CLASS(1, 5, 6), .weight = GIVEN(2, POSITIVE, 5),         \
                             .ignore_index = 2, .label_smoothing = 0.2))                         \
    ENTRY(cross_entropy_images,                                                                  \
          rung_cross_entropy(g, IMAGES, CLASS(1, 5, 2, 3), .sum = true, .label_smoothing = 0.1)) \
    ENTRY(cross_entropy_soft, rung_cross_entropy(g, LOGITS, GIVEN(1, UNIT, 6, 5), .sum = false)) \
    ENTRY(cross_entropy_soft_images, rung_cross_entropy(g, IMAGES, GIVEN(1, UNIT, 2, 5, 3),      \
                                                        .sum = true, .label_smoothing = 0.1))    \
    ENTRY(bce_with_logits, rung_bce_with_logits(g, LOGITS, GIVEN(1, UNIT, 6, 5), .sum = false))  \
    ENTRY(bce_with_logits_all,                                                                   \
          rung_bce_with_logits(g, LOGITS, GIVEN(1, UNIT, 6, 5),                                  \
                               .weight = GIVEN(2, POSITIVE, 6, 1),                               \
                               .pos_weight = GIVEN(3, POSITIVE, 5), .sum = true))                \
    ENTRY(mse_loss, rung_mse_loss(g, LOGITS, PARAM(1, POSITIVE, 6, 5), .sum = false))            \
    ENTRY(mse_loss_sum, rung_mse_loss(g, LOGITS, PARAM(1, POSITIVE, 6, 5), .sum = true))         \
    ENTRY(linear,                                                                                \
          rung_f_linear(g, PARAM(0, NORMAL, 4, 7), PARAM(1, NORMAL, 3, 7), PARAM(2, NORMAL, 3))) \
    ENTRY(conv2d,                                                                                \
          rung_f_conv2d(g, PARAM(0, NORMAL, 2, 2, 6, 5), PARAM(1, NORMAL, 3, 2, 3, 3),           \
                        PARAM(2, NORMAL, 3), &(rung_conv2d_options){.stride = 2, .pad = 1}))     \
    ENTRY(conv2d_groups,                                                                         \
          rung_f_conv2d(g, PARAM(0, NORMAL, 1, 4, 6, 6), PARAM(1, NORMAL, 4, 2, 2, 2), NONE,     \
                        &(rung_conv2d_options){.groups = 2, .dilation = 2}))                     \
    ENTRY(max_pool2d,                                                                            \
          rung_max_pool2d(g, PARAM(0, NORMAL, 1, 2, 6, 5), .kernel = 3, .stride = 2, .pad = 1))  \
    ENTRY(max_pool2d_ceil,                                                                       \
          rung_max_pool2d(g, PARAM(0, NORMAL, 1, 2, 5, 5), .kernel = 2, .ceil_mode = true))

#define CASE_FUNCTION(name, expression)     \
    static rung_value name##_case(model *m) \
    {                                       \
        rung_graph *g = m->g;               \
        return expression;                  \
    }
CASES(CASE_FUNCTION)

static const struct {
    const char *name;
    rung_value (*build)(model *m);
} cases[] = {
#define CASE_ENTRY(name, expression) {#name, name##_case},
    CASES(CASE_ENTRY)};

enum { COUNT = sizeof cases / sizeof *cases };

// ---- the fixture ------------------------------------------------------------------------------

typedef struct expected {
    char name[16];
    int64_t count;
    double values[MAX_SIZE];
} expected;

static expected fixture[COUNT][4];

static void read_tensor(char *line, expected *e)
{
    char *save = NULL;
    strtok_r(line, " \n", &save);
    snprintf(e->name, sizeof e->name, "%s", strtok_r(NULL, " \n", &save));
    e->count = atoll(strtok_r(NULL, " \n", &save));
    assert_true(e->count <= MAX_SIZE);
    for (int64_t i = 0; i < e->count; i++)
        e->values[i] = atof(strtok_r(NULL, " \n", &save));
}

static int read_fixture(void **state)
{
    (void)state;
    FILE *file = fopen(RUNG_SOURCE_DIR "/tests/fixtures/ops.txt", "r");
    char *line = NULL;
    size_t room = 0;
    int at = -1, tensors = 0, seen = 0;
    assert_non_null(file);
    while (getline(&line, &room, file) > 0) {
        char name[64];
        if (sscanf(line, "case %63s", name) == 1) {
            for (at = COUNT - 1; at >= 0 && strcmp(cases[at].name, name) != 0; at--)
                ;
            if (at < 0)
                fail_msg("the fixture's case %s is not tested", name);
            tensors = 0;
            seen++;
        } else if (strncmp(line, "tensor ", 7) == 0) {
            read_tensor(line, &fixture[at][tensors++]);
        }
    }
    free(line);
    fclose(file);
    assert_int_equal(seen, COUNT);
    return 0;
}

static void compare(const char *name, const expected *e, const rung_view *got)
{
    double top = 0;
    int64_t count;
    assert_ok(rung_shape_count(&got->shape, &count));
    assert_int_equal(count, e->count);
    for (int64_t i = 0; i < count; i++)
        top = fmax(top, fabs(e->values[i]));
    for (int64_t i = 0; i < count; i++) {
        double value = got->dtype == RUNG_I64 ? (double)((const int64_t *)got->data)[i]
                                              : (double)((const float *)got->data)[i];
        if (!(fabs(value - e->values[i]) <= 2e-6 * top))
            fail_msg("%s: %s at %d is %.9g, PyTorch says %.9g", name, e->name, (int)i, value,
                     e->values[i]);
    }
}

// ---- running ----------------------------------------------------------------------------------

static void bind_leaves(const model *m, rung_state *state, rung_plan *plan)
{
    for (int i = 0; i < m->count; i++) {
        const leaf *l = &m->leaves[i];
        rung_state_entry entry;
        if (!l->trainable) {
            assert_ok(rung_plan_bind(plan, l->name,
                                     l->limit ? (const void *)l->labels : (const void *)l->values));
            continue;
        }
        assert_true(rung_state_find(state, l->name, &entry));
        memcpy(entry.data, l->values, (size_t)l->size * sizeof(float));
    }
}

static void run_case(int which, rung_device *device, rung_kernels kernels)
{
    static model m;
    const char *name = cases[which].name;
    rung_state *state;
    rung_plan *plan;
    memset(&m, 0, sizeof m);
    assert_ok(rung_graph_create(rung_device_context(device), &m.g));
    rung_value y = cases[which].build(&m);
    rung_shape shape = rung_value_shape(m.g, y);
    bool trains = rung_value_dtype(m.g, y) == RUNG_F32;
    rung_graph_output(m.g, "y", y);
    if (trains) {
        rung_value w = add_leaf(&m, WEIGHT, NORMAL, 0, false, shape);
        rung_graph_loss(m.g, rung_sum(m.g, rung_mul(m.g, y, w), .keepdim = false));
    }
    assert_ok(rung_state_create(m.g, device, &state));
    rung_compile_options options = {.batch = 1, .gradients = trains, .fuse = true, .threads = 2};
    options.kernels = kernels;
    assert_ok(rung_compile(m.g, state, &options, &plan));
    bind_leaves(&m, state, plan);
    assert_ok(rung_plan_forward(plan));
    rung_view view;
    assert_ok(rung_plan_output(plan, "y", &view));
    compare(name, &fixture[which][0], &view);
    if (trains)
        assert_ok(rung_plan_backward(plan));
    for (int i = 1; trains && i < 4 && fixture[which][i].count; i++) {
        rung_state_entry entry;
        assert_true(rung_state_find(state, fixture[which][i].name, &entry));
        compare(name, &fixture[which][i], &(rung_view){RUNG_F32, entry.shape, entry.grad});
    }
    rung_plan_destroy(&plan);
    rung_state_destroy(&state);
    rung_graph_destroy(&m.g);
}

static void check_kernels(rung_kernels kernels)
{
    rung_context *context;
    rung_device *device;
    assert_ok(rung_context_create(NULL, &context));
    assert_ok(rung_device_create(context, "cpu:0", NULL, &device));
    for (int i = 0; i < COUNT; i++)
        run_case(i, device, kernels);
    rung_device_destroy(&device);
    rung_context_destroy(&context);
}

static void check_own(void **state)
{
    (void)state;
    check_kernels(RUNG_KERNELS_OWN);
}

static void check_reference(void **state)
{
    (void)state;
    check_kernels(RUNG_KERNELS_REFERENCE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(check_own, read_fixture),
        cmocka_unit_test(check_reference),
    };
    return RUN_TESTS(tests);
}
