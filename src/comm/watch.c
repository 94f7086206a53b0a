// SPDX-License-Identifier: Apache-2.0
#include "comm/watch.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/context.h"
#include "base/error.h"
#include "base/thread.h"
#include "comm/recorder_inside.h"

static const int64_t PERIOD = 100000000;  // of heartbeats
static const int64_t SILENCE = 300000000; // after which a process is looked at
static const int64_t GAP = 500000000;     // between looks: this process itself was stopped

// What is known of another rank.
typedef struct watched {
    uint64_t beat;
    int64_t since; // when that beat was first seen
} watched;

struct rungi_watch {
    const rungi_shm *shm;
    rungi_recorder *recorders;
    int first, own;
    int64_t stall;
    watched *others;
    rungi_thread thread;
    rungi_mutex mutex;
    rungi_cond wake;
    bool stop;
};

static int64_t now_real(void)
{
    const rung_clock *clock = rungi_clock_monotonic();
    return clock->now(clock->user);
}

static void tell(const rungi_watch *w, int index, const char *what, long long pid)
{
    char last[RUNGI_COMM_TEXT + 64];
    rung_error error = {.status = RUNG_CANCELLED};
    snprintf(error.message, sizeof error.message, "rank %d %s (process %lld); its last call: %s",
             rungi_shm_rank_of(w->shm, index), what, pid,
             rungi_recorder_last(w->recorders[index].words, last, sizeof last));
    rungi_shm_publish((rungi_shm *)w->shm, &error);
}

static void look_at(rungi_watch *w, int index, int64_t now)
{
    const rungi_word *words = w->recorders[index].words;
    watched *other = &w->others[index];
    uint64_t beat = recorder_get(&words[RECORDER_BEAT]);
    if (beat != other->beat) {
        other->beat = beat;
        other->since = now;
        return;
    }
    if (now - other->since < SILENCE || rungi_shm_left(w->shm, index))
        return;
    int64_t pid = (int64_t)recorder_get(&words[RECORDER_PID]);
    char state;
    int64_t began = rungi_process_began(pid, &state);
    bool other_process = began >= 0 && began != (int64_t)recorder_get(&words[RECORDER_BEGAN]);
    bool ended = other_process || state == 'Z' || state == 'X';
    if (ended && !rungi_shm_left(w->shm, index))
        tell(w, index, "has died", pid);
    else if ((state == 'T' || state == 't') && now - other->since >= w->stall)
        tell(w, index, "was stopped", pid);
}

static rung_status watch_main(void *arg)
{
    rungi_watch *w = arg;
    int64_t before = now_real();
    rungi_mutex_lock(&w->mutex);
    while (!w->stop) {
        for (int i = 0; i < w->own; i++)
            rungi_recorder_beat(&w->recorders[w->first + i]);
        int64_t now = now_real();
        bool gap = now - before > GAP;
        before = now;
        for (int i = 0; i < w->shm->size && !rungi_shm_broken(w->shm); i++) {
            if (i >= w->first && i < w->first + w->own)
                continue;
            if (gap)
                w->others[i].since = now; // what was not seen does not count
            look_at(w, i, now);
        }
        int64_t until = now + PERIOD;
        while (!w->stop &&
               rungi_cond_wait_until(&w->wake, &w->mutex, rungi_clock_monotonic(), until))
            continue;
    }
    rungi_mutex_unlock(&w->mutex);
    return RUNG_OK;
}

rung_status rungi_watch_start(const rungi_shm *shm, rungi_recorder *recorders, int first, int own,
                              int64_t stall, rungi_watch **watch_out)
{
    rungi_watch *w = calloc(1, sizeof *w);
    watched *others = calloc((size_t)shm->size, sizeof *others);
    if (!w || !others) {
        free(w);
        free(others);
        return RUNG_FAIL(RUNG_NO_MEMORY, "no memory to watch %d ranks", shm->size);
    }
    *w = (rungi_watch){.shm = shm,
                       .recorders = recorders,
                       .first = first,
                       .own = own,
                       .stall = stall,
                       .others = others};
    rungi_mutex_init(&w->mutex);
    rungi_cond_init(&w->wake);
    rung_status status = rungi_thread_start(&w->thread, "rung-watch", watch_main, w);
    if (status == RUNG_OK)
        *watch_out = w;
    else
        rungi_watch_stop(&w);
    return status;
}

void rungi_watch_stop(rungi_watch **watch)
{
    rungi_watch *w = *watch;
    if (!w)
        return;
    rungi_mutex_lock(&w->mutex);
    w->stop = true;
    rungi_cond_signal(&w->wake);
    rungi_mutex_unlock(&w->mutex);
    rungi_thread_join(&w->thread);
    rungi_mutex_fini(&w->mutex);
    rungi_cond_fini(&w->wake);
    free(w->others);
    free(w);
    *watch = NULL;
}
