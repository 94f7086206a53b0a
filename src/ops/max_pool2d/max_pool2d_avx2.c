// SPDX-License-Identifier: Apache-2.0
#if defined(__AVX2__)
#    include "ops/max_pool2d/max_pool2d_loops.h"

static const rungi_max_pool_loops loops = MAX_POOL_LOOPS;
const rungi_max_pool_loops *const rungi_max_pool_loops_avx2 = &loops;
#else
#    include "ops/max_pool2d/max_pool2d.h"

const rungi_max_pool_loops *const rungi_max_pool_loops_avx2 = NULL;
#endif
