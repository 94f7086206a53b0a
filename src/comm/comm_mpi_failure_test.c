// SPDX-License-Identifier: Apache-2.0
// ctest-labels: mpirun
// Processes of MPI that fail, leave, die, are stopped or do not come are named by the others.
#include "comm_mpi_testing.h"

static void different_calls_are_told_to_all(void **state)
{
    (void)state;
    run_failing(3, "other_call", 0);
    for (int rank = 0; rank < 3; rank++) {
        rank_line(rank, "all-reduce #2 \"gradients\" of 100 f32 (sum)");
        rank_line(rank, "rank 1 calls barrier #2 \"epoch\"");
    }
}

static void a_failing_rank_is_told_to_all(void **state)
{
    (void)state;
    run_failing(3, "failing", 0);
    rank_line(1, "bad data, sample 7: cannot be read");
    rank_line(0, "cancelled, rank 1 failed: sample 7: cannot be read");
    rank_line(2, "cancelled, rank 1 failed: sample 7: cannot be read");
}

static void a_leaving_rank_is_told_to_all(void **state)
{
    (void)state;
    // Rank 1 waits for the others in MPI's end, until mpirun ends it.
    assert_int_not_equal(run_part(3, "leaving", 1, 0, 60), 0);
    rank_line(1, "ok, good");
    rank_line(0, "cancelled, rank 1 has left");
    rank_line(2, "cancelled, rank 1 has left");
}

static void a_killed_process_is_named(void **state)
{
    (void)state;
    assert_int_not_equal(run_part(3, "killed", 1, 0, 60), 0);
    rank_line(0, "cancelled, rank 1 has died (process ");
    rank_line(2, "its last call: gather #1 \"start\" of 8 bytes: done");
    rungi_record record; // and what it did can still be read
    assert_ok(rungi_recorder_read(folder, 1, &record));
    assert_int_equal(record.state, RUNGI_RANK_RUNNING);
    assert_int_equal(record.count, 1);
    assert_string_equal(record.calls[0].what.label, "start");
    assert_ok(rungi_recorder_read(folder, 0, &record));
    assert_int_equal(record.state, RUNGI_RANK_FAILED);
    assert_int_equal(record.calls[1].state, RUNGI_CALL_FAILED);
}

static void a_stopped_process_is_named(void **state)
{
    (void)state;
    run_failing(3, "stopped", 0);
    rank_line(0, "cancelled, rank 1 was stopped (process ");
    rank_line(2, "cancelled, rank 1 was stopped (process ");
    rank_line(1, "cancelled, rank 1 was stopped (process "); // once it is woken
}

static void a_slow_process_is_left_alone(void **state)
{
    (void)state;
    assert_good(run_part(2, "slow", 1, 0, 60), 2);
}

static void a_process_that_does_not_come_is_named(void **state)
{
    (void)state;
    run_failing(3, "missing", 0);
    for (int rank = 0; rank < 3; rank++) {
        rank_line(rank, "timed out, barrier #2 \"checkpoint\"");
        rank_line(rank, "present: 0, 2; missing: 1; rank 1's last call: gather #1 \"start\"");
    }
}

// Case C40: four processes are started, two do not come: the others end, and list them.
static void missing_processes_are_listed(void **state)
{
    (void)state;
    assert_int_not_equal(run_part(4, "absent", 1, 0, 4), 0);
    assert_line("no communicator: process ");
    assert_line(" s for the others to start; of 4 processes missing: 2-3");
}

static int run_all(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(different_calls_are_told_to_all),
        cmocka_unit_test(a_failing_rank_is_told_to_all),
        cmocka_unit_test(a_leaving_rank_is_told_to_all),
        cmocka_unit_test(a_killed_process_is_named),
        cmocka_unit_test(a_stopped_process_is_named),
        cmocka_unit_test(a_slow_process_is_left_alone),
        cmocka_unit_test(a_process_that_does_not_come_is_named),
        cmocka_unit_test_teardown(missing_processes_are_listed, remove_folder),
    };
    return RUN_TESTS(tests);
}

int main(int argc, char **argv)
{
    return run_parts(argc, argv, run_all);
}
