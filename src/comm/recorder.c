// SPDX-License-Identifier: Apache-2.0
#include "comm/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/context.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/text.h"
#include "comm/recorder_inside.h"

// ---- what is called ---------------------------------------------------------------------------

uint64_t rungi_comm_pack(const rungi_comm_what *what)
{
    return (uint64_t)what->kind | (uint64_t)what->dtype << 8 | (uint64_t)what->op << 16 |
           (uint64_t)(what->peer + 1) << 32;
}

void rungi_comm_unpack(uint64_t word, rungi_comm_what *what)
{
    what->kind = (rungi_comm_kind)(word & 0xFF);
    what->dtype = (rung_dtype)(word >> 8 & 0xFF);
    what->op = (rungi_comm_op)(word >> 16 & 0xFF);
    what->peer = (int)(word >> 32) - 1;
}

static const char *const kinds[] = {
    [RUNGI_COMM_NONE] = "nothing",
    [RUNGI_COMM_BARRIER] = "barrier",
    [RUNGI_COMM_BROADCAST] = "broadcast",
    [RUNGI_COMM_ALL_REDUCE] = "all-reduce",
    [RUNGI_COMM_REDUCE_SCATTER] = "reduce-scatter",
    [RUNGI_COMM_ALL_GATHER] = "all-gather",
    [RUNGI_COMM_GATHER] = "gather",
    [RUNGI_COMM_SEND] = "send",
    [RUNGI_COMM_RECEIVE] = "receive",
    [RUNGI_COMM_ALLOC] = "allocation",
    [RUNGI_COMM_AWAIT] = "wait",
    [RUNGI_COMM_REDUCE] = "reduce",
};

char *rungi_comm_text(const rungi_comm_what *what, char *out, size_t size)
{
    static const char *const ops[] = {"sum", "min", "max"};
    size_t kind = (size_t)what->kind < sizeof kinds / sizeof *kinds ? what->kind : RUNGI_COMM_NONE;
    char more[64] = "";
    size_t element = rung_dtype_size(what->dtype);
    unsigned long long bytes = what->bytes, count = element ? bytes / element : 0;
    const char *dtype = rung_dtype_name(what->dtype);
    switch (kind) {
    case RUNGI_COMM_BROADCAST:
    case RUNGI_COMM_RECEIVE:
        snprintf(more, sizeof more, " of %llu bytes from rank %d", bytes, what->peer);
        break;
    case RUNGI_COMM_SEND:
        snprintf(more, sizeof more, " of %llu bytes to rank %d", bytes, what->peer);
        break;
    case RUNGI_COMM_ALL_REDUCE:
    case RUNGI_COMM_REDUCE_SCATTER:
        snprintf(more, sizeof more, " of %llu %s (%s)", count, dtype,
                 what->op <= RUNGI_COMM_MAX ? ops[what->op] : "?");
        break;
    case RUNGI_COMM_REDUCE:
        snprintf(more, sizeof more, " of %llu %s (%s) to rank %d", count, dtype,
                 what->op <= RUNGI_COMM_MAX ? ops[what->op] : "?", what->peer);
        break;
    case RUNGI_COMM_ALL_GATHER:
        snprintf(more, sizeof more, " of %llu %s", count, dtype);
        break;
    case RUNGI_COMM_GATHER:
    case RUNGI_COMM_ALLOC:
        snprintf(more, sizeof more, " of %llu bytes", bytes);
        break;
    default:
        break;
    }
    snprintf(out, size, "%s #%llu \"%s\"%s", kinds[kind], (unsigned long long)what->sequence,
             what->label, more);
    return out;
}

// ---- words ------------------------------------------------------------------------------------

void rungi_recorder_put_text(rungi_word *words, size_t size, const char *text)
{
    size_t length = strnlen(text, size - 1);
    for (size_t at = 0; at <= length; at += 8) {
        uint64_t word = 0;
        memcpy(&word, text + at, length - at < 8 ? length - at : 8);
        recorder_set(&words[at / 8], word);
    }
}

void rungi_recorder_get_text(const rungi_word *words, size_t size, char *out)
{
    for (size_t at = 0; at < size; at += 8) {
        uint64_t word = recorder_get(&words[at / 8]);
        memcpy(out + at, &word, 8);
    }
    out[size - 1] = 0;
}

// Without memory of its own: a process that is out of memory must not take the others for dead.
int64_t rungi_process_began(int64_t pid, char *state_out)
{
    char text[1024];
    snprintf(text, sizeof text, "/proc/%lld/stat", (long long)pid);
    if (state_out)
        *state_out = 'X';
    int file = open(text, O_RDONLY | O_CLOEXEC);
    ssize_t size = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    if (file < 0 && errno != ENOENT && errno != ESRCH) {
        if (state_out)
            *state_out = '?';
        return -1;
    }
    if (size <= 0)
        return 0;
    text[size] = 0;
    long long began = 0;
    const char *at = strrchr(text, ')'); // behind the name, which may hold anything
    if (at && at[1] == ' ' && at[2]) {
        if (state_out)
            *state_out = at[2];
        at += 2;
        for (int field = 3; field < 22 && at; field++)
            at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL;
        began = at ? atoll(at) : 0;
    }
    return began;
}

// ---- writing ----------------------------------------------------------------------------------

// Maps the file of a rank: makes it at its full length, or opens it.
static rung_status map_file(const char *folder, int rank, bool make, rungi_word **words_out)
{
    if (make)
        RUNG_TRY(rungi_fs_make_folders(folder));
    char *path = rungi_text_format("%s/rank-%d.calls", folder, rank);
    RUNG_CHECK(path, RUNG_NO_MEMORY, "no memory for the name of a flight recorder");
    rung_status status = RUNG_OK;
    size_t size = RUNGI_RECORDER_WORDS * sizeof(rungi_word);
    if (make)
        unlink(path); // a reader of the file from before keeps it
    int flags = make ? O_RDWR | O_CREAT | O_EXCL : O_RDWR;
    int file = open(path, flags | O_CLOEXEC, 0644);
    void *data = MAP_FAILED;
    if (file < 0) {
        status = rungi_fs_fail(path, make ? "cannot make" : "cannot open", errno);
    } else if (make && posix_fallocate(file, 0, (off_t)size) != 0) {
        status = rungi_fs_fail_full(path, ENOSPC, size);
    } else {
        data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (data == MAP_FAILED)
            status = rungi_fs_fail(path, "cannot map", errno);
    }
    if (file >= 0)
        close(file);
    free(path);
    if (status == RUNG_OK)
        *words_out = data;
    return status;
}

static int64_t unix_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t monotonic(void)
{
    const rung_clock *clock = rungi_clock_monotonic();
    return clock->now(clock->user);
}

rung_status rungi_recorder_open(rungi_recorder *recorder, const char *folder, rungi_word *memory,
                                int rank)
{
    *recorder = (rungi_recorder){memory, RUNGI_RECORDER_BORROWED};
    if (!folder)
        return RUNG_OK;
    recorder->place = RUNGI_RECORDER_FILE;
    return map_file(folder, rank, false, &recorder->words);
}

rung_status rungi_recorder_init(rungi_recorder *recorder, const char *folder, rungi_word *memory,
                                int rank, int size, const rung_clock *clock)
{
    rungi_word *words = memory;
    if (folder)
        RUNG_TRY(map_file(folder, rank, true, &words));
    else if (!memory)
        words = calloc(RUNGI_RECORDER_WORDS, sizeof *words);
    RUNG_CHECK(words, RUNG_NO_MEMORY, "no memory for a flight recorder");
    *recorder = (rungi_recorder){words, folder   ? RUNGI_RECORDER_FILE
                                        : memory ? RUNGI_RECORDER_BORROWED
                                                 : RUNGI_RECORDER_HEAP};
    char host[RUNGI_RECORDER_HOST] = "";
    gethostname(host, sizeof host - 1);
    uint64_t magic;
    memcpy(&magic, RECORDER_MAGIC_TEXT, sizeof magic);
    int64_t pid = getpid();
    recorder_set(&words[RECORDER_VERSION], 1 | (uint64_t)RUNGI_RECORDER_CALLS << 32);
    recorder_set(&words[RECORDER_RANK], (uint64_t)rank | (uint64_t)size << 32);
    recorder_set(&words[RECORDER_PID], (uint64_t)pid);
    recorder_set(&words[RECORDER_BEGAN], (uint64_t)rungi_process_began(pid, NULL));
    recorder_set(&words[RECORDER_TO_UNIX], (uint64_t)(unix_time() - clock->now(clock->user)));
    rungi_recorder_put_text(words + RECORDER_HOST, RUNGI_RECORDER_HOST, host);
    rungi_recorder_state(recorder, RUNGI_RANK_RUNNING, NULL);
    recorder_set(&words[RECORDER_MAGIC], magic);
    return RUNG_OK;
}

void rungi_recorder_fini(rungi_recorder *recorder)
{
    if (recorder->words && recorder->place == RUNGI_RECORDER_FILE)
        munmap((void *)recorder->words, RUNGI_RECORDER_WORDS * sizeof(rungi_word));
    else if (recorder->place == RUNGI_RECORDER_HEAP)
        free((void *)recorder->words);
    *recorder = (rungi_recorder){0};
}

static rungi_word *entry_of(rungi_recorder *recorder, uint64_t number)
{
    return (rungi_word *)recorder_entry(recorder->words, number);
}

uint64_t rungi_recorder_begin(rungi_recorder *recorder, const rungi_comm_what *what,
                              rungi_call_state state, int64_t now)
{
    uint64_t number = recorder_get(&recorder->words[RECORDER_COUNT]) + 1;
    rungi_word *entry = entry_of(recorder, number);
    recorder_set(&entry[ENTRY_NUMBER], 0);
    recorder_set(&entry[ENTRY_SEQUENCE], what->sequence);
    recorder_set(&entry[ENTRY_WHAT], rungi_comm_pack(what) | (uint64_t)state << 24);
    recorder_set(&entry[ENTRY_BYTES], what->bytes);
    recorder_set(&entry[ENTRY_STARTED], (uint64_t)now);
    recorder_set(&entry[ENTRY_ENDED], 0);
    rungi_recorder_put_text(entry + ENTRY_LABEL, RUNGI_RECORDER_LABEL, what->label);
    recorder_set(&entry[ENTRY_NUMBER], number);
    recorder_set(&recorder->words[RECORDER_COUNT], number);
    return number;
}

void rungi_recorder_change(rungi_recorder *recorder, uint64_t number, rungi_call_state state,
                           int64_t ended)
{
    rungi_word *entry = entry_of(recorder, number);
    if (recorder_get(&entry[ENTRY_NUMBER]) != number)
        return; // written over by later calls
    uint64_t what = recorder_get(&entry[ENTRY_WHAT]);
    recorder_set(&entry[ENTRY_ENDED], (uint64_t)ended);
    recorder_set(&entry[ENTRY_WHAT], (what & ~((uint64_t)0xFF << 24)) | (uint64_t)state << 24);
}

void rungi_recorder_state(rungi_recorder *recorder, rungi_rank_state state, const char *note)
{
    rungi_word *words = recorder->words;
    rungi_recorder_put_text(words + RECORDER_NOTE, RUNGI_RECORDER_NOTE, note ? note : "");
    recorder_set(&words[RECORDER_SINCE], (uint64_t)monotonic());
    recorder_set(&words[RECORDER_STATE], state);
}

void rungi_recorder_beat(rungi_recorder *recorder)
{
    recorder_set(&recorder->words[RECORDER_BEAT], (uint64_t)monotonic());
}
