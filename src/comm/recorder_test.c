// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
#include "testing.h"

#include <stdio.h>
#include <unistd.h>

#include "base/context.h"
#include "base/fake_clock.h"
#include "base/fs.h"
#include "comm/rank_threads.h"
#include "comm/recorder.h"

static char folder[] = "/tmp/rung_recorder_XXXXXX";

static void the_last_64_calls_can_be_read(void **state)
{
    (void)state;
    rungi_fake_clock fake;
    rungi_fake_clock_init(&fake, false);
    rungi_recorder recorder;
    assert_ok(rungi_recorder_init(&recorder, folder, NULL, 3, 8, &fake.clock));
    rungi_comm_what what = {RUNGI_COMM_ALL_REDUCE, RUNG_F32, RUNGI_COMM_MAX, -1, 400, 0, NULL};
    char label[200], line[300];
    assert_string_equal(rungi_recorder_last(recorder.words, line, sizeof line), "nothing yet");
    for (int i = 1; i <= 100; i++) {
        snprintf(label, sizeof label, "bucket %d", i);
        what.sequence = (uint64_t)i + 1000;
        what.label = label;
        uint64_t number = rungi_recorder_begin(&recorder, &what, RUNGI_CALL_STARTED, i * 10);
        assert_int_equal(number, i);
        if (i < 100)
            rungi_recorder_change(&recorder, number, RUNGI_CALL_DONE, i * 10 + 1500000);
        if (i == 70)
            rungi_recorder_change(&recorder, 1, RUNGI_CALL_FAILED, 1); // gone: nothing happens
    }
    rungi_recorder_state(&recorder, RUNGI_RANK_FAILED, "sample 7: cannot be read");
    rungi_recorder_beat(&recorder);
    assert_string_equal(rungi_recorder_last(recorder.words, line, sizeof line),
                        "all-reduce #1100 \"bucket 100\" of 100 f32 (max): started");
    rungi_recorder_fini(&recorder);

    rungi_record record;
    assert_ok(rungi_recorder_read(folder, 3, &record));
    assert_int_equal(record.rank, 3);
    assert_int_equal(record.size, 8);
    assert_int_equal(record.pid, getpid());
    assert_true(record.process_began > 0 && record.heartbeat > 0 && record.to_unix > 0);
    assert_int_equal(record.state, RUNGI_RANK_FAILED);
    assert_string_equal(record.note, "sample 7: cannot be read");
    assert_int_equal(record.count, 64);
    for (int i = 0; i < 64; i++) {
        const rungi_recorded_call *call = &record.calls[i];
        snprintf(label, sizeof label, "bucket %d", i + 37);
        assert_int_equal(call->number, i + 37);
        assert_int_equal(call->what.sequence, i + 1037);
        assert_int_equal(call->what.bytes, 400);
        assert_string_equal(call->what.label, label);
        assert_int_equal(call->started, (i + 37) * 10);
        assert_int_equal(call->state, i < 63 ? RUNGI_CALL_DONE : RUNGI_CALL_STARTED);
    }
    assert_string_equal(rungi_recorder_line(&record.calls[0], line, sizeof line),
                        "all-reduce #1037 \"bucket 37\" of 100 f32 (max): done in 1.5 ms");
    rungi_fake_clock_fini(&fake);
}

static void long_labels_are_cut(void **state)
{
    (void)state;
    rungi_recorder recorder;
    assert_ok(rungi_recorder_init(&recorder, NULL, NULL, 0, 1, rungi_clock_monotonic()));
    char label[200];
    memset(label, 'x', sizeof label);
    label[199] = 0;
    for (size_t length = 0; length < 199; length += 3) {
        rungi_comm_what what = {RUNGI_COMM_SEND,     RUNG_U8, RUNGI_COMM_SUM, 5, 7, 9,
                                label + 199 - length};
        rungi_recorder_begin(&recorder, &what, RUNGI_CALL_WAITING, 1);
        rungi_record record;
        rungi_recorder_copy(recorder.words, &record);
        const rungi_recorded_call *last = &record.calls[record.count - 1];
        size_t kept = length < RUNGI_RECORDER_LABEL ? length : RUNGI_RECORDER_LABEL - 1;
        assert_int_equal(strlen(last->label), kept);
        assert_int_equal(last->what.kind, RUNGI_COMM_SEND);
        assert_int_equal(last->what.peer, 5);
    }
    rungi_recorder_fini(&recorder);
}

static void what_is_no_recorder_is_refused(void **state)
{
    (void)state;
    rungi_record record;
    assert_fails(RUNG_NOT_FOUND, "rank-9.calls", rungi_recorder_read(folder, 9, &record));
    char path[100];
    snprintf(path, sizeof path, "%s/rank-4.calls", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("nothing of the kind", file);
    fclose(file);
    assert_fails(RUNG_FORMAT, "not a flight recorder", rungi_recorder_read(folder, 4, &record));
}

static rung_status some_calls(rungi_comm *comm, void *arg)
{
    (void)arg;
    int64_t value = 1;
    RUNG_TRY(rungi_comm_barrier(comm, "start"));
    RUNG_TRY(rungi_comm_all_reduce(comm, &value, 1, RUNG_I64, RUNGI_COMM_SUM, "count"));
    return rungi_comm_broadcast(comm, &value, 8, 1, "answer");
}

static void each_rank_of_a_communicator_has_its_file(void **state)
{
    (void)state;
    char inside[100];
    snprintf(inside, sizeof inside, "%s/run/calls", folder);
    assert_ok(rank_threads(3, &(rungi_comm_options){.recorder = inside}, some_calls, NULL));
    for (int rank = 0; rank < 3; rank++) {
        rungi_record record;
        assert_ok(rungi_recorder_read(inside, rank, &record));
        assert_int_equal(record.rank, rank);
        assert_int_equal(record.size, 3);
        assert_int_equal(record.state, RUNGI_RANK_LEFT);
        assert_int_equal(record.count, 3);
        assert_int_equal(record.calls[1].what.kind, RUNGI_COMM_ALL_REDUCE);
        assert_int_equal(record.calls[1].what.sequence, 2);
        assert_int_equal(record.calls[2].what.peer, 1);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(record.calls[i].state, RUNGI_CALL_DONE);
            assert_true(record.calls[i].ended >= record.calls[i].started);
        }
    }
}

static int remove_folder(void **state)
{
    (void)state;
    return rungi_fs_remove_tree(folder);
}

int main(void)
{
    if (!mkdtemp(folder))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_64_calls_can_be_read),
        cmocka_unit_test(long_labels_are_cut),
        cmocka_unit_test(what_is_no_recorder_is_refused),
        cmocka_unit_test_teardown(each_rank_of_a_communicator_has_its_file, remove_folder),
    };
    return RUN_TESTS(tests);
}
