// SPDX-License-Identifier: Apache-2.0
// A clock for tests: it stands still until it is advanced.
//
//   rungi_fake_clock fake;
//   rungi_fake_clock_init(&fake, false);
//   rung_context_create(&(rung_context_options){.clock = &fake.clock}, &context);
//   ... start what waits, then rungi_fake_clock_advance(&fake, 2000000000);
#ifndef RUNGI_BASE_FAKE_CLOCK_H
#define RUNGI_BASE_FAKE_CLOCK_H

#include "base/thread.h"

typedef struct rungi_fake_clock {
    rung_clock clock; // pass its address; valid until fini
    rungi_mutex mutex;
    rungi_cond changed;
    int64_t now;
    int sleepers;
    bool automatic;
} rungi_fake_clock;

// Starts at 0. `automatic`: a sleep moves the clock on by itself and returns at once; else it waits
// until another thread has advanced the clock far enough.
void rungi_fake_clock_init(rungi_fake_clock *fake, bool automatic);
// Nobody may be sleeping.
void rungi_fake_clock_fini(rungi_fake_clock *fake);

// Moves the clock on by `nanoseconds` >= 0 and wakes whoever has slept long enough.
void rungi_fake_clock_advance(rungi_fake_clock *fake, int64_t nanoseconds);

// Waits until `count` threads sleep on the clock. False when that has not happened after ten real
// seconds.
bool rungi_fake_clock_await_sleepers(rungi_fake_clock *fake, int count);

#endif
