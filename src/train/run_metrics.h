// SPDX-License-Identifier: Apache-2.0
// What the metrics.jsonl of a run folder tells.
#ifndef RUNGI_TRAIN_RUN_METRICS_H
#define RUNGI_TRAIN_RUN_METRICS_H

#include <jansson.h>

#include "rung/compare.h"

// Calls `fn` for each line of the run's metrics.jsonl that is an object of JSON, in order, with its
// "event". Errors: those of reading, RUNG_NOT_FOUND among them; the first failure of `fn`.
typedef rung_status (*rungi_metrics_fn)(void *user, const char *event, const json_t *line);
rung_status rungi_metrics_each(const char *run, rungi_metrics_fn fn, void *user);

// A number of a line; NaN when it has none.
double rungi_metrics_number(const json_t *line, const char *member);

// Fills the last validation and the means over all steps. A run without metrics has neither.
rung_status rungi_run_metrics(const char *run, rung_compared *side);

#endif
