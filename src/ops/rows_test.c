// SPDX-License-Identifier: Apache-2.0
// Maxima with NaN, sums whose exact value is known, and equal bits of all instruction sets.
#include "ops/rows.h"

#include "testing.h"

#include <math.h>

#include "base/context.h"
#include "base/philox.h"
#include "ops/pieces.h"

enum { COUNT = 2500 };
static float x[COUNT], g[COUNT];

static const rungi_row_loops *tables[2] = {&rungi_row_loops_plain};
static const rungi_piece_loops *pieces[2] = {&rungi_piece_loops_plain};

static void use_tables(void)
{
#if defined(__x86_64__)
    if (rungi_cpu_isa() >= RUNG_ISA_AVX2) {
        tables[1] = &rungi_row_loops_avx2;
        pieces[1] = &rungi_piece_loops_avx2;
    }
#endif
}

static void fill(void)
{
    for (int k = 0; k < 2; k++) {
        rungi_random random = rungi_random_make(9, RUNGI_PURPOSE_TEST, (uint64_t)k, 0, 0);
        for (int i = 0; i < COUNT; i++)
            (k ? g : x)[i] = (float)rungi_random_normal(&random, (uint64_t)i);
    }
}

static void check_max(void **state)
{
    (void)state;
    for (int k = 0; k < 2 && tables[k]; k++)
        for (int n = 1; n < 140; n++)
            for (int at = 0; at < n; at++) {
                fill();
                x[at] = 100;
                assert_true(tables[k]->max(x, n) == 100);
                x[at] = NAN;
                assert_true(isnan(tables[k]->max(x, n)));
                x[at] = -INFINITY;
                assert_true(tables[k]->max(x, n) == (n == 1 ? -INFINITY : tables[0]->max(x, n)));
            }
}

static void check_sums(void **state)
{
    (void)state;
    fill();
    for (int k = 0; k < 2 && tables[k]; k++)
        for (int n = 1; n <= COUNT; n += n < 70 ? 1 : 347) {
            double sum = 0, size = 0, dot = 0, exps = 0;
            for (int i = 0; i < n; i++) {
                sum += x[i];
                size += fabs(x[i]);
                dot += (double)x[i] * g[i];
                exps += exp((double)x[i] - 3);
            }
            assert_near(tables[k]->sum(x, n), sum, 1e-6 * size);
            assert_near(tables[k]->dot(x, g, n), dot, 1e-6 * size);
            assert_near(tables[k]->exp_sum(x, 3, NULL, n), exps, 1e-6 * exps);
        }
}

// Everything that a table computes from n elements, in one array.
static size_t all_of(int k, int n, double *out)
{
    static float y[COUNT];
    static double wide[COUNT];
    const rungi_row_loops *t = tables[k];
    size_t count = 0;
    out[count++] = (double)t->max(x, n);
    out[count++] = t->sum(x, n);
    out[count++] = t->dot(x, g, n);
    out[count++] = t->exp_sum(x, 0.5f, y, n);
#define KEEP(call)                           \
    do {                                     \
        call;                                \
        for (int keep = 0; keep < n; keep++) \
            out[count++] = (double)y[keep];  \
    } while (0)
    KEEP((void)0);
    KEEP(t->scale(x, 0.3f, y, n));
    KEEP(t->subtract(x, 0.3f, y, n));
    KEEP(t->exp(x, 0.3f, 0.7f, y, n));
    KEEP(t->softmax(x, g, 0.3f, y, n));
    KEEP(t->log_softmax(x, g, 0.3f, y, n));
    if (n > RUNGI_PIECE)
        return count;
    for (int f = 0; f < RUNGI_PIECE_COUNT; f++)
        for (int steps = 0; steps < 16; steps++) {
            // Targets and differences do not stretch.
            if (f >= RUNGI_PIECE_square && (steps & 3) != 3)
                continue;
            rungi_piece p = {{x, g, x + 1, g + 1}, {0}, n, 0.3f};
            for (int o = 0; o < RUNGI_PIECE_OPERANDS; o++)
                p.step[o] = steps >> o & 1;
            KEEP(pieces[k]->function[f](&p, y));
        }
    out[count++] = (double)pieces[k]->sum(x, n);
    memset(wide, 0, sizeof wide);
    KEEP(pieces[k]->add(x, y, n));
    pieces[k]->widen(y, wide, n);
    KEEP((void)0);
    for (int i = 0; i < n; i++)
        out[count++] = wide[i];
    return count;
}

static void check_bits(void **state)
{
    (void)state;
    if (!tables[1])
        skip_because("one instruction set only");
    fill();
    static double plain[200 * COUNT], fast[200 * COUNT];
    for (int n = 1; n <= COUNT; n += n < 70 ? 1 : 347) {
        size_t count = all_of(0, n, plain);
        assert_true(all_of(1, n, fast) == count);
        for (size_t i = 0; i < count; i++)
            if (memcmp(&plain[i], &fast[i], sizeof *plain) != 0)
                fail_msg("n = %d, result %zu: %.17g and %.17g", n, i, plain[i], fast[i]);
    }
}

int main(void)
{
    use_tables();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_max),
        cmocka_unit_test(check_sums),
        cmocka_unit_test(check_bits),
    };
    return RUN_TESTS(tests);
}
