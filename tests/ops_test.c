// SPDX-License-Identifier: Apache-2.0
// Checks every operator by its case table: `ops_test` all of them, `ops_test NAME` one, `ops_test
// NAME CASE` one case of it.
//   1. the float64 reference's gradients against finite differences of its forward
//   2. every float32 kernel, in every layout and with 1 and 2 threads, against the float64
//   reference
//   3. guard bytes around all operands, inputs left alone, equal bits in two runs, in place and
//   (own kernels) for another number of threads; integer hidden outputs equal to the reference's
//   4. kernels that fuse: a ReLU applied to the output; kernels that add: gradients added to others
// Of some operators 2 to 4 are done with shapes drawn at random too (ops/random_testing.h).
#include "testing.h"

#include <math.h>
#include <stdio.h>

#include "ops/random_testing.h"
#include "ops/trial.h"

enum { RANDOM_CASES = 24, RANDOM_WORK = 1 << 17 };

extern const rungi_op rungi_op_square; // of docs/adding-an-operator.md

static const rungi_op *const *selected;
static const rungi_op *one[2];
static const char *one_case; // NULL: all

static const rungi_kernel *reference_of(const rungi_query *q)
{
    const rungi_kernel *const *list = rungi_query_kernels(q, RUNGI_CPU);
    const rungi_kernel *last = NULL;
    for (int i = 0; list[i]; i++)
        last = list[i];
    return last;
}

static void run_reference(const rungi_trial *t, int pass)
{
    rungi_operand gin[RUNGI_CASE_INPUTS];
    rungi_query q = rungi_trial_query(t, pass, ~0u, gin);
    if (rungi_trial_run(t, &q, reference_of(&q), 1) != RUNG_OK)
        fail_msg("%s '%s': reference: %s", t->op->name, t->which->name, rung_error_last()->message);
}

static int passes_of(const rungi_op *op)
{
    int n = 0;
    while (n < 3 && op->backward[n].name)
        n++;
    return n;
}

static void run_all_references(const rungi_trial *t)
{
    run_reference(t, RUNGI_FORWARD);
    for (int pass = 0; pass < passes_of(t->op); pass++)
        run_reference(t, pass);
}

// ---- 1. finite differences --------------------------------------------------------------------

// Sum of outputs weighted by the gradients of outputs: the function whose gradient backward gives.
static double weighted_outputs(const rungi_trial *t)
{
    double sum = 0;
    for (int i = 0; i < t->op->n_out; i++)
        for (int64_t k = 0; t->gout[i].buffer >= 0 && k < rungi_operand_count(&t->out[i]); k++)
            sum += rungi_trial_get(t, &t->out[i], k) * rungi_trial_get(t, &t->gout[i], k);
    return sum;
}

static double shifted(const rungi_trial *t, const rungi_operand *o, int64_t k, double by)
{
    double old = rungi_trial_get(t, o, k);
    rungi_trial_set(t, o, k, old + by);
    run_reference(t, RUNGI_FORWARD);
    double value = weighted_outputs(t);
    rungi_trial_set(t, o, k, old);
    return value;
}

// Five-point central difference: its error is h^4 of a fifth derivative and 1e-16 / h of rounding.
static double difference(const rungi_trial *t, const rungi_operand *o, int64_t k)
{
    const double h = 1e-3;
    return (8 * (shifted(t, o, k, h) - shifted(t, o, k, -h)) -
            (shifted(t, o, k, 2 * h) - shifted(t, o, k, -2 * h))) /
           (12 * h);
}

static double largest(const rungi_trial *t, const rungi_operand *o)
{
    double top = 0;
    for (int64_t k = 0; k < rungi_operand_count(o); k++)
        top = fmax(top, fabs(rungi_trial_get(t, o, k)));
    return top;
}

static void check_differences(const rungi_op *op, const rungi_case *c)
{
    rungi_trial t;
    assert_ok(rungi_trial_init(&t, op, c, RUNG_F64, RUNGI_PLAIN, 1));
    run_all_references(&t);
    uint32_t given = 0;
    for (int pass = 0; pass < passes_of(op); pass++)
        given |= op->backward[pass].gives;
    for (int i = 0; i < t.n_in; i++) {
        if (t.gin[i].buffer < 0 || !(given & rungi_bit(i)))
            continue;
        double top = fmax(largest(&t, &t.gin[i]), 1e-3);
        int64_t count = rungi_operand_count(&t.gin[i]);
        int64_t step = count / (count > 4000 ? 3 : 11) + 1; // large ones are there for threads
        for (int64_t k = 0; k < count; k += step) {
            double exact = rungi_trial_get(&t, &t.gin[i], k), seen = difference(&t, &t.in[i], k);
            if (!(fabs(exact - seen) <= 1e-7 * top))
                fail_msg("%s '%s': gradient of input %d at %d is %.12g, differences say %.12g",
                         op->name, c->name, i, (int)k, exact, seen);
        }
    }
    rungi_trial_fini(&t);
}

// ---- 2. kernels against the reference ---------------------------------------------------------

static void compare(const rungi_trial *t, const rungi_operand *got, const rungi_trial *truth,
                    const rungi_operand *want, const char *kernel, const char *what)
{
    if (got->buffer < 0)
        return;
    double tolerance = t->which->tolerance > 0 ? t->which->tolerance : 2e-6;
    if (!rung_dtype_is_float(got->dtype))
        tolerance = 0;
    double limit = tolerance * fmax(largest(truth, want), 1e-30);
    for (int64_t k = 0; k < rungi_operand_count(got); k++) {
        double a = rungi_trial_get(t, got, k), b = rungi_trial_get(truth, want, k);
        if (!(fabs(a - b) <= limit))
            fail_msg("%s '%s': kernel %s, %s, %d threads: %s at %d is %.9g, reference %.9g "
                     "(allowed %.2g)",
                     t->op->name, t->which->name, kernel, rungi_layout_name(t->layout), t->threads,
                     what, (int)k, a, b, limit);
    }
}

static void compare_pass(const rungi_trial *t, const rungi_query *q, const rungi_trial *truth,
                         const char *kernel)
{
    if (q->pass == RUNGI_FORWARD) {
        // Hidden integers (masks, places) may be packed by layout: check_integers compares them.
        for (int i = 0; i < t->n_out; i++)
            if (i < t->op->n_out || rung_dtype_is_float(t->out[i].dtype))
                compare(t, &t->out[i], truth, &truth->out[i], kernel,
                        i < t->op->n_out ? "output" : "hidden output");
    } else {
        for (int i = 0; i < t->n_in; i++)
            compare(t, &q->gin[i], truth, &truth->gin[i], kernel, rungi_query_pass(q)->name);
    }
    if (!rungi_trial_guards(t))
        fail_msg("%s '%s': kernel %s wrote beside its operands", t->op->name, t->which->name,
                 kernel);
}

static void copy_outputs(const rungi_trial *t, const rungi_query *q, char *into)
{
    const rungi_operand *list = q->pass == RUNGI_FORWARD ? t->out : q->gin;
    int n = q->pass == RUNGI_FORWARD ? t->n_out : t->n_in;
    for (int i = 0; i < n; i++)
        if (list[i].buffer >= 0) {
            memcpy(into, t->ptr[list[i].buffer], rungi_operand_bytes(&list[i]));
            into += rungi_operand_bytes(&list[i]);
        }
}

static size_t output_bytes(const rungi_trial *t, const rungi_query *q)
{
    const rungi_operand *list = q->pass == RUNGI_FORWARD ? t->out : q->gin;
    int n = q->pass == RUNGI_FORWARD ? t->n_out : t->n_in;
    size_t bytes = 0;
    for (int i = 0; i < n; i++)
        if (list[i].buffer >= 0)
            bytes += rungi_operand_bytes(&list[i]);
    return bytes;
}

// Runs the pass with its output in the memory of its input; the bits must be the same.
static void check_in_place(rungi_trial *t, const rungi_query *q, const rungi_kernel *kernel,
                           const char *bits, size_t size)
{
    bool forward = q->pass == RUNGI_FORWARD;
    const rungi_operand *from = forward ? &q->in[0] : &q->gout[0];
    const rungi_operand *to = forward ? &q->out[0] : &q->gin[0];
    if (!rungi_query_pass(q)->in_place || from->buffer < 0 || to->buffer < 0 ||
        rungi_operand_bytes(from) != rungi_operand_bytes(to))
        return;
    size_t bytes = rungi_operand_bytes(from);
    void *kept = t->ptr[to->buffer];
    char *saved = malloc(bytes), *again = malloc(size);
    memcpy(saved, t->ptr[from->buffer], bytes);
    t->ptr[to->buffer] = t->ptr[from->buffer];
    assert_ok(rungi_trial_run(t, q, kernel, 1));
    copy_outputs(t, q, again);
    if (memcmp(again, bits, size) != 0)
        fail_msg("%s '%s': kernel %s gives other bits in place", t->op->name, t->which->name,
                 kernel->name);
    t->ptr[to->buffer] = kept;
    memcpy(t->ptr[from->buffer], saved, bytes);
    free(saved);
    free(again);
}

// The number of threads must not show.
static void check_threads(rungi_trial *t, const rungi_query *q, const rungi_kernel *kernel,
                          const char *bits, size_t size)
{
    int threads = t->threads;
    rungi_query other = *q;
    char *again = malloc(size);
    t->threads = other.threads = 3;
    assert_ok(rungi_trial_run(t, &other, kernel, 1));
    copy_outputs(t, q, again);
    if (memcmp(again, bits, size) != 0)
        fail_msg("%s '%s': kernel %s, %s: 3 threads give other bits than %d", t->op->name,
                 t->which->name, kernel->name, rungi_layout_name(t->layout), threads);
    t->threads = threads;
    free(again);
}

// Sum of the bytes of all that a pass only reads.
static uint64_t inputs_hash(const rungi_trial *t, const rungi_query *q)
{
    uint64_t hash = 1469598103934665603u;
    const rungi_operand *lists[3] = {t->in, t->gout, t->out};
    int counts[3] = {t->n_in, t->op->n_out, q->pass == RUNGI_FORWARD ? 0 : t->n_out};
    for (int l = 0; l < 3; l++)
        for (int i = 0; i < counts[l]; i++)
            for (size_t k = 0; lists[l][i].buffer >= 0 && k < rungi_operand_bytes(&lists[l][i]);
                 k++)
                hash = (hash ^ ((unsigned char *)t->ptr[lists[l][i].buffer])[k]) * 1099511628211u;
    return hash;
}

// Hidden outputs that are not floats (masks, places of maxima) have one format for all kernels.
static void check_integers(const rungi_trial *t, const rungi_query *q, const rungi_kernel *kernel)
{
    for (int i = 0; q->pass == RUNGI_FORWARD && i < t->n_out; i++) {
        if (rung_dtype_is_float(t->out[i].dtype))
            continue;
        size_t size = rungi_operand_bytes(&t->out[i]);
        char *seen = malloc(size);
        memcpy(seen, t->ptr[t->out[i].buffer], size);
        run_reference(t, RUNGI_FORWARD);
        if (memcmp(seen, t->ptr[t->out[i].buffer], size) != 0)
            fail_msg("%s '%s': kernel %s, %s: output %d differs from the reference's", t->op->name,
                     t->which->name, kernel->name, rungi_layout_name(t->layout), i);
        free(seen);
    }
}

// The same pass with a ReLU fused into it.
static void check_fused(rungi_trial *t, const rungi_query *q, const rungi_trial *truth,
                        const rungi_kernel *kernel)
{
    rungi_fused relu = {rungi_op_find("relu"), NULL, 0, &t->out[0], 1, &t->out[0]};
    rungi_query fused = *q;
    fused.fused = &relu;
    fused.n_fused = 1;
    rungi_reason why;
    if (!kernel->fuses || !kernel->can_run(&fused, &why))
        return;
    int64_t count = rungi_operand_count(&truth->out[0]);
    double *kept = malloc((size_t)count * sizeof *kept);
    for (int64_t k = 0; k < count; k++) {
        kept[k] = rungi_trial_get(truth, &truth->out[0], k);
        rungi_trial_set(truth, &truth->out[0], k, kept[k] < 0 ? 0 : kept[k]);
    }
    assert_ok(rungi_trial_run(t, &fused, kernel, 1));
    compare_pass(t, &fused, truth, kernel->name);
    for (int64_t k = 0; k < count; k++)
        rungi_trial_set(truth, &truth->out[0], k, kept[k]);
    free(kept);
}

static float before_adding(int64_t k)
{
    return (float)(k % 7 - 3) * 0.37f;
}

// Gradients added to others: the bits of an addition afterwards. `bits`: what the kernel stores.
static void check_adds(rungi_trial *t, const rungi_query *q, const rungi_kernel *kernel,
                       const char *bits)
{
    rungi_query adding = *q;
    adding.adds = true;
    if (!kernel->adds)
        return;
    for (int i = 0; i < t->n_in; i++)
        for (int64_t k = 0; q->gin[i].buffer >= 0 && k < rungi_operand_count(&q->gin[i]); k++)
            ((float *)t->ptr[q->gin[i].buffer])[k] = before_adding(k);
    assert_ok(rungi_trial_run(t, &adding, kernel, 1));
    for (int i = 0; i < t->n_in; i++) {
        if (q->gin[i].buffer < 0)
            continue;
        const float *seen = t->ptr[q->gin[i].buffer], *stored = (const void *)bits;
        for (int64_t k = 0; k < rungi_operand_count(&q->gin[i]); k++)
            if (seen[k] != before_adding(k) + stored[k])
                fail_msg("%s '%s': kernel %s adds %.9g to %.9g and gets %.9g", t->op->name,
                         t->which->name, kernel->name, stored[k], before_adding(k), seen[k]);
        bits += rungi_operand_bytes(&q->gin[i]);
    }
    if (!rungi_trial_guards(t))
        fail_msg("%s '%s': kernel %s, adding, wrote beside its operands", t->op->name,
                 t->which->name, kernel->name);
}

static void check_kernel(rungi_trial *t, const rungi_query *q, const rungi_trial *truth,
                         const rungi_kernel *kernel)
{
    uint64_t before = inputs_hash(t, q);
    if (rungi_trial_run(t, q, kernel, 1) != RUNG_OK)
        fail_msg("%s '%s': kernel %s: %s", t->op->name, t->which->name, kernel->name,
                 rung_error_last()->message);
    compare_pass(t, q, truth, kernel->name);
    if (inputs_hash(t, q) != before)
        fail_msg("%s '%s': kernel %s wrote to its inputs", t->op->name, t->which->name,
                 kernel->name);
    size_t size = output_bytes(t, q);
    char *first = malloc(size), *second = malloc(size);
    copy_outputs(t, q, first);
    assert_ok(rungi_trial_run(t, q, kernel, 2));
    copy_outputs(t, q, second);
    if (memcmp(first, second, size) != 0)
        fail_msg("%s '%s': kernel %s gives other bits when run again", t->op->name, t->which->name,
                 kernel->name);
    check_integers(t, q, kernel);
    check_in_place(t, q, kernel, first, size);
    if (kernel->kind == RUNGI_OWN)
        check_threads(t, q, kernel, first, size);
    if (q->pass == RUNGI_FORWARD)
        check_fused(t, q, truth, kernel);
    else
        check_adds(t, q, kernel, first);
    free(first);
    free(second);
}

static void check_pass(rungi_trial *t, const rungi_trial *truth, int pass, uint32_t wanted)
{
    rungi_operand gin[RUNGI_CASE_INPUTS];
    rungi_query q = rungi_trial_query(t, pass, wanted, gin);
    bool any = pass == RUNGI_FORWARD;
    for (int i = 0; !any && i < t->n_in; i++)
        any = gin[i].buffer >= 0;
    const rungi_kernel *const *list = rungi_query_kernels(&q, RUNGI_CPU);
    for (int k = 0; any && list[k]; k++) {
        rungi_reason why;
        if (!list[k]->can_run || list[k]->can_run(&q, &why))
            check_kernel(t, &q, truth, list[k]);
    }
    if (pass == RUNGI_FORWARD) // hidden outputs for backward
        run_reference(t, RUNGI_FORWARD);
}

static void check_kernels(const rungi_trial *truth, rungi_layout layout, int threads)
{
    const rungi_op *op = truth->op;
    rungi_trial t;
    assert_ok(rungi_trial_init(&t, op, truth->which, RUNG_F32, layout, threads));
    check_pass(&t, truth, RUNGI_FORWARD, ~0u);
    for (int pass = 0; pass < passes_of(op); pass++) {
        check_pass(&t, truth, pass, ~0u);
        uint32_t gives = op->backward[pass].gives;
        for (int i = 0; i < t.n_in && (gives & (gives - 1)); i++) // each alone, as when frozen
            check_pass(&t, truth, pass, rungi_bit(i));
    }
    rungi_trial_fini(&t);
}

static bool is_large(const rungi_case *c)
{
    return rungi_shape_size(&c->in[0].shape) > 20000; // there to keep several threads busy
}

static void check_all_kernels(const rungi_op *op, const rungi_case *c)
{
    rungi_trial truth;
    assert_ok(rungi_trial_init(&truth, op, c, RUNG_F64, RUNGI_PLAIN, 1));
    run_all_references(&truth);
    for (int layout = RUNGI_PLAIN; layout <= RUNGI_BLOCKED16; layout++)
        for (int threads = is_large(c) ? 2 : 1; threads <= 2; threads++)
            if (rungi_trial_fits(op, c, (rungi_layout)layout))
                check_kernels(&truth, (rungi_layout)layout, threads);
    rungi_trial_fini(&truth);
}

static void check_case(const rungi_op *op, const rungi_case *c)
{
    if (!is_large(c) && !SANITIZED) // which look for mistakes of memory: the references run below
        check_differences(op, c);
    check_all_kernels(op, c);
}

static void check_random(void **state)
{
    random_case r;
    (void)state;
    for (int i = 0; selected[i] && !one_case; i++)
        for (int k = 0; k < random_cases(RANDOM_CASES) &&
                        random_case_of(selected[i]->name, k, RANDOM_WORK, &r);
             k++)
            check_all_kernels(selected[i], &r.c);
}

static void check_all(void **state)
{
    int checked = 0;
    (void)state;
    for (int i = 0; selected[i]; i++)
        for (const rungi_case *c = selected[i]->cases; c->name; c++)
            if (one_case ? strcmp(c->name, one_case) == 0 : !c->bench) {
                check_case(selected[i], c);
                checked++;
            }
    if (one_case && !checked)
        fail_msg("no case '%s'", one_case);
}

int main(int argc, char **argv)
{
    selected = rungi_ops;
    if (argc > 1) {
        bool documented = strcmp(argv[1], "square") == 0;
        one[0] = documented ? &rungi_op_square : rungi_op_find(argv[1]);
        selected = one;
        if (!one[0]) {
            fprintf(stderr, "no operator '%s'\n", argv[1]);
            return 2;
        }
        one_case = argc > 2 ? argv[2] : NULL;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(check_all), cmocka_unit_test(check_random)};
    return RUN_TESTS(tests);
}
