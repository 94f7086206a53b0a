// SPDX-License-Identifier: Apache-2.0
#ifndef RUNGI_OPS_CONCAT_H
#define RUNGI_OPS_CONCAT_H

typedef struct rungi_concat_attr {
    int dim; // from the end when negative
} rungi_concat_attr;

#endif
