// SPDX-License-Identifier: Apache-2.0
// softmax and log_softmax: attributes, shape rule and kernels.
#ifndef RUNGI_OPS_SOFTMAX_H
#define RUNGI_OPS_SOFTMAX_H

#include "ops/cases.h"

typedef struct rungi_softmax_attr {
    int dim; // from the end where negative
} rungi_softmax_attr;

rung_status rungi_softmax_infer(rungi_infer *i);
void rungi_softmax_describe(const void *attr, rungi_string *out);
double rungi_softmax_flops(const rungi_query *q);

// Cases of both.
extern const rungi_case rungi_softmax_cases[];

extern const rungi_kernel *const rungi_softmax_forward_cpu[];
extern const rungi_kernel *const rungi_softmax_backward_cpu[];
extern const rungi_kernel *const rungi_log_softmax_forward_cpu[];
extern const rungi_kernel *const rungi_log_softmax_backward_cpu[];

#endif
