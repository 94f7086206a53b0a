// SPDX-License-Identifier: Apache-2.0
// sum and mean: attributes, shape rule and kernels.
#ifndef RUNGI_OPS_REDUCTION_H
#define RUNGI_OPS_REDUCTION_H

#include "ops/cases.h"

typedef struct rungi_reduction_attr {
    uint32_t dims; // bit d for dimension d; 0: all
    bool keepdim;  // they stay as dimensions of 1
} rungi_reduction_attr;

// Cases of both.
extern const rungi_case rungi_reduction_cases[];

rung_status rungi_reduction_infer(rungi_infer *i);
void rungi_reduction_describe(const void *attr, rungi_string *out);
double rungi_reduction_flops(const rungi_query *q);

// The divisor of a mean over all dimensions, which counts the elements of all shards; 0 for other
// means, which divide by their own count.
double rungi_mean_normalizer(const rungi_query *q, void *const *ptr);

// Kernels of both: an operator with a normalizer is the mean.
extern const rungi_kernel *const rungi_reduction_forward_cpu[];
extern const rungi_kernel *const rungi_reduction_backward_cpu[];

#endif
