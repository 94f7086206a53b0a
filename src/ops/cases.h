// SPDX-License-Identifier: Apache-2.0
// Case tables: each operator lists uses of itself. One table drives the comparison of every kernel
// with the float64 reference (in every layout that the operator takes), finite differences of that
// reference, guard bytes around outputs, equality of two runs, and the benchmark (`rung bench OP`).
#ifndef RUNGI_OPS_CASES_H
#define RUNGI_OPS_CASES_H

#include "ops/op.h"

// How an input is filled. All values come from Philox and are the same on every machine.
typedef enum rungi_fill {
    RUNGI_FILL_NORMAL,   // standard normal
    RUNGI_FILL_POSITIVE, // uniform in [0.5, 1.5): divisors, variances
    RUNGI_FILL_DISTINCT, // a permutation of equally spaced values: no ties for max
    RUNGI_FILL_AWAY,     // normal, pushed away from 0 by 0.1: no kinks within a difference step
    RUNGI_FILL_LABELS,   // integers in [0, limit)
    RUNGI_FILL_IGNORED,  // labels of which every third is -100
    RUNGI_FILL_UNIT,     // uniform in [0, 1): targets of binary losses
} rungi_fill;

enum { RUNGI_CASE_INPUTS = 8 };

typedef struct rungi_case_input {
    rung_shape shape; // rank -1: absent
    rungi_fill fill;
    rung_dtype dtype; // F32 stands for the float type under test
    int limit;        // of labels
} rungi_case_input;

struct rungi_case {
    const char *name;
    rungi_case_input in[RUNGI_CASE_INPUTS];
    int n_in;
    const void *attr;
    // Allowed difference of a float32 kernel from the float64 reference, of the largest value of
    // the reference's output; 0 stands for 2e-6, that is some rounding errors of a short sum.
    double tolerance;
    bool evaluation; // not in training mode
    bool bench;      // for the benchmark only: too large for the other checks
};

// RUNGI_IN(2, 3, 5, 5) is a normally filled float input of that shape.
#define RUNGI_IN(...)                                                       \
    {                                                                       \
        .shape = {.rank = RUNGI_COUNT_(__VA_ARGS__), .dim = {__VA_ARGS__} } \
    }
#define RUNGI_IN_AS(fill_, ...)                                                             \
    {                                                                                       \
        .shape = {.rank = RUNGI_COUNT_(__VA_ARGS__), .dim = {__VA_ARGS__}}, .fill = (fill_) \
    }
#define RUNGI_LABELS(limit_, ...)                                           \
    {                                                                       \
        .shape = {.rank = RUNGI_COUNT_(__VA_ARGS__), .dim = {__VA_ARGS__}}, \
        .fill = RUNGI_FILL_LABELS, .dtype = RUNG_I64, .limit = (limit_)     \
    }
#define RUNGI_ABSENT           \
    {                          \
        .shape = {.rank = -1 } \
    }
#define RUNGI_COUNT_(...) ((int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)))

#endif
