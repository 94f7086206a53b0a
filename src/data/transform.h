// SPDX-License-Identifier: Apache-2.0
// A chain of transforms, compiled for one field of a source: runs of built-in steps become fused
// passes, custom steps stand between them.
#ifndef RUNGI_DATA_TRANSFORM_H
#define RUNGI_DATA_TRANSFORM_H

#include "rung/data.h"

typedef struct rungi_chain rungi_chain;

// Compiles those of `steps` that apply to `field` (number `field_index` of the source).
// *chain_out is NULL when none do. Errors: RUNG_INVALID, RUNG_MISMATCH, naming the step.
rung_status rungi_chain_create(const rung_field *field, int field_index,
                               const rung_transform *steps, int step_count,
                               rungi_chain **chain_out);
void rungi_chain_destroy(rungi_chain **chain);

// What comes out. Borrowed.
const rung_field *rungi_chain_output(const rungi_chain *chain);

// Bytes that each thread that applies the chain must bring along.
size_t rungi_chain_scratch(const rungi_chain *chain);

// Applies it to one sample. `scratch` is aligned to 64.
rung_status rungi_chain_apply(const rungi_chain *chain, const rung_sample *sample, const void *in,
                              void *scratch, void *out);

#endif
