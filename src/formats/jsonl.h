// SPDX-License-Identifier: Apache-2.0
// metrics.jsonl: one JSON object a line, appended as training goes.
//
// A line is handed to the system in one write, so that a killed process leaves whole lines and a
// torn last one at worst. On resume at step s the file is cut: lines of later steps, "end" lines
// (the run goes on) and lines that are not JSON go; the file is replaced in one step.
#ifndef RUNGI_FORMATS_JSONL_H
#define RUNGI_FORMATS_JSONL_H

#include <jansson.h>

#include "base/file_io.h"

typedef struct rungi_jsonl rungi_jsonl;

// Makes a new file. RUNG_IO when there is one. The caller owns the result. `hook` is for tests,
// NULL else.
rung_status rungi_jsonl_create(const char *path, const rungi_io_hook *hook, rungi_jsonl **log_out);

// Opens the file of a run that goes on after step `step` (-1: from the start) and cuts it. A
// missing file is made. *dropped_out (may be NULL) receives the number of lines that were dropped.
rung_status rungi_jsonl_resume(const char *path, int64_t step, const rungi_io_hook *hook,
                               size_t *dropped_out, rungi_jsonl **log_out);

// Appends an object (borrowed). When that fails the file ends with the last whole line.
rung_status rungi_jsonl_append(rungi_jsonl *log, const json_t *object);

// Flushes to the disk: before a checkpoint, so that its step is in the file whatever happens.
rung_status rungi_jsonl_sync(rungi_jsonl *log);

// Closes and frees. NULL and pointers to NULL are accepted.
void rungi_jsonl_close(rungi_jsonl **log);

// A number for a line: JSON has no NaN and no infinity, they become null.
json_t *rungi_jsonl_number(double value);

// Writes the lines of a metrics.jsonl as a table: a column for each member in the order of their
// first appearance, members of objects as outer.inner, texts and numbers as they are. The file
// appears whole or not at all.
rung_status rungi_jsonl_to_csv(const char *jsonl_path, const char *csv_path);

#endif
