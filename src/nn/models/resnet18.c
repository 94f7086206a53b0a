// SPDX-License-Identifier: Apache-2.0
// resnet18: He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition, 2015; parameter
// names and initial values as torchvision's. The CIFAR stem is a 3x3 convolution without pooling.
#include <stdio.h>

#include "nn/models/models.h"

static rung_value conv(rung_graph *g, rung_value x, const char *name, int64_t out, int kernel,
                       int stride)
{
    return rung_conv2d(g, x, name, .out = out, .kernel = kernel, .stride = stride,
                       .pad = kernel / 2, .no_bias = true,
                       .weight_init = {.init = RUNG_INIT_RESNET});
}

static rung_value block(rung_graph *g, rung_value x, int64_t in, int64_t out, int stride)
{
    rung_value y = rung_batch_norm(g, conv(g, x, "conv1", out, 3, stride), "bn1", 0);
    y = rung_batch_norm(g, conv(g, rung_relu(g, y), "conv2", out, 3, 1), "bn2", 0);
    if (stride != 1 || in != out) {
        rung_scope_push(g, "downsample");
        x = rung_batch_norm(g, conv(g, x, "0", out, 1, stride), "1", 0);
        rung_scope_pop(g);
    }
    return rung_relu(g, rung_add(g, y, x));
}

rung_value rungi_model_resnet18(rung_graph *g, rung_value x, const rung_model_options *o)
{
    bool cifar = o->stem == RUNG_STEM_CIFAR;
    int64_t in = 64;
    x = conv(g, x, "conv1", 64, cifar ? 3 : 7, cifar ? 1 : 2);
    x = rung_relu(g, rung_batch_norm(g, x, "bn1", 0));
    if (!cifar)
        x = rung_max_pool2d(g, x, .kernel = 3, .stride = 2, .pad = 1);
    for (int layer = 1; layer <= 4; layer++) {
        int64_t out = 32 << layer;
        for (int b = 0; b < 2; b++) {
            char scope[24];
            snprintf(scope, sizeof scope, "layer%d.%d", layer, b);
            rung_scope_push(g, scope);
            x = block(g, x, in, out, layer > 1 && b == 0 ? 2 : 1);
            rung_scope_pop(g);
            in = out;
        }
    }
    x = rung_flatten(g, rung_adaptive_avg_pool2d(g, x, 1, 1), 1);
    return rung_linear(g, x, "fc", .out = o->classes);
}
