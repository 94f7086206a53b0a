// SPDX-License-Identifier: Apache-2.0
#ifndef RUNGI_OPS_ARGMAX_H
#define RUNGI_OPS_ARGMAX_H

typedef struct rungi_argmax_attr {
    int dim; // from the end where negative
} rungi_argmax_attr;

#endif
