// SPDX-License-Identifier: Apache-2.0
#include "base/context.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#if defined(__x86_64__)
#    include <cpuid.h>
#endif

#include "base/error.h"
#include "base/text.h"

struct rung_context {
    rung_context_options options;
    rung_isa isa;
    pthread_mutex_t log_lock;
};

static int64_t monotonic_now(void *user)
{
    (void)user;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void monotonic_sleep(void *user, int64_t nanoseconds)
{
    (void)user;
    struct timespec t = {nanoseconds / 1000000000, nanoseconds % 1000000000};
    while (nanoseconds > 0 && nanosleep(&t, &t) != 0) {
    }
}

static const rung_clock monotonic = {NULL, monotonic_now, monotonic_sleep};

const rung_clock *rungi_clock_monotonic(void)
{
    return &monotonic;
}

rung_isa rungi_cpu_isa(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return RUNG_ISA_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return RUNG_ISA_AVX2;
#endif
    return RUNG_ISA_SCALAR;
}

bool rungi_cpu_multiplies_tiles(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d; // AMX-BF16: leaf 7, EDX bit 22
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 22 & 1);
#else
    return false;
#endif
}

const char *rung_isa_name(rung_isa isa)
{
    static const char *const names[] = {"auto", "scalar", "avx2", "avx512"};
    return (int)isa >= 0 && (int)isa < 4 ? names[isa] : "unknown";
}

const char *rung_version(void)
{
    return RUNG_VERSION;
}

rung_status rung_context_create(const rung_context_options *options, rung_context **context_out)
{
    rung_context_options given = options ? *options : (rung_context_options){0};
    rung_isa have = rungi_cpu_isa();
    if (given.isa == RUNG_ISA_AUTO)
        given.isa = have;
    RUNG_CHECK(given.isa <= have, RUNG_UNSUPPORTED,
               "device.isa: this CPU has no %s (highest here: %s)", rung_isa_name(given.isa),
               rung_isa_name(have));
    rung_context *context = calloc(1, sizeof *context);
    RUNG_CHECK(context, RUNG_NO_MEMORY, "no memory for a context");
    context->options = given;
    context->isa = given.isa;
    if (!context->options.clock)
        context->options.clock = &monotonic;
    pthread_mutex_init(&context->log_lock, NULL);
    *context_out = context;
    return RUNG_OK;
}

void rung_context_destroy(rung_context **context)
{
    if (!context || !*context)
        return;
    pthread_mutex_destroy(&(*context)->log_lock);
    free(*context);
    *context = NULL;
}

rung_isa rung_context_isa(const rung_context *context)
{
    return context->isa;
}

int64_t rungi_now(const rung_context *context)
{
    return context->options.clock->now(context->options.clock->user);
}

void rungi_sleep(const rung_context *context, int64_t nanoseconds)
{
    context->options.clock->sleep(context->options.clock->user, nanoseconds);
}

const rung_clock *rungi_clock(const rung_context *context)
{
    return context->options.clock;
}

void rungi_log(rung_context *context, rung_log_level level, const char *fmt, ...)
{
    if (!context->options.log || level < context->options.log_level)
        return;
    char raw[2048], line[2048];
    va_list args;
    va_start(args, fmt);
    vsnprintf(raw, sizeof raw, fmt, args);
    va_end(args);
    rungi_text_escape(raw, line, sizeof line);
    pthread_mutex_lock(&context->log_lock);
    context->options.log(context->options.log_user, level, line);
    pthread_mutex_unlock(&context->log_lock);
}
