// SPDX-License-Identifier: Apache-2.0
#if defined(__AVX512F__)
#    include "ops/linear/linear_rows_loops.h"

const rungi_linear_loops rungi_linear_loops_avx512 = LINEAR_TABLE;
#endif
