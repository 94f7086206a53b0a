// SPDX-License-Identifier: Apache-2.0
#ifndef RUNGI_OPS_GELU_H
#define RUNGI_OPS_GELU_H

#include <stdbool.h>

typedef struct rungi_gelu_attr {
    bool tanh; // the approximation by tanh, else exact
} rungi_gelu_attr;

#endif
