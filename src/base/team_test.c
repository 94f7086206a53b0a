// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
#include "testing.h"

#include <unistd.h>

#include "base/error.h"
#include "base/team.h"

typedef struct sums {
    int member[8];
    int round;
} sums;

static rung_status add_round(void *arg, int member)
{
    sums *s = arg;
    s->member[member] += s->round;
    return RUNG_OK;
}

static rung_status fail_upper(void *arg, int member)
{
    if (member >= *(int *)arg)
        return RUNG_FAIL(RUNG_DATA, "member %d failed", member);
    return RUNG_OK;
}

static void every_member_runs_every_round(void **state)
{
    (void)state;
    for (int size = 1; size <= 8; size *= 2) {
        rungi_team *team;
        assert_ok(rungi_team_create(size, &team));
        sums s = {{0}, 0};
        int expected = 0;
        for (s.round = 1; s.round <= 500; s.round++) {
            assert_ok(rungi_team_run(team, add_round, &s));
            expected += s.round;
            if (s.round % 200 == 0)
                usleep(2000); // let members fall asleep
        }
        for (int i = 0; i < size; i++)
            assert_int_equal(s.member[i], expected);
        rungi_team_destroy(&team);
        assert_null(team);
    }
}

static void lowest_failure_is_reported(void **state)
{
    (void)state;
    rungi_team *team;
    assert_ok(rungi_team_create(4, &team));
    int from = 2;
    assert_fails(RUNG_DATA, "member 2 failed", rungi_team_run(team, fail_upper, &from));
    from = 0;
    assert_fails(RUNG_DATA, "member 0 failed", rungi_team_run(team, fail_upper, &from));
    from = 9;
    assert_ok(rungi_team_run(team, fail_upper, &from));
    rungi_team_destroy(&team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_member_runs_every_round),
        cmocka_unit_test(lowest_failure_is_reported),
    };
    return RUN_TESTS(tests);
}
