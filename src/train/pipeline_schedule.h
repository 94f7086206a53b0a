// SPDX-License-Identifier: Apache-2.0
// The order in which the stages of a pipeline work on the micro-batches of a batch.
//
// Every schedule runs the backward passes of a stage in the order of the micro-batches, so that
// gradients are added in one order and all schedules give the same bits.
#ifndef RUNGI_TRAIN_PIPELINE_SCHEDULE_H
#define RUNGI_TRAIN_PIPELINE_SCHEDULE_H

#include <stdbool.h>

typedef enum rungi_pipeline_schedule {
    RUNGI_PIPELINE_NONE,  // the batch as a whole: one stage works at a time
    RUNGI_PIPELINE_GPIPE, // all forward passes, then all backward passes (Huang et al. 2019)
    // One forward, one backward, as soon as the pipeline is filled (Narayanan et al. 2019, 2021:
    // PipeDream-Flush): a stage holds at most as many micro-batches as there are stages from it on.
    RUNGI_PIPELINE_1F1B,
} rungi_pipeline_schedule;

enum { RUNGI_PIPELINE_STAGES = 64, RUNGI_PIPELINE_MICRO = 64 }; // at most

typedef struct rungi_pipeline_action {
    bool backward;
    int micro;
} rungi_pipeline_action;

// What stage `stage` does, in order: writes 2 * micro actions. `most`: micro-batches that a stage
// may hold, as many as a batch has without accumulation; with more of them none and gpipe go on in
// groups of as many, 1f1b goes on as it does.
void rungi_pipeline_actions(rungi_pipeline_schedule schedule, int stage, int stages, int most,
                            int micro, rungi_pipeline_action *actions_out);

// Micro-batches between their forward and the end of their backward, at most, of `micro`, or of any
// number of groups of as many.
int rungi_pipeline_in_flight(rungi_pipeline_schedule schedule, int stage, int stages, int micro);

// How long the schedule takes when stage s needs forward[s] and backward[s] for a micro-batch and
// nothing is lost in between. micro: at most RUNGI_PIPELINE_MICRO.
double rungi_pipeline_makespan(rungi_pipeline_schedule schedule, int stages, int most, int micro,
                               const double *forward, const double *backward);

// The share of the time that equal stages idle: (stages - 1) / (micro + stages - 1) where one group
// has them all. Of more than RUNGI_PIPELINE_MICRO so many are looked at.
double rungi_pipeline_bubble(rungi_pipeline_schedule schedule, int stages, int most, int micro);

const char *rungi_pipeline_schedule_name(rungi_pipeline_schedule schedule);

#endif
