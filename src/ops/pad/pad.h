// SPDX-License-Identifier: Apache-2.0
#ifndef RUNGI_OPS_PAD_H
#define RUNGI_OPS_PAD_H

#include "rung/tensor.h"

typedef struct rungi_pad_attr {
    int64_t before[RUNG_MAX_RANK], after[RUNG_MAX_RANK]; // elements by dimension
    double value;
} rungi_pad_attr;

#endif
