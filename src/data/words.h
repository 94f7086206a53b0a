// SPDX-License-Identifier: Apache-2.0
// A set of byte strings with a number each, in the order in which they came.
#ifndef RUNGI_DATA_WORDS_H
#define RUNGI_DATA_WORDS_H

#include "base/array.h"
#include "base/text.h"

typedef struct rungi_word {
    size_t begin, size; // in `bytes`; a NUL follows
    int64_t count;      // how often it was counted
} rungi_word;

// Starts from {0}.
typedef struct rungi_words {
    rungi_string bytes;
    RUNGI_ARRAY(rungi_word) list;
    uint32_t *slots;   // number + 1 of a word; 0: free
    size_t slot_count; // a power of two, or 0
} rungi_words;

void rungi_words_fini(rungi_words *words);

// The number of a word; -1: not there.
int64_t rungi_words_find(const rungi_words *words, const char *word, size_t size);
// The same, and adds it where it is not there, with a count of 0. -1: no memory.
int64_t rungi_words_add(rungi_words *words, const char *word, size_t size);
// The word of a number. Borrowed until the next add.
const char *rungi_words_text(const rungi_words *words, int64_t number);

#endif
