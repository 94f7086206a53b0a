// SPDX-License-Identifier: Apache-2.0
#if defined(__AVX512F__)
#    include "ops/conv2d/conv2d_direct_loops.h"

const rungi_direct_loops rungi_direct_loops_avx512 = DIRECT_TABLE;
#endif
