// SPDX-License-Identifier: Apache-2.0
// Event files for TensorBoard: scalars and text.
//
// A run folder holds one file per session of the run (a start or a resume). Each begins with a mark
// (SessionLog START) that carries the first step of its session: readers forget what older files
// say of that step and later ones. So after a resume each step is there once, with the values of
// the session that went on (case C85). File names sort in the order of the sessions, whatever the
// clock, the host and the process number do.
#ifndef RUNGI_FORMATS_TFEVENTS_H
#define RUNGI_FORMATS_TFEVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rung/context.h"

typedef struct rungi_tfevents rungi_tfevents;

typedef struct rungi_tfevents_options {
    // The first step that this session may write: 0 for a new run, s + 1 when resumed at step s.
    int64_t first_step;
    // Cuts the older files of the folder before first_step. Without it only the mark is written.
    bool resumed;
    const rung_clock *clock; // borrowed; NULL: the monotonic clock
    // For tests; zeros stand for the time of day, this host and this process.
    double wall_time; // seconds since 1970 when the clock read what it reads now
    const char *host;
    int process;
} rungi_tfevents_options;

// Makes a new event file in `folder`, which must exist. `options` may be NULL. The caller owns the
// result. Errors: RUNG_IO, RUNG_NO_MEMORY.
rung_status rungi_tfevents_create(const char *folder, const rungi_tfevents_options *options,
                                  rungi_tfevents **events_out);

// Adds `count` scalars of one step as one record. Records are kept in memory up to 64 KiB or until
// a flush. Errors: RUNG_INVALID when `step` is before the session's first, or a tag is not UTF-8;
// RUNG_IO.
rung_status rungi_tfevents_scalars(rungi_tfevents *events, int64_t step, size_t count,
                                   const char *const *tags, const double *values);
rung_status rungi_tfevents_scalar(rungi_tfevents *events, int64_t step, const char *tag,
                                  double value);

// Adds a text, which TensorBoard shows as Markdown. A resumed session needs not repeat the texts of
// the ones before it.
rung_status rungi_tfevents_text(rungi_tfevents *events, int64_t step, const char *tag,
                                const char *text);

// Hands all records to the system. When that fails the file ends with the last whole record and the
// records are kept for the next try.
rung_status rungi_tfevents_flush(rungi_tfevents *events);

// Removes the records of step `first_step` and later from the event files of `folder`. Files that
// lose some are replaced in one step; one that loses all is removed. Where a frame is damaged or
// cut, readers stop: what follows is dropped when the file is rewritten anyway. Part of create.
rung_status rungi_tfevents_cut(const char *folder, int64_t first_step);

// The file's path. Borrowed.
const char *rungi_tfevents_path(const rungi_tfevents *events);

// Flushes, closes and frees, also when the flush fails. NULL and pointers to NULL are accepted.
rung_status rungi_tfevents_close(rungi_tfevents **events);

#endif
