// SPDX-License-Identifier: Apache-2.0
// Running a float32 kernel on copies of operands of 16 bits, piece by piece.
#include <stdlib.h>

#include "base/error.h"
#include "ops/halves.h"
#include "ops/parallel.h"
#include "tensor/half.h"

typedef rungi_halves_entry entry;

// The float32 kernel for pieces of one size.
typedef struct piece {
    rungi_halves_query within;
    rungi_setup setup;
    bool made;
} piece;

typedef struct state {
    struct rungi_halves how; // of what is not cut one piece of one unit is done
    piece pieces[2];         // of `part` units, and of the rest
    rungi_halves_entries all;
    void **ptr;       // the kernel's pointer table
    size_t of_kernel; // place of its workspace
    rungi_widen_fn *widen[RUNG_DTYPE_COUNT];
    rungi_narrow_fn *narrow[RUNG_DTYPE_COUNT];
} state;

// ---- making -----------------------------------------------------------------------------------

static size_t take(size_t *bytes, int64_t floats)
{
    size_t at = *bytes;
    *bytes += ((size_t)floats * sizeof(float) + 63) / 64 * 64;
    return at;
}

static entry *find(rungi_halves_entries *all, const rungi_operand *o)
{
    for (int i = 0; o->buffer >= 0 && i < all->n; i++)
        if (all->list[i].buffer == o->buffer)
            return &all->list[i];
    return NULL;
}

static int uses_of(const rungi_query *q, int buffer)
{
    int uses = 0;
    const rungi_operand *lists[] = {q->in, q->out, q->gout, q->gin};
    const int counts[] = {q->n_in, q->n_out, q->op->n_out, q->n_in};
    for (int k = 0; k < 4; k++)
        for (int i = 0; lists[k] && i < counts[k]; i++)
            uses += lists[k][i].buffer == buffer;
    return uses;
}

// May the copy of *to lie over that of *from: does the pass run in place?
static bool in_place(const rungi_query *q, rungi_halves_entries *all, entry **from, entry **to)
{
    bool forward = q->pass == RUNGI_FORWARD;
    if (!rungi_query_pass(q)->in_place || q->n_fused || q->n_in < 1)
        return false;
    *from = find(all, forward ? &q->in[0] : &q->gout[0]);
    *to = find(all, forward ? &q->out[0] : &q->gin[0]);
    return *from && *to && *from != *to && (*from)->half && (*to)->half &&
           (*from)->count == (*to)->count && uses_of(q, (*from)->buffer) == 1;
}

// Elements of an entry in a piece of `part` units.
static int64_t size_of(const state *s, const entry *e, int64_t part)
{
    bool cut = e->piece == RUNGI_PIECE_SLICE || e->piece == RUNGI_PIECE_COLUMNS;
    return cut ? e->count / s->how.whole * part : e->count;
}

// Gives each copy its place; returns the bytes of all.
static size_t place(state *s, const rungi_query *q)
{
    entry *from = NULL, *to = NULL;
    size_t bytes = 0;
    bool shared = in_place(q, &s->all, &from, &to);
    for (int i = 0; i < s->all.n; i++) {
        entry *e = &s->all.list[i];
        if (e->half && !(shared && e == to))
            e->copy = take(&bytes, size_of(s, e, s->how.part));
        if (e->piece == RUNGI_PIECE_SUM)
            e->term = take(&bytes, e->count);
    }
    if (shared)
        to->copy = from->copy;
    return bytes;
}

static rung_status make_piece(state *s, const rungi_query *q, piece *p, int64_t part)
{
    const rungi_kernel *kernel = s->how.kernel;
    RUNG_TRY(rungi_halves_query_init(&p->within, q, &s->how, part));
    if (kernel->create)
        RUNG_TRY(kernel->create(&p->within.q, &p->setup));
    p->made = true;
    return RUNG_OK;
}

static void destroy(void *self)
{
    state *s = self;
    for (int i = 0; i < 2; i++) {
        if (s->pieces[i].made && s->pieces[i].setup.state && s->how.kernel->destroy)
            s->how.kernel->destroy(s->pieces[i].setup.state);
        rungi_halves_query_fini(&s->pieces[i].within);
    }
    free(s->ptr);
    free(s);
}

static rung_status make(state *s, const rungi_query *q, rungi_setup *setup)
{
    int most = 0;
    s->all = rungi_halves_entries_of(q, s->how.cut);
    RUNG_CHECK(!s->all.full, RUNG_UNSUPPORTED, "more than %d operands of 16 bits",
               RUNGI_HALVES_ENTRIES);
    for (int i = 0; i < s->all.n; i++)
        most = s->all.list[i].buffer > most ? s->all.list[i].buffer : most;
    s->ptr = calloc((size_t)most + 1, sizeof *s->ptr);
    RUNG_CHECK(s->ptr, RUNG_NO_MEMORY, "no memory for a plan");
    RUNG_TRY(make_piece(s, q, &s->pieces[0], s->how.part));
    if (s->how.whole % s->how.part)
        RUNG_TRY(make_piece(s, q, &s->pieces[1], s->how.whole % s->how.part));
    s->of_kernel = place(s, q);
    size_t a = s->pieces[0].setup.workspace, b = s->pieces[1].setup.workspace;
    setup->workspace = s->of_kernel + (a > b ? a : b);
    setup->state = s;
    return RUNG_OK;
}

static rung_status create(const rungi_query *q, rungi_setup *setup)
{
    const rungi_half_loops *loops = rungi_half_loops_for(q->isa);
    state *s = calloc(1, sizeof *s);
    RUNG_CHECK(s, RUNG_NO_MEMORY, "no memory for a plan");
    s->how = *q->halves;
    if (s->how.cut == RUNGI_HALVES_WHOLE)
        s->how.whole = s->how.part = 1;
    for (int i = 0; i < RUNG_DTYPE_COUNT; i++) {
        s->widen[i] = rungi_widen_of(loops, (rung_dtype)i);
        s->narrow[i] = rungi_narrow_of(loops, (rung_dtype)i);
    }
    rung_status status = make(s, q, setup);
    if (status != RUNG_OK)
        destroy(s);
    return status;
}

// ---- running ----------------------------------------------------------------------------------

// An entry in the piece [begin, begin + count): `rows` runs of `length` elements, the first at
// `at`, `stride` apart in the whole.
typedef struct window {
    int64_t at, rows, length, stride;
} window;

static window window_of(const state *s, const entry *e, int64_t begin, int64_t count)
{
    int64_t each = e->count / s->how.whole;
    if (e->piece == RUNGI_PIECE_SLICE)
        return (window){each * begin, 1, each * count, 0};
    if (e->piece == RUNGI_PIECE_COLUMNS)
        return (window){begin, each, count, s->how.whole};
    return (window){0, 1, e->count, 0};
}

enum { BLOCK = 8192 };

static void widen(rungi_widen_fn *fn, const uint16_t *from, float *to, const window *w, int threads)
{
    int64_t blocks = (w->length + BLOCK - 1) / BLOCK;
    RUNGI_PARALLEL_FOR(threads, w->rows * w->length)
    for (int64_t i = 0; i < w->rows * blocks; i++) {
        int64_t row = i / blocks, at = i % blocks * BLOCK, left = w->length - at;
        fn(from + w->at + row * w->stride + at, to + row * w->length + at,
           left < BLOCK ? left : BLOCK);
    }
}

static void narrow(rungi_narrow_fn *fn, const float *from, uint16_t *to, const window *w,
                   int threads)
{
    int64_t blocks = (w->length + BLOCK - 1) / BLOCK;
    RUNGI_PARALLEL_FOR(threads, w->rows * w->length)
    for (int64_t i = 0; i < w->rows * blocks; i++) {
        int64_t row = i / blocks, at = i % blocks * BLOCK, left = w->length - at;
        fn(from + row * w->length + at, to + w->at + row * w->stride + at,
           left < BLOCK ? left : BLOCK);
    }
}

static void add(float *to, const float *from, int64_t count, int threads)
{
    RUNGI_PARALLEL_FOR(threads, count)
    for (int64_t i = 0; i < count; i++)
        to[i] += from[i];
}

static float *in_workspace(const rungi_call *c, size_t at)
{
    return (float *)((char *)c->workspace + at);
}

static void before(const state *s, const rungi_call *c, int64_t begin, int64_t count)
{
    for (int i = 0; i < s->all.n; i++) {
        const entry *e = &s->all.list[i];
        char *outside = c->ptr[e->buffer];
        window w = window_of(s, e, begin, count);
        bool again = begin > 0 && e->piece == RUNGI_PIECE_WHOLE;
        if (e->half)
            s->ptr[e->buffer] = in_workspace(c, e->copy);
        else
            s->ptr[e->buffer] = outside + (size_t)w.at * rung_dtype_size(e->dtype);
        if (begin > 0 && e->piece == RUNGI_PIECE_SUM)
            s->ptr[e->buffer] = in_workspace(c, e->term);
        if (e->half && e->read && !again)
            widen(s->widen[e->dtype], (const uint16_t *)outside, in_workspace(c, e->copy), &w,
                  c->q->threads);
    }
}

static void after(const state *s, const rungi_call *c, int64_t begin, int64_t count)
{
    for (int i = 0; i < s->all.n; i++) {
        const entry *e = &s->all.list[i];
        void *outside = c->ptr[e->buffer];
        float *copy = in_workspace(c, e->copy);
        window w = window_of(s, e, begin, count);
        bool sum = e->piece == RUNGI_PIECE_SUM;
        if (begin > 0 && sum)
            add(e->half ? copy : outside, in_workspace(c, e->term), e->count, c->q->threads);
        if (e->half && e->write && (!sum || begin + count == s->how.whole))
            narrow(s->narrow[e->dtype], copy, outside, &w, c->q->threads);
    }
}

static rung_status run(const rungi_call *c)
{
    state *s = c->state;
    for (int64_t begin = 0; begin < s->how.whole; begin += s->how.part) {
        int64_t left = s->how.whole - begin, count = left < s->how.part ? left : s->how.part;
        piece *p = &s->pieces[count < s->how.part];
        rungi_runtime rt = *c->rt;
        if (s->how.cut == RUNGI_HALVES_SAMPLES) {
            rt.sample_offset += begin;
            rt.samples = count;
        }
        if (s->how.cut != RUNGI_HALVES_WHOLE)
            rt.updates = NULL;
        rungi_call within = {.q = &p->within.q,
                             .state = p->setup.state,
                             .ptr = s->ptr,
                             .workspace = in_workspace(c, s->of_kernel),
                             .rt = &rt};
        before(s, c, begin, count);
        RUNG_TRY(s->how.kernel->run(&within));
        after(s, c, begin, count);
    }
    return RUNG_OK;
}

rungi_kernel rungi_halves_kernel(const struct rungi_halves *halves)
{
    rungi_kernel kernel = *halves->kernel;
    kernel.halves = true;
    kernel.can_run = NULL;
    kernel.prefers = NULL;
    kernel.create = create;
    kernel.destroy = destroy;
    kernel.run = run;
    return kernel;
}
