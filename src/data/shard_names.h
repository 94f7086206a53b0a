// SPDX-License-Identifier: Apache-2.0
// The archives that a path means: itself, a range of them with {000000..000009} (several may stand
// in it), or all in a folder by name (.tar, .tar.gz, .tgz, .tar.zst, .tar.bz2).
#ifndef RUNGI_DATA_SHARD_NAMES_H
#define RUNGI_DATA_SHARD_NAMES_H

#include "rung/status.h"

typedef rung_status (*rungi_shard_fn)(void *user, const char *path);

// Calls `fn` for each; *count_out is how many, also after a failure of `fn`. Errors: RUNG_CONFIG
// for a range that falls or is too long, those of `fn`, RUNG_IO.
rung_status rungi_shard_names(const char *path, rungi_shard_fn fn, void *user, int *count_out);

#endif
