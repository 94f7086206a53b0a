// SPDX-License-Identifier: Apache-2.0
// The rungs that exist: each is one switch of the configuration.
#ifndef RUNGI_LADDER_RUNGS_H
#define RUNGI_LADDER_RUNGS_H

#include "train/train_config.h"

// What a rung may change about the result.
typedef enum rungi_effect {
    RUNGI_EXACT,    // nothing: the same bits
    RUNGI_NUMERIC,  // rounding
    RUNGI_SEMANTIC, // what is computed: shown as a ceiling, never kept
} rungi_effect;

// What the data set is made to before it is measured.
typedef enum rungi_packing {
    RUNGI_PACKING_NONE,
    RUNGI_PACKING_FILES, // a pack of the pictures as they are
    RUNGI_PACKING_ROWS,  // the same, JPEGs with restart markers
    RUNGI_PACKING_RAW,   // a pack of pixels, resized
} rungi_packing;

typedef struct rungi_rung {
    const char *name;
    const char *about;
    rungi_effect effect;
    // Writes what to switch, given the best configuration so far: "key=value" into `setting`, or
    // several with blanks between. What changes nothing the base has already.
    // False, with the reason in `why`, when it cannot work here.
    bool (*setting)(const rungi_train_config *best, char *setting, size_t size, char *why,
                    size_t why_size);
    const char *switches; // the same where it is always that; `setting` is NULL
    // The effect, where it depends on the configuration; NULL: `effect`.
    rungi_effect (*effect_in)(const rungi_train_config *best);
    const char *not_kept; // of a semantic rung: why it is only shown
    rungi_packing packing;
} rungi_rung;

// The first one's name: its gain is what better supply of data can bring at most.
#define RUNGI_RUNG_CEILING "preloaded"

// packs.c: what pack_raw changes under this configuration, and whether the size of its pixels is
// told at all.
rungi_effect rungi_pack_raw_effect(const rungi_train_config *c);
bool rungi_pack_raw_possible(const rungi_train_config *c);

// In the order of climbing, ended by one without a name.
extern const rungi_rung rungi_rungs[];

#endif
