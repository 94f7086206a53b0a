// SPDX-License-Identifier: Apache-2.0
// Float32 kernels around operands of 16 bits: however the work is cut, results are those of the
// float32 kernel, rounded.
#include "testing.h"

#include <math.h>

#include "base/context.h"
#include "base/philox.h"
#include "ops/conv2d/conv2d.h"
#include "ops/halves.h"
#include "tensor/half.h"

enum { BUFFERS = 6, X = 0, W, B, Y, MOST = 40000 };

// x, w, b, y (or its gradient), gw, gb; for the data pass gw is gx.
typedef struct work {
    rungi_operand in[3], out[1], gout[1], gin[3];
    rungi_query q;
    void *ptr[BUFFERS];
} work;

static rungi_operand operand(rung_dtype dtype, int buffer, rung_shape shape)
{
    return (rungi_operand){.dtype = dtype, .buffer = buffer, .shape = shape};
}

// Values that 8 digits hold, so that float32 and 16 bits begin with the same.
static void fill(work *w, int buffer, const rungi_operand *o)
{
    rungi_random random = rungi_random_make(5, RUNGI_PURPOSE_TEST, (uint64_t)buffer, 0, 0);
    int64_t n = rungi_operand_count(o);
    assert_true(n <= MOST);
    w->ptr[buffer] = calloc(MOST, sizeof(float));
    for (int64_t i = 0; i < n; i++) {
        float value =
            rung_bf16_to_f32(rung_f32_to_bf16((float)rungi_random_normal(&random, (uint64_t)i)));
        if (o->dtype == RUNG_BF16)
            ((uint16_t *)w->ptr[buffer])[i] = rung_f32_to_bf16(value);
        else
            ((float *)w->ptr[buffer])[i] = value;
    }
}

static void make(work *w, const rungi_op *op, const void *attr, int pass, rung_dtype dtype,
                 rung_shape x, rung_shape weight, rung_shape y)
{
    bool forward = pass == RUNGI_FORWARD, data = pass == 1;
    rung_shape b = {1, {weight.dim[0]}};
    *w = (work){0};
    w->in[0] = operand(dtype, data ? -1 : X, x);
    w->in[1] = operand(dtype, pass == 0 ? -1 : W, weight);
    w->in[2] = operand(dtype, forward ? B : -1, b);
    w->out[0] = operand(dtype, forward ? Y : -1, y);
    w->gout[0] = operand(dtype, forward ? -1 : Y, y);
    w->gin[0] = operand(dtype, data ? 4 : -1, x);
    w->gin[1] = operand(RUNG_F32, pass == 0 ? 4 : -1, weight);
    w->gin[2] = operand(RUNG_F32, pass == 0 ? 5 : -1, b);
    w->q = (rungi_query){.op = op,
                         .attr = attr,
                         .pass = pass,
                         .in = w->in,
                         .n_in = 3,
                         .out = w->out,
                         .n_out = 1,
                         .gout = w->gout,
                         .gin = w->gin,
                         .gradients = true,
                         .threads = 2,
                         .isa = rungi_cpu_isa()};
    fill(w, X, &w->in[0]);
    fill(w, W, &w->in[1]);
    fill(w, B, &w->in[2]);
    fill(w, Y, &w->gout[0]);
    fill(w, 4, data ? &w->gin[0] : &w->gin[1]);
    fill(w, 5, &w->gin[2]);
}

static void drop(work *w)
{
    for (int i = 0; i < BUFFERS; i++)
        free(w->ptr[i]);
}

static void run(work *w, const rungi_kernel *kernel)
{
    rungi_setup setup = {0};
    rungi_runtime rt = {0};
    if (kernel->create)
        assert_ok(kernel->create(&w->q, &setup));
    void *workspace = aligned_alloc(64, (setup.workspace + 64) / 64 * 64);
    memset(workspace, 0xFF, (setup.workspace + 64) / 64 * 64); // NaN in every number
    assert_ok(kernel->run(&(rungi_call){&w->q, setup.state, w->ptr, workspace, &rt}));
    if (kernel->destroy)
        kernel->destroy(setup.state);
    free(workspace);
}

// The buffer that the pass gives, as floats.
static float value(const work *w, int buffer, rung_dtype dtype, int64_t i)
{
    return dtype == RUNG_BF16 ? rung_bf16_to_f32(((uint16_t *)w->ptr[buffer])[i])
                              : ((float *)w->ptr[buffer])[i];
}

typedef struct layer {
    const rungi_op *op;
    const void *attr;
    rung_shape x, weight, y;
    int64_t units[3]; // of each kind of cut; 0: it cannot be cut so
} layer;

static void check(const layer *l, int pass, rungi_halves_cut cut, int64_t part)
{
    work full, half;
    struct rungi_halves how;
    make(&full, l->op, l->attr, pass, RUNG_F32, l->x, l->weight, l->y);
    make(&half, l->op, l->attr, pass, RUNG_BF16, l->x, l->weight, l->y);
    const rungi_kernel *kernel =
        rungi_kernel_choose(&full.q, RUNGI_CPU, RUNGI_POLICY_REFERENCE, NULL);
    assert_ptr_equal(rungi_halves_choose(&half.q, RUNGI_CPU, RUNGI_POLICY_REFERENCE, NULL, &how),
                     kernel);
    how = (struct rungi_halves){kernel, cut, l->units[cut], part};
    half.q.halves = &how;
    rungi_kernel wrapped = rungi_halves_kernel(&how);
    run(&full, kernel);
    run(&half, &wrapped);
    int given = pass == RUNGI_FORWARD ? Y : 4;
    const rungi_operand *o = pass == RUNGI_FORWARD ? &half.out[0] : &half.gin[pass ? 0 : 1];
    for (int64_t i = 0; i < rungi_operand_count(o); i++) {
        float want = value(&full, given, RUNG_F32, i), got = value(&half, given, o->dtype, i);
        // One rounding to 8 digits, or another order of a sum in float32.
        double allowed = o->dtype == RUNG_BF16 ? fabsf(want) * 0x1p-8 : 1e-5 * (1 + fabsf(want));
        if (!(fabsf(got - want) <= allowed + 1e-5))
            fail_msg("%s pass %d, cut %d by %d: element %d is %g, not %g", l->op->name, pass,
                     (int)cut, (int)part, (int)i, (double)got, (double)want);
    }
    for (int64_t i = 0; pass == 0 && i < l->weight.dim[0]; i++) // of the bias
        assert_near(value(&half, 5, RUNG_F32, i), value(&full, 5, RUNG_F32, i), 1e-3);
    drop(&full);
    drop(&half);
}

static const rungi_conv2d_attr three = {{1, 1}, {1, 1}, {1, 1}, 1};
extern const rungi_op rungi_op_conv2d, rungi_op_linear;
static const layer layers[] = {
    {&rungi_op_conv2d, &three, {4, {7, 3, 9, 8}}, {4, {5, 3, 3, 3}}, {4, {7, 5, 9, 8}}, {0, 7}},
    {&rungi_op_linear, NULL, {2, {7, 33}}, {2, {11, 33}}, {2, {7, 11}}, {0, 7, 11}},
    {&rungi_op_linear, NULL, {3, {4, 3, 20}}, {2, {9, 20}}, {3, {4, 3, 9}}, {0, 4, 9}},
};

static void any_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        for (int pass = RUNGI_FORWARD; pass < 2; pass++) {
            check(&layers[i], pass, RUNGI_HALVES_WHOLE, 0);
            for (int cut = RUNGI_HALVES_SAMPLES; cut <= RUNGI_HALVES_FEATURES; cut++)
                for (int64_t part = 1; part <= layers[i].units[cut]; part++)
                    check(&layers[i], pass, (rungi_halves_cut)cut, part);
        }
}

// What is large is cut, and in the way that needs the least.
static void cuts_are_chosen(void **state)
{
    (void)state;
    static const struct {
        const rungi_op *op;
        rung_shape x, weight, y;
        rungi_halves_cut cut;
    } cases[] = {
        {&rungi_op_conv2d,
         {4, {64, 50, 32, 32}},
         {4, {50, 50, 3, 3}},
         {4, {64, 50, 32, 32}},
         RUNGI_HALVES_SAMPLES},
        {&rungi_op_conv2d,
         {4, {8, 3, 8, 8}},
         {4, {5, 3, 3, 3}},
         {4, {8, 5, 8, 8}},
         RUNGI_HALVES_WHOLE},
        {&rungi_op_linear,
         {2, {64, 6400}},
         {2, {512, 6400}},
         {2, {64, 512}},
         RUNGI_HALVES_FEATURES},
        {&rungi_op_linear, {2, {65536, 64}}, {2, {32, 64}}, {2, {65536, 32}}, RUNGI_HALVES_SAMPLES},
        {&rungi_op_linear, {2, {64, 64}}, {2, {32, 64}}, {2, {64, 32}}, RUNGI_HALVES_WHOLE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rungi_halves how;
        rungi_operand in[] = {operand(RUNG_BF16, 0, cases[i].x),
                              operand(RUNG_BF16, 1, cases[i].weight)};
        rungi_operand out[] = {operand(RUNG_BF16, 2, cases[i].y)};
        rungi_query q = {.op = cases[i].op,
                         .attr = &three,
                         .pass = RUNGI_FORWARD,
                         .in = in,
                         .n_in = 2,
                         .out = out,
                         .n_out = 1,
                         .threads = 1};
        assert_non_null(rungi_halves_choose(&q, RUNGI_CPU, RUNGI_POLICY_REFERENCE, NULL, &how));
        assert_int_equal(how.cut, cases[i].cut);
        if (how.cut != RUNGI_HALVES_WHOLE)
            assert_true(how.part >= 1 && how.part < how.whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_cut),
        cmocka_unit_test(cuts_are_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
