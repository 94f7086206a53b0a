// SPDX-License-Identifier: Apache-2.0
// The right to save into a folder, shared by checkpoint_store.c and checkpoint_save.c.
#ifndef RUNGI_FORMATS_CHECKPOINT_STORE_H
#define RUNGI_FORMATS_CHECKPOINT_STORE_H

#include "formats/checkpoint_folder.h"

struct rungi_checkpoints {
    char root[RUNGI_PATH_MAX];
    rungi_checkpoints_options options;
    int lock; // descriptor
    int64_t next_save;
    unsigned attempt; // makes temporary names differ
};

// RUNG_INVALID when `name` cannot be a checkpoint's, a mark's or a file's.
rung_status rungi_checkpoint_check_name(const char *name);

#endif
