// SPDX-License-Identifier: Apache-2.0
#include "ops/avg_pool2d/avg_pool2d.h"
#include "ops/onednn.h"

static const rungi_operand *image(const rungi_query *q)
{
    return q->pass == RUNGI_FORWARD ? &q->in[0] : &q->gin[0];
}

static const rungi_operand *means(const rungi_query *q)
{
    return q->pass == RUNGI_FORWARD ? &q->out[0] : &q->gout[0];
}

static bool can_run(const rungi_query *q, rungi_reason *why)
{
    const rungi_pool_attr *a = rungi_avg_pool_attr(q);
    const int64_t *in = image(q)->shape.dim, *out = means(q)->shape.dim;
    for (int d = 0; !a && d < 2; d++)
        if (in[2 + d] % out[2 + d])
            return rungi_refuse(why, "windows of several sizes");
    if (a && a->divisor)
        return rungi_refuse(why, "a divisor of its own");
    for (int d = 0; a && d < 2; d++)
        if (a->count_include_pad &&
            (out[2 + d] - 1) * a->stride[d] + a->kernel[d] > in[2 + d] + 2 * a->pad[d])
            return rungi_refuse(why, "a window reaches beyond the padding");
    return rungi_f32_only(q, why);
}

static rung_status create(const rungi_query *q, rungi_setup *setup)
{
    const rungi_pool_attr *a = rungi_avg_pool_attr(q);
    rungi_dnn_pool pool = {.x = image(q), .y = means(q), .include_pad = a && a->count_include_pad};
    for (int d = 0; d < 2; d++) {
        int even = (int)(pool.x->shape.dim[2 + d] / pool.y->shape.dim[2 + d]);
        pool.kernel[d] = a ? a->kernel[d] : even;
        pool.stride[d] = a ? a->stride[d] : even;
        pool.pad[d] = a ? a->pad[d] : 0;
    }
    return rungi_dnn_pool_create(q, &pool, setup);
}

const rungi_kernel rungi_avg_pool_forward_onednn = {.name = "onednn",
                                                    .kind = RUNGI_LIBRARY,
                                                    .can_run = can_run,
                                                    .create = create,
                                                    .destroy = rungi_dnn_destroy,
                                                    .run = rungi_dnn_run};
const rungi_kernel rungi_avg_pool_backward_onednn = {.name = "onednn",
                                                     .kind = RUNGI_LIBRARY,
                                                     .can_run = can_run,
                                                     .create = create,
                                                     .destroy = rungi_dnn_destroy,
                                                     .run = rungi_dnn_run};
