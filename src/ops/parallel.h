// SPDX-License-Identifier: Apache-2.0
// Parallel loops of kernels. Elements are independent or are added in fixed blocks, so the number
// of threads never shows in the result. Small loops run without a parallel region.
#ifndef RUNGI_OPS_PARALLEL_H
#define RUNGI_OPS_PARALLEL_H

#define RUNGI_PRAGMA(text) _Pragma(#text)

#ifdef RUNG_OPENMP
// Put before a for loop over `count` elements of some flops each.
#    define RUNGI_PARALLEL_FOR(threads, count)                          \
    RUNGI_PRAGMA(omp parallel for schedule(static) num_threads(threads)                            \
                     if ((threads) > 1 && (count) >= 32768))
// The same for a loop over few large tasks: parallel whenever there are threads.
#    define RUNGI_PARALLEL_TASKS(threads) \
    RUNGI_PRAGMA(omp parallel for schedule(static) num_threads(threads) if ((threads) > 1))
#else
// Nothing but a use of the arguments, before the loop.
#    define RUNGI_PARALLEL_FOR(threads, count)   \
        if ((void)(threads), (void)(count), 0) { \
        } else
#    define RUNGI_PARALLEL_TASKS(threads) \
        if ((void)(threads), 0) {         \
        } else
#endif

#endif
