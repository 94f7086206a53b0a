// SPDX-License-Identifier: Apache-2.0
// Memory plan: lifetimes of the arena's tensors, the largest set that lives at once (no placement
// can do with less), and a place for each (passes/place.c).
#include "graph/passes/place.h"

#include <stdlib.h>

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

void rungi_plan_lifetimes(rung_plan *p)
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

// Places in the instance's memory.
static void place_kept(rung_plan *p)
{
    p->kept_bytes = 0;
    for (size_t i = 0; i < p->tensors.count; i++) {
        rungi_tensor *t = &p->tensors.data[i];
        if (t->kind != RUNGI_TENSOR_KEPT || t->root != (int)i)
            continue;
        t->offset = p->kept_bytes;
        p->kept_bytes += (t->bytes + ALIGN - 1) / ALIGN * ALIGN;
    }
}

// The arena's tensors as blocks: room for all of the plan's tensors is in `blocks`.
static size_t list_blocks(const rung_plan *p, rungi_place_block *blocks)
{
    size_t n = 0;
    for (size_t i = 0; i < p->tensors.count; i++) {
        const rungi_tensor *t = &p->tensors.data[i];
        if (t->kind == RUNGI_TENSOR_ARENA && t->root == (int)i && t->first >= 0)
            blocks[n++] = (rungi_place_block){.id = (int)i,
                                              .bytes = (t->bytes + ALIGN - 1) / ALIGN * ALIGN,
                                              .first = t->first,
                                              .last = t->last};
    }
    return n;
}

rung_status rungi_plan_place(rung_plan *p)
{
    rungi_plan_lifetimes(p);
    place_kept(p);
    rungi_place_block *blocks = calloc(p->tensors.count + 1, sizeof *blocks);
    RUNG_CHECK(blocks, RUNG_NO_MEMORY, "no memory to plan memory");
    size_t n = list_blocks(p, blocks);
    p->lower_bound = rungi_place_bound(blocks, n, &p->peak_step);
    rung_status status = rungi_place_blocks(blocks, n, p->lower_bound, &p->arena_bytes);
    for (size_t i = 0; i < n && status == RUNG_OK; i++)
        p->tensors.data[blocks[i].id].offset = blocks[i].offset;
    free(blocks);
    return status;
}
