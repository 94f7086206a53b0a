// SPDX-License-Identifier: Apache-2.0
// What training takes of memory and time at several batch sizes, told without running a step: plans
// are made but take no memory, and each operator's kernel is timed once by itself.
#ifndef RUNG_FIT_H
#define RUNG_FIT_H

#include "rung/config.h"
#include "rung/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// Ways to spend less memory.
typedef enum rung_fit_way {
    RUNG_FIT_KEEP,  // everything kept
    RUNG_FIT_CHEAP, // memory.recompute auto, without a budget
    RUNG_FIT_LEAST, // the least memory that recomputation reaches
    RUNG_FIT_WAYS
} rung_fit_way;

// Precisions of activations: float32, and 16 bits (fp16 where the configuration says that, else
// bf16: they take the same).
enum { RUNG_FIT_PRECISIONS = 2 };

// "keep", "recompute", "recompute most".
RUNG_API const char *rung_fit_way_name(rung_fit_way way);

typedef struct rung_fit_row {
    int64_t batch; // samples of a step
    rung_dtype precision;
    rung_fit_way way;
    // Bytes of the device. `gradients` are those of parameters, of all shards; `statistics` what
    // shards keep until the end of a step.
    uint64_t weights, buffers, gradients, optimizer, activations, workspace, statistics;
    uint64_t peak;     // of the device: their sum
    uint64_t loader;   // host memory of batches that are loaded ahead
    uint64_t resident; // predicted for the whole process
    double extra;      // share of time that recomputation adds, predicted
    double seconds;    // of a step, estimated
    bool fits;
    // The fewest rounds (train.accumulate, the configuration's times a power of two) in which a
    // step on this batch fits; 0: none.
    int64_t accumulate;
} rung_fit_row;

typedef struct rung_fit {
    char model[64], device[32];
    int64_t batch; // the configuration's
    int threads;
    uint64_t memory; // limit
    rung_dtype precisions[RUNG_FIT_PRECISIONS];
    rung_fit_row *rows; // by batch, then precision, then way
    int64_t count;
    // Batch that fits, 0: none does. Where batches were given, of these.
    int64_t largest[RUNG_FIT_PRECISIONS][RUNG_FIT_WAYS];
    double measured_seconds; // that timing operators took
} rung_fit;

typedef struct rung_fit_options {
    uint64_t memory;        // bytes of a device; 0: memory.budget, else what the system has left
    const int64_t *batches; // NULL: powers of two times the configuration's
    int n_batches;
    bool no_times; // leave out the measuring of operators: seconds are NaN
} rung_fit_options;

// Predicts for a configuration. The caller ends with rung_fit_fini.
// Errors: those of making a session and its plans.
RUNG_API rung_status rung_fit_run(rung_context *context, const rung_config *config,
                                  const rung_fit_options *options, rung_fit *fit_out);
RUNG_API void rung_fit_fini(rung_fit *fit);

#ifdef __cplusplus
}
#endif

#endif
