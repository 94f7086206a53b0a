// SPDX-License-Identifier: Apache-2.0
#if defined(__AVX512BF16__)
#    include "ops/conv2d/conv2d_winograd_half_loops.h"

const rungi_wino_loops rungi_wino_half_avx512bf16[2] = WINO_HALF_TABLE;
#endif
