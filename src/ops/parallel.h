// SPDX-License-Identifier: Apache-2.0
// Parallel loops of kernels. Elements are independent or are added in fixed blocks, so the number
// of threads never shows in the result. Small loops run without a parallel region.
#ifndef RUNGI_OPS_PARALLEL_H
#define RUNGI_OPS_PARALLEL_H

#define RUNGI_PRAGMA(text) _Pragma(#text)

#if defined(RUNG_OPENMP) && defined(__clang__)
// LLVM's runtime keeps the num_threads of a region that `if` has closed for the next region, which
// may be OpenBLAS's and then waits for threads that never come: so there is no `if`.
#    define RUNGI_PARALLEL_FOR(threads, count)     \
    RUNGI_PRAGMA(omp parallel for schedule(static)                      \
                     num_threads((threads) > 1 && (count) >= 32768 ? (threads) : 1))
#    define RUNGI_PARALLEL_TASKS(threads) \
    RUNGI_PRAGMA(omp parallel for schedule(static) num_threads((threads) > 1 ? (threads) : 1))
#elif defined(RUNG_OPENMP)
// Put before a for loop over `count` elements of some flops each.
#    define RUNGI_PARALLEL_FOR(threads, count)                          \
    RUNGI_PRAGMA(omp parallel for schedule(static) num_threads(threads)                            \
                     if ((threads) > 1 && (count) >= 32768))
// The same for a loop over few large tasks: parallel whenever there are threads.
#    define RUNGI_PARALLEL_TASKS(threads) \
    RUNGI_PRAGMA(omp parallel for schedule(static) num_threads(threads) if ((threads) > 1))
#else
#    define RUNGI_PARALLEL_FOR(threads, count) (void)(threads), (void)(count);
#    define RUNGI_PARALLEL_TASKS(threads) (void)(threads);
#endif

#endif
