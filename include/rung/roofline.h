// SPDX-License-Identifier: Apache-2.0
// Where the time of a training step goes, operator by operator, and how near each is to what this
// machine can do at most: the roofline (Williams, Waterman, Patterson 2009).
#ifndef RUNG_ROOFLINE_H
#define RUNG_ROOFLINE_H

#include "rung/config.h"
#include "rung/opbench.h"

#ifdef __cplusplus
extern "C" {
#endif

// One step of a device's plan, or its optimizer (layer "", pass "step"). Of several shards or
// micro-batches that a device computes in a step, all of them together.
typedef struct rung_roofline_row {
    int device; // index
    char layer[64];
    const char *op, *pass, *kernel;
    char fused[64];  // what the kernel applies too, as " + relu"; "" where nothing
    double flops;    // operations that the kernel executes (fewer with Winograd's method)
    double bytes;    // that must move when nothing is cached
    double seconds;  // the median
    double share;    // of the step
    double ceiling;  // share of the nearer ceiling: arithmetic or memory; above 1 where caches hold
                     // the operands
    bool arithmetic; // that is arithmetic
} rung_roofline_row;

// A replica, a stage of a pipeline, a worker. Devices compute at once: each has its own cores, but
// they share the memory's bandwidth.
typedef struct rung_roofline_device {
    char name[32], what[128]; // as in rung_fit_device
    double computing;         // seconds of a step: the rows of its plans, the median
    double exchange;          // that its rank waited for others, the median
} rung_roofline_device;

typedef struct rung_roofline {
    rung_machine machine;
    char model[64];
    int64_t batch;
    double step_seconds; // the median of a whole step, of rank 0
    rung_roofline_device *devices;
    int device_count;
    rung_roofline_row *rows; // by device, in the order in which they run
    int64_t count;
} rung_roofline;

typedef struct rung_roofline_options {
    int steps;                   // to measure; 0 stands for 15
    const rung_machine *machine; // of an earlier result; NULL: measured first
    void *user;
    void (*progress)(void *user, int64_t done, int64_t total, const char *what); // or NULL
} rung_roofline_options;

// Trains some steps on one batch of the configuration's data and times each step of the plans of
// all devices. Ranks are threads of this process. The caller ends with rung_roofline_fini.
// Errors: those of making a session; RUNG_UNSUPPORTED under `exact`, where shards run side by side.
RUNG_API rung_status rung_roofline_run(rung_context *context, const rung_config *config,
                                       const rung_roofline_options *options,
                                       rung_roofline *result_out);
RUNG_API void rung_roofline_fini(rung_roofline *result);

// The picture as SVG, freed with free(). Errors: RUNG_NO_MEMORY.
RUNG_API rung_status rung_roofline_draw(const rung_roofline *result, char **svg_out);

#ifdef __cplusplus
}
#endif

#endif
