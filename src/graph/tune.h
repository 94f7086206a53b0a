// SPDX-License-Identifier: Apache-2.0
#ifndef RUNGI_GRAPH_TUNE_H
#define RUNGI_GRAPH_TUNE_H

#include "base/text.h"
#include "ops/op.h"
#include "rung/tuning.h"

// The kernel for this work: from the table, else measured (and added to it). NULL when there is
// nothing to choose: fewer than two kernels besides the reference can run. `around`: another
// candidate, a kernel of float32 around operands of 16 bits, which *kernel_out may be; NULL: none.
rung_status rungi_tuning_choose(rung_tuning *tuning, rung_context *context, const rungi_query *q,
                                rungi_device_kind kind, const struct rungi_halves *around,
                                const rungi_kernel **kernel_out);

// ---- of several ranks -------------------------------------------------------------------------

// Adds the table as text, "work\tkernel\n" each, or of it only what was asked for; and takes such a
// text in: what the table has already stays. `used`: as if it had been asked for.
void rungi_tuning_give(const rung_tuning *tuning, bool used, rungi_string *out);
rung_status rungi_tuning_take(rung_tuning *tuning, const char *text, bool used);
// From now on nothing is measured, and what has not been asked for so far is left to the operators'
// own order: so ranks that have the same table, but not the same plans, choose alike.
void rungi_tuning_freeze(rung_tuning *tuning);
// Has it choices that were measured, here or by those whose texts were taken, since it was loaded?
bool rungi_tuning_grew(const rung_tuning *tuning);

// Shortest of some runs of a kernel for this work, on memory of its own, in nanoseconds.
rung_status rungi_kernel_time(rung_context *context, const rungi_query *q, rungi_device_kind kind,
                              const rungi_kernel *kernel, int64_t *ns_out);

#endif
