// SPDX-License-Identifier: Apache-2.0
// Windows of poolings: which inputs each output covers, and which outputs cover an input.
#ifndef RUNGI_OPS_POOL_WINDOW_H
#define RUNGI_OPS_POOL_WINDOW_H

#include "ops/op.h"

typedef struct rungi_pool_attr {
    int kernel[2], stride[2], pad[2]; // rows, columns
    bool ceil_mode;                   // a last window may reach over the edge
    bool count_include_pad;           // average pooling: padding counts in the divisor
    int64_t divisor;                  // average pooling: divides every sum; 0: the window's size
} rungi_pool_attr;

// Output rows or columns of a pooling window, as torch.nn.MaxPool2d counts them.
int64_t rungi_pool_size(int64_t in, int kernel, int stride, int pad, bool ceil_mode);
// Shape rule shared by the poolings: fills the output's shape.
rung_status rungi_pool_infer(const rungi_pool_attr *a, const rung_shape *x, const char *name,
                             rung_shape *out);
void rungi_pool_describe(const void *attr, rungi_string *out);
// Are the windows 2x2, side by side, within the image?
bool rungi_pool_is_2x2(const rungi_pool_attr *a);
// One operation per value of each window.
double rungi_pool_flops(const rungi_query *q);

// The windows along rows or columns.
typedef struct rungi_pool_axis {
    int64_t in, out;
    int kernel, stride, pad; // 0 where windows are not of one size (adaptive)
    int32_t *begin, *end;    // [out] inputs that the window covers
    int32_t *skip;           // [out] places of the window before `begin` (padding)
    int32_t *first, *last;   // [in] outputs whose windows cover it: first .. last - 1
    float *share;            // [out] 1 / what this axis contributes to the divisor
    bool disjoint, full;     // no input is covered twice; each is covered
} rungi_pool_axis;

typedef struct rungi_pool_windows {
    rungi_pool_axis rows, cols;
    int32_t data[]; // the tables
} rungi_pool_windows;

// Tables of a pooling (attr) or an adaptive one (attr NULL) from images of `in` to images of `out`.
// Freed with free(). Usable as (the end of) a kernel's create.
rung_status rungi_pool_windows_create(const rungi_pool_attr *attr, const rung_shape *in,
                                      const rung_shape *out, rungi_pool_windows **windows_out);

// End of the run of windows from j on that have the form of window j and lie `*step_out` inputs
// apart.
int64_t rungi_pool_run(const rungi_pool_axis *axis, int64_t j, int64_t *step_out);

#endif
