// SPDX-License-Identifier: Apache-2.0
// The life of a call: entered, carried on while its rank is inside of any call, waited for.
//
// A wait first spins, then gives its core away again and again, then sleeps a little at a time.
// Where ranks are more than cores it gives the core away at once. Deadlines are those of the
// context's clock; the waits between looks at it are real.
#include <sched.h>
#include <time.h>

#include "base/context.h"
#include "base/error.h"
#include "comm/comm_inside.h"

#if defined(__x86_64__)
#    include <immintrin.h>
#endif

static int64_t now_of(const rungi_comm *comm)
{
    return comm->clock->now(comm->clock->user);
}

// ---- carrying on ------------------------------------------------------------------------------

static void leave_active(rungi_comm *comm, const rungi_comm_call *call)
{
    int kept = 0;
    for (int i = 0; i < comm->active_count; i++)
        if (&comm->calls[comm->active[i]] != call)
            comm->active[kept++] = comm->active[i];
    comm->active_count = kept;
}

// A call whose result is there: it is done once the injected link has had its time.
static void land(rungi_comm *comm, rungi_comm_call *call)
{
    if (call->ended == 0) {
        call->ended = call->landed = now_of(comm);
        double delay = (double)comm->delay + comm->delay_byte * (double)call->what.bytes;
        if (delay > 0) {
            int64_t from = comm->link_free > call->ended ? comm->link_free : call->ended;
            call->ended = comm->link_free = from + (int64_t)delay;
        }
        if (delay > 0 && now_of(comm) < call->ended)
            return;
    } else if (now_of(comm) < call->ended) {
        return;
    }
    call->state = RUNGI_COMM_DONE;
    rungi_recorder_change(&comm->recorder, call->number, RUNGI_CALL_DONE, call->ended);
    leave_active(comm, call);
}

static rung_status advance(rungi_comm *comm, rungi_comm_call *call)
{
    if (call->state == RUNGI_COMM_MOVING)
        RUNG_TRY(comm->transport->advance(comm, call));
    if (call->state == RUNGI_COMM_LANDED)
        land(comm, call);
    return RUNG_OK;
}

rung_status rungi_comm_advance_all(rungi_comm *comm)
{
    for (int i = 0; i < comm->active_count;) {
        int index = comm->active[i];
        RUNG_TRY(advance(comm, &comm->calls[index]));
        i += i < comm->active_count && comm->active[i] == index;
    }
    return RUNG_OK;
}

// ---- waiting ----------------------------------------------------------------------------------

enum {
    SPINS = 2000,        // some 50 us
    YIELDS_LOOK = 64,    // yields between looks at the clock
    SLEEP_FIRST = 50000, // nanoseconds
    SLEEP_MOST = 500000, // nanoseconds
};

// A wait: how long it has been going, and what it does next.
typedef struct waiter {
    const rungi_comm_condition *condition; // what it is for; NULL: the call's end
    int64_t progress;                      // of the condition, at the last look
    int64_t spins, looks;
    int64_t last;        // clock at the last look; INT64_MIN: none yet
    int64_t waited;      // of the deadline
    int64_t waited_busy; // while a missing rank was busy
    int64_t real_begin;  // system's clock at the first look
    int64_t sleep;
    uint64_t moved; // bytes that this rank had moved at the last look
} waiter;

static void relax(void)
{
#if defined(__x86_64__)
    _mm_pause();
#endif
}

// Who is missing. True: those have got on since this was last asked.
static bool find_missing(rungi_comm *comm, const rungi_comm_call *call, waiter *w,
                         rungi_comm_presence *out)
{
    *out = (rungi_comm_presence){.count = 0};
    if (!w->condition) {
        comm->transport->presence(comm, call, out);
        return false;
    }
    int64_t progress = w->condition->missing(w->condition->user, out->missing);
    for (int rank = 0; rank < comm->size; rank++)
        out->count += out->missing[rank];
    bool gets_on = progress != w->progress;
    w->progress = progress;
    return gets_on;
}

// Is one of the missing ranks at work of its own? Fails when one will never come.
static rung_status look_at_missing(rungi_comm *comm, const rungi_comm_call *call, waiter *w,
                                   const rungi_comm_presence *presence, bool *busy_out)
{
    rungi_comm_presence again;
    *busy_out = false;
    for (int rank = 0; rank < comm->size; rank++) {
        char why[256], what[RUNGI_COMM_TEXT];
        if (!presence->missing[rank])
            continue;
        if (comm->transport->gone(comm, rank, why, sizeof why)) {
            // It may have done its part, and then left, since the call was last advanced.
            RUNG_TRY(rungi_comm_advance_all(comm));
            find_missing(comm, call, w, &again);
            if (call->state != RUNGI_COMM_MOVING || !again.missing[rank])
                continue;
            return rungi_comm_break(comm, RUNG_CANCELLED, "rank %d %s; rank %d waits for it in %s",
                                    rank, why, comm->rank,
                                    rungi_comm_text(&call->what, what, sizeof what));
        }
        const rungi_word *words = comm->transport->recorder(comm, rank);
        *busy_out |= words && rungi_recorder_state_of(words) == RUNGI_RANK_BUSY;
    }
    return RUNG_OK;
}

// Looks at the clock and at those that are missing.
static rung_status look(rungi_comm *comm, const rungi_comm_call *call, waiter *w)
{
    int64_t now = now_of(comm), passed = w->last == INT64_MIN ? 0 : now - w->last;
    w->last = now;
    if (call->state != RUNGI_COMM_MOVING)
        return RUNG_OK;
    rungi_comm_presence presence;
    if (find_missing(comm, call, w, &presence))
        w->waited = w->waited_busy = passed = 0;
    if (presence.count == 0)
        return RUNG_OK;
    bool busy;
    RUNG_TRY(look_at_missing(comm, call, w, &presence, &busy));
    *(busy ? &w->waited_busy : &w->waited) += passed;
    int64_t patience = call->patience > 1 ? call->patience : 1;
    if (w->waited / patience < comm->timeout && w->waited_busy < comm->busy_timeout)
        return RUNG_OK;
    // It may have come just now.
    if (find_missing(comm, call, w, &presence))
        w->waited = w->waited_busy = 0;
    else if (presence.count)
        return rungi_comm_time_out(comm, call, &presence, w->waited + w->waited_busy);
    return RUNG_OK;
}

// Real nanoseconds that a wait gives its core away before it sleeps.
static int64_t yield_time(const rungi_comm *comm)
{
    return comm->crowded ? 1000000 : 20000000;
}

static rung_status pause_wait(rungi_comm *comm, const rungi_comm_call *call, waiter *w)
{
    const rung_clock *real = rungi_clock_monotonic();
    if (w->spins++ < (comm->crowded ? 10 : SPINS)) {
        relax();
        return RUNG_OK;
    }
    if (w->real_begin == 0)
        w->real_begin = real->now(real->user);
    if (w->sleep == 0) {
        sched_yield();
        if (w->looks++ % YIELDS_LOOK)
            return RUNG_OK;
        if (real->now(real->user) - w->real_begin > yield_time(comm))
            w->sleep = SLEEP_FIRST;
    } else {
        struct timespec t = {0, w->sleep};
        if (call->state == RUNGI_COMM_LANDED)
            t.tv_nsec = SLEEP_FIRST; // its end is known, come back in time
        nanosleep(&t, NULL);
        w->sleep += w->sleep / 4;
        if (w->sleep > SLEEP_MOST)
            w->sleep = SLEEP_MOST;
    }
    return look(comm, call, w);
}

enum { LARGE = 1 << 16 }; // bytes from which on a call looks at the clock in between

void rungi_comm_met(const rungi_comm *comm, rungi_comm_call *call)
{
    if (!call->met && call->what.bytes >= LARGE)
        call->met = now_of(comm);
}

void rungi_comm_worked(const rungi_comm *comm, rungi_comm_call *call)
{
    if (call->what.bytes >= LARGE)
        call->worked = now_of(comm);
}

static int64_t since(int64_t begin, int64_t from, int64_t end)
{
    begin = begin > from ? begin : from;
    return end > begin ? end - begin : 0;
}

// Adds what a call that is done took this rank since `from`, but for waiting for others.
static void count_link(rungi_comm *comm, const rungi_comm_call *call, int64_t from)
{
    if (call->met)
        comm->link_time += since(call->met, from, call->worked);
    comm->link_time += since(call->landed, from, call->ended);
}

// Data comes in: the rank stays awake, and its time does not count.
static void note_progress(const rungi_comm *comm, waiter *w)
{
    if (comm->moved == w->moved)
        return;
    w->moved = comm->moved;
    w->last = INT64_MIN;
    w->spins = w->real_begin = w->sleep = 0;
}

rung_status rungi_comm_call_wait(rungi_comm *comm, rungi_comm_call *call)
{
    waiter w = {.last = INT64_MIN, .moved = comm->moved};
    while (call->state != RUNGI_COMM_DONE) {
        if (comm->broken || comm->transport->broken(comm))
            return rungi_comm_adopt(comm);
        RUNG_TRY(rungi_comm_advance_all(comm));
        note_progress(comm, &w);
        if (call->state != RUNGI_COMM_DONE)
            RUNG_TRY(pause_wait(comm, call, &w));
    }
    return RUNG_OK;
}

rung_status rungi_comm_await(rungi_comm *comm, const char *label,
                             const rungi_comm_condition *condition)
{
    waiter w = {.condition = condition, .progress = INT64_MIN, .last = INT64_MIN};
    rungi_comm_call call = {
        .what = {.kind = RUNGI_COMM_AWAIT, .dtype = RUNG_U8, .peer = -1, .label = label},
        .state = RUNGI_COMM_MOVING};
    for (;;) {
        bool met = false;
        if (comm->broken || comm->transport->broken(comm))
            return rungi_comm_adopt(comm);
        RUNG_TRY(rungi_comm_advance_all(comm));
        RUNG_TRY(condition->met(condition->user, &met));
        if (met)
            break;
        if (!call.number)
            call.number =
                rungi_recorder_begin(&comm->recorder, &call.what, RUNGI_CALL_WAITING, now_of(comm));
        RUNG_TRY(pause_wait(comm, &call, &w));
    }
    if (call.number)
        rungi_recorder_change(&comm->recorder, call.number, RUNGI_CALL_DONE, now_of(comm));
    return RUNG_OK;
}

// ---- entering and leaving ---------------------------------------------------------------------

static bool is_pair(const rungi_comm_call *call)
{
    return call->what.kind == RUNGI_COMM_SEND || call->what.kind == RUNGI_COMM_RECEIVE;
}

// Waits for calls that are too old to be under way beside the next one.
static rung_status end_old_calls(rungi_comm *comm)
{
    for (int i = 0; i < comm->active_count;) {
        rungi_comm_call *old = &comm->calls[comm->active[i]];
        bool too_old = !is_pair(old) && old->what.sequence + RUNGI_COMM_AHEAD <= comm->sequence + 1;
        if (too_old)
            RUNG_TRY(rungi_comm_call_wait(comm, old));
        i = too_old ? 0 : i + 1;
    }
    return RUNG_OK;
}

static rung_status enter(rungi_comm *comm, const rungi_comm_call *call, rungi_call_state state,
                         int limit, rungi_comm_call **call_out)
{
    if (comm->broken || comm->transport->broken(comm))
        return rungi_comm_adopt(comm);
    if (!is_pair(call) && comm->active_count > 0)
        RUNG_TRY(end_old_calls(comm));
    int index = 0;
    while (index < limit && comm->calls[index].state != RUNGI_COMM_FREE)
        index++;
    RUNG_CHECK(index < limit, RUNG_INVALID, "%s: %d calls are under way, finish some first",
               call->what.label, RUNGI_COMM_STARTED);
    rungi_comm_call *entered = &comm->calls[index];
    *entered = *call;
    entered->state = RUNGI_COMM_MOVING;
    entered->act = call->what.kind;
    entered->root = call->what.peer;
    switch (call->what.kind) {
    case RUNGI_COMM_SEND:
        entered->what.sequence = ++comm->sent[call->what.peer];
        break;
    case RUNGI_COMM_RECEIVE:
        entered->what.sequence = ++comm->received[call->what.peer];
        break;
    default:
        entered->what.sequence = ++comm->sequence;
    }
    entered->started = now_of(comm);
    entered->number =
        rungi_recorder_begin(&comm->recorder, &entered->what, state, entered->started);
    comm->active[comm->active_count++] = index;
    *call_out = entered;
    return RUNG_OK;
}

rung_status rungi_comm_call_run(rungi_comm *comm, const rungi_comm_call *call)
{
    rungi_comm_call *entered;
    RUNG_TRY(enter(comm, call, RUNGI_CALL_WAITING, RUNGI_COMM_CALLS, &entered));
    rung_status status = rungi_comm_call_wait(comm, entered);
    if (status == RUNG_OK)
        count_link(comm, entered, entered->started);
    entered->state = RUNGI_COMM_FREE;
    return status;
}

rung_status rungi_comm_call_enter(rungi_comm *comm, const rungi_comm_call *call,
                                  rungi_comm_call **call_out)
{
    rungi_comm_call *entered;
    RUNG_TRY(enter(comm, call, RUNGI_CALL_STARTED, RUNGI_COMM_STARTED, &entered));
    rung_status status = rungi_comm_advance_all(comm);
    if (status == RUNG_OK)
        *call_out = entered;
    else
        entered->state = RUNGI_COMM_FREE;
    return status;
}

rung_status rungi_comm_progress(rungi_comm *comm)
{
    if (comm->broken || comm->transport->broken(comm))
        return rungi_comm_adopt(comm);
    return rungi_comm_advance_all(comm);
}

bool rungi_comm_done(rungi_comm *comm, const rungi_comm_call *call)
{
    rungi_comm_call *own = &comm->calls[call - comm->calls];
    if (own->state == RUNGI_COMM_LANDED)
        land(comm, own);
    return own->state == RUNGI_COMM_DONE;
}

rung_status rungi_comm_finish(rungi_comm *comm, rungi_comm_call **call, rungi_comm_times *times_out)
{
    rungi_comm_call *own = *call;
    *call = NULL;
    if (own->state != RUNGI_COMM_DONE && !comm->broken)
        rungi_recorder_change(&comm->recorder, own->number, RUNGI_CALL_WAITING, 0);
    int64_t from = now_of(comm);
    rung_status status = rungi_comm_call_wait(comm, own);
    if (status == RUNG_OK)
        count_link(comm, own, from);
    if (status == RUNG_OK && times_out)
        *times_out = (rungi_comm_times){own->started, own->ended,
                                        own->met ? own->met : own->started, own->what.bytes};
    own->state = RUNGI_COMM_FREE;
    return status;
}
