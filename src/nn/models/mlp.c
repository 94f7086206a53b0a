// SPDX-License-Identifier: Apache-2.0
// mlp: flatten, then linear and ReLU for each hidden size, then a linear layer. Layers are named
// fc1, fc2, ...
#include <stdio.h>

#include "nn/models/models.h"

rung_value rungi_model_mlp(rung_graph *g, rung_value x, const rung_model_options *o)
{
    static const int64_t one[] = {512};
    const int64_t *hidden = o->hidden ? o->hidden : one;
    int n = o->hidden ? o->n_hidden : 1;
    x = rung_flatten(g, x, 1);
    for (int i = 0; i <= n; i++) {
        char name[24];
        snprintf(name, sizeof name, "fc%d", i + 1);
        x = rung_linear(g, x, name, .out = i < n ? hidden[i] : o->classes);
        if (i < n)
            x = rung_relu(g, x);
    }
    return x;
}
