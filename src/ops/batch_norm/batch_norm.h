// SPDX-License-Identifier: Apache-2.0
#ifndef RUNGI_OPS_BATCH_NORM_H
#define RUNGI_OPS_BATCH_NORM_H

#include "ops/cases.h"

typedef struct rungi_batch_norm_attr {
    double eps;
    double momentum; // share of the new value in the running one
    bool cumulative; // the share is 1 / number of steps so far
} rungi_batch_norm_attr;

enum {
    RUNGI_BN_X,
    RUNGI_BN_WEIGHT,
    RUNGI_BN_BIAS,
    RUNGI_BN_RUNNING_MEAN,
    RUNGI_BN_RUNNING_VAR,
    RUNGI_BN_TRACKED,
};
enum { RUNGI_BN_Y, RUNGI_BN_MEAN, RUNGI_BN_VAR };

// Are the statistics those of the batch, not the running ones?
bool rungi_batch_norm_of_batch(const rungi_query *q);

// The data as [images][groups][rows][lanes]: channel g * lanes + l has `rows` values per image. A
// row of several lanes holds channels side by side; where lanes is 1 a channel's values are.
typedef struct rungi_bn_form {
    int64_t images, groups, rows, lanes;
} rungi_bn_form;

rungi_bn_form rungi_bn_form_of(const rungi_operand *x);

static inline int64_t rungi_bn_channels(const rungi_bn_form *f)
{
    return f->groups * f->lanes;
}

// Values per channel.
static inline int64_t rungi_bn_count(const rungi_bn_form *f)
{
    return f->images * f->rows;
}

// Place of row r (counted over all images) of group g.
static inline int64_t rungi_bn_at(const rungi_bn_form *f, int64_t g, int64_t r)
{
    return ((r / f->rows * f->groups + g) * f->rows + r % f->rows) * f->lanes;
}

// Where gradients of y pass, when a ReLU follows in forward whose backward is done here as well:
// everywhere (all NULL), where the ReLU's output y is positive, or where it is known to be that of
// this operator, (x - mean) * scale + bias, and that is positive. scale and bias by lane.
typedef struct rungi_bn_gate {
    const float *y, *scale, *bias;
} rungi_bn_gate;

// The inner loops over `rows` rows of `lanes` channels, x being the first element and the other
// arguments having one number per lane. Sums of 32 rows are taken in float32, then added to
// doubles.
typedef struct rungi_bn_loops {
    // s1 += sum of x - shift, s2 += sum of its square
    void (*sums)(const float *x, int64_t rows, int64_t lanes, const float *shift, double *s1,
                 double *s2);
    // s1 += sum of gy, s2 += sum of gy * (x - mean), where the gate is open
    void (*grad_sums)(const float *x, const float *gy, const rungi_bn_gate *gate, int64_t rows,
                      int64_t lanes, const float *mean, double *s1, double *s2);
    // y = (x - mean) * scale + bias, + res where that is not NULL, with a ReLU on top where asked
    void (*normalize)(const float *x, const float *res, float *y, int64_t rows, int64_t lanes,
                      const float *mean, const float *scale, const float *bias, bool relu);
    // gx = a * gy + b * (x - mean) + c, gy being 0 where the gate is closed; `scaled`: only a * gy
    void (*grad)(const float *x, const float *gy, const rungi_bn_gate *gate, float *gx,
                 int64_t rows, int64_t lanes, const float *mean, const float *a, const float *b,
                 const float *c, bool scaled);
} rungi_bn_loops;

// What ranks tell each other in a synchronized pass, [1 + 2 * channels]: values per channel, then
// of each channel forward mean and variance (of its batch, biased), backward the two sums; in their
// place come those of all ranks. Collective; does nothing where there is no other rank.
enum { RUNGI_BN_COUNT, RUNGI_BN_FIRST };
int64_t rungi_bn_meets(const rungi_query *q);
rung_status rungi_bn_meet_moments(const rungi_call *c, double *numbers);
rung_status rungi_bn_meet_sums(const rungi_call *c, double *numbers);

// A forward pass that is done again: mean and var are there, and are not computed again.
bool rungi_bn_has_moments(const rungi_query *q);

extern const rungi_bn_loops rungi_bn_loops_cpu;
extern const rungi_bn_loops *const rungi_bn_loops_avx2; // NULL in builds for other processors

extern const rungi_op rungi_op_batch_norm;
extern const rungi_case rungi_batch_norm_cases[];
extern const rungi_kernel rungi_batch_norm_forward_reference, rungi_batch_norm_backward_reference;
extern const rungi_kernel rungi_batch_norm_forward_onednn, rungi_batch_norm_backward_onednn;
extern const rungi_kernel *const rungi_batch_norm_forward_cpu[];
extern const rungi_kernel *const rungi_batch_norm_backward_cpu[];

#endif
