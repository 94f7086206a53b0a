// SPDX-License-Identifier: Apache-2.0
// Float32 formulas of the elementwise operators, shared by the kernels of all devices. `gradient`
// is that of x, from g = dy and from the output y or the input x, whatever backward reads.
#ifndef RUNGI_OPS_UNARY_FORMULAS_H
#define RUNGI_OPS_UNARY_FORMULAS_H

#include "ops/unary.h"
#include "ops/vector_math.h"

RUNGI_FORMULA float relu_value(float x, rungi_unary_param p)
{
    (void)p;
    return x < 0 ? 0 : x;
}

RUNGI_FORMULA float relu_gradient(float y, float g, rungi_unary_param p)
{
    (void)p;
    return y > 0 ? g : 0;
}

// a: slope below 0
RUNGI_FORMULA float leaky_relu_value(float x, rungi_unary_param p)
{
    return x < 0 ? x * p.a : x;
}

RUNGI_FORMULA float leaky_relu_gradient(float y, float g, rungi_unary_param p)
{
    return y > 0 ? g : g * p.a;
}

RUNGI_FORMULA float sigmoid_value(float x, rungi_unary_param p)
{
    (void)p;
    return rungi_sigmoid(x);
}

RUNGI_FORMULA float sigmoid_gradient(float y, float g, rungi_unary_param p)
{
    (void)p;
    return g * (y * (1 - y));
}

RUNGI_FORMULA float tanh_value(float x, rungi_unary_param p)
{
    (void)p;
    return rungi_tanh(x);
}

RUNGI_FORMULA float tanh_gradient(float y, float g, rungi_unary_param p)
{
    (void)p;
    return g * (1 - y * y);
}

// Distribution function of the standard normal.
RUNGI_FORMULA float gelu_phi(float x)
{
    return 0.5f + 0.5f * rungi_erf(x * 0.707106781f);
}

RUNGI_FORMULA float gelu_erf_value(float x, rungi_unary_param p)
{
    (void)p;
    return x * gelu_phi(x);
}

RUNGI_FORMULA float gelu_erf_gradient(float x, float g, rungi_unary_param p)
{
    (void)p;
    return g * (gelu_phi(x) + x * (0.398942280f * rungi_exp(-0.5f * x * x)));
}

// (1 + tanh u) / 2 = sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3)
RUNGI_FORMULA float gelu_gate(float x)
{
    return rungi_sigmoid(x * (1.595769122f + 0.0713548163f * x * x));
}

RUNGI_FORMULA float gelu_tanh_value(float x, rungi_unary_param p)
{
    (void)p;
    return x * gelu_gate(x);
}

RUNGI_FORMULA float gelu_tanh_gradient(float x, float g, rungi_unary_param p)
{
    (void)p;
    float s = gelu_gate(x);
    return g * (s + x * (s * (1 - s)) * (1.595769122f + 0.214064449f * x * x));
}

RUNGI_FORMULA float silu_value(float x, rungi_unary_param p)
{
    (void)p;
    return x * rungi_sigmoid(x);
}

RUNGI_FORMULA float silu_gradient(float x, float g, rungi_unary_param p)
{
    (void)p;
    float s = rungi_sigmoid(x);
    return g * (s + x * (s * (1 - s)));
}

// a x + b
RUNGI_FORMULA float scale_value(float x, rungi_unary_param p)
{
    return p.a * x + p.b;
}

RUNGI_FORMULA float scale_gradient(float unused, float g, rungi_unary_param p)
{
    (void)unused;
    return p.a * g;
}

#endif
