// SPDX-License-Identifier: Apache-2.0
// Inside of rung_fit_run: fit.c plans, fit_times.c measures, fit_resident.c looks at the process.
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
// Seconds of all steps of another plan of the same network, the optimizer left out.
double rungi_fit_seconds(const rungi_fit_times *times, const rung_plan *plan);

// What of a configuration is looked at otherwise.
typedef struct rungi_fit_what {
    rung_fit_way way;
    rung_dtype precision;
    bool fuse;
    int rounds; // train.accumulate
} rungi_fit_what;

// As it is configured, but for the way.
rungi_fit_what rungi_fit_configured(const rungi_session *s, rung_fit_way way);

// What the device holds at most while the configuration is trained with steps on `batch` samples.
// The plan is of the largest shard; the caller destroys it.
rung_status rungi_fit_predict(const rungi_session *s, int64_t batch, const rungi_fit_what *what,
                              rung_fit_row *row_out, rung_plan **plan_out);

// fit_resident.c: samples that operators are measured on: enough for kernels to show their speed,
// or, where times are not wanted, as many as cost little.
rung_status rungi_fit_sample(const rungi_session *s, bool times, int64_t *samples_out);
// Times the kernels that full batches, and an epoch's last one, have beside those that were timed.
rung_status rungi_fit_measure_rest(rungi_session *s, const rungi_fit_what *what,
                                   rungi_fit_times *times);
// What the process has resident before arenas and loaders, once operators were measured.
rung_status rungi_fit_base(const rungi_session *s, uint64_t *base_out);

#endif
