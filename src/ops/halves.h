// SPDX-License-Identifier: Apache-2.0
// float32 kernels around operands of 16 bits: what makes `train.compute: storage`.
//
// A kernel that does not take operands of 16 bits is run on float32 copies of them in its
// workspace: read before it, written back, rounded, after it. Where samples are computed by
// themselves (rungi_op.by_sample) that is done for some at a time, so that the copies stay small
// and in the cache; gradients of parameters, which are float32 as they are, are added over the
// pieces, in order. Nothing depends on the number of threads.
#ifndef RUNGI_OPS_HALVES_H
#define RUNGI_OPS_HALVES_H

#include "ops/op.h"

// How a query's kernel is run: rungi_query.halves.
struct rungi_halves {
    const rungi_kernel *kernel; // of float32
    int64_t samples;            // at a time; 0: all
};

// As rungi_kernel_choose. A query with operands of 16 bits gets a kernel that takes them as they
// are, where there is one, else one of float32: *halves_out is filled then (its kernel is the
// result), else its kernel is NULL. NULL also when there is no memory to look.
const rungi_kernel *rungi_halves_choose(const rungi_query *q, rungi_device_kind kind,
                                        rungi_policy policy, rungi_string *log,
                                        struct rungi_halves *halves_out);

// The kernel that does it, for queries whose `halves` says how: in all but what it runs like that
// one.
rungi_kernel rungi_halves_kernel(const struct rungi_halves *halves);

// What the float32 kernel is asked: the query with float32 for 16 bits, and `samples` of them.
typedef struct rungi_halves_query {
    rungi_query q;
    void *block;
} rungi_halves_query;

rung_status rungi_halves_query_init(rungi_halves_query *h, const rungi_query *q, int64_t samples);
void rungi_halves_query_fini(rungi_halves_query *h);

#endif
