// SPDX-License-Identifier: Apache-2.0
// Elementwise operators of two inputs a and b with broadcasting. An operator's folder holds its
// descriptor, its cases and a rungi_binary; the kernels of all of them are in binary.c.
#ifndef RUNGI_OPS_BINARY_H
#define RUNGI_OPS_BINARY_H

#include "ops/cases.h"
#include "ops/pieces.h"

// The gradient of one input: a function of g = dy, a, b and y, summed over what was stretched.
typedef struct rungi_binary_gradient {
    double (*value)(double g, double a, double b, double y); // NaN stands for what is not read
    // In float32: `function` of the operands named by letters ("gb": g and b), times `factor`.
    rungi_piece_function function;
    const char *operands;
    double factor;
} rungi_binary_gradient;

typedef struct rungi_binary {
    const rungi_op *op;
    double (*value)(double a, double b);
    rungi_piece_function function;
    rungi_binary_gradient gradient[2]; // of a, of b
} rungi_binary;

// The operators: src/ops/NAME/NAME.c defines rungi_binary_NAME.
#define RUNGI_BINARY_OPS(X) X(add) X(sub) X(mul) X(div)

#define RUNGI_BINARY_EXTERN(name)          \
    extern const rungi_op rungi_op_##name; \
    extern const rungi_binary rungi_binary_##name;
RUNGI_BINARY_OPS(RUNGI_BINARY_EXTERN)
#undef RUNGI_BINARY_EXTERN

// Their cases, for operators that any numbers will do for.
extern const rungi_case rungi_binary_cases[];

// Shape rule: two of one dtype that broadcast.
rung_status rungi_binary_infer(rungi_infer *i);

extern const rungi_kernel *const rungi_binary_forward_cpu[];
// For passes that give one input's gradient.
extern const rungi_kernel *const rungi_binary_backward_cpu[];

#endif
