// SPDX-License-Identifier: Apache-2.0
// Inside of an optimizer, and the parts of a step for callers that need them one by one (fused
// backward passes, optimizers sharded over ranks).
#ifndef RUNGI_OPTIM_OPTIMIZER_H
#define RUNGI_OPTIM_OPTIMIZER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/team.h"
#include "optim/step_kernels.h"
#include "rung/loss_scale.h"
#include "rung/optim.h"

// Elements up to which a gap between two segments counts as padding: a run may reach over it.
enum { RUNGI_OPTIM_PADDING = 64 };
// Elements of one partial sum of the gradient norm.
enum { RUNGI_OPTIM_BLOCK = 4096 };
// Elements below which a pass does not open a parallel region.
enum { RUNGI_OPTIM_PARALLEL = 32768 };

// A parameter that is updated piece by piece while its gradient is computed.
typedef struct rungi_optim_part {
    rungi_step_fn *step;
    rungi_step_scaled_fn *step_scaled;
    rungi_step_coef coef;
    bool plain;                                  // p -= lr * g, and nothing else
    float *param, *state[RUNG_OPTIMIZER_STATES]; // of its first element; NULL: no such state
    atomic_bool bad;                             // a gradient was not finite
} rungi_optim_part;

typedef struct rungi_optim_segment {
    char *name; // owned
    int64_t begin, end;
    int group;
    bool frozen;
    int64_t steps;
    bool taken;    // this step's update is done in parts
    bool left_out; // of the runs, because it was taken when they were planned
    rungi_optim_part part;
    int64_t first_block, block_count; // of the gradient norm; none while frozen
    double norm;
    double param_squares, update_squares; // of the last step that measured
} rungi_optim_segment;

// Adjacent segments with equal settings, updated by one call.
typedef struct rungi_optim_run {
    int64_t begin, end;
    int group;
    int64_t steps; // taken before the next step
} rungi_optim_run;

typedef struct rungi_optim_block {
    int64_t begin, end;
    int64_t run; // that it lies in
} rungi_optim_block;

// Replicas of the parameters on other ranks, whose gradients have not been added yet. Both
// functions are for elements [begin, begin + count), at most RUNGI_OPTIM_BLOCK, and are called by
// any thread.
typedef struct rungi_optim_replicas {
    void (*add)(void *user, int64_t begin, int64_t count,
                float *sum_out);                            // all replicas' gradients
    void (*give)(void *user, int64_t begin, int64_t count); // parameters to the others: updated
    void *user;
} rungi_optim_replicas;

struct rung_optimizer {
    rung_optimizer_options options; // its groups are owned
    rung_param_group *groups;       // [group_count + 1]; [0] is the optimizer's own
    rungi_optim_segment *segments;
    int64_t segment_count;
    int64_t size; // end of the last segment
    // What follows is planned again when a segment is frozen, thawed or given another step count.
    bool planned;
    rungi_optim_run *runs;  // room for segment_count
    rungi_step_coef *coefs; // one a run, filled in each step
    int64_t run_count;
    int64_t run_elements;
    int64_t part_begin, part_end;       // elements whose state is here, and that it updates
    int64_t part_elements, part_offset; // of the runs: how many, and how many come before
    rungi_optim_block *blocks;          // room for the blocks of all segments
    double *block_sums;
    double (*block_updates)[2]; // of parameters and updates; made when first measured
    int64_t block_count;
    int64_t summed; // blocks, the first ones, whose sums are there for the next norm
    int state_count;
    float *state[RUNG_OPTIMIZER_STATES];
    bool owns_state;
    rungi_step_fn *step; // the loop of this optimizer
    rungi_step_scaled_fn *step_scaled;
    double (*sum_squares)(const float *x, int64_t count);
    void (*to_bf16)(uint16_t *to, const float *from, int64_t count);
    rungi_team *team;                     // NULL: passes take threads of OpenMP
    const rungi_optim_replicas *replicas; // NULL: gradients are what a step is given
};

// Passes are run by these threads, borrowed for the optimizer's life, instead of OpenMP's where
// there are as many as the pass would take (NULL: never): where a team has computed the gradients,
// OpenMP's threads, which go on looking for work for a while after a pass, would take its cores.
// The bits are the same.
void rungi_optimizer_use_team(rung_optimizer *optimizer, rungi_team *team);

// optimizer_replicas.c. Steps from now on (NULL: no more) make the gradients of their elements
// while they update them, and give the parameters on: one pass in place of three, for an optimizer
// that is sharded over the ranks. The gradients that a step is given are not looked at. Borrowed.
// The bits are those of a step that is given the sums.
void rungi_optimizer_use_replicas(rung_optimizer *optimizer, const rungi_optim_replicas *replicas);
// Can such a step be this update? Not one that looks at all gradients before it changes anything,
// measures, or rounds to 16 bits.
bool rungi_optimizer_takes_replicas(const rung_optimizer_update *update);
// Fails for the first gradient of its part that is not finite; RUNG_OK: there is none.
rung_status rungi_optimizer_look_at_replicas(const rung_optimizer *optimizer);
rung_status rungi_optimizer_fail_element(const rungi_optim_segment *segment, int64_t i,
                                         float value);

// optimizer_spread.c: calls fn for each of `pieces` pieces, on as many threads as
// rungi_optimizer_threads says or those of the team; a thread has neighbouring ones.
typedef void (*rungi_optim_piece_fn)(void *arg, int64_t piece);
void rungi_optimizer_spread(const rung_optimizer *optimizer, int threads, int64_t pieces,
                            rungi_optim_piece_fn fn, void *arg);

// rung_optimizer_create on memory that the caller provides for the state: as many buffers as
// rungi_optimizer_states(options) says, zeroed, each as long as the last segment's end, borrowed
// for the optimizer's life. NULL: allocated by the optimizer.
rung_status rungi_optimizer_create_in(const rung_context *context,
                                      const rung_optimizer_options *options,
                                      const rung_segment *segments, int64_t count,
                                      float *const *state, rung_optimizer **optimizer_out);

// The part of an optimizer that is sharded over ranks (ZeRO stage 1, Rajbhandari et al. 2020): it
// holds the state of elements [begin, end) alone, multiples of 16, and updates these; norms and
// step counts are those of all segments. `state` as for rungi_optimizer_create_in, end - begin
// floats long. rungi_optimizer_part_state gives the state of its part,
// rung_optimizer_state_data nothing (NULL).
rung_status rungi_optimizer_create_part(const rung_context *context,
                                        const rung_optimizer_options *options,
                                        const rung_segment *segments, int64_t count, int64_t begin,
                                        int64_t end, float *const *state,
                                        rung_optimizer **optimizer_out);

// State number `index` of elements [*begin_out, *end_out): all of them, or its part.
float *rungi_optimizer_part_state(const rung_optimizer *optimizer, int index, int64_t *begin_out,
                                  int64_t *end_out);

// State buffers that such an optimizer has.
int rungi_optimizer_states(const rung_optimizer_options *options);

// Sorts segments into runs and blocks, if anything changed since it was last done.
void rungi_optimizer_plan(rung_optimizer *optimizer);

// optimizer_norm.c: global L2 norm of grads * scale over the segments that are not frozen, in
// float64: sums over fixed blocks of 4096 elements, added in order. *nonfinite_out: the first
// segment that holds NaN or infinity, or -1. Keeps each segment's norm.
double rungi_optimizer_norm(rung_optimizer *optimizer, const float *grads, double scale,
                            int threads, int64_t *nonfinite_out);

// Makes sums for the next norm, which does not read these gradients again, while they lie in the
// caches: rungi_optimizer_begin_sums forgets all earlier ones; then the gradients before element
// `end` are complete, of each call more. The bits are those of a norm that sums all itself.
void rungi_optimizer_begin_sums(rung_optimizer *optimizer);
void rungi_optimizer_sum(rung_optimizer *optimizer, const float *grads, int64_t end, int threads);

// The norm of an optimizer that is sharded over ranks, which have the gradients of their parts
// alone: the sums of squares of the blocks that begin in its part, zeros for the others. Once the
// caller has added them over the ranks, in place, the next norm is made of them. A block that
// reaches over the end of a part needs the gradients behind it: at most RUNGI_OPTIM_BLOCK.
void rungi_optimizer_part_sums(rung_optimizer *optimizer, const float *grads, int threads,
                               double **sums_out, int64_t *count_out);

// Factor that brings a gradient of that norm down to max_norm, as torch.nn.utils.clip_grad_norm_:
// min(1, max_norm / (norm + 1e-6)).
double rungi_clip_coefficient(double norm, double max_norm);

// optimizer_apply.c: the update alone: gradients times `scale`, each kept within update's limit,
// low and measure as it says. Counts the step. Whether all gradients were finite: found in the same
// pass, when the parameters of those that were not are spoiled already.
bool rungi_optimizer_apply(rung_optimizer *optimizer, float *params, const float *grads,
                           const rung_optimizer_update *update, double scale);
// Numbers of a step for parameters of a group that have taken so many.
rungi_step_coef rungi_optimizer_coef(const rung_optimizer *optimizer, int group, int64_t steps,
                                     const rung_rates *rates, double scale, double limit);
// Largest gradient that an update leaves; infinity: any.
double rungi_optimizer_limit(const rung_optimizer_update *update);
// Threads that a pass over all elements takes.
int rungi_optimizer_threads(const rung_optimizer *optimizer, int threads);

// Optimizers that have other parameters of the same network, on other ranks.
typedef struct rungi_optimizer_peers {
    // Brings the sums of squares of this optimizer's segments (0 of frozen ones), in their order,
    // together with those of the others: *total_out is the sum of all. Called by each of them.
    rung_status (*share)(void *user, const double *sums, int64_t count, double *total_out);
    void *user;
} rungi_optimizer_peers;

// rung_optimizer_step whose norm is that of all peers' gradients (NULL: there are none), and which
// is left out where a gradient of any of them is not finite: that one fails, unless such steps are
// to be skipped.
rung_status rungi_optimizer_step_with(rung_optimizer *optimizer, float *params, const float *grads,
                                      const rung_optimizer_update *update,
                                      const rungi_optimizer_peers *peers,
                                      rung_optimizer_report *report_out);
// rung_loss_scale_step with peers. Of steps in a row that are left out at a scale of 1 that one
// fails whose gradient is not finite.
rung_status rungi_loss_scale_step_with(rung_loss_scale *scale, rung_optimizer *optimizer,
                                       float *params, const float *grads,
                                       const rung_optimizer_update *update,
                                       const rungi_optimizer_peers *peers,
                                       rung_optimizer_report *report_out);
// What it does after a step whose gradients were `scale` times the true ones: finds the next scale.
rung_status rungi_loss_scale_note(rung_loss_scale *scale, const rung_optimizer *optimizer,
                                  const rung_optimizer_report *report);
// Refuses an update that makes no sense for this optimizer, as rung_optimizer_step does.
rung_status rungi_optimizer_check(const rung_optimizer *optimizer,
                                  const rung_optimizer_update *update);

// Does this update look at all gradients before it changes anything?
bool rungi_optimizer_needs_all(const rung_optimizer_update *update);

// The next step of a segment is done in parts, by rungi_optimizer_apply_part (whose `self` this
// gives), before rung_optimizer_step does the rest with the same update (which may not need all
// gradients). The bits are those of a whole step.
rungi_optim_part *rungi_optimizer_take(rung_optimizer *optimizer, int64_t segment, float *params,
                                       const rung_optimizer_update *update);
// Updates elements [at, at + count) of the segment with their gradient. From any thread.
void rungi_optimizer_apply_part(void *self, int64_t at, const float *grad, int64_t count);

// The same where the gradient is factor * x[i], and `largest` the largest magnitude of x or NaN
// (rungi_update). For plain parts only.
void rungi_optimizer_apply_scaled(void *self, int64_t at, float factor, const float *x,
                                  float largest, int64_t count);

// The segment that begins at that element; -1: none.
int64_t rungi_optimizer_segment_at(const rung_optimizer *optimizer, int64_t begin);

#endif
