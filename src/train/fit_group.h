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

// Times operators with plans for that batch, and the kernels that the configuration's batch and an
// epoch's last one have beside those: fills group->times[precision].
rung_status rungi_fit_group_measure(rungi_fit_group *group, int64_t batch,
                                    const rungi_fit_what *what, int precision);

// Fills of `row` the fullest device, loader, extra, left_out and, with times, seconds; and
// bytes[devices] where that is not NULL. Errors: RUNG_INVALID for a batch that training refuses.
rung_status rungi_fit_group_predict(const rungi_fit_group *group, int64_t batch,
                                    const rungi_fit_what *what, const rungi_fit_times *times,
                                    rung_fit_bytes *bytes, rung_fit_row *row);

// fit_resident.c: samples of a batch that operators are measured on: enough for kernels to show
// their speed, or, where times are not wanted, as many as cost little.
rung_status rungi_fit_sample(const rungi_fit_group *group, bool times, int64_t *batch_out);
// What the process has resident before arenas and loaders, once operators were measured.
rung_status rungi_fit_base(rungi_fit_group *group, uint64_t *base_out);

#endif
