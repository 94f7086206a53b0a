// SPDX-License-Identifier: Apache-2.0
// Loops over one piece, compiled once per instruction set (see ops/simd.h).
#include "ops/pieces.h"
#include "ops/row_lanes.h"
#include "ops/simd.h"
#include "ops/vector_math.h"

// Operand k with n elements, whatever it has.
static const float *spread(const rungi_piece *p, int k, float buffer[RUNGI_PIECE])
{
    if (p->in[k] && p->step[k])
        return p->in[k];
    float value = p->in[k] ? *p->in[k] : 1;
    for (int64_t i = 0; i < p->n; i++)
        buffer[i] = value;
    return buffer;
}

#define PIECE_BINARY(name, operation)                          \
    static void piece_##name(const rungi_piece *p, float *out) \
    {                                                          \
        const float *a = p->in[0], *b = p->in[1];              \
        int64_t n = p->n;                                      \
        if (p->step[0] && p->step[1]) {                        \
            RUNGI_VECTORIZE                                    \
            for (int64_t i = 0; i < n; i++)                    \
                out[i] = a[i] operation b[i];                  \
        } else if (p->step[0]) {                               \
            float one = *b;                                    \
            RUNGI_VECTORIZE                                    \
            for (int64_t i = 0; i < n; i++)                    \
                out[i] = a[i] operation one;                   \
        } else {                                               \
            float one = *a, buffer[RUNGI_PIECE];               \
            b = spread(p, 1, buffer);                          \
            RUNGI_VECTORIZE                                    \
            for (int64_t i = 0; i < n; i++)                    \
                out[i] = one operation b[i];                   \
        }                                                      \
    }
PIECE_BINARY(add, +)
PIECE_BINARY(sub, -)
PIECE_BINARY(mul, *)
PIECE_BINARY(div, /)

static void piece_div_gradient(const rungi_piece *p, float *out)
{
    float buffer[3][RUNGI_PIECE];
    const float *g = spread(p, 0, buffer[0]), *y = spread(p, 1, buffer[1]),
                *b = spread(p, 2, buffer[2]);
    int64_t n = p->n;
    RUNGI_VECTORIZE
    for (int64_t i = 0; i < n; i++)
        out[i] = -g[i] * y[i] / b[i];
}

static void piece_scaled(const rungi_piece *p, float *out)
{
    float buffer[RUNGI_PIECE], factor = p->factor;
    const float *x = spread(p, 0, buffer);
    int64_t n = p->n;
    RUNGI_VECTORIZE
    for (int64_t i = 0; i < n; i++)
        out[i] = factor * x[i];
}

static void piece_square(const rungi_piece *p, float *out)
{
    const float *a = p->in[0], *b = p->in[1];
    int64_t n = p->n;
    RUNGI_VECTORIZE
    for (int64_t i = 0; i < n; i++)
        out[i] = (a[i] - b[i]) * (a[i] - b[i]);
}

static void piece_difference(const rungi_piece *p, float *out)
{
    const float *a = p->in[0], *b = p->in[1];
    int64_t n = p->n;
    float factor = p->factor;
    RUNGI_VECTORIZE
    for (int64_t i = 0; i < n; i++)
        out[i] = factor * (a[i] - b[i]);
}

// Binary cross-entropy of logit x with target t, weight w and weight v of the positive class:
//   w (v t ln(1 + e^-x) + (1 - t) ln(1 + e^x))
//   = w ((1 - t) x + (1 + (v - 1) t) (ln(1 + e^-|x|) + max(-x, 0)))
RUNGI_FORMULA float bce_value(float x, float t, float w, float v)
{
    float softplus = rungi_log1p_unit(rungi_exp(-rungi_abs(x))) + (x < 0 ? -x : 0);
    return w * ((1 - t) * x + (1 + (v - 1) * t) * softplus);
}

// Its derivative: w ((1 - t) - (1 + (v - 1) t) / (1 + e^x)).
RUNGI_FORMULA float bce_slope(float x, float t, float w, float v)
{
    return w * ((1 - t) - (1 + (v - 1) * t) * rungi_sigmoid(-x));
}

static void piece_bce(const rungi_piece *p, float *out)
{
    float buffer[2][RUNGI_PIECE];
    const float *x = p->in[0], *t = p->in[1];
    const float *w = spread(p, 2, buffer[0]), *v = spread(p, 3, buffer[1]);
    int64_t n = p->n;
    RUNGI_VECTORIZE
    for (int64_t i = 0; i < n; i++)
        out[i] = bce_value(x[i], t[i], w[i], v[i]);
}

static void piece_bce_gradient(const rungi_piece *p, float *out)
{
    float buffer[2][RUNGI_PIECE], factor = p->factor;
    const float *x = p->in[0], *t = p->in[1];
    const float *w = spread(p, 2, buffer[0]), *v = spread(p, 3, buffer[1]);
    int64_t n = p->n;
    RUNGI_VECTORIZE
    for (int64_t i = 0; i < n; i++)
        out[i] = factor * bce_slope(x[i], t[i], w[i], v[i]);
}

// ---- sums -------------------------------------------------------------------------------------

static void piece_add_to(const float *x, float *narrow, int64_t n)
{
    RUNGI_VECTORIZE
    for (int64_t j = 0; j < n; j++)
        narrow[j] += x[j];
}

static void piece_widen(float *narrow, double *wide, int64_t n)
{
    RUNGI_VECTORIZE
    for (int64_t j = 0; j < n; j++) {
        wide[j] += (double)narrow[j];
        narrow[j] = 0;
    }
}

#define PIECE_FUNCTION(name) piece_##name,
#define PIECE_TABLE                                                                  \
    {                                                                                \
        .function = {RUNGI_PIECE_FUNCTIONS(PIECE_FUNCTION)}, .sum = rungi_lanes_sum, \
        .add = piece_add_to, .widen = piece_widen,                                   \
    }
