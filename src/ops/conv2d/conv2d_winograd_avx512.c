// SPDX-License-Identifier: Apache-2.0
#if defined(__AVX512F__)
#    include "ops/conv2d/conv2d_winograd_loops.h"

const rungi_wino_loops rungi_wino_loops_avx512 = WINO_TABLE;
#endif
