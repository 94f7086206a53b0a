// SPDX-License-Identifier: Apache-2.0
// Statistics of paired blocks.
#ifndef RUNGI_LADDER_STATISTICS_H
#define RUNGI_LADDER_STATISTICS_H

#include <stddef.h>

#include "rung/ladder.h"

// Median of n values (n >= 1); the values are not changed.
double rungi_median(const double *values, size_t n);

// Two-sided 95 % quantile of Student's t distribution with that many degrees of freedom (>= 1).
double rungi_student_95(size_t degrees);

typedef struct rungi_gain {
    double median;    // of the ratios
    double low, high; // 95 % interval of their geometric mean
} rungi_gain;

// Gain of paired measurements: ratios before[i] / after[i] of n >= 2 pairs. The logarithms of the
// ratios are taken as normal, so the interval is Student's.
rungi_gain rungi_gain_of(const double *before, const double *after, size_t n);

// What an interval says about speed. A change of less than 1 % is not called one.
rung_verdict rungi_verdict_of(const rungi_gain *gain);

// Half-width of the interval in which one more value of the same kind lies with 95 %, given n >= 2
// values: t * sd * sqrt(1 + 1/n).
double rungi_prediction_margin(const double *values, size_t n);

#endif
