// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "rung/tensor.h"
#include "tensor/half.h"

typedef struct dtype_info {
    const char *name;
    size_t bytes;
} dtype_info;

static const dtype_info infos[RUNG_DTYPE_COUNT] = {
#define DTYPE_INFO(id, text, bytes, st) {text, bytes},
    RUNG_DTYPE_MAP(DTYPE_INFO)
#undef DTYPE_INFO
};

size_t rung_dtype_size(rung_dtype dtype)
{
    return (unsigned)dtype < RUNG_DTYPE_COUNT ? infos[dtype].bytes : 0;
}

const char *rung_dtype_name(rung_dtype dtype)
{
    return (unsigned)dtype < RUNG_DTYPE_COUNT ? infos[dtype].name : "unknown";
}

bool rung_dtype_is_float(rung_dtype dtype)
{
    return dtype == RUNG_F32 || dtype == RUNG_F64 || dtype == RUNG_F16 || dtype == RUNG_BF16;
}

static uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float rung_bf16_to_f32(uint16_t bits)
{
    return bits_float((uint32_t)bits << 16);
}

uint16_t rung_f32_to_bf16(float value)
{
    uint32_t bits = float_bits(value);
    if ((bits & 0x7FFFFFFF) > 0x7F800000)
        return (uint16_t)(bits >> 16 | 0x40); // quiet NaN, sign and upper payload kept
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

float rung_f16_to_f32(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
    uint32_t exponent = bits >> 10 & 0x1F;
    uint32_t mantissa = bits & 0x3FF;
    if (exponent == 0x1F)
        return bits_float(sign | 0x7F800000 | mantissa << 13);
    if (exponent)
        return bits_float(sign | (exponent + 112) << 23 | mantissa << 13);
    float value = (float)mantissa * 0x1p-24f;
    return sign ? -value : value;
}

uint16_t rung_f32_to_f16(float value)
{
    uint32_t bits = float_bits(value);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    uint32_t magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000)
        return (uint16_t)(sign | 0x7E00 | (magnitude >> 13 & 0x3FF));
    if (magnitude >= 0x477FF000) // 65520 and up round to infinity
        return sign | 0x7C00;
    if (magnitude < 0x38800000) { // below 2^-14: subnormal
        // Adding 0.5 puts the value's unit of 2^-24 at the last mantissa place, rounded to even.
        float shifted = bits_float(magnitude) + 0.5f;
        return (uint16_t)(sign | (float_bits(shifted) - 0x3F000000));
    }
    uint32_t rounded = magnitude + 0xFFF + (magnitude >> 13 & 1);
    return (uint16_t)(sign | ((rounded >> 13) - (112 << 10)));
}

// Reads element i as double; i64 goes another way where that would lose digits.
static double load(rung_dtype dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case RUNG_F32:
        return ((const float *)data)[i];
    case RUNG_F16:
        return rung_f16_to_f32(((const uint16_t *)data)[i]);
    case RUNG_BF16:
        return rung_bf16_to_f32(((const uint16_t *)data)[i]);
    case RUNG_F64:
        return ((const double *)data)[i];
    case RUNG_I32:
        return ((const int32_t *)data)[i];
    case RUNG_I64:
        return (double)((const int64_t *)data)[i];
    case RUNG_U8:
        return ((const uint8_t *)data)[i];
    case RUNG_BOOL:
        return ((const uint8_t *)data)[i] != 0;
    default:
        return 0;
    }
}

// Truncates into [low, high] (high exclusive as a double, since 2^63 - 1 has none).
static int64_t saturate(double value, double low, double high_end, int64_t high, int64_t *lost)
{
    if (isnan(value))
        return 0;
    if (value <= low - 1 || value >= high_end) {
        (*lost)++;
        return value < 0 ? (int64_t)low : high;
    }
    return (int64_t)value;
}

static void store(rung_dtype dtype, void *data, int64_t i, double value, int64_t *lost)
{
    switch (dtype) {
    case RUNG_F32: {
        float f = (float)value;
        *lost += isinf(f) && !isinf(value);
        ((float *)data)[i] = f;
        break;
    }
    case RUNG_F16: {
        uint16_t bits = rung_f32_to_f16((float)value);
        *lost += (bits & 0x7FFF) == 0x7C00 && !isinf(value);
        ((uint16_t *)data)[i] = bits;
        break;
    }
    case RUNG_BF16: {
        uint16_t bits = rung_f32_to_bf16((float)value);
        *lost += (bits & 0x7FFF) == 0x7F80 && !isinf(value);
        ((uint16_t *)data)[i] = bits;
        break;
    }
    case RUNG_F64:
        ((double *)data)[i] = value;
        break;
    case RUNG_I32:
        ((int32_t *)data)[i] = (int32_t)saturate(value, INT32_MIN, 0x1p31, INT32_MAX, lost);
        break;
    case RUNG_I64:
        ((int64_t *)data)[i] = saturate(value, -0x1p63, 0x1p63, INT64_MAX, lost);
        break;
    case RUNG_U8:
        ((uint8_t *)data)[i] = (uint8_t)saturate(value, 0, 256, 255, lost);
        break;
    case RUNG_BOOL:
        ((uint8_t *)data)[i] = value != 0;
        break;
    default:
        break;
    }
}

void rung_convert(rung_dtype to, void *dst, rung_dtype from, const void *src, int64_t count,
                  int64_t *lost_out)
{
    int64_t lost = 0;
    if (to == from) {
        if (count > 0)
            memcpy(dst, src, (size_t)count * rung_dtype_size(to));
    } else if (to == RUNG_I32 && from == RUNG_I64) {
        const int64_t *s = src;
        for (int64_t i = 0; i < count; i++) {
            int64_t clipped = s[i] < INT32_MIN ? INT32_MIN : s[i] > INT32_MAX ? INT32_MAX : s[i];
            lost += clipped != s[i];
            ((int32_t *)dst)[i] = (int32_t)clipped;
        }
    } else if (to == RUNG_F32 && rungi_dtype_is_half(from)) {
        rungi_widen_of(&rungi_half_loops_plain, from)(src, dst, count);
    } else if (from == RUNG_F32 && rungi_dtype_is_half(to) && !lost_out) {
        rungi_narrow_of(&rungi_half_loops_plain, to)(src, dst, count);
    } else {
        for (int64_t i = 0; i < count; i++)
            store(to, dst, i, load(from, src, i), &lost);
    }
    if (lost_out)
        *lost_out = lost;
}
