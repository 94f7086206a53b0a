// SPDX-License-Identifier: Apache-2.0
// Optimizers: SGD, Adam and AdamW with the parameters, defaults and results of torch.optim, and
// gradient clipping as part of the step.
//
// Parameters, gradients and state are flat float32 buffers of equal layout. A segment is one
// parameter's range of elements in them. A step is one pass over all buffers, whatever the number
// of parameters; each result is the same bits for any number of threads and any instruction set.
//
// There is no zero_grad: the first write of a step to a gradient overwrites what the step before
// left there (PyTorch's zero_grad(set_to_none=True)).
#ifndef RUNG_OPTIM_H
#define RUNG_OPTIM_H

#include <stdbool.h>
#include <stdint.h>

#include "rung/context.h"
#include "rung/schedule.h"
#include "rung/state.h"
#include "rung/status.h"
#include "rung/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rung_optimizer rung_optimizer;

// id, name in configurations
#define RUNG_OPTIMIZER_MAP(X) \
    X(SGD, "sgd")             \
    X(ADAM, "adam")           \
    X(ADAMW, "adamw")

typedef enum rung_optimizer_kind {
#define RUNG_OPTIMIZER_ENUM(id, name) RUNG_OPTIMIZER_##id,
    RUNG_OPTIMIZER_MAP(RUNG_OPTIMIZER_ENUM)
#undef RUNG_OPTIMIZER_ENUM
        RUNG_OPTIMIZER_COUNT
} rung_optimizer_kind;

// Settings of some parameters where they differ from the optimizer's own.
typedef struct rung_param_group {
    double lr_multiplier; // of the step's learning rate; > 0
    double weight_decay;  // instead of the optimizer's; >= 0
} rung_param_group;

// Start from rung_optimizer_defaults and set what differs.
typedef struct rung_optimizer_options {
    rung_optimizer_kind kind;
    double lr; // base rate, for the schedule: a step takes the rate that it is given. Default 1e-3
    double weight_decay; // default 0; AdamW 1e-2
    // SGD
    double momentum;
    double dampening;
    bool nesterov;
    // Adam, AdamW
    double betas[2]; // defaults 0.9, 0.999
    double eps;      // default 1e-8

    const rung_param_group *groups; // borrowed during rung_optimizer_create
    int group_count;
} rung_optimizer_options;

// One parameter's elements [begin, end) in the flat buffers.
typedef struct rung_segment {
    const char *name; // "layer1.0.conv1.weight"; copied
    int64_t begin, end;
    int group;   // 0: the optimizer's own settings; k: options.groups[k - 1]
    bool frozen; // never touched, not part of the gradient norm, its step count stands still
} rung_segment;

// One step's inputs. Zero is off everywhere, so {.rates = ...} is a plain step.
typedef struct rung_optimizer_update {
    rung_rates rates;
    // What the loss was multiplied by, when it was scaled for float16: gradients are divided by it
    // before anything else, so that clipping sees true gradients. 0 means 1.
    double loss_scale;
    double max_grad_norm;  // clip by global L2 norm, as torch.nn.utils.clip_grad_norm_
    double max_grad_value; // clip each element, as torch.nn.utils.clip_grad_value_; after the norm
    // Compute the norm, in one more pass over the gradients, even when nothing is clipped. Whenever
    // it is computed, a gradient that is NaN or infinite stops the step before anything changes:
    // with an error, or, with skip_nonfinite, with RUNG_OK and report.applied = false. Otherwise
    // the update's own pass finds it, at no cost, when parameters are spoiled already.
    bool want_norm;
    bool skip_nonfinite; // implies want_norm
    // Where the updated parameters also go, rounded to nearest even, in the pass that updates them:
    // as long as the parameters, at the same places. Frozen parameters and those of other ranks'
    // parts are left alone. NULL: nowhere.
    void *low;
    rung_dtype low_dtype; // RUNG_BF16 or RUNG_F16
    // Compute each segment's norm and that of its update, without another pass over memory.
    bool measure;
    int threads; // 0 means 1
} rung_optimizer_update;

typedef struct rung_optimizer_report {
    bool applied;      // false: skipped because of a gradient that is not finite
    double grad_norm;  // of the true gradients before clipping; NaN when it was not computed
    double clip;       // factor by which the norm's limit shortened the gradients; 1: it did not
    int64_t nonfinite; // first segment with a gradient that is not finite; -1: none was found
} rung_optimizer_report;

// "sgd", ... Never NULL.
RUNG_API const char *rung_optimizer_name(rung_optimizer_kind kind);

// The optimizer of that name. Errors: RUNG_CONFIG naming the nearest one.
RUNG_API rung_status rung_optimizer_find(const char *name, rung_optimizer_kind *kind_out);

// PyTorch's defaults.
RUNG_API rung_optimizer_options rung_optimizer_defaults(rung_optimizer_kind kind);

// Makes an optimizer for `count` segments in ascending order that do not overlap. Between segments
// there may be padding, which must hold zeros in all buffers and keeps them. The state is allocated
// here, zeroed. The caller owns the result and passes it to rung_optimizer_destroy before it
// destroys the context, which gives the instruction set.
// Errors: RUNG_CONFIG naming the option; RUNG_INVALID for segments; RUNG_NO_MEMORY.
RUNG_API rung_status rung_optimizer_create(const rung_context *context,
                                           const rung_optimizer_options *options,
                                           const rung_segment *segments, int64_t count,
                                           rung_optimizer **optimizer_out);

// The same for all parameters of a state, under their names, in the order of its flat buffers
// (rung_state_params, rung_state_grads). Frozen parameters are left alone; those with no_decay get
// no weight decay. `options` may not have groups: they are made here.
RUNG_API rung_status rung_optimizer_for_state(const rung_context *context,
                                              const rung_optimizer_options *options,
                                              const rung_state *state,
                                              rung_optimizer **optimizer_out);

// Frees *optimizer and sets it to NULL. NULL and pointers to NULL are accepted.
RUNG_API void rung_optimizer_destroy(rung_optimizer **optimizer);

// One step: unscale, clip, update, always in this order. `params` and `grads` are the flat buffers,
// at least as long as the last segment's end and not overlapping; gradients are only read.
// `report_out` may be NULL.
// Errors: RUNG_CONFIG for an update that makes no sense; RUNG_DIVERGED naming the first parameter
// whose gradient is not finite. Nothing has been changed then, if the norm was computed.
RUNG_API rung_status rung_optimizer_step(rung_optimizer *optimizer, float *params,
                                         const float *grads, const rung_optimizer_update *update,
                                         rung_optimizer_report *report_out);

// State buffers, for checkpoints: SGD with momentum has "momentum_buffer"; Adam and AdamW have
// "exp_avg" and "exp_avg_sq"; SGD without momentum has none. A parameter's state is the range of
// its segment. The pointers are owned by the optimizer and stay valid for its life; writing through
// them is how a checkpoint is loaded.
enum { RUNG_OPTIMIZER_STATES = 2 };
RUNG_API int rung_optimizer_state_count(const rung_optimizer *optimizer);
RUNG_API const char *rung_optimizer_state_name(const rung_optimizer *optimizer, int index);
RUNG_API float *rung_optimizer_state_data(const rung_optimizer *optimizer, int index);

// Steps that a segment has taken ("step" in PyTorch's state): Adam's bias correction uses it, and
// SGD's momentum buffer is set by the first gradient when it is 0. Belongs into checkpoints.
RUNG_API int64_t rung_optimizer_steps(const rung_optimizer *optimizer, int64_t segment);
RUNG_API void rung_optimizer_set_steps(rung_optimizer *optimizer, int64_t segment, int64_t steps);

// Freezes or thaws a segment from the next step on. Its state is kept.
RUNG_API void rung_optimizer_freeze(rung_optimizer *optimizer, int64_t segment, bool frozen);

// L2 norm of a segment's true gradient in the last step that computed the norm; 0 if frozen.
RUNG_API double rung_optimizer_segment_norm(const rung_optimizer *optimizer, int64_t segment);

// Sums of squares of a segment in the last step that measured: of its parameters before the step,
// and of what the step added to them. The root of their ratio is the update ratio. 0 if frozen; of
// an optimizer that is cut over ranks, this part's share.
RUNG_API void rung_optimizer_segment_update(const rung_optimizer *optimizer, int64_t segment,
                                            double *params_out, double *update_out);

#ifdef __cplusplus
}
#endif

#endif
