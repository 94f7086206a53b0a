// SPDX-License-Identifier: Apache-2.0
// manifest.json of a checkpoint: what its files must be, and the training state.
//
//   {
//    "format": "rung checkpoint",
//    "version": 1,
//    "bytes":          1234,            size of this file
//    "save": 12,                        counts the saves of a run: the highest is the newest
//    "files": {
//     "model.safetensors": {
//      "bytes": 1000,
//      "header_bytes": 200,             with the eight bytes of its length
//      "header": "32 hex digits",       XXH3-128
//      "tensors": {"conv1.weight": "32 hex digits", ...}
//     }
//    },
//    "state": {...},                    the caller's
//    "checksum": "32 hex digits"        of this file up to these digits
//   }
//
// It has no time in it: equal contents give equal bytes.
#ifndef RUNGI_FORMATS_CHECKPOINT_MANIFEST_H
#define RUNGI_FORMATS_CHECKPOINT_MANIFEST_H

#include <jansson.h>

#include "base/text.h"
#include "formats/safetensors.h"

enum { RUNGI_MANIFEST_VERSION = 1 };
#define RUNGI_MANIFEST_NAME "manifest.json"

// Adds a file to the object `files`: its plan and the checksums that rungi_safetensors_emit gave.
rung_status rungi_manifest_add_file(json_t *files, const char *name,
                                    const rungi_safetensors_plan *plan, rungi_sum header,
                                    const rungi_sum *sums);

// The text of a manifest. `files` and `state` (an object, NULL for none) are borrowed.
rung_status rungi_manifest_write(int64_t save, json_t *files, json_t *state, rungi_string *out);

// Reads FOLDER/manifest.json, checks its checksum and its form. The caller gives *root_out to
// json_decref; save, files and state of it have the types above.
rung_status rungi_manifest_read(const char *folder, json_t **root_out);

int64_t rungi_manifest_save(const json_t *root);
// Borrowed objects.
json_t *rungi_manifest_files(const json_t *root);
json_t *rungi_manifest_state(const json_t *root);

// Compares the file NAME of `folder` with its `entry` and opens it. `verify` reads all tensors,
// else only sizes, header and names are compared. The caller closes *file_out.
rung_status rungi_manifest_check_file(const char *folder, const char *name, const json_t *entry,
                                      bool verify, rung_safetensors **file_out);

#endif
