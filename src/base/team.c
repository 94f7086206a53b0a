// SPDX-License-Identifier: Apache-2.0
#include "base/team.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cores.h"
#include "base/error.h"

enum { SPINS = 4000 }; // looks at a flag before sleeping: some ten microseconds

typedef struct member {
    rungi_team *team;
    pthread_t thread;
    rung_status status;
    rung_error error;
} member;

struct rungi_team {
    int size, started;
    bool spin; // there is a core for each member
    member *members;
    rungi_team_fn fn;
    void *arg;
    atomic_uint round;   // rises with each call; UINT_MAX ends the team
    atomic_int finished; // members done with this round
    pthread_mutex_t lock;
    pthread_cond_t called, done;
};

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

// Waits until the round is no longer `seen`.
static unsigned next_round(rungi_team *t, unsigned seen)
{
    unsigned round;
    for (int i = 0; t->spin && i < SPINS; i++) {
        round = atomic_load_explicit(&t->round, memory_order_acquire);
        if (round != seen)
            return round;
        relax();
    }
    pthread_mutex_lock(&t->lock);
    while ((round = atomic_load(&t->round)) == seen)
        pthread_cond_wait(&t->called, &t->lock);
    pthread_mutex_unlock(&t->lock);
    return round;
}

static void *member_main(void *arg)
{
    member *m = arg;
    rungi_team *t = m->team;
    unsigned seen = 0;
    rungi_cores_unbind();
    for (;;) {
        seen = next_round(t, seen);
        if (seen == UINT32_MAX)
            return NULL;
        m->status = t->fn(t->arg, (int)(m - t->members));
        if (m->status != RUNG_OK)
            m->error = *rung_error_last();
        if (atomic_fetch_add(&t->finished, 1) + 1 == t->size - 1) {
            pthread_mutex_lock(&t->lock);
            pthread_cond_signal(&t->done);
            pthread_mutex_unlock(&t->lock);
        }
    }
}

rung_status rungi_team_create(int size, rungi_team **team_out)
{
    rungi_team *t = calloc(1, sizeof *t);
    RUNG_CHECK(t, RUNG_NO_MEMORY, "no memory for a team of threads");
    t->size = size;
    t->members = calloc((size_t)size, sizeof *t->members);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->called, NULL);
    pthread_cond_init(&t->done, NULL);
    t->spin = rungi_core_count() >= size;
    t->started = 1;
    for (int i = 1; t->members && i < size; i++) {
        t->members[i].team = t;
        if (pthread_create(&t->members[i].thread, NULL, member_main, &t->members[i]) != 0)
            break;
        t->started++;
    }
    if (!t->members || t->started < size) {
        rungi_team_destroy(&t);
        return RUNG_FAIL(RUNG_NO_MEMORY, "cannot start %d threads", size - 1);
    }
    *team_out = t;
    return RUNG_OK;
}

static void begin_round(rungi_team *t, unsigned round)
{
    pthread_mutex_lock(&t->lock);
    atomic_store_explicit(&t->round, round, memory_order_release);
    pthread_cond_broadcast(&t->called);
    pthread_mutex_unlock(&t->lock);
}

void rungi_team_destroy(rungi_team **team)
{
    if (!team || !*team)
        return;
    rungi_team *t = *team;
    begin_round(t, UINT32_MAX);
    for (int i = 1; i < t->started; i++)
        pthread_join(t->members[i].thread, NULL);
    pthread_cond_destroy(&t->called);
    pthread_cond_destroy(&t->done);
    pthread_mutex_destroy(&t->lock);
    free(t->members);
    free(t);
    *team = NULL;
}

int rungi_team_size(const rungi_team *team)
{
    return team->size;
}

static void wait_for_others(rungi_team *t)
{
    for (int i = 0; t->spin && i < SPINS; i++) {
        if (atomic_load_explicit(&t->finished, memory_order_acquire) == t->size - 1)
            return;
        relax();
    }
    pthread_mutex_lock(&t->lock);
    while (atomic_load(&t->finished) != t->size - 1)
        pthread_cond_wait(&t->done, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

rung_status rungi_team_run(rungi_team *t, rungi_team_fn fn, void *arg)
{
    if (t->size == 1)
        return fn(arg, 0);
    t->fn = fn;
    t->arg = arg;
    atomic_store(&t->finished, 0);
    unsigned round = atomic_load(&t->round) + 1;
    begin_round(t, round == UINT32_MAX ? 1 : round);
    rung_status status = fn(arg, 0);
    rung_error own = *rung_error_last();
    wait_for_others(t);
    for (int i = 1; i < t->size && status == RUNG_OK; i++)
        if (t->members[i].status != RUNG_OK)
            return rungi_fail_adopt(&t->members[i].error);
    return status == RUNG_OK ? RUNG_OK : rungi_fail_adopt(&own);
}
