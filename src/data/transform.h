// SPDX-License-Identifier: Apache-2.0
// A chain of transforms, compiled for one field of a source: runs of built-in steps become fused
// passes, custom steps stand between them, and what decodes and resizes pictures before them.
#ifndef RUNGI_DATA_TRANSFORM_H
#define RUNGI_DATA_TRANSFORM_H

#include "rung/data.h"

typedef struct rungi_chain rungi_chain;

// Compiles those of `steps` that apply to `field` (number `field_index` of the source).
// *chain_out is NULL when none do and the field is no picture as a file. Errors: RUNG_INVALID,
// RUNG_MISMATCH, naming the step.
rung_status rungi_chain_create(const rung_field *field, int field_index,
                               const rung_transform *steps, int step_count,
                               rungi_chain **chain_out);
// The same of the steps from number `begin` to before `end`. Random choices are those of the whole
// list. Without `planes`, a picture comes out as it was resized, u8 [height, width, channels], when
// no later step changed it.
rung_status rungi_chain_create_part(const rung_field *field, int field_index,
                                    const rung_transform *steps, int begin, int end, bool planes,
                                    rungi_chain **chain_out);
void rungi_chain_destroy(rungi_chain **chain);

// What goes in, and what comes out. Borrowed.
const rung_field *rungi_chain_input(const rungi_chain *chain);
const rung_field *rungi_chain_output(const rungi_chain *chain);

// What a thread that applies the chain brings along: memory, a decoder.
typedef struct rungi_chain_worker rungi_chain_worker;
rung_status rungi_chain_worker_create(const rungi_chain *chain, rung_isa isa,
                                      rungi_chain_worker **worker_out);
// Times decoding by `clock` (borrowed) from now on.
void rungi_chain_worker_watch(rungi_chain_worker *worker, const rung_clock *clock);
// Nanoseconds of decoding since the last call.
int64_t rungi_chain_worker_decoding(rungi_chain_worker *worker);
void rungi_chain_worker_destroy(rungi_chain_worker **worker);

// Applies it to one sample. Of pictures as files, `in` has as many bytes as its shape says.
rung_status rungi_chain_apply(const rungi_chain *chain, const rung_sample *sample,
                              const rung_view *in, rungi_chain_worker *worker, void *out);

#endif
