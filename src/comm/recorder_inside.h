// SPDX-License-Identifier: Apache-2.0
// Places in a flight recorder, see recorder.h.
#ifndef RUNGI_COMM_RECORDER_INSIDE_H
#define RUNGI_COMM_RECORDER_INSIDE_H

#include "comm/recorder.h"

enum {
    RECORDER_MAGIC,
    RECORDER_VERSION,
    RECORDER_RANK,
    RECORDER_PID,
    RECORDER_BEGAN,
    RECORDER_BEAT,
    RECORDER_COUNT,
    RECORDER_STATE,
    RECORDER_TO_UNIX,
    RECORDER_SINCE,
    RECORDER_HOST,
    RECORDER_NOTE = RECORDER_HOST + RUNGI_RECORDER_HOST / 8,
    RECORDER_ENTRIES = RECORDER_NOTE + RUNGI_RECORDER_NOTE / 8,
};

enum {
    ENTRY_NUMBER,
    ENTRY_SEQUENCE,
    ENTRY_WHAT,
    ENTRY_BYTES,
    ENTRY_STARTED,
    ENTRY_ENDED,
    ENTRY_LABEL,
    ENTRY_WORDS = ENTRY_LABEL + RUNGI_RECORDER_LABEL / 8,
};

_Static_assert(RECORDER_ENTRIES == 64 && ENTRY_WORDS == 16, "as recorder.h says");

#define RECORDER_MAGIC_TEXT "RUNGCALL"

// A reader that finds the number of an entry unchanged behind its words has read what belongs to
// it.
static inline uint64_t recorder_get(const rungi_word *word)
{
    return atomic_load_explicit(word, memory_order_acquire);
}

static inline void recorder_set(rungi_word *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
}

static inline const rungi_word *recorder_entry(const rungi_word *words, uint64_t number)
{
    return words + RECORDER_ENTRIES + (number - 1) % RUNGI_RECORDER_CALLS * ENTRY_WORDS;
}

// Text in words: `size` bytes (a multiple of 8), always ended by a zero.
void rungi_recorder_put_text(rungi_word *words, size_t size, const char *text);
void rungi_recorder_get_text(const rungi_word *words, size_t size, char *out);

// Ticks since boot at which a process began; 0 when it is gone, -1 when that cannot be told.
// `state_out` (may be NULL): its letter in /proc, such as R, S, T (stopped) or Z (ended).
int64_t rungi_process_began(int64_t pid, char *state_out);

#endif
