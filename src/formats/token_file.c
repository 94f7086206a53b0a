// SPDX-License-Identifier: Apache-2.0
#include "formats/token_file.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/file_io.h"

static const struct {
    int32_t magic, version;
    int width;
} kinds[] = {{RUNGI_TOKEN_MAGIC_16, 1, 2}, {RUNGI_TOKEN_MAGIC_32, 7, 4}};
enum { KINDS = sizeof kinds / sizeof *kinds };

// Files of the same family that hold something else.
static const struct {
    int32_t magic;
    const char *what;
} others[] = {{20240326, "a model"},
              {20240522, "an evaluation"},
              {20240328, "a tokenizer"},
              {20240527, "an optimizer's state"}};

static rung_status refuse(const char *path, const int32_t *header)
{
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        RUNG_CHECK(header[0] != others[i].magic, RUNG_FORMAT,
                   "%s: not a file of tokens but %s of llm.c", path, others[i].what);
    for (int k = 0; k < KINDS; k++)
        RUNG_CHECK(header[0] != kinds[k].magic, RUNG_UNSUPPORTED,
                   "%s: a file of tokens of version %" PRId32 ", rung reads %" PRId32, path,
                   header[1], kinds[k].version);
    return RUNG_FAIL(RUNG_FORMAT,
                     "%s: not a file of tokens: begins with %" PRId32 ", expected %d or %d", path,
                     header[0], RUNGI_TOKEN_MAGIC_16, RUNGI_TOKEN_MAGIC_32);
}

rung_status rungi_token_file_check(int fd, const char *path, uint64_t size,
                                   rungi_token_file *file_out)
{
    int32_t header[3] = {0};
    RUNG_CHECK(size >= RUNGI_TOKEN_HEADER, RUNG_FORMAT,
               "%s: not a file of tokens: %" PRIu64 " bytes, its header alone has %d", path, size,
               RUNGI_TOKEN_HEADER);
    RUNG_TRY(rungi_io_read_at(fd, path, 0, header, sizeof header));
    int kind = 0;
    while (kind < KINDS && (header[0] != kinds[kind].magic || header[1] != kinds[kind].version))
        kind++;
    if (kind == KINDS)
        return refuse(path, header);
    RUNG_CHECK(header[2] >= 0, RUNG_FORMAT, "%s: a file of %" PRId32 " tokens", path, header[2]);
    uint64_t expected = RUNGI_TOKEN_HEADER + (uint64_t)header[2] * (uint64_t)kinds[kind].width;
    RUNG_CHECK(size >= expected, RUNG_CORRUPT,
               "%s: cut: expected %" PRIu64 " bytes for %" PRId32 " tokens, found %" PRIu64, path,
               expected, header[2], size);
    RUNG_CHECK(size == expected, RUNG_CORRUPT,
               "%s: too long: expected %" PRIu64 " bytes for %" PRId32 " tokens, found %" PRIu64,
               path, expected, header[2], size);
    *file_out = (rungi_token_file){header[2], kinds[kind].width};
    return RUNG_OK;
}

void rungi_token_file_header(int32_t header[RUNGI_TOKEN_HEADER / 4], int64_t count, int width)
{
    memset(header, 0, RUNGI_TOKEN_HEADER);
    const int kind = width == 2 ? 0 : 1;
    header[0] = kinds[kind].magic;
    header[1] = kinds[kind].version;
    header[2] = (int32_t)count;
}
