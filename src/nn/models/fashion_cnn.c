// SPDX-License-Identifier: Apache-2.0
// fashion_cnn: the network of `make demo`. Small enough that an epoch of 60,000 images takes
// seconds on two cores, good for 0.89 after one and 0.92 after several epochs.
#include "nn/models/models.h"

rung_value rungi_model_fashion_cnn(rung_graph *g, rung_value x, const rung_model_options *o)
{
    x = rung_relu(g, rung_conv2d(g, x, "conv1", .out = 16, .kernel = 3, .pad = 1));
    x = rung_max_pool2d(g, x, .kernel = 2);
    x = rung_relu(g, rung_conv2d(g, x, "conv2", .out = 32, .kernel = 3, .pad = 1));
    x = rung_max_pool2d(g, x, .kernel = 2);
    x = rung_flatten(g, x, 1);
    x = rung_relu(g, rung_linear(g, x, "fc1", .out = 128));
    return rung_linear(g, x, "fc2", .out = o->classes);
}
