// SPDX-License-Identifier: Apache-2.0
// A plan: a graph compiled for one batch size, device and set of switches.
//
// Compiling infers shapes, applies the passes, chooses kernels and gives every buffer its place in
// one arena. A step then replays the plan: no allocation, no dispatch, no graph work. Training,
// evaluation and the short last batch are different plans of one graph; they share a state, and
// may share an arena.
#ifndef RUNG_PLAN_H
#define RUNG_PLAN_H

#include "rung/state.h"
#include "rung/tuning.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rung_plan rung_plan;
typedef struct rung_arena rung_arena;

typedef enum rung_layout {
    RUNG_LAYOUT_PLAIN,         // NCHW
    RUNG_LAYOUT_CHANNELS_LAST, // NHWC
    RUNG_LAYOUT_BLOCKED,       // NChw8c or NChw16c where the channels divide, else channels last
} rung_layout;

typedef enum rung_kernels {
    RUNG_KERNELS_OWN,     // the best of own and library kernels, in each operator's order
    RUNG_KERNELS_LIBRARY, // the library's where it has one
    RUNG_KERNELS_REFERENCE,
} rung_kernels;

// What backward computes again instead of keeping it: less memory for more time, the same bits.
typedef enum rung_recompute {
    RUNG_RECOMPUTE_NONE,
    RUNG_RECOMPUTE_AUTO,   // as much as the budget asks for; without one, what is cheap
    RUNG_RECOMPUTE_LAYERS, // what the layers named give
} rung_recompute;

// How numbers of 16 bits are computed with.
typedef enum rung_compute {
    RUNG_COMPUTE_AUTO,    // native where the processor has it, else storage
    RUNG_COMPUTE_NATIVE,  // by its own instructions for 16 bits, in the operators that it has them
                          // for
    RUNG_COMPUTE_STORAGE, // kept in 16 bits, computed with in float32
} rung_compute;

// Can this processor, or what of it the context may use (NULL: all), compute natively in that
// precision? If not, `why` (size bytes, may be NULL) says what is missing.
RUNG_API bool rung_compute_native(const rung_context *context, rung_dtype precision, char *why,
                                  size_t size);

// Tiles of Winograd convolutions that are computed natively in bf16. The larger ones multiply half
// as often and round about three times as much.
typedef enum rung_winograd_bf16 {
    RUNG_WINOGRAD_F2, // F(2x2, 3x3): an l2 error of 4.2e-3
    RUNG_WINOGRAD_F4, // F(4x4, 3x3): 1.1e-2
} rung_winograd_bf16;

typedef struct rung_dim_value {
    const char *symbol; // as given to rung_symbol
    int64_t value;
} rung_dim_value;

typedef struct rung_compile_options {
    int64_t batch;              // RUNG_BATCH; at least 1
    const rung_dim_value *dims; // other symbolic dimensions
    int n_dims;
    bool training;              // layers behave as in training
    bool gradients;             // backward is planned: needs a loss
    const char *const *outputs; // outputs wanted, NULL: all. What they do not need is left out
    int n_outputs;
    int threads; // 0: the device's
    bool fuse;
    // Where a parameter's gradient is needed by its update alone, the kernel that computes it may
    // update the parameter right away. A plan run by rung_plan_backward stores all gradients all
    // the same: only a trainer makes use of it.
    bool fuse_optimizer;
    // Backward adds to the gradients that are there (accumulation): parameters' gradients are
    // computed in the arena, each added as soon as it is complete. Not with fuse_optimizer.
    bool accumulate;
    rung_layout layout;
    rung_kernels kernels;
    bool winograd; // 3x3 convolutions by Winograd: needs own kernels and channels last
    rung_winograd_bf16 winograd_bf16;
    rung_tuning *tuning; // choose kernels by measuring; NULL: by each operator's order
    bool float64;        // everything in float64 by the reference kernels: slow, to check others by
    // RUNG_BF16 or RUNG_F16: what convolutions, linear layers and matrix products take and give is
    // kept in 16 bits, and what follows them, as PyTorch's autocast does it; parameters and their
    // gradients, losses, reductions and statistics stay float32. Default: RUNG_F32, all of it.
    rung_dtype precision;
    rung_compute compute; // with 16 bits
    // Batch normalization in training takes the statistics of the batches of all ranks, which run
    // the plan at once: only a trainer of several ranks does that.
    bool synchronize;
    rung_arena *arena;        // shared memory for activations; NULL: the plan has its own
    rung_recompute recompute; // plans with gradients only
    const char *const *recompute_layers; // LAYERS: patterns of layer names
    int n_recompute_layers;
    uint64_t budget; // bytes that the arena may take; 0: no limit
    // For looking at alone: takes no memory, cannot be run, and may miss the budget.
    bool plan_only;
} rung_compile_options;

// Compiles a graph against a state (whose device it runs on). The caller owns the plan; graph,
// state and arena are borrowed for its life.
// Errors: the graph's first mistake; RUNG_INVALID for a batch below 1, a symbol without a value, an
// unknown output, gradients without a loss, a precision that is none; RUNG_UNSUPPORTED for native
// compute that the processor does not have; RUNG_MISMATCH when shapes do not fit at these sizes;
// RUNG_NOT_FOUND for a pattern that no layer matches; RUNG_NO_MEMORY, also where the plan takes
// more than the budget and cannot do with less.
RUNG_API rung_status rung_compile(const rung_graph *graph, rung_state *state,
                                  const rung_compile_options *options, rung_plan **plan_out);
RUNG_API void rung_plan_destroy(rung_plan **plan);

// Memory that several plans take turns in: it is as large as the largest of them needs. Plans that
// share an arena must not run at the same time, and running one destroys the others' outputs.
RUNG_API rung_status rung_arena_create(rung_device *device, rung_arena **arena_out);
RUNG_API void rung_arena_destroy(rung_arena **arena);

// Says where an input's values lie for the next runs: contiguous row-major, dtype and shape as
// declared with this plan's sizes. Not copied: the memory is read during the run.
// Errors: RUNG_NOT_FOUND naming the inputs there are.
RUNG_API rung_status rung_plan_bind(rung_plan *plan, const char *input, const void *data);

// Numbers of a step that random operators are keyed by. Default: all zero.
RUNG_API void rung_plan_set_step(rung_plan *plan, uint64_t seed, uint64_t step);

// What the loss is multiplied by before backward, so that small gradients do not vanish in float16:
// so are all gradients. Give the same number to rung_optimizer_step (rung_optimizer_update's
// loss_scale), which divides by it before anything else; rung/loss_scale.h finds it. Default: 1.
RUNG_API void rung_plan_set_loss_scale(rung_plan *plan, float scale);

// Runs forward: all outputs are computed.
RUNG_API rung_status rung_plan_forward(rung_plan *plan);
// Runs backward after forward: the gradients of the state are overwritten (what PyTorch calls
// zero_grad(set_to_none=True) has no counterpart: there is nothing to zero), or, by a plan compiled
// with `accumulate`, added to.
//
// Accumulating by hand: the first micro-batch of a group runs in a plan without `accumulate`, the
// others in one with it. Each divides its loss by the labels of its own batch: what is added are
// sums of means. A trainer's are the mean of the whole group.
RUNG_API rung_status rung_plan_backward(rung_plan *plan);

// A view of an output, valid until the next run of a plan in the same arena.
RUNG_API rung_status rung_plan_output(const rung_plan *plan, const char *output,
                                      rung_view *view_out);
// The loss of the last forward.
RUNG_API rung_status rung_plan_loss(const rung_plan *plan, float *loss_out);

// The gradient of a parameter as the last backward left it, in the plan's precision.
// Errors: RUNG_NOT_FOUND when the plan computes no gradient of that name.
RUNG_API rung_status rung_plan_grad(const rung_plan *plan, const char *parameter,
                                    rung_view *view_out);

typedef struct rung_plan_memory {
    uint64_t arena;       // bytes of activations, gradients of activations and workspace
    uint64_t lower_bound; // the largest set of them that is live at once
    uint64_t params, grads, buffers;
    uint64_t statistics; // kept from forward to the end of the step, of each shard
    // The lower bound by kind: what lives at its step.
    uint64_t peak_activations, peak_gradients, peak_workspace;
} rung_plan_memory;

RUNG_API rung_plan_memory rung_plan_memory_use(const rung_plan *plan);

// A listing of the plan: every step with its operator, shapes, kernel, why others were refused,
// flops, bytes and place in the arena. Allocated; freed with free().
RUNG_API rung_status rung_plan_explain(const rung_plan *plan, char **text_out);

// Number of steps (kernel calls) of forward and backward.
RUNG_API void rung_plan_steps(const rung_plan *plan, int *forward_out, int *backward_out);

// What recomputation does: steps of backward that do forward ones again, and the time that is
// predicted for them as a share of the step's without them.
RUNG_API void rung_plan_recomputed(const rung_plan *plan, int *steps_out, double *extra_out);

#ifdef __cplusplus
}
#endif

#endif
