// SPDX-License-Identifier: Apache-2.0
// Inside of the recompute pass (recompute*.c).
//
// A schedule is a list of moves: run a step of the plan, or forget a value that forward gave.
// Every step runs at least once; forward steps may run again, and then give new instances of what
// was forgotten. Each read takes the latest instance, so that any schedule in which nothing
// forgotten is read computes the same bits: what is planned decides about memory and time alone.
#ifndef RUNGI_GRAPH_PASSES_RECOMPUTE_H
#define RUNGI_GRAPH_PASSES_RECOMPUTE_H

#include "base/array.h"
#include "graph/plan.h"

typedef struct rungi_use {
    int root; // tensor
    bool write;
    bool main; // output 0
} rungi_use;

// The plan as the pass sees it.
typedef struct rungi_again {
    rung_plan *p;
    int n_forward, n_steps, n_tensors;
    rungi_use *uses; // of step i: [begin[i], begin[i + 1])
    int *begin;
    double *seconds;              // by step
    int *writer;                  // by tensor: the forward step that gives it; -1: none
    bool *fixed;                  // by tensor: never forgotten
    int *last_forward, *last_use; // by tensor: the last forward step, the last step that uses it
    bool *backward_reads;         // by tensor
    int *place_of;                // by backward step (from n_steps): its layer's forward step
} rungi_again;

typedef RUNGI_ARRAY(int) rungi_moves; // a step, or ~tensor to forget

// recompute_view.c
rung_status rungi_again_init(rungi_again *a, rung_plan *p);
void rungi_again_fini(rungi_again *a);

static inline int rungi_again_uses(const rungi_again *a, int step, const rungi_use **uses_out)
{
    *uses_out = a->uses + a->begin[step];
    return a->begin[step + 1] - a->begin[step];
}

// ---- moves (recompute_moves.c, recompute_apply.c) ---------------------------------------------

// Adds backward steps [begin, end), and before each what must be done again so that all that it
// reads is there. `there` is by tensor, and changes.
bool rungi_moves_backward(const rungi_again *a, int begin, int end, bool *there,
                          rungi_moves *moves);

// What a piece of a schedule takes.
typedef struct rungi_take {
    size_t peak;
    double seconds;
} rungi_take;

// `held` (by tensor, NULL: none): what must live to the end. What is read before it is written
// lives from the beginning. `ignored` (a tensor, -1: none) is not counted.
rung_status rungi_moves_take(const rungi_again *a, const rungi_moves *moves, const bool *held,
                             int ignored, rungi_take *take_out);

// Rewrites the plan's steps and tensors to do what the schedule says.
rung_status rungi_moves_apply(rungi_again *a, const rungi_moves *moves);

// ---- chains (recompute_chain.c) ---------------------------------------------------------------

// A choice of what a stage keeps of what it computes inside.
typedef struct rungi_choice {
    bool *keep;                         // by tensor; its output is kept in any case
    size_t saved;                       // bytes of these and the output
    size_t forward_peak, backward_peak; // input not counted
    double backward_seconds;            // what is done again included
} rungi_choice;

enum { RUNGI_CHOICES = 12, RUNGI_STAGES = 40 };

// Consecutive forward steps that give one value to what follows, and their backward steps.
typedef struct rungi_stage {
    int forward[2], backward[2]; // steps from and up to
    int input, output;           // tensors; -1: none that counts
    size_t in_bytes, out_bytes;
    double forward_seconds;
    size_t pass_peak;     // of forward when only the output is kept
    rungi_choice nothing; // backward alone, from the input
    rungi_choice choices[RUNGI_CHOICES];
    int n_choices;
} rungi_stage;

typedef struct rungi_chain {
    rungi_stage stages[RUNGI_STAGES];
    int count;
} rungi_chain;

rung_status rungi_chain_make(const rungi_again *a, rungi_chain *chain);
void rungi_chain_fini(rungi_chain *chain);

// ---- solving (recompute_solve.c) --------------------------------------------------------------

typedef struct rungi_solution rungi_solution;

// Finds the fastest schedules of the chain for all memory sizes up to `most`.
rung_status rungi_solution_make(const rungi_chain *chain, size_t most, rungi_solution **out);
void rungi_solution_destroy(rungi_solution **solution);
// Sizes that are told apart, 1 to n; seconds with size i (infinite: not possible).
int rungi_solution_sizes(const rungi_solution *s);
double rungi_solution_seconds(const rungi_solution *s, int size);
// The schedule with size i.
rung_status rungi_solution_moves(const rungi_solution *s, const rungi_again *a, int size,
                                 rungi_moves *moves);

#endif
