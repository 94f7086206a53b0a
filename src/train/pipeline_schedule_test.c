// SPDX-License-Identifier: Apache-2.0
#include "testing.h"

#include "train/pipeline_schedule.h"

static const rungi_pipeline_schedule schedules[] = {RUNGI_PIPELINE_GPIPE, RUNGI_PIPELINE_1F1B};

// Every micro-batch goes forward and then backward once, both in order, and no more of them are
// held at a time than is said.
static void every_pass_once_and_in_order(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++)
        for (int stages = 1; stages <= 5; stages++)
            for (int micro = 1; micro <= 9; micro++)
                for (int s = 0; s < stages; s++) {
                    rungi_pipeline_action a[2 * RUNGI_PIPELINE_MICRO];
                    int forward = 0, backward = 0, most = 0;
                    rungi_pipeline_actions(schedules[k], s, stages, micro, micro, a);
                    for (int i = 0; i < 2 * micro; i++) {
                        assert_int_equal(a[i].micro, a[i].backward ? backward : forward);
                        *(a[i].backward ? &backward : &forward) += 1;
                        assert_true(backward <= forward);
                        most = forward - backward > most ? forward - backward : most;
                    }
                    assert_int_equal(forward, micro);
                    assert_int_equal(backward, micro);
                    assert_int_equal(most,
                                     rungi_pipeline_in_flight(schedules[k], s, stages, micro));
                }
    // 1F1B: the depth of the pipeline behind a stage, not the number of micro-batches.
    assert_int_equal(rungi_pipeline_in_flight(RUNGI_PIPELINE_1F1B, 0, 4, 32), 4);
    assert_int_equal(rungi_pipeline_in_flight(RUNGI_PIPELINE_1F1B, 3, 4, 32), 1);
    assert_int_equal(rungi_pipeline_in_flight(RUNGI_PIPELINE_GPIPE, 3, 4, 32), 32);
}

// Accumulated batches: no more is held than of one of them, also where the last one is short. GPipe
// idles once a batch, 1F1B once a step, but waits where few may be held.
static void accumulated_batches(void **state)
{
    (void)state;
    static const rungi_pipeline_schedule all[] = {RUNGI_PIPELINE_NONE, RUNGI_PIPELINE_GPIPE,
                                                  RUNGI_PIPELINE_1F1B};
    for (int k = 0; k < 3; k++)
        for (int s = 0; s < 4; s++)
            for (int most = 1; most <= (k ? 5 : 1); most++)
                for (int micro = most; micro <= 12; micro++) {
                    rungi_pipeline_action a[2 * RUNGI_PIPELINE_MICRO];
                    int forward = 0, backward = 0, held = 0;
                    rungi_pipeline_actions(all[k], s, 4, most, micro, a);
                    for (int i = 0; i < 2 * micro; i++) {
                        assert_int_equal(a[i].micro, a[i].backward ? backward : forward);
                        *(a[i].backward ? &backward : &forward) += 1;
                        assert_true(backward <= forward);
                        held = forward - backward > held ? forward - backward : held;
                    }
                    assert_int_equal(forward, micro);
                    assert_int_equal(backward, micro);
                    assert_int_equal(held, rungi_pipeline_in_flight(all[k], s, 4, most));
                }
    assert_near(rungi_pipeline_bubble(RUNGI_PIPELINE_NONE, 4, 1, 8), 0.75, 1e-12);
    assert_near(rungi_pipeline_bubble(RUNGI_PIPELINE_GPIPE, 4, 4, 16), 3.0 / 7, 1e-12);
    assert_near(rungi_pipeline_bubble(RUNGI_PIPELINE_1F1B, 4, 4, 16), 3.0 / 19, 1e-12);
    assert_near(rungi_pipeline_bubble(RUNGI_PIPELINE_1F1B, 4, 1, 16), 0.75, 1e-12);
}

// Stages that need the same time idle for (S - 1) / (M + S - 1) of it in both schedules, as in
// Narayanan et al. 2021, section 2.2; without micro-batches only one works at a time.
static void idle_share_is_the_bubble(void **state)
{
    (void)state;
    const double forward[] = {1, 1, 1, 1}, backward[] = {2, 2, 2, 2};
    for (int stages = 1; stages <= 4; stages++) {
        assert_near(rungi_pipeline_makespan(RUNGI_PIPELINE_NONE, stages, 1, 1, forward, backward),
                    3.0 * stages, 1e-12);
        for (int micro = 1; micro <= 16; micro++)
            for (int k = 0; k < 2; k++) {
                double time =
                    rungi_pipeline_makespan(schedules[k], stages, micro, micro, forward, backward);
                double busy = 3.0 * micro;
                assert_near(time, 3.0 * (micro + stages - 1), 1e-9);
                assert_near(1 - busy / time,
                            rungi_pipeline_bubble(schedules[k], stages, micro, micro), 1e-12);
            }
    }
    // A batch of 8 micro-batches on 4 stages: 32 units of work one after the other, or 11 at once.
    double plain = rungi_pipeline_makespan(RUNGI_PIPELINE_NONE, 4, 1, 1, (double[]){8, 8, 8, 8},
                                           (double[]){16, 16, 16, 16});
    assert_near(plain / rungi_pipeline_makespan(RUNGI_PIPELINE_1F1B, 4, 8, 8, forward, backward),
                32.0 / 11.0, 1e-12);
}

// The slowest stage sets the pace.
static void unequal_stages(void **state)
{
    (void)state;
    const double forward[] = {1, 3, 1}, backward[] = {1, 3, 1};
    double time = rungi_pipeline_makespan(RUNGI_PIPELINE_1F1B, 3, 10, 10, forward, backward);
    assert_near(time, 1 + 10 * 6 + 1, 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pass_once_and_in_order),
        cmocka_unit_test(accumulated_batches),
        cmocka_unit_test(idle_share_is_the_bubble),
        cmocka_unit_test(unequal_stages),
    };
    return RUN_TESTS(tests);
}
