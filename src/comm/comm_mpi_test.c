// SPDX-License-Identifier: Apache-2.0
// ctest-labels: mpirun
// Processes of MPI give the values of threads, on one machine and on several.
#include "comm_mpi_testing.h"

static void values_of_processes(void **state)
{
    (void)state;
    for (int processes = 2; processes <= 4; processes++)
        assert_good(run_part(processes, "values", 1, 0, 60), processes);
}

static void values_of_threads_in_processes(void **state)
{
    (void)state;
    assert_good(run_part(2, "values", 2, 0, 60), 4);
    for (int rank = 0; rank < 4; rank++) {
        rungi_record record;
        assert_ok(rungi_recorder_read(folder, rank, &record));
        assert_int_equal(record.size, 4);
        assert_int_equal(record.count, 64);
        assert_string_equal(record.calls[63].what.label, "barrier");
        assert_int_equal(record.calls[63].state, RUNGI_CALL_DONE);
        assert_true(record.heartbeat > 0);
    }
}

static void values_between_machines(void **state)
{
    (void)state;
    assert_good(run_part(2, "values", 1, 2, 60), 2);
    assert_good(run_part(4, "values", 1, 2, 60), 4);
    assert_good(run_part(3, "values", 1, 3, 60), 3); // no power of two of machines
    assert_good(run_part(2, "values", 2, 2, 60), 4); // threads
}

static void sizes_between_machines(void **state)
{
    (void)state;
    assert_good(run_part(2, "sizes", 1, 2, 60), 2);
    assert_good(run_part(3, "sizes", 1, 3, 60), 3);
    assert_good(run_part(2, "sizes", 2, 2, 60), 4);
}

static void values_between_unlike_machines(void **state)
{
    (void)state;
    assert_good(run_part(3, "values", 1, 2, 60), 3); // two and one
}

static int run_all(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_processes),
        cmocka_unit_test(values_of_threads_in_processes),
        cmocka_unit_test(values_between_machines),
        cmocka_unit_test(sizes_between_machines),
        cmocka_unit_test_teardown(values_between_unlike_machines, remove_folder),
    };
    return RUN_TESTS(tests);
}

int main(int argc, char **argv)
{
    return run_parts(argc, argv, run_all);
}
