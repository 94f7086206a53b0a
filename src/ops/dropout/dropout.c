// SPDX-License-Identifier: Apache-2.0
// dropout: in training y = x / (1 - p) where a random bit is set, which it is with probability
// 1 - p, else 0; in evaluation y = x, at no cost. As torch.nn.Dropout.
//
// The bit is a pure function of seed, step, layer, the sample's position in the global batch and
// the element's place in the sample in plain order (rungi_dropout_keeps): layouts, threads, shards
// and ranks do not show. p is met to 2^-32. Hidden output: the mask, 8 bits to a byte, bit m of it
// being that of element m in memory.
#include "ops/dropout/dropout.h"

#include "base/error.h"
#include "ops/element.h"

static rung_status infer(rungi_infer *i)
{
    const rungi_dropout_attr *a = i->attr;
    int64_t count;
    RUNG_CHECK(a->p >= 0 && a->p <= 1, RUNG_INVALID, "p is %g; it must be in [0, 1]", a->p);
    RUNG_TRY(rung_shape_count(&i->in[0].shape, &count));
    i->out[0] = i->in[0];
    i->out[1] = (rungi_type){RUNG_U8, {1, {(count + 7) / 8}}};
    return RUNG_OK;
}

static bool passes_through(const void *attr, bool training)
{
    return !training || !(((const rungi_dropout_attr *)attr)->p > 0);
}

static void describe(const void *attr, rungi_string *out)
{
    rungi_string_add(out, "p %g", ((const rungi_dropout_attr *)attr)->p);
}

double rungi_dropout_rate(const rungi_query *q)
{
    return q->training ? ((const rungi_dropout_attr *)q->attr)->p : 0;
}

float rungi_dropout_scale(const rungi_query *q)
{
    double p = rungi_dropout_rate(q);
    return p < 1 ? (float)(1 / (1 - p)) : 0;
}

rungi_dropout_source rungi_dropout_source_of(const rungi_call *c)
{
    double threshold = rungi_dropout_rate(c->q) * 0x1p32 + 0.5;
    return (rungi_dropout_source){
        rungi_random_make(c->rt->seed, RUNGI_PURPOSE_DROPOUT, c->rt->step, c->q->key, 0),
        threshold < 0x1p32 ? (uint32_t)threshold : UINT32_MAX};
}

// Where the first dimension is no multiple of the shard's samples, all of the tensor counts as the
// shard's first sample: the numbers of two shards still differ.
rungi_dropout_samples rungi_dropout_samples_of(const rungi_call *c)
{
    const rung_shape *s = &c->q->in[0].shape;
    int64_t count = rungi_shape_size(s), samples = c->rt->samples;
    if (s->rank < 1 || samples < 1 || s->dim[0] % samples)
        samples = 1;
    return (rungi_dropout_samples){c->rt->sample_offset, count / samples};
}

// ---- reference --------------------------------------------------------------------------------

bool rungi_dropout_keeps(const rungi_dropout_source *s, int64_t sample, int64_t e)
{
    uint64_t block = (uint64_t)e / 8, position = (uint64_t)sample;
    uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)position,
                           (uint32_t)(position >> 32)};
    int word = (int)(e % 8 / 2), shift = (int)(e % 2 * 16);
    uint32_t high = rungi_philox(s->random.key, counter).v[word] >> shift & 0xFFFF;
    if (high != s->threshold >> 16)
        return high > s->threshold >> 16;
    counter[1] |= 0x80000000;
    uint32_t low = rungi_philox(s->random.key, counter).v[word] >> shift & 0xFFFF;
    return low >= (s->threshold & 0xFFFF);
}

// Place in memory of element m in plain order.
static int64_t place_of(const rungi_operand *o, int64_t m)
{
    if (o->layout == RUNGI_PLAIN)
        return m;
    const int64_t *d = o->shape.dim;
    rungi_strides s = rungi_strides_of(o->layout, &o->shape);
    return rungi_at(&s, m / (d[1] * d[2] * d[3]), m / (d[2] * d[3]) % d[1], m / d[3] % d[2],
                    m % d[3]);
}

static void apply(const rungi_call *c, const rungi_operand *x, const rungi_operand *y, int64_t at,
                  bool keep)
{
    double v = rungi_get(x->dtype, rungi_ptr(c, x), at);
    double scale = rungi_dropout_rate(c->q) < 1 ? 1 / (1 - rungi_dropout_rate(c->q)) : 0;
    rungi_set(y->dtype, rungi_ptr(c, y), at, keep ? v * scale : 0);
}

static rung_status forward_reference(const rungi_call *c)
{
    const rungi_operand *x = &c->q->in[0], *y = &c->q->out[0];
    rungi_dropout_source s = rungi_dropout_source_of(c);
    rungi_dropout_samples samples = rungi_dropout_samples_of(c);
    uint8_t *mask = rungi_ptr(c, &c->q->out[1]);
    for (size_t i = 0; mask && i < rungi_operand_bytes(&c->q->out[1]); i++)
        mask[i] = 0;
    for (int64_t m = 0; m < rungi_operand_count(x); m++) {
        int64_t at = place_of(x, m);
        bool keep = rungi_dropout_rate(c->q) < 1 &&
                    rungi_dropout_keeps(&s, samples.first + m / samples.size, m % samples.size);
        if (mask)
            mask[at / 8] |= (uint8_t)(keep << at % 8);
        apply(c, x, y, at, keep);
    }
    return RUNG_OK;
}

static rung_status backward_reference(const rungi_call *c)
{
    const uint8_t *mask = rungi_ptr(c, &c->q->out[1]);
    for (int64_t at = 0; at < rungi_operand_count(&c->q->gout[0]); at++)
        apply(c, &c->q->gout[0], &c->q->gin[0], at, mask[at / 8] >> at % 8 & 1);
    return RUNG_OK;
}

const rungi_kernel rungi_dropout_forward_reference = {.name = "reference",
                                                      .run = forward_reference};
const rungi_kernel rungi_dropout_backward_reference = {.name = "reference",
                                                       .run = backward_reference};

// ---- the operator -----------------------------------------------------------------------------

static const rungi_dropout_attr quarter = {0.25}, tenth = {0.1}, half = {0.5}, none = {0},
                                all = {1};

static const rungi_case cases[] = {
    {"one", {RUNGI_IN(1)}, 1, &half},
    {"odd", {RUNGI_IN(3, 37)}, 1, &quarter},
    {"whole words", {RUNGI_IN(2, 256)}, 1, &tenth},
    {"image", {RUNGI_IN(2, 8, 3, 5)}, 1, &half},
    {"50 channels", {RUNGI_IN(3, 50, 4, 4)}, 1, &quarter},
    {"16 channels", {RUNGI_IN(2, 16, 8, 8)}, 1, &tenth},
    {"3 channels", {RUNGI_IN(9, 3, 3, 3)}, 1, &half},
    {"several threads", {RUNGI_IN(9, 8, 23, 23)}, 1, &half},
    {"p 0", {RUNGI_IN(2, 70)}, 1, &none},
    {"p 1", {RUNGI_IN(2, 70)}, 1, &all},
    {.name = "evaluation", .in = {RUNGI_IN(2, 70)}, .n_in = 1, .attr = &half, .evaluation = true},
    {.name = "cnn pool1",
     .in = {RUNGI_IN(64, 50, 16, 16)},
     .n_in = 1,
     .attr = &quarter,
     .bench = true},
    {.name = "large", .in = {RUNGI_IN(64, 64, 64, 64)}, .n_in = 1, .attr = &tenth, .bench = true},
    {.name = "features", .in = {RUNGI_IN(64, 512)}, .n_in = 1, .attr = &half, .bench = true},
    {0},
};

const rungi_op rungi_op_dropout = {
    .name = "dropout",
    .attr_size = sizeof(rungi_dropout_attr),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .n_hidden = 1,
    .precision = RUNGI_FOLLOW,
    .layouts = RUNGI_LAYOUTS_SAME,
    .passes_through = passes_through,
    .infer = infer,
    .describe = describe,
    .forward = {.name = "forward", .in_place = true, .kernels = {rungi_dropout_forward_cpu}},
    .backward = {{.name = "backward",
                  .gives = 1 << 0,
                  .reads_out = 1 << 1,
                  .in_place = true,
                  .kernels = {rungi_dropout_backward_cpu}}},
    .cases = cases,
};
