// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
#include "testing.h"

#include <unistd.h>

#include "base/thread.h"
#include "comm/comm_testing.h"
#include "comm/rank_threads.h"

static rung_status all_checks(rungi_comm *comm, void *arg)
{
    return check_everything(comm, *(int64_t *)arg, true);
}

#ifdef RUNG_OPENMP
enum { LARGE = 300007, MEDIUM = 40001 };
#else
enum { LARGE = 40001, MEDIUM = 4097 }; // the build for ThreadSanitizer, which is slow
#endif

static void every_call_gives_the_values(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 4, 5, 8};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int64_t most = sizes[i] <= 2 ? LARGE : sizes[i] <= 4 ? MEDIUM : 4097;
        assert_ok(rank_threads(sizes[i], NULL, all_checks, &most));
    }
}

static void kernels_of_all_instruction_sets_agree(void **state)
{
    (void)state;
    for (rung_isa isa = RUNG_ISA_SCALAR; isa <= RUNG_ISA_AVX512; isa++) {
        rung_context *context;
        if (rung_context_create(&(rung_context_options){.isa = isa}, &context) != RUNG_OK)
            continue;
        int64_t most = 4097;
        assert_ok(rank_threads(3, &(rungi_comm_options){.context = context}, all_checks, &most));
        rung_context_destroy(&context);
    }
}

static void parts_cover_all_elements_in_units(void **state)
{
    (void)state;
    for (int size = 1; size < 20; size++)
        for (int64_t count = 0; count < 400; count++) {
            int64_t at = 0;
            for (int rank = 0; rank < size; rank++) {
                rungi_comm_part part = rungi_comm_part_of(count, size, rank);
                assert_int_equal(part.begin, at);
                assert_true(part.count >= 0 && (part.begin % 16 == 0 || part.begin == count));
                at += part.count;
            }
            assert_int_equal(at, count);
        }
    assert_int_equal(rungi_comm_part_of(1 << 20, 4, 3).count, 1 << 18);
}

// NaN is the result of MIN and MAX where there is one, and i64 wraps.
static rung_status special_values(rungi_comm *comm, void *arg)
{
    (void)arg;
    int rank = rungi_comm_rank(comm);
    for (int op = RUNGI_COMM_MIN; op <= RUNGI_COMM_MAX; op++)
        for (int d = 0; d < CHECK_DTYPES; d++) {
            if (check_dtypes[d] == RUNG_I64)
                continue;
            double data[40];
            for (int i = 0; i < 40; i++)
                check_store(check_dtypes[d], data, i, i % 4 == rank ? NAN : rank);
            RUNG_TRY(
                rungi_comm_all_reduce(comm, data, 40, check_dtypes[d], (rungi_comm_op)op, "nan"));
            float values[40];
            rung_convert(RUNG_F32, values, check_dtypes[d], data, 40, NULL);
            for (int i = 0; i < 40; i++)
                RUNG_CHECK(isnan(values[i]) == (i % 4 < 3), RUNG_GATE, "NaN at %d of %s", i,
                           rung_dtype_name(check_dtypes[d]));
        }
    int64_t top = INT64_MAX;
    RUNG_TRY(rungi_comm_all_reduce(comm, &top, 1, RUNG_I64, RUNGI_COMM_SUM, "wrap"));
    RUNG_CHECK(top == INT64_MAX - 2, RUNG_GATE, "3 * INT64_MAX gave %lld", (long long)top);
    return RUNG_OK;
}

static void special_values_are_kept(void **state)
{
    (void)state;
    assert_ok(rank_threads(3, NULL, special_values, NULL));
}

static rung_status many_started(rungi_comm *comm, void *arg)
{
    (void)arg;
    float data[RUNGI_COMM_STARTED + 1] = {0}, one = 1;
    rungi_comm_call *calls[RUNGI_COMM_STARTED + 1];
    for (int i = 0; i < RUNGI_COMM_STARTED; i++) {
        data[i] = (float)i;
        RUNG_TRY(rungi_comm_start_all_reduce(comm, &data[i], 1, RUNG_F32, RUNGI_COMM_SUM, "many",
                                             &calls[i]));
    }
    RUNG_CHECK(rungi_comm_start_all_reduce(comm, &one, 1, RUNG_F32, RUNGI_COMM_SUM, "many",
                                           &calls[RUNGI_COMM_STARTED]) == RUNG_INVALID,
               RUNG_GATE, "one call too many was started");
    // Far more calls than there are lines, while the old ones are not finished.
    for (int i = 0; i < 1000; i++)
        RUNG_TRY(rungi_comm_barrier(comm, "turn"));
    for (int i = RUNGI_COMM_STARTED - 1; i >= 0; i--) {
        RUNG_CHECK(rungi_comm_done(comm, calls[i]), RUNG_GATE, "call %d is not done", i);
        RUNG_TRY(rungi_comm_finish(comm, &calls[i], NULL));
        RUNG_CHECK(!calls[i] && data[i] == (float)(3 * i), RUNG_GATE, "call %d gave %g", i,
                   data[i]);
    }
    return RUNG_OK;
}

static void many_calls_may_be_under_way(void **state)
{
    (void)state;
    assert_ok(rank_threads(3, NULL, many_started, NULL));
}

// Calls between two ranks that follow each other closely, each of another label and size: the
// sender looks at its peer's call while that may be at its next one.
static rung_status close_together(rungi_comm *comm, void *arg)
{
    (void)arg;
    static const char *const labels[] = {"parameters", "buffers", "state"};
    char data[256] = {0};
    for (int i = 0; i < 3000; i++) {
        uint64_t bytes = (uint64_t)(i % 3) * 100;
        RUNG_TRY(rungi_comm_rank(comm) ? rungi_comm_send(comm, data, bytes, 0, labels[i % 3])
                                       : rungi_comm_receive(comm, data, bytes, 1, labels[i % 3]));
    }
    return RUNG_OK;
}

static void calls_may_follow_closely(void **state)
{
    (void)state;
    assert_ok(rank_threads(2, NULL, close_together, NULL));
}

// The receiver comes, takes the data and leaves while the sender, which has waited long, sleeps.
static rung_status one_leaves(rungi_comm *comm, void *arg)
{
    char data[200] = {0};
    (void)arg;
    if (rungi_comm_rank(comm))
        return rungi_comm_send(comm, data, sizeof data, 0, "last");
    usleep(40000);
    return rungi_comm_receive(comm, data, sizeof data, 1, "last");
}

static void who_took_the_data_may_leave(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++)
        assert_ok(rank_threads(2, NULL, one_leaves, NULL));
}

// ---- arguments --------------------------------------------------------------------------------

static void arguments_are_checked(void **state)
{
    (void)state;
    rungi_comm *comm[2];
    rungi_comm_options options = {0};
    float value = 0;
    assert_fails(RUNG_INVALID, "allowed are 1 to", rungi_comm_local_create(0, &options, comm));
    assert_ok(rungi_comm_local_create(2, &options, comm));
    assert_fails(RUNG_INVALID, "there is no rank 2 (allowed: 0 to 1)",
                 rungi_comm_broadcast(comm[0], &value, 4, 2, "weights"));
    assert_fails(RUNG_INVALID, "to or receive from itself",
                 rungi_comm_send(comm[0], &value, 4, 0, "weights"));
    assert_fails(RUNG_UNSUPPORTED, "gradients: u8 cannot be reduced",
                 rungi_comm_all_reduce(comm[0], &value, 1, RUNG_U8, RUNGI_COMM_SUM, "gradients"));
    assert_fails(RUNG_INVALID, "-1 elements",
                 rungi_comm_all_reduce(comm[0], &value, -1, RUNG_F32, RUNGI_COMM_SUM, "x"));
    assert_fails(RUNG_INVALID, "elements of f64",
                 rungi_comm_all_gather(comm[0], &value, INT64_MAX, RUNG_F64, "x"));
    assert_int_equal(rungi_comm_rank(comm[1]), 1);
    assert_int_equal(rungi_comm_size(comm[1]), 2);
    assert_int_equal(rungi_comm_local_rank(comm[1]), 1);
    assert_int_equal(rungi_comm_local_size(comm[1]), 2);
    rungi_comm_destroy(&comm[0]);
    rungi_comm_destroy(&comm[1]);
    assert_null(comm[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_gives_the_values),
        cmocka_unit_test(kernels_of_all_instruction_sets_agree),
        cmocka_unit_test(parts_cover_all_elements_in_units),
        cmocka_unit_test(special_values_are_kept),
        cmocka_unit_test(many_calls_may_be_under_way),
        cmocka_unit_test(calls_may_follow_closely),
        cmocka_unit_test(who_took_the_data_may_leave),
        cmocka_unit_test(arguments_are_checked),
    };
    return RUN_TESTS(tests);
}
