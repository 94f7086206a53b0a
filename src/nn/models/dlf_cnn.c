// SPDX-License-Identifier: Apache-2.0
// dlf_cnn: the VGG-style network of ilkarman/DeepLearningFrameworks (2018), for 3x32x32 images: two
// pairs of 3x3 convolutions, each ended by pooling, ReLU (after the pool) and dropout 0.25; then
// linear 512, ReLU, dropout 0.5, linear. 3,441,592 parameters for 10 classes.
#include "nn/models/models.h"

static rung_value drop(rung_graph *g, rung_value x, const rung_model_options *o, double p)
{
    p = o->set_dropout ? o->dropout : p;
    return p > 0 ? rung_dropout(g, x, p) : x;
}

rung_value rungi_model_dlf_cnn(rung_graph *g, rung_value x, const rung_model_options *o)
{
    x = rung_relu(g, rung_conv2d(g, x, "conv1", .out = 50, .kernel = 3, .pad = 1));
    x = rung_conv2d(g, x, "conv2", .out = 50, .kernel = 3, .pad = 1);
    x = drop(g, rung_relu(g, rung_max_pool2d(g, x, .kernel = 2)), o, 0.25);
    x = rung_relu(g, rung_conv2d(g, x, "conv3", .out = 100, .kernel = 3, .pad = 1));
    x = rung_conv2d(g, x, "conv4", .out = 100, .kernel = 3, .pad = 1);
    x = drop(g, rung_relu(g, rung_max_pool2d(g, x, .kernel = 2)), o, 0.25);
    x = rung_flatten(g, x, 1);
    x = drop(g, rung_relu(g, rung_linear(g, x, "fc1", .out = 512)), o, 0.5);
    return rung_linear(g, x, "fc2", .out = o->classes);
}
