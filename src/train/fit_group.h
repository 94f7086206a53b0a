// SPDX-License-Identifier: Apache-2.0
// The sessions of all ranks of a configuration, made in this process, and what they hold together.
#ifndef RUNGI_TRAIN_FIT_GROUP_H
#define RUNGI_TRAIN_FIT_GROUP_H

#include "train/fit.h"
#include "train/session_crew.h"

typedef struct rungi_fit_group {
    rungi_session_crew crew;
    rungi_session **sessions; // its
    int ranks;
    // By precision and rank: of the stages of a pipeline each, else rank 0's for all.
    rungi_fit_times *times[RUNG_FIT_PRECISIONS];
} rungi_fit_group;

rung_status rungi_fit_group_create(rung_context *context, const rung_config *config,
                                   rungi_fit_group *group_out);
// May be called for what was not made, or in part.
void rungi_fit_group_fini(rungi_fit_group *group);

int rungi_fit_group_devices(const rungi_fit_group *group);
// Parts that a step's batch is computed in, one after the other or at once.
int64_t rungi_fit_parts(const rungi_session *s);

// Makes what training holds all the time resident.
void rungi_fit_group_touch(rungi_fit_group *g);

// Times operators with plans for that batch: fills group->times[precision].
rung_status rungi_fit_group_measure(rungi_fit_group *group, int64_t batch,
                                    const rungi_fit_what *what, int precision);

// Fills of `row` the fullest device, loader, extra, and, with times, seconds; and bytes[devices]
// where that is not NULL.
rung_status rungi_fit_group_predict(const rungi_fit_group *group, int64_t batch,
                                    const rungi_fit_what *what, const rungi_fit_times *times,
                                    rung_fit_bytes *bytes, rung_fit_row *row);

#endif
