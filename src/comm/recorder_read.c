// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fs.h"
#include "base/text.h"
#include "comm/recorder.h"
#include "comm/recorder_inside.h"

// False when the entry does not hold call `number` (any more).
static bool read_call(const rungi_word *words, uint64_t number, rungi_recorded_call *call_out)
{
    const rungi_word *entry = recorder_entry(words, number);
    if (recorder_get(&entry[ENTRY_NUMBER]) != number)
        return false;
    uint64_t what = recorder_get(&entry[ENTRY_WHAT]);
    *call_out = (rungi_recorded_call){
        .number = number,
        .state = (rungi_call_state)(what >> 24 & 0xFF),
        .started = (int64_t)recorder_get(&entry[ENTRY_STARTED]),
        .ended = (int64_t)recorder_get(&entry[ENTRY_ENDED]),
    };
    rungi_comm_unpack(what, &call_out->what);
    call_out->what.bytes = recorder_get(&entry[ENTRY_BYTES]);
    call_out->what.sequence = recorder_get(&entry[ENTRY_SEQUENCE]);
    rungi_recorder_get_text(entry + ENTRY_LABEL, RUNGI_RECORDER_LABEL, call_out->label);
    call_out->what.label = call_out->label;
    return recorder_get(&entry[ENTRY_NUMBER]) == number;
}

void rungi_recorder_copy(const rungi_word *words, rungi_record *record_out)
{
    uint64_t rank = recorder_get(&words[RECORDER_RANK]);
    *record_out = (rungi_record){
        .rank = (int)(rank & 0xFFFFFFFF),
        .size = (int)(rank >> 32),
        .pid = (int64_t)recorder_get(&words[RECORDER_PID]),
        .process_began = (int64_t)recorder_get(&words[RECORDER_BEGAN]),
        .heartbeat = (int64_t)recorder_get(&words[RECORDER_BEAT]),
        .to_unix = (int64_t)recorder_get(&words[RECORDER_TO_UNIX]),
        .state = (rungi_rank_state)recorder_get(&words[RECORDER_STATE]),
        .state_since = (int64_t)recorder_get(&words[RECORDER_SINCE]),
    };
    rungi_recorder_get_text(words + RECORDER_HOST, RUNGI_RECORDER_HOST, record_out->host);
    rungi_recorder_get_text(words + RECORDER_NOTE, RUNGI_RECORDER_NOTE, record_out->note);
    uint64_t last = recorder_get(&words[RECORDER_COUNT]);
    uint64_t first = last > RUNGI_RECORDER_CALLS ? last - RUNGI_RECORDER_CALLS + 1 : 1;
    for (uint64_t number = first; number <= last; number++)
        record_out->count += read_call(words, number, &record_out->calls[record_out->count]);
}

rungi_rank_state rungi_recorder_state_of(const rungi_word *words)
{
    return (rungi_rank_state)recorder_get(&words[RECORDER_STATE]);
}

rung_status rungi_recorder_read(const char *folder, int rank, rungi_record *record_out)
{
    size_t wanted = RUNGI_RECORDER_WORDS * sizeof(rungi_word), size = 0;
    char *data = NULL, *path = rungi_text_format("%s/rank-%d.calls", folder, rank);
    RUNG_CHECK(path, RUNG_NO_MEMORY, "no memory for the name of a flight recorder");
    rung_status status = rungi_fs_read(path, wanted, &data, &size);
    if (status == RUNG_OK) {
        const rungi_word *words = (const void *)data;
        if (size != wanted || memcmp(data, RECORDER_MAGIC_TEXT, 8) != 0)
            status = RUNG_FAIL(RUNG_FORMAT, "%s: not a flight recorder", path);
        else if (recorder_get(&words[RECORDER_VERSION]) !=
                 (1 | (uint64_t)RUNGI_RECORDER_CALLS << 32))
            status = RUNG_FAIL(RUNG_FORMAT, "%s: a flight recorder of another version", path);
        else
            rungi_recorder_copy(words, record_out);
        free(data);
    }
    free(path);
    return status;
}

char *rungi_recorder_line(const rungi_recorded_call *call, char *out, size_t size)
{
    char text[RUNGI_COMM_TEXT];
    rungi_comm_text(&call->what, text, sizeof text);
    static const char *const states[] = {"started", "waiting", "done", "failed"};
    const char *state =
        (size_t)call->state < sizeof states / sizeof *states ? states[call->state] : "?";
    if (call->ended)
        snprintf(out, size, "%s: %s in %.3g ms", text, state,
                 (double)(call->ended - call->started) / 1e6);
    else
        snprintf(out, size, "%s: %s", text, state);
    return out;
}

char *rungi_recorder_last(const rungi_word *words, char *out, size_t size)
{
    uint64_t last = recorder_get(&words[RECORDER_COUNT]);
    rungi_recorded_call call;
    if (last == 0)
        snprintf(out, size, "nothing yet");
    else if (read_call(words, last, &call) || read_call(words, last, &call))
        rungi_recorder_line(&call, out, size);
    else
        snprintf(out, size, "call number %llu", (unsigned long long)last);
    return out;
}
