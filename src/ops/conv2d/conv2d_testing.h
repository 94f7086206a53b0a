// SPDX-License-Identifier: Apache-2.0
// What the tests of the convolutions' own kernels share.
#ifndef RUNGI_OPS_CONV2D_TESTING_H
#define RUNGI_OPS_CONV2D_TESTING_H

#include "base/options.h"
#include "ops/conv2d/conv2d.h"
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

// A kernel's passes give the same bits with 1 to 17 threads.
static inline void check_threads(const rungi_case *c, const char *kernel)
{
    rungi_trial t;
    char *bits[4];
    assert_ok(rungi_trial_init(&t, &rungi_op_conv2d, c, RUNG_F32, RUNGI_CHANNELS_LAST, 1));
    const rungi_operand *results[4] = {&t.out[0], &t.gin[0], &t.gin[1], &t.gin[2]};
    int count = t.n_in > 2 ? 4 : 3;
    for (int threads = 1; threads <= 17; threads = threads * 2 + (threads == 2)) {
        for (int pass = RUNGI_FORWARD; pass <= DATA; pass++)
            run(&t, pass, kernel, rungi_cpu_isa(), threads);
        for (int k = 0; k < count; k++) {
            size_t bytes = rungi_operand_bytes(results[k]);
            if (threads == 1) {
                bits[k] = malloc(bytes);
                memcpy(bits[k], t.ptr[results[k]->buffer], bytes);
            }
            assert_memory_equal(t.ptr[results[k]->buffer], bits[k], bytes);
        }
    }
    for (int k = 0; k < count; k++)
        free(bits[k]);
    rungi_trial_fini(&t);
}

#endif
