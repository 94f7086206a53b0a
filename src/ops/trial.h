// SPDX-License-Identifier: Apache-2.0
// One case of an operator, set up in memory: inputs filled, outputs between guard bytes. Tests and
// benchmarks run kernels on it without a graph.
#ifndef RUNGI_OPS_TRIAL_H
#define RUNGI_OPS_TRIAL_H

#include "ops/cases.h"

enum { RUNGI_TRIAL_OUTPUTS = 8 };

typedef struct rungi_trial {
    const rungi_op *op;
    const rungi_case *which;
    rung_dtype dtype; // of floats
    rungi_layout layout;
    int threads;
    rungi_operand in[RUNGI_CASE_INPUTS], out[RUNGI_TRIAL_OUTPUTS];
    rungi_operand gout[RUNGI_TRIAL_OUTPUTS], gin[RUNGI_CASE_INPUTS];
    int n_in, n_out;
    void *ptr[2 * (RUNGI_CASE_INPUTS + RUNGI_TRIAL_OUTPUTS)];
    char *blocks[2 * (RUNGI_CASE_INPUTS + RUNGI_TRIAL_OUTPUTS)];
    int n_ptr;
    rungi_runtime rt;
} rungi_trial;

// Sets up a case. `layout` is used for the operands that the operator's rule lets have one
// (images). Inputs are filled with values that float32 holds exactly, gradients of outputs are
// normal.
rung_status rungi_trial_init(rungi_trial *t, const rungi_op *op, const rungi_case *which,
                             rung_dtype dtype, rungi_layout layout, int threads);
void rungi_trial_fini(rungi_trial *t);

// The query of a pass. Gradients are wanted for the float inputs in `wanted` that the pass gives.
rungi_query rungi_trial_query(const rungi_trial *t, int pass, uint32_t wanted,
                              rungi_operand gin[RUNGI_CASE_INPUTS]);

// Prepares a kernel for the query, runs it `times` times and frees it.
rung_status rungi_trial_run(const rungi_trial *t, const rungi_query *q, const rungi_kernel *kernel,
                            int times);

// Prepares a kernel and runs it over and over for about `seconds`, at least three times after a
// first run that is not counted: *seconds_out is the median of a run.
rung_status rungi_trial_time(const rungi_trial *t, const rungi_query *q, const rungi_kernel *kernel,
                             rung_context *context, double seconds, double *seconds_out);

// Can the case be set up in this layout: do the channels of its images divide, are they images?
bool rungi_trial_fits(const rungi_op *op, const rungi_case *which, rungi_layout layout);

// Element i of an operand counted in plain order, whatever its layout is.
double rungi_trial_get(const rungi_trial *t, const rungi_operand *o, int64_t i);
void rungi_trial_set(const rungi_trial *t, const rungi_operand *o, int64_t i, double value);

// Are the guard bytes around every block untouched?
bool rungi_trial_guards(const rungi_trial *t);

#endif
