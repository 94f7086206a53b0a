// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
// The parameter server on threads: orders of events are forced by counters, never by time.
#include "testing.h"

#include <sched.h>
#include <stdatomic.h>

#include "base/context.h"
#include "base/fake_clock.h"
#include "comm/param_server_testing.h"
#include "comm/rank_threads.h"

static const int64_t SECOND = 1000000000;

enum { WORKERS = 4 };

typedef struct job {
    quadratic q;
    int phases;
    quadratic_result results[WORKERS];
} job;

static rung_status run_worker(rungi_comm *comm, void *arg)
{
    job *j = arg;
    return quadratic_run(comm, &j->q, j->phases, &j->results[rungi_comm_rank(comm)]);
}

// ---- convergence ------------------------------------------------------------------------------

// Every worker's pushes count, all end with the same weights, and those are as near to the optimum
// as the bound of staleness promises; for 1, 2 and 3 servers of 3 workers, over two phases.
static void it_converges_within_the_bound(void **state)
{
    (void)state;
    for (int servers = 1; servers <= 3; servers++) {
        static job j;
        j = (job){
            .q = {.servers = servers, .staleness = 1, .steps = 60, .rate = 0.1, .stop_at = -1},
            .phases = 2};
        assert_ok(rank_threads(3, &(rungi_comm_options){.timeout = 60 * SECOND}, run_worker, &j));
        assert_ok(quadratic_check(&j.q, 3, 3 * 60 * 2, &j.results[0]));
        for (int r = 0; r < 3; r++) {
            const rungi_ps_worker *w = &j.results[0].workers[r];
            assert_int_equal(j.results[r].updates, 3 * 60 * 2);
            assert_memory_equal(j.results[r].weights, j.results[0].weights,
                                sizeof j.results[0].weights);
            assert_int_equal(w->clock, 120);
            assert_int_equal(w->pushes, 120);
            assert_int_equal(w->samples, 240);
            assert_int_equal(w->staleness.count, 120);
            assert_true(w->ahead.most <= 1);
            assert_true(w->staleness.most <= 2 * 3);
        }
    }
}

// ---- turns ------------------------------------------------------------------------------------

// One step at a time, the workers in order: what asynchronous pushes give is certain then.
static void wait_for_turn(void *user, int worker, int64_t step)
{
    atomic_long *turn = user;
    while (atomic_load(turn) != step * 3 + worker)
        sched_yield();
}

static rung_status run_in_turn(rungi_comm *comm, void *arg)
{
    job *j = arg;
    quadratic_result *r = &j->results[rungi_comm_rank(comm)];
    quadratic_servers v = {.servers = j->q.servers};
    atomic_long *turn = j->q.user;
    rungi_ps_setup setup = {comm, QUADRATIC_SIZE, j->q.servers, 1, -1, quadratic_update, &v};
    RUNG_TRY(rungi_ps_create(&setup, &v.ps));
    memset(r->weights, 0, sizeof r->weights);
    RUNG_TRY(rungi_ps_open(v.ps, r->weights, 0));
    for (int64_t i = 0; i < j->q.steps; i++) {
        bool go;
        j->q.before(turn, rungi_comm_rank(comm), i);
        RUNG_TRY(rungi_ps_begin(v.ps, false, &go));
        RUNG_TRY(quadratic_step(v.ps, &j->q, 1, r->weights));
        atomic_fetch_add(turn, 1);
    }
    RUNG_TRY(rungi_ps_meet(v.ps, r->weights));
    rungi_ps_destroy(&v.ps);
    return RUNG_OK;
}

// Two and three servers give the bits of one, and those of the same updates one after another.
static void servers_do_not_show(void **state)
{
    (void)state;
    float expected[QUADRATIC_SIZE] = {0};
    for (int k = 0; k < 3 * 20; k++)
        for (int64_t i = 0; i < QUADRATIC_SIZE; i++)
            expected[i] -= (float)(0.07 * 1) * (expected[i] - quadratic_target(i));
    for (int servers = 1; servers <= 3; servers++) {
        static job j;
        atomic_long turn = 0;
        j = (job){.q = {.servers = servers,
                        .steps = 20,
                        .rate = 0.07,
                        .before = wait_for_turn,
                        .user = &turn}};
        assert_ok(rank_threads(3, &(rungi_comm_options){.timeout = 60 * SECOND}, run_in_turn, &j));
        for (int r = 0; r < 3; r++)
            for (int64_t i = 0; i < QUADRATIC_SIZE; i++)
                assert_near(j.results[r].weights[i], expected[i], 1e-5);
        static float first[QUADRATIC_SIZE];
        if (servers == 1)
            memcpy(first, j.results[0].weights, sizeof first);
        assert_memory_equal(j.results[2].weights, first, sizeof first);
    }
}

// ---- the bound --------------------------------------------------------------------------------

// Worker 1 is held up until worker 0 can go no further: N + 1 steps ahead, or at its end.
typedef struct chase {
    int64_t bound, steps;
    atomic_long first; // steps that worker 0 has begun
    bool exceeded;
} chase;

static void chase_step(void *user, int worker, int64_t step)
{
    chase *c = user;
    if (worker == 0) {
        atomic_store(&c->first, step + 1); // it has done `step`, and asks for one more
        return;
    }
    int64_t ahead = c->bound < 0 ? c->steps : c->bound + 1;
    int64_t last = step + ahead + 1 < c->steps ? step + ahead + 1 : c->steps;
    while (atomic_load(&c->first) < last)
        sched_yield();
    c->exceeded |= atomic_load(&c->first) > last;
}

static void the_bound_holds(void **state)
{
    (void)state;
    static const int64_t bounds[] = {0, 1, 3, -1};
    for (int i = 0; i < 4; i++) {
        static job j;
        chase c = {.bound = bounds[i], .steps = 12};
        j = (job){.q = {.servers = 2,
                        .staleness = bounds[i],
                        .steps = c.steps,
                        .rate = 0.05,
                        .before = chase_step,
                        .user = &c,
                        .stop_at = -1},
                  .phases = 1};
        assert_ok(rank_threads(2, &(rungi_comm_options){.timeout = 60 * SECOND}, run_worker, &j));
        const rungi_ps_worker *w = j.results[0].workers;
        assert_false(c.exceeded);
        // It was reached, so it is what held worker 0 back; without one it got to its end at once.
        if (bounds[i] < 0)
            assert_true(w[0].ahead.most >= c.steps - 2);
        else
            assert_int_equal(w[0].ahead.most, bounds[i]);
        assert_int_equal(w[1].ahead.most, 0);
        assert_true(w[1].staleness.most <= (bounds[i] < 0 ? c.steps : 2 * bounds[i] + 1));
    }
}

// ---- ends -------------------------------------------------------------------------------------

// One worker asks to stop: it does one more step, and all end at the same clock.
static void all_stop_together(void **state)
{
    (void)state;
    static job j;
    j = (job){.q = {.servers = 2, .staleness = -1, .steps = 1000, .rate = 0.01, .stop_at = 5},
              .phases = 1};
    assert_ok(rank_threads(3, &(rungi_comm_options){.timeout = 60 * SECOND}, run_worker, &j));
    assert_true(j.results[2].steps >= 6);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(j.results[r].steps, j.results[0].steps);
        assert_int_equal(j.results[0].workers[r].clock, j.results[0].steps);
    }
}

static rung_status fail_in_step(rungi_comm *comm, void *arg)
{
    const job *j = arg;
    quadratic_result *r = calloc(1, sizeof *r);
    quadratic_servers v = {.servers = j->q.servers};
    rungi_ps_setup setup = {comm, QUADRATIC_SIZE, j->q.servers, 1, 0, quadratic_update, &v};
    bool go;
    RUNG_CHECK(r, RUNG_NO_MEMORY, "no memory");
    rung_status status = rungi_ps_create(&setup, &v.ps);
    if (status == RUNG_OK)
        status = rungi_ps_open(v.ps, r->weights, 0);
    for (int i = 0; status == RUNG_OK && i < 5; i++) {
        status = rungi_ps_begin(v.ps, false, &go);
        if (status == RUNG_OK && i == 2 && rungi_comm_rank(comm) == 1)
            status = RUNG_FAIL(RUNG_DATA, "sample 7 cannot be read");
        if (status == RUNG_OK)
            status = quadratic_step(v.ps, &j->q, 1, r->weights);
    }
    free(r);
    rung_error error = *rung_error_last();
    if (status != RUNG_OK)
        rungi_comm_fail(comm); // before its memory goes
    rungi_ps_destroy(&v.ps);
    return status == RUNG_OK ? status : rungi_fail_adopt(&error);
}

// A worker that fails, and with it the server that lives there, is told to those that wait.
static void a_failing_worker_is_named(void **state)
{
    (void)state;
    job j = {.q = {.servers = 2, .rate = 0.1}};
    rank_thread threads[2];
    assert_ok(rank_threads_start(threads, 2, &(rungi_comm_options){.timeout = 60 * SECOND},
                                 fail_in_step, &j));
    rank_threads_join(threads, 2);
    assert_int_equal(threads[1].status, RUNG_DATA);
    assert_int_equal(threads[0].status, RUNG_CANCELLED);
    if (!strstr(threads[0].error.message, "rank 1 failed: sample 7 cannot be read"))
        fail_msg("%s", threads[0].error.message);
}

// ---- deadlines --------------------------------------------------------------------------------

typedef struct late {
    rungi_fake_clock *fake;
    atomic_bool told; // worker 0 has its error
} late;

// Each step of worker 1 takes nine tenths of the deadline, all together many times as long.
static void take_long(void *user, int worker, int64_t step)
{
    late *l = user;
    (void)step;
    if (worker == 1)
        rungi_fake_clock_advance(l->fake, 9 * SECOND / 10);
}

static void a_slow_worker_gets_on(void **state)
{
    (void)state;
    static job j;
    rungi_fake_clock fake;
    rung_context *context;
    rungi_fake_clock_init(&fake, true);
    assert_ok(rung_context_create(&(rung_context_options){.clock = &fake.clock}, &context));
    late l = {.fake = &fake};
    j = (job){.q = {.servers = 1,
                    .staleness = -1,
                    .steps = 30,
                    .rate = 0.01,
                    .before = take_long,
                    .user = &l,
                    .stop_at = -1},
              .phases = 1};
    rungi_comm_options o = {.context = context, .timeout = SECOND};
    assert_ok(rank_threads(2, &o, run_worker, &j));
    rung_context_destroy(&context);
    rungi_fake_clock_fini(&fake);
}

static rung_status stand_still(rungi_comm *comm, void *arg)
{
    late *l = arg;
    static float weights[2][QUADRATIC_SIZE];
    int rank = rungi_comm_rank(comm);
    quadratic q = {.servers = 1, .rate = 0.1};
    quadratic_servers v = {.servers = 1};
    rungi_ps_setup setup = {comm, QUADRATIC_SIZE, 1, 1, 1, quadratic_update, &v};
    bool go;
    RUNG_TRY(rungi_ps_create(&setup, &v.ps));
    RUNG_TRY(rungi_ps_open(v.ps, weights[rank], 0));
    rung_status status = RUNG_OK;
    while (rank == 1 && !atomic_load(&l->told)) {
        rungi_fake_clock_advance(l->fake, SECOND / 10);
        sched_yield();
    }
    for (int i = 0; status == RUNG_OK && i < 5; i++) {
        status = rungi_ps_begin(v.ps, false, &go);
        if (status == RUNG_OK)
            status = quadratic_step(v.ps, &q, 1, weights[rank]);
    }
    atomic_store(&l->told, true);
    rung_error error = *rung_error_last();
    rungi_ps_destroy(&v.ps);
    return rungi_fail_adopt(&error);
}

// One that does not get on at all is named when the time is up.
static void a_worker_that_stands_still_is_named(void **state)
{
    (void)state;
    rungi_fake_clock fake;
    rung_context *context;
    rungi_fake_clock_init(&fake, true);
    assert_ok(rung_context_create(&(rung_context_options){.clock = &fake.clock}, &context));
    late l = {.fake = &fake};
    rungi_comm_options o = {.context = context, .timeout = 10 * SECOND};
    assert_fails(RUNG_TIMEOUT, "\"staleness bound\": rank 0 waited",
                 rank_threads(2, &o, stand_still, &l));
    assert_non_null(strstr(rung_error_last()->message, "missing: 1"));
    rung_context_destroy(&context);
    rungi_fake_clock_fini(&fake);
}

static rung_status make_too_many(rungi_comm *comm, void *arg)
{
    rungi_ps *ps;
    rungi_ps_setup setup = {comm, 100, 3, 0, -1, quadratic_update, arg};
    return rungi_ps_create(&setup, &ps);
}

static void impossible_counts_are_refused(void **state)
{
    (void)state;
    assert_fails(RUNG_INVALID, "3 servers for 2 ranks",
                 rank_threads(2, &(rungi_comm_options){.timeout = SECOND}, make_too_many, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_converges_within_the_bound),
        cmocka_unit_test(servers_do_not_show),
        cmocka_unit_test(the_bound_holds),
        cmocka_unit_test(all_stop_together),
        cmocka_unit_test(a_failing_worker_is_named),
        cmocka_unit_test(a_slow_worker_gets_on),
        cmocka_unit_test(a_worker_that_stands_still_is_named),
        cmocka_unit_test(impossible_counts_are_refused),
    };
    return RUN_TESTS(tests);
}
