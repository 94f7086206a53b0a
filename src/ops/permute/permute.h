// SPDX-License-Identifier: Apache-2.0
#ifndef RUNGI_OPS_PERMUTE_H
#define RUNGI_OPS_PERMUTE_H

#include "rung/tensor.h"

typedef struct rungi_permute_attr {
    int rank;
    int dims[RUNG_MAX_RANK]; // dimension d of the output is dimension dims[d] of the input
} rungi_permute_attr;

#endif
