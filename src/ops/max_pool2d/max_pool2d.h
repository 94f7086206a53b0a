// SPDX-License-Identifier: Apache-2.0
#ifndef RUNGI_OPS_MAX_POOL2D_H
#define RUNGI_OPS_MAX_POOL2D_H

#include "ops/op.h"

typedef struct rungi_pool_attr {
    int kernel[2], stride[2], pad[2]; // rows, columns
    bool ceil_mode;                   // a last window may reach over the edge
    bool count_include_pad;           // average pooling: padding counts in the divisor
} rungi_pool_attr;

// Output rows or columns of a pooling window, as torch.nn.MaxPool2d counts them.
int64_t rungi_pool_size(int64_t in, int kernel, int stride, int pad, bool ceil_mode);
// Shape rule shared by the poolings: fills the output's shape.
rung_status rungi_pool_infer(const rungi_pool_attr *a, const rung_shape *x, const char *name,
                             rung_shape *out);
void rungi_pool_describe(const void *attr, rungi_string *out);

extern const rungi_kernel *const rungi_max_pool2d_forward_cpu[];
extern const rungi_kernel *const rungi_max_pool2d_backward_cpu[];

#endif
