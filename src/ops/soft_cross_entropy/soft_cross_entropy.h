// SPDX-License-Identifier: Apache-2.0
#ifndef RUNGI_OPS_SOFT_CROSS_ENTROPY_H
#define RUNGI_OPS_SOFT_CROSS_ENTROPY_H

#include "ops/op.h"

typedef struct rungi_soft_loss_attr {
    double label_smoothing; // in [0, 1]
    bool sum;               // else the mean over the rows
} rungi_soft_loss_attr;

// Rows that the loss is a mean of: the op's normalizer; 0 for a sum.
double rungi_soft_loss_normalizer(const rungi_query *q, void *const *ptr);

extern const rungi_kernel *const rungi_soft_cross_entropy_forward_cpu[];
extern const rungi_kernel *const rungi_soft_cross_entropy_backward_cpu[];

#endif
