// SPDX-License-Identifier: Apache-2.0
// Text as data: files of tokens, examples line by line with a vocabulary, and tokenizers.
#ifndef RUNG_TEXT_H
#define RUNG_TEXT_H

#include "rung/data.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---------------------------------------------------------------------------------------------
// Files of tokens
// ---------------------------------------------------------------------------------------------

// llm.c's .bin files (https://github.com/karpathy/llm.c): 256 int32 of header (20240520, 1, the
// number of tokens; uint16 each: GPT-2), or (20240801, 7, ...; uint32 each: Llama 3), then the
// tokens.
typedef struct rung_tokens_options {
    const char *path; // a file, a pattern of files with * and ? in its last part, or a folder (all
                      // files .bin); in the order of their names
    int64_t length;   // T: tokens of a sample; 0: 1024
    int64_t vocabulary; // tokens must be below; 0: not checked
} rung_tokens_options;

// Windows of T + 1 tokens, each T behind the one before: within a file every token but the first is
// predicted once, and what is left at its end (fewer than T) is told in the log. No window goes
// over the end of a file. Fields: "tokens" i64 [T], and "label" i64 [T], the same one token on.
// Samples are read from the files when they are asked for.
// Errors: RUNG_NOT_FOUND, RUNG_IO; RUNG_FORMAT for another kind of file; RUNG_CORRUPT when one is
// cut or too long; RUNG_DATA when none holds a window, with both numbers.
RUNG_API rung_status rung_source_tokens(rung_context *context, const rung_tokens_options *options,
                                        rung_source **source_out);

// ---------------------------------------------------------------------------------------------
// Examples line by line
// ---------------------------------------------------------------------------------------------

typedef struct rung_text_options {
    // A folder with a file for each class (reviews.neg, reviews.pos: named by what follows the last
    // dot, or by the whole where that is the same), or a .csv or .tsv file.
    const char *path;
    int64_t length;           // ids of a sample; 0: 64
    const char *vocabulary;   // a file to take it from (see rung_source_text_save); NULL: built
    int64_t vocabulary_most;  // ids of a built one at most, with the two special ones; 0: no limit
    int64_t vocabulary_least; // words that come less often are left out; default 1
    bool lower;               // A to Z are taken as a to z
} rung_text_options;

// One example a line: words, which are what blanks separate. Of a .csv or .tsv file the columns are
// called text and label in a header, or come in this order without one; labels are numbers, or
// names in the order of their bytes. Blank lines are left out, and counted in the log.
//
// Id 0 is <pad>, 1 is <unk>; then come the words, the more frequent first, equal ones in the order
// of their bytes. Fields: "tokens" i64 [length]: the first `length` words, padded with 0; "label"
// i64 []; "length" i64 []: how many are words. Everything lies in memory.
// Errors: RUNG_NOT_FOUND, RUNG_IO; RUNG_FORMAT, RUNG_DATA naming the line.
RUNG_API rung_status rung_source_text(rung_context *context, const rung_text_options *options,
                                      rung_source **source_out);

// The number of ids of a text source, and the word of one ("<pad>", "<unk>", ...; borrowed).
// -1 and NULL for other sources and ids.
RUNG_API int64_t rung_source_text_ids(const rung_source *source);
RUNG_API const char *rung_source_text_word(const rung_source *source, int64_t id);

// Writes the vocabulary: a word a line, in the order of ids; the file appears whole or not at all.
// Errors: RUNG_INVALID for another source, RUNG_IO.
RUNG_API rung_status rung_source_text_save(const rung_source *source, const char *path);

// ---------------------------------------------------------------------------------------------
// Tokenizers
// ---------------------------------------------------------------------------------------------

typedef struct rung_tokenizer rung_tokenizer;

// "byte": each byte is its value. "char": each character of UTF-8 by `vocabulary`, a JSON object
// {"a": 0, ...}. "gpt2": byte pair encoding with GPT-2's `vocabulary` (vocab.json) and `merges`
// (merges.txt) and its way to split text; any pair of such files serves. The caller owns the
// result. Errors: RUNG_CONFIG for an unknown kind or missing files; RUNG_NOT_FOUND, RUNG_IO,
// RUNG_FORMAT naming file and line.
RUNG_API rung_status rung_tokenizer_create(const char *kind, const char *vocabulary,
                                           const char *merges, rung_tokenizer **tokenizer_out);
// A "char" tokenizer of the characters of a text, in the order of their numbers.
RUNG_API rung_status rung_tokenizer_of_text(const char *text, size_t size,
                                            rung_tokenizer **tokenizer_out);
RUNG_API void rung_tokenizer_destroy(rung_tokenizer **tokenizer);

// Ids are 0 ... count - 1.
RUNG_API int64_t rung_tokenizer_count(const rung_tokenizer *tokenizer);
// Encodes a text. The caller frees *ids_out with free(). Errors: RUNG_DATA for text that is not
// UTF-8 (char, gpt2) or a character without an id, with its place.
RUNG_API rung_status rung_tokenizer_encode(const rung_tokenizer *tokenizer, const char *text,
                                           size_t size, uint32_t **ids_out, size_t *count_out);
// Writes the vocabulary of a "char" tokenizer as JSON. Errors: RUNG_INVALID for others, RUNG_IO.
RUNG_API rung_status rung_tokenizer_save(const rung_tokenizer *tokenizer, const char *path);

#ifdef __cplusplus
}
#endif

#endif
