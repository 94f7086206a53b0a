// SPDX-License-Identifier: Apache-2.0
// The built-in networks, by name. Parameter names are torchvision's where it has the network.
#ifndef RUNG_MODELS_H
#define RUNG_MODELS_H

#include "rung/nn.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rung_stem {
    RUNG_STEM_IMAGENET, // 7x7 stride 2 and a pooling
    RUNG_STEM_CIFAR,    // 3x3 stride 1, no pooling
} rung_stem;

// {0} is the default of every member but `classes`.
typedef struct rung_model_options {
    int64_t classes;       // outputs
    const int64_t *hidden; // mlp: sizes of the hidden layers; NULL: one of 512
    int n_hidden;
    bool set_dropout; // `dropout` counts; else the model's own
    double dropout;   // probability, in every dropout layer of the model
    rung_stem stem;   // resnet18
} rung_model_options;

// Adds the named network to `graph`, from images [N, C, H, W] (of float32) to logits
// [N, classes], which is {0} after a mistake (kept in the graph).
// Errors: RUNG_NOT_FOUND naming the nearest model.
RUNG_API rung_status rung_model_build(rung_graph *graph, const char *name,
                                      const rung_model_options *options, rung_value image,
                                      rung_value *logits_out);

// Model number `index` (from 0): its name, and one line about it; NULL past the last.
RUNG_API const char *rung_model_name(int index);
RUNG_API const char *rung_model_about(int index);

#ifdef __cplusplus
}
#endif

#endif
