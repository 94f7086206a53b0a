// SPDX-License-Identifier: Apache-2.0
// How a query with operands of 16 bits is cut, and the kernel for its pieces; halves_run.c runs
// them.
#include "ops/halves.h"

#include <stdlib.h>

#include "base/error.h"
#include "tensor/half.h"

// Float32 copies of one piece take about as much: they should be found in the cache again.
enum { PIECE_BYTES = 4 << 20 };

// What an operand is to its operator.
typedef enum role {
    DATA,   // an input by samples
    WEIGHT, // any other input
    RESULT, // an output
} role;

static role role_of(const rungi_op *op, int input)
{
    return op->by_sample & rungi_bit(input) ? DATA : WEIGHT;
}

// ---- the query within -------------------------------------------------------------------------

static void shrink(rung_shape *s, int dim, int64_t whole, int64_t part)
{
    if (s->rank > 0 && s->dim[dim] == whole)
        s->dim[dim] = part;
}

static void shrink_to(rungi_operand *o, role r, const struct rungi_halves *how, int64_t part)
{
    if (how->cut == RUNGI_HALVES_SAMPLES && r != WEIGHT)
        shrink(&o->shape, 0, how->whole, part);
    if (how->cut == RUNGI_HALVES_FEATURES && r == WEIGHT)
        shrink(&o->shape, 0, how->whole, part);
    if (how->cut == RUNGI_HALVES_FEATURES && r == RESULT)
        shrink(&o->shape, o->shape.rank - 1, how->whole, part);
}

typedef struct maker {
    rungi_operand *next; // room for what follows
    const struct rungi_halves *how;
    const rungi_op *op;
    int64_t part;
} maker;

// A copy of a list: of inputs of the operator, or of results.
static rungi_operand *converted(maker *m, const rungi_operand *list, int n, bool inputs)
{
    rungi_operand *copy = m->next;
    if (!list)
        return NULL;
    for (int i = 0; i < n; i++) {
        copy[i] = list[i];
        if (rungi_dtype_is_half(copy[i].dtype))
            copy[i].dtype = RUNG_F32;
        shrink_to(&copy[i], inputs ? role_of(m->op, i) : RESULT, m->how, m->part);
    }
    m->next += n;
    return copy;
}

rung_status rungi_halves_query_init(rungi_halves_query *h, const rungi_query *q,
                                    const struct rungi_halves *how, int64_t part)
{
    size_t operands = 2 * (size_t)q->n_in + (size_t)q->n_out + (size_t)q->op->n_out;
    for (int i = 0; i < q->n_fused; i++)
        operands += (size_t)q->fused[i].n_in + (size_t)q->fused[i].op->n_out;
    size_t fused = (size_t)q->n_fused * sizeof(rungi_fused);
    h->block = malloc(fused + (operands + 1) * sizeof(rungi_operand));
    RUNG_CHECK(h->block, RUNG_NO_MEMORY, "no memory for a plan");
    rungi_fused *list = h->block;
    maker m = {(rungi_operand *)((char *)h->block + fused), how, q->op, part};
    h->q = *q;
    h->q.halves = NULL;
    h->q.in = converted(&m, q->in, q->n_in, true);
    h->q.out = converted(&m, q->out, q->n_out, false);
    h->q.gout = converted(&m, q->gout, q->op->n_out, false);
    h->q.gin = converted(&m, q->gin, q->n_in, true);
    for (int i = 0; i < q->n_fused; i++) {
        list[i] = q->fused[i];
        list[i].in = converted(&m, q->fused[i].in, q->fused[i].n_in, false);
        list[i].out = converted(&m, q->fused[i].out, q->fused[i].op->n_out, false);
    }
    h->q.fused = q->n_fused ? list : NULL;
    return RUNG_OK;
}

void rungi_halves_query_fini(rungi_halves_query *h)
{
    free(h->block);
    h->block = NULL;
}

// ---- what it reads and writes -----------------------------------------------------------------

static rungi_halves_piece piece_of(rungi_halves_cut cut, role r, bool write)
{
    bool samples = cut == RUNGI_HALVES_SAMPLES;
    if (cut == RUNGI_HALVES_WHOLE)
        return RUNGI_PIECE_WHOLE;
    if (r == RESULT)
        return samples ? RUNGI_PIECE_SLICE : RUNGI_PIECE_COLUMNS;
    if ((r == DATA) == samples)
        return RUNGI_PIECE_SLICE;
    return write ? RUNGI_PIECE_SUM : RUNGI_PIECE_WHOLE;
}

typedef struct collector {
    rungi_halves_entries all;
    const rungi_op *op;
    rungi_halves_cut cut;
} collector;

static void add_list(collector *c, const rungi_operand *list, int n, bool inputs, bool write)
{
    for (int i = 0; list && i < n; i++) {
        rungi_halves_entry *e = NULL;
        if (list[i].buffer < 0)
            continue;
        for (int k = 0; k < c->all.n && !e; k++)
            if (c->all.list[k].buffer == list[i].buffer)
                e = &c->all.list[k];
        if (!e && c->all.n == RUNGI_HALVES_ENTRIES) {
            c->all.full = true;
            return;
        }
        if (!e) {
            e = &c->all.list[c->all.n++];
            *e = (rungi_halves_entry){
                .buffer = list[i].buffer,
                .dtype = list[i].dtype,
                .count = rungi_operand_count(&list[i]),
                .half = rungi_dtype_is_half(list[i].dtype),
                .piece = piece_of(c->cut, inputs ? role_of(c->op, i) : RESULT, write)};
        }
        e->read |= !write;
        e->write |= write;
    }
}

rungi_halves_entries rungi_halves_entries_of(const rungi_query *q, rungi_halves_cut cut)
{
    collector c = {.op = q->op, .cut = cut};
    bool forward = q->pass == RUNGI_FORWARD;
    add_list(&c, q->in, q->n_in, true, false);
    add_list(&c, q->out, q->n_out, false, forward);
    if (!forward) {
        add_list(&c, q->gout, q->op->n_out, false, false);
        add_list(&c, q->gin, q->n_in, true, true);
    }
    for (int i = 0; i < q->n_fused; i++)
        if (forward) // in[0] is never stored
            add_list(&c, q->fused[i].in + 1, q->fused[i].n_in - 1, false, false);
        else
            add_list(&c, q->fused[i].out, 1, false, false);
    return c.all;
}

// ---- cuts -------------------------------------------------------------------------------------

static bool has_first(const rungi_operand *list, int n, const rungi_op *inputs_of, role wanted,
                      int64_t whole)
{
    for (int i = 0; list && i < n; i++)
        if (list[i].buffer >= 0 && (!inputs_of || role_of(inputs_of, i) == wanted) &&
            (list[i].shape.rank < 1 || list[i].shape.dim[0] != whole))
            return false;
    return true;
}

// Can it be done some samples at a time?
static bool by_samples(const rungi_query *q)
{
    const rung_shape *x = &q->in[0].shape;
    if (!q->op->by_sample || x->rank < 2 || x->dim[0] < 2)
        return false;
    int64_t whole = x->dim[0];
    for (int i = 0; i < q->n_in; i++) // broadcasting is between operands of other shapes
        if (role_of(q->op, i) == DATA && q->in[i].shape.rank != x->rank)
            return false;
    bool good = has_first(q->in, q->n_in, q->op, DATA, whole) &&
                has_first(q->out, q->n_out, NULL, RESULT, whole) &&
                has_first(q->gout, q->op->n_out, NULL, RESULT, whole) &&
                has_first(q->gin, q->n_in, q->op, DATA, whole);
    for (int i = 0; i < q->n_fused; i++)
        good = good && q->fused[i].op->by_sample &&
               has_first(q->fused[i].in + 1, q->fused[i].n_in - 1, NULL, RESULT, whole) &&
               has_first(q->fused[i].out, 1, NULL, RESULT, whole);
    return good;
}

// Some features at a time? What is fused must be of one operand.
static bool by_features(const rungi_query *q)
{
    const rung_shape *y = &q->out[0].shape;
    if (!q->op->by_feature || q->n_in < 2 || y->rank < 1 || q->in[1].shape.dim[0] < 2)
        return false;
    bool good = y->dim[y->rank - 1] == q->in[1].shape.dim[0];
    for (int i = 0; i < q->n_fused; i++)
        good = good && q->fused[i].n_in == 1 && q->fused[i].op->by_sample;
    return good;
}

// Floats of copies: of what is there in each piece, and of one unit (a sample, a feature).
typedef struct floats {
    int64_t fixed, unit;
    bool possible;
} floats;

static floats floats_of(const rungi_query *q, rungi_halves_cut cut, int64_t whole)
{
    rungi_halves_entries all = rungi_halves_entries_of(q, cut);
    floats f = {.possible = !all.full};
    for (int i = 0; i < all.n; i++) {
        const rungi_halves_entry *e = &all.list[i];
        bool sum = e->piece == RUNGI_PIECE_SUM;
        if (sum && !e->half && e->dtype != RUNG_F32)
            f.possible = false;
        if (e->piece == RUNGI_PIECE_SLICE || e->piece == RUNGI_PIECE_COLUMNS)
            f.unit += e->half ? e->count / whole : 0;
        else
            f.fixed += (e->half ? e->count : 0) + (sum ? e->count : 0);
    }
    return f;
}

// Units in a piece: of equal size, where there are such pieces that are not much smaller.
static int64_t part_of(int64_t whole, int64_t unit)
{
    int64_t most = PIECE_BYTES / (int64_t)sizeof(float) / (unit ? unit : 1);
    most = most ? most : 1;
    if (most >= whole)
        return whole;
    for (int64_t part = most; part > most / 2; part--)
        if (whole % part == 0)
            return part;
    int64_t pieces = (whole + most - 1) / most;
    return (whole + pieces - 1) / pieces;
}

// The cut with the smallest copies.
static struct rungi_halves best_cut(const rungi_query *q)
{
    struct rungi_halves best = {.cut = RUNGI_HALVES_WHOLE};
    floats all = floats_of(q, RUNGI_HALVES_WHOLE, 1);
    int64_t least = all.fixed;
    for (int i = RUNGI_HALVES_SAMPLES; i <= RUNGI_HALVES_FEATURES; i++) {
        rungi_halves_cut cut = (rungi_halves_cut)i;
        bool samples = cut == RUNGI_HALVES_SAMPLES;
        if (samples ? !by_samples(q) : !by_features(q))
            continue;
        int64_t whole = samples ? q->in[0].shape.dim[0] : q->in[1].shape.dim[0];
        floats f = floats_of(q, cut, whole);
        int64_t part = part_of(whole, f.unit), size = f.fixed + f.unit * part;
        if (!f.possible || part == whole || size >= least)
            continue;
        least = size;
        best = (struct rungi_halves){NULL, cut, whole, part};
    }
    return best;
}

// The kernel for pieces of these sizes, or NULL.
static const rungi_kernel *choose(const rungi_query *q, const struct rungi_halves *how,
                                  rungi_device_kind kind, rungi_policy policy, rungi_string *log)
{
    rungi_halves_query h;
    rungi_reason why;
    bool cut = how->cut != RUNGI_HALVES_WHOLE;
    if (rungi_halves_query_init(&h, q, how, how->part) != RUNG_OK)
        return NULL;
    const rungi_kernel *kernel = rungi_kernel_choose(&h.q, kind, policy, log);
    rungi_halves_query_fini(&h);
    if (!kernel || !cut)
        return kernel;
    if (kernel->updates) // of all samples at once
        return NULL;
    if (how->whole % how->part) {
        if (rungi_halves_query_init(&h, q, how, how->whole % how->part) != RUNG_OK)
            return NULL;
        if (!rungi_kernel_can_run(kernel, &h.q, &why))
            kernel = NULL;
        rungi_halves_query_fini(&h);
    }
    return kernel;
}

// The kernel of float32 and how its operands are cut.
static struct rungi_halves choose_around(const rungi_query *q, rungi_device_kind kind,
                                         rungi_policy policy, rungi_string *log)
{
    struct rungi_halves how = best_cut(q);
    if (how.cut != RUNGI_HALVES_WHOLE)
        how.kernel = choose(q, &how, kind, policy, log);
    if (!how.kernel) {
        how = (struct rungi_halves){.cut = RUNGI_HALVES_WHOLE};
        how.kernel = choose(q, &how, kind, policy, log);
    }
    return how;
}

void rungi_halves_around(const rungi_query *q, rungi_device_kind kind, rungi_policy policy,
                         struct rungi_halves *halves_out)
{
    *halves_out = (struct rungi_halves){0};
    if (!rungi_query_has_halves(q))
        return;
    struct rungi_halves how = choose_around(q, kind, policy, NULL);
    if (how.kernel && how.kernel->kind != RUNGI_REFERENCE && !how.kernel->halves)
        *halves_out = how;
}

const rungi_kernel *rungi_halves_choose(const rungi_query *q, rungi_device_kind kind,
                                        rungi_policy policy, rungi_string *log,
                                        struct rungi_halves *halves_out)
{
    *halves_out = (struct rungi_halves){0};
    bool halves = rungi_query_has_halves(q);
    const rungi_kernel *kernel = rungi_kernel_choose(q, kind, policy, halves ? NULL : log);
    if (!halves)
        return kernel;
    if (!kernel)
        *halves_out = choose_around(q, kind, policy, log);
    else if (q->native)
        rungi_halves_around(q, kind, policy, halves_out);
    const rungi_kernel *around = halves_out->kernel;
    if (!kernel || (around && around->outruns_halves && around->outruns_halves(q)))
        return around;
    *halves_out = (struct rungi_halves){0};
    return kernel;
}
