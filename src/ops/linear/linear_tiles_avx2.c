// SPDX-License-Identifier: Apache-2.0
#if defined(__AVX2__)
#    include "ops/linear/linear_tiles_loops.h"

const rungi_linear_tile_loops rungi_linear_tile_loops_avx2 = LINEAR_TILE_TABLE;
#endif
