// SPDX-License-Identifier: Apache-2.0
#include "rung/opbench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cores.h"
#include "base/error.h"
#include "measure/ceilings.h"
#include "ops/trial.h"

#define DEFAULT_SECONDS 0.05

typedef struct bench {
    rung_context *context;
    const rungi_op *op;
    const rung_opbench_options *options;
    rung_machine machine;
    RUNGI_ARRAY(rung_opbench_row) rows;
    int64_t done, total; // cases times layouts
} bench;

const char *rung_opbench_name(int index, int *cases_out)
{
    for (int i = 0; rungi_ops[i]; i++) {
        if (i != index)
            continue;
        *cases_out = 0;
        for (const rungi_case *c = rungi_ops[i]->cases; c && c->name; c++)
            *cases_out += c->bench;
        return rungi_ops[i]->name;
    }
    return NULL;
}

// ---- one kernel -------------------------------------------------------------------------------

static void describe_inputs(const rungi_case *c, char *out, size_t size)
{
    char shape[RUNG_SHAPE_TEXT];
    *out = '\0';
    for (int i = 0; i < c->n_in; i++) {
        if (c->in[i].shape.rank < 0)
            continue;
        size_t used = strlen(out);
        snprintf(out + used, size - used, "%s%s", used ? " " : "",
                 rung_shape_text(&c->in[i].shape, shape, sizeof shape));
    }
}

static void fill_shares(const rung_machine *m, int place, rung_opbench_row *row)
{
    row->flops_share[place] = row->executed / row->seconds[place] / m->flops[place];
    row->bytes_share[place] = row->bytes / row->seconds[place] / m->bytes[place];
}

static rung_status measure(bench *b, const rungi_trial *trials, rungi_query *queries,
                           const rungi_kernel *kernel, bool chosen)
{
    const rungi_trial *t = &trials[0];
    const rungi_query *q = &queries[0];
    rungi_cost cost = rungi_query_cost(q);
    rung_opbench_row row = {.case_name = t->which->name,
                            .pass = rungi_query_pass(q)->name,
                            .layout = rungi_layout_name(t->layout),
                            .kernel = kernel->name,
                            .flops = cost.flops,
                            .executed = rungi_kernel_flops(kernel, q),
                            .bytes = cost.bytes,
                            .chosen = chosen};
    describe_inputs(t->which, row.shape, sizeof row.shape);
    double seconds = b->options->seconds > 0 ? b->options->seconds : DEFAULT_SECONDS;
    if (b->options->progress) {
        char what[128];
        snprintf(what, sizeof what, "%s, %s, %s, %s", row.case_name, row.pass, row.layout,
                 row.kernel);
        b->options->progress(b->options->user, b->done, b->total, what);
    }
    for (int i = 0; i < 2; i++) {
        RUNG_TRY(rungi_trial_time(&trials[i], &queries[i], kernel, b->context, seconds,
                                  &row.seconds[i]));
        fill_shares(&b->machine, i, &row);
    }
    RUNG_CHECK(rungi_array_push(&b->rows, row), RUNG_NO_MEMORY, "no memory for a benchmark");
    return RUNG_OK;
}

// ---- the kernels of a pass --------------------------------------------------------------------

static bool runs(const rungi_kernel *kernel, const rungi_query *q)
{
    rungi_reason why;
    return !kernel->can_run || kernel->can_run(q, &why);
}

// Has the pass a kernel besides the reference? References take minutes where others take
// milliseconds: they are measured only where there is nothing else in any layout.
static bool has_other(const rungi_query *q)
{
    const rungi_kernel *const *list = rungi_query_kernels(q, RUNGI_CPU);
    for (int k = 0; list[k]; k++)
        if (list[k]->kind != RUNGI_REFERENCE)
            return true;
    return false;
}

// Outputs that backward reads, by the kernel that the planner would take. False when that is a
// reference that is too slow to be run.
static rung_status run_forward(const rungi_trial *t, bool *done_out)
{
    rungi_query q = rungi_trial_query(t, RUNGI_FORWARD, 0, NULL);
    const rungi_kernel *kernel = rungi_kernel_choose(&q, RUNGI_CPU, RUNGI_POLICY_ALL, NULL);
    *done_out = kernel->kind != RUNGI_REFERENCE || !has_other(&q);
    return *done_out ? rungi_trial_run(t, &q, kernel, 1) : RUNG_OK;
}

static bool backward_reads_outputs(const rungi_op *op)
{
    for (int pass = 0; pass < 3 && op->backward[pass].name; pass++)
        if (op->backward[pass].reads_out)
            return true;
    return false;
}

static rung_status bench_pass(bench *b, const rungi_trial *trials, int pass)
{
    rungi_operand gin[2][RUNGI_CASE_INPUTS];
    rungi_query queries[2];
    bool wanted = pass == RUNGI_FORWARD;
    for (int i = 0; i < 2; i++) {
        queries[i] = rungi_trial_query(&trials[i], pass, ~0u, gin[i]);
        queries[i].isa = rung_context_isa(b->context);
        for (int k = 0; pass != RUNGI_FORWARD && k < trials[i].n_in; k++)
            wanted |= gin[i][k].buffer >= 0;
    }
    if (!wanted)
        return RUNG_OK;
    const rungi_kernel *const *list = rungi_query_kernels(&queries[0], RUNGI_CPU);
    const rungi_kernel *chosen =
        rungi_kernel_choose(&queries[1], RUNGI_CPU, RUNGI_POLICY_ALL, NULL);
    bool other = has_other(&queries[0]);
    for (int k = 0; list[k]; k++)
        if (runs(list[k], &queries[0]) && runs(list[k], &queries[1]) &&
            (list[k]->kind != RUNGI_REFERENCE || !other))
            RUNG_TRY(measure(b, trials, queries, list[k], list[k] == chosen));
    return RUNG_OK;
}

static rung_status bench_layout(bench *b, const rungi_case *c, rungi_layout layout)
{
    rungi_trial trials[2];
    RUNG_TRY(rungi_trial_init(&trials[0], b->op, c, RUNG_F32, layout, 1));
    trials[1] = trials[0]; // the same memory
    trials[1].threads = b->machine.threads;
    bool backward = true;
    rung_status status = RUNG_OK;
    if (backward_reads_outputs(b->op))
        status = run_forward(&trials[1], &backward);
    if (status == RUNG_OK)
        status = bench_pass(b, trials, RUNGI_FORWARD);
    for (int pass = 0; pass < 3 && b->op->backward[pass].name && status == RUNG_OK && backward;
         pass++)
        status = bench_pass(b, trials, pass);
    rungi_trial_fini(&trials[0]);
    b->done++;
    return status;
}

// ---- cases ------------------------------------------------------------------------------------

static bool wanted(const bench *b, const rungi_case *c, bool has_bench)
{
    if (b->options->pattern)
        return rungi_text_match(b->options->pattern, c->name);
    return c->bench || !has_bench;
}

static bool has_bench_cases(const rungi_op *op)
{
    for (const rungi_case *c = op->cases; c && c->name; c++)
        if (c->bench)
            return true;
    return false;
}

// Layouts that the planner would use here: blocks as long as a vector.
static bool layout_fits(const bench *b, const rungi_case *c, rungi_layout layout)
{
    rung_isa isa = rung_context_isa(b->context);
    if ((layout == RUNGI_BLOCKED8 && isa != RUNG_ISA_AVX2) ||
        (layout == RUNGI_BLOCKED16 && isa != RUNG_ISA_AVX512))
        return false;
    return rungi_trial_fits(b->op, c, layout);
}

// Cases times layouts that will be measured.
static int64_t count_work(const bench *b)
{
    int64_t count = 0;
    bool has_bench = has_bench_cases(b->op);
    for (const rungi_case *c = b->op->cases; c && c->name; c++)
        for (int layout = RUNGI_PLAIN; layout <= RUNGI_BLOCKED16; layout++)
            count += wanted(b, c, has_bench) && layout_fits(b, c, (rungi_layout)layout);
    return count;
}

static rung_status bench_cases(bench *b)
{
    bool has_bench = has_bench_cases(b->op);
    for (const rungi_case *c = b->op->cases; c && c->name; c++)
        for (int layout = RUNGI_PLAIN; layout <= RUNGI_BLOCKED16; layout++)
            if (wanted(b, c, has_bench) && layout_fits(b, c, (rungi_layout)layout))
                RUNG_TRY(bench_layout(b, c, (rungi_layout)layout));
    return RUNG_OK;
}

static rung_status fail_no_case(const bench *b)
{
    rungi_string names = {0};
    for (const rungi_case *c = b->op->cases; c && c->name; c++)
        rungi_string_add(&names, "%s'%s'", c == b->op->cases ? "" : ", ", c->name);
    rung_status status =
        RUNG_FAIL(RUNG_NOT_FOUND, "no case of %s matches '%s' (there are %s)", b->op->name,
                  b->options->pattern ? b->options->pattern : "*", rungi_string_text(&names));
    rungi_string_fini(&names);
    return status;
}

static int by_case_and_pass(const void *a, const void *b)
{
    const rung_opbench_row *x = a, *y = b;
    int order = strcmp(x->case_name, y->case_name);
    return order ? order : strcmp(x->pass, y->pass);
}

// Marks the shortest of each case and pass, and beside each row its fastest rival.
static void mark_best(rung_opbench_row *rows, size_t count, int place)
{
    for (size_t i = 0; i < count; i++) {
        rung_opbench_row *row = &rows[i];
        row->best[place] = true;
        for (size_t k = 0; k < count; k++) {
            const rung_opbench_row *other = &rows[k];
            double s = other->seconds[place];
            if (by_case_and_pass(row, other) != 0)
                continue;
            row->best[place] &= s >= row->seconds[place];
            if (strcmp(row->kernel, other->kernel) != 0 &&
                (!row->rival[place] || s < row->rival_seconds[place])) {
                row->rival[place] = other->kernel;
                row->rival_seconds[place] = s;
            }
        }
    }
}

// Brings the layouts of a pass together: rows were made by case, layout and pass. Stable.
static void order_rows(bench *b)
{
    for (size_t i = 1; i < b->rows.count; i++) {
        rung_opbench_row row = b->rows.data[i];
        size_t last = i;
        while (last > 0 && by_case_and_pass(&b->rows.data[last - 1], &row) != 0 &&
               strcmp(b->rows.data[last - 1].case_name, row.case_name) == 0)
            last--;
        bool found = last > 0 && by_case_and_pass(&b->rows.data[last - 1], &row) == 0;
        if (!found)
            continue; // the first of its pass
        memmove(&b->rows.data[last + 1], &b->rows.data[last], (i - last) * sizeof row);
        b->rows.data[last] = row;
    }
}

// ---- all --------------------------------------------------------------------------------------

rung_status rung_machine_measure(rung_context *context, int threads, rung_machine *machine_out)
{
    rungi_ceilings c;
    RUNG_TRY(rungi_ceilings_measure(context, threads, &c));
    *machine_out = (rung_machine){.isa = c.isa,
                                  .threads = threads,
                                  .flops = {c.flops[0], c.flops[1]},
                                  .bytes = {c.bytes[0], c.bytes[1]},
                                  .round_trip = {c.round_trip}};
    return RUNG_OK;
}

static rung_status measure_machine(bench *b)
{
    int threads = b->options->threads;
    if (b->options->machine) {
        b->machine = *b->options->machine;
        return RUNG_OK;
    }
    if (threads <= 0)
        threads = rungi_core_count();
    RUNG_TRY(rung_machine_measure(b->context, threads, &b->machine));
    return RUNG_OK;
}

static rung_status fail_unknown(const char *name)
{
    const char *names[256];
    size_t count = 0;
    for (; rungi_ops[count] && count < 256; count++)
        names[count] = rungi_ops[count]->name;
    const char *nearest = rungi_text_nearest(name, names, count);
    if (nearest)
        return RUNG_FAIL(RUNG_NOT_FOUND, "unknown operator '%s' (did you mean '%s'?)", name,
                         nearest);
    return RUNG_FAIL(RUNG_NOT_FOUND, "unknown operator '%s' (rung bench --list names all)", name);
}

rung_status rung_opbench_run(rung_context *context, const char *op,
                             const rung_opbench_options *options, rung_opbench *result_out)
{
    bench b = {.context = context, .op = rungi_op_find(op), .options = options};
    rung_status status;
    if (!b.op)
        return fail_unknown(op);
    b.total = count_work(&b);
    if (b.total == 0)
        return fail_no_case(&b);
    RUNG_TRY_GOTO(done, measure_machine(&b));
    RUNG_TRY_GOTO(done, bench_cases(&b));
    if (b.machine.threads > 1)
        status = rungi_round_trip_measure(context, &b.machine.round_trip[1]);
done:
    if (status != RUNG_OK) {
        rungi_array_fini(&b.rows);
        return status;
    }
    order_rows(&b);
    for (int place = 0; place < 2; place++)
        mark_best(b.rows.data, b.rows.count, place);
    *result_out = (rung_opbench){b.machine, b.rows.data, (int64_t)b.rows.count};
    return RUNG_OK;
}

void rung_opbench_fini(rung_opbench *result)
{
    free(result->rows);
    *result = (rung_opbench){0};
}
