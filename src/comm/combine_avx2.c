// SPDX-License-Identifier: Apache-2.0
#if defined(__AVX2__)
#    include "comm/combine_loops.h"

const rungi_combine_loops rungi_combine_loops_avx2 = COMBINE_TABLE;
#endif
