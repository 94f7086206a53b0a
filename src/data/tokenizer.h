// SPDX-License-Identifier: Apache-2.0
// The inside of tokenizers.
#ifndef RUNGI_DATA_TOKENIZER_H
#define RUNGI_DATA_TOKENIZER_H

#include <stdbool.h>

#include "base/array.h"
#include "rung/text.h"

typedef RUNGI_ARRAY(uint32_t) rungi_ids;

struct rung_tokenizer {
    int64_t count;
    rung_status (*encode)(const rung_tokenizer *tokenizer, const char *text, size_t size,
                          rungi_ids *ids);
    void (*destroy)(rung_tokenizer *tokenizer);
};

rung_status rungi_tokenizer_gpt2(const char *vocabulary, const char *merges,
                                 rung_tokenizer **tokenizer_out);

// Takes the character at *at (before `end`) and moves behind it; -1 where the bytes are not UTF-8
// (RFC 3629).
int32_t rungi_utf8_take(const char **at, const char *end);
// Writes a character as UTF-8 (up to 4 bytes); returns how many.
int rungi_utf8_put(int32_t character, char out[4]);

// Calls `fn` for each member of a JSON object of text -> whole number, of at most `most` members.
// Errors: RUNG_FORMAT naming the file, those of `fn`.
typedef rung_status (*rungi_vocabulary_fn)(void *user, const char *token, size_t size, int64_t id);
rung_status rungi_vocabulary_load(const char *path, int64_t most, rungi_vocabulary_fn fn,
                                  void *user);

#endif
