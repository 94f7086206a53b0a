// SPDX-License-Identifier: Apache-2.0
// cast: the same values in another dtype, as rung_convert makes them. The gradient is cast back; it
// is 0 behind integers.
#include "ops/cast/cast.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "ops/cases.h"
#include "ops/element.h"
#include "ops/parallel.h"

static rung_status infer(rungi_infer *i)
{
    const rungi_cast_attr *a = i->attr;
    RUNG_CHECK((unsigned)a->to < RUNG_DTYPE_COUNT, RUNG_INVALID, "there is no dtype %d", a->to);
    i->out[0] = (rungi_type){a->to, i->in[0].shape};
    return RUNG_OK;
}

static void describe(const void *attr, rungi_string *out)
{
    rungi_string_add(out, "to %s", rung_dtype_name(((const rungi_cast_attr *)attr)->to));
}

enum { BLOCK = 8192 };

static void convert(const rungi_call *c, const rungi_operand *from, const rungi_operand *to)
{
    int64_t n = rungi_operand_count(to);
    const char *src = rungi_ptr(c, from);
    char *dst = rungi_ptr(c, to);
    int64_t src_size = (int64_t)rung_dtype_size(from->dtype);
    int64_t dst_size = (int64_t)rung_dtype_size(to->dtype);
    RUNGI_PARALLEL_FOR(c->q->threads, n)
    for (int64_t i = 0; i < n; i += BLOCK)
        rung_convert(to->dtype, dst + i * dst_size, from->dtype, src + i * src_size,
                     n - i < BLOCK ? n - i : BLOCK, NULL);
}

static rung_status forward_run(const rungi_call *c)
{
    convert(c, &c->q->in[0], &c->q->out[0]);
    return RUNG_OK;
}

// Does a gradient pass through the cast?
static bool differentiable(const rungi_query *q)
{
    return rung_dtype_is_float(q->in[0].dtype) && rung_dtype_is_float(q->out[0].dtype);
}

static rung_status backward_run(const rungi_call *c)
{
    if (differentiable(c->q))
        convert(c, &c->q->gout[0], &c->q->gin[0]);
    else
        memset(rungi_ptr(c, &c->q->gin[0]), 0, rungi_operand_bytes(&c->q->gin[0]));
    return RUNG_OK;
}

static double within(double value, double low, double high)
{
    return isnan(value) ? 0 : fmax(low, fmin(high, trunc(value)));
}

static double as_dtype(rung_dtype to, double value)
{
    return to == RUNG_BOOL  ? value != 0
           : to == RUNG_U8  ? within(value, 0, UINT8_MAX)
           : to == RUNG_I32 ? within(value, INT32_MIN, INT32_MAX)
           : to == RUNG_I64 ? within(value, -0x1p63, 0x1.fffffffffffffp62)
                            : value;
}

static rung_status forward_reference(const rungi_call *c)
{
    const rungi_operand *x = &c->q->in[0], *y = &c->q->out[0];
    for (int64_t i = 0; i < rungi_operand_count(y); i++)
        rungi_set(y->dtype, rungi_ptr(c, y), i,
                  as_dtype(y->dtype, rungi_get(x->dtype, rungi_ptr(c, x), i)));
    return RUNG_OK;
}

static rung_status backward_reference(const rungi_call *c)
{
    const rungi_operand *gy = &c->q->gout[0], *gx = &c->q->gin[0];
    for (int64_t i = 0; gx->buffer >= 0 && i < rungi_operand_count(gx); i++)
        rungi_set(gx->dtype, rungi_ptr(c, gx), i,
                  differentiable(c->q) ? rungi_get(gy->dtype, rungi_ptr(c, gy), i) : 0);
    return RUNG_OK;
}

static bool not_fused(const rungi_query *q, rungi_reason *why)
{
    return q->n_fused ? rungi_refuse(why, "applies nothing to its output") : true;
}

static const rungi_kernel plain = {
    .name = "plain", .kind = RUNGI_OWN, .halves = true, .can_run = not_fused, .run = forward_run};
static const rungi_kernel plain_back = {
    .name = "plain", .kind = RUNGI_OWN, .halves = true, .run = backward_run};
static const rungi_kernel reference = {.name = "reference", .run = forward_reference};
static const rungi_kernel reference_back = {.name = "reference", .run = backward_reference};
static const rungi_kernel *const forward_cpu[] = {&plain, &reference, NULL};
static const rungi_kernel *const backward_cpu[] = {&plain_back, &reference_back, NULL};

static const rungi_cast_attr to_f64 = {RUNG_F64}, to_f32 = {RUNG_F32}, to_bf16 = {RUNG_BF16},
                             to_f16 = {RUNG_F16}, to_i32 = {RUNG_I32}, to_u8 = {RUNG_U8},
                             to_bool = {RUNG_BOOL};

static const rungi_case cases[] = {
    {"f64", {RUNGI_IN(2, 16, 3, 5)}, 1, &to_f64},
    {"f64, several blocks", {RUNGI_IN(5, 8009)}, 1, &to_f64},
    {"i64 to f32", {RUNGI_LABELS(1000, 7, 5)}, 1, &to_f32},
    {"i64 to i32", {RUNGI_LABELS(1000, 7, 5)}, 1, &to_i32},
    {"i64 to u8", {RUNGI_LABELS(1000, 7, 5)}, 1, &to_u8},
    {"i64 to bool", {RUNGI_LABELS(3, 7, 5)}, 1, &to_bool},
    {"i64 to bf16", {RUNGI_LABELS(100000, 7, 5)}, 1, &to_bf16},
    {"i64 to f16", {RUNGI_LABELS(5000, 7, 5)}, 1, &to_f16},
    {.name = "bench bf16",
     .in = {RUNGI_IN(64, 50, 32, 32)},
     .n_in = 1,
     .attr = &to_bf16,
     .bench = true},
    {0},
};

const rungi_op rungi_op_cast = {
    .name = "cast",
    .attr_size = sizeof(rungi_cast_attr),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = RUNGI_FOLLOW,
    .layouts = RUNGI_LAYOUTS_SAME,
    .infer = infer,
    .describe = describe,
    .forward = {.name = "forward", .kernels = {forward_cpu}},
    .backward = {{.name = "backward", .gives = 1 << 0, .kernels = {backward_cpu}}},
    .cases = cases,
};
