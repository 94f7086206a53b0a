// SPDX-License-Identifier: Apache-2.0
// Element types, shapes and views of host memory.
#ifndef RUNG_TENSOR_H
#define RUNG_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rung/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// id, name, bytes, name in safetensors files
#define RUNG_DTYPE_MAP(X)      \
    X(F32, "f32", 4, "F32")    \
    X(F16, "f16", 2, "F16")    \
    X(BF16, "bf16", 2, "BF16") \
    X(F64, "f64", 8, "F64")    \
    X(I32, "i32", 4, "I32")    \
    X(I64, "i64", 8, "I64")    \
    X(U8, "u8", 1, "U8")       \
    X(BOOL, "bool", 1, "BOOL")

typedef enum rung_dtype {
#define RUNG_DTYPE_ENUM(id, name, bytes, st) RUNG_##id,
    RUNG_DTYPE_MAP(RUNG_DTYPE_ENUM)
#undef RUNG_DTYPE_ENUM
        RUNG_DTYPE_COUNT
} rung_dtype;

// Bytes of one element.
RUNG_API size_t rung_dtype_size(rung_dtype dtype);
// "f32", "bf16", ... Never NULL.
RUNG_API const char *rung_dtype_name(rung_dtype dtype);
// True for f16, bf16, f32 and f64.
RUNG_API bool rung_dtype_is_float(rung_dtype dtype);

// A shape is its rank and its dimensions, outermost first. Rank 0 is a scalar. A dimension may be
// zero. Images are [batch, channels, height, width] whatever their layout in memory is.
enum { RUNG_MAX_RANK = 6 };

typedef struct rung_shape {
    int rank;
    int64_t dim[RUNG_MAX_RANK];
} rung_shape;

// A symbolic dimension of a graph: RUNG_BATCH is the size of the batch.
enum { RUNG_BATCH = -1000 };

// RUNG_SHAPE(64, 3, 32, 32) is a rung_shape (C only).
#define RUNG_SHAPE(...)                                                              \
    ((rung_shape){.rank = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), \
                  .dim = {__VA_ARGS__}})
#define RUNG_SCALAR ((rung_shape){0})

RUNG_API bool rung_shape_equal(const rung_shape *a, const rung_shape *b);

// Number of elements (1 for a scalar). Fails with RUNG_INVALID when a dimension is negative
// or the product overflows.
RUNG_API rung_status rung_shape_count(const rung_shape *shape, int64_t *count_out);

// Writes "[64, 3, 32, 32]" into `out` (RUNG_BATCH prints as N) and returns it.
RUNG_API char *rung_shape_text(const rung_shape *shape, char *out, size_t size);
enum { RUNG_SHAPE_TEXT = 160 }; // enough room for any shape's text

// A borrowed view of contiguous row-major elements in host memory.
typedef struct rung_view {
    rung_dtype dtype;
    rung_shape shape;
    void *data;
} rung_view;

// Conversions of single 16-bit floats: to float exactly, from float rounding to nearest even. NaN
// stays NaN, values beyond the range become infinities.
RUNG_API float rung_f16_to_f32(uint16_t bits);
RUNG_API uint16_t rung_f32_to_f16(float value);
RUNG_API float rung_bf16_to_f32(uint16_t bits);
RUNG_API uint16_t rung_f32_to_bf16(float value);

// Copies `count` elements from `src` to `dst` with conversion between any two dtypes. Float to
// integer truncates towards zero and saturates (NaN becomes 0); anything to bool is "not zero".
// Between equal dtypes the bits are copied. `lost_out` (may be NULL) receives how many finite
// values became infinite or were saturated.
RUNG_API void rung_convert(rung_dtype to, void *dst, rung_dtype from, const void *src,
                           int64_t count, int64_t *lost_out);

#ifdef __cplusplus
}
#endif

#endif
