// SPDX-License-Identifier: Apache-2.0
#ifndef RUNGI_OPS_LEAKY_RELU_H
#define RUNGI_OPS_LEAKY_RELU_H

typedef struct rungi_leaky_relu_attr {
    double slope; // 0 or more, so that the output tells on which side the input was
} rungi_leaky_relu_attr;

#endif
