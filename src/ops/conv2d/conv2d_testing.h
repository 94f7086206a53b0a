// SPDX-License-Identifier: Apache-2.0
// What the tests of the convolutions' own kernels share.
#ifndef RUNGI_OPS_CONV2D_TESTING_H
#define RUNGI_OPS_CONV2D_TESTING_H

#include "base/options.h"
#include "ops/conv2d/conv2d.h"
#include "ops/element.h"
#include "ops/pool_window.h"
#include "ops/trial_testing.h"

extern const rungi_op rungi_op_conv2d;

// The largest errors of a kernel's results.
typedef struct conv2d_errors {
    double forward, data, weight, bias;
} conv2d_errors;

static inline conv2d_errors errors_of(const rungi_trial *t, const rungi_trial *truth)
{
    return (conv2d_errors){
        .forward = error(t, &t->out[0], truth, &truth->out[0]),
        .data = error(t, &t->gin[0], truth, &truth->gin[0]),
        .weight = error(t, &t->gin[1], truth, &truth->gin[1]),
        .bias = t->n_in > 2 ? error(t, &t->gin[2], truth, &truth->gin[2]) : 0,
    };
}

// Runs a kernel's passes for every instruction set that this machine has: errors against float64.
static inline void check_errors(const rungi_case *c, const char *kernel, conv2d_errors most)
{
    rungi_trial t, truth;
    assert_ok(rungi_trial_init(&truth, &rungi_op_conv2d, c, RUNG_F64, RUNGI_PLAIN, 1));
    for (int pass = RUNGI_FORWARD; pass <= DATA; pass++)
        run(&truth, pass, "reference", RUNG_ISA_SCALAR, 1);
    assert_ok(rungi_trial_init(&t, &rungi_op_conv2d, c, RUNG_F32, RUNGI_CHANNELS_LAST, 1));
    for (int isa = RUNG_ISA_SCALAR; isa <= (int)rungi_cpu_isa(); isa++) {
        for (int pass = RUNGI_FORWARD; pass <= DATA; pass++)
            run(&t, pass, kernel, (rung_isa)isa, 1);
        conv2d_errors e = errors_of(&t, &truth);
        print_message("%s, %s: forward %.2g, data %.2g, weight %.2g, bias %.2g\n", c->name,
                      rung_isa_name((rung_isa)isa), e.forward, e.data, e.weight, e.bias);
        assert_true(e.forward <= most.forward && e.data <= most.data);
        assert_true(e.weight <= most.weight && e.bias <= most.bias);
    }
    rungi_trial_fini(&t);
    rungi_trial_fini(&truth);
}

// The passes once more: the bits that are there, or where there are none yet, theirs.
static inline void check_bits(rungi_trial *t, const char *kernel, rung_isa isa, int threads,
                              char *bits[4])
{
    const rungi_operand *results[4] = {&t->out[0], &t->gin[0], &t->gin[1], &t->gin[2]};
    for (int pass = RUNGI_FORWARD; pass <= DATA; pass++)
        run(t, pass, kernel, isa, threads);
    for (int k = 0; k < (t->n_in > 2 ? 4 : 3); k++) {
        size_t bytes = rungi_operand_bytes(results[k]);
        if (!bits[k]) {
            bits[k] = malloc(bytes);
            memcpy(bits[k], t->ptr[results[k]->buffer], bytes);
        }
        assert_memory_equal(t->ptr[results[k]->buffer], bits[k], bytes);
    }
}

// A kernel's passes give the same bits with 1 to 17 threads, and with AVX2 instead of AVX-512.
static inline void check_threads(const rungi_case *c, const char *kernel)
{
    rungi_trial t;
    char *bits[4] = {NULL};
    assert_ok(rungi_trial_init(&t, &rungi_op_conv2d, c, RUNG_F32, RUNGI_CHANNELS_LAST, 1));
    for (int threads = 1; threads <= 17; threads = threads * 2 + (threads == 2))
        check_bits(&t, kernel, rungi_cpu_isa(), threads, bits);
    if (rungi_cpu_isa() == RUNG_ISA_AVX512)
        check_bits(&t, kernel, RUNG_ISA_AVX2, 1, bits);
    for (int k = 0; k < 4; k++)
        free(bits[k]);
    rungi_trial_fini(&t);
}

// ---- what is fused ------------------------------------------------------------------------------

// What pooling of 2x2, if any, and ReLU make of what the convolution of t stored, for element
// (n, c, i, j).
static inline double fused_value(const rungi_trial *t, int64_t n, int64_t c, int64_t i, int64_t j,
                                 bool pool, bool relu, uint8_t *place_out)
{
    const int64_t *d = t->out[0].shape.dim;
    double best = 0;
    for (int k = 0; k < (pool ? 4 : 1); k++) {
        int64_t y = pool ? 2 * i + k / 2 : i, x = pool ? 2 * j + k % 2 : j;
        double v = rungi_trial_get(t, &t->out[0], ((n * d[1] + c) * d[2] + y) * d[3] + x);
        if (k == 0 || (!(v <= best) && best == best)) {
            best = v;
            *place_out = (uint8_t)k;
        }
    }
    return relu && best < 0 ? 0 : best;
}

// The convolution of t, which has run as q says, once more with pooling (the places kept where no
// ReLU follows), ReLU or both: the bits of what it stored and what follows.
static inline void check_fused(rungi_trial *t, rungi_query q, const char *kernel, bool pool,
                               bool relu)
{
    static const rungi_pool_attr two = {{2, 2}, {2, 2}, {0, 0}, false, false, 0};
    const int64_t *d = t->out[0].shape.dim, h = pool ? d[2] / 2 : d[2], w = pool ? d[3] / 2 : d[3];
    const int64_t count = d[0] * h * w * d[1];
    const size_t size = rung_dtype_size(t->dtype);
    rungi_operand out[2] = {{t->dtype, RUNGI_CHANNELS_LAST, {4, {d[0], d[1], h, w}}, t->n_ptr},
                            {RUNG_U8, RUNGI_CHANNELS_LAST, {4, {d[0], d[1], h, w}}, -1}};
    rungi_fused fused[2] = {{rungi_op_find("max_pool2d"), &two, 0, &t->out[0], 1, out},
                            {rungi_op_find("relu"), NULL, 0, &out[0], 1, out}};
    out[1].buffer = relu ? -1 : t->n_ptr + 1;
    q.out = out;
    q.n_out = 1 + pool;
    q.fused = pool ? fused : fused + 1;
    q.n_fused = pool + relu;
    char *y = malloc(((size_t)count + 1) * size);
    _Alignas(8) char want[8];
    uint8_t *places = malloc((size_t)count + 1), place = 0;
    t->ptr[t->n_ptr] = y;
    t->ptr[t->n_ptr + 1] = places;
    y[(size_t)count * size] = places[count] = 77;
    assert_true(rungi_kernel_can_run(named(&q, kernel), &q, &(rungi_reason){0}));
    assert_ok(rungi_trial_run(t, &q, named(&q, kernel), 1));
    for (int64_t k = 0; k < count; k++) {
        int64_t c = k % d[1], j = k / d[1] % w, i = k / d[1] / w % h, n = k / d[1] / w / h;
        rungi_set(t->dtype, want, 0, fused_value(t, n, c, i, j, pool, relu, &place));
        assert_memory_equal(y + (size_t)k * size, want, size);
        assert_true(!pool || relu || places[k] == place);
    }
    assert_true(y[(size_t)count * size] == 77 && places[count] == 77);
    t->ptr[t->n_ptr] = t->ptr[t->n_ptr + 1] = NULL;
    free(y);
    free(places);
}

#endif
