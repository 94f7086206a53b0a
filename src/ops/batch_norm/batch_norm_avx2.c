// SPDX-License-Identifier: Apache-2.0
#if defined(__AVX2__)
#    include "ops/batch_norm/batch_norm_loops.h"

static const rungi_bn_loops loops = BN_LOOPS;
const rungi_bn_loops *const rungi_bn_loops_avx2 = &loops;
#else
#    include "ops/batch_norm/batch_norm.h"

const rungi_bn_loops *const rungi_bn_loops_avx2 = NULL;
#endif
