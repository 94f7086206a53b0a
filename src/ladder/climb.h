// SPDX-License-Identifier: Apache-2.0
// Inside of the ladder: what ladder.c, rounds.c, ladder_gate.c, packs.c, confirm.c and
// ladder_report.c share.
#ifndef RUNGI_LADDER_CLIMB_H
#define RUNGI_LADDER_CLIMB_H

#include <jansson.h>

#include "ladder/child.h"
#include "ladder/rungs.h"
#include "ladder/statistics.h"
#include "rung/ladder.h"

enum {
    RUNGI_REPEATS = 64,
    RUNGI_GATE_STEPS = 1024,
    RUNGI_SETTING = 1024, // bytes of what one rung switches
};

// What a block with --gate tells.
typedef struct rungi_gate_run {
    double losses[RUNGI_GATE_STEPS];
    int64_t count;
    char state[40];
    double gradient_error, gradient_distance; // see gradient_check.h
} rungi_gate_run;

// How far runs of the base go apart whose initial weights were disturbed by one rounding.
typedef struct rungi_envelope {
    int runs;
    double losses;   // largest deviation of a loss
    double gradient; // of 16 bits: largest distance of a disturbed gradient
} rungi_envelope;

// Kinds of rounding, from fine to coarse.
enum { RUNGI_ROUNDING_F32, RUNGI_ROUNDING_F16, RUNGI_ROUNDING_BF16, RUNGI_ROUNDINGS };

typedef struct rungi_climb {
    rung_context *context;
    const rung_config *config; // the base
    rung_config *best;         // the base with what was kept
    const rungi_train_config *c;
    const rung_ladder_options *o;
    rung_ladder_result *r;
    char base_path[4096];             // base.yaml
    char best_set[2 * RUNGI_SETTING]; // words
    int64_t began;
    double block_seconds;
    rungi_gate_run base_gate, best_gate;
    bool have_base_gate, have_best_gate;
    rungi_envelope envelopes[RUNGI_ROUNDINGS];
} rungi_climb;

// Tells the observer what is going on.
void rungi_climb_tell(const rungi_climb *k, const char *fmt, ...) RUNG_PRINTF(2, 3);
// Seconds left of the budget (infinite without one).
double rungi_climb_left(const rungi_climb *k);

// Runs a block of the base with `settings` (words) and more arguments (words) in a child; the
// caller decref's *out.
rung_status rungi_climb_block(rungi_climb *k, const char *settings, const char *arguments,
                              json_t **out);

// Ranks that the base has with `settings` (words).
rung_status rungi_climb_ranks(const rungi_climb *k, const char *settings, int64_t *ranks_out);

// rounds.c: measures the base alone; compares a candidate with the best before it and with the
// base.
rung_status rungi_climb_measure_base(rungi_climb *k, rung_rung *out);
rung_status rungi_climb_compare(rungi_climb *k, const char *name, const char *settings,
                                rung_rung *out);

// ladder_gate.c: is the candidate's result right? Fills gate, gate_passed and gate_detail.
rung_status rungi_climb_gate(rungi_climb *k, const rungi_rung *rung, const char *settings,
                             rung_rung *out);

// packs.c: converts the data set for a rung that packs it, into a folder of the run that is named
// by the rung, and completes its setting. Errors: those of rung_convert_data; RUNG_UNSUPPORTED when
// the pack would be larger than ladder.pack_limit. And removes that folder.
rung_status rungi_climb_pack(rungi_climb *k, const rungi_rung *rung, char *setting, size_t size);
void rungi_climb_unpack(const rungi_climb *k, const rungi_rung *rung);

// confirm.c: base and best train the same samples.
rung_status rungi_climb_confirm(rungi_climb *k);

// ladder_report.c: ladder.json, best.yaml, report.html.
rung_status rungi_climb_write(rungi_climb *k);

#endif
