// SPDX-License-Identifier: Apache-2.0
#ifndef RUNGI_OPS_SLICE_H
#define RUNGI_OPS_SLICE_H

#include <stdint.h>

typedef struct rungi_slice_attr {
    int dim;            // from the end when negative
    int64_t start, end; // from the end when negative; kept within the dimension as in Python
    int64_t step;       // at least 1
} rungi_slice_attr;

#endif
