// SPDX-License-Identifier: Apache-2.0
#ifndef RUNGI_OPS_CAST_H
#define RUNGI_OPS_CAST_H

#include "ops/op.h"

typedef struct rungi_cast_attr {
    rung_dtype to;
} rungi_cast_attr;

extern const rungi_op rungi_op_cast;

#endif
