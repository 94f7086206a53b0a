// SPDX-License-Identifier: Apache-2.0
// Shared by data_bench.c, which measures, and data_bench_report.c, which tells.
#ifndef RUNGI_TRAIN_DATA_BENCH_H
#define RUNGI_TRAIN_DATA_BENCH_H

#include "rung/data_tools.h"
#include "train/session.h"

enum { RUNGI_BENCH_ROWS = 16 };

// Supply with so many workers.
typedef struct rungi_supply {
    int workers;
    double samples_per_s;
    double cpu_share;              // of all cores that the process may run on
    uint64_t resident;             // bytes, at the end
    double sample_ms[RUNG_STAGES]; // workers' time for a sample, by stage
    double busy_share;             // of the workers' time
    double queue_depth;
    double batch_ms;
} rungi_supply;

// Copies to the device, and what they are hidden behind.
typedef struct rungi_copies {
    bool done; // else batches are not copied
    double ms; // of a batch: on the stream
    double bytes_per_s;
    double step_ms;      // of the stand-in for a training step: as long as a copy
    double batch_ms;     // from batch to batch, with it
    double overlap;      // share of a copy that goes on during the step, in [0, 1]
    double device_share; // of the time that the device is in a step
} rungi_copies;

typedef struct rungi_bench {
    rungi_session *s;
    const rung_data_bench_options *o;
    int cores;
    rungi_supply rows[RUNGI_BENCH_ROWS];
    int count, best;        // of rows
    double decode_per_s;    // the machine's ceiling; 0: samples are no pictures as files
    int64_t decoded;        // pictures it was measured with
    rungi_supply preloaded; // workers -1
    int64_t preloaded_samples;
    bool preloaded_whole; // all of an epoch's
    rungi_copies copies;
} rungi_bench;

// Measures one loader: `workers`; -1 serves from memory.
rung_status rungi_bench_supply(rungi_bench *b, int workers, rungi_supply *out);

// data_bench_copies.c: measures copies with the best number of workers.
rung_status rungi_bench_copies(rungi_bench *b);

// The smallest number of workers that comes within 5 % of the best.
int rungi_bench_best(const rungi_supply *rows, int count);

rung_status rungi_bench_report(const rungi_bench *b, rung_data_report *report_out);

#endif
