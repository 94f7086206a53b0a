// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
#include "testing.h"

#include <stdlib.h>

#include "base/context.h"
#include "comm/clock_offset.h"
#include "comm/rank_threads.h"

// A clock that is wrong by so much.
static int64_t wrong_now(void *user)
{
    const rung_clock *real = rungi_clock_monotonic();
    return real->now(real->user) - *(const int64_t *)user;
}

static rung_status offset_is_found(rungi_comm *comm, void *arg)
{
    static int64_t wrong[] = {0, 5000000000, -123456789, 17};
    int rank = rungi_comm_rank(comm);
    const rung_clock clock = {&wrong[rank], wrong_now, NULL};
    rungi_clock_offset found;
    (void)arg;
    RUNG_TRY(rungi_comm_clock_offset(comm, &clock, 16, &found));
    RUNG_CHECK(llabs(found.offset - wrong[rank]) <= found.error, RUNG_GATE,
               "rank %d: %lld ns are not within %lld of %lld", rank, (long long)found.offset,
               (long long)found.error, (long long)wrong[rank]);
    RUNG_CHECK(rank ? found.error > 0 : found.error == 0, RUNG_GATE, "rank %d: error", rank);
    return RUNG_OK;
}

static void clocks_are_compared(void **state)
{
    (void)state;
    assert_ok(rank_threads(4, NULL, offset_is_found, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clocks_are_compared),
    };
    return RUN_TESTS(tests);
}
