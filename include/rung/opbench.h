// SPDX-License-Identifier: Apache-2.0
// How fast the kernels of an operator are, against what this machine can do at most.
#ifndef RUNG_OPBENCH_H
#define RUNG_OPBENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "rung/context.h"

#ifdef __cplusplus
extern "C" {
#endif

// What is measured on this machine first: fused multiply-adds of float32 in registers (two
// operations each) and the triad a = b + s c over large arrays (12 bytes an element), each a second
// with one thread and with all.
typedef struct rung_machine {
    rung_isa isa;
    int threads;
    double flops[2], bytes[2];
    double round_trip[2]; // seconds for a flag to another core and back, before and after; 0: one
                          // core. Where they differ much, cores have moved: measure again
} rung_machine;

// Measures that, in about a third of a second. Errors: RUNG_NO_MEMORY.
RUNG_API rung_status rung_machine_measure(rung_context *context, int threads,
                                          rung_machine *machine_out);

// One kernel on one case, with one thread and with all.
typedef struct rung_opbench_row {
    const char *case_name, *pass, *layout, *kernel;
    char shape[160];       // of the case's inputs
    double flops;          // operations of the operator
    double executed;       // those that the kernel executes (fewer with Winograd's method)
    double bytes;          // that must move when nothing is cached
    double seconds[2];     // median of a call
    double flops_share[2]; // of the machine's arithmetic: executed operations
    double bytes_share[2]; // of its memory; above 1 where caches hold the operands
    bool chosen;           // the planner takes it in this layout
    bool best[2];          // the shortest of all layouts and kernels for this case and pass
    const char *rival[2];  // the fastest other kernel of any layout; NULL: there is none
    double rival_seconds[2];
} rung_opbench_row;

typedef struct rung_opbench {
    rung_machine machine;
    rung_opbench_row *rows; // by case, pass, layout, kernel
    int64_t count;
} rung_opbench;

typedef struct rung_opbench_options {
    const char *pattern; // cases whose names match (* and ?); NULL: all that are for benchmarks,
                         // or, where there are none, all cases
    int threads;         // 0: the cores that this process may run on
    const rung_machine *machine; // of an earlier result, for the same context; NULL: measured first
    double seconds;              // for each measurement; 0 counts as 0.05
    void *user;
    void (*progress)(void *user, int64_t done, int64_t total, const char *what); // or NULL
} rung_opbench_options;

// Name of operator `index` (from 0) and how many of its cases are for benchmarks; NULL past the
// last.
RUNG_API const char *rung_opbench_name(int index, int *cases_out);

// Runs an operator's cases with all kernels that can run them (the float64 reference only of a pass
// that has no other), in all layouts. The caller ends with rung_opbench_fini.
// Errors: RUNG_NOT_FOUND naming the nearest operator, or the cases there are; RUNG_NO_MEMORY.
RUNG_API rung_status rung_opbench_run(rung_context *context, const char *op,
                                      const rung_opbench_options *options,
                                      rung_opbench *result_out);
RUNG_API void rung_opbench_fini(rung_opbench *result);

#ifdef __cplusplus
}
#endif

#endif
