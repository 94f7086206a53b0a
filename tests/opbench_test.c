// SPDX-License-Identifier: Apache-2.0
// The benchmark of every operator runs, and its table is in order. Times are not judged.
#include "training.h"

#include "ops/trial.h"
#include "rung/roofline.h"

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

// The rival is another kernel, and no other one is faster.
static void check_rival(const rung_opbench *b, const rung_opbench_row *r)
{
    for (int place = 0; place < 2; place++) {
        assert_true(!r->rival[place] || strcmp(r->rival[place], r->kernel) != 0);
        for (int64_t k = 0; k < b->count; k++) {
            const rung_opbench_row *x = &b->rows[k];
            if (!same_pass(r, x) || strcmp(r->kernel, x->kernel) == 0)
                continue;
            assert_non_null(r->rival[place]);
            assert_true(r->rival_seconds[place] <= x->seconds[place]);
        }
    }
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
        check_rival(b, r);
        assert_true(chosen <= 1);
        assert_near(r->bytes_share[0], r->bytes / r->seconds[0] / b->machine.bytes[0], 1e-9);
        assert_near(r->flops_share[1], r->executed / r->seconds[1] / b->machine.flops[1], 1e-9);
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

// Each step of the plan once, in order, then the optimizer; their times are parts of the step's.
static void roofline_of_a_step(void **state)
{
    (void)state;
    training_log log;
    rung_context *own = training_context(&log);
    rung_config *config = training_config(own, TRAINING_MLP "plan: {fuse: true}\n", NULL);
    const rung_machine machine = {.threads = 1, .flops = {1e9, 1e9}, .bytes = {1e9, 1e9}};
    rung_roofline r;
    char *svg;
    assert_ok(rung_roofline_run(own, config,
                                &(rung_roofline_options){.steps = 5, .machine = &machine}, &r));
    double sum = 0;
    bool fused = false;
    for (int64_t i = 0; i < r.count; i++) {
        const rung_roofline_row *row = &r.rows[i];
        assert_true(row->seconds >= 0 && row->bytes > 0);
        assert_near(row->share, row->seconds / r.step_seconds, 1e-12);
        assert_near(row->ceiling * row->seconds * 1e9, row->arithmetic ? row->flops : row->bytes,
                    1e-3);
        fused |= strcmp(row->layer, "fc1") == 0 && strcmp(row->fused, " + relu") == 0;
        sum += row->seconds;
    }
    assert_true(fused);
    assert_true(sum > 0 && sum < 2 * r.step_seconds);
    assert_string_equal(r.rows[r.count - 1].op, "sgd");
    assert_string_equal(r.rows[r.count - 1].pass, "step");
    // 64 x 16 and 16 x 4 weights with their biases: read with the gradient, written
    assert_near(r.rows[r.count - 1].bytes, (64 * 16 + 16 + 16 * 4 + 4) * 4 * 3, 1e-9);
    assert_ok(rung_roofline_draw(&r, &svg));
    assert_non_null(strstr(svg, "fc1 backward_weight"));
    assert_non_null(strstr(svg, "mlp, batch 8"));
    free(svg);
    rung_roofline_fini(&r);
    assert_ok(rung_config_override(config, "exact=true"));
    assert_fails(RUNG_UNSUPPORTED,
                 "a roofline needs exact=false: under exact shards run side by side",
                 rung_roofline_run(own, config, &(rung_roofline_options){.machine = &machine}, &r));
    rung_config_destroy(&config);
    rung_context_destroy(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(roofline_of_a_step),
        cmocka_unit_test(every_operator),
        cmocka_unit_test(mistakes),
    };
    return RUN_TESTS(tests);
}
