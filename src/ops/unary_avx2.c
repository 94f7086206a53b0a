// SPDX-License-Identifier: Apache-2.0
#if defined(__AVX2__)
#    include "ops/unary_loops.h"

const rungi_unary_loops rungi_unary_loops_avx2 = UNARY_TABLE;
#endif
