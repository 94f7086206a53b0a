// SPDX-License-Identifier: Apache-2.0
// The loops over arrays against the conversions of single numbers, which tensor_test holds against
// the compiler's.
#include "testing.h"

#include <math.h>
#include <stdlib.h>

#include "base/context.h"
#include "tensor/half.h"

enum { PATTERNS = 65536 };

static uint16_t all[PATTERNS];

static int fill(void **state)
{
    (void)state;
    for (int i = 0; i < PATTERNS; i++)
        all[i] = (uint16_t)i;
    return 0;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static const rungi_half_loops *loops_at(int index)
{
    static const rung_isa isas[] = {RUNG_ISA_SCALAR, RUNG_ISA_AVX2};
    return isas[index] <= rungi_cpu_isa() ? rungi_half_loops_for(isas[index]) : NULL;
}

// Equal bits, but that a NaN may have become a quiet one.
static void assert_same(uint32_t got, uint32_t want, uint32_t quiet)
{
    if (got != want)
        assert_int_equal(got, want | quiet);
}

static void widen_all_patterns(void **state)
{
    (void)state;
    static float wide[PATTERNS];
    for (int k = 0; k < 2 && loops_at(k); k++) {
        loops_at(k)->widen_bf16(all, wide, PATTERNS);
        for (int i = 0; i < PATTERNS; i++)
            assert_int_equal(bits_of(wide[i]), bits_of(rung_bf16_to_f32(all[i])));
        loops_at(k)->widen_f16(all, wide, PATTERNS);
        for (int i = 0; i < PATTERNS; i++) {
            bool nan = (all[i] & 0x7FFF) > 0x7C00;
            assert_same(bits_of(wide[i]), bits_of(rung_f16_to_f32(all[i])), nan ? 0x400000 : 0);
        }
    }
}

// There and back again: every number as it was, every NaN still one.
static void patterns_survive(void **state)
{
    (void)state;
    static float wide[PATTERNS];
    static uint16_t back[PATTERNS];
    for (int k = 0; k < 2 && loops_at(k); k++) {
        loops_at(k)->widen_bf16(all, wide, PATTERNS);
        loops_at(k)->narrow_bf16(wide, back, PATTERNS);
        for (int i = 0; i < PATTERNS; i++)
            assert_same(back[i], all[i], (all[i] & 0x7FFF) > 0x7F80 ? 0x40 : 0);
        loops_at(k)->widen_f16(all, wide, PATTERNS);
        loops_at(k)->narrow_f16(wide, back, PATTERNS);
        for (int i = 0; i < PATTERNS; i++)
            assert_same(back[i], all[i], (all[i] & 0x7FFF) > 0x7C00 ? 0x200 : 0);
    }
}

// Numbers next to every boundary between two 16-bit ones, and others from all over the range.
static void narrow_as_single(void **state)
{
    (void)state;
    enum { COUNT = 400000 };
    float *from = malloc(COUNT * sizeof *from);
    uint16_t *to = malloc(COUNT * sizeof *to);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t near = i / 6 << 16 | (0x7FFE + i % 6), far = i * 2654435761U;
        uint32_t half = (i / 6 << 13) + 0x38000000 + 0xFFE + i % 6; // of f16's normal numbers
        uint32_t bits = i % 3 == 0 ? far : i % 3 == 1 ? near : half;
        memcpy(&from[i], &bits, sizeof bits);
    }
    for (int k = 0; k < 2 && loops_at(k); k++) {
        loops_at(k)->narrow_bf16(from, to, COUNT - 5); // a remainder
        for (int i = 0; i < COUNT - 5; i++)
            assert_int_equal(to[i], rung_f32_to_bf16(from[i]));
        loops_at(k)->narrow_f16(from, to, COUNT - 5);
        for (int i = 0; i < COUNT - 5; i++)
            assert_int_equal(to[i], rung_f32_to_f16(from[i]));
    }
    free(from);
    free(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(widen_all_patterns),
        cmocka_unit_test(patterns_survive),
        cmocka_unit_test(narrow_as_single),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
