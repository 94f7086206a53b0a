// SPDX-License-Identifier: Apache-2.0
// Packs: rung's own file of samples. One file holds a data set: its samples one after the other, an
// index with the place, label and checksum of each, and what the fields and classes are. A sample
// holds pictures as they lay in their files (JPEG, ...), or fields of one shape, such as resized
// raw pixels. docs/pack-format.md describes every byte.
//
//   rung_pack_writer *writer;
//   rung_pack_writer_create(context, "train.pack",
//                           &(rung_pack_writer_options){.fields = fields, .field_count = 2},
//                           &writer);
//   for (...)
//       rung_pack_writer_add(writer, "cat/01.jpg", views);
//   rung_pack_writer_finish(&writer, NULL, NULL);      // checked, then renamed to train.pack
//
//   rung_source_pack(context, "train.pack", NULL, &source);
//
// `rung convert` makes packs of every source (rung/convert.h).
#ifndef RUNG_PACK_H
#define RUNG_PACK_H

#include "rung/data.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rung_pack_options {
    bool read; // read each sample from the file instead of mapping it: where mapping is slow, or
               // another process may cut the file in the moment of a read (which ends the process)
} rung_pack_options;

// Opens a pack. Fields, classes and names are what it was made with. Mapped, samples are borrowed
// from the mapping and never copied. Header and index are checked here, a sample's checksum when it
// is read for the first time; `rung_pack_check` looks at everything. `options` may be NULL. The
// caller owns the result; the file must not be changed before it is destroyed: one that was cut is
// an error of every sample.
// Errors: RUNG_NOT_FOUND, RUNG_IO; RUNG_FORMAT when it is no pack or malformed; RUNG_UNSUPPORTED
// for a newer version; RUNG_CORRUPT when it is cut or damaged.
RUNG_API rung_status rung_source_pack(rung_context *context, const char *path,
                                      const rung_pack_options *options, rung_source **source_out);

// Told now and then; `total` is at least 1. False stops: the call fails with RUNG_CANCELLED.
typedef bool (*rung_progress_fn)(void *user, int64_t done, int64_t total);

// Reads all of a pack and compares every checksum. `progress` may be NULL. Errors: those of
// rung_source_pack; RUNG_CORRUPT naming the first damaged sample; RUNG_CANCELLED.
RUNG_API rung_status rung_pack_check(const char *path, rung_progress_fn progress, void *user);

// A random order that suits packs larger than memory. Neighbouring samples that fill about `group`
// bytes (0: 1 MiB) are read together: each epoch draws an order of these groups, and shuffles the
// samples of `window` groups in a row (0: 64). Each sample comes exactly once an epoch. Groups of
// one sample are rung_sampler_random's kind of order. `source` must be a pack; it is not kept.
// Errors: RUNG_INVALID for another source or sizes below 0; RUNG_NO_MEMORY.
RUNG_API rung_status rung_sampler_pack(const rung_source *source, int64_t group, int64_t window,
                                       uint64_t seed, rung_sampler **sampler_out);

// ---------------------------------------------------------------------------------------------
// Writing
// ---------------------------------------------------------------------------------------------

typedef struct rung_pack_writer rung_pack_writer;

typedef struct rung_pack_writer_options {
    const rung_field *fields; // copied with their names. At most one is RUNG_PIXELS_FILE. A scalar
    int field_count;          // i64 called "label" lies in the index
    int class_count;          // labels must be below; 0: not known
    const char *const *class_names; // class_count names, or NULL; copied
    const char *note;               // what it is made from, for people; NULL: none
    uint64_t stamp;                 // names what it is made from: see below
    bool restart;                   // throw away what an earlier writer has begun
} rung_pack_writer_options;

// Begins a pack. Samples are written to PATH.partial and, for the index, PATH.partial-index; PATH
// itself appears, whole and checked, only in rung_pack_writer_finish.
//
// Where these files are there already, from a writer that was killed, with the same fields, classes
// and stamp, that work is taken up: rung_pack_writer_count tells how many samples stand, each
// compared with its checksum; go on with the next. Else they are begun anew. The caller ends with
// _finish or _destroy. Errors: RUNG_INVALID for fields that a pack cannot hold; RUNG_IO, also when
// another process is writing the same pack.
RUNG_API rung_status rung_pack_writer_create(rung_context *context, const char *path,
                                             const rung_pack_writer_options *options,
                                             rung_pack_writer **writer_out);

// Samples so far.
RUNG_API int64_t rung_pack_writer_count(const rung_pack_writer *writer);

// Adds a sample: `fields` as a source's `read` gives them. `name` says where it came from, for
// messages; "" for none. Errors: RUNG_DATA for a label out of range or an empty picture;
// RUNG_MISMATCH; these leave the sample out. After RUNG_IO and RUNG_NO_MEMORY the writer can only
// be destroyed.
RUNG_API rung_status rung_pack_writer_add(rung_pack_writer *writer, const char *name,
                                          const rung_view *fields);

// Writes the index, flushes, reads everything again comparing checksums (`progress` is told; may be
// NULL), renames to PATH and frees the writer. On failure (RUNG_DATA without samples, RUNG_IO,
// RUNG_CORRUPT) PATH is as it was.
RUNG_API rung_status rung_pack_writer_finish(rung_pack_writer **writer, rung_progress_fn progress,
                                             void *user);

// Stops writing; sets *writer to NULL. NULL is accepted. What was written stays, to be taken up
// later; with `remove` it is deleted.
RUNG_API void rung_pack_writer_destroy(rung_pack_writer **writer, bool remove);

#ifdef __cplusplus
}
#endif

#endif
