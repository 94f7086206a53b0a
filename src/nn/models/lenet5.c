// SPDX-License-Identifier: Apache-2.0
// lenet5: LeNet-5 (LeCun, Bottou, Bengio, Haffner: Gradient-Based Learning Applied to Document
// Recognition, 1998) as it is written today: ReLU, max pooling, padding 2 for 28x28 images.
#include "nn/models/models.h"

rung_value rungi_model_lenet5(rung_graph *g, rung_value x, const rung_model_options *o)
{
    x = rung_relu(g, rung_conv2d(g, x, "conv1", .out = 6, .kernel = 5, .pad = 2));
    x = rung_max_pool2d(g, x, .kernel = 2);
    x = rung_relu(g, rung_conv2d(g, x, "conv2", .out = 16, .kernel = 5));
    x = rung_max_pool2d(g, x, .kernel = 2);
    x = rung_flatten(g, x, 1);
    x = rung_relu(g, rung_linear(g, x, "fc1", .out = 120));
    x = rung_relu(g, rung_linear(g, x, "fc2", .out = 84));
    return rung_linear(g, x, "fc3", .out = o->classes);
}
