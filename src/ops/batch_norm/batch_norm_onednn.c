// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "ops/batch_norm/batch_norm.h"
#include "ops/onednn.h"

static const rungi_operand *operand(const rungi_operand *list, int n, int i)
{
    return i < n && list[i].buffer >= 0 ? &list[i] : NULL;
}

static bool forward_can_run(const rungi_query *q, rungi_reason *why)
{
    if (q->n_fused && rungi_batch_norm_of_batch(q))
        return rungi_refuse(why, "applies nothing to its output in training");
    if (q->synchronized)
        return rungi_refuse(why, "meets no other ranks");
    return rungi_dnn_can_fuse(q, why) && rungi_f32_only(q, why);
}

static rung_status forward_create(const rungi_query *q, rungi_setup *setup)
{
    const rungi_batch_norm_attr *a = q->attr;
    rungi_dnn_norm n = {.x = &q->in[0],
                        .y = &q->out[0],
                        .weight = operand(q->in, q->n_in, RUNGI_BN_WEIGHT),
                        .bias = operand(q->in, q->n_in, RUNGI_BN_BIAS),
                        .mean = operand(q->out, q->n_out, RUNGI_BN_MEAN),
                        .var = operand(q->out, q->n_out, RUNGI_BN_VAR),
                        .eps = a->eps,
                        .frozen = !rungi_batch_norm_of_batch(q)};
    if (n.frozen) {
        n.mean = &q->in[RUNGI_BN_RUNNING_MEAN];
        n.var = &q->in[RUNGI_BN_RUNNING_VAR];
    }
    return rungi_dnn_norm_create(q, &n, setup);
}

static rung_status forward_run(const rungi_call *c)
{
    const rungi_query *q = c->q;
    for (int i = 0; i < 2 && !rungi_batch_norm_of_batch(q); i++)
        if (q->out[RUNGI_BN_MEAN + i].buffer >= 0)
            memcpy(rungi_ptr(c, &q->out[RUNGI_BN_MEAN + i]),
                   rungi_ptr(c, &q->in[RUNGI_BN_RUNNING_MEAN + i]),
                   rungi_operand_bytes(&q->out[RUNGI_BN_MEAN + i]));
    return rungi_dnn_run(c);
}

// oneDNN gives the gradients of x and of all parameters that there are.
static bool backward_can_run(const rungi_query *q, rungi_reason *why)
{
    if (q->synchronized)
        return rungi_refuse(why, "meets no other ranks");
    for (int i = RUNGI_BN_X; i <= RUNGI_BN_BIAS && i < q->n_in; i++)
        if (q->gin[i].buffer < 0 && q->in[i].shape.rank > 0)
            return rungi_refuse(why, "gives all gradients or none");
    return rungi_f32_only(q, why);
}

static rung_status backward_create(const rungi_query *q, rungi_setup *setup)
{
    const rungi_batch_norm_attr *a = q->attr;
    rungi_dnn_norm n = {.x = &q->in[0],
                        .y = &q->gout[0],
                        .weight = operand(q->in, q->n_in, RUNGI_BN_WEIGHT),
                        .mean = &q->out[RUNGI_BN_MEAN],
                        .var = &q->out[RUNGI_BN_VAR],
                        .gx = &q->gin[0],
                        .gweight = operand(q->gin, q->n_in, RUNGI_BN_WEIGHT),
                        .gbias = operand(q->gin, q->n_in, RUNGI_BN_BIAS),
                        .eps = a->eps,
                        .frozen = !rungi_batch_norm_of_batch(q)};
    n.bias = n.gbias; // only whether there is one counts
    return rungi_dnn_norm_create(q, &n, setup);
}

const rungi_kernel rungi_batch_norm_forward_onednn = {.name = "onednn",
                                                      .kind = RUNGI_LIBRARY,
                                                      .can_run = forward_can_run,
                                                      .fuses = true,
                                                      .create = forward_create,
                                                      .destroy = rungi_dnn_destroy,
                                                      .run = forward_run};
const rungi_kernel rungi_batch_norm_backward_onednn = {.name = "onednn",
                                                       .kind = RUNGI_LIBRARY,
                                                       .can_run = backward_can_run,
                                                       .create = backward_create,
                                                       .destroy = rungi_dnn_destroy,
                                                       .run = rungi_dnn_run};
