// SPDX-License-Identifier: Apache-2.0
// The tiles of linear_packed_*.c for every instruction set that this machine has, and the kernels
// made of them: sizes at which each number of rows and vectors occurs, and ends that fill neither.
// Small enough for tools/avx512.
#include "ops/trial_testing.h"

#include "base/options.h"
#include "base/philox.h"
#include "ops/linear/linear_tiles.h"

extern const rungi_op rungi_op_linear;

enum { ROWS = 26, DEPTH = 40, WIDTH = 80, GAP = 3, GUARD = 16, ROOM = 2 * GUARD + 64 * WIDTH };

static const rungi_linear_tile_loops *table_of(int isa)
{
#if defined(__x86_64__)
    if (isa == RUNG_ISA_AVX512)
        return &rungi_linear_tile_loops_avx512;
    if (isa == RUNG_ISA_AVX2)
        return &rungi_linear_tile_loops_avx2;
#endif
    return isa == RUNG_ISA_SCALAR ? &rungi_linear_tile_loops_plain : NULL;
}

static void fill(float *x, int count, uint64_t which)
{
    rungi_random random = rungi_random_make(4, RUNGI_PURPOSE_TEST, which, 0, 0);
    for (int i = 0; i < count; i++)
        x[i] = (float)rungi_random_normal(&random, (uint64_t)i);
}

static void blank(float *x, int count)
{
    for (int i = 0; i < count; i++)
        x[i] = NAN;
}

// `rows` rows of `count` floats that are `stride` apart in x[ROOM], NaN before, after and between:
// what reads or writes there shows.
static float *lay(float *x, int rows, int count, int stride, uint64_t which)
{
    float values[WIDTH];
    blank(x, ROOM);
    for (int r = 0; r < rows; r++) {
        fill(values, count, which * 64 + (uint64_t)r);
        memcpy(x + GUARD + r * stride, values, (size_t)count * sizeof *values);
    }
    return x + GUARD;
}

// Are the rows all that is a number?
static void check_guards(const float *x, int rows, int count, int stride)
{
    for (int i = 0; i < ROOM; i++) {
        int at = i - GUARD;
        bool inside = at >= 0 && at / stride < rows && at % stride < count;
        assert_true(isnan(x[i]) == !inside);
    }
}

typedef struct tile_case {
    const rungi_linear_tile_loops *loops;
    int rows, vectors, depth;
    bool add, packs;
} tile_case;

// Each element against the sum in float64, and the bits of one accumulator that takes k in order.
static void check_sums(const tile_case *c, const float *a, int a_row, const float *b,
                       const float *before, const float *got)
{
    const int width = c->vectors * c->loops->lanes, stride = width + GAP;
    for (int r = 0; r < c->rows; r++)
        for (int j = 0; j < width; j++) {
            double sum = c->add ? before[r * stride + j] : 0, size = fabs(sum);
            float bits = (float)sum;
            for (int k = 0; k < c->depth; k++) {
                float x = a[r * a_row + k], y = b[k * width + j];
                sum += (double)x * y;
                size += fabs((double)x * y);
                bits = c->loops->lanes > 4 ? fmaf(x, y, bits) : bits + x * y;
            }
            assert_near(got[r * stride + j], sum, size * (c->depth + 1) * 0x1p-24);
            assert_true(got[r * stride + j] == bits);
        }
}

static void check_tile(const tile_case *c)
{
    static float a[ROOM], b[ROOM], from[ROOM], before[ROOM], out[ROOM];
    const int width = c->vectors * c->loops->lanes, a_row = c->depth + GAP, c_row = width + GAP;
    float *panel = lay(b, c->depth, width, width, 1), *to = lay(out, c->rows, width, c_row, 2);
    rungi_linear_tile t = {.k = c->depth,
                           .rows = c->rows,
                           .vectors = c->vectors,
                           .a = lay(a, c->rows, c->depth, a_row, 3),
                           .a_row = a_row,
                           .b = panel,
                           .c = to,
                           .c_row = c_row,
                           .add = c->add,
                           .ahead = from,
                           .ahead_row = width,
                           .ahead_next = 16,
                           .ahead_rows = 5,
                           .ahead_lines = 2};
    if (c->packs) {
        t.from = lay(from, c->depth, width, width + GAP, 1);
        t.from_row = width + GAP;
        blank(panel, c->depth * width);
    }
    memcpy(before, out, sizeof out);
    c->loops->tile(&t);
    for (int k = 0; k < c->depth && c->packs; k++)
        assert_memory_equal(panel + k * width, t.from + k * t.from_row,
                            (size_t)width * sizeof *panel);
    check_guards(b, c->depth, width, width);
    check_guards(out, c->rows, width, c_row);
    check_sums(c, t.a, a_row, panel, before + GUARD, to);
}

static void tiles_sum_in_order(void **state)
{
    static const int depths[] = {1, 15, 16, DEPTH - 3};
    (void)state;
    for (int isa = RUNG_ISA_SCALAR; isa <= (int)rungi_cpu_isa(); isa++) {
        tile_case c = {.loops = table_of(isa)};
        if (!c.loops)
            continue;
        for (c.vectors = 1; c.vectors <= c.loops->most; c.vectors++)
            for (c.rows = 1; c.rows <= ROWS; c.rows++)
                for (int i = 0; i < 8; i++) {
                    c.depth = depths[(i + c.rows) % 4];
                    c.add = i & 4;
                    c.packs = i & 1;
                    check_tile(&c);
                    c.packs = !c.packs;
                    check_tile(&c);
                }
        print_message("%s: %d x %d lanes\n", rung_isa_name((rung_isa)isa), c.loops->most,
                      c.loops->lanes);
    }
}

static void check_turn(const rungi_linear_tile_loops *loops, int n, int count)
{
    static float from[ROOM], to[ROOM];
    const int stride = count + GAP, step = loops->lanes + GAP;
    const float *x = lay(from, n, count, stride, 5);
    blank(to, ROOM);
    loops->turn(x, stride, n, count, to + GUARD, step);
    check_guards(to, count, loops->lanes, step);
    for (int k = 0; k < count; k++)
        for (int r = 0; r < loops->lanes; r++)
            assert_true(to[GUARD + k * step + r] == (r < n ? x[r * stride + k] : 0));
}

static void rows_turn(void **state)
{
    (void)state;
    for (int isa = RUNG_ISA_SCALAR; isa <= (int)rungi_cpu_isa(); isa++)
        for (int n = 1; table_of(isa) && n <= table_of(isa)->lanes; n++)
            for (int count = 1; count <= 35; count++)
                check_turn(table_of(isa), n, count);
}

static void check_kernel(const rungi_case *c)
{
    rungi_trial t, truth;
    assert_ok(rungi_trial_init(&t, &rungi_op_linear, c, RUNG_F32, RUNGI_PLAIN, 1));
    assert_ok(rungi_trial_init(&truth, &rungi_op_linear, c, RUNG_F64, RUNGI_PLAIN, 1));
    const rungi_operand *got[] = {&t.out[0], &t.gin[0], &t.gin[1], &t.gin[2]};
    const rungi_operand *want[] = {&truth.out[0], &truth.gin[0], &truth.gin[1], &truth.gin[2]};
    for (int pass = RUNGI_FORWARD; pass <= DATA; pass++)
        run(&truth, pass, "reference", RUNG_ISA_SCALAR, 1);
    for (int isa = RUNG_ISA_SCALAR; isa <= (int)rungi_cpu_isa(); isa++)
        for (int threads = 1; threads <= 3; threads += 2) {
            for (int pass = RUNGI_FORWARD; pass <= DATA; pass++)
                run(&t, pass, "packed", (rung_isa)isa, threads);
            for (int i = 0; i < 4; i++)
                assert_true(error(&t, got[i], &truth, want[i]) <= 3e-6);
        }
    rungi_trial_fini(&t);
    rungi_trial_fini(&truth);
}

static void kernels_agree_with_float64(void **state)
{
    static const rungi_case cases[] = {
        {"one input", {RUNGI_IN(9, 1), RUNGI_IN(1, 1), RUNGI_IN(1)}, 3, NULL},
        {"odd sizes", {RUNGI_IN(21, 37), RUNGI_IN(19, 37), RUNGI_IN(19)}, 3, NULL},
        {"over 64 columns", {RUNGI_IN(75, 91), RUNGI_IN(13, 91), RUNGI_IN(13)}, 3, NULL},
        {"many outputs", {RUNGI_IN(9, 21), RUNGI_IN(290, 21), RUNGI_IN(290)}, 3, NULL},
        {"many rows", {RUNGI_IN(267, 18), RUNGI_IN(17, 18), RUNGI_IN(17)}, 3, NULL},
        {"many inputs", {RUNGI_IN(10, 600), RUNGI_IN(15, 600), RUNGI_IN(15)}, 3, NULL},
    };
    (void)state;
    for (size_t i = 0; i < RUNGI_COUNT(cases); i++)
        check_kernel(&cases[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_sum_in_order),
        cmocka_unit_test(rows_turn),
        cmocka_unit_test(kernels_agree_with_float64),
    };
    return RUN_TESTS(tests);
}
