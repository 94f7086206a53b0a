// SPDX-License-Identifier: Apache-2.0
// A graph: a model as named values and operators.
//
// Building calls are sticky: the first mistake is kept in the graph, with the layer's name, every
// later call does nothing, and rung_graph_check (or rung_compile) reports it. So model code needs
// no checks:
//
//     rung_value x = rung_input(g, "image", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 784));
//     rung_value h = rung_relu(g, rung_linear(g, x, "fc1", .out = 512));
//     rung_value y = rung_linear(g, h, "fc2", .out = 10);
//     rung_graph_output(g, "logits", y);
//
// Layers with parameters are in rung/nn.h, operators without in rung/ops.h.
#ifndef RUNG_GRAPH_H
#define RUNG_GRAPH_H

#include "rung/context.h"
#include "rung/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rung_graph rung_graph;

// A value of a graph: an input, a parameter, a buffer or what an operator gives. {0} is "no value".
typedef struct rung_value {
    int id;
} rung_value;

static inline bool rung_value_given(rung_value v)
{
    return v.id != 0;
}

// Makes an empty graph. The caller owns it and destroys it after the states and plans made of it.
RUNG_API rung_status rung_graph_create(rung_context *context, rung_graph **graph_out);
RUNG_API void rung_graph_destroy(rung_graph **graph);

// The first mistake made while building, as the status and error record of this call; RUNG_OK when
// there is none.
RUNG_API rung_status rung_graph_check(const rung_graph *graph);

// An input that is given anew at each step. Dimensions may be symbolic: RUNG_BATCH, or what
// rung_symbol returned.
RUNG_API rung_value rung_input(rung_graph *graph, const char *name, rung_dtype dtype,
                               rung_shape shape);

// A named symbolic dimension (a text's length, ...); asking for the same name again gives the same
// number. Its value is given to rung_compile.
RUNG_API int64_t rung_symbol(rung_graph *graph, const char *name);

// Distributions of initial values, those of torch.nn.init.
typedef enum rung_init_kind {
    RUNG_INIT_ZEROS,
    RUNG_INIT_ONES,
    RUNG_INIT_CONSTANT,        // a
    RUNG_INIT_UNIFORM,         // in [a, b)
    RUNG_INIT_NORMAL,          // mean a, standard deviation b
    RUNG_INIT_TRUNC_NORMAL,    // mean a, standard deviation b, kept within [low, high]
    RUNG_INIT_FAN_IN,          // a layer's bias: uniform in +-1/sqrt(fan), fan being its weight's
    RUNG_INIT_KAIMING_UNIFORM, // fan in, leaky ReLU of slope a
    RUNG_INIT_KAIMING_NORMAL,  // fan out, ReLU
    RUNG_INIT_XAVIER_UNIFORM,  // gain a
    RUNG_INIT_XAVIER_NORMAL,   // gain a
} rung_init_kind;

// How a parameter starts. Fans come from its shape as in PyTorch: [out, in, ...], the dimensions
// after the second multiplying both.
typedef struct rung_init {
    rung_init_kind kind;
    double a, b;
    double low, high;
    int64_t fan; // RUNG_INIT_FAN_IN
} rung_init;

#define RUNG_INIT_CONSTANT_OF(value) ((rung_init){.kind = RUNG_INIT_CONSTANT, .a = (value)})
// Weights of Linear and Conv2d: kaiming_uniform_(a=sqrt(5)), which is +-1/sqrt(fan in).
#define RUNG_INIT_WEIGHT ((rung_init){.kind = RUNG_INIT_KAIMING_UNIFORM, .a = 2.23606797749979})
// Biases of Linear and Conv2d, by the fan in of their weight.
#define RUNG_INIT_BIAS(fan_in) ((rung_init){.kind = RUNG_INIT_FAN_IN, .fan = (fan_in)})
// Convolutions of torchvision's ResNet: kaiming_normal_(mode="fan_out", nonlinearity="relu").
#define RUNG_INIT_RESNET ((rung_init){.kind = RUNG_INIT_KAIMING_NORMAL})
#define RUNG_INIT_NORMAL_OF(mean, std) \
    ((rung_init){.kind = RUNG_INIT_NORMAL, .a = (mean), .b = (std)})

typedef struct rung_param_options {
    rung_init init; // {0} is zeros
    bool no_decay;  // weight decay does not apply
} rung_param_options;

// A trainable parameter of float32. Its name is prefixed with the scopes in force. Its shape must
// not depend on a symbolic dimension.
RUNG_API rung_value rung_param(rung_graph *graph, const char *name, rung_shape shape,
                               const rung_param_options *options);

// A buffer: part of the state that no gradient reaches (running statistics).
RUNG_API rung_value rung_buffer(rung_graph *graph, const char *name, rung_dtype dtype,
                                rung_shape shape, double initial);

// Names between push and pop get "scope." before them: rung_scope_push(g, "layer1.0").
RUNG_API void rung_scope_push(rung_graph *graph, const char *scope);
RUNG_API void rung_scope_pop(rung_graph *graph);

// Names a value as an output that can be read after a step. The value stays the graph's.
RUNG_API void rung_graph_output(rung_graph *graph, const char *name, rung_value value);

// Names the scalar that training minimises. There is one; it is also the output "loss".
RUNG_API void rung_graph_loss(rung_graph *graph, rung_value value);

// Shape of a value; symbolic dimensions show as RUNG_BATCH or their symbol, dimensions computed
// from symbolic ones as -1. A scalar for "no value".
RUNG_API rung_shape rung_value_shape(const rung_graph *graph, rung_value value);
RUNG_API rung_dtype rung_value_dtype(const rung_graph *graph, rung_value value);

// Layers matching a pattern (shell wildcards over layer names, "layer1.*") behave as in evaluation
// even in a training plan: frozen batch normalization. Returns how many layers matched.
RUNG_API int rung_graph_set_eval(rung_graph *graph, const char *pattern);

// Parameters matching the pattern get no gradient and are not updated. Returns how many matched.
RUNG_API int rung_graph_freeze(rung_graph *graph, const char *pattern);

// Parameters that take no part in the loss and are not frozen: they get no gradient, and the
// optimizer leaves them as they are (PyTorch's grad None). Writes the names of the first `room`,
// which are the graph's, and returns how many there are; -1 when there is no memory.
RUNG_API int rung_graph_unused(const rung_graph *graph, const char **names, int room);

#ifdef __cplusplus
}
#endif

#endif
