// SPDX-License-Identifier: Apache-2.0
// Brings batches from a loader to the device: copies them through a stream of the device into its
// memory, and runs there the transforms that the loader left. A slot of the loader goes back only
// when nothing reads it any more: after its copy's event.
#ifndef RUNGI_TRAIN_FEEDER_H
#define RUNGI_TRAIN_FEEDER_H

#include "data/finish.h"
#include "data/pinned.h"
#include "measure/timeline.h"
#include "rung/device.h"

typedef struct rungi_feeder rungi_feeder;

typedef struct rungi_feeder_options {
    const char *device;   // "cpu:0"
    bool copy;            // else the slot is read where it lies
    int64_t copy_delay;   // nanoseconds that each copy takes longer, on the context's clock
    double copy_byte;     // the same for each byte
    bool non_blocking;    // the next batch is copied while the last one is trained on; only from
                          // pinned memory: others go through a staging buffer, and are waited for
    rungi_pinned *pinned; // where the loader's batches lie, or NULL; borrowed
    rungi_finish *finish; // NULL: nothing is left to do; owned by the feeder
    rungi_timeline *const *timeline; // borrowed; may be NULL, and lead to NULL
} rungi_feeder_options;

// Makes a feeder for a loader (borrowed). On failure the caller keeps options->finish.
rung_status rungi_feeder_create(rung_context *context, rung_loader *loader,
                                const rungi_feeder_options *options, rungi_feeder **feeder_out);
// Gives back what it holds of the loader. NULL is accepted.
void rungi_feeder_destroy(rungi_feeder **feeder);

// As rung_loader_next: the fields lie in the device's memory. At most one batch may be held.
rung_status rungi_feeder_next(rungi_feeder *feeder, int64_t step, rung_batch *batch_out);
void rungi_feeder_release(rungi_feeder *feeder, rung_batch *batch);

// As rung_loader_seek; forgets the copy under way.
rung_status rungi_feeder_seek(rungi_feeder *feeder, int64_t epoch, int64_t position);

// Field 0 of a sample as it is trained on. Borrowed.
const rung_field *rungi_feeder_image(const rungi_feeder *feeder);

#endif
