// SPDX-License-Identifier: Apache-2.0
#include "formats/crc32c.h"

// Entry i is the remainder of the half byte i for the reflected polynomial 0x1EDC6F41.
static const uint32_t nibbles[16] = {
    0x00000000, 0x105EC76F, 0x20BD8EDE, 0x30E349B1, 0x417B1DBC, 0x5125DAD3, 0x61C69362, 0x7198540D,
    0x82F63B78, 0x92A8FC17, 0xA24BB5A6, 0xB21572C9, 0xC38D26C4, 0xD3D3E1AB, 0xE330A81A, 0xF36E6F75,
};

uint32_t rungi_crc32c_table(uint32_t crc, const void *data, size_t size)
{
    const unsigned char *at = data;
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= at[i];
        crc = crc >> 4 ^ nibbles[crc & 15];
        crc = crc >> 4 ^ nibbles[crc & 15];
    }
    return ~crc;
}

uint32_t rungi_crc32c(uint32_t crc, const void *data, size_t size)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("sse4.2"))
        return rungi_crc32c_sse42(crc, data, size);
#endif
    return rungi_crc32c_table(crc, data, size);
}

uint32_t rungi_crc32c_masked(const void *data, size_t size)
{
    uint32_t crc = rungi_crc32c(0, data, size);
    return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}
