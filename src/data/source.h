// SPDX-License-Identifier: Apache-2.0
// What the loader needs to know of a source beyond its functions.
#ifndef RUNGI_DATA_SOURCE_H
#define RUNGI_DATA_SOURCE_H

#include "rung/data.h"

// Refuses a source that is not filled in: no samples, no read, bad shapes.
// Errors: RUNG_INVALID, RUNG_DATA (empty).
rung_status rungi_source_check(const rung_source *source);

// Writes "sample 37 (FILE, record 37)" into `out`.
void rungi_source_describe(const rung_source *source, int64_t index, char *out, size_t size);

// Bytes of one sample of a field; 0 of pictures as files, which are always borrowed.
size_t rungi_field_bytes(const rung_field *field);

// Bytes of all fields of a batch as it was delivered.
int64_t rungi_batch_bytes(const rung_batch *batch);

// Up to a multiple of 64: every field of a batch is aligned so.
static inline size_t rungi_round64(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

// May the path of this format be one split by itself, which is then called "all"?
bool rungi_source_may_be_split(const char *format);

// The name of a sample within its data set: of a picture its path there, the same in folders,
// archives and packs of them. "" where there is none.
const char *rungi_source_name(const rung_source *source, int64_t index);

// The label of a sample, where the source knows it without reading the sample; else NULL.
const int64_t *rungi_source_label(const rung_source *source, int64_t index);

// Notes that a thread is stuck in `read` for good: the source must stay in memory.
void rungi_source_abandon(rung_source *source);

// split.c: a hash of the samples' number and of the names of 100,000 of them, without `root` (which
// may be NULL) in front: tells whether two ranks look at the same data set.
uint64_t rungi_source_fingerprint(const rung_source *source, const char *root);

#endif
