// SPDX-License-Identifier: Apache-2.0
// Distributions: Kolmogorov-Smirnov on fixed seeds, so that each test holds for ever or not at all.
// The bound 1.95 of sqrt(n) D would be passed by a right generator with probability 0.999
// (Kolmogorov's distribution: P(K > 1.95) = 0.001).
#include "testing.h"

#include <math.h>
#include <stdio.h>

#include "nn/init.h"

enum { N = 40000 };

static int compare(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double normal_cdf(double x)
{
    return erfc(-x / sqrt(2)) / 2;
}

// sqrt(n) times the largest distance between the draws' distribution and the wanted one: uniform
// within [low, high], or normal(0, std) cut to it.
static double distance(float *x, int64_t n, double low, double high, double std)
{
    qsort(x, (size_t)n, sizeof *x, compare);
    double largest = 0;
    double below = std > 0 ? normal_cdf(low / std) : 0;
    double all = std > 0 ? normal_cdf(high / std) - below : high - low;
    for (int64_t i = 0; i < n; i++) {
        double p = (std > 0 ? normal_cdf(x[i] / std) - below : x[i] - low) / all;
        largest = fmax(largest, fmax(p - (double)i / (double)n, (double)(i + 1) / (double)n - p));
    }
    return sqrt((double)n) * largest;
}

static void check_uniform(const rung_init *init, rung_shape shape, double bound)
{
    int64_t n;
    float *x = malloc(N * sizeof *x);
    assert_ok(rung_shape_count(&shape, &n));
    assert_true(n <= N);
    assert_ok(rungi_init_fill(init, &shape, 1, 7, 0, n, 1, x));
    assert_true(distance(x, n, -bound, bound, 0) < 1.95);
    assert_true(x[0] >= (float)-bound && x[n - 1] <= (float)bound);
    assert_true(x[n - 1] > 0.99 * bound); // sorted
    free(x);
}

static void check_normal(const rung_init *init, rung_shape shape, double std)
{
    int64_t n;
    float *x = malloc(N * sizeof *x);
    assert_ok(rung_shape_count(&shape, &n));
    assert_true(n <= N);
    assert_ok(rungi_init_fill(init, &shape, 1, 8, 0, n, 1, x));
    assert_true(distance(x, n, -HUGE_VAL, HUGE_VAL, std) < 1.95);
    free(x);
}

// The formulas of torch.nn.init for shapes whose fans differ.
static void distributions(void **state)
{
    (void)state;
    const rung_shape linear = RUNG_SHAPE(100, 400), conv = RUNG_SHAPE(64, 32, 3, 3);
    check_uniform(&RUNG_INIT_WEIGHT, linear, 1 / sqrt(400));
    check_uniform(&RUNG_INIT_WEIGHT, conv, 1 / sqrt(32 * 9));
    check_uniform(&RUNG_INIT_BIAS(288), RUNG_SHAPE(4000), 1 / sqrt(288));
    check_uniform(&(rung_init){.kind = RUNG_INIT_KAIMING_UNIFORM}, linear, sqrt(6.0 / 400));
    check_uniform(&(rung_init){.kind = RUNG_INIT_XAVIER_UNIFORM, .a = 1}, linear, sqrt(6.0 / 500));
    check_uniform(&(rung_init){.kind = RUNG_INIT_XAVIER_UNIFORM, .a = 2}, conv,
                  2 * sqrt(6.0 / (96 * 9)));
    check_uniform(&(rung_init){.kind = RUNG_INIT_UNIFORM, .a = -3, .b = 3}, linear, 3);
    check_normal(&RUNG_INIT_RESNET, conv, sqrt(2.0 / (64 * 9)));
    check_normal(&RUNG_INIT_NORMAL_OF(0, 0.02), linear, 0.02);
    check_normal(&(rung_init){.kind = RUNG_INIT_XAVIER_NORMAL, .a = 1}, linear, sqrt(2.0 / 500));
    float x[N];
    const rung_init cut = {RUNG_INIT_TRUNC_NORMAL, .b = 0.5, .low = -1, .high = 0.3};
    assert_ok(rungi_init_fill(&cut, &linear, 1, 9, 0, N, 1, x));
    assert_true(distance(x, N, -1, 0.3, 0.5) < 1.95);
    assert_true(x[0] >= -1 && x[N - 1] <= 0.3f);
    // The test itself must notice a wrong scale of 6 %.
    assert_ok(rungi_init_fill(&RUNG_INIT_NORMAL_OF(0, 1.06), &linear, 1, 9, 0, N, 1, x));
    assert_true(distance(x, N, -HUGE_VAL, HUGE_VAL, 1) > 1.95);
    const rung_init wider = {RUNG_INIT_UNIFORM, .a = -1.06, .b = 1.06};
    assert_ok(rungi_init_fill(&wider, &linear, 1, 9, 0, N, 1, x));
    assert_true(distance(x, N, -1, 1, 0) > 1.95);
}

static void constants(void **state)
{
    (void)state;
    float x[3];
    const rung_shape three = RUNG_SHAPE(3);
    const struct {
        rung_init init;
        float value;
    } cases[] = {{{.kind = RUNG_INIT_ZEROS}, 0},
                 {{.kind = RUNG_INIT_ONES}, 1},
                 {RUNG_INIT_CONSTANT_OF(-2.5), -2.5f},
                 {RUNG_INIT_BIAS(0), 0}};
    for (int i = 0; i < 4; i++) {
        assert_ok(rungi_init_fill(&cases[i].init, &three, 1, 1, 0, 3, 1, x));
        assert_true(x[0] == cases[i].value && x[1] == x[0] && x[2] == x[0]);
    }
}

// An element depends on seed, parameter and index only: parts, threads and overlaps agree.
static void element_is_a_function_of_its_index(void **state)
{
    (void)state;
    const rung_shape shape = RUNG_SHAPE(200, 200);
    const rung_init inits[] = {RUNG_INIT_WEIGHT, RUNG_INIT_RESNET};
    static float whole[N], part[N];
    for (int i = 0; i < 2; i++) {
        assert_ok(rungi_init_fill(&inits[i], &shape, 3, 4, 0, N, 1, whole));
        for (int threads = 1; threads <= 3; threads++) {
            assert_ok(rungi_init_fill(&inits[i], &shape, 3, 4, 0, N, threads, part));
            assert_memory_equal(whole, part, sizeof whole);
        }
        for (int64_t first = 0; first < 9; first++) {
            for (int64_t count = 0; count < 9; count++) {
                part[count] = 42;
                assert_ok(rungi_init_fill(&inits[i], &shape, 3, 4, first, count, 1, part));
                assert_memory_equal(whole + first, part, (size_t)count * sizeof *part);
                assert_true(part[count] == 42);
            }
        }
        assert_ok(rungi_init_fill(&inits[i], &shape, 3, 5, 0, N, 1, part));
        assert_memory_not_equal(whole, part, sizeof whole);
        assert_ok(rungi_init_fill(&inits[i], &shape, 4, 4, 0, N, 1, part));
        assert_memory_not_equal(whole, part, sizeof whole);
    }
}

// Draws of tools/fixtures/init.py, which has its own generator and another quantile function.
static void equals_script(void **state)
{
    (void)state;
    FILE *file = fopen(RUNG_SOURCE_DIR "/tests/fixtures/init.txt", "r");
    assert_non_null(file);
    static char line[8192];
    const rung_shape conv = RUNG_SHAPE(64, 32, 3, 3);
    int lists = 0;
    while (fgets(line, sizeof line, file)) {
        const rung_init init = line[0] == 'w' ? RUNG_INIT_WEIGHT : RUNG_INIT_RESNET;
        if (line[0] == '#')
            continue;
        char *at = strchr(line, ' ');
        assert_int_equal(strtol(at, &at, 10), 200);
        float x[200];
        assert_ok(rungi_init_fill(&init, &conv, 42, 3, 0, 200, 1, x));
        for (int i = 0; i < 200; i++) {
            float theirs = strtof(at, &at);
            // the last bit of a logarithm may decide how a float is rounded
            assert_near(x[i], theirs, line[0] == 'w' ? 0 : 1.2e-7 * fabsf(theirs));
        }
        lists++;
    }
    fclose(file);
    assert_int_equal(lists, 2);
}

static void quantiles(void **state)
{
    (void)state;
    // Python's statistics.NormalDist().inv_cdf and Wichura's own checks
    assert_near(rungi_normal_quantile(0.25), -0.6744897501960817, 1e-15);
    assert_near(rungi_normal_quantile(0.001), -3.090232306167813, 1e-14);
    assert_near(rungi_normal_quantile(1e-20), -9.262340089798405, 1e-13);
    assert_true(rungi_normal_quantile(0.5) == 0);
    // erfc is an independent source
    for (int i = 1; i < 2000; i++) {
        double p = i < 1000 ? i / 2000.0 : pow(10, -(i - 999) / 100.0);
        assert_near(normal_cdf(rungi_normal_quantile(p)) / p, 1, 1e-13);
    }
}

static void refuses(void **state)
{
    (void)state;
    float x[10];
    rung_shape flat = RUNG_SHAPE(10), matrix = RUNG_SHAPE(2, 5);
    assert_fails(RUNG_MISMATCH, "[10] has no fan",
                 rungi_init_fill(&RUNG_INIT_WEIGHT, &flat, 1, 1, 0, 10, 1, x));
    assert_fails(RUNG_INVALID, "initial values [5, +6)",
                 rungi_init_fill(&RUNG_INIT_WEIGHT, &matrix, 1, 1, 5, 6, 1, x));
    const rung_init far = {RUNG_INIT_TRUNC_NORMAL, .b = 1, .low = 20, .high = 21};
    assert_fails(RUNG_INVALID, "too far", rungi_init_fill(&far, &matrix, 1, 1, 0, 10, 1, x));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distributions),
        cmocka_unit_test(constants),
        cmocka_unit_test(element_is_a_function_of_its_index),
        cmocka_unit_test(equals_script),
        cmocka_unit_test(quantiles),
        cmocka_unit_test(refuses),
    };
    return RUN_TESTS(tests);
}
