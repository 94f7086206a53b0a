// SPDX-License-Identifier: Apache-2.0
// Measuring for the ladder: blocks in child processes, taken in turn, and what they say.
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "ladder/climb.h"
#include "measure/ceilings.h"
#include "measure/timeline.h"

#define NOISE 0.10

enum { QUICK_SPARE = 2 };

// One block's figures.
typedef struct figures {
    double step_ms, samples_per_s, wait_share, ms[RUNGI_CATEGORIES];
    int64_t peak_bytes;
    double round_trip_ns[2]; // before and after; 0 on one core
} figures;

// What the paired blocks of a rung are measured with.
typedef struct rounds {
    figures base[RUNGI_REPEATS], best[RUNGI_REPEATS], candidate[RUNGI_REPEATS];
} rounds;

static rung_status read_round_trip(json_t *o, figures *out)
{
    json_t *trips;
    RUNG_TRY(rungi_json_array(o, "a block", "round_trip_ns", &trips));
    RUNG_CHECK(json_array_size(trips) == 2, RUNG_FORMAT, "a block: round_trip_ns is no pair");
    for (size_t i = 0; i < 2; i++)
        out->round_trip_ns[i] = json_number_value(json_array_get(trips, i));
    return RUNG_OK;
}

static rung_status timed_block(rungi_climb *k, const char *settings, figures *out)
{
    char arguments[128];
    json_t *o, *ms;
    if (k->c->ladder.block_steps)
        snprintf(arguments, sizeof arguments, "--warmup=3 --steps=%" PRId64,
                 k->c->ladder.block_steps);
    else
        snprintf(arguments, sizeof arguments, "--warmup=3 --seconds=%g", k->block_seconds);
    RUNG_TRY(rungi_climb_block(k, settings, arguments, &o));
    rung_status status;
    RUNG_TRY_GOTO(done, rungi_json_f64(o, "a block", "step_ms", &out->step_ms));
    RUNG_TRY_GOTO(done, rungi_json_f64(o, "a block", "samples_per_s", &out->samples_per_s));
    RUNG_TRY_GOTO(done, rungi_json_f64(o, "a block", "wait_share", &out->wait_share));
    RUNG_TRY_GOTO(done, rungi_json_i64(o, "a block", "peak_bytes", 0, INT64_MAX, &out->peak_bytes));
    RUNG_TRY_GOTO(done, rungi_json_object(o, "a block", "ms", &ms));
    for (int i = 0; i < RUNGI_CATEGORIES; i++)
        RUNG_TRY_GOTO(done, rungi_json_f64(ms, "a block: ms",
                                           rungi_category_name((rungi_category)i), &out->ms[i]));
    RUNG_TRY_GOTO(done, read_round_trip(o, out));
done:
    json_decref(o);
    return status;
}

// Were the cores near at one time of these blocks, and far apart at another?
static bool cores_moved(const figures *const *blocks, int n)
{
    bool near = false, far = false;
    for (int i = 0; i < 2 * n; i++) {
        double ns = blocks[i / 2]->round_trip_ns[i % 2];
        near |= rungi_round_trip_near(ns * 1e-9);
        far |= rungi_round_trip_far(ns * 1e-9);
    }
    return near && far;
}

static void summarise(const figures *blocks, int n, rung_rung *out)
{
    double values[RUNGI_REPEATS] = {0};
    out->measured = true;
    for (int i = 0; i < n; i++)
        values[i] = blocks[i].step_ms;
    out->step_ms = rungi_median(values, (size_t)n);
    for (int i = 0; i < n; i++)
        values[i] = blocks[i].samples_per_s;
    out->samples_per_s = rungi_median(values, (size_t)n);
    for (int i = 0; i < n; i++)
        values[i] = blocks[i].wait_share;
    out->wait_share = rungi_median(values, (size_t)n);
    for (int c = 0; c < RUNGI_CATEGORIES; c++) {
        for (int i = 0; i < n; i++)
            values[i] = blocks[i].ms[c];
        out->ms[c] = rungi_median(values, (size_t)n);
    }
    for (int i = 0; i < n; i++)
        values[i] = blocks[i].round_trip_ns[0];
    out->round_trip_ns = rungi_median(values, (size_t)n);
    for (int i = 0; i < n; i++)
        if ((uint64_t)blocks[i].peak_bytes > out->peak_bytes)
            out->peak_bytes = (uint64_t)blocks[i].peak_bytes;
}

static void rates(const figures *blocks, int n, double *out)
{
    for (int i = 0; i < n; i++) // time a sample: short batches count by their samples
        out[i] = 1 / blocks[i].samples_per_s;
}

// One block of base, best and candidate each, in turn, backwards in every second round. While cores
// move between near and far blocks cannot be compared: such a round is done again, up to *spare
// times.
static rung_status one_round(rungi_climb *k, const char *settings, int i, rounds *x, int *spare,
                             rung_rung *out)
{
    const char *const with[] = {"", k->best_set, settings};
    figures *const blocks[] = {&x->base[i], &x->best[i], &x->candidate[i]};
    bool climbed = *k->best_set != 0; // else the best is the base
    for (;;) {
        for (int j = 0; j < 3; j++) {
            int which = i % 2 ? 2 - j : j;
            if (which != 1 || climbed)
                RUNG_TRY(timed_block(k, with[which], blocks[which]));
        }
        if (!climbed)
            x->best[i] = x->base[i];
        if (!cores_moved((const figures *const *)blocks, 3))
            return RUNG_OK;
        if (*spare == 0)
            break;
        --*spare;
        out->repeated++;
    }
    out->mixed++;
    return RUNG_OK;
}

static rung_status compare(rungi_climb *k, const char *name, const char *settings, rounds *x,
                           rung_rung *out)
{
    int n = (int)k->c->ladder.repeats;
    n = n > RUNGI_REPEATS ? RUNGI_REPEATS : n;
    int spare = k->c->ladder.quick ? QUICK_SPARE : n;
    for (int i = 0; i < n; i++) {
        rungi_climb_tell(k, "%s: measuring %d of %d", name, i + 1, n);
        RUNG_TRY(one_round(k, settings, i, x, &spare, out));
    }
    double before[RUNGI_REPEATS], after[RUNGI_REPEATS], first[RUNGI_REPEATS];
    rates(x->best, n, before);
    rates(x->candidate, n, after);
    rates(x->base, n, first);
    rungi_gain step = rungi_gain_of(before, after, (size_t)n);
    rungi_gain whole = rungi_gain_of(first, after, (size_t)n);
    summarise(x->candidate, n, out);
    out->gain_prev = step.median;
    out->ci_low = step.low;
    out->ci_high = step.high;
    out->gain_base = whole.median;
    out->verdict = rungi_verdict_of(&step);
    if (out->verdict == RUNG_VERDICT_KEPT) {
        k->r->best_gain = whole.median;
        k->r->best_ci_low = whole.low;
    }
    return RUNG_OK;
}

rung_status rungi_climb_compare(rungi_climb *k, const char *name, const char *settings,
                                rung_rung *out)
{
    rounds *x = calloc(1, sizeof *x);
    RUNG_CHECK(x, RUNG_NO_MEMORY, "no memory for the figures of a rung");
    rung_status status = compare(k, name, settings, x, out);
    free(x);
    return status;
}

static void add_notice(rungi_climb *k, const char *fmt, ...) RUNG_PRINTF(2, 3);
static void add_notice(rungi_climb *k, const char *fmt, ...)
{
    char *out = k->r->notice;
    size_t used = strlen(out), size = sizeof k->r->notice;
    va_list args;
    if (used)
        used += (size_t)snprintf(out + used, size - used, "; ");
    va_start(args, fmt);
    vsnprintf(out + used, size - used, fmt, args);
    va_end(args);
}

// Processes that want to run, over the last minute; 0 where the system does not tell.
static double machine_load(void)
{
    double load = 0;
    FILE *file = fopen("/proc/loadavg", "re");
    if (file && fscanf(file, "%lf", &load) != 1)
        load = 0;
    if (file)
        fclose(file);
    return load;
}

// Three equal blocks before anything is compared: is this machine quiet enough?
rung_status rungi_climb_measure_base(rungi_climb *k, rung_rung *out)
{
    enum { BLOCKS = 3 };
    figures blocks[BLOCKS];
    double values[BLOCKS], low = INFINITY, high = 0;
    for (int i = 0; i < BLOCKS; i++) {
        rungi_climb_tell(k, "base: measuring %d of %d", i + 1, BLOCKS);
        RUNG_TRY(timed_block(k, "", &blocks[i]));
        values[i] = blocks[i].step_ms;
        low = fmin(low, values[i]);
        high = fmax(high, values[i]);
    }
    summarise(blocks, BLOCKS, out);
    out->gain_base = out->gain_prev = out->ci_low = out->ci_high = 1;
    out->verdict = RUNG_VERDICT_KEPT;
    double spread = (high - low) / rungi_median(values, BLOCKS);
    double load = machine_load();
    if (spread > NOISE)
        add_notice(k,
                   "the machine is noisy: three equal blocks differ by %.0f %%; intervals will be "
                   "wide",
                   spread * 100);
    else if (load > 1.5)
        add_notice(k, "other programs are busy (load %.1f): figures may be off", load);
    if (out->wait_share > 0.5)
        add_notice(
            k,
            "a step waits for data for %.0f %% of its time: rungs that compute faster cannot "
            "help before that falls",
            out->wait_share * 100);
    return RUNG_OK;
}
