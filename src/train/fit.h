// SPDX-License-Identifier: Apache-2.0
// Inside of rung_fit_run: fit.c plans, fit_times.c measures.
#ifndef RUNGI_TRAIN_FIT_H
#define RUNGI_TRAIN_FIT_H

#include "rung/fit.h"
#include "train/session.h"

// A step of the plan that was measured.
typedef struct rungi_fit_time {
    int node;
    const rungi_op *op;
    const rungi_kernel *kernel;
    int pass;
    double seconds, model; // measured, and as rungi_step_seconds has it
} rungi_fit_time;

typedef struct rungi_fit_times {
    RUNGI_ARRAY(rungi_fit_time) list;
    double optimizer; // seconds
    double ratio;     // measured to model, of all steps together
} rungi_fit_times;

// Times each step of the plan by itself, and the optimizer (on gradients of zero).
rung_status rungi_fit_measure(rungi_session *s, const rung_plan *plan, rungi_fit_times *times);
// Seconds of all steps of another plan of the same network, the optimizer left out.
double rungi_fit_seconds(const rungi_fit_times *times, const rung_plan *plan);

// What the device holds at most while the configuration is trained with steps on `batch` samples.
// The plan is of the largest shard; the caller destroys it.
rung_status rungi_fit_predict(const rungi_session *s, int64_t batch, rung_fit_way way,
                              rung_fit_row *row_out, rung_plan **plan_out);
// The same with train.accumulate (`rounds`) and plan.fuse as given.
rung_status rungi_fit_predict_with(const rungi_session *s, int64_t batch, int rounds,
                                   rung_fit_way way, bool fuse, rung_fit_row *row_out,
                                   rung_plan **plan_out);

#endif
