// SPDX-License-Identifier: Apache-2.0
#ifndef RUNGI_OPS_ADAPTIVE_AVG_POOL2D_H
#define RUNGI_OPS_ADAPTIVE_AVG_POOL2D_H

#include <stdint.h>

typedef struct rungi_adaptive_pool_attr {
    int64_t out[2]; // rows, columns; 0: as many as the input has
} rungi_adaptive_pool_attr;

#endif
