// SPDX-License-Identifier: Apache-2.0
#if defined(__AVX2__)
#    include "ops/rows_loops.h"

const rungi_row_loops rungi_row_loops_avx2 = ROW_TABLE;
#endif
