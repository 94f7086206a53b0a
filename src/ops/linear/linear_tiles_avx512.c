// SPDX-License-Identifier: Apache-2.0
#if defined(__AVX512F__)
#    include "ops/linear/linear_tiles_loops.h"

const rungi_linear_tile_loops rungi_linear_tile_loops_avx512 = LINEAR_TILE_TABLE;
#endif
