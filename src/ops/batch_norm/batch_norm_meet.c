// SPDX-License-Identifier: Apache-2.0
// Synchronized batch normalization, as torch.nn.SyncBatchNorm: the statistics of the batches of all
// ranks in forward, and the sums of all of them in backward. Parts of a batch weigh by their
// samples; one without any counts nothing.
#include "base/error.h"
#include "ops/batch_norm/batch_norm.h"

static int64_t channels_of(const rungi_query *q)
{
    return q->in[0].shape.dim[1];
}

int64_t rungi_bn_meets(const rungi_query *q)
{
    return rungi_bn_has_moments(q) ? 0 : RUNGI_BN_FIRST + 2 * channels_of(q);
}

bool rungi_bn_has_moments(const rungi_query *q)
{
    return q->again && q->training && q->out[RUNGI_BN_MEAN].buffer >= 0;
}

static rung_status gather(const rungi_call *c, const double *own, const double **all,
                          int64_t *stride)
{
    const rungi_group *g = c->rt->group;
    return g->gather(g->self, own, rungi_bn_meets(c->q), all, stride);
}

// By the law of total variance, as the running statistics of shards are pooled.
rung_status rungi_bn_meet_moments(const rungi_call *c, double *numbers)
{
    int64_t channels = channels_of(c->q), stride;
    const double *all;
    if (!c->rt->group)
        return RUNG_OK;
    RUNG_TRY(gather(c, numbers, &all, &stride));
    int ranks = c->rt->group->size;
    double total = 0;
    for (int r = 0; r < ranks; r++)
        total += all[r * stride];
    RUNG_CHECK(total > 1, RUNG_INVALID,
               "Expected more than 1 value per channel of all ranks when training");
    double *mean = numbers + RUNGI_BN_FIRST, *var = mean + channels;
    for (int64_t k = 0; k < channels; k++) {
        double sum = 0, spread = 0;
        for (int r = 0; r < ranks; r++)
            sum += all[r * stride] * all[r * stride + RUNGI_BN_FIRST + k];
        mean[k] = sum / total;
        for (int r = 0; r < ranks; r++) {
            const double *own = all + r * stride + RUNGI_BN_FIRST;
            double apart = own[k] - mean[k];
            spread += all[r * stride] * (own[channels + k] + apart * apart);
        }
        var[k] = spread / total;
    }
    numbers[RUNGI_BN_COUNT] = total;
    return RUNG_OK;
}

rung_status rungi_bn_meet_sums(const rungi_call *c, double *numbers)
{
    int64_t stride;
    const double *all;
    if (!c->rt->group)
        return RUNG_OK;
    RUNG_TRY(gather(c, numbers, &all, &stride));
    for (int64_t k = 0; k < RUNGI_BN_FIRST + 2 * channels_of(c->q); k++) {
        numbers[k] = 0;
        for (int r = 0; r < c->rt->group->size; r++)
            numbers[k] += all[r * stride + k];
    }
    return RUNG_OK;
}
