// SPDX-License-Identifier: Apache-2.0
#include "data/sample.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/error.h"
#include "base/philox.h"

static rungi_random key_of(const rung_random *random)
{
    return (rungi_random){{random->key[0], random->key[1]}};
}

uint64_t rung_random_u64(const rung_random *random, uint64_t index)
{
    rungi_random key = key_of(random);
    return rungi_random_u64(&key, random->base + index);
}

double rung_random_uniform(const rung_random *random, uint64_t index)
{
    return rungi_unit_f64(rung_random_u64(random, index));
}

double rung_random_normal(const rung_random *random, uint64_t index)
{
    rungi_random key = key_of(random);
    return rungi_random_normal(&key, random->base + index);
}

int64_t rung_random_below(const rung_random *random, int64_t n, uint64_t *index)
{
    rungi_random key = key_of(random);
    uint64_t place = random->base + *index;
    uint64_t drawn = rungi_random_below(&key, (uint64_t)n, &place);
    *index = place - random->base;
    return (int64_t)drawn;
}

rung_random rungi_sample_random(uint64_t seed, int64_t epoch, int64_t sample, int64_t occurrence)
{
    rungi_random key = rungi_random_make(seed, RUNGI_PURPOSE_AUGMENT, (uint64_t)epoch,
                                         (uint64_t)sample, (uint64_t)occurrence);
    return (rung_random){{key.key[0], key.key[1]}, 0};
}

rung_random rungi_batch_random(uint64_t seed, int64_t epoch, int64_t position)
{
    // No sample occurs 2^64 - 1 times: this key is the batch's own.
    return rungi_sample_random(seed, epoch, position, -1);
}

rung_random rungi_random_stream(const rung_random *random, uint32_t stream)
{
    rung_random part = *random;
    part.base = (uint64_t)stream << 32;
    return part;
}

bool rung_sample_cancelled(const rung_sample *sample)
{
    const atomic_bool *cancelled = sample->cancelled;
    return cancelled && atomic_load_explicit(cancelled, memory_order_relaxed);
}

rung_status rung_hook_fail(rung_status status, const char *fmt, ...)
{
    char message[sizeof rung_error_last()->message];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    return RUNG_FAIL(status, "%s", message);
}
