// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli; RFC 3720 appendix B.4), the checksum of TensorFlow's record files.
#ifndef RUNGI_FORMATS_CRC32C_H
#define RUNGI_FORMATS_CRC32C_H

#include <stddef.h>
#include <stdint.h>

// Continues `crc` (0 at the start) over `size` bytes.
uint32_t rungi_crc32c(uint32_t crc, const void *data, size_t size);

// The form in which record files store the checksum of some bytes, so that a checksum over data
// that hold checksums stays a good one.
uint32_t rungi_crc32c_masked(const void *data, size_t size);

// The implementations, for the tests. The second needs SSE4.2.
uint32_t rungi_crc32c_table(uint32_t crc, const void *data, size_t size);
#if defined(__x86_64__)
uint32_t rungi_crc32c_sse42(uint32_t crc, const void *data, size_t size);
#endif

#endif
