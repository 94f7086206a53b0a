// SPDX-License-Identifier: Apache-2.0
// The plan as a chain of stages, cut where one value alone leads on (the ends of residual blocks,
// each layer of a plain network), and for each stage what it may keep: all that its backward
// reads, or less and less of it, by what saves most memory for the least time. A graph that cannot
// be cut is one stage.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "graph/passes/recompute.h"

// ---- cuts -------------------------------------------------------------------------------------

// Is forward value r given before forward step c?
static bool before(const rungi_again *a, int r, int c)
{
    return a->writer[r] >= 0 && a->writer[r] < c;
}

// The value that alone leads from before step c to c and later ones; -1: there are none or several.
static int value_at(const rungi_again *a, int c)
{
    int found = -1;
    for (int r = 0; r < a->n_tensors; r++) {
        if (a->fixed[r] || !before(a, r, c) || a->last_forward[r] < c)
            continue;
        if (found >= 0)
            return -1;
        found = r;
    }
    return found >= 0 && a->backward_reads[found] ? found : -1;
}

// Do the backward steps fall into those of steps from c on, and after them those before c, with
// nothing but `value` read across? *split_out is where the latter begin.
static bool backward_splits(const rungi_again *a, int c, int value, int *split_out)
{
    int split = a->n_forward;
    while (split < a->n_steps && a->place_of[split] >= c)
        split++;
    for (int i = a->n_forward; i < a->n_steps; i++) {
        bool late = a->place_of[i] >= c;
        if (late != (i < split))
            return false;
        for (int k = a->begin[i]; k < a->begin[i + 1]; k++) {
            int r = a->uses[k].root;
            if (a->writer[r] >= 0 && !a->fixed[r] && r != value && before(a, r, c) == late)
                return false;
        }
    }
    *split_out = split;
    return true;
}

typedef struct cut {
    int at, value, split;
    size_t bytes;
} cut;

// Leaves the cuts of the smallest values.
static int thin(cut *cuts, int count)
{
    while (count > RUNGI_STAGES - 1) {
        int worst = 0;
        for (int i = 1; i < count; i++)
            if (cuts[i].bytes > cuts[worst].bytes)
                worst = i;
        memmove(&cuts[worst], &cuts[worst + 1], (size_t)(count - worst - 1) * sizeof *cuts);
        count--;
    }
    return count;
}

static int find_cuts(const rungi_again *a, cut *cuts)
{
    int count = 0;
    for (int c = 1; c < a->n_forward; c++) {
        cut k = {.at = c, .value = value_at(a, c)};
        if (k.value < 0 || !backward_splits(a, c, k.value, &k.split))
            continue;
        k.bytes = (a->p->tensors.data[k.value].bytes + 63) / 64 * 64;
        cuts[count++] = k;
    }
    return thin(cuts, count);
}

// ---- choices of a stage -----------------------------------------------------------------------

typedef struct stage_maker {
    const rungi_again *a;
    rungi_stage *s;
    bool *there, *held;
    rungi_moves moves;
} stage_maker;

// Is r given inside of the stage, and no output?
static bool inside(const stage_maker *m, int r)
{
    const rungi_again *a = m->a;
    return a->writer[r] >= m->s->forward[0] && a->writer[r] < m->s->forward[1] && !a->fixed[r] &&
           r != m->s->output;
}

static rung_status measure_forward(stage_maker *m, const bool *keep, rungi_take *take)
{
    for (int r = 0; r < m->a->n_tensors; r++)
        m->held[r] = (keep && keep[r]) || r == m->s->output;
    m->moves.count = 0;
    for (int i = m->s->forward[0]; i < m->s->forward[1]; i++)
        RUNG_CHECK(rungi_array_push(&m->moves, i), RUNG_NO_MEMORY, "no memory to plan memory");
    return rungi_moves_take(m->a, &m->moves, m->held, m->s->input, take);
}

// Backward with `keep` there (and the output, unless keep is NULL).
static rung_status measure_backward(stage_maker *m, const bool *keep, rungi_take *take)
{
    const rungi_again *a = m->a;
    for (int r = 0; r < a->n_tensors; r++) {
        m->there[r] = a->fixed[r] || (keep && (keep[r] || r == m->s->output)) || r == m->s->input;
        // Gradients that earlier stages read.
        m->held[r] = a->writer[r] < 0 && a->last_use[r] >= m->s->backward[1];
    }
    m->moves.count = 0;
    RUNG_CHECK(rungi_moves_backward(a, m->s->backward[0], m->s->backward[1], m->there, &m->moves),
               RUNG_NO_MEMORY, "no memory to plan memory");
    return rungi_moves_take(a, &m->moves, m->held, m->s->input, take);
}

static rung_status measure_choice(stage_maker *m, rungi_choice *c)
{
    rungi_take take;
    RUNG_TRY(measure_forward(m, c->keep, &take));
    c->forward_peak = take.peak;
    RUNG_TRY(measure_backward(m, c->keep, &take));
    c->backward_peak = take.peak;
    c->backward_seconds = take.seconds;
    c->saved = m->s->out_bytes;
    for (int r = 0; r < m->a->n_tensors; r++)
        c->saved += c->keep[r] ? (m->a->p->tensors.data[r].bytes + 63) / 64 * 64 : 0;
    return RUNG_OK;
}

static rung_status copy_keep(const stage_maker *m, const bool *from, rungi_choice *to)
{
    *to = (rungi_choice){0};
    to->keep = calloc((size_t)m->a->n_tensors + 1, sizeof *to->keep);
    RUNG_CHECK(to->keep, RUNG_NO_MEMORY, "no memory to plan memory");
    if (from)
        memcpy(to->keep, from, (size_t)m->a->n_tensors * sizeof *to->keep);
    return RUNG_OK;
}

// The value to forget next: most bytes for the least time. -1: nothing is left.
static rung_status cheapest(stage_maker *m, const rungi_choice *last, int *value_out)
{
    double best = -1;
    rungi_choice trial;
    *value_out = -1;
    RUNG_TRY(copy_keep(m, last->keep, &trial));
    rung_status status = RUNG_OK;
    for (int r = 0; r < m->a->n_tensors && status == RUNG_OK; r++) {
        rungi_take take;
        if (!trial.keep[r])
            continue;
        trial.keep[r] = false;
        status = measure_backward(m, trial.keep, &take);
        trial.keep[r] = true;
        double more = fmax(take.seconds - last->backward_seconds, 1e-9);
        double worth = (double)m->a->p->tensors.data[r].bytes / more;
        if (status == RUNG_OK && worth > best) {
            best = worth;
            *value_out = r;
        }
    }
    free(trial.keep);
    return status;
}

// Choices beyond the first: each forgets one value more; when there are more than fit, those in
// the middle are thinned by taking several values at once.
static rung_status make_choices(stage_maker *m)
{
    rungi_stage *s = m->s;
    int values = 0;
    RUNG_TRY(copy_keep(m, NULL, &s->choices[0]));
    s->n_choices = 1;
    for (int r = 0; r < m->a->n_tensors; r++) {
        s->choices[0].keep[r] = inside(m, r) && m->a->backward_reads[r];
        values += s->choices[0].keep[r];
    }
    RUNG_TRY(measure_choice(m, &s->choices[0]));
    int each = (values + RUNGI_CHOICES - 2) / (RUNGI_CHOICES - 1);
    while (values > 0 && s->n_choices < RUNGI_CHOICES) {
        rungi_choice *next = &s->choices[s->n_choices];
        RUNG_TRY(copy_keep(m, next[-1].keep, next));
        s->n_choices++;
        *next = (rungi_choice){.keep = next->keep, .backward_seconds = next[-1].backward_seconds};
        for (int i = 0; i < each && values > 0; i++, values--) {
            int value;
            RUNG_TRY(cheapest(m, next, &value));
            if (value >= 0)
                next->keep[value] = false;
        }
        RUNG_TRY(measure_choice(m, next));
    }
    return RUNG_OK;
}

static rung_status make_stage(const rungi_again *a, rungi_stage *s)
{
    stage_maker m = {.a = a, .s = s};
    rungi_take take = {0};
    m.there = calloc((size_t)a->n_tensors + 1, sizeof *m.there);
    m.held = calloc((size_t)a->n_tensors + 1, sizeof *m.held);
    rung_status status = RUNG_OK;
    if (!m.there || !m.held)
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory to plan memory");
    if (status == RUNG_OK)
        status = measure_forward(&m, NULL, &take);
    s->pass_peak = take.peak;
    s->forward_seconds = take.seconds;
    if (status == RUNG_OK)
        status = measure_backward(&m, NULL, &take);
    s->nothing = (rungi_choice){.backward_peak = take.peak, .backward_seconds = take.seconds};
    if (status == RUNG_OK)
        status = make_choices(&m);
    free(m.there);
    free(m.held);
    rungi_array_fini(&m.moves);
    return status;
}

rung_status rungi_chain_make(const rungi_again *a, rungi_chain *chain)
{
    *chain = (rungi_chain){0};
    cut *cuts = calloc((size_t)a->n_forward + 1, sizeof *cuts);
    RUNG_CHECK(cuts, RUNG_NO_MEMORY, "no memory to plan memory");
    chain->count = find_cuts(a, cuts) + 1;
    rung_status status = RUNG_OK;
    for (int i = 0; i < chain->count; i++) {
        const cut *from = i ? &cuts[i - 1] : NULL, *to = i + 1 < chain->count ? &cuts[i] : NULL;
        chain->stages[i] = (rungi_stage){
            .forward = {from ? from->at : 0, to ? to->at : a->n_forward},
            .backward = {to ? to->split : a->n_forward, from ? from->split : a->n_steps},
            .input = from ? from->value : -1,
            .output = to ? to->value : -1,
            .in_bytes = from ? from->bytes : 0,
            .out_bytes = to ? to->bytes : 0};
    }
    for (int i = 0; i < chain->count && status == RUNG_OK; i++)
        status = make_stage(a, &chain->stages[i]);
    free(cuts);
    return status;
}

void rungi_chain_fini(rungi_chain *chain)
{
    for (int i = 0; i < chain->count; i++)
        for (int k = 0; k < chain->stages[i].n_choices; k++)
            free(chain->stages[i].choices[k].keep);
    *chain = (rungi_chain){0};
}
