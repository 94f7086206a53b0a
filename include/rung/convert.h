// SPDX-License-Identifier: Apache-2.0
// Making a data set of one format from one of another: `rung convert`.
#ifndef RUNG_CONVERT_H
#define RUNG_CONVERT_H

#include "rung/data.h"

#ifdef __cplusplus
extern "C" {
#endif

// What is made.
typedef enum rung_convert_kind {
    RUNG_CONVERT_AUTO, // told by the end of the name: .pack, .tar or .bin
    RUNG_CONVERT_PACK, // one file (rung/pack.h)
    RUNG_CONVERT_TAR,  // WebDataset's layout: 00000000.jpg, 00000000.cls, ...; one archive or, with
                       // `shard`, a folder of them
    RUNG_CONVERT_NPY,  // a folder with images.npy and labels.npy (of a split x_train.npy and
                       // y_train.npy, or x_test.npy and y_test.npy); pictures must have one size
    RUNG_CONVERT_FOLDER, // a folder for each class
    RUNG_CONVERT_TOKENS, // a file of tokens of a text (see rung_source_tokens)
} rung_convert_kind;

// Told now and then: `stage` is "writing" or "checking". False stops: RUNG_CANCELLED.
typedef bool (*rung_convert_progress_fn)(void *user, const char *stage, int64_t done,
                                         int64_t total);

// Zero is the default of every member but `from` and `to`.
typedef struct rung_convert_options {
    const char *from;   // as data.path
    const char *format; // as data.format; NULL: told from what lies there
    const char *split;  // NULL: "train" where the source has splits, else "all"
    const char *to;
    rung_convert_kind kind;
    int height, width; // decode and resize to raw pixels of this size; 0: keep pictures as they are
    bool crop;         // keep the aspect: resize to cover, cut the middle
    int channels;      // 1 or 3; 0: 3
    rung_filter filter;    // of resizing
    bool keep_orientation; // decode pictures as the camera stored them, not as it noted
    bool jpeg_rows;        // rewrite JPEGs, without loss, with a restart marker behind each row of
                           // blocks: what lies above a crop then need not be decoded
    int64_t shard;         // samples in an archive
    int num_workers;       // threads that decode
    const char *tokenizer; // of tokens: "char", "byte" or "gpt2" (rung/text.h)
    const char
        *vocabulary;    // its files; without one for char it is that of the text, and is written
    const char *merges; // to TO.vocab.json
    bool skip_bad;      // leave out samples that cannot be read (not for npy)
    bool restart;       // throw away what an earlier call has begun
    rung_convert_progress_fn progress;
    void *progress_user;
} rung_convert_options;

typedef struct rung_convert_report {
    int64_t samples;    // or tokens
    int64_t vocabulary; // of tokens: how many different ones there can be
    int64_t resumed;    // of them, written by an earlier call that was stopped
    int64_t left_out;   // bad ones
    uint64_t bytes;
    char format[32], split[16]; // of the source
} rung_convert_report;

// Reads every sample and writes them. `to` must not exist; it appears whole and checked at the end:
// what is under way lies in TO.partial (and TO.partial-index). When that is there already, from a
// call that was stopped, a pack goes on behind its last whole sample; of the other kinds each
// sample is made again, and what stands there already is compared and kept. Everything is flushed,
// read again and compared with its checksum before it gets its name.
//
// Pictures in files are copied as they are, bytes and all, unless `jpeg_rows` asks for other bytes
// of the same pixels. Arrays of pixels (idx, cifar10, npy) go to a pack as they are, and as PNG to
// tar and folder. Class names are kept; folders are named by them, with numbers in front where
// their order would change. A text becomes tokens of 16 bits where the vocabulary has no more than
// 65,536, else of 32. Errors: those of rung_source_open and of the samples, by name; RUNG_INVALID
// when `to` exists or its kind is not told; RUNG_MISMATCH for fields that the kind cannot hold;
// RUNG_DATA; RUNG_IO; RUNG_CORRUPT when the check fails; RUNG_CANCELLED.
RUNG_API rung_status rung_convert_data(rung_context *context, const rung_convert_options *options,
                                       rung_convert_report *report_out);

// Tells the format of what lies at `path` by names, and of files .bin by how they begin: a name for
// rung_source_open (a constant). Errors: RUNG_NOT_FOUND; RUNG_FORMAT when it cannot be told.
RUNG_API rung_status rung_source_guess(const char *path, const char **format_out);

#ifdef __cplusplus
}
#endif

#endif
