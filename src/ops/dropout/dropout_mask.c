// SPDX-License-Identifier: Apache-2.0
// Masks: random bits in plain order, and their rearrangement to a layout's order.
#include <string.h>

#include "ops/dropout/dropout.h"

void rungi_dropout_fill(const rungi_dropout_loops *loops, const rungi_dropout_source *s,
                        int64_t sample, int64_t begin, int64_t count, uint64_t *words)
{
    int64_t group = begin / 64, shift = begin % 64, n = (count + 63) / 64;
    uint64_t next;
    loops->bits(s, sample, group, n, words);
    if (!shift)
        return;
    loops->bits(s, sample, group + n, 1, &next);
    for (int64_t i = 0; i < n; i++)
        words[i] = words[i] >> shift | (i + 1 < n ? words[i + 1] : next) << (64 - shift);
}

// Eight bits from bit `at` on.
static uint64_t get8(const uint8_t *bits, int64_t at)
{
    return (uint8_t)((bits[at / 8] | bits[at / 8 + 1] << 8) >> at % 8);
}

static void or8(uint8_t *bits, int64_t at, uint64_t value)
{
    uint64_t shifted = (value & 0xFF) << at % 8;
    bits[at / 8] |= (uint8_t)shifted;
    bits[at / 8 + 1] |= (uint8_t)(shifted >> 8);
}

// Transposes a matrix of 8 rows (bytes) of 8 bits (Warren, Hacker's Delight, 7-3).
static uint64_t transpose8(uint64_t m)
{
    uint64_t t = (m ^ (m >> 7)) & 0x00AA00AA00AA00AA;
    m ^= t ^ (t << 7);
    t = (m ^ (m >> 14)) & 0x0000CCCC0000CCCC;
    m ^= t ^ (t << 14);
    t = (m ^ (m >> 28)) & 0x00000000F0F0F0F0;
    return m ^ t ^ (t << 28);
}

// Eight channels by eight pixels at a time. Words are read as bytes: all machines that rung runs on
// are little-endian.
void rungi_dropout_arrange(const uint64_t *from, uint64_t *to, int64_t channels, int64_t pixels,
                           rungi_layout layout)
{
    const uint8_t *source = (const uint8_t *)from;
    uint8_t *target = (uint8_t *)to;
    bool last = layout == RUNGI_CHANNELS_LAST;
    int64_t block = last ? channels : layout == RUNGI_BLOCKED8 ? 8 : 16;
    memset(target, 0, (size_t)((channels * pixels + 63) / 64 + 1) * 8);
    for (int64_t c = 0; c < channels; c += 8) {
        int64_t n = channels - c < 8 ? channels - c : 8;
        int64_t base = c / block * block * pixels + c % block;
        for (int64_t p = 0; p < pixels; p += 8) {
            uint64_t m = 0;
            for (int64_t k = 0; k < n; k++)
                m |= get8(source, (c + k) * pixels + p) << 8 * k;
            m = transpose8(m);
            for (int64_t k = 0; k < 8 && p + k < pixels; k++)
                or8(target, base + (p + k) * block, m >> 8 * k);
        }
    }
}
