// SPDX-License-Identifier: Apache-2.0
#include "graph/tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/context.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/text.h"
#include "ops/halves.h"

enum { CANDIDATES = 8, RUNS = 5, FILE_LIMIT = 16 << 20 };

typedef struct choice {
    char *work, *kernel;
    bool used; // asked for
} choice;

struct rung_tuning {
    RUNGI_ARRAY(choice) choices;
    int measured, taken;
    bool frozen;
};

rung_status rung_tuning_create(rung_tuning **tuning_out)
{
    rung_tuning *t = calloc(1, sizeof *t);
    RUNG_CHECK(t, RUNG_NO_MEMORY, "no memory for tuning");
    *tuning_out = t;
    return RUNG_OK;
}

void rung_tuning_destroy(rung_tuning **tuning)
{
    if (!tuning || !*tuning)
        return;
    rung_tuning *t = *tuning;
    for (size_t i = 0; i < t->choices.count; i++) {
        free(t->choices.data[i].work);
        free(t->choices.data[i].kernel);
    }
    rungi_array_fini(&t->choices);
    free(t);
    *tuning = NULL;
}

int rung_tuning_count(const rung_tuning *tuning, int *measured_out)
{
    if (measured_out)
        *measured_out = tuning->measured;
    return (int)tuning->choices.count;
}

static choice *find(const rung_tuning *t, const char *work)
{
    for (size_t i = 0; i < t->choices.count; i++)
        if (strcmp(t->choices.data[i].work, work) == 0)
            return &t->choices.data[i];
    return NULL;
}

static rung_status add(rung_tuning *t, const char *work, const char *kernel)
{
    choice c = {.work = strdup(work), .kernel = strdup(kernel)};
    if (c.work && c.kernel && rungi_array_push(&t->choices, c))
        return RUNG_OK;
    free(c.work);
    free(c.kernel);
    return RUNG_FAIL(RUNG_NO_MEMORY, "no memory for tuning");
}

// ---- files ------------------------------------------------------------------------------------

// The processor's name, as /proc/cpuinfo has it.
static void cpu_name(char *out, size_t size)
{
    char line[256];
    snprintf(out, size, "unknown");
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon) {
            snprintf(out, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
            break;
        }
    }
    if (file)
        fclose(file);
}

rung_status rung_tuning_load(rung_tuning *tuning, const char *path, bool same_cpu)
{
    json_t *root, *choices;
    const char *cpu, *work;
    char here[256];
    if (!rungi_fs_exists(path))
        return RUNG_OK;
    RUNG_TRY(rungi_json_load(path, FILE_LIMIT, &root));
    rung_status status = rungi_json_text(root, path, "cpu", &cpu);
    if (status == RUNG_OK)
        status = rungi_json_object(root, path, "choices", &choices);
    cpu_name(here, sizeof here);
    if (status == RUNG_OK && (!same_cpu || strcmp(cpu, here) == 0)) {
        json_t *value;
        json_object_foreach(choices, work, value)
        {
            if (status == RUNG_OK && json_is_string(value) && !find(tuning, work))
                status = add(tuning, work, json_string_value(value));
        }
    }
    json_decref(root);
    return status;
}

rung_status rung_tuning_save(const rung_tuning *tuning, const char *path)
{
    char cpu[256];
    json_t *root = json_object(), *choices = json_object();
    cpu_name(cpu, sizeof cpu);
    json_object_set_new(root, "cpu", rungi_json_string(cpu));
    for (size_t i = 0; i < tuning->choices.count; i++)
        json_object_set_new(choices, tuning->choices.data[i].work,
                            json_string(tuning->choices.data[i].kernel));
    json_object_set_new(root, "choices", choices);
    rung_status status = rungi_json_save(path, root);
    json_decref(root);
    return status;
}

// ---- of several ranks -------------------------------------------------------------------------

void rungi_tuning_freeze(rung_tuning *t)
{
    t->frozen = true;
}

bool rungi_tuning_grew(const rung_tuning *t)
{
    return t->measured || t->taken;
}

void rungi_tuning_give(const rung_tuning *t, bool used, rungi_string *out)
{
    for (size_t i = 0; i < t->choices.count; i++) {
        const choice *c = &t->choices.data[i];
        if (c->used || !used)
            rungi_string_add(out, "%s\t%s\n", c->work, c->kernel);
    }
}

rung_status rungi_tuning_take(rung_tuning *t, const char *text, bool used)
{
    char *copy = strdup(text), *place = NULL;
    rung_status status = RUNG_OK;
    RUNG_CHECK(copy, RUNG_NO_MEMORY, "no memory for tuning");
    for (char *line = strtok_r(copy, "\n", &place); line && status == RUNG_OK;
         line = strtok_r(NULL, "\n", &place)) {
        char *tab = strchr(line, '\t');
        if (!tab)
            continue;
        *tab = '\0';
        if (!find(t, line)) {
            status = add(t, line, tab + 1);
            t->taken++;
        }
        if (status == RUNG_OK && used)
            find(t, line)->used = true;
    }
    free(copy);
    return status;
}

// ---- measuring --------------------------------------------------------------------------------

static void describe_operands(rungi_string *out, const rungi_operand *list, int n)
{
    char text[RUNG_SHAPE_TEXT];
    for (int i = 0; list && i < n; i++)
        if (list[i].buffer >= 0)
            rungi_string_add(out, " %s:%s:%s", rung_shape_text(&list[i].shape, text, sizeof text),
                             rung_dtype_name(list[i].dtype), rungi_layout_name(list[i].layout));
        else
            rungi_string_add(out, " -");
}

// The work as text: all that a kernel's speed may depend on.
static void describe_work(const rungi_query *q, rungi_string *out)
{
    rungi_string_add(out, "%s.%s", q->op->name, rungi_query_pass(q)->name);
    for (int i = 0; i < q->n_fused; i++)
        rungi_string_add(out, "+%s", q->fused[i].op->name);
    rungi_string_add(out, " {");
    if (q->op->describe)
        q->op->describe(q->attr, out);
    rungi_string_add(out, "}");
    describe_operands(out, q->in, q->n_in);
    if (q->pass != RUNGI_FORWARD && q->n_fused)
        describe_operands(out, q->fused[0].out, 1);
    rungi_string_add(out, " ->");
    describe_operands(out, q->out, q->n_out);
    if (q->pass != RUNGI_FORWARD)
        describe_operands(out, q->gin, q->n_in);
    rungi_string_add(out, " %d threads, %s%s%s%s", q->threads, rung_isa_name(q->isa),
                     q->winograd ? ", winograd" : "", q->winograd && q->winograd_f4 ? " f4" : "",
                     q->training ? ", training" : "");
}

// Memory for one query's operands, filled with harmless values.
typedef struct bench {
    void **ptr;
    int count;
    bool failed;
} bench;

static void provide(bench *b, const rungi_operand *list, int n)
{
    for (int i = 0; list && i < n; i++) {
        int k = list[i].buffer;
        if (k < 0 || b->failed || b->ptr[k])
            continue;
        size_t bytes = (rungi_operand_bytes(&list[i]) + 127) / 64 * 64;
        float *data = aligned_alloc(64, bytes);
        if (!data) {
            b->failed = true;
            return;
        }
        memset(data, 0, bytes);
        for (int64_t j = 0; list[i].dtype == RUNG_F32 && j < rungi_operand_count(&list[i]); j++)
            data[j] = 0.05f + 0.1f * (float)(j % 17);
        b->ptr[k] = data;
    }
}

static int largest_buffer(const rungi_operand *list, int n, int largest)
{
    for (int i = 0; list && i < n; i++)
        largest = list[i].buffer > largest ? list[i].buffer : largest;
    return largest;
}

static void bench_fini(bench *b)
{
    for (int i = 0; b->ptr && i < b->count; i++)
        free(b->ptr[i]);
    free(b->ptr);
}

static rung_status bench_init(bench *b, const rungi_query *q)
{
    int most = largest_buffer(q->in, q->n_in, 0);
    most = largest_buffer(q->out, q->n_out, most);
    most = largest_buffer(q->gout, q->op->n_out, most);
    most = largest_buffer(q->gin, q->n_in, most);
    for (int i = 0; i < q->n_fused; i++) {
        most = largest_buffer(q->fused[i].in, q->fused[i].n_in, most);
        most = largest_buffer(q->fused[i].out, 1, most);
    }
    most += 1 + q->n_in + q->n_out; // for fill_hidden
    *b = (bench){.ptr = calloc((size_t)most, sizeof *b->ptr), .count = most};
    b->failed = !b->ptr;
    provide(b, q->in, q->n_in);
    provide(b, q->out, q->n_out);
    provide(b, q->gout, q->op->n_out);
    provide(b, q->gin, q->n_in);
    for (int i = 0; i < q->n_fused; i++) {
        provide(b, q->fused[i].in, q->fused[i].n_in);
        provide(b, q->fused[i].out, 1);
    }
    if (b->failed) {
        bench_fini(b);
        return RUNG_FAIL(RUNG_NO_MEMORY, "no memory to measure kernels");
    }
    return RUNG_OK;
}

// Shortest of some runs, in nanoseconds; the first is not counted.
static rung_status time_kernel(const bench *b, rung_context *context, const rungi_query *q,
                               const rungi_kernel *kernel, int64_t *ns_out)
{
    rungi_setup setup = {0};
    rungi_runtime rt = {0};
    void *workspace = NULL;
    rung_status status = kernel->create ? kernel->create(q, &setup) : RUNG_OK;
    RUNG_TRY(status);
    if (setup.workspace) {
        workspace = aligned_alloc(64, (setup.workspace + 63) / 64 * 64);
        if (!workspace)
            status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory to measure kernels");
    }
    rungi_call call = {q, setup.state, b->ptr, workspace, &rt};
    *ns_out = INT64_MAX;
    for (int i = 0; i <= RUNS && status == RUNG_OK; i++) {
        int64_t begin = rungi_now(context);
        status = kernel->run(&call);
        int64_t ns = rungi_now(context) - begin;
        if (i > 0 && ns < *ns_out)
            *ns_out = ns;
    }
    if (kernel->destroy && setup.state)
        kernel->destroy(setup.state);
    free(workspace);
    return status;
}

// Operands of a forward pass: those that are absent get memory of their own, from buffer *next on.
static rungi_operand *present(const rungi_operand *list, int n, int *next)
{
    rungi_operand *copy = calloc((size_t)n + 1, sizeof *copy);
    for (int i = 0; copy && i < n; i++) {
        copy[i] = list[i];
        if (copy[i].buffer < 0)
            copy[i].buffer = (*next)++;
    }
    return copy;
}

// What forward leaves for backward in hidden outputs is no free number (the place of a value in a
// window, a mask): forward makes it.
static rung_status fill_hidden(bench *b, rung_context *context, const rungi_query *q,
                               rungi_device_kind kind)
{
    if (q->pass == RUNGI_FORWARD || !q->op->n_hidden)
        return RUNG_OK;
    int next = b->count - q->n_in - q->n_out;
    rungi_operand *in = present(q->in, q->n_in, &next), *out = present(q->out, q->n_out, &next);
    rungi_query forward = *q;
    forward.pass = RUNGI_FORWARD;
    forward.in = in;
    forward.out = out;
    forward.gout = forward.gin = NULL;
    forward.n_fused = 0;
    rung_status status = RUNG_OK;
    if (in && out) {
        provide(b, in, q->n_in);
        provide(b, out, q->n_out);
    }
    if (!in || !out || b->failed)
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory to measure kernels");
    const rungi_kernel *const *list = rungi_query_kernels(&forward, kind);
    rungi_reason why;
    int64_t ns;
    while (*list && !rungi_kernel_can_run(*list, &forward, &why))
        list++;
    if (status == RUNG_OK && *list)
        status = time_kernel(b, context, &forward, *list, &ns);
    free(in);
    free(out);
    return status;
}

static int list_candidates(const rungi_query *q, rungi_device_kind kind,
                           const struct rungi_halves *around, const rungi_kernel *out[CANDIDATES])
{
    const rungi_kernel *const *list = rungi_query_kernels(q, kind);
    int n = 0;
    for (int i = 0; list[i] && n < CANDIDATES; i++) {
        rungi_reason why;
        if (list[i]->kind != RUNGI_REFERENCE && rungi_kernel_can_run(list[i], q, &why))
            out[n++] = list[i];
    }
    if (around && n < CANDIDATES)
        out[n++] = around->kernel;
    return n;
}

static rung_status time_candidate(const bench *b, rung_context *context, const rungi_query *q,
                                  const rungi_kernel *kernel, const struct rungi_halves *around,
                                  int64_t *ns_out)
{
    if (!around || kernel != around->kernel)
        return time_kernel(b, context, q, kernel, ns_out);
    rungi_query within = *q;
    rungi_kernel wrapped = rungi_halves_kernel(around);
    within.halves = around;
    return time_kernel(b, context, &within, &wrapped, ns_out);
}

static rung_status measure(rung_context *context, const rungi_query *q, rungi_device_kind kind,
                           const rungi_kernel *const *candidates, int n,
                           const struct rungi_halves *around, const rungi_kernel **best_out)
{
    bench b;
    int64_t best = INT64_MAX;
    RUNG_TRY(bench_init(&b, q));
    rung_status status = fill_hidden(&b, context, q, kind);
    for (int i = 0; i < n && status == RUNG_OK; i++) {
        int64_t ns;
        status = time_candidate(&b, context, q, candidates[i], around, &ns);
        if (status == RUNG_OK && ns < best) {
            best = ns;
            *best_out = candidates[i];
        }
    }
    bench_fini(&b);
    return status;
}

rung_status rungi_kernel_time(rung_context *context, const rungi_query *q, rungi_device_kind kind,
                              const rungi_kernel *kernel, int64_t *ns_out)
{
    bench b;
    RUNG_TRY(bench_init(&b, q));
    rung_status status = fill_hidden(&b, context, q, kind);
    if (status == RUNG_OK)
        status = time_kernel(&b, context, q, kernel, ns_out);
    bench_fini(&b);
    return status;
}

// What was measured goes into the table, in the place of what is there.
static rung_status keep(rung_tuning *t, const char *work, const char *kernel)
{
    choice *known = find(t, work);
    char *copy = known ? strdup(kernel) : NULL;
    t->measured++;
    if (!known) {
        RUNG_TRY(add(t, work, kernel));
        known = find(t, work);
    } else {
        RUNG_CHECK(copy, RUNG_NO_MEMORY, "no memory for tuning");
        free(known->kernel);
        known->kernel = copy;
    }
    known->used = true;
    return RUNG_OK;
}

rung_status rungi_tuning_choose(rung_tuning *tuning, rung_context *context, const rungi_query *q,
                                rungi_device_kind kind, const struct rungi_halves *around,
                                const rungi_kernel **kernel_out)
{
    const rungi_kernel *candidates[CANDIDATES];
    int n = list_candidates(q, kind, around, candidates);
    *kernel_out = NULL;
    if (n < 2)
        return RUNG_OK;
    rungi_string work = {0};
    describe_work(q, &work);
    choice *known = find(tuning, rungi_string_text(&work));
    bool may = known && (known->used || !tuning->frozen);
    for (int i = 0; may && i < n; i++)
        if (strcmp(candidates[i]->name, known->kernel) == 0)
            *kernel_out = candidates[i];
    rung_status status = RUNG_OK;
    if (!*kernel_out && !tuning->frozen) { // not known, or a kernel that this version does not have
        status = measure(context, q, kind, candidates, n, around, kernel_out);
        if (status == RUNG_OK)
            status = keep(tuning, rungi_string_text(&work), (*kernel_out)->name);
    } else if (may) {
        known->used = true;
    }
    rungi_string_fini(&work);
    return status;
}
