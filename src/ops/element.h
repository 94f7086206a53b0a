// SPDX-License-Identifier: Apache-2.0
// Element access for reference kernels: they compute in double whatever the dtype is, so that one
// source is the fallback for every float type and, at f64, the reference that others are held to.
#ifndef RUNGI_OPS_ELEMENT_H
#define RUNGI_OPS_ELEMENT_H

#include "rung/tensor.h"

static inline double rungi_get(rung_dtype dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case RUNG_F32:
        return ((const float *)data)[i];
    case RUNG_F64:
        return ((const double *)data)[i];
    case RUNG_BF16:
        return rung_bf16_to_f32(((const uint16_t *)data)[i]);
    case RUNG_F16:
        return rung_f16_to_f32(((const uint16_t *)data)[i]);
    case RUNG_I64:
        return (double)((const int64_t *)data)[i];
    case RUNG_I32:
        return ((const int32_t *)data)[i];
    default:
        return ((const uint8_t *)data)[i];
    }
}

static inline void rungi_set(rung_dtype dtype, void *data, int64_t i, double value)
{
    switch (dtype) {
    case RUNG_F32:
        ((float *)data)[i] = (float)value;
        break;
    case RUNG_F64:
        ((double *)data)[i] = value;
        break;
    case RUNG_BF16:
        ((uint16_t *)data)[i] = rung_f32_to_bf16((float)value);
        break;
    case RUNG_F16:
        ((uint16_t *)data)[i] = rung_f32_to_f16((float)value);
        break;
    case RUNG_I64:
        ((int64_t *)data)[i] = (int64_t)value;
        break;
    case RUNG_I32:
        ((int32_t *)data)[i] = (int32_t)value;
        break;
    default:
        ((uint8_t *)data)[i] = (uint8_t)value;
        break;
    }
}

// An integer label or index, exactly.
static inline int64_t rungi_get_index(rung_dtype dtype, const void *data, int64_t i)
{
    return dtype == RUNG_I64   ? ((const int64_t *)data)[i]
           : dtype == RUNG_I32 ? ((const int32_t *)data)[i]
                               : (int64_t)((const uint8_t *)data)[i];
}

#endif
