// SPDX-License-Identifier: Apache-2.0
// Any bytes as a file of tokens: windows that lie within it, or a refusal; and as a text for the
// tokenizers: no more tokens than bytes, or a refusal.
#include "fuzz.h"
#include "rung/text.h"

static rung_context *context; // for notices, which go nowhere

static void check_windows(const char *path)
{
    rung_source *source;
    void *worker;
    int64_t room[2][3];
    rung_status status =
        rung_source_tokens(context, &(rung_tokens_options){.path = path, .length = 3}, &source);
    if (status != RUNG_OK) {
        fuzz_check_refusal(status);
        return;
    }
    FUZZ_CHECK(source->open(source->self, 0, &worker) == RUNG_OK);
    for (int64_t i = 0; i < source->count; i++) {
        rung_view views[] = {{RUNG_I64, RUNG_SHAPE(3), room[0]},
                             {RUNG_I64, RUNG_SHAPE(3), room[1]}};
        FUZZ_CHECK(source->read(source->self, worker, &(rung_sample){.index = i}, views) ==
                   RUNG_OK);
        FUZZ_CHECK(room[0][1] == room[1][0] && room[0][0] >= 0);
    }
    source->close(source->self, worker);
    rung_source_destroy(&source);
}

static void check_text(const rung_tokenizer *t, const uint8_t *data, size_t size)
{
    uint32_t *ids;
    size_t count;
    rung_status status = rung_tokenizer_encode(t, (const char *)data, size, &ids, &count);
    if (status != RUNG_OK) {
        fuzz_check_refusal(status);
        return;
    }
    FUZZ_CHECK(count <= size);
    for (size_t i = 0; i < count; i++)
        FUZZ_CHECK(ids[i] < rung_tokenizer_count(t));
    free(ids);
}

// Any bytes as vocab.json and merges.txt.
static void check_files(const char *path)
{
    rung_tokenizer *t;
    static const char *const kinds[] = {"gpt2", "char"};
    for (int k = 0; k < 2; k++) {
        rung_status status = rung_tokenizer_create(kinds[k], path, path, &t);
        if (status != RUNG_OK)
            fuzz_check_refusal(status);
        else
            rung_tokenizer_destroy(&t);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    int fd = fuzz_file(data, size, path);
    if (!context)
        FUZZ_CHECK(rung_context_create(NULL, &context) == RUNG_OK);
    rung_tokenizer *t;
    check_windows(path);
    check_files(path);
    FUZZ_CHECK(rung_tokenizer_create("byte", NULL, NULL, &t) == RUNG_OK);
    check_text(t, data, size);
    rung_tokenizer_destroy(&t);
    if (rung_tokenizer_of_text((const char *)data, size, &t) == RUNG_OK) {
        check_text(t, data, size);
        rung_tokenizer_destroy(&t);
    }
    close(fd);
    return 0;
}
