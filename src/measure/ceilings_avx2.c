// SPDX-License-Identifier: Apache-2.0
#include "measure/ceilings.h"

#if defined(__AVX2__)
#    include <immintrin.h>
#    define FMA_NAME rungi_fma_avx2
#    define FMA_LANES 8
#    define FMA_STEP(a, x, y) (fma_vector) _mm256_fmadd_ps((__m256)(a), (__m256)(x), (__m256)(y))
#    include "measure/fma_loop.h"
#endif
