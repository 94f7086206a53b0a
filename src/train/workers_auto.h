// SPDX-License-Identifier: Apache-2.0
// data.num_workers: auto. Steps of training without updates are taken with 0, 1, 2, 4, ... workers,
// in short windows, until waiting for data is no matter or more workers stop helping.
#ifndef RUNGI_TRAIN_WORKERS_AUTO_H
#define RUNGI_TRAIN_WORKERS_AUTO_H

#include "train/session.h"

// What was seen with so many workers.
typedef struct rungi_trial {
    int workers;
    double samples_per_s;
    double wait_share; // of the time
    double cpu_share;  // of the cores
    uint64_t resident; // bytes
} rungi_trial;

enum { RUNGI_TRIALS_MAX = 12 };

// How many workers to try after `count` trials, or -1 when enough is known: the last one waited for
// less than 2 % of its time, brought less than 5 % over the best before it, or four times the
// devices and twice the cores have been tried. *best_out is the trial with the most samples/s; of
// those within 2 % of it the one with the fewest workers.
int rungi_trials_next(const rungi_trial *trials, int count, int cores, int *best_out);

// Chooses for a session that is to train, says what it saw in the log, and makes the loaders anew.
// Parameters and buffers stay as they are. Does nothing when data.num_workers is a number.
rung_status rungi_session_choose_workers(rungi_session *s);

#endif
