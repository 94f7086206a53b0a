// SPDX-License-Identifier: Apache-2.0
// ctest-labels: mpirun
// Processes of several machines that call something else, fail, fall or do not come.
#include "comm_mpi_testing.h"

static void failures_between_machines(void **state)
{
    (void)state;
    run_failing(2, "other_call", 2);
    for (int rank = 0; rank < 2; rank++) {
        rank_line(rank, "all-reduce #2 \"gradients\" of 100 f32 (sum)");
        rank_line(rank, "rank 1 calls barrier #2 \"epoch\"");
    }
    run_failing(4, "failing", 2);
    for (int rank = 0; rank < 4; rank++)
        rank_line(rank, rank == 1 ? "bad data, sample 7: cannot be read"
                                  : "cancelled, rank 1 failed: sample 7: cannot be read");
    run_failing(2, "missing", 2);
    for (int rank = 0; rank < 2; rank++) {
        rank_line(rank, "barrier #2 \"checkpoint\": rank 0 waited ");
        rank_line(rank, " s; present: 0; missing: 1");
    }
    assert_int_not_equal(run_part(4, "killed", 1, 2, 60), 0);
    for (int rank = 0; rank < 4; rank++)
        if (rank != 1)
            rank_line(rank, "cancelled, rank 1 has died (process ");
}

// Messages of the wrong number or size never come: the headers tell.
static void other_sizes_between_machines(void **state)
{
    (void)state;
    static const char *const names[] = {"smaller", "shorter"}, *const counts[] = {"3000", "200000"};
    for (int i = 0; i < 2; i++) {
        char text[100];
        snprintf(text, sizeof text, "rank 1 calls all-reduce #1 \"gradients\" of %s f32 (sum)",
                 counts[i]);
        run_failing(2, names[i], 2);
        for (int rank = 0; rank < 2; rank++) {
            rank_line(rank, "calls all-reduce #1 \"gradients\" of 300000 f32 (sum)");
            rank_line(rank, text);
        }
    }
}

// Between machines the deadline finds it, on one machine the heartbeat, which tells the others.
static void a_process_that_falls_inside_of_a_call_is_named(void **state)
{
    (void)state;
    run_failing(2, "stopped_inside", 2);
    rank_line(0, "timed out, all-reduce #2 \"gradients\" of 1048576 f32 (sum): rank 0 waited");
    rank_line(0, "missing: 1");
    rank_line(1, "missing: 1"); // once it is woken
    assert_int_not_equal(run_part(4, "killed_inside", 1, 2, 60), 0);
    for (int rank = 0; rank < 4; rank++)
        if (rank != 1)
            rank_line(rank, "cancelled, rank 1 has died (process ");
}

static int run_all(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failures_between_machines),
        cmocka_unit_test(other_sizes_between_machines),
        cmocka_unit_test_teardown(a_process_that_falls_inside_of_a_call_is_named, remove_folder),
    };
    return RUN_TESTS(tests);
}

int main(int argc, char **argv)
{
    return run_parts(argc, argv, run_all);
}
