// SPDX-License-Identifier: Apache-2.0
// Losses summed over elements: mse_loss and bce_with_logits. Input 0 is the prediction, input 1 the
// target of the same shape; more inputs broadcast to it.
#ifndef RUNGI_OPS_ELEMENT_LOSS_H
#define RUNGI_OPS_ELEMENT_LOSS_H

#include "ops/cases.h"
#include "ops/pieces.h"

typedef struct rungi_element_loss_attr {
    bool sum; // else the mean over all elements
} rungi_element_loss_attr;

typedef struct rungi_element_loss {
    const rungi_op *op;
    // The loss of one element and its derivative by input `by`, from its inputs (absent ones: 1).
    double (*value)(const double in[4]);
    double (*slope)(const double in[4], int by);
    rungi_piece_function function, gradient;
    double sign[2]; // of the gradients of inputs 0 and 1 against `gradient`
} rungi_element_loss;

// The losses: src/ops/NAME/NAME.c defines rungi_element_loss_NAME.
#define RUNGI_ELEMENT_LOSSES(X) X(mse_loss) X(bce_with_logits)

#define RUNGI_ELEMENT_LOSS_EXTERN(name)    \
    extern const rungi_op rungi_op_##name; \
    extern const rungi_element_loss rungi_element_loss_##name;
RUNGI_ELEMENT_LOSSES(RUNGI_ELEMENT_LOSS_EXTERN)
#undef RUNGI_ELEMENT_LOSS_EXTERN

rung_status rungi_element_loss_infer(rungi_infer *i);
void rungi_element_loss_describe(const void *attr, rungi_string *out);
double rungi_element_loss_flops(const rungi_query *q);
double rungi_element_loss_normalizer(const rungi_query *q, void *const *ptr);

extern const rungi_kernel *const rungi_element_loss_forward_cpu[];
extern const rungi_kernel *const rungi_element_loss_backward_cpu[];

#endif
