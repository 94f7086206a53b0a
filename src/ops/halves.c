// SPDX-License-Identifier: Apache-2.0
#include "ops/halves.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "ops/parallel.h"
#include "tensor/half.h"

// Float32 copies of one piece take about as much: they should be found in the cache again.
enum { PIECE_BYTES = 4 << 20 };

// ---- the query within -------------------------------------------------------------------------

typedef struct maker {
    rungi_operand *next; // room for what follows
    int64_t whole, samples;
} maker;

// A copy of a list. Operands whose bit is set count samples in their first dimension.
static rungi_operand *converted(maker *m, const rungi_operand *list, int n, uint32_t sampled)
{
    rungi_operand *copy = m->next;
    if (!list)
        return NULL;
    for (int i = 0; i < n; i++) {
        copy[i] = list[i];
        if (rungi_dtype_is_half(copy[i].dtype))
            copy[i].dtype = RUNG_F32;
        if (m->samples && (sampled & rungi_bit(i)) && copy[i].shape.rank > 0 &&
            copy[i].shape.dim[0] == m->whole)
            copy[i].shape.dim[0] = m->samples;
    }
    m->next += n;
    return copy;
}

rung_status rungi_halves_query_init(rungi_halves_query *h, const rungi_query *q, int64_t samples)
{
    size_t operands = 2 * (size_t)q->n_in + (size_t)q->n_out + (size_t)q->op->n_out;
    for (int i = 0; i < q->n_fused; i++)
        operands += (size_t)q->fused[i].n_in + (size_t)q->fused[i].op->n_out;
    size_t fused = (size_t)q->n_fused * sizeof(rungi_fused);
    h->block = malloc(fused + (operands + 1) * sizeof(rungi_operand));
    RUNG_CHECK(h->block, RUNG_NO_MEMORY, "no memory for a plan");
    rungi_fused *list = h->block;
    maker m = {(rungi_operand *)((char *)h->block + fused), q->n_in ? q->in[0].shape.dim[0] : 0,
               samples};
    uint32_t in = q->op->by_sample;
    h->q = *q;
    h->q.halves = NULL;
    h->q.in = converted(&m, q->in, q->n_in, in);
    h->q.out = converted(&m, q->out, q->n_out, ~0U);
    h->q.gout = converted(&m, q->gout, q->op->n_out, ~0U);
    h->q.gin = converted(&m, q->gin, q->n_in, in);
    for (int i = 0; i < q->n_fused; i++) {
        list[i] = q->fused[i];
        list[i].in = converted(&m, q->fused[i].in, q->fused[i].n_in, ~0U);
        list[i].out = converted(&m, q->fused[i].out, q->fused[i].op->n_out, ~0U);
    }
    h->q.fused = q->n_fused ? list : NULL;
    return RUNG_OK;
}

void rungi_halves_query_fini(rungi_halves_query *h)
{
    free(h->block);
    h->block = NULL;
}

// ---- memory -----------------------------------------------------------------------------------

// One buffer that the query reads or writes.
typedef struct entry {
    int buffer;
    rung_dtype dtype;
    int64_t count; // elements
    bool half, read, write, sampled;
    size_t copy; // place in the workspace: of the float32 copy, or of a further piece's part of a
                 // sum over samples
} entry;

enum { ENTRIES = 64 };

typedef struct entries {
    entry list[ENTRIES];
    int n;
    bool full;
} entries;

static void add_list(entries *all, const rungi_operand *list, int n, bool write, uint32_t sampled)
{
    for (int i = 0; list && i < n; i++) {
        entry *e = NULL;
        if (list[i].buffer < 0)
            continue;
        for (int k = 0; k < all->n && !e; k++)
            if (all->list[k].buffer == list[i].buffer)
                e = &all->list[k];
        if (!e && all->n == ENTRIES) {
            all->full = true;
            return;
        }
        if (!e) {
            e = &all->list[all->n++];
            *e = (entry){.buffer = list[i].buffer,
                         .dtype = list[i].dtype,
                         .count = rungi_operand_count(&list[i]),
                         .half = rungi_dtype_is_half(list[i].dtype)};
        }
        e->read |= !write;
        e->write |= write;
        e->sampled |= (sampled & rungi_bit(i)) != 0;
    }
}

static entries entries_of(const rungi_query *q)
{
    entries all = {.n = 0};
    bool forward = q->pass == RUNGI_FORWARD;
    add_list(&all, q->in, q->n_in, false, q->op->by_sample);
    add_list(&all, q->out, q->n_out, forward, ~0U);
    if (!forward) {
        add_list(&all, q->gout, q->op->n_out, false, ~0U);
        add_list(&all, q->gin, q->n_in, true, q->op->by_sample);
    }
    for (int i = 0; i < q->n_fused; i++)
        if (forward)
            add_list(&all, q->fused[i].in + 1, q->fused[i].n_in - 1, false, ~0U);
        else
            add_list(&all, q->fused[i].out, 1, false, ~0U);
    return all;
}

// ---- pieces -----------------------------------------------------------------------------------

static bool all_sampled(const rungi_operand *list, int n, uint32_t mask, int64_t whole)
{
    for (int i = 0; list && i < n; i++)
        if (list[i].buffer >= 0 && (mask & rungi_bit(i)) &&
            (list[i].shape.rank < 1 || list[i].shape.dim[0] != whole))
            return false;
    return true;
}

// Can it be done some samples at a time?
static bool divides(const rungi_query *q)
{
    const rung_shape *x = &q->in[0].shape;
    uint32_t in = q->op->by_sample;
    if (!in || x->rank < 2 || x->dim[0] < 2)
        return false;
    int64_t whole = x->dim[0];
    for (int i = 0; i < q->n_in; i++) // broadcasting is between operands of other shapes
        if ((in & rungi_bit(i)) && q->in[i].shape.rank != x->rank)
            return false;
    bool good =
        all_sampled(q->in, q->n_in, in, whole) && all_sampled(q->out, q->n_out, ~0U, whole) &&
        all_sampled(q->gout, q->op->n_out, ~0U, whole) && all_sampled(q->gin, q->n_in, in, whole);
    for (int i = 0; i < q->n_fused; i++)
        good = good && q->fused[i].op->by_sample &&
               all_sampled(q->fused[i].in + 1, q->fused[i].n_in - 1, ~0U, whole) &&
               all_sampled(q->fused[i].out, 1, ~0U, whole);
    return good;
}

// Samples at a time; 0: all.
static int64_t samples_of(const rungi_query *q)
{
    entries all = entries_of(q);
    int64_t whole = q->in[0].shape.dim[0], floats = 0;
    if (!divides(q) || all.full)
        return 0;
    for (int i = 0; i < all.n; i++) {
        const entry *e = &all.list[i];
        if (e->half && e->sampled)
            floats += e->count / whole;
        if (e->write && !e->sampled && e->dtype != RUNG_F32)
            return 0;
    }
    int64_t most = PIECE_BYTES / (int64_t)sizeof(float) / (floats ? floats : 1);
    most = most ? most : 1;
    if (most >= whole)
        return 0;
    // Pieces of equal size, where there are such that are not much smaller.
    for (int64_t samples = most; samples > most / 2; samples--)
        if (whole % samples == 0)
            return samples;
    int64_t pieces = (whole + most - 1) / most;
    return (whole + pieces - 1) / pieces;
}

static int64_t rest_of(int64_t whole, int64_t samples)
{
    return samples ? whole % samples : 0;
}

// The kernel for pieces of that size, or NULL.
static const rungi_kernel *choose(const rungi_query *q, int64_t samples, rungi_device_kind kind,
                                  rungi_policy policy, rungi_string *log)
{
    rungi_halves_query h;
    rungi_reason why;
    int64_t rest = rest_of(q->n_in ? q->in[0].shape.dim[0] : 0, samples);
    if (rungi_halves_query_init(&h, q, samples) != RUNG_OK)
        return NULL;
    const rungi_kernel *kernel = rungi_kernel_choose(&h.q, kind, policy, log);
    rungi_halves_query_fini(&h);
    if (!kernel || !samples || kernel->updates)
        return samples ? NULL : kernel;
    if (rest) {
        if (rungi_halves_query_init(&h, q, rest) != RUNG_OK)
            return NULL;
        if (!rungi_kernel_can_run(kernel, &h.q, &why))
            kernel = NULL;
        rungi_halves_query_fini(&h);
    }
    return kernel;
}

const rungi_kernel *rungi_halves_choose(const rungi_query *q, rungi_device_kind kind,
                                        rungi_policy policy, rungi_string *log,
                                        struct rungi_halves *halves_out)
{
    *halves_out = (struct rungi_halves){0};
    bool halves = rungi_query_has_halves(q);
    const rungi_kernel *kernel = rungi_kernel_choose(q, kind, policy, halves ? NULL : log);
    if (!halves || kernel)
        return kernel;
    int64_t samples = samples_of(q);
    if (samples)
        kernel = choose(q, samples, kind, policy, log);
    if (!kernel) {
        samples = 0;
        kernel = choose(q, 0, kind, policy, log);
    }
    *halves_out = (struct rungi_halves){kernel, samples};
    return kernel;
}

// ---- running ----------------------------------------------------------------------------------

// The float32 kernel for pieces of one size.
typedef struct piece {
    rungi_halves_query within;
    rungi_setup setup;
    bool made;
} piece;

typedef struct state {
    const rungi_kernel *kernel;
    int64_t whole, samples; // samples at a time is `whole` where it is not cut
    bool cut;
    piece pieces[2]; // of `samples`, and of the rest
    entries all;
    void **ptr;       // the kernel's pointer table
    size_t of_kernel; // place of its workspace
    rungi_widen_fn *widen[RUNG_DTYPE_COUNT];
    rungi_narrow_fn *narrow[RUNG_DTYPE_COUNT];
} state;

static size_t aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static entry *find(entries *all, const rungi_operand *o)
{
    for (int i = 0; o && o->buffer >= 0 && i < all->n; i++)
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

// The operand whose copy may lie over another's: where the pass may run in place.
static bool in_place(const rungi_query *q, entries *all, entry **from, entry **to)
{
    bool forward = q->pass == RUNGI_FORWARD;
    if (!rungi_query_pass(q)->in_place || q->n_fused || q->n_in < 1)
        return false;
    *from = find(all, forward ? &q->in[0] : &q->gout[0]);
    *to = find(all, forward ? &q->out[0] : &q->gin[0]);
    return *from && *to && *from != *to && (*from)->half && (*to)->half &&
           (*from)->count == (*to)->count && uses_of(q, (*from)->buffer) == 1;
}

// Gives each copy its place; returns the bytes of all.
static size_t place(state *s, const rungi_query *q)
{
    entry *from = NULL, *to = NULL;
    size_t bytes = 0;
    bool shared = in_place(q, &s->all, &from, &to);
    for (int i = 0; i < s->all.n; i++) {
        entry *e = &s->all.list[i];
        bool sum = s->cut && e->write && !e->sampled;
        if ((!e->half && !sum) || (shared && e == to))
            continue;
        int64_t count = s->cut && e->sampled ? e->count / s->whole * s->samples : e->count;
        e->copy = bytes;
        bytes += aligned((size_t)count * sizeof(float));
    }
    if (shared)
        to->copy = from->copy;
    return bytes;
}

static rung_status make_piece(state *s, const rungi_query *q, piece *p, int64_t samples)
{
    RUNG_TRY(rungi_halves_query_init(&p->within, q, samples));
    if (s->kernel->create)
        RUNG_TRY(s->kernel->create(&p->within.q, &p->setup));
    p->made = true;
    return RUNG_OK;
}

static void destroy(void *self)
{
    state *s = self;
    for (int i = 0; i < 2; i++) {
        if (s->pieces[i].made && s->pieces[i].setup.state && s->kernel->destroy)
            s->kernel->destroy(s->pieces[i].setup.state);
        rungi_halves_query_fini(&s->pieces[i].within);
    }
    free(s->ptr);
    free(s);
}

static rung_status make(state *s, const rungi_query *q, rungi_setup *setup)
{
    int most = 0;
    s->all = entries_of(q);
    RUNG_CHECK(!s->all.full, RUNG_UNSUPPORTED, "more than %d operands of 16 bits", ENTRIES);
    for (int i = 0; i < s->all.n; i++)
        most = s->all.list[i].buffer > most ? s->all.list[i].buffer : most;
    s->ptr = calloc((size_t)most + 1, sizeof *s->ptr);
    RUNG_CHECK(s->ptr, RUNG_NO_MEMORY, "no memory for a plan");
    RUNG_TRY(make_piece(s, q, &s->pieces[0], s->cut ? s->samples : 0));
    if (s->cut && s->whole % s->samples)
        RUNG_TRY(make_piece(s, q, &s->pieces[1], s->whole % s->samples));
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
    s->kernel = q->halves->kernel;
    s->whole = q->n_in && q->in[0].shape.rank > 0 ? q->in[0].shape.dim[0] : 1;
    s->cut = q->halves->samples > 0;
    s->samples = s->cut ? q->halves->samples : s->whole;
    for (int i = 0; i < RUNG_DTYPE_COUNT; i++) {
        s->widen[i] = rungi_widen_of(loops, (rung_dtype)i);
        s->narrow[i] = rungi_narrow_of(loops, (rung_dtype)i);
    }
    rung_status status = make(s, q, setup);
    if (status != RUNG_OK)
        destroy(s);
    return status;
}

enum { BLOCK = 8192 };

static void widen(rungi_widen_fn *fn, const uint16_t *from, float *to, int64_t count, int threads)
{
    RUNGI_PARALLEL_FOR(threads, count)
    for (int64_t i = 0; i < count; i += BLOCK)
        fn(from + i, to + i, count - i < BLOCK ? count - i : BLOCK);
}

static void narrow(rungi_narrow_fn *fn, const float *from, uint16_t *to, int64_t count, int threads)
{
    RUNGI_PARALLEL_FOR(threads, count)
    for (int64_t i = 0; i < count; i += BLOCK)
        fn(from + i, to + i, count - i < BLOCK ? count - i : BLOCK);
}

static void add(float *to, const float *from, int64_t count, int threads)
{
    RUNGI_PARALLEL_FOR(threads, count)
    for (int64_t i = 0; i < count; i++)
        to[i] += from[i];
}

// Elements of an entry that samples [begin, begin + count) have, and where they begin.
static int64_t span(const state *s, const entry *e, int64_t begin, int64_t count, int64_t *at)
{
    int64_t each = s->cut && e->sampled ? e->count / s->whole : 0;
    *at = each * begin;
    return each ? each * count : e->count;
}

static bool is_sum(const state *s, const entry *e, int64_t begin)
{
    return s->cut && begin > 0 && e->write && !e->sampled;
}

static void before(const state *s, const rungi_call *c, int64_t begin, int64_t count)
{
    for (int i = 0; i < s->all.n; i++) {
        const entry *e = &s->all.list[i];
        char *outside = c->ptr[e->buffer];
        float *copy = (float *)((char *)c->workspace + e->copy);
        int64_t at, n = span(s, e, begin, count, &at);
        s->ptr[e->buffer] = outside + (size_t)at * rung_dtype_size(e->dtype);
        if (is_sum(s, e, begin))
            s->ptr[e->buffer] = copy;
        if (!e->half)
            continue;
        s->ptr[e->buffer] = copy;
        if (e->read && (e->sampled || begin == 0))
            widen(s->widen[e->dtype], (const uint16_t *)outside + at, copy, n, c->q->threads);
    }
}

static void after(const state *s, const rungi_call *c, int64_t begin, int64_t count)
{
    for (int i = 0; i < s->all.n; i++) {
        const entry *e = &s->all.list[i];
        void *outside = c->ptr[e->buffer];
        const float *copy = (const float *)((const char *)c->workspace + e->copy);
        int64_t at, n = span(s, e, begin, count, &at);
        if (e->half && e->write)
            narrow(s->narrow[e->dtype], copy, (uint16_t *)outside + at, n, c->q->threads);
        if (is_sum(s, e, begin))
            add(outside, copy, n, c->q->threads);
    }
}

static rung_status run(const rungi_call *c)
{
    state *s = c->state;
    for (int64_t begin = 0; begin < s->whole; begin += s->samples) {
        int64_t left = s->whole - begin, count = left < s->samples ? left : s->samples;
        piece *p = &s->pieces[count < s->samples];
        rungi_runtime rt = *c->rt;
        if (s->cut) {
            rt.sample_offset += begin;
            rt.samples = count;
            rt.updates = NULL;
        }
        rungi_call within = {.q = &p->within.q,
                             .state = p->setup.state,
                             .ptr = s->ptr,
                             .workspace = (char *)c->workspace + s->of_kernel,
                             .rt = &rt};
        before(s, c, begin, count);
        RUNG_TRY(s->kernel->run(&within));
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
