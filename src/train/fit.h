// SPDX-License-Identifier: Apache-2.0
// Inside of rung_fit_run: fit_predict.c tells bytes of a device, fit_times.c measures, fit_group.c
// sums up, fit_resident.c looks at the process, fit.c makes the table.
#ifndef RUNGI_TRAIN_FIT_H
#define RUNGI_TRAIN_FIT_H

#include "rung/fit.h"
#include "train/session.h"

// A step of the plan that was measured.
typedef struct rungi_fit_time {
    int node;
    const rungi_op *op;
    const char *kernel;
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
// Adds the seconds of all steps of another plan of the same network, the optimizer left out.
void rungi_fit_seconds(const rungi_fit_times *times, const rung_plan *plan, double *forward,
                       double *backward);

// What of a configuration is looked at otherwise.
typedef struct rungi_fit_what {
    rung_fit_way way;
    rung_dtype precision;
    bool fuse;
    int rounds;     // train.accumulate
    bool full_only; // leave out the last batches of epochs, and validation
} rungi_fit_what;

// As it is configured, but for the way.
rungi_fit_what rungi_fit_configured(const rungi_session *s, rung_fit_way way);

// What is predicted of a device.
typedef struct rungi_fit_prediction {
    rung_fit_bytes bytes;
    double extra;     // see rung_fit_row
    int64_t left_out; // see rung_fit_row; the error record says why
} rungi_fit_prediction;

// What device `device` of this rank holds at most while the configuration is trained with steps on
// `batch` samples, of all ranks and devices. The plan is of its largest shard (or micro-batch), or
// NULL where it has none; the caller destroys it.
rung_status rungi_fit_predict(const rungi_session *s, int device, int64_t batch,
                              const rungi_fit_what *what, rungi_fit_prediction *out,
                              rung_plan **plan_out);
// The same of the fullest device of this rank. plan_out may be NULL.
rung_status rungi_fit_predict_fullest(const rungi_session *s, int64_t batch,
                                      const rungi_fit_what *what, rungi_fit_prediction *out,
                                      rung_plan **plan_out);

// What a device is in its group, for people.
void rungi_fit_describe(const rungi_session *s, int device, rung_fit_device *out);

#endif
