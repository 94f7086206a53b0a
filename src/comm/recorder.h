// SPDX-License-Identifier: Apache-2.0
// The flight recorder: what a rank is doing, and its last 64 calls, in memory that others may read
// at any time: its peers when they miss it, and anybody after its death, when it lies in a file.
//
// The file rank-N.calls (N: the rank) is RUNGI_RECORDER_WORDS words of 64 bits in the machine's
// byte order, mapped and written in place; nothing of it needs to be flushed by the process that
// writes. Texts are bytes, padded with zeros.
//
//   word      0  "RUNGCALL"                       word   1  version (1) | entries (64) << 32
//   word      2  rank | size << 32                word   3  process id
//   word      4  when the process began, in clock ticks since boot (field 22 of /proc/PID/stat)
//   word      5  heartbeat: CLOCK_MONOTONIC in nanoseconds, renewed by the process (0: none)
//   word      6  calls so far                     word   7  rungi_rank_state
//   word      8  nanoseconds to add to times of calls for those since 1970
//   word      9  since when the state is as it is (CLOCK_MONOTONIC)
//   words 10-17  name of the machine (64 bytes)
//   words 18-63  what the rank is busy with, or why it failed (368 bytes)
//   words 64...  entries of 16 words, entry (n - 1) % 64 is that of call n:
//       0  n, 0 while the entry is written            1  sequence number
//       2  kind | dtype << 8 | op << 16 | state << 24 | (peer + 1) << 32 (0: none)
//       3  bytes      4  when it began      5  when it ended, 0 before     6-15  label (80 bytes)
#ifndef RUNGI_COMM_RECORDER_H
#define RUNGI_COMM_RECORDER_H

#include <stdatomic.h>

#include "comm/comm.h"

enum {
    RUNGI_RECORDER_CALLS = 64,
    RUNGI_RECORDER_WORDS = 64 + 16 * RUNGI_RECORDER_CALLS,
    RUNGI_RECORDER_LABEL = 80,
    RUNGI_RECORDER_NOTE = 368,
    RUNGI_RECORDER_HOST = 64,
};

typedef _Atomic uint64_t rungi_word;

typedef enum rungi_comm_kind {
    RUNGI_COMM_NONE,
    RUNGI_COMM_BARRIER,
    RUNGI_COMM_BROADCAST,
    RUNGI_COMM_ALL_REDUCE,
    RUNGI_COMM_REDUCE_SCATTER,
    RUNGI_COMM_ALL_GATHER,
    RUNGI_COMM_GATHER,
    RUNGI_COMM_SEND,
    RUNGI_COMM_RECEIVE,
    RUNGI_COMM_ALLOC,
    RUNGI_COMM_AWAIT, // rungi_comm_await
    RUNGI_COMM_REDUCE,
} rungi_comm_kind;

typedef enum rungi_call_state {
    RUNGI_CALL_STARTED, // under way
    RUNGI_CALL_WAITING, // the rank waits for its end
    RUNGI_CALL_DONE,
    RUNGI_CALL_FAILED,
} rungi_call_state;

typedef enum rungi_rank_state {
    RUNGI_RANK_NONE,
    RUNGI_RANK_RUNNING,
    RUNGI_RANK_BUSY, // at work of its own that takes long
    RUNGI_RANK_FAILED,
    RUNGI_RANK_LEFT,
} rungi_rank_state;

// What is called; `bytes` are those of one rank's data.
typedef struct rungi_comm_what {
    rungi_comm_kind kind;
    rung_dtype dtype;
    rungi_comm_op op;
    int peer; // root of a broadcast, the other rank of send and receive; -1
    uint64_t bytes;
    uint64_t sequence;
    const char *label;
} rungi_comm_what;

// Kind, dtype, op and peer in one word, and back (label, bytes and sequence are left alone).
uint64_t rungi_comm_pack(const rungi_comm_what *what);
void rungi_comm_unpack(uint64_t word, rungi_comm_what *what);

// `all-reduce #17 "gradients" of 1024 f32 (sum)`, into `out`, which is returned.
enum { RUNGI_COMM_TEXT = 192 };
char *rungi_comm_text(const rungi_comm_what *what, char *out, size_t size);

// ---- writing ----------------------------------------------------------------------------------

typedef struct rungi_recorder {
    rungi_word *words; // RUNGI_RECORDER_WORDS
    enum { RUNGI_RECORDER_HEAP, RUNGI_RECORDER_FILE, RUNGI_RECORDER_BORROWED } place;
} rungi_recorder;

// In the file folder/rank-N.calls (the folder is made), or in memory where `folder` is NULL: in
// `memory` (zeroed, RUNGI_RECORDER_WORDS, borrowed), or of its own where that is NULL, too.
rung_status rungi_recorder_init(rungi_recorder *recorder, const char *folder, rungi_word *memory,
                                int rank, int size, const rung_clock *clock);
// Another rank's recorder, to be read: in its file, or in `memory`.
rung_status rungi_recorder_open(rungi_recorder *recorder, const char *folder, rungi_word *memory,
                                int rank);
void rungi_recorder_fini(rungi_recorder *recorder);

// Writes down a call that begins; gives its number, for rungi_recorder_change.
uint64_t rungi_recorder_begin(rungi_recorder *recorder, const rungi_comm_what *what,
                              rungi_call_state state, int64_t now);
// `ended` 0: not yet.
void rungi_recorder_change(rungi_recorder *recorder, uint64_t number, rungi_call_state state,
                           int64_t ended);
// `note`: what the rank is busy with, why it failed; NULL for none.
void rungi_recorder_state(rungi_recorder *recorder, rungi_rank_state state, const char *note);
void rungi_recorder_beat(rungi_recorder *recorder);

// ---- reading ----------------------------------------------------------------------------------

typedef struct rungi_recorded_call {
    uint64_t number;      // among the calls of its rank, from 1
    rungi_comm_what what; // the label points into this record
    rungi_call_state state;
    int64_t started, ended; // nanoseconds of the context's clock; ended 0: not yet
    char label[RUNGI_RECORDER_LABEL];
} rungi_recorded_call;

typedef struct rungi_record {
    int rank, size;
    int64_t pid, process_began; // ticks since boot
    int64_t heartbeat;          // CLOCK_MONOTONIC; 0: none
    int64_t to_unix;            // nanoseconds to add to the times of calls
    rungi_rank_state state;
    int64_t state_since;                             // CLOCK_MONOTONIC
    char host[RUNGI_RECORDER_HOST];                  // machine
    char note[RUNGI_RECORDER_NOTE];                  // see rungi_rank_state
    int count;                                       // entries of `calls`
    rungi_recorded_call calls[RUNGI_RECORDER_CALLS]; // oldest first
} rungi_record;

// Reads rank-N.calls of `folder`. Errors: those of rungi_fs_read; RUNG_FORMAT.
rung_status rungi_recorder_read(const char *folder, int rank, rungi_record *record_out);
// The same of a recorder that its rank is writing: an entry that changes meanwhile is left out.
void rungi_recorder_copy(const rungi_word *words, rungi_record *record_out);

// The state of the rank.
rungi_rank_state rungi_recorder_state_of(const rungi_word *words);

// One line for a call, `all-reduce #17 "gradients" of 1024 f32 (sum): done in 1.2 ms` or
// `...: waiting`, into `out`, which is returned.
char *rungi_recorder_line(const rungi_recorded_call *call, char *out, size_t size);
// The last call that was begun, as a line; "nothing yet" where there is none.
char *rungi_recorder_last(const rungi_word *words, char *out, size_t size);

#endif
