// SPDX-License-Identifier: Apache-2.0
#include "ops/rows.h"

#include "base/error.h"
#include "ops/parallel.h"
#include "ops/rows_loops.h"

const rungi_row_loops rungi_row_loops_plain = ROW_TABLE;

rung_status rungi_rows_check(const rung_shape *shape, int dim)
{
    char text[RUNG_SHAPE_TEXT];
    RUNG_CHECK(dim >= -shape->rank && dim < shape->rank, RUNG_MISMATCH, "%s has no dimension %d",
               rung_shape_text(shape, text, sizeof text), dim);
    return RUNG_OK;
}

// Rows copied at a time: a cache line of each element, some lines where the rows are short.
static int64_t together(const rungi_rows *r)
{
    return r->n <= 256 ? 64 : 16;
}

size_t rungi_rows_workspace(const rungi_rows *r, int threads)
{
    return r->inner == 1 ? 0 : (size_t)(threads * 3 * together(r) * r->n) * sizeof(float);
}

typedef struct visit {
    const rungi_rows *r;
    const float *in[2];
    float *out;
    rungi_row_fn *fn;
    void *user;
} visit;

// Rows `row` to `row + count`, which have one outer index, through a buffer of three times `most`
// rows.
static void visit_copied(const visit *v, int64_t row, int64_t count, float *buffer)
{
    const rungi_rows *r = v->r;
    int64_t begin = rungi_rows_begin(r, row), n = r->n, most = together(r);
    float *out = buffer + 2 * most * n;
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; v->in[k] && i < n; i++)
            for (int64_t j = 0; j < count; j++)
                buffer[(k * most + j) * n + i] = v->in[k][begin + i * r->inner + j];
    for (int64_t j = 0; j < count; j++) {
        const float *in[2] = {v->in[0] ? buffer + j * n : NULL,
                              v->in[1] ? buffer + (most + j) * n : NULL};
        v->fn(v->user, row + j, in, v->out ? out + j * n : NULL);
    }
    for (int64_t i = 0; v->out && i < n; i++)
        for (int64_t j = 0; j < count; j++)
            v->out[begin + i * r->inner + j] = out[j * n + i];
}

static void each_copied(const visit *v, int threads, float *workspace)
{
    const rungi_rows *r = v->r;
    int64_t most = together(r), groups = (r->inner + most - 1) / most, tasks = r->outer * groups;
    RUNGI_PARALLEL_FOR(threads, r->outer * r->n * r->inner)
    for (int t = 0; t < threads; t++) {
        float *buffer = workspace + t * 3 * most * r->n;
        for (int64_t k = tasks * t / threads; k < tasks * (t + 1) / threads; k++) {
            int64_t at = k % groups * most;
            visit_copied(v, k / groups * r->inner + at, r->inner - at < most ? r->inner - at : most,
                         buffer);
        }
    }
}

void rungi_rows_each(const rungi_rows *r, const float *in0, const float *in1, float *out,
                     rungi_row_fn *fn, void *user, int threads, void *workspace)
{
    visit v = {r, {in0, in1}, out, fn, user};
    if (r->inner > 1) {
        each_copied(&v, threads, workspace);
        return;
    }
    RUNGI_PARALLEL_FOR(threads, r->outer * r->n)
    for (int64_t row = 0; row < r->outer; row++) {
        int64_t at = row * r->n;
        const float *in[2] = {in0 ? in0 + at : NULL, in1 ? in1 + at : NULL};
        fn(user, row, in, out ? out + at : NULL);
    }
}
