// SPDX-License-Identifier: Apache-2.0
#include "measure/straggler.h"

#include <stdlib.h>
#include <string.h>

void rungi_straggler_init(rungi_straggler *s, int ranks)
{
    memset(s, 0, sizeof *s);
    s->ranks = ranks;
}

void rungi_straggler_feed(rungi_straggler *s, const double (*times)[RUNGI_STRAGGLER_CAUSES])
{
    memcpy(s->times[s->steps % RUNGI_STRAGGLER_STEPS], times,
           (size_t)s->ranks * sizeof s->times[0][0]);
    for (int r = 0; r < s->ranks; r++)
        for (int c = 0; c < RUNGI_STRAGGLER_CAUSES; c++)
            s->sums[r][c] += times[r][c];
    s->steps++;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

// A rank's time in a step: of one cause, or of all (cause -1).
static double time_of(const double (*step)[RUNGI_STRAGGLER_CAUSES], int rank, int cause)
{
    double sum = 0;
    for (int c = 0; c < RUNGI_STRAGGLER_CAUSES; c++)
        sum += cause < 0 || c == cause ? step[rank][c] : 0;
    return sum;
}

// The median of the other ranks' times in a step.
static double others_of(const rungi_straggler *s, const double (*step)[RUNGI_STRAGGLER_CAUSES],
                        int rank, int cause)
{
    double times[RUNGI_STRAGGLER_RANKS];
    int n = 0;
    for (int r = 0; r < s->ranks; r++)
        if (r != rank)
            times[n++] = time_of(step, r, cause);
    return median(times, n);
}

// Median slowness of a rank over the window; *slow_out: in how many steps it was slow.
static double slowness(const rungi_straggler *s, int rank, int *slow_out)
{
    double ratios[RUNGI_STRAGGLER_STEPS];
    *slow_out = 0;
    for (int i = 0; i < RUNGI_STRAGGLER_STEPS; i++) {
        double others = others_of(s, s->times[i], rank, -1);
        ratios[i] = others > 0 ? time_of(s->times[i], rank, -1) / others : 1;
        *slow_out += ratios[i] > RUNGI_STRAGGLER_RATIO;
    }
    return median(ratios, RUNGI_STRAGGLER_STEPS);
}

// What of the rank's step takes most longer than the others'.
static void find_cause(const rungi_straggler *s, rungi_straggler_verdict *v)
{
    double most = -1;
    for (int c = 0; c < RUNGI_STRAGGLER_CAUSES; c++) {
        double own[RUNGI_STRAGGLER_STEPS], others[RUNGI_STRAGGLER_STEPS];
        for (int i = 0; i < RUNGI_STRAGGLER_STEPS; i++) {
            own[i] = time_of(s->times[i], v->rank, c);
            others[i] = others_of(s, s->times[i], v->rank, c);
        }
        double mine = median(own, RUNGI_STRAGGLER_STEPS);
        double theirs = median(others, RUNGI_STRAGGLER_STEPS);
        if (mine - theirs > most) {
            most = mine - theirs;
            v->cause = c;
            v->own = mine;
            v->others = theirs;
        }
    }
}

bool rungi_straggler_find(const rungi_straggler *s, rungi_straggler_verdict *out)
{
    rungi_straggler_verdict found = {.rank = -1};
    if (s->steps < RUNGI_STRAGGLER_STEPS)
        return false;
    for (int r = 0; r < s->ranks; r++) {
        int slow;
        double ratio = slowness(s, r, &slow);
        if (slow >= RUNGI_STRAGGLER_QUORUM && ratio > found.slowness) {
            found.rank = r;
            found.slowness = ratio;
        }
    }
    if (found.rank < 0)
        return false;
    find_cause(s, &found);
    *out = found;
    return true;
}

double rungi_straggler_imbalance(const rungi_straggler *s)
{
    double most = 0, sum = 0;
    for (int r = 0; r < s->ranks; r++) {
        double own = 0;
        for (int c = 0; c < RUNGI_STRAGGLER_CAUSES; c++)
            own += s->sums[r][c];
        sum += own;
        most = own > most ? own : most;
    }
    return sum > 0 ? most * s->ranks / sum : 1;
}
