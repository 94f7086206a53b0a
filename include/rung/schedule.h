// SPDX-License-Identifier: Apache-2.0
// Learning rate schedules, with the names, parameters and defaults of torch.optim.lr_scheduler.
//
// A schedule is plain data, and the rate of a step is a pure function of the step's number: a
// resumed run computes the same bits as an uninterrupted one. Only the plateau schedule, which
// listens to a metric, has state: four numbers that a checkpoint keeps.
//
//   rung_schedule schedule = rung_schedule_defaults(RUNG_SCHEDULE_COSINE);
//   schedule.lr = 0.1;
//   schedule.warmup = 5;
//   rung_schedule_resolve(&schedule, total_steps, steps_per_epoch, &schedule);
//   rung_rates rates = rung_schedule_rates(&schedule, NULL, step);
//
// Units. Every length below counts in `unit`: epochs, as PyTorch's users step their schedulers (the
// rate changes between epochs only), or optimizer steps. Steps and epochs are numbered from 0.
//
// Warm-up. During the first `warmup` units the rate climbs linearly from start_factor times the
// schedule's first rate to that rate; the schedule proper begins after them, with its own position
// 0 there. This is SequentialLR([LinearLR(start_factor, total_iters=warmup), schedule],
// milestones=[warmup]). So milestones and step sizes count from the end of the warm-up.
#ifndef RUNG_SCHEDULE_H
#define RUNG_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rung/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// id, name in configurations
#define RUNG_SCHEDULE_MAP(X)      \
    X(CONSTANT, "constant")       \
    X(STEP, "step")               \
    X(MULTISTEP, "multistep")     \
    X(EXPONENTIAL, "exponential") \
    X(POLYNOMIAL, "polynomial")   \
    X(COSINE, "cosine")           \
    X(ONE_CYCLE, "one_cycle")     \
    X(PLATEAU, "plateau")

typedef enum rung_schedule_kind {
#define RUNG_SCHEDULE_ENUM(id, name) RUNG_SCHEDULE_##id,
    RUNG_SCHEDULE_MAP(RUNG_SCHEDULE_ENUM)
#undef RUNG_SCHEDULE_ENUM
        RUNG_SCHEDULE_COUNT
} rung_schedule_kind;

typedef enum rung_schedule_unit {
    RUNG_UNIT_AUTO, // steps for one_cycle, epochs for the rest (as PyTorch's documentation does)
    RUNG_UNIT_EPOCH,
    RUNG_UNIT_STEP,
} rung_schedule_unit;

typedef enum rung_anneal { RUNG_ANNEAL_COS, RUNG_ANNEAL_LINEAR } rung_anneal;
typedef enum rung_plateau_mode { RUNG_PLATEAU_MIN, RUNG_PLATEAU_MAX } rung_plateau_mode;
typedef enum rung_threshold_mode { RUNG_THRESHOLD_REL, RUNG_THRESHOLD_ABS } rung_threshold_mode;

enum { RUNG_SCHEDULE_MILESTONES = 32 };

// Start from rung_schedule_defaults and set what differs. Below, t is the position in `unit` after
// the warm-up.
typedef struct rung_schedule {
    rung_schedule_kind kind;
    rung_schedule_unit unit;
    double lr;           // the base rate, >= 0; default 1e-3
    int64_t warmup;      // units of linear warm-up; default 0
    double start_factor; // first rate of the warm-up over lr, in [0, 1]; default 1/3

    // step: lr * gamma^(t / step_size); multistep: lr * gamma^(milestones <= t);
    // exponential: lr * gamma^t
    int64_t step_size; // no default
    double gamma;      // default 0.1; exponential: no default
    int milestone_count;
    int64_t milestones[RUNG_SCHEDULE_MILESTONES]; // ascending

    // polynomial: lr * (1 - min(t, total_iters) / total_iters)^power
    int64_t total_iters; // default 0: what the run has after the warm-up (PyTorch's default is 5)
    double power;        // default 1

    // cosine: eta_min + (lr - eta_min) * (1 + cos(pi t / T_max)) / 2. Beyond T_max it climbs again.
    int64_t T_max; // default 0: what the run has after the warm-up
    double eta_min;

    // one_cycle: from max_lr / div_factor up to max_lr over the first pct_start of the cycle, then
    // down to max_lr / div_factor / final_div_factor, which is held beyond its end. Momentum (or
    // Adam's beta1) goes the other way when cycle_momentum is set.
    int64_t total_steps; // in units; default 0: what the run has after the warm-up
    double max_lr;       // default 0: lr
    double pct_start;    // default 0.3
    rung_anneal anneal_strategy;
    double div_factor, final_div_factor; // defaults 25, 1e4
    bool cycle_momentum;                 // default true
    double base_momentum, max_momentum;  // defaults 0.85, 0.95

    // plateau (ReduceLROnPlateau; an observation is what PyTorch calls an epoch): after more than
    // `patience` observations in a row that are not better than the best by `threshold`, the rate
    // is multiplied by `factor`, not below min_lr, and `cooldown` observations are not counted.
    // Changes of less than `eps` are not made.
    rung_plateau_mode mode; // is a smaller or a larger metric better? default RUNG_PLATEAU_MIN
    double factor;          // in [0, 1); default 0.1
    int64_t patience;       // default 10
    double threshold;       // default 1e-4
    rung_threshold_mode threshold_mode;
    int64_t cooldown;
    double min_lr;
    double eps; // default 1e-8

    int64_t steps_per_epoch; // set by rung_schedule_resolve
} rung_schedule;

// What the plateau schedule has seen. Start from rung_schedule_start.
typedef struct rung_schedule_state {
    double lr;   // the rate now, without warm-up
    double best; // best metric so far; +-infinity before the first
    int64_t num_bad_epochs;
    int64_t cooldown_counter;
} rung_schedule_state;

// What a schedule prescribes for one step.
typedef struct rung_rates {
    double lr;
    bool cycles_momentum; // replace the optimizer's momentum (Adam: beta1) by `momentum`
    double momentum;
} rung_rates;

// "cosine", ... Never NULL.
RUNG_API const char *rung_schedule_name(rung_schedule_kind kind);

// The schedule of that name. Errors: RUNG_CONFIG naming the nearest one.
RUNG_API rung_status rung_schedule_find(const char *name, rung_schedule_kind *kind_out);

// PyTorch's defaults for that kind, as listed above.
RUNG_API rung_schedule rung_schedule_defaults(rung_schedule_kind kind);

// Checks a schedule and fills in what depends on the run: its unit, and lengths left at 0. A run
// has total_steps > 0 optimizer steps, steps_per_epoch > 0 of them in an epoch; a last incomplete
// epoch counts as one. `out` may be `schedule`. Errors: RUNG_CONFIG naming the parameter.
RUNG_API rung_status rung_schedule_resolve(const rung_schedule *schedule, int64_t total_steps,
                                           int64_t steps_per_epoch, rung_schedule *out);

// Rates of optimizer step number `step` >= 0 of a resolved schedule. `state` is read by the plateau
// schedule only and may be NULL for others.
RUNG_API rung_rates rung_schedule_rates(const rung_schedule *schedule,
                                        const rung_schedule_state *state, int64_t step);

// State of a plateau schedule before its first observation.
RUNG_API rung_schedule_state rung_schedule_start(const rung_schedule *schedule);

// Tells a plateau schedule the validation metric found after `steps_done` steps. Observations up to
// the end of the warm-up are ignored: the schedule proper has not begun. Other schedules ignore
// all.
RUNG_API void rung_schedule_observe(const rung_schedule *schedule, rung_schedule_state *state,
                                    int64_t steps_done, double metric);

enum { RUNG_SCHEDULE_TEXT = 512 }; // enough room for each of the two texts below

// One line that says what a resolved schedule does: "cosine lr=0.1 T_max=95 eta_min=0, in epochs of
// 781 steps, warm-up 5 from 0.333333". It differs where a parameter of the schedule does, so that a
// resumed run can tell the user what changed. Returns `out`.
RUNG_API char *rung_schedule_text(const rung_schedule *schedule, char *out, size_t size);

// The state as a line of text that keeps every bit (numbers in hexadecimal), and back.
// Errors of parse: RUNG_FORMAT.
RUNG_API char *rung_schedule_state_text(const rung_schedule_state *state, char *out, size_t size);
RUNG_API rung_status rung_schedule_state_parse(const char *text, rung_schedule_state *state_out);

#ifdef __cplusplus
}
#endif

#endif
