// SPDX-License-Identifier: Apache-2.0
#include "measure/ceilings.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cores.h"
#include "base/error.h"
#include "base/team.h"

#define FMA_NAME rungi_fma_plain
#define FMA_LANES 4
#define FMA_STEP(a, x, y) ((a) * (x) + (y))
#include "measure/fma_loop.h"

enum { REPEATS = 5, PING_ROUNDS = 200, PING_REPEATS = 9 };

static const int64_t SPAN = 8000000; // nanoseconds of one measurement
static const size_t TRIAD_LEAST = (size_t)96 << 20, TRIAD_MOST = (size_t)384 << 20;

// ---- arithmetic -------------------------------------------------------------------------------

typedef struct arithmetic {
    rungi_fma_fn fn;
    int lanes;
    int64_t count;
    _Atomic float sink;
} arithmetic;

static arithmetic arithmetic_of(rung_isa isa)
{
#if defined(__x86_64__)
    if (isa >= RUNG_ISA_AVX512)
        return (arithmetic){.fn = rungi_fma_avx512, .lanes = 16};
    if (isa >= RUNG_ISA_AVX2)
        return (arithmetic){.fn = rungi_fma_avx2, .lanes = 8};
#endif
    (void)isa;
    return (arithmetic){.fn = rungi_fma_plain, .lanes = 4};
}

static rung_status calculate(void *arg, int member)
{
    arithmetic *a = arg;
    (void)member;
    atomic_store_explicit(&a->sink, a->fn(a->count), memory_order_relaxed);
    return RUNG_OK;
}

// ---- memory -----------------------------------------------------------------------------------

typedef struct triad {
    float *a, *b, *c;
    int64_t size;
    int members;
} triad;

static rung_status add_scaled(void *arg, int member)
{
    const triad *t = arg;
    int64_t begin = t->size * member / t->members, end = t->size * (member + 1) / t->members;
    float *restrict a = t->a;
    const float *restrict b = t->b, *restrict c = t->c;
    for (int64_t i = begin; i < end; i++)
        a[i] = b[i] + 3.0f * c[i];
    return RUNG_OK;
}

static size_t triad_bytes(void)
{
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    size_t wanted = cache > 0 ? 4 * (size_t)cache : 0;
    return wanted < TRIAD_LEAST ? TRIAD_LEAST : wanted > TRIAD_MOST ? TRIAD_MOST : wanted;
}

static rung_status triad_init(triad *t)
{
    t->size = (int64_t)(triad_bytes() / 3 / sizeof(float));
    size_t bytes = ((size_t)t->size * sizeof(float) + 63) / 64 * 64;
    float **all[] = {&t->a, &t->b, &t->c};
    for (int i = 0; i < 3; i++) {
        *all[i] = aligned_alloc(64, bytes);
        RUNG_CHECK(*all[i], RUNG_NO_MEMORY, "no memory to measure memory with");
        memset(*all[i], 0, bytes);
    }
    return RUNG_OK;
}

static void triad_fini(triad *t)
{
    free(t->a);
    free(t->b);
    free(t->c);
}

// ---- distance of cores ------------------------------------------------------------------------

// One writes odd numbers, the other answers with even ones. A core that is wanted elsewhere must
// not hang this: after some looks the waiter lets others run.
static void await(const _Atomic int *flag, int value)
{
    for (int looks = 0; atomic_load_explicit(flag, memory_order_acquire) != value; looks++)
        if (looks > 2000)
            sched_yield();
}

typedef struct ping {
    _Alignas(64) _Atomic int flag;
    _Alignas(64) rung_context *context;
    cpu_set_t cores;
    int64_t best; // nanoseconds of PING_ROUNDS rounds
} ping;

// Each on a core of its own. Left to the system both may share one, when a thread of somebody else
// still spins on the other; and then each look of one waits for the other to let it run.
static rung_status play(void *arg, int member)
{
    ping *p = arg;
    const cpu_set_t before = rungi_cores_bind(&p->cores, member);
    for (int repeat = 0; repeat < PING_REPEATS; repeat++) {
        int64_t begin = rungi_now(p->context);
        for (int i = 0; i < PING_ROUNDS; i++) {
            int value = 2 * (repeat * PING_ROUNDS + i);
            if (member == 0) {
                atomic_store_explicit(&p->flag, value + 1, memory_order_release);
                await(&p->flag, value + 2);
            } else {
                await(&p->flag, value + 1);
                atomic_store_explicit(&p->flag, value + 2, memory_order_release);
            }
        }
        int64_t took = rungi_now(p->context) - begin;
        if (member == 0 && (p->best == 0 || took < p->best))
            p->best = took;
    }
    (void)pthread_setaffinity_np(pthread_self(), sizeof before, &before);
    return RUNG_OK;
}

rung_status rungi_round_trip_measure(rung_context *context, double *seconds_out)
{
    rungi_team *team;
    if (rungi_core_count() < 2) {
        *seconds_out = 0;
        return RUNG_OK;
    }
    ping p = {.context = context};
    rungi_cores_allowed(&p.cores);
    RUNG_TRY(rungi_team_create(2, &team));
    rung_status status = rungi_team_run(team, play, &p);
    rungi_team_destroy(&team);
    *seconds_out = (double)p.best * 1e-9 / PING_ROUNDS;
    return status;
}

// ---- all --------------------------------------------------------------------------------------

// Shortest of some runs, in seconds.
static rung_status shortest(rung_context *context, rungi_team *team, rungi_team_fn fn, void *arg,
                            double *seconds_out)
{
    int64_t best = INT64_MAX;
    for (int i = 0; i < REPEATS; i++) {
        int64_t begin = rungi_now(context);
        RUNG_TRY(rungi_team_run(team, fn, arg));
        int64_t took = rungi_now(context) - begin;
        best = took < best ? took : best;
    }
    *seconds_out = (double)(best > 0 ? best : 1) * 1e-9;
    return RUNG_OK;
}

static rung_status measure(rung_context *context, int members, int place, triad *t,
                           rungi_ceilings *out)
{
    arithmetic a = arithmetic_of(out->isa);
    rungi_team *team;
    double seconds;
    // Rounds that take about the span on a core of 3 GHz with two units.
    a.count = SPAN * 6 / RUNGI_FMA_CHAINS;
    t->members = members;
    RUNG_TRY(rungi_team_create(members, &team));
    rung_status status = shortest(context, team, calculate, &a, &seconds);
    if (status == RUNG_OK) {
        out->flops[place] =
            2.0 * RUNGI_FMA_CHAINS * a.lanes * (double)a.count * (double)members / seconds;
        status = shortest(context, team, add_scaled, t, &seconds);
    }
    if (status == RUNG_OK)
        out->bytes[place] = 12.0 * (double)t->size / seconds;
    rungi_team_destroy(&team);
    return status;
}

rung_status rungi_ceilings_measure(rung_context *context, int threads, rungi_ceilings *out)
{
    rungi_ceilings c = {.isa = rung_context_isa(context), .threads = threads};
    triad t = {0};
    rung_status status = triad_init(&t);
    if (status == RUNG_OK)
        status = measure(context, 1, 0, &t, &c);
    if (status == RUNG_OK)
        status = measure(context, threads, 1, &t, &c);
    triad_fini(&t);
    if (status == RUNG_OK && threads > 1)
        status = rungi_round_trip_measure(context, &c.round_trip);
    if (status == RUNG_OK)
        *out = c;
    return status;
}
