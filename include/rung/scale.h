// SPDX-License-Identifier: Apache-2.0
// Scaling: how much faster training gets with more devices. The same steps are trained with each
// number of ranks, in child processes that take turns: strong scaling keeps the whole batch, weak
// scaling keeps the batch of each device. Warm-up is left out; validation and checkpoints are no
// part of what is measured.
#ifndef RUNG_SCALE_H
#define RUNG_SCALE_H

#include "rung/config.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RUNG_SCALE_DEVICES = 8, RUNG_SCALE_ROWS = 2 * RUNG_SCALE_DEVICES };

typedef struct rung_scale_row {
    bool weak;
    int devices;
    int64_t batch;        // of all devices together
    bool measured;        // else `reason` says why not
    char reason[256];     // one line
    double step_ms;       // median over the repeats
    double samples_per_s; // of all devices together
    double speed_up;      // samples/s over those of the first row of its kind, whose number of
                          // devices it counts for
    double efficiency;    // speed-up over the number of devices
    double exchange_ms;   // of a step, exposed: nothing else was going on
    double wait_share;    // of the time, for data
    uint64_t peak_bytes;  // of one device
    double loss;          // of the last step
} rung_scale_row;

typedef struct rung_scale_result {
    rung_scale_row rows[RUNG_SCALE_ROWS]; // strong, then weak, as the devices were given
    int count;
    int threads;      // of each device
    int64_t steps;    // measured in each block, after the warm-up
    char notice[512]; // what there is to say of the machine; empty: nothing
} rung_scale_result;

typedef struct rung_scale_options {
    const char *program; // the rung executable, for the child processes
    const char *run;     // folder for scale.json and scale.svg; NULL: none
    const int *devices;  // numbers of devices, rising
    int n_devices;
    int64_t steps;   // 0: 20
    int64_t repeats; // 0: 3
    void *user;
    void (*progress)(void *user, const char *line); // what is going on; may be NULL
} rung_scale_options;

// Measures the scaling of a configuration. Each device has device.threads threads, or, where that
// is auto, its share of the cores when as many devices as were asked for at most are there.
// Errors: RUNG_INVALID for the numbers of devices; those of the configuration; those of the first
// row, and of writing files. A later row that cannot run says so itself.
RUNG_API rung_status rung_scale_run(rung_context *context, const rung_config *config,
                                    const rung_scale_options *options,
                                    rung_scale_result *result_out);

#ifdef __cplusplus
}
#endif

#endif
