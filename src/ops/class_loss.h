// SPDX-License-Identifier: Apache-2.0
// Losses of class indices: what cross_entropy and nll_loss share. Inputs: scores [N, C, ...],
// labels [N, ...] (i64 or i32), class weights [C] (optional). Rows are the N * ... vectors of C
// scores.
#ifndef RUNGI_OPS_CLASS_LOSS_H
#define RUNGI_OPS_CLASS_LOSS_H

#include "ops/op.h"
#include "ops/rows.h"

typedef struct rungi_class_loss_attr {
    double label_smoothing; // in [0, 1]; cross_entropy only
    int64_t ignore_index;   // rows with this label do not count
    bool sum;               // else the mean over the weights of the rows that count
} rungi_class_loss_attr;

// Checks the inputs and gives output 0, a scalar.
rung_status rungi_class_loss_infer(rungi_infer *i);
void rungi_class_loss_describe(const void *attr, rungi_string *out);

static inline rungi_rows rungi_class_loss_rows(const rungi_query *q)
{
    return rungi_rows_of(&q->in[0].shape, 1);
}

static inline int64_t rungi_class_loss_row_count(const rungi_query *q)
{
    return rungi_operand_count(&q->in[1]);
}

// The class weights, or NULL.
const void *rungi_class_loss_weights(const rungi_query *q, void *const *ptr);
// The weight of a class; 1 without weights.
double rungi_class_weight(const rungi_query *q, const void *weights, int64_t class_index);

// The sum of the labels' weights: the op's normalizer.
double rungi_class_loss_normalizer(const rungi_query *q, void *const *ptr);
// What the sum over the rows is divided by: counted over all shards where there are several;
// infinity when no row counts, so that the loss and its gradient are 0.
double rungi_class_loss_divisor(const rungi_call *c);

// The label of a row, and whether the row counts.
int64_t rungi_class_loss_label(const rungi_call *c, int64_t row, bool *counts_out);
// Fails when a label that counts is out of range, naming it and its sample.
rung_status rungi_class_loss_check(const rungi_call *c);

#endif
