// SPDX-License-Identifier: Apache-2.0
#ifndef RUNGI_OPS_CONV2D_H
#define RUNGI_OPS_CONV2D_H

#include "ops/cases.h"

typedef struct rungi_conv2d_attr {
    int stride[2], pad[2], dilation[2]; // rows, columns; dilation 1: none
    int groups;
} rungi_conv2d_attr;

// The convolution's own output, also where a pooling that is fused makes another one of it.
const rungi_operand *rungi_conv2d_output(const rungi_query *q);

extern const rungi_case rungi_conv2d_cases[];
extern const rungi_kernel *const rungi_conv2d_forward_cpu[];
extern const rungi_kernel *const rungi_conv2d_weight_cpu[];
extern const rungi_kernel *const rungi_conv2d_data_cpu[];

#endif
