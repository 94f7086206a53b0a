// SPDX-License-Identifier: Apache-2.0
#ifndef RUNGI_GRAPH_TUNE_H
#define RUNGI_GRAPH_TUNE_H

#include "ops/op.h"
#include "rung/tuning.h"

// The kernel for this work: from the table, else measured (and added to it). NULL when there is
// nothing to choose: fewer than two kernels besides the reference can run.
rung_status rungi_tuning_choose(rung_tuning *tuning, rung_context *context, const rungi_query *q,
                                rungi_device_kind kind, const rungi_kernel **kernel_out);

// Shortest of some runs of a kernel for this work, on memory of its own, in nanoseconds.
rung_status rungi_kernel_time(rung_context *context, const rungi_query *q, rungi_device_kind kind,
                              const rungi_kernel *kernel, int64_t *ns_out);

#endif
