// SPDX-License-Identifier: Apache-2.0
// Schedules of the recompute pass, and what they take.
#include "graph/passes/recompute_walk.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

// ---- making -----------------------------------------------------------------------------------

// Does `root` again, and before it what that needs.
static bool bring(const rungi_again *a, int root, bool *there, rungi_moves *moves)
{
    int step = a->writer[root];
    const rungi_use *uses;
    if (step < 0 || there[root])
        return true;
    int n = rungi_again_uses(a, step, &uses);
    for (int i = 0; i < n; i++)
        if (!uses[i].write && !bring(a, uses[i].root, there, moves))
            return false;
    for (int i = 0; i < n; i++)
        if (uses[i].write)
            there[uses[i].root] = true;
    return rungi_array_push(moves, step);
}

bool rungi_moves_backward(const rungi_again *a, int begin, int end, bool *there, rungi_moves *moves)
{
    for (int step = begin; step < end; step++) {
        const rungi_use *uses;
        int n = rungi_again_uses(a, step, &uses);
        for (int i = 0; i < n; i++)
            if (!uses[i].write && !bring(a, uses[i].root, there, moves))
                return false;
        if (!rungi_array_push(moves, step))
            return false;
    }
    return true;
}

// ---- what it takes ----------------------------------------------------------------------------

typedef struct life {
    int root;
    size_t bytes;
    int first, last;
    int over; // instance whose memory it may take at its first move, -1: none
} life;

typedef struct meter {
    rungi_walk w;
    RUNGI_ARRAY(life) lives;
    int ignored;
} meter;

static size_t bytes_of(const meter *m, int root)
{
    const rungi_tensor *t = &m->w.a->p->tensors.data[root];
    return root == m->ignored || t->kind != RUNGI_TENSOR_ARENA ? 0 : (t->bytes + 63) / 64 * 64;
}

static bool use_at(meter *m, const rungi_use *use, int time, int *instance_out)
{
    int instance = m->w.now[use->root];
    if (rungi_walk_needs(&m->w, use)) {
        instance = (int)m->lives.count;
        life l = {use->root, bytes_of(m, use->root), use->write ? time : 0, time, -1};
        if (!rungi_array_push(&m->lives, l))
            return false;
        rungi_walk_take(&m->w, use, instance);
    }
    m->w.there[use->root] = true;
    m->lives.data[instance].last = time;
    *instance_out = instance;
    return true;
}

// The tensors between which the in-place pass would choose for this step, as instances.
static void note_in_place(meter *m, const rungi_step *step, int from, int to)
{
    const rungi_query *q = &step->q;
    if (from >= 0 && to >= 0 && rungi_query_pass(q)->in_place &&
        !(q->pass == RUNGI_FORWARD && q->n_fused) &&
        m->lives.data[from].bytes == m->lives.data[to].bytes)
        m->lives.data[to].over = from;
}

static bool run_at(meter *m, int step_index, int time)
{
    const rungi_step *step = &m->w.a->p->steps.data[step_index];
    const rungi_use *uses;
    const rungi_tensor *tensors = m->w.a->p->tensors.data;
    bool forward = step->q.pass == RUNGI_FORWARD;
    const rungi_operand *source = forward ? step->q.in : step->q.gout;
    const rungi_operand *target = forward ? step->q.out : step->q.gin;
    int source_root = source[0].buffer < 0 ? -1 : tensors[source[0].buffer].root;
    int target_root = target[0].buffer < 0 ? -1 : tensors[target[0].buffer].root;
    int n = rungi_again_uses(m->w.a, step_index, &uses), from = -1, to = -1, instance;
    for (int pass = 0; pass < 2; pass++) // reads first
        for (int i = 0; i < n; i++) {
            if (uses[i].write != pass)
                continue;
            size_t before = m->lives.count;
            if (!use_at(m, &uses[i], time, &instance))
                return false;
            if (!pass && uses[i].root == source_root)
                from = instance;
            if (pass && uses[i].root == target_root && m->lives.count > before)
                to = instance;
        }
    note_in_place(m, step, from, to);
    if (step->workspace < 0)
        return true;
    life scratch = {-1, (step->setup.workspace + 63) / 64 * 64, time, time, -1};
    return rungi_array_push(&m->lives, scratch);
}

static size_t peak_of(meter *m, int times)
{
    size_t *change = calloc((size_t)times + 2, sizeof *change), live = 0, peak = 0;
    if (!change)
        return SIZE_MAX;
    for (size_t i = 0; i < m->lives.count; i++) {
        life *l = &m->lives.data[i];
        // Written over what ends here: it counts from the next move on.
        if (l->over >= 0 && m->lives.data[l->over].last == l->first)
            l->first++;
        if (l->first > l->last)
            continue;
        change[l->first] += l->bytes;
        change[l->last + 1] -= l->bytes; // modulo 2^64: the sums come out right
    }
    for (int t = 0; t <= times; t++) {
        live += change[t];
        if (live > peak)
            peak = live;
    }
    free(change);
    return peak;
}

rung_status rungi_moves_take(const rungi_again *a, const rungi_moves *moves, const bool *held,
                             int ignored, rungi_take *take_out)
{
    meter m = {.ignored = ignored};
    bool good = rungi_walk_init(&m.w, a);
    *take_out = (rungi_take){0};
    for (size_t t = 0; good && t < moves->count; t++) {
        int move = moves->data[t];
        if (move < 0) {
            m.w.there[~move] = false;
            continue;
        }
        take_out->seconds += a->seconds[move];
        good = run_at(&m, move, (int)t);
    }
    for (int r = 0; good && held && r < a->n_tensors; r++)
        if (held[r] && m.w.now[r] >= 0)
            m.lives.data[m.w.now[r]].last = (int)moves->count;
    take_out->peak = good ? peak_of(&m, (int)moves->count + 1) : SIZE_MAX;
    rungi_array_fini(&m.lives);
    rungi_walk_fini(&m.w);
    RUNG_CHECK(take_out->peak != SIZE_MAX, RUNG_NO_MEMORY, "no memory to plan memory");
    return RUNG_OK;
}
