// SPDX-License-Identifier: Apache-2.0
// Comparing what two runs have become: bits of weights, buffers and optimizer state; and, side by
// side, their metrics and where a step's time went. Configuration and history do not count.
#ifndef RUNG_COMPARE_H
#define RUNG_COMPARE_H

#include "rung/train.h"

#ifdef __cplusplus
extern "C" {
#endif

// A tensor that is not the same in both.
typedef struct rung_difference {
    char *name;               // "fc1.weight", "fc1.weight.exp_avg", "fc1.weight.step"
    char *what;               // "only in A", "shape [3] and [4]", "10 and 20"; NULL: values differ
    int64_t count, differing; // elements, and those whose bits differ; 0 with `what`
    double max_abs;           // largest |a - b|; infinite where one of a pair is not finite
} rung_difference;

// One side. Members after `evaluated` and `measured` count only when those are true.
typedef struct rung_compared {
    char *checkpoint; // path of what was compared
    int64_t step;
    bool evaluated; // the run folder tells a validation: its last
    double loss, accuracy, top5;
    bool measured;     // the run folder tells of steps: means over all of them
    double train_loss; // of the last record
    double samples_per_s;
    double ms[RUNG_TIME_PARTS]; // a step
} rung_compared;

typedef struct rung_comparison {
    int64_t tensors; // compared, step counts of the optimizer included
    rung_difference *differences;
    int64_t count; // 0: same bits
    rung_compared sides[2];
} rung_comparison;

// Compares the newest checkpoint of a run folder, or a checkpoint given by its folder, with
// another; every byte of both is verified first. The caller ends with rung_comparison_fini.
// Errors: those of rung_checkpoint_verify; RUNG_NO_MEMORY.
RUNG_API rung_status rung_compare(const char *a, const char *b, rung_comparison *comparison_out);
RUNG_API void rung_comparison_fini(rung_comparison *comparison);

#ifdef __cplusplus
}
#endif

#endif
