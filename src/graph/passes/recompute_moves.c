// SPDX-License-Identifier: Apache-2.0
// Schedules of the recompute pass: what they take, and making a plan of one.
#include "graph/passes/recompute.h"

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

// ---- instances --------------------------------------------------------------------------------

// Walks through a schedule and says which instance each use is of.
typedef struct walk {
    const rungi_again *a;
    int *now; // by tensor: its latest instance, -1: none yet
    bool *there;
} walk;

static bool walk_init(walk *w, const rungi_again *a)
{
    *w = (walk){.a = a};
    w->now = calloc((size_t)a->n_tensors + 1, sizeof *w->now);
    w->there = calloc((size_t)a->n_tensors + 1, sizeof *w->there);
    for (int i = 0; w->now && i < a->n_tensors; i++)
        w->now[i] = -1;
    return w->now && w->there;
}

static void walk_fini(walk *w)
{
    free(w->now);
    free(w->there);
}

// Does this use need an instance of its own? A value that is still there is written over with the
// same bits, but for output 0, which may come to share memory with an input.
static bool needs_instance(const walk *w, const rungi_use *use)
{
    if (w->now[use->root] < 0)
        return true;
    bool again = use->write && w->a->writer[use->root] >= 0;
    return again && (use->main || !w->there[use->root]);
}

// Takes `instance` as the use's. False: only this step sees it.
static bool take_instance(walk *w, const rungi_use *use, int instance)
{
    if (use->write && use->main && w->there[use->root] && w->now[use->root] >= 0)
        return false;
    w->now[use->root] = instance;
    w->there[use->root] = true;
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
    walk w;
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
    if (needs_instance(&m->w, use)) {
        instance = (int)m->lives.count;
        life l = {use->root, bytes_of(m, use->root), use->write ? time : 0, time, -1};
        if (!rungi_array_push(&m->lives, l))
            return false;
        take_instance(&m->w, use, instance);
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
    bool good = walk_init(&m.w, a);
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
    walk_fini(&m.w);
    RUNG_CHECK(take_out->peak != SIZE_MAX, RUNG_NO_MEMORY, "no memory to plan memory");
    return RUNG_OK;
}

// ---- the plan ---------------------------------------------------------------------------------

typedef struct maker {
    walk w;
    rungi_again *a;
    int *seen; // by tensor of the old plan: its alias of the latest instance's memory, -1: none
    bool failed;
} maker;

// A fresh tensor like `root`, not an output.
static int fresh_tensor(maker *m, int root)
{
    rungi_tensor t = m->a->p->tensors.data[root];
    t.keep = false;
    int index = rungi_plan_tensor(m->a->p, &t);
    m->failed |= index < 0;
    return index;
}

// A copy of an operand list in which each operand is of the instance that `as` (by root) names.
static const rungi_operand *mapped(maker *m, const rungi_operand *list, int n, const int *as)
{
    rung_plan *p = m->a->p;
    if (!list || n < 1)
        return list;
    rungi_operand *copy = rungi_plan_block(p, sizeof *copy * (size_t)n);
    m->failed |= !copy;
    for (int i = 0; copy && i < n; i++) {
        copy[i] = list[i];
        if (list[i].buffer < 0)
            continue;
        int root = p->tensors.data[list[i].buffer].root, now = as[root];
        if (now < 0 || now == root)
            continue;
        if (list[i].buffer == root) {
            copy[i].buffer = now;
        } else {
            int alias = rungi_plan_alias(p, now, &list[i]);
            m->failed |= alias < 0;
            if (alias >= 0) {
                p->tensors.data[alias].value = p->tensors.data[list[i].buffer].value;
                copy[i].buffer = alias;
            }
        }
    }
    return copy;
}

static void map_fused(maker *m, rungi_query *q, const int *reads, const int *writes)
{
    if (!q->n_fused)
        return;
    rungi_fused *list = rungi_plan_block(m->a->p, sizeof *list * (size_t)q->n_fused);
    m->failed |= !list;
    for (int i = 0; list && i < q->n_fused; i++) {
        list[i] = q->fused[i];
        list[i].in = mapped(m, q->fused[i].in, q->fused[i].n_in, reads);
        list[i].out = mapped(m, q->fused[i].out, q->fused[i].op->n_out,
                             q->pass == RUNGI_FORWARD ? writes : reads);
    }
    if (list)
        q->fused = list;
}

// Which instances the step's uses are of: `reads` and `writes` by root. True when one is not the
// original.
static bool assign(maker *m, int step, bool again, int *reads, int *writes)
{
    const rungi_use *uses;
    int n = rungi_again_uses(m->a, step, &uses);
    bool moved = again;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < n; i++) {
            if (uses[i].write != pass)
                continue;
            int root = uses[i].root, instance = m->w.now[root];
            if (needs_instance(&m->w, &uses[i])) {
                instance = again && uses[i].write ? fresh_tensor(m, root) : root;
                take_instance(&m->w, &uses[i], instance);
            }
            m->w.there[root] = true;
            (pass ? writes : reads)[root] = instance;
            moved |= instance != root;
        }
    return moved;
}

static void add_step(maker *m, int index, bool again, int *reads, int *writes, rungi_step *out)
{
    rung_plan *p = m->a->p;
    *out = p->steps.data[index];
    if (!assign(m, index, again, reads, writes))
        return;
    rungi_query *q = &out->q;
    out->stale = true;
    if (q->pass == RUNGI_FORWARD) {
        q->in = mapped(m, q->in, q->n_in, reads);
        q->out = mapped(m, q->out, q->n_out, writes);
    } else {
        q->in = mapped(m, q->in, q->n_in, reads);
        q->out = mapped(m, q->out, q->n_out, reads);
        q->gout = mapped(m, q->gout, q->op->n_out, reads);
        q->gin = mapped(m, q->gin, q->n_in, writes);
    }
    map_fused(m, q, reads, writes);
    if (!again)
        return;
    out->again = true;
    out->setup.state = NULL;
    out->refusals = NULL;
    if (out->workspace >= 0)
        out->workspace = fresh_tensor(m, out->workspace);
}

static rung_status make_steps(maker *m, const rungi_moves *moves, rungi_step *steps, size_t *count)
{
    size_t tensors = (size_t)m->a->n_tensors;
    bool *done = calloc((size_t)m->a->n_steps + 1, sizeof *done);
    int *reads = calloc(tensors + 1, sizeof *reads), *writes = calloc(tensors + 1, sizeof *writes);
    m->failed |= !done || !reads || !writes;
    for (size_t i = 0; !m->failed && i < tensors; i++)
        reads[i] = writes[i] = -1;
    for (size_t i = 0; !m->failed && i < moves->count; i++) {
        int move = moves->data[i];
        if (move < 0) {
            m->w.there[~move] = false;
            continue;
        }
        const rungi_use *uses;
        int n = rungi_again_uses(m->a, move, &uses);
        add_step(m, move, done[move], reads, writes, &steps[(*count)++]);
        done[move] = true;
        for (int k = 0; k < n; k++)
            reads[uses[k].root] = writes[uses[k].root] = -1;
    }
    free(done);
    free(reads);
    free(writes);
    RUNG_CHECK(!m->failed, RUNG_NO_MEMORY, "no memory for a plan");
    return RUNG_OK;
}

rung_status rungi_moves_apply(rungi_again *a, const rungi_moves *moves)
{
    rung_plan *p = a->p;
    maker m = {.a = a};
    size_t count = 0;
    rungi_step *steps = calloc(moves->count + 1, sizeof *steps);
    m.failed = !walk_init(&m.w, a) || !steps;
    rung_status status = RUNG_OK;
    if (m.failed)
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a plan");
    if (status == RUNG_OK)
        status = make_steps(&m, moves, steps, &count);
    walk_fini(&m.w);
    if (status != RUNG_OK) {
        free(steps);
        return status;
    }
    free(p->steps.data);
    p->steps.data = steps;
    p->steps.count = count;
    p->steps.capacity = moves->count + 1;
    return RUNG_OK;
}
