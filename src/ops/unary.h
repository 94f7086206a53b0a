// SPDX-License-Identifier: Apache-2.0
// Elementwise operators of one input. An operator's folder holds its descriptor, its cases and a
// rungi_unary with the float64 formulas; unary_formulas.h holds the float32 ones; the kernels of
// all of them are in unary.c.
#ifndef RUNGI_OPS_UNARY_H
#define RUNGI_OPS_UNARY_H

#include "ops/cases.h"

// The float32 formulas: NAME_value and NAME_gradient in unary_formulas.h.
#define RUNGI_UNARY_FORMULAS(X) \
    X(relu)                     \
    X(leaky_relu)               \
    X(sigmoid)                  \
    X(tanh)                     \
    X(gelu_erf)                 \
    X(gelu_tanh)                \
    X(silu)                     \
    X(scale)

typedef enum rungi_unary_formula {
#define RUNGI_UNARY_ENUM(name) RUNGI_UNARY_##name,
    RUNGI_UNARY_FORMULAS(RUNGI_UNARY_ENUM)
#undef RUNGI_UNARY_ENUM
        RUNGI_UNARY_COUNT
} rungi_unary_formula;

// Constants of a formula: what they are is said there.
typedef struct rungi_unary_param {
    float a, b;
} rungi_unary_param;

// The operators: src/ops/NAME/NAME.c defines rungi_unary_NAME.
#define RUNGI_UNARY_OPS(X) \
    X(relu)                \
    X(leaky_relu)          \
    X(sigmoid)             \
    X(tanh)                \
    X(gelu)                \
    X(silu)                \
    X(scale)

typedef struct rungi_unary {
    const rungi_op *op;
    // y, and dy/dx from what the descriptor's backward reads: the input, the output, or nothing.
    double (*value)(const void *attr, double x);
    double (*slope)(const void *attr, double kept);
    rungi_unary_formula formula;
    // For operators with attributes: the formula and its constants. NULL: `formula` without any.
    rungi_unary_formula (*choose)(const void *attr, rungi_unary_param *param_out);
} rungi_unary;

#define RUNGI_UNARY_EXTERN(name)           \
    extern const rungi_op rungi_op_##name; \
    extern const rungi_unary rungi_unary_##name;
RUNGI_UNARY_OPS(RUNGI_UNARY_EXTERN)
#undef RUNGI_UNARY_EXTERN

// What the operator computes; NULL when it is not one of these.
const rungi_unary *rungi_unary_find(const rungi_op *op);

// Applies an operator of this family to n float32 values, y may be x: for kernels that have it
// fused into them.
void rungi_unary_apply(const rungi_unary *unary, const void *attr, rung_isa isa, const float *x,
                       float *y, int64_t n);

// Their cases, for operators that any numbers will do for.
extern const rungi_case rungi_unary_cases[];

// Shape rule: floats, the shape stays.
rung_status rungi_unary_infer(rungi_infer *i);

extern const rungi_kernel *const rungi_unary_forward_cpu[];
extern const rungi_kernel *const rungi_unary_backward_cpu[];

// ---- loops ------------------------------------------------------------------------------------

typedef struct rungi_unary_loops {
    void (*forward[RUNGI_UNARY_COUNT])(const float *x, float *y, int64_t n,
                                       const rungi_unary_param *param);
    // kept: the input or the output, as the formula says. gx may be gy.
    void (*backward[RUNGI_UNARY_COUNT])(const float *kept, const float *gy, float *gx, int64_t n,
                                        const rungi_unary_param *param);
} rungi_unary_loops;

extern const rungi_unary_loops rungi_unary_loops_plain;
#if defined(__x86_64__)
extern const rungi_unary_loops rungi_unary_loops_avx2;
#endif

#endif
