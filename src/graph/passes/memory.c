// SPDX-License-Identifier: Apache-2.0
// Memory plan: lifetimes of the arena's tensors and a place for each, so that tensors that live at
// the same time do not overlap. Placing is dynamic storage allocation, which is NP-hard; greedy by
// size (largest first, lowest fitting place) is what TensorFlow Lite and others settled on
// (Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020). Several
// orders are tried and the best is taken.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "graph/plan.h"

enum { ALIGN = 64 };

typedef struct lifetimes {
    rung_plan *p;
    int step;
} lifetimes;

static void live_at(rungi_tensor *t, int step)
{
    if (t->first < 0)
        t->first = step;
    t->last = step;
}

static void note_use(void *user, const rungi_operand *operand, bool write)
{
    (void)write;
    lifetimes *l = user;
    int root = l->p->tensors.data[operand->buffer].root;
    live_at(&l->p->tensors.data[root], l->step);
}

static void find_lifetimes(rung_plan *p)
{
    for (size_t i = 0; i < p->tensors.count; i++)
        p->tensors.data[i].first = p->tensors.data[i].last = -1;
    for (size_t i = 0; i < p->steps.count; i++) {
        lifetimes l = {p, (int)i};
        rungi_step_operands(&p->steps.data[i], note_use, &l);
        if (p->steps.data[i].workspace >= 0)
            live_at(&p->tensors.data[p->steps.data[i].workspace], (int)i);
    }
    for (size_t i = 0; i < p->tensors.count; i++)
        if (p->tensors.data[i].keep && p->tensors.data[i].first >= 0)
            p->tensors.data[i].last = (int)p->steps.count;
}

// ---- placing ----------------------------------------------------------------------------------

typedef struct item {
    int tensor;
    size_t bytes;
    int first, last;
    size_t offset;
} item;

static int by_size(const void *a, const void *b)
{
    const item *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->tensor - y->tensor;
}

static int by_area(const void *a, const void *b)
{
    const item *x = a, *y = b;
    double ax = (double)x->bytes * (x->last - x->first + 1);
    double ay = (double)y->bytes * (y->last - y->first + 1);
    if (ax != ay)
        return ax < ay ? 1 : -1;
    return x->tensor - y->tensor;
}

static int by_start(const void *a, const void *b)
{
    const item *x = a, *y = b;
    if (x->first != y->first)
        return x->first - y->first;
    return by_size(a, b);
}

static int by_length(const void *a, const void *b)
{
    const item *x = a, *y = b;
    int lx = x->last - x->first, ly = y->last - y->first;
    return lx != ly ? ly - lx : by_size(a, b);
}

static int by_offset(const void *a, const void *b)
{
    const item *x = *(const item *const *)a, *y = *(const item *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

// Lowest place for item n among the first n, which are placed. `near` is scratch for n pointers.
static size_t lowest_fit(const item *items, size_t n, const item **near)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (items[i].first <= items[n].last && items[n].first <= items[i].last)
            near[count++] = &items[i];
    qsort(near, count, sizeof *near, by_offset);
    size_t place = 0;
    for (size_t i = 0; i < count; i++) {
        if (near[i]->offset >= place + items[n].bytes)
            break;
        size_t end = near[i]->offset + near[i]->bytes;
        if (end > place)
            place = end;
    }
    return place;
}

static size_t place_in_order(item *items, size_t n, int (*order)(const void *, const void *),
                             const item **near)
{
    size_t top = 0;
    qsort(items, n, sizeof *items, order);
    for (size_t i = 0; i < n; i++) {
        items[i].offset = lowest_fit(items, i, near);
        if (items[i].offset + items[i].bytes > top)
            top = items[i].offset + items[i].bytes;
    }
    return top;
}

static size_t largest_live_set(const rung_plan *p, const item *items, size_t n)
{
    size_t largest = 0;
    for (int step = 0; step <= (int)p->steps.count; step++) {
        size_t live = 0;
        for (size_t i = 0; i < n; i++)
            if (items[i].first <= step && step <= items[i].last)
                live += items[i].bytes;
        if (live > largest)
            largest = live;
    }
    return largest;
}

// Places in the instance's memory.
static void place_kept(rung_plan *p)
{
    for (size_t i = 0; i < p->tensors.count; i++) {
        rungi_tensor *t = &p->tensors.data[i];
        if (t->kind != RUNGI_TENSOR_KEPT || t->root != (int)i)
            continue;
        t->offset = p->kept_bytes;
        p->kept_bytes += (t->bytes + ALIGN - 1) / ALIGN * ALIGN;
    }
}

static void keep_places(rung_plan *p, const item *items, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p->tensors.data[items[i].tensor].offset = items[i].offset;
}

rung_status rungi_plan_place(rung_plan *p)
{
    static int (*const orders[])(const void *, const void *) = {by_size, by_area, by_start,
                                                                by_length};
    find_lifetimes(p);
    place_kept(p);
    item *items = calloc(p->tensors.count + 1, sizeof *items);
    const item **near = calloc(p->tensors.count + 1, sizeof *near);
    if (!items || !near) {
        free(items);
        free(near);
        return RUNG_FAIL(RUNG_NO_MEMORY, "no memory to plan memory");
    }
    size_t n = 0;
    for (size_t i = 0; i < p->tensors.count; i++) {
        const rungi_tensor *t = &p->tensors.data[i];
        if (t->kind == RUNGI_TENSOR_ARENA && t->root == (int)i && t->first >= 0)
            items[n++] = (item){.tensor = (int)i,
                                .bytes = (t->bytes + ALIGN - 1) / ALIGN * ALIGN,
                                .first = t->first,
                                .last = t->last};
    }
    p->lower_bound = largest_live_set(p, items, n);
    p->arena_bytes = SIZE_MAX;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        size_t bytes = place_in_order(items, n, orders[i], near);
        if (bytes < p->arena_bytes) {
            p->arena_bytes = bytes;
            keep_places(p, items, n);
        }
    }
    free(items);
    free(near);
    return RUNG_OK;
}
