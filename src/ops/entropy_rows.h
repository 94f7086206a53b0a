// SPDX-License-Identifier: Apache-2.0
// Cross entropies of rows of logits: what those of class indices and of probabilities share. Rows
// are along dimension 1 of input 0; hidden output 1 keeps each row's log of the sum of
// exponentials.
#ifndef RUNGI_OPS_ENTROPY_ROWS_H
#define RUNGI_OPS_ENTROPY_ROWS_H

#include "ops/rows.h"

// One pass of a float32 kernel. The first member of what a row function gets as `user`.
typedef struct rungi_entropy_rows {
    const rungi_call *call;
    const rungi_row_loops *loops;
    rungi_rows rows;
    int64_t classes;
    double smoothing;
    double *loss; // of each row; forward
    float *lse;   // of each row; NULL in forward when nobody wants them
    double scale; // dy / divisor; backward
} rungi_entropy_rows;

rungi_entropy_rows rungi_entropy_rows_of(const rungi_call *c, rung_isa isa, double smoothing);

// The log of the sum of exponentials of a row, which is kept where it is wanted.
double rungi_entropy_lse(const rungi_entropy_rows *e, int64_t row, const float *x);

// `create` of both passes.
rung_status rungi_entropy_create(const rungi_query *q, rungi_setup *setup);

// Calls `each` for every row of input 0, and of `other` where that is not NULL; forward: for it to
// set `loss`, the sum of which becomes output 0 once it is divided; backward: to write the
// gradient. `user` begins with the rungi_entropy_rows.
void rungi_entropy_forward(rungi_entropy_rows *user, const float *other, rungi_row_fn *each,
                           double divisor);
void rungi_entropy_backward(rungi_entropy_rows *user, const float *other, rungi_row_fn *each,
                            double divisor);

// For references: element i of an operand, and the lse of the row that begins there.
double rungi_entropy_read(const rungi_call *c, const rungi_operand *o, int64_t i);
double rungi_entropy_reference_lse(const rungi_call *c, const rungi_rows *r, int64_t begin);

#endif
