// SPDX-License-Identifier: Apache-2.0
// What an operator is: a descriptor (rungi_op) with its shape rule, its cost, what its backward
// passes read, and for each pass an ordered list of kernels. Operators know nothing of graphs: the
// planner (src/graph) describes one piece of work to a kernel by a rungi_query, and the tests and
// benchmarks do the same from the operator's case table.
//
// Adding an operator: docs/adding-an-operator.md.
#ifndef RUNGI_OPS_OP_H
#define RUNGI_OPS_OP_H

#include "base/text.h"
#include "device/device.h"
#include "ops/layout.h"
#include "rung/context.h"
#include "rung/tensor.h"

typedef struct rungi_op rungi_op;
typedef struct rungi_case rungi_case; // see ops/cases.h

// ---- types and shape rules --------------------------------------------------------------------

typedef struct rungi_type {
    rung_dtype dtype;
    rung_shape shape;
} rungi_type;

// Input and output of a shape rule. The rule checks `in` and `attr` and fills `out` (visible
// outputs first, then hidden ones: what forward keeps for backward). Dimensions are numbers here;
// symbolic ones were replaced before.
typedef struct rungi_infer {
    const void *attr;
    const rungi_type *in;
    int n_in;
    rungi_type *out;
} rungi_infer;

// ---- kernels ----------------------------------------------------------------------------------

// One tensor as a kernel sees it. `buffer` indexes the pointer table of the call; -1 means that the
// tensor is absent (an optional input, a gradient nobody wants, a hidden output nobody needs).
typedef struct rungi_operand {
    rung_dtype dtype;
    rungi_layout layout;
    rung_shape shape;
    int buffer;
} rungi_operand;

// Forward: an elementwise operator that a kernel is asked to apply to its output before storing it.
// Backward: the elementwise operator that follows; its own backward is to be applied to the
// gradient while that is read.
typedef struct rungi_fused {
    const rungi_op *op;
    const void *attr;
    int node;
    const rungi_operand *in; // all its inputs; in[0] is the value that is never stored, whose
                             // shape and layout it tells
    int n_in;
    const rungi_operand
        *out; // backward: the output that its backward reads; absent where it was
              // made of this operator's output 0 alone, so that a kernel can tell it
} rungi_fused;

enum { RUNGI_FORWARD = -1 };

// Which kernels may be chosen: `plan.kernels`. The reference is always allowed, last.
typedef enum rungi_policy {
    RUNGI_POLICY_ALL,     // own kernels first, then the library's
    RUNGI_POLICY_LIBRARY, // the library's first; own ones only where the library has none
    RUNGI_POLICY_REFERENCE,
} rungi_policy;

// One piece of work, complete: all that a kernel may depend on when it says whether it can run and
// prepares itself. It outlives the kernel's state.
typedef struct rungi_query {
    const rungi_op *op;
    const void *attr;
    int node;                  // the layer's place in its graph
    uint64_t key;              // the layer's id, fixed before any pass: keys its random numbers
    int pass;                  // RUNGI_FORWARD or an index into op->backward
    const rungi_operand *in;   // n_in forward inputs
    const rungi_operand *out;  // n_out forward outputs, hidden ones included
    const rungi_operand *gout; // gradients of the outputs; backward passes only
    const rungi_operand *gin;  // gradients of the inputs, to be written; backward passes only
    int n_in, n_out;
    // Forward: applied in order to output 0; out[0] is then the last one's output, and hidden
    // outputs of an operator that `joins` come after those of this one. Backward: one at most;
    // gout[0] is then the gradient of its output.
    const rungi_fused *fused;
    int n_fused;
    bool training;  // layers behave as in training (batch statistics, dropout)
    bool gradients; // a backward pass follows: hidden outputs are needed
    int threads;
    rung_isa isa;
    bool winograd;    // convolutions may round as Winograd's do: `plan.winograd`
    bool winograd_f4; // those in bf16 in tiles of 4x4 instead of 2x2: `plan.winograd_bf16`
    bool native;      // the processor has instructions for these 16 bits: `train.compute`
    // Operands of 16 bits around a float32 kernel: how (ops/halves.h). NULL: it takes all operands
    // as they are.
    const struct rungi_halves *halves;
    // The batch is that of all ranks, which run this same step at once and meet in it (rt->group).
    // Only where the operator `meets`.
    bool synchronized;
    // Backward does this forward step once more. What `finish` reads is there from the first time.
    bool again;
    // The gradients are added to what is there, each as it would be stored. Only where the kernel
    // `adds`; known when it runs, not when it is prepared.
    bool adds;
    // Forward: sums by channel (ops/channel_sums.h), to be left beside output 0, or of input 0, to
    // be taken instead of reading that for them. NULL: none.
    const rungi_operand *sums_out, *sums_in;
} rungi_query;

// Takes a piece of a parameter's gradient, elements [at, at + count), and updates the parameter
// with it, so that the gradient is never stored. Pieces may come from several threads at once, each
// element once.
typedef struct rungi_update {
    void (*apply)(void *self, int64_t at, const float *grad, int64_t count);
    // The same with factor * x[i] as the gradient; `largest` is the largest magnitude of x, or NaN
    // where one of them is. NULL: only `apply` does it.
    void (*apply_scaled)(void *self, int64_t at, float factor, const float *x, float largest,
                         int64_t count);
    void *self; // NULL: the gradient is to be stored
    // A gradient of zeros changes nothing (but the sign of a zero): it need not be handed over.
    bool zero_is_nothing;
} rungi_update;

// Ranks that run a step at once, each on its part of a batch, and tell each other numbers in it.
typedef struct rungi_group {
    int size;
    // Collective: rank r's `count` numbers are at *all_out + r * *stride_out until the next call.
    rung_status (*gather)(void *self, const double *own, int64_t count, const double **all_out,
                          int64_t *stride_out);
    void *self;
} rungi_group;

// Numbers that change from step to step.
typedef struct rungi_runtime {
    uint64_t seed;
    uint64_t step;
    int64_t sample_offset;       // position of this shard's first sample in the global batch
    int64_t samples;             // of this shard
    const double *normalizer;    // per node id: the global divisor of a loss; NULL: the local one
    const rungi_update *updates; // per buffer, for kernels that update; NULL: none this time
    const rungi_group *group;    // for synchronized steps; NULL: there is no other rank
} rungi_runtime;

typedef struct rungi_call {
    const rungi_query *q;
    void *state;      // what the kernel's create made, or NULL
    void *const *ptr; // pointer table
    void *workspace;  // the bytes asked for, aligned to 64
    const rungi_runtime *rt;
} rungi_call;

// What a kernel asks for when it is prepared.
typedef struct rungi_setup {
    void *state;      // private, freed by the kernel's destroy
    size_t workspace; // bytes of scratch during the call; contents are lost between calls
} rungi_setup;

typedef enum rungi_kernel_kind { RUNGI_REFERENCE, RUNGI_LIBRARY, RUNGI_OWN } rungi_kernel_kind;

// Why a kernel refuses: one short phrase.
typedef struct rungi_reason {
    char text[96];
} rungi_reason;

typedef struct rungi_kernel {
    const char *name; // unique within the operator
    rungi_kernel_kind kind;
    // Can it do this work? On false `why` says what is in the way. NULL: always.
    bool (*can_run)(const rungi_query *q, rungi_reason *why);
    // Was it measured to be the fastest for work of this shape? Such a kernel goes before the
    // others of its list. NULL: never.
    bool (*prefers)(const rungi_query *q);
    // Float32: was it measured to be faster around operands of 16 bits than the kernels that
    // compute in them? NULL: never.
    bool (*outruns_halves)(const rungi_query *q);
    // It applies the query's fused operators, those that can_run accepts. Without this it is never
    // asked to.
    bool fuses;
    // Backward: it can hand each parameter's gradient to a rungi_update instead of storing it.
    bool updates;
    // Backward: it can add its gradients to those that are there instead of storing them: the bits
    // are those of storing them elsewhere and adding.
    bool adds;
    // Forward: in how many parts it can leave sums by channel of output 0, which is float32; 0 or
    // NULL: it cannot.
    int64_t (*sum_parts)(const rungi_query *q);
    // Forward: would it take sums by channel of input 0 from whoever made that? NULL: no.
    bool (*takes_sums)(const rungi_query *q);
    // It takes operands of 16 bits as they are. Others are given float32 copies of them, piece by
    // piece, by the planner (graph/storage.h).
    bool halves;
    // Operations that it executes, where these are others than the operator's. NULL: those.
    double (*flops)(const rungi_query *q);
    // Makes the state for this work. NULL: there is none.
    rung_status (*create)(const rungi_query *q, rungi_setup *setup);
    void (*destroy)(void *state);
    rung_status (*run)(const rungi_call *c);
} rungi_kernel;

// A refusal with its reason: `return rungi_refuse(why, "needs AVX2")`.
bool rungi_refuse(rungi_reason *why, const char *fmt, ...) RUNG_PRINTF(2, 3);

// For can_run: float32 alone; the same and AVX2; at most one ReLU fused.
bool rungi_f32_only(const rungi_query *q, rungi_reason *why);
bool rungi_f32_avx2(const rungi_query *q, rungi_reason *why);
bool rungi_fuses_relu(const rungi_query *q, rungi_reason *why);

// ---- operators --------------------------------------------------------------------------------

// Class for autocast (graph/passes/autocast.c): low precision pays and is safe, high is needed, or
// as the inputs come.
typedef enum rungi_precision { RUNGI_LOW, RUNGI_HIGH, RUNGI_FOLLOW } rungi_precision;

// Which layouts of images an operator's kernels take.
typedef enum rungi_layouts {
    RUNGI_LAYOUTS_PLAIN, // plain only
    RUNGI_LAYOUTS_SAME,  // any, the same for all operands of the full shape (elementwise)
    RUNGI_LAYOUTS_IMAGE, // any for input 0 and output 0, chosen together; the rest is plain
    RUNGI_LAYOUTS_EACH,  // any, the same for all images, whose shapes may differ (concat, slice)
} rungi_layouts;

enum { RUNGI_ALL = -1 };

// A pass: forward, or one of the backward passes. Masks have bit i for input or output i; inputs
// from 31 on share bit 31.
typedef struct rungi_pass {
    const char *name;   // "forward", "backward", "backward_data", ...; NULL ends a list
    uint32_t gives;     // backward: inputs whose gradient it writes
    uint32_t reads_in;  // backward: forward inputs that it reads
    uint32_t reads_out; // backward: forward outputs (hidden ones included) that it reads
    // Backward: the gradient of input `identity - 1` is the gradient of output 0 unchanged (0: no).
    int identity;
    // Forward: output 0 may be written over input 0. Backward: the gradient of input 0 may be
    // written over that of output 0.
    bool in_place;
    const rungi_kernel *const *kernels[RUNGI_DEVICE_KINDS]; // best first, reference last, NULL ends
} rungi_pass;

typedef struct rungi_cost {
    double flops; // multiplications and additions counted apart
    double bytes; // memory that must move when nothing is cached: each operand once
} rungi_cost;

struct rungi_op {
    const char *name;
    size_t attr_size;
    int min_in, max_in; // RUNGI_ALL: no upper limit
    int n_out, n_hidden;
    rungi_precision precision;
    uint32_t stays; // inputs (bit i) that autocast leaves as they are: a normalization's numbers
    // Inputs (bit i) whose first dimension counts samples, as that of all outputs then does, where
    // each sample is computed by itself and gradients of the other inputs are sums over samples. 0:
    // samples depend on each other.
    uint32_t by_sample;
    // The same for outputs: input 1 and, if there is one, 2 have a first dimension that counts the
    // features of the last dimension of output 0, each of which is computed by itself.
    bool by_feature;
    rungi_layouts layouts;
    // The output is the input's bytes under another shape: no kernel, one buffer.
    bool view;
    // A kernel of the step before may apply its forward before it stores (plan.fuse), although the
    // output has another shape. Hidden outputs are then the last outputs of that step.
    bool joins;
    // Is the output the input unchanged in this mode (dropout in evaluation)? Then there is no
    // kernel: both are one buffer, and so are their gradients. NULL: never.
    bool (*passes_through)(const void *attr, bool training);
    rung_status (*infer)(rungi_infer *i);
    // Refuses a use that the shape rule cannot see is impossible: what depends on the pass or on
    // training mode. Called before kernels are chosen. NULL: nothing.
    rung_status (*check)(const rungi_query *q);
    // Adds what distinguishes this use ("kernel 3x3, pad 1") to a listing. NULL: nothing.
    void (*describe)(const void *attr, rungi_string *out);
    // Floating-point operations of the query's pass. NULL: one per element of output 0.
    double (*flops)(const rungi_query *q);
    rungi_pass forward;
    rungi_pass backward[3];
    // For losses and means: the number that the sum is divided by, counted over this shard's
    // inputs before forward. The planner adds the shards' numbers. NULL: none.
    double (*normalizer)(const rungi_query *q, void *const *ptr);
    // How many numbers a rank tells the others in this pass of a synchronized query; zeros stand
    // for a rank without samples. NULL: the operator cannot be synchronized.
    int64_t (*meets)(const rungi_query *q);
    // What happens once a training step after all shards have run forward, in shard order (running
    // statistics). Hidden outputs of shards are kept until then, other outputs are not. NULL:
    // nothing.
    rung_status (*finish)(const rungi_call *const *shards, int count);
    const rungi_case *cases; // ended by a case without a name
};

// All operators, in the order of ops.def, ended by NULL.
extern const rungi_op *const rungi_ops[];
// The operator of that name, or NULL.
const rungi_op *rungi_op_find(const char *name);

// The pass of the query, and its kernel list on a kind of device.
const rungi_pass *rungi_query_pass(const rungi_query *q);
const rungi_kernel *const *rungi_query_kernels(const rungi_query *q, rungi_device_kind kind);

// Has it an operand of 16 bits?
bool rungi_query_has_halves(const rungi_query *q);
// Can the kernel do it, fused operators included?
bool rungi_kernel_can_run(const rungi_kernel *kernel, const rungi_query *q, rungi_reason *why);

// Of the kernels of the query's list that the policy allows and that can run the first that is
// preferred, else the first; with `log` not NULL, each refusal before it is added as
// "name: reason; ". Kernels that do not take operands of 16 bits are passed over where there are
// any.
const rungi_kernel *rungi_kernel_choose(const rungi_query *q, rungi_device_kind kind,
                                        rungi_policy policy, rungi_string *log);

rungi_cost rungi_query_cost(const rungi_query *q);
// Operations that the kernel executes for the query.
double rungi_kernel_flops(const rungi_kernel *kernel, const rungi_query *q);

// For `flops` of what only moves elements: 0.
double rungi_no_flops(const rungi_query *q);

static inline uint32_t rungi_bit(int i)
{
    return (uint32_t)1 << (i < 31 ? i : 31);
}

static inline void *rungi_ptr(const rungi_call *c, const rungi_operand *o)
{
    return o->buffer < 0 ? NULL : c->ptr[o->buffer];
}

// What takes a gradient in place of its buffer; NULL: store it.
static inline const rungi_update *rungi_update_of(const rungi_call *c, const rungi_operand *grad)
{
    if (!c->rt->updates || grad->buffer < 0)
        return NULL;
    const rungi_update *u = &c->rt->updates[grad->buffer];
    return u->self ? u : NULL;
}

static inline int64_t rungi_shape_size(const rung_shape *shape)
{
    int64_t n = 1;
    for (int i = 0; i < shape->rank; i++)
        n *= shape->dim[i];
    return n;
}

static inline int64_t rungi_operand_count(const rungi_operand *o)
{
    return rungi_shape_size(&o->shape);
}

static inline size_t rungi_operand_bytes(const rungi_operand *o)
{
    return (size_t)rungi_operand_count(o) * rung_dtype_size(o->dtype);
}

#endif
