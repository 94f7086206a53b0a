// SPDX-License-Identifier: Apache-2.0
// Converting a text to a file of tokens (llm.c's .bin), by characters, bytes or GPT-2's encoding.
// The vocabulary of characters is written beside it, TO.vocab.json, unless it was given.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fs.h"
#include "data/convert.h"
#include "data/regrow.h"
#include "formats/token_file.h"
#include "rung/text.h"

enum { PIECE = 1 << 16 }; // tokens

static rung_status make_tokenizer(const rung_convert_options *o, const rungi_mapping *text,
                                  rung_tokenizer **out)
{
    RUNG_CHECK(o->tokenizer, RUNG_INVALID,
               "%s: how is text to become tokens? Say the tokenizer: char, byte or gpt2", o->to);
    if (strcmp(o->tokenizer, "char") != 0 || o->vocabulary)
        return rung_tokenizer_create(o->tokenizer, o->vocabulary, o->merges, out);
    if (rung_tokenizer_of_text((const char *)text->data, text->size, out) != RUNG_OK)
        return rungi_fail_prefix("%s", o->from);
    char path[RUNGI_PATH_MAX];
    rung_status status = rungi_path_format(path, "%s.vocab.json", o->to);
    if (status == RUNG_OK)
        status = rung_tokenizer_save(*out, path);
    if (status != RUNG_OK)
        rung_tokenizer_destroy(out);
    return status;
}

static rung_status write_ids(rungi_regrow *grow, const rung_convert_options *o, const uint32_t *ids,
                             size_t count, int width)
{
    int32_t header[RUNGI_TOKEN_HEADER / 4];
    uint16_t narrow[PIECE];
    rungi_token_file_header(header, (int64_t)count, width);
    RUNG_TRY(rungi_regrow_write(grow, header, sizeof header));
    for (size_t at = 0; at < count; at += PIECE) {
        size_t n = count - at < PIECE ? count - at : PIECE;
        for (size_t i = 0; i < n && width == 2; i++)
            narrow[i] = (uint16_t)ids[at + i];
        RUNG_TRY(rungi_regrow_write(grow, width == 2 ? (const void *)narrow : ids + at,
                                    n * (size_t)width));
        if (o->progress &&
            !o->progress(o->progress_user, "writing", (int64_t)(at + n), (int64_t)count))
            return RUNG_FAIL(RUNG_CANCELLED, "%s: stopped while writing", o->to);
    }
    return RUNG_OK;
}

static rung_status write_tokens(const rung_convert_options *o, const uint32_t *ids, size_t count,
                                int width, uint64_t *bytes_out)
{
    char path[RUNGI_PATH_MAX];
    rungi_regrow grow;
    RUNG_CHECK(count > 0 && count <= INT32_MAX, RUNG_DATA,
               "%s: %zu tokens, a file can hold 1 to %d: cut the text into several", o->from, count,
               INT32_MAX);
    RUNG_TRY(rungi_path_format(path, "%s.partial", o->to));
    RUNG_TRY(rungi_regrow_open(&grow, path, o->restart));
    rung_status status = write_ids(&grow, o, ids, count, width);
    *bytes_out = grow.at;
    if (status == RUNG_OK)
        status = rungi_regrow_finish(&grow);
    else
        rungi_regrow_close(&grow);
    RUNG_TRY(status);
    RUNG_TRY(rungi_io_rename(path, o->to, NULL));
    char *folder = rungi_path_folder(o->to);
    RUNG_CHECK(folder, RUNG_NO_MEMORY, "%s: no memory for a path", o->to);
    status = rungi_io_sync_folder(folder, NULL);
    free(folder);
    return status;
}

rung_status rungi_convert_tokens(const rung_convert_options *o, rung_convert_report *report)
{
    rungi_mapping text = {0};
    rung_tokenizer *tokenizer = NULL;
    uint32_t *ids = NULL;
    size_t count = 0;
    rung_status status;
    RUNG_TRY(rungi_mapping_init(&text, o->from));
    RUNG_TRY_GOTO(done, make_tokenizer(o, &text, &tokenizer));
    status = rung_tokenizer_encode(tokenizer, (const char *)text.data, text.size, &ids, &count);
    if (status != RUNG_OK) {
        rungi_fail_prefix("%s", o->from);
        goto done;
    }
    RUNG_TRY_GOTO(done, write_tokens(o, ids, count,
                                     rung_tokenizer_count(tokenizer) <= UINT16_MAX + 1 ? 2 : 4,
                                     &report->bytes));
    report->samples = (int64_t)count;
    report->vocabulary = rung_tokenizer_count(tokenizer);
done:
    free(ids);
    rung_tokenizer_destroy(&tokenizer);
    rungi_mapping_fini(&text);
    return status;
}
