// SPDX-License-Identifier: Apache-2.0
#include "data/words.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

void rungi_words_fini(rungi_words *w)
{
    rungi_string_fini(&w->bytes);
    rungi_array_fini(&w->list);
    free(w->slots);
    *w = (rungi_words){0};
}

// The slot of the word: its own, or the free one where it belongs.
static size_t slot_of(const rungi_words *w, const char *word, size_t size)
{
    size_t at = XXH3_64bits(word, size) & (w->slot_count - 1);
    for (; w->slots[at]; at = (at + 1) & (w->slot_count - 1)) {
        const rungi_word *known = &w->list.data[w->slots[at] - 1];
        if (known->size == size && memcmp(w->bytes.data + known->begin, word, size) == 0)
            break;
    }
    return at;
}

int64_t rungi_words_find(const rungi_words *w, const char *word, size_t size)
{
    return w->slot_count ? (int64_t)w->slots[slot_of(w, word, size)] - 1 : -1;
}

// Half of the slots stay free.
static bool make_room(rungi_words *w)
{
    if (w->list.count * 2 < w->slot_count)
        return true;
    if (w->list.count >= INT32_MAX)
        return false;
    size_t count = w->slot_count ? w->slot_count * 2 : 1024;
    uint32_t *slots = calloc(count, sizeof *slots);
    if (!slots)
        return false;
    free(w->slots);
    w->slots = slots;
    w->slot_count = count;
    for (size_t i = 0; i < w->list.count; i++) {
        const rungi_word *word = &w->list.data[i];
        slots[slot_of(w, w->bytes.data + word->begin, word->size)] = (uint32_t)i + 1;
    }
    return true;
}

int64_t rungi_words_add(rungi_words *w, const char *word, size_t size)
{
    if (!make_room(w))
        return -1;
    size_t at = slot_of(w, word, size);
    if (w->slots[at])
        return (int64_t)w->slots[at] - 1;
    rungi_word added = {.begin = w->bytes.size, .size = size};
    rungi_string_append(&w->bytes, word, size);
    rungi_string_append(&w->bytes, "", 1);
    if (w->bytes.failed || !rungi_array_push(&w->list, added))
        return -1;
    w->slots[at] = (uint32_t)w->list.count;
    return (int64_t)w->list.count - 1;
}

const char *rungi_words_text(const rungi_words *w, int64_t number)
{
    return w->bytes.data + w->list.data[number].begin;
}
