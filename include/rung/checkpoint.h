// SPDX-License-Identifier: Apache-2.0
// Checkpoints on disk. A checkpoint is a folder: safetensors files (model.safetensors,
// optimizer.safetensors) and manifest.json with their sizes and checksums and the training state.
#ifndef RUNG_CHECKPOINT_H
#define RUNG_CHECKPOINT_H

#include "rung/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Reads a whole checkpoint and compares every byte with the manifest. `path` is its folder, or a
// mark beside it (checkpoints/latest, checkpoints/best).
// Errors: RUNG_NOT_FOUND; RUNG_FORMAT ("not a checkpoint"); RUNG_CORRUPT ("cut: expected A bytes,
// found B", "checksum of tensor NAME"); RUNG_UNSUPPORTED when a newer rung wrote it; RUNG_IO.
RUNG_API rung_status rung_checkpoint_verify(const char *path);

#ifdef __cplusplus
}
#endif

#endif
