// SPDX-License-Identifier: Apache-2.0
#if defined(__AVX2__)
#    include "ops/pieces_loops.h"

const rungi_piece_loops rungi_piece_loops_avx2 = PIECE_TABLE;
#endif
