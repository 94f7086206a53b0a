// SPDX-License-Identifier: Apache-2.0
// The benchmark of every operator runs, and its table is in order. Times are not judged.
#include "testing.h"

#include "ops/trial.h"
#include "rung/opbench.h"

static int calls;

static void count_call(void *user, int64_t done, int64_t total, const char *what)
{
    assert_ptr_equal(user, &calls);
    assert_true(done >= 0 && done < total);
    assert_non_null(strstr(what, ", "));
    calls++;
}

static bool same_pass(const rung_opbench_row *a, const rung_opbench_row *b)
{
    return strcmp(a->case_name, b->case_name) == 0 && strcmp(a->pass, b->pass) == 0;
}

// Rows of a case and pass stand together; one is the best with each number of threads; in each
// layout at most one is chosen.
static void check_rows(const rung_opbench *b)
{
    for (int64_t i = 0; i < b->count; i++) {
        const rung_opbench_row *r = &b->rows[i];
        int best[2] = {0}, chosen = 0;
        bool left = false;
        assert_true(r->seconds[0] > 0 && r->seconds[1] > 0 && r->bytes > 0);
        for (int64_t k = 0; k < b->count; k++) {
            const rung_opbench_row *x = &b->rows[k];
            if (!same_pass(r, x)) {
                left |= k > i;
                continue;
            }
            assert_false(k > i && left); // one of this pass after another's
            best[0] += x->best[0];
            best[1] += x->best[1];
            chosen += x->chosen && strcmp(x->layout, r->layout) == 0;
        }
        assert_true(best[0] >= 1 && best[1] >= 1);
        assert_true(chosen <= 1);
        assert_near(r->bytes_share[0], r->bytes / r->seconds[0] / b->machine.bytes[0], 1e-9);
        assert_near(r->flops_share[1], r->flops / r->seconds[1] / b->machine.flops[1], 1e-9);
    }
}

// The first and the last case of each operator that are not too large for a test.
static void every_operator(void **state)
{
    (void)state;
    rung_context *context;
    const rung_machine machine = {.threads = 2, .flops = {1e9, 2e9}, .bytes = {1e9, 2e9}};
    const char *name;
    int cases;
    assert_ok(rung_context_create(NULL, &context));
    for (int i = 0; (name = rung_opbench_name(i, &cases)) != NULL; i++) {
        const char *first = NULL, *last = NULL;
        for (const rungi_case *c = rungi_op_find(name)->cases; c && c->name; c++)
            if (!c->bench) {
                first = first ? first : c->name;
                last = c->name;
            }
        for (int k = 0; k < 2 && first; k++) {
            rung_opbench b;
            const rung_opbench_options options = {.pattern = k ? last : first,
                                                  .seconds = 1e-5,
                                                  .machine = &machine,
                                                  .user = &calls,
                                                  .progress = count_call};
            calls = 0;
            assert_ok(rung_opbench_run(context, name, &options, &b));
            if (!rungi_op_find(name)->view)
                assert_true(b.count > 0 && calls == b.count);
            check_rows(&b);
            rung_opbench_fini(&b);
        }
    }
    rung_context_destroy(&context);
}

static void mistakes(void **state)
{
    (void)state;
    rung_context *context;
    rung_opbench b;
    assert_ok(rung_context_create(NULL, &context));
    assert_fails(RUNG_NOT_FOUND, "unknown operator 'conf2d' (did you mean 'conv2d'?)",
                 rung_opbench_run(context, "conf2d", &(rung_opbench_options){0}, &b));
    assert_fails(RUNG_NOT_FOUND, "no case of relu matches 'x*' (there are 'one', ",
                 rung_opbench_run(context, "relu", &(rung_opbench_options){.pattern = "x*"}, &b));
    rung_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operator),
        cmocka_unit_test(mistakes),
    };
    return RUN_TESTS(tests);
}
