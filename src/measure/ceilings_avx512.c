// SPDX-License-Identifier: Apache-2.0
#include "measure/ceilings.h"

#if defined(__AVX512F__)
#    include <immintrin.h>
#    define FMA_NAME rungi_fma_avx512
#    define FMA_LANES 16
#    define FMA_STEP(a, x, y) (fma_vector) _mm512_fmadd_ps((__m512)(a), (__m512)(x), (__m512)(y))
#    include "measure/fma_loop.h"
#endif
