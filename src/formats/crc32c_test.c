// SPDX-License-Identifier: Apache-2.0
#include "testing.h"

#include "base/philox.h"
#include "formats/crc32c.h"

// RFC 3720, appendix B.4, and the check value of the catalogue of CRC algorithms.
static void known_answers(void **state)
{
    (void)state;
    uint8_t zeros[32] = {0}, ones[32], up[32], down[32];
    for (int i = 0; i < 32; i++) {
        ones[i] = 0xFF;
        up[i] = (uint8_t)i;
        down[i] = (uint8_t)(31 - i);
    }
    static const uint8_t read_pdu[48] = {
        0x01, 0xc0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00,
        0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x18, 0x28, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    };
    const struct {
        const void *data;
        size_t size;
        uint32_t crc;
    } cases[] = {
        {zeros, 32, 0x8a9136aa},
        {ones, 32, 0x62a8ab43},
        {up, 32, 0x46dd794e},
        {down, 32, 0x113fdb5c},
        {read_pdu, 48, 0xd9963a56},
        {"123456789", 9, 0xe3069283},
        {"", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(rungi_crc32c(0, cases[i].data, cases[i].size), cases[i].crc);
        assert_int_equal(rungi_crc32c_table(0, cases[i].data, cases[i].size), cases[i].crc);
        // In two parts.
        size_t half = cases[i].size / 2;
        uint32_t first = rungi_crc32c(0, cases[i].data, half);
        assert_int_equal(
            rungi_crc32c(first, (const char *)cases[i].data + half, cases[i].size - half),
            cases[i].crc);
    }
}

static void implementations_agree(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("sse4.2"))
        skip();
    static uint8_t data[300];
    rungi_random random = rungi_random_make(4, RUNGI_PURPOSE_TEST, 0, 0, 0);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)rungi_random_u64(&random, i);
    for (size_t begin = 0; begin < 9; begin++)
        for (size_t size = 0; size + begin < sizeof data; size++)
            assert_int_equal(rungi_crc32c_sse42(7, data + begin, size),
                             rungi_crc32c_table(7, data + begin, size));
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(implementations_agree),
    };
    return RUN_TESTS(tests);
}
