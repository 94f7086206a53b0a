// SPDX-License-Identifier: Apache-2.0
#include "base/fake_clock.h"

#include "base/context.h"

static int64_t fake_now(void *user)
{
    rungi_fake_clock *fake = user;
    rungi_mutex_lock(&fake->mutex);
    int64_t now = fake->now;
    rungi_mutex_unlock(&fake->mutex);
    return now;
}

static void fake_sleep(void *user, int64_t nanoseconds)
{
    rungi_fake_clock *fake = user;
    if (nanoseconds <= 0)
        return;
    rungi_mutex_lock(&fake->mutex);
    if (fake->automatic)
        fake->now += nanoseconds;
    int64_t until = fake->automatic ? fake->now : fake->now + nanoseconds;
    fake->sleepers++;
    rungi_cond_broadcast(&fake->changed);
    while (fake->now < until)
        rungi_cond_wait(&fake->changed, &fake->mutex);
    fake->sleepers--;
    rungi_mutex_unlock(&fake->mutex);
}

void rungi_fake_clock_init(rungi_fake_clock *fake, bool automatic)
{
    *fake = (rungi_fake_clock){.clock = {fake, fake_now, fake_sleep}, .automatic = automatic};
    rungi_mutex_init(&fake->mutex);
    rungi_cond_init(&fake->changed);
}

void rungi_fake_clock_fini(rungi_fake_clock *fake)
{
    rungi_cond_fini(&fake->changed);
    rungi_mutex_fini(&fake->mutex);
}

void rungi_fake_clock_advance(rungi_fake_clock *fake, int64_t nanoseconds)
{
    rungi_mutex_lock(&fake->mutex);
    fake->now += nanoseconds;
    rungi_cond_broadcast(&fake->changed);
    rungi_mutex_unlock(&fake->mutex);
}

bool rungi_fake_clock_await_sleepers(rungi_fake_clock *fake, int count)
{
    const rung_clock *real = rungi_clock_monotonic();
    int64_t deadline = rungi_deadline(real, 10000000000);
    bool waiting = true;
    rungi_mutex_lock(&fake->mutex);
    while (waiting && fake->sleepers < count)
        waiting = rungi_cond_wait_until(&fake->changed, &fake->mutex, real, deadline);
    bool reached = fake->sleepers >= count;
    rungi_mutex_unlock(&fake->mutex);
    return reached;
}
