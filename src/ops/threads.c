// SPDX-License-Identifier: Apache-2.0
#include "ops/threads.h"

#ifdef RUNG_OPENMP
#    include <omp.h>

void rungi_threads_use(int threads)
{
    if (omp_get_max_threads() != threads)
        omp_set_num_threads(threads);
}
#else
void rungi_threads_use(int threads)
{
    (void)threads;
}
#endif
