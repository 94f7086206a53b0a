// SPDX-License-Identifier: Apache-2.0
#ifndef RUNGI_OPS_CROSS_ENTROPY_H
#define RUNGI_OPS_CROSS_ENTROPY_H

#include "ops/op.h"

typedef struct rungi_cross_entropy_attr {
    double label_smoothing; // in [0, 1]
    int64_t ignore_index;   // rows with this label do not count
    bool sum;               // else the mean over the weights of the rows that count
} rungi_cross_entropy_attr;

extern const rungi_kernel *const rungi_cross_entropy_forward_cpu[];
extern const rungi_kernel *const rungi_cross_entropy_backward_cpu[];
double rungi_cross_entropy_normalizer(const rungi_query *q, void *const *ptr);

#endif
