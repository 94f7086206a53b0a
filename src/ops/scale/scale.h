// SPDX-License-Identifier: Apache-2.0
#ifndef RUNGI_OPS_SCALE_H
#define RUNGI_OPS_SCALE_H

typedef struct rungi_scale_attr {
    double factor, offset;
} rungi_scale_attr;

#endif
