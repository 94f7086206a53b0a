// SPDX-License-Identifier: Apache-2.0
#include "train/pipeline_schedule.h"

const char *rungi_pipeline_schedule_name(rungi_pipeline_schedule schedule)
{
    static const char *const names[] = {"none", "gpipe", "1f1b"};
    return names[schedule];
}

int rungi_pipeline_in_flight(rungi_pipeline_schedule schedule, int stage, int stages, int micro)
{
    int deep = stages - stage;
    return schedule == RUNGI_PIPELINE_1F1B && deep < micro ? deep : micro;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

// Micro-batches that a schedule goes through before it begins anew.
static int group_of(rungi_pipeline_schedule schedule, int most, int micro)
{
    return schedule == RUNGI_PIPELINE_1F1B ? micro : most;
}

void rungi_pipeline_actions(rungi_pipeline_schedule schedule, int stage, int stages, int most,
                            int micro, rungi_pipeline_action *out)
{
    int forward = 0, backward = 0, n = 0;
    while (backward < micro) {
        int left = least(micro - backward, group_of(schedule, most, micro)), end = backward + left;
        // Forward passes before the first backward: all, or what fills the stages behind this one.
        int ahead = rungi_pipeline_in_flight(schedule, stage, stages, least(most, left));
        while (forward < backward + ahead)
            out[n++] = (rungi_pipeline_action){false, forward++};
        while (backward < end) {
            out[n++] = (rungi_pipeline_action){true, backward++};
            if (forward < end)
                out[n++] = (rungi_pipeline_action){false, forward++};
        }
    }
}

typedef struct clockwork {
    int next[RUNGI_PIPELINE_STAGES];  // action
    double at[RUNGI_PIPELINE_STAGES]; // when the stage is free
    // When each pass ended; negative: it has not.
    double forward[RUNGI_PIPELINE_STAGES][RUNGI_PIPELINE_MICRO];
    double backward[RUNGI_PIPELINE_STAGES][RUNGI_PIPELINE_MICRO];
} clockwork;

// When what an action needs is there; negative: not yet.
static double ready(const clockwork *c, int stage, int stages, rungi_pipeline_action a)
{
    if (a.backward)
        return stage + 1 < stages ? c->backward[stage + 1][a.micro] : 0;
    return stage > 0 ? c->forward[stage - 1][a.micro] : 0;
}

double rungi_pipeline_makespan(rungi_pipeline_schedule schedule, int stages, int most, int micro,
                               const double *forward, const double *backward)
{
    clockwork c = {0};
    double end = 0;
    for (int s = 0; s < stages; s++)
        for (int m = 0; m < micro; m++)
            c.forward[s][m] = c.backward[s][m] = -1;
    for (int left = 2 * stages * micro; left > 0;)
        for (int s = 0; s < stages; s++) {
            rungi_pipeline_action actions[2 * RUNGI_PIPELINE_MICRO];
            rungi_pipeline_actions(schedule, s, stages, most, micro, actions);
            while (c.next[s] < 2 * micro) {
                rungi_pipeline_action a = actions[c.next[s]];
                double from = ready(&c, s, stages, a);
                if (from < 0)
                    break;
                from = from > c.at[s] ? from : c.at[s];
                c.at[s] = from + (a.backward ? backward[s] : forward[s]);
                (a.backward ? c.backward : c.forward)[s][a.micro] = c.at[s];
                end = c.at[s] > end ? c.at[s] : end;
                c.next[s]++;
                left--;
            }
        }
    return end;
}

double rungi_pipeline_bubble(rungi_pipeline_schedule schedule, int stages, int most, int micro)
{
    double equal[RUNGI_PIPELINE_STAGES];
    for (int s = 0; s < stages; s++)
        equal[s] = 1;
    micro = least(micro, RUNGI_PIPELINE_MICRO);
    return 1 - 2 * micro / rungi_pipeline_makespan(schedule, stages, most, micro, equal, equal);
}
