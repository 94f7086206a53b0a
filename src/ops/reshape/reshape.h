// SPDX-License-Identifier: Apache-2.0
#ifndef RUNGI_OPS_RESHAPE_H
#define RUNGI_OPS_RESHAPE_H

#include "ops/op.h"

typedef struct rungi_reshape_attr {
    rung_shape shape; // a dimension 0 is taken from the input, one -1 is what is left
} rungi_reshape_attr;

#endif
