// SPDX-License-Identifier: Apache-2.0
#include "testing.h"

#include <math.h>

#include "rung/tensor.h"

// The bit patterns of case C84.
static void bf16_patterns(void **state)
{
    (void)state;
    assert_true(rung_bf16_to_f32(0x3F80) == 1.0f);
    assert_true(fabsf(rung_bf16_to_f32(0x7F7F) - 3.3895e38f) < 1e34f);
    assert_true(fabsf(rung_bf16_to_f32(0x0001) / 9.18e-41f - 1) < 1e-2f);
    assert_true(rung_bf16_to_f32(0xFF80) == -INFINITY);
    assert_true(isnan(rung_bf16_to_f32(0x7FC0)));
    for (uint32_t bits = 0; bits < 65536; bits++) {
        float value = rung_bf16_to_f32((uint16_t)bits);
        uint16_t back = rung_f32_to_bf16(value);
        assert_true(isnan(value) ? isnan(rung_bf16_to_f32(back)) : back == bits);
    }
    assert_int_equal(rung_f32_to_bf16(1.00390625f), 0x3F80);  // halfway, to even
    assert_int_equal(rung_f32_to_bf16(1.01171875f), 0x3F82);  // halfway, to even
    assert_int_equal(rung_f32_to_bf16(1.003906369f), 0x3F81); // just above halfway
}

// gcc and clang convert _Float16 by the hardware's or libgcc's rules (IEEE 754).
static void f16_against_compiler(void **state)
{
    (void)state;
#ifdef __FLT16_MANT_DIG__
    for (uint32_t bits = 0; bits < 65536; bits++) {
        _Float16 half;
        uint16_t pattern = (uint16_t)bits;
        memcpy(&half, &pattern, 2);
        float value = rung_f16_to_f32(pattern);
        assert_true(isnan(value) ? half != half : value == (float)half);
        if (!isnan(value))
            assert_int_equal(rung_f32_to_f16(value), pattern);
    }
    for (uint32_t i = 0; i < 2000000; i++) {
        uint32_t bits = i * 2654435761u;
        float value;
        memcpy(&value, &bits, 4);
        _Float16 half = (_Float16)value;
        uint16_t pattern;
        memcpy(&pattern, &half, 2);
        if (!isnan(value))
            assert_int_equal(rung_f32_to_f16(value), pattern);
    }
#else
    skip();
#endif
}

static void convert_counts_losses(void **state)
{
    (void)state;
    float in[] = {1.5f, -3.9f, 1e9f, NAN, 300, -1};
    uint8_t bytes[6];
    int64_t lost = 0;
    rung_convert(RUNG_U8, bytes, RUNG_F32, in, 6, &lost);
    assert_int_equal(bytes[0], 1);
    assert_int_equal(bytes[1], 0);
    assert_int_equal(bytes[2], 255);
    assert_int_equal(bytes[3], 0);
    assert_int_equal(bytes[4], 255);
    assert_int_equal(bytes[5], 0);
    assert_int_equal(lost, 4);
    double big[] = {1e300, 65504, 65520};
    uint16_t halves[3];
    rung_convert(RUNG_F16, halves, RUNG_F64, big, 3, &lost);
    assert_int_equal(lost, 2);
    assert_int_equal(halves[1], 0x7BFF);
}

static void shapes(void **state)
{
    (void)state;
    rung_shape shape = RUNG_SHAPE(RUNG_BATCH, 3, 32);
    char text[RUNG_SHAPE_TEXT];
    assert_string_equal(rung_shape_text(&shape, text, sizeof text), "[N, 3, 32]");
    int64_t count;
    assert_fails(RUNG_INVALID, "negative", rung_shape_count(&shape, &count));
    shape.dim[0] = 2;
    assert_ok(rung_shape_count(&shape, &count));
    assert_int_equal(count, 192);
    rung_shape huge = RUNG_SHAPE((int64_t)1 << 40, (int64_t)1 << 40);
    assert_fails(RUNG_INVALID, "more elements", rung_shape_count(&huge, &count));
    rung_shape scalar = RUNG_SCALAR;
    assert_ok(rung_shape_count(&scalar, &count));
    assert_int_equal(count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bf16_patterns),
        cmocka_unit_test(f16_against_compiler),
        cmocka_unit_test(convert_counts_losses),
        cmocka_unit_test(shapes),
    };
    return RUN_TESTS(tests);
}
