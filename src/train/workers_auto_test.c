// SPDX-License-Identifier: Apache-2.0
// When data.num_workers: auto has seen enough, on recorded curves.
#include "testing.h"

#include "train/workers_auto.h"

// Tries along a curve of samples/s and wait shares by trial; gives the choice.
static int choose(int cores, const double speed[], const double wait[], int *trials_out)
{
    rungi_trial trials[RUNGI_TRIALS_MAX];
    int count = 0, best = -1, next;
    while ((next = rungi_trials_next(trials, count, cores, &best)) >= 0) {
        trials[count] = (rungi_trial){
            .workers = next, .samples_per_s = speed[count], .wait_share = wait[count]};
        count++;
    }
    *trials_out = count;
    return trials[best].workers;
}

static void without_waiting_one_trial_is_enough(void **state)
{
    int trials;
    (void)state;
    assert_int_equal(choose(8, (double[]){4000}, (double[]){0.019}, &trials), 0);
    assert_int_equal(trials, 1);
}

static void goes_on_while_it_helps(void **state)
{
    int trials;
    (void)state;
    // 0, 1, 2, 4, and 8 no longer helps.
    const double speed[] = {500, 900, 1700, 3000, 3050}, wait[] = {0.8, 0.7, 0.5, 0.3, 0.3};
    assert_int_equal(choose(16, speed, wait, &trials), 4);
    assert_int_equal(trials, 5);
    // The wait is gone with 2.
    const double gone[] = {0.8, 0.3, 0.01};
    assert_int_equal(choose(16, speed, gone, &trials), 2);
    assert_int_equal(trials, 3);
}

static void more_workers_that_slow_are_not_chosen(void **state)
{
    int trials;
    (void)state;
    // With one worker nothing is waited for, but it takes a core from the network.
    const double speed[] = {1000, 800}, wait[] = {0.1, 0};
    assert_int_equal(choose(2, speed, wait, &trials), 0);
    assert_int_equal(trials, 2);
    // Within 2 %: the fewer.
    const double equal[] = {990, 1000};
    assert_int_equal(choose(2, equal, wait, &trials), 0);
}

// Storage that sleeps: workers above the cores help, up to the limit.
static void has_an_end(void **state)
{
    int trials;
    (void)state;
    const double speed[] = {100, 200, 400, 800, 1600, 3200, 6400}, wait[] = {1, 1, 1, 1, 1, 1, 1};
    assert_int_equal(choose(1, speed, wait, &trials), 4);
    assert_int_equal(trials, 4); // 0 1 2 4
    assert_int_equal(choose(6, speed, wait, &trials), 16);
    assert_int_equal(trials, 6); // ... 8 16
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_waiting_one_trial_is_enough),
        cmocka_unit_test(goes_on_while_it_helps),
        cmocka_unit_test(more_workers_that_slow_are_not_chosen),
        cmocka_unit_test(has_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
