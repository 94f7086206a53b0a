// SPDX-License-Identifier: Apache-2.0
// What a worker asks of the scheduler and the servers: in place on one machine.
#include <stdlib.h>

#include "base/error.h"
#include "comm/param_server_inside.h"

// Something that is done under a lock, once it can be had and the scheduler allows it.
typedef struct turn {
    rungi_ps *ps;
    rungi_word *lock;
    bool begin, stop; // of rungi_ps_begin: ask for a step
    rungi_ps_answer answer;
} turn;

static bool touch(const rungi_ps *ps)
{
    return rungi_comm_touch_begin(ps->o.comm);
}

static void let_go(const rungi_ps *ps)
{
    rungi_comm_touch_end(ps->o.comm);
}

// Gives a lock back.
static void leave(const rungi_ps *ps, rungi_word *word)
{
    rungi_ps_release(word);
    let_go(ps);
}

// Tries to get a lock; it is held, and memory touched, until `leave`.
static bool enter(const rungi_ps *ps, rungi_word *word)
{
    if (!touch(ps))
        return false;
    if (rungi_ps_try(ps, word))
        return true;
    let_go(ps);
    return false;
}

// A number that changes when workers get on.
static int64_t steps_of_all(const rungi_ps *ps)
{
    const rungi_ps_scheduler *s = rungi_ps_scheduler_of(ps);
    int64_t sum = 0;
    for (int w = 0; s && w < ps->ranks; w++)
        sum += rungi_ps_get(&s->workers[w].clock) + rungi_ps_get(&s->workers[w].begun);
    return sum;
}

// Gets the lock; with `begin` keeps it only for as long as the question takes.
static rung_status take_turn(void *user, bool *met_out)
{
    turn *t = user;
    rungi_ps *ps = t->ps;
    RUNG_TRY(rungi_ps_serve(ps));
    if (!enter(ps, t->lock))
        return RUNG_OK;
    *met_out = true;
    if (t->begin) {
        t->answer =
            rungi_ps_schedule(rungi_ps_scheduler_of(ps), &ps->o, ps->ranks, ps->rank, t->stop);
        leave(ps, t->lock);
        *met_out = t->answer != RUNGI_PS_WAIT;
    }
    return RUNG_OK;
}

// A lock's holder is missing; of a step, those that are too far behind.
static int64_t turn_missing(void *user, bool *missing)
{
    const turn *t = user;
    const rungi_ps *ps = t->ps;
    if (!touch(ps))
        return 0;
    int64_t holder = rungi_ps_get(t->lock) - 1, steps = steps_of_all(ps);
    if (holder >= 0 && holder != ps->rank)
        missing[holder] = true;
    const rungi_ps_scheduler *s = rungi_ps_scheduler_of(ps);
    for (int w = 0; t->begin && w < ps->ranks; w++)
        missing[w] |= ps->clock - rungi_ps_get(&s->workers[w].clock) > ps->o.staleness;
    let_go(ps);
    return steps;
}

static rung_status lock(rungi_ps *ps, rungi_word *word, const char *label)
{
    turn t = {.ps = ps, .lock = word};
    return rungi_comm_await(ps->o.comm, label,
                            &(rungi_comm_condition){&t, take_turn, turn_missing});
}

rung_status rungi_ps_begin(rungi_ps *ps, bool stop, bool *go_out)
{
    rungi_ps_scheduler *s = rungi_ps_scheduler_of(ps);
    if (!s)
        return rungi_ps_remote_begin(ps, stop, go_out);
    turn t = {.ps = ps, .lock = &s->lock, .begin = true, .stop = stop};
    RUNG_TRY(rungi_comm_await(ps->o.comm, "staleness bound",
                              &(rungi_comm_condition){&t, take_turn, turn_missing}));
    *go_out = t.answer == RUNGI_PS_GO;
    return RUNG_OK;
}

// Server number i of this worker's round: workers begin at different ones.
static int nth_server(const rungi_ps *ps, int i)
{
    return (ps->rank + i) % ps->o.servers;
}

rung_status rungi_ps_pull(rungi_ps *ps, float *params)
{
    for (int i = 0; i < ps->o.servers; i++) {
        int s = nth_server(ps, i);
        rungi_ps_block *block = rungi_ps_block_of(ps, s);
        float *out = params + rungi_ps_range_of(ps, s).begin;
        if (!block) {
            RUNG_TRY(rungi_ps_remote_pull(ps, s, out));
            continue;
        }
        RUNG_TRY(lock(ps, &block->server.lock, "pull"));
        rungi_ps_copy(ps, s, out);
        leave(ps, &block->server.lock);
    }
    return RUNG_OK;
}

static rung_status push_to(rungi_ps *ps, int s, const float *grads, const rungi_ps_terms *terms)
{
    rungi_ps_block *block = rungi_ps_block_of(ps, s);
    if (!block)
        return rungi_ps_remote_push(ps, s, grads, terms);
    RUNG_TRY(lock(ps, &block->server.lock, "push"));
    rung_status status = rungi_ps_apply(ps, s, grads, terms);
    leave(ps, &block->server.lock);
    return status;
}

static rung_status count_step(rungi_ps *ps, bool pushed, int64_t samples)
{
    rungi_ps_scheduler *s = rungi_ps_scheduler_of(ps);
    if (!s)
        return rungi_ps_remote_count(ps, pushed, samples);
    RUNG_TRY(lock(ps, &s->lock, "scheduler"));
    rungi_ps_count(s, ps->rank, pushed, samples);
    leave(ps, &s->lock);
    return RUNG_OK;
}

rung_status rungi_ps_push(rungi_ps *ps, const float *grads, const rungi_ps_terms *terms,
                          int64_t samples)
{
    for (int i = 0; grads && i < ps->o.servers; i++) {
        int s = nth_server(ps, i);
        RUNG_TRY(push_to(ps, s, grads + rungi_ps_range_of(ps, s).begin, terms));
    }
    RUNG_TRY(count_step(ps, grads != NULL, samples));
    ps->clock++;
    return RUNG_OK;
}

// ---- meeting ----------------------------------------------------------------------------------

static rung_status all_here(void *user, bool *met_out)
{
    rungi_ps *ps = user;
    RUNG_TRY(rungi_ps_serve(ps));
    if (touch(ps)) {
        *met_out = rungi_ps_all_at(rungi_ps_scheduler_of(ps), ps->ranks, ps->clock);
        let_go(ps);
    }
    return RUNG_OK;
}

static int64_t behind(void *user, bool *missing)
{
    const rungi_ps *ps = user;
    const rungi_ps_scheduler *s = rungi_ps_scheduler_of(ps);
    if (!touch(ps))
        return 0;
    for (int w = 0; w < ps->ranks; w++)
        missing[w] |= rungi_ps_get(&s->workers[w].clock) < ps->clock;
    int64_t steps = steps_of_all(ps);
    let_go(ps);
    return steps;
}

static rung_status wait_for_all(rungi_ps *ps)
{
    if (!rungi_ps_scheduler_of(ps))
        return rungi_ps_remote_wait(ps);
    return rungi_comm_await(ps->o.comm, "all workers",
                            &(rungi_comm_condition){ps, all_here, behind});
}

static int64_t read_updates(const rungi_ps *ps)
{
    int64_t updates = -1;
    if (!touch(ps))
        return updates;
    for (int s = 0; s < ps->o.servers && updates < 0; s++)
        if (rungi_ps_is_near(ps, s))
            updates = rungi_ps_get(&rungi_ps_block_of(ps, s)->server.updates);
    let_go(ps);
    return updates;
}

rung_status rungi_ps_meet(rungi_ps *ps, float *params)
{
    RUNG_TRY(wait_for_all(ps));
    RUNG_TRY(rungi_ps_pull(ps, params));
    if (ps->remote)
        RUNG_TRY(rungi_ps_remote_close(ps));
    ps->updates = read_updates(ps);
    RUNG_TRY(rungi_comm_barrier(ps->o.comm, "workers have met"));
    ps->open = false;
    return RUNG_OK;
}
