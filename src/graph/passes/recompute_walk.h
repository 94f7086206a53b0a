// SPDX-License-Identifier: Apache-2.0
// Shared by recompute_moves.c, which measures schedules, and recompute_apply.c, which carries them
// out.
#ifndef RUNGI_GRAPH_PASSES_RECOMPUTE_WALK_H
#define RUNGI_GRAPH_PASSES_RECOMPUTE_WALK_H

#include <stdlib.h>

#include "graph/passes/recompute.h"

// Walks through a schedule and says which instance each use is of.
typedef struct rungi_walk {
    const rungi_again *a;
    int *now; // by tensor: its latest instance, -1: none yet
    bool *there;
} rungi_walk;

static inline bool rungi_walk_init(rungi_walk *w, const rungi_again *a)
{
    *w = (rungi_walk){.a = a};
    w->now = calloc((size_t)a->n_tensors + 1, sizeof *w->now);
    w->there = calloc((size_t)a->n_tensors + 1, sizeof *w->there);
    for (int i = 0; w->now && i < a->n_tensors; i++)
        w->now[i] = -1;
    return w->now && w->there;
}

static inline void rungi_walk_fini(rungi_walk *w)
{
    free(w->now);
    free(w->there);
}

// Does this use need an instance of its own? A value that is still there is written over with the
// same bits, but for output 0, which may come to share memory with an input.
static inline bool rungi_walk_needs(const rungi_walk *w, const rungi_use *use)
{
    if (w->now[use->root] < 0)
        return true;
    bool again = use->write && w->a->writer[use->root] >= 0;
    return again && (use->main || !w->there[use->root]);
}

// Takes `instance` as the use's. False: only this step sees it.
static inline bool rungi_walk_take(rungi_walk *w, const rungi_use *use, int instance)
{
    if (use->write && use->main && w->there[use->root] && w->now[use->root] >= 0)
        return false;
    w->now[use->root] = instance;
    w->there[use->root] = true;
    return true;
}

#endif
