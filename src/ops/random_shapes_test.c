// SPDX-License-Identifier: Apache-2.0
// Own kernels of convolutions and linear layers for shapes drawn at random: errors against float64
// (against oneDNN where that would take long), guard bytes, equal bits for any number of threads,
// and for AVX2 and AVX-512. ops_test looks at more operators and layouts, for one instruction set.
#include "ops/random_testing.h"
#include "ops/trial_testing.h"

enum {
    CASES = 40,
    FEW = 1 << 20,  // multiplications of a pass, for float64
    MANY = 1 << 25, // which Winograd shares among threads
};

extern const rungi_op rungi_op_conv2d, rungi_op_linear;

typedef struct drawn {
    const rungi_op *op;
    const rungi_case *c;
    rungi_layout layout;
    const char *kernel;
    double most;  // error of the largest value
    int threads;  // more than one
    bool library; // is what results are compared with
} drawn;

// Multiplications of each element of a result.
static double terms_of(const rungi_operand *result, const random_case *r)
{
    return (double)r->work / (double)rungi_operand_count(result);
}

// The error of a result, of its largest value or of the spread of sums of so many normal products.
static void check_error(const rungi_trial *t, const rungi_operand *got, const rungi_trial *truth,
                        const rungi_operand *want, double terms, double most, const char *what)
{
    double e = error_of(t, got, truth, want, 4 * sqrt(terms));
    if (!(e <= most))
        fail_msg("%s: %s errs by %.3g", t->which->name, what, e);
}

// The bytes of the results of all passes, one after the other.
static char *run_all(const drawn *d, rungi_trial *t, rung_isa isa, int threads, size_t *size_out)
{
    const rungi_operand *list[4] = {&t->out[0], &t->gin[0], &t->gin[1], &t->gin[2]};
    const int n = t->n_in > 2 ? 4 : 3;
    size_t size = 0;
    for (int pass = RUNGI_FORWARD; pass <= DATA; pass++)
        run(t, pass, d->kernel, isa, threads);
    for (int i = 0; i < n; i++)
        size += rungi_operand_bytes(list[i]);
    char *bytes = malloc(size), *to = bytes;
    for (int i = 0; i < n; to += rungi_operand_bytes(list[i]), i++)
        memcpy(to, t->ptr[list[i]->buffer], rungi_operand_bytes(list[i]));
    *size_out = size;
    return bytes;
}

static void check_equal(const drawn *d, const char *a, const char *b, size_t size, const char *what)
{
    if (memcmp(a, b, size) != 0)
        fail_msg("%s, %s: other bits with %s", d->kernel, d->c->name, what);
}

static void check(const drawn *d, const random_case *r)
{
    rungi_trial t, truth;
    char *bits[RUNG_ISA_AVX512 + 1] = {NULL};
    size_t size;
    assert_ok(rungi_trial_init(&truth, d->op, d->c, d->library ? RUNG_F32 : RUNG_F64,
                               d->library ? d->layout : RUNGI_PLAIN, 1));
    assert_ok(rungi_trial_init(&t, d->op, d->c, RUNG_F32, d->layout, 1));
    for (int pass = RUNGI_FORWARD; pass <= DATA; pass++)
        run(&truth, pass, d->library ? "onednn" : "reference", rungi_cpu_isa(), 1);
    for (int isa = RUNG_ISA_SCALAR; isa <= (int)rungi_cpu_isa(); isa++) {
        bits[isa] = run_all(d, &t, (rung_isa)isa, 1, &size);
        check_error(&t, &t.out[0], &truth, &truth.out[0], terms_of(&t.out[0], r), d->most,
                    "forward");
        for (int i = 0; i < t.n_in; i++)
            check_error(&t, &t.gin[i], &truth, &truth.gin[i], terms_of(&t.gin[i < 2 ? i : 1], r),
                        d->most,
                        i == 0   ? "data"
                        : i == 1 ? "weight"
                                 : "bias");
        char *threaded = run_all(d, &t, (rung_isa)isa, d->threads, &size);
        check_equal(d, bits[isa], threaded, size, "more threads");
        free(threaded);
    }
    if (bits[RUNG_ISA_AVX512])
        check_equal(d, bits[RUNG_ISA_AVX2], bits[RUNG_ISA_AVX512], size, "AVX-512");
    for (size_t i = 0; i < RUNGI_COUNT(bits); i++)
        free(bits[i]);
    rungi_trial_fini(&t);
    rungi_trial_fini(&truth);
}

static void direct(void **state)
{
    random_case r;
    (void)state;
    for (int i = 0; i < random_cases(CASES) && random_case_of("conv2d", i, FEW, &r); i++)
        check(&(drawn){.op = &rungi_op_conv2d,
                       .c = &r.c,
                       .layout = RUNGI_CHANNELS_LAST,
                       .kernel = "direct",
                       .most = 3e-6,
                       .threads = (int)random_between(&r, 2, 17)},
              &r);
}

static void winograd(void **state)
{
    random_case r;
    (void)state;
    for (int i = 0;
         i < random_cases(CASES) && random_case_of("winograd", i, i % 2 ? MANY : FEW, &r); i++)
        check(&(drawn){.op = &rungi_op_conv2d,
                       .c = &r.c,
                       .layout = RUNGI_CHANNELS_LAST,
                       .kernel = "winograd",
                       .most = 1e-5,
                       .threads = (int)random_between(&r, 2, 17),
                       .library = i % 2},
              &r);
}

static void linear(void **state)
{
    random_case r;
    (void)state;
    for (int i = 0; i < random_cases(CASES) && random_case_of("linear", i, FEW, &r); i++)
        check(&(drawn){.op = &rungi_op_linear,
                       .c = &r.c,
                       .kernel = r.c.in[0].shape.dim[0] <= 8 ? "rows" : "packed",
                       .most = 3e-6,
                       .threads = (int)random_between(&r, 2, 17)},
              &r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(direct),
        cmocka_unit_test(winograd),
        cmocka_unit_test(linear),
    };
    return RUN_TESTS(tests);
}
