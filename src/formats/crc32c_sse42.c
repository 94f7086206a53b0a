// SPDX-License-Identifier: Apache-2.0
// The CRC32 instruction computes this polynomial.
#if defined(__x86_64__)
#    include "formats/crc32c.h"

#    include <nmmintrin.h>
#    include <string.h>

uint32_t rungi_crc32c_sse42(uint32_t crc, const void *data, size_t size)
{
    const unsigned char *at = data;
    uint64_t wide = ~crc;
    for (; size >= 8; size -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        wide = _mm_crc32_u64(wide, word);
    }
    uint32_t narrow = (uint32_t)wide;
    for (; size; size--, at++)
        narrow = _mm_crc32_u8(narrow, *at);
    return ~narrow;
}
#endif
