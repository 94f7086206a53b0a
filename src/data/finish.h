// SPDX-License-Identifier: Apache-2.0
// The transforms that a loader leaves for the device (rung_loader_options.defer): what follows
// decoding and resizing, on batches of bytes. Random choices are those that the workers would have
// made, and so are the values.
#ifndef RUNGI_DATA_FINISH_H
#define RUNGI_DATA_FINISH_H

#include "data/transform.h"

// The first step that is left for the device of those for field 0: all that come behind the last
// one that decodes, resizes or changes colours of pictures.
int rungi_finish_begin(const rung_field *field, const rung_transform *steps, int count);

typedef struct rungi_finish rungi_finish;

// Compiles the steps from there on. `field` is what the loader's batches hold. `steps` as the
// loader has them (copied; what their pointers lead to is borrowed). Errors: RUNG_INVALID,
// RUNG_MISMATCH, naming the step; RUNG_INVALID when none is left.
rung_status rungi_finish_create(rung_context *context, const rung_field *source,
                                const rung_field *field, const rung_transform *steps, int count,
                                uint64_t seed, int threads, rungi_finish **finish_out);
void rungi_finish_destroy(rungi_finish **finish);

// What comes out of one sample. Borrowed.
const rung_field *rungi_finish_output(const rungi_finish *finish);

// Runs them on `count` samples of `epoch`, `in` to `out`, in the threads that it was made for.
// Errors: those of custom transforms.
rung_status rungi_finish_run(rungi_finish *finish, int64_t epoch, const rung_draw *draws,
                             int64_t count, const void *in, void *out);

#endif
