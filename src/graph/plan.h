// SPDX-License-Identifier: Apache-2.0
// Inside of a plan: tensors, steps, and the instances that run them.
//
// rung_compile goes through these stages, one file each:
//   build.c            live nodes and values, layouts -> tensors and steps, forward and backward
//   passes/autocast.c  which values are kept in 16 bits
//   passes/layout.c    which layout each image is kept in
//   passes/fuse.c      elementwise operators into the step before
//   passes/fuse_backward.c  their backward into the step that follows
//   select.c           a kernel for each step, and its state
//   passes/sums.c      sums by channel that one kernel leaves for another
//   passes/accumulate.c  gradients that kernels add to what is there themselves
//   arrange.c          the order of steps and their memory:
//   passes/recompute.c what backward computes again instead of keeping it (recompute_*.c beside it)
//   passes/update.c    which kernels update parameters themselves
//   passes/inplace.c   outputs written over inputs that nobody reads again
//   passes/memory.c    lifetimes, and a place in the arena for each tensor (passes/place.c)
//   instance.c         pointers, and the loop that runs the steps
#ifndef RUNGI_GRAPH_PLAN_H
#define RUNGI_GRAPH_PLAN_H

#include "graph/graph.h"
#include "graph/state.h"
#include "rung/plan.h"

typedef enum rungi_tensor_kind {
    RUNGI_TENSOR_ARENA, // placed by the memory plan
    RUNGI_TENSOR_INPUT, // bound before a run
    RUNGI_TENSOR_PARAM,
    RUNGI_TENSOR_GRAD, // gradient of a parameter
    RUNGI_TENSOR_BUFFER,
    RUNGI_TENSOR_CONST, // one scalar
    RUNGI_TENSOR_SEED,  // gradient of an output, bound before backward
    // Of the instance: kept until rungi_instances_finish, so that shards may take turns in an
    // arena.
    RUNGI_TENSOR_KEPT,
} rungi_tensor_kind;

typedef struct rungi_tensor {
    rungi_tensor_kind kind;
    rungi_operand operand; // operand.buffer is this tensor's own index
    int root;              // tensor in whose memory it lies; its own index when it has its own
    int value;             // value id in the graph; 0 for workspace and temporaries
    bool is_grad;
    bool keep;   // an output: lives until the next run
    double fill; // CONST
    size_t bytes;
    size_t offset;   // ARENA and KEPT roots: place in the arena or the instance's memory
    int first, last; // steps between which it lives; of a root, its aliases included
} rungi_tensor;

typedef struct rungi_step {
    rungi_query q;
    const rungi_kernel *kernel;
    rungi_setup setup; // state of the plan's own instance
    int workspace;     // tensor, or -1
    int updates;       // gradient (tensor) that may go into an update instead of memory, or -1
    char *refusals;    // why kernels before the chosen one were refused, or NULL
    bool again;        // a forward step that backward does once more
    bool stale;        // its operands changed after `setup` was made
} rungi_step;

typedef struct rungi_instance rungi_instance;

struct rung_plan {
    const rung_graph *graph;
    rung_state *state;
    rung_device *device;
    rung_compile_options options; // pointers in it are not kept
    int64_t symbols[RUNGI_MAX_SYMBOLS];
    RUNGI_ARRAY(rungi_tensor) tensors;
    RUNGI_ARRAY(rungi_step) steps;
    int n_forward;     // steps before this one are forward
    int *value_tensor; // value id -> tensor that holds it plain, as callers see it, or -1
    int seed;          // tensor of the gradient that backward begins with, or -1
    int *input_grad;   // value id of an input -> its gradient, if that is wanted and made, or -1
    size_t arena_bytes, lower_bound;
    int peak_step;              // during which lower_bound bytes live
    int n_again;                // steps of backward that do forward ones again
    double step_seconds;        // predicted time of all steps
    double again_seconds;       // of those that are done again
    size_t kept_bytes;          // of each instance
    RUNGI_ARRAY(void *) blocks; // operand lists, freed with the plan
    rung_arena *own_arena;      // when none was given
    rungi_instance *instance;   // the one behind the public calls
};

struct rung_arena {
    rung_device *device;
    char *data;
    size_t bytes;
    int generation; // changes when `data` does
};

// ---- stages -----------------------------------------------------------------------------------

// A zeroed block that lives as long as the plan; NULL when out of memory.
void *rungi_plan_block(rung_plan *p, size_t bytes);

// Adds a tensor; -1 when out of memory.
int rungi_plan_tensor(rung_plan *p, const rungi_tensor *tensor);
// Adds a tensor of the same memory as `root`, seen as `operand`.
int rungi_plan_alias(rung_plan *p, int root, const rungi_operand *operand);

rung_status rungi_plan_build(rung_plan *p);
// The dtype in which a node takes its input i, which is kept in `dtype`.
rung_dtype rungi_plan_takes(const rung_plan *p, const rungi_node *node, int i, rung_dtype dtype);
// Chooses the layout of every value and node: arrays by value id and node index.
rung_status rungi_plan_layouts(const rung_plan *p, const rungi_type *types,
                               rungi_layout *value_layout, rungi_layout *node_layout);
rung_status rungi_plan_fuse(rung_plan *p);
rung_status rungi_plan_fuse_backward(rung_plan *p);
rung_status rungi_plan_select(rung_plan *p);
// These two when kernels are chosen and not yet prepared.
rung_status rungi_plan_sums(rung_plan *p);
rung_status rungi_plan_accumulate(rung_plan *p);
// Rearranges backward so that forward steps are done again, to take at most `budget` bytes (0: what
// is cheap).
rung_status rungi_plan_recompute(rung_plan *p, uint64_t budget);
// After it: prepares kernels of new steps, and counts what is done again.
rung_status rungi_plan_prepare_again(rung_plan *p);
void rungi_plan_count_again(rung_plan *p);
void rungi_plan_update(rung_plan *p);
void rungi_plan_in_place(rung_plan *p);
rung_status rungi_plan_place(rung_plan *p);
// The stages from recompute on.
rung_status rungi_plan_arrange(rung_plan *p);
// Fills first and last of the tensors.
void rungi_plan_lifetimes(rung_plan *p);

// Seconds that a step takes, roughly, on a core like those of today: for comparing steps.
double rungi_step_seconds(const rungi_step *s);

// Takes a step out; the later ones move up.
void rungi_plan_remove_step(rung_plan *p, size_t index);
// How many steps read the memory of tensor t.
int rungi_plan_reads(const rung_plan *p, int tensor);
// Calls fn for each operand that the step reads and writes (absent ones left out).
typedef void (*rungi_operand_fn)(void *user, const rungi_operand *operand, bool write);
void rungi_step_operands(const rungi_step *s, rungi_operand_fn fn, void *user);

rungi_policy rungi_plan_policy(const rung_plan *p);

// ---- instances --------------------------------------------------------------------------------

// Pointers, kernel states and runtime numbers of one run of a plan at a time. A plan has one; each
// shard that runs beside others has its own.
struct rungi_instance {
    const rung_plan *plan;
    rung_arena *arena;
    int arena_generation;
    float *grads; // flat gradients that backward writes; the state's by default
    char *kept;   // memory of KEPT tensors
    // In a float64 plan, by tensor: the float32 values behind a leaf that is kept in float64 here.
    const void **behind;
    void **ptr; // pointer table, by tensor
    rungi_call *calls;
    double *normalizer; // by node
    rungi_runtime rt;
    rungi_update *updates; // by tensor; used where rt.updates is set
    bool own_states;
    int64_t *step_ns;              // by step: time spent, when profiling; else NULL
    struct rungi_step_work *works; // by step, for streams
};

// Makes an instance that writes parameter gradients to `grads` (flat, the state's size).
rung_status rungi_instance_create(const rung_plan *plan, rung_arena *arena, float *grads,
                                  bool first, rungi_instance **instance_out);
void rungi_instance_destroy(rungi_instance **instance);

// Makes an instance that stands for a shard that another rank computes, for rungi_instances_finish
// alone: it has no memory, and its KEPT tensors lie where rungi_instance_place_kept says
// (plan->kept_bytes from there on, borrowed).
rung_status rungi_instance_create_remote(const rung_plan *plan, rungi_instance **instance_out);
void rungi_instance_place_kept(rungi_instance *instance, void *kept);

// Input tensor of that name; -1 when this plan does not read it; -2 when there is none.
int rungi_plan_input(const rung_plan *plan, const char *name);
void rungi_instance_bind(rungi_instance *instance, int tensor, const void *data);

// What the gradient that backward begins with is: 1, or the scale of the loss.
void rungi_instance_set_loss_scale(rungi_instance *instance, float scale);
// The tensor that the gradient of a seeded output (rungi_output) is read from, to be bound with
// rungi_instance_bind before backward: contiguous and plain, in the dtype of plan->value_tensor.
// -1: this plan reads none.
int rungi_plan_seed(const rung_plan *plan, int value);

// Counts the losses' divisors over this instance's inputs: adds to counts[node].
void rungi_instance_count(rungi_instance *instance, double *counts);

// Runs steps [begin, end) on the calling thread.
rung_status rungi_instance_run(rungi_instance *instance, int begin, int end);
// The same as work of a stream, one piece a step: its delays apply to each.
rung_status rungi_instance_submit(rungi_instance *instance, rung_stream *stream, int begin,
                                  int end);

enum { RUNGI_MAX_SHARDS = 1024 }; // of a step, those of accumulated micro-batches included

// Calls what operators do once a step after all shards have run forward (running statistics).
rung_status rungi_instances_finish(rungi_instance *const *shards, int count);

#endif
