// SPDX-License-Identifier: Apache-2.0
// The ladder: one optimization after the other is switched on, measured against what was there
// before, checked for its result, and kept only if training got faster and stayed right.
//
// Every measured block of steps runs in a child process of its own (what is global to a process
// would leak from one rung into the next). Base, best so far and candidate alternate. An exact rung
// must give equal bits over the first steps. A numeric one must stay within the envelope that the
// base itself shows when its initial weights are disturbed by rounding, and its gradient must be as
// near to the float64 gradient as the base's. At the end base and best train the same samples.
#ifndef RUNG_LADDER_H
#define RUNG_LADDER_H

#include "rung/config.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rung_verdict {
    RUNG_VERDICT_KEPT,
    RUNG_VERDICT_NO_CLEAR_CHANGE,
    RUNG_VERDICT_SLOWER,
    RUNG_VERDICT_WRONG,
    RUNG_VERDICT_NOT_AVAILABLE,
} rung_verdict;

// "kept", "no clear change", "slower", "wrong", "not available".
RUNG_API const char *rung_verdict_name(rung_verdict verdict);

enum { RUNG_LADDER_RUNGS = 64, RUNG_LADDER_TEXT = 256 };

typedef struct rung_rung {
    const char *name;   // "channels_last"; "base" for the first
    const char *effect; // "exact", "numeric", "semantic"; "-" for the base
    const char *what;   // what it switches: "plan.layout=channels_last"
    rung_verdict verdict;
    char reason[RUNG_LADDER_TEXT]; // for not available and wrong
    bool measured;
    double step_ms;              // median over the blocks
    double samples_per_s;        // median
    double gain_base, gain_prev; // median of the ratios of paired blocks: above 1 is faster
    double ci_low, ci_high;      // 95 % interval of gain_prev
    double wait_share;
    double ms[9];        // parts of a step, as in metrics.jsonl
    uint64_t peak_bytes; // resident memory of the process at its highest
    // A flag's way to another core and back before a block, median, in nanoseconds; 0: one core.
    double round_trip_ns;
    // Rounds that were measured again because cores moved between sharing a cache and not, and
    // those that were kept all the same.
    int repeated, mixed;
    const char *gate; // "bits", "envelope", "none"
    bool gate_passed;
    char gate_detail[RUNG_LADDER_TEXT];
} rung_rung;

typedef struct rung_confirm {
    bool done;
    int64_t epochs, samples;
    double base_metric, best_metric, margin; // validation accuracy
    bool equal;                              // within the margin, and above ladder.min_accuracy
    double base_seconds, best_seconds;       // of an epoch's training, validation apart
    bool reload_equal;                       // the saved checkpoint evaluates to the same numbers
    bool coverage_ok;                        // each sample was seen exactly once an epoch, or
    bool weighted;                           // (data.sampler weighted) as many were drawn
    char detail[RUNG_LADDER_TEXT];
} rung_confirm;

typedef struct rung_ladder_result {
    rung_rung rungs[RUNG_LADDER_RUNGS];
    int count;
    char best_set[2048]; // "plan.layout=channels_last plan.fuse=true"
    double best_gain, best_ci_low;
    rung_confirm confirm;
    char notice[1024]; // what there is to say about the machine; empty: nothing
    double seconds;
} rung_ladder_result;

typedef struct rung_ladder_observer {
    void *user;
    void (*progress)(void *user, const char *line);  // what is going on, for a line on a terminal
    void (*notice)(void *user, const char *line);    // what there is to say of the machine
    void (*rung)(void *user, const rung_rung *rung); // a rung is finished
} rung_ladder_observer;

typedef struct rung_ladder_options {
    const char *program; // the rung executable, for the child processes
    const char *run;     // run folder: ladder.json, best.yaml, report.html and the runs
    const rung_ladder_observer *observer; // may be NULL
} rung_ladder_options;

// Climbs the ladder of a configuration.
// Errors: RUNG_GATE when the confirmation of the best configuration fails (the result is filled and
// written all the same); those of the configuration, the data and the children.
RUNG_API rung_status rung_ladder_run(rung_context *context, const rung_config *config,
                                     const rung_ladder_options *options,
                                     rung_ladder_result *result_out);

typedef struct rung_block_options {
    int64_t warmup, steps;
    double seconds; // instead of steps: about this long; 0: steps
    bool gate;      // also tell losses, the checksum of the state and the gradient's error
    double disturb; // relative size of a disturbance of the initial weights; 0: none
    uint64_t disturb_seed;
    bool disturb_gradient; // with gate: also tell how far the disturbance moves the gradient
} rung_block_options;

// Runs one block in this process and gives what was measured as a JSON object, freed with free():
// what `rung block` prints. Of several processes that mpirun or srun has started all take part, and
// that of rank 0 tells; the others get NULL.
RUNG_API rung_status rung_block_run(rung_context *context, const rung_config *config,
                                    const rung_block_options *options, char **json_out);

// Whether the rungs exist: names in order; NULL past the last.
RUNG_API const char *rung_ladder_rung_name(int index);
// Letters of the longest name of those that this configuration's ladder will try, the base's
// included: the width of a column.
RUNG_API int rung_ladder_name_width(const rung_config *config);
RUNG_API const char *rung_ladder_rung_about(int index);

#ifdef __cplusplus
}
#endif

#endif
