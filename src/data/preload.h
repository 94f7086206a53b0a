// SPDX-License-Identifier: Apache-2.0
// Batches of one epoch kept in memory and served in every epoch: the ceiling of supply.
#ifndef RUNGI_DATA_PRELOAD_H
#define RUNGI_DATA_PRELOAD_H

#include "data/ring.h"

typedef struct rungi_preload rungi_preload;

// Reads epoch 0 through `ring`, which stands at its beginning, into memory of its own.
// Errors: those of reading; RUNG_NO_MEMORY.
rung_status rungi_preload_create(rungi_ring *ring, rungi_preload **preload_out);
void rungi_preload_destroy(rungi_preload **preload);

// The batch at `position` of `epoch`, and the place after it.
// Errors: RUNG_INVALID when no batch begins there.
rung_status rungi_preload_next(rungi_preload *preload, int64_t *epoch, int64_t *position,
                               rung_batch *batch_out);

#endif
