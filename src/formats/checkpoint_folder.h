// SPDX-License-Identifier: Apache-2.0
// Checkpoints in a folder: saved whole or not at all, verified, pruned, and the newest good one
// found again.
//
//   checkpoints/
//     step-00000100/            a checkpoint: manifest.json, model.safetensors, ...
//     step-00000200/
//     latest                    a mark: a text file with the name of a checkpoint
//     best                      another one
//     step-00000300.tmp-<unique>/   a save under way, or the rest of a killed one
//     .lock                     held by the one process that saves here
//
// A save writes NAME.tmp-<unique>, flushes each file, writes the manifest last, reads everything
// back and compares, renames the folder, flushes its parent and then moves `latest`. Killed at any
// moment it leaves all older checkpoints as they were. Nothing is written after the renaming, so a
// full disk is noticed before it.
#ifndef RUNGI_FORMATS_CHECKPOINT_FOLDER_H
#define RUNGI_FORMATS_CHECKPOINT_FOLDER_H

#include <jansson.h>

#include "formats/safetensors.h"
#include "rung/checkpoint.h"
#include "rung/context.h"

#define RUNGI_CHECKPOINT_LATEST "latest"
#define RUNGI_CHECKPOINT_BEST "best"
#define RUNGI_CHECKPOINT_MODEL "model.safetensors"
#define RUNGI_CHECKPOINT_OPTIMIZER "optimizer.safetensors"

// ---- saving -------------------------------------------------------------------------------------

// The right to save into one folder. One thread at a time uses it.
typedef struct rungi_checkpoints rungi_checkpoints;

typedef struct rungi_checkpoints_options {
    rung_context *context;     // for notices (left-overs removed); may be NULL
    bool no_verify;            // leaves out reading back what was written
    const rungi_io_hook *hook; // borrowed; NULL outside of tests
} rungi_checkpoints_options;

// Makes `root` and its parents where missing, takes its lock, removes what killed saves left.
// RUNG_IO when another process (or another owner in this one) saves there. `options` may be NULL.
// The caller owns the result.
rung_status rungi_checkpoints_open(const char *root, const rungi_checkpoints_options *options,
                                   rungi_checkpoints **checkpoints_out);
// Gives the lock back and frees. NULL and pointers to NULL are accepted.
void rungi_checkpoints_close(rungi_checkpoints **checkpoints);

// One tensor file of a checkpoint; all borrowed.
typedef struct rungi_checkpoint_file {
    const char *name; // RUNGI_CHECKPOINT_MODEL, ...
    const rungi_safetensors_source *sources;
    size_t count;
} rungi_checkpoint_file;

// Saves a checkpoint called `name` (no slash, not beginning with a dot) and moves `latest` to it.
// One of that name is replaced. `state` is an object with the training state, NULL for none;
// numbers beyond 2^63 go into it as text. On failure no temporary file is left and the older
// checkpoints are as before, `latest` included. Only when what follows the renaming fails (flushing
// the parent, moving `latest`), the new checkpoint is there as well.
rung_status rungi_checkpoints_save(rungi_checkpoints *checkpoints, const char *name,
                                   const rungi_checkpoint_file *files, size_t file_count,
                                   json_t *state);

// Moves a mark (such as RUNGI_CHECKPOINT_BEST) to the checkpoint `name`, which must exist; one that
// is there already is left alone. Marked checkpoints are not pruned.
rung_status rungi_checkpoints_mark(rungi_checkpoints *checkpoints, const char *mark,
                                   const char *name);

// Removes all but the `keep` newest checkpoints (0: none is removed), the marked ones and those
// named in `protect`. Folders without a readable manifest are left alone. A removal that fails is
// told to the log and tried again by the next call.
rung_status rungi_checkpoints_prune(rungi_checkpoints *checkpoints, size_t keep,
                                    const char *const *protect, size_t protect_count);

// ---- loading ------------------------------------------------------------------------------------

typedef struct rungi_checkpoint rungi_checkpoint;

// Opens the checkpoint at `path` (its folder or a mark). With `verify` every byte is compared, else
// sizes, headers and names. Loading into a model after a verified opening cannot fail for damage,
// so that a bad file changes nothing of the model. Errors: those of rung_checkpoint_verify. The
// caller owns the result.
rung_status rungi_checkpoint_open(const char *path, bool verify, rungi_checkpoint **checkpoint_out);

// Told of each checkpoint that was passed over, with the one-line reason.
typedef void (*rungi_checkpoint_reject_fn)(void *user, const char *path, const char *reason);

// Opens the newest checkpoint of `root` that verifies. `reject` may be NULL.
// Errors: RUNG_NOT_FOUND when there is none; RUNG_CORRUPT when there are some and none verifies.
rung_status rungi_checkpoint_open_newest(const char *root, rungi_checkpoint_reject_fn reject,
                                         void *user, rungi_checkpoint **checkpoint_out);

void rungi_checkpoint_close(rungi_checkpoint **checkpoint);

// All borrowed from the checkpoint.
const char *rungi_checkpoint_path(const rungi_checkpoint *checkpoint);
json_t *rungi_checkpoint_state(const rungi_checkpoint *checkpoint);
// NULL when the checkpoint has no file of that name.
rung_safetensors *rungi_checkpoint_tensors(const rungi_checkpoint *checkpoint, const char *name);

// ---- shared by both sides -----------------------------------------------------------------------

// A checkpoint in a folder.
typedef struct rungi_checkpoint_listed {
    char *name;
    int64_t save; // its number; -1 when the manifest cannot be read
    char *reason; // why it cannot, else NULL
} rungi_checkpoint_listed;

typedef struct rungi_checkpoint_list {
    rungi_checkpoint_listed *data; // newest first, unreadable ones before all
    size_t count, capacity;
} rungi_checkpoint_list;

// Lists the checkpoints of `root`; a folder that does not exist has none.
rung_status rungi_checkpoint_list_read(const char *root, rungi_checkpoint_list *list_out);
void rungi_checkpoint_list_fini(rungi_checkpoint_list *list);

// Reads a mark: the name in it. False when `path` is no mark.
enum { RUNGI_CHECKPOINT_NAME_MAX = 200 };
bool rungi_checkpoint_read_mark(const char *path, char name_out[RUNGI_CHECKPOINT_NAME_MAX + 1]);

#endif
