// SPDX-License-Identifier: Apache-2.0
// What training takes of memory and time at several batch sizes, told without running a step: plans
// are made but take no memory, and each operator's kernel is timed once by itself. For every
// strategy: each replica, stage and server is looked at, and the fullest device is what bounds the
// batch.
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

// Bytes of a device.
typedef struct rung_fit_bytes {
    uint64_t weights, buffers; // a server's copy of its weights among them
    uint64_t gradients;        // of parameters: of all shards, rounds and micro-batches
    uint64_t optimizer;        // this device's part of its state
    uint64_t activations, workspace;
    uint64_t statistics;    // what shards keep until the end of a step
    uint64_t communication; // room for what comes from other devices and ranks, or is sent to them
    uint64_t total;         // of the device: the sum of all these
    uint64_t loader;        // host memory of batches that are loaded ahead for it
} rung_fit_bytes;

// A device, by rank and then in the order of device.list.
typedef struct rung_fit_device {
    char name[32];  // as "cpu:1"
    char what[128]; // as "replica 1, outputs and loss", "stage 0: conv1 to conv3, 4 in flight"
} rung_fit_device;

typedef struct rung_fit_row {
    int64_t batch; // samples of a step, of all devices together
    rung_dtype precision;
    rung_fit_way way;
    int device;          // the fullest one: the first of them
    rung_fit_bytes most; // of it
    uint64_t peak;       // its total
    uint64_t loader;     // of all devices
    uint64_t resident;   // predicted for the whole process
    double extra;        // share of time that recomputation adds, predicted
    double seconds;      // of a step, estimated; what devices exchange is not in it
    bool fits;
    // Training refuses this batch (one sample of a shard is not enough for batch normalization):
    // nothing is predicted, and it does not fit.
    bool refused;
    // Samples of an epoch's last batch where training refuses that one: what is predicted is
    // without it, as data.drop_last=true leaves it out. 0: there is none.
    int64_t left_out;
    // The fewest rounds (train.accumulate, the configuration's times a power of two) in which a
    // step on this batch fits; 0: none.
    int64_t accumulate;
} rung_fit_row;

typedef struct rung_fit {
    char model[64], device[32];
    char strategy[24]; // "single", "ddp", "data_parallel", ...
    int64_t batch;     // the configuration's
    int threads;       // of a device
    uint64_t memory;   // limit of a device
    rung_fit_device *devices;
    int device_count;
    rung_dtype precisions[RUNG_FIT_PRECISIONS];
    rung_fit_row *rows; // by batch, then precision, then way
    int64_t count;
    rung_fit_bytes *bytes; // [row][device]
    // Batch that fits, 0: none does. Where batches were given, of these.
    int64_t largest[RUNG_FIT_PRECISIONS][RUNG_FIT_WAYS];
    double measured_seconds; // that timing operators took
    char refusal[512];       // why the first batch is refused or left out; "": none is
} rung_fit;

typedef struct rung_fit_options {
    uint64_t memory;        // bytes of a device; 0: memory.budget, else its share of what the
                            // system has left
    const int64_t *batches; // NULL: powers of two times the configuration's
    int n_batches;
    bool no_times; // leave out the measuring of operators: seconds are NaN
} rung_fit_options;

// Predicts for a configuration. Ranks are threads of this process (train.ranks). The caller ends
// with rung_fit_fini.
// Errors: those of making sessions and their plans.
RUNG_API rung_status rung_fit_run(rung_context *context, const rung_config *config,
                                  const rung_fit_options *options, rung_fit *fit_out);
RUNG_API void rung_fit_fini(rung_fit *fit);

#ifdef __cplusplus
}
#endif

#endif
