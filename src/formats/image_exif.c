// SPDX-License-Identifier: Apache-2.0
// The one entry of EXIF that matters here (CIPA DC-008, 4.6.4: tag 0x112, SHORT, count 1).
#include "formats/image_file.h"

enum { ORIENTATION = 0x112, TYPE_SHORT = 3, ENTRY = 12 };

typedef struct tiff {
    const uint8_t *data;
    bool big;
} tiff;

static uint32_t take(const tiff *t, size_t at, int bytes)
{
    uint32_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint32_t)t->data[at + (size_t)i] << 8 * (t->big ? bytes - 1 - i : i);
    return value;
}

int rungi_exif_orientation(const uint8_t *data, size_t size)
{
    if (size < 8 || (data[0] != 'I' && data[0] != 'M') || data[0] != data[1])
        return -1;
    tiff t = {data, data[0] == 'M'};
    size_t at = take(&t, 4, 4);
    if (take(&t, 2, 2) != 42 || at > size || size - at < 2)
        return -1;
    size_t entries = take(&t, at, 2);
    at += 2;
    for (; entries > 0; entries--, at += ENTRY) {
        if (size - at < ENTRY)
            return -1;
        if (take(&t, at, 2) != ORIENTATION)
            continue;
        uint32_t value = take(&t, at + 8, 2);
        bool good = take(&t, at + 2, 2) == TYPE_SHORT && take(&t, at + 4, 4) == 1;
        return good && value >= 1 && value <= 8 ? (int)value : -1;
    }
    return 0;
}
