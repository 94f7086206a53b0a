// SPDX-License-Identifier: Apache-2.0
// batch_norm: y = (x - mean) / sqrt(var + eps) * weight + bias per channel, as torch.nn.BatchNorm1d
// and 2d.
// Inputs: x [N, C], [N, C, L] or [N, C, H, W]; weight [C], bias [C], running_mean [C],
// running_var [C] and num_batches_tracked (i64 scalar), each optional.
//
// In training, and where there are no running statistics, mean and var (biased) are those of the
// shard's batch, or where that is synchronized of the batches of all ranks
// (torch.nn.SyncBatchNorm, batch_norm_meet.c); else the running ones. Hidden outputs: the mean [C]
// and var [C] that were used, float32 (float64 for float64 data).
//
// After a training step the running statistics move towards those of the whole global batch, which
// are pooled from the shards': mean = sum n_i mean_i / n, and by the law of total variance
// n var = sum n_i (var_i + (mean_i - mean)^2). running_var takes the unbiased n var / (n - 1).
#include "ops/batch_norm/batch_norm.h"

#include "base/error.h"
#include "ops/element.h"

static rung_status check_channels(const rungi_infer *i, int input, const char *name)
{
    if (i->n_in <= input || i->in[input].shape.rank < 0)
        return RUNG_OK;
    const rung_shape *s = &i->in[input].shape;
    char xt[RUNG_SHAPE_TEXT], st[RUNG_SHAPE_TEXT];
    RUNG_CHECK(s->rank == 1 && s->dim[0] == i->in[0].shape.dim[1], RUNG_MISMATCH,
               "the %s %s does not fit the input %s", name, rung_shape_text(s, st, sizeof st),
               rung_shape_text(&i->in[0].shape, xt, sizeof xt));
    return RUNG_OK;
}

static bool absent(const rungi_infer *i, int input)
{
    return i->n_in <= input || i->in[input].shape.rank < 0;
}

static rung_status infer(rungi_infer *i)
{
    const rungi_batch_norm_attr *a = i->attr;
    const rung_shape *x = &i->in[0].shape;
    char xt[RUNG_SHAPE_TEXT];
    RUNG_CHECK(x->rank >= 2 && x->rank <= 4, RUNG_MISMATCH,
               "batch_norm takes [N, C], [N, C, L] or [N, C, H, W]; got %s",
               rung_shape_text(x, xt, sizeof xt));
    RUNG_CHECK(a->eps > 0, RUNG_INVALID, "eps is %g; it must be above 0", a->eps);
    RUNG_TRY(check_channels(i, RUNGI_BN_WEIGHT, "weight"));
    RUNG_TRY(check_channels(i, RUNGI_BN_BIAS, "bias"));
    RUNG_TRY(check_channels(i, RUNGI_BN_RUNNING_MEAN, "running mean"));
    RUNG_TRY(check_channels(i, RUNGI_BN_RUNNING_VAR, "running variance"));
    RUNG_CHECK(absent(i, RUNGI_BN_RUNNING_MEAN) == absent(i, RUNGI_BN_RUNNING_VAR), RUNG_INVALID,
               "running mean and variance are given both or not at all");
    RUNG_CHECK(absent(i, RUNGI_BN_TRACKED) || (i->in[RUNGI_BN_TRACKED].shape.rank == 0 &&
                                               i->in[RUNGI_BN_TRACKED].dtype == RUNG_I64),
               RUNG_MISMATCH, "the number of batches tracked must be an i64 scalar");
    RUNG_CHECK(!a->cumulative || absent(i, RUNGI_BN_RUNNING_MEAN) || !absent(i, RUNGI_BN_TRACKED),
               RUNG_INVALID, "a cumulative average needs the number of batches tracked");
    rung_dtype stats = i->in[0].dtype == RUNG_F64 ? RUNG_F64 : RUNG_F32;
    i->out[RUNGI_BN_Y] = i->in[0];
    i->out[RUNGI_BN_MEAN] = (rungi_type){stats, {1, {x->dim[1]}}};
    i->out[RUNGI_BN_VAR] = i->out[RUNGI_BN_MEAN];
    return RUNG_OK;
}

bool rungi_batch_norm_of_batch(const rungi_query *q)
{
    // An operand that a pass does not read has no buffer but keeps its shape.
    return q->training || q->n_in <= RUNGI_BN_RUNNING_MEAN ||
           q->in[RUNGI_BN_RUNNING_MEAN].shape.rank != 1;
}

static rung_status check(const rungi_query *q)
{
    rungi_bn_form form = rungi_bn_form_of(&q->in[0]);
    char text[RUNG_SHAPE_TEXT];
    RUNG_CHECK(q->pass != RUNGI_FORWARD || !rungi_batch_norm_of_batch(q) || q->synchronized ||
                   rungi_bn_count(&form) > 1,
               RUNG_INVALID,
               "Expected more than 1 value per channel when training, got input %s; drop the last "
               "batch or choose a batch size that leaves no single sample",
               rung_shape_text(&q->in[0].shape, text, sizeof text));
    return RUNG_OK;
}

rungi_bn_form rungi_bn_form_of(const rungi_operand *x)
{
    const int64_t *d = x->shape.dim;
    int64_t channels = d[1], rows = 1;
    for (int i = 2; i < x->shape.rank; i++)
        rows *= d[i];
    if (channels == 1)
        return (rungi_bn_form){1, 1, d[0] * rows, 1};
    if (rows == 1 || x->layout == RUNGI_CHANNELS_LAST)
        return (rungi_bn_form){1, 1, d[0] * rows, channels};
    int64_t lanes = x->layout == RUNGI_BLOCKED8 ? 8 : x->layout == RUNGI_BLOCKED16 ? 16 : 1;
    return (rungi_bn_form){d[0], channels / lanes, rows, lanes};
}

static void describe(const void *attr, rungi_string *out)
{
    const rungi_batch_norm_attr *a = attr;
    rungi_string_add(out, "eps %g, ", a->eps);
    if (a->cumulative)
        rungi_string_add(out, "cumulative average");
    else
        rungi_string_add(out, "momentum %g", a->momentum);
}

static double flops(const rungi_query *q)
{
    double count = (double)rungi_operand_count(&q->in[0]);
    bool sums = q->pass != RUNGI_FORWARD || rungi_batch_norm_of_batch(q);
    return (sums ? 4 : 0) * count + 3 * count;
}

// ---- running statistics -----------------------------------------------------------------------

typedef struct moments {
    double count, mean, var;
} moments;

static double stat(const rungi_call *c, int output, int64_t channel)
{
    const rungi_operand *o = &c->q->out[output];
    return rungi_get(o->dtype, rungi_ptr(c, o), channel);
}

// Of one channel over all shards, in the shards' order.
static moments pool(const rungi_call *const *shards, int count, int64_t channel)
{
    moments all = {0};
    for (int s = 0; s < count; s++) {
        rungi_bn_form form = rungi_bn_form_of(&shards[s]->q->in[0]);
        double n = (double)rungi_bn_count(&form);
        all.count += n;
        all.mean += n * stat(shards[s], RUNGI_BN_MEAN, channel);
    }
    all.mean /= all.count;
    for (int s = 0; s < count; s++) {
        rungi_bn_form form = rungi_bn_form_of(&shards[s]->q->in[0]);
        double apart = stat(shards[s], RUNGI_BN_MEAN, channel) - all.mean;
        all.var += (double)rungi_bn_count(&form) *
                   (stat(shards[s], RUNGI_BN_VAR, channel) + apart * apart);
    }
    all.var /= all.count;
    return all;
}

static void move(const rungi_call *c, const rungi_operand *running, int64_t channel, double share,
                 double value)
{
    void *data = rungi_ptr(c, running);
    double old = rungi_get(running->dtype, data, channel);
    rungi_set(running->dtype, data, channel, (1 - share) * old + share * value);
}

static rung_status finish(const rungi_call *const *shards, int count)
{
    const rungi_call *first = shards[0];
    const rungi_query *q = first->q;
    const rungi_batch_norm_attr *a = q->attr;
    if (q->n_in <= RUNGI_BN_RUNNING_VAR || q->in[RUNGI_BN_RUNNING_MEAN].buffer < 0)
        return RUNG_OK;
    double share = a->momentum;
    if (q->n_in > RUNGI_BN_TRACKED && q->in[RUNGI_BN_TRACKED].buffer >= 0) {
        int64_t *tracked = rungi_ptr(first, &q->in[RUNGI_BN_TRACKED]);
        ++*tracked;
        if (a->cumulative)
            share = 1 / (double)*tracked;
    }
    for (int64_t channel = 0; channel < q->in[0].shape.dim[1]; channel++) {
        moments m = pool(shards, count, channel);
        move(first, &q->in[RUNGI_BN_RUNNING_MEAN], channel, share, m.mean);
        move(first, &q->in[RUNGI_BN_RUNNING_VAR], channel, share, m.var * m.count / (m.count - 1));
    }
    return RUNG_OK;
}

const rungi_op rungi_op_batch_norm = {
    .name = "batch_norm",
    .attr_size = sizeof(rungi_batch_norm_attr),
    .min_in = 1,
    .max_in = 6,
    .n_out = 1,
    .n_hidden = 2,
    .precision = RUNGI_FOLLOW,
    .stays = ~(uint32_t)(1 << RUNGI_BN_X),
    .layouts = RUNGI_LAYOUTS_IMAGE,
    .infer = infer,
    .check = check,
    .describe = describe,
    .flops = flops,
    .meets = rungi_bn_meets,
    .forward = {.name = "forward", .in_place = true, .kernels = {rungi_batch_norm_forward_cpu}},
    .backward = {{.name = "backward",
                  .gives = 1 << RUNGI_BN_X | 1 << RUNGI_BN_WEIGHT | 1 << RUNGI_BN_BIAS,
                  .reads_in = 1 << RUNGI_BN_X | 1 << RUNGI_BN_WEIGHT | 1 << RUNGI_BN_BIAS,
                  .reads_out = 1 << RUNGI_BN_MEAN | 1 << RUNGI_BN_VAR,
                  .in_place = true,
                  .kernels = {rungi_batch_norm_backward_cpu}}},
    .finish = finish,
    .cases = rungi_batch_norm_cases,
};
