// SPDX-License-Identifier: Apache-2.0
// Elementary functions of float32 without branches or tables, so that loops over them vectorize.
// They use +, -, *, / and integers only, each rounded on its own: every instruction set, and a GPU
// without contraction, computes the same bits. NaN gives NaN. Errors are in units in the last place
// of the result (vector_math_test.c holds them against float64).
#ifndef RUNGI_OPS_VECTOR_MATH_H
#define RUNGI_OPS_VECTOR_MATH_H

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#    define RUNGI_FORMULA static __host__ __device__ inline
#else
#    define RUNGI_FORMULA static inline
#endif

RUNGI_FORMULA uint32_t rungi_float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

RUNGI_FORMULA float rungi_bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// |x|, and x with its sign changed where `sign` is negative.
RUNGI_FORMULA float rungi_abs(float x)
{
    return rungi_bits_float(rungi_float_bits(x) & 0x7FFFFFFF);
}

RUNGI_FORMULA float rungi_with_sign(float x, float sign)
{
    return rungi_bits_float(rungi_float_bits(x) ^ (rungi_float_bits(sign) & 0x80000000));
}

// e^x, 1.0 ulp; 0 where the result is below 1.7e-38 (x < -86.9), infinity above the largest float.
// x = n ln 2 + r with ln 2 in two parts (Cody and Waite); the polynomial of e^r is that of expf in
// Moshier's Cephes library.
RUNGI_FORMULA float rungi_exp(float x)
{
    const float round = 0x1.8p23f; // adding it leaves n in the low bits
    x = x < -87.0f ? -87.0f : x;
    x = x > 89.0f ? 89.0f : x;
    float shifted = x * 1.44269504f + round;
    float n = shifted - round;
    float r = x - n * 0x1.62e4p-1f; // exact
    r = r - n * 0x1.7f7d1cp-20f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    // 2 p times 2^(n - 1), since 2^128 is no float.
    return (p + p) * rungi_bits_float((rungi_float_bits(shifted) << 23) + 0x3F000000);
}

// tanh x, 1.3 ulp. Polynomial of Cephes' tanhf below 0.625.
RUNGI_FORMULA float rungi_tanh(float x)
{
    float t = rungi_abs(x), z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    p = p * z * x + x;
    float far = 1 - 2 / (rungi_exp(t + t) + 1);
    return t < 0.625f ? p : rungi_with_sign(far, x);
}

// erf x, 1.2 ulp. Polynomials of N. Juffa (erff on stackoverflow.com, question 35148198).
RUNGI_FORMULA float rungi_erf(float x)
{
    float t = rungi_abs(x), s = x * x;
    float far = -1.72853470e-5f * t + 3.83197126e-4f;
    float u = -3.88396438e-3f * t + 2.42546219e-2f;
    far = far * s + u;
    far = far * t - 1.06777877e-1f;
    far = far * t - 6.34846687e-1f;
    far = far * t - 1.28717512e-1f;
    far = 1 - rungi_exp(far * t - t);
    float near = -5.96761703e-4f;
    near = near * s + 4.99119423e-3f;
    near = near * s - 2.67681349e-2f;
    near = near * s + 1.12819925e-1f;
    near = near * s - 3.76125336e-1f;
    near = near * s + 1.28379166e-1f;
    near = near * x + x;
    return t > 0.927734375f ? rungi_with_sign(far, x) : near;
}

// ln(1 + x) for x in [0, 1], 2 ulp: 2 artanh(x / (2 + x)), whose series is cut after s^13 (s is at
// most 1/3; what is left out is below 2e-8 of the result).
RUNGI_FORMULA float rungi_log1p_unit(float x)
{
    float s = x / (2 + x), z = s * s;
    float p = 1.0f / 13;
    p = p * z + 1.0f / 11;
    p = p * z + 1.0f / 9;
    p = p * z + 1.0f / 7;
    p = p * z + 1.0f / 5;
    p = p * z + 1.0f / 3;
    return 2 * s + 2 * s * (z * p);
}

// 1 / (1 + e^-x), 2 ulp; 0 below -88.
RUNGI_FORMULA float rungi_sigmoid(float x)
{
    return 1 / (1 + rungi_exp(-x));
}

#endif
