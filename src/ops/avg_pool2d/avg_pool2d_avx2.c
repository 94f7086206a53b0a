// SPDX-License-Identifier: Apache-2.0
#if defined(__AVX2__)
#    include "ops/avg_pool2d/avg_pool2d_loops.h"

static const rungi_avg_pool_loops loops = AVG_POOL_LOOPS;
const rungi_avg_pool_loops *const rungi_avg_pool_loops_avx2 = &loops;
#else
#    include "ops/avg_pool2d/avg_pool2d.h"

const rungi_avg_pool_loops *const rungi_avg_pool_loops_avx2 = NULL;
#endif
