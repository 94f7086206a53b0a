// SPDX-License-Identifier: Apache-2.0
// The climb: rung by rung, blocks of base, best and candidate in turn.
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/json.h"
#include "ladder/climb.h"
#include "measure/timeline.h"

#define QUICK_SECONDS 0.4
#define BLOCK_SECONDS 1.0
#define CHILD_LIMIT 600.0
#define NOISE 0.10

void rungi_climb_tell(const rungi_climb *k, const char *fmt, ...)
{
    char line[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (k->o->observer && k->o->observer->progress)
        k->o->observer->progress(k->o->observer->user, line);
}

double rungi_climb_left(const rungi_climb *k)
{
    double spent = (double)(rungi_now(k->context) - k->began) * 1e-9;
    return k->c->ladder.budget > 0 ? (double)k->c->ladder.budget * 1e-9 - spent : INFINITY;
}

rung_status rungi_climb_block(rungi_climb *k, const char *settings, const char *arguments,
                              json_t **out)
{
    rungi_command c = {0};
    rungi_string text = {0};
    rungi_command_add(&c, "%s", k->o->program);
    rungi_command_add(&c, "block");
    rungi_command_add(&c, "%s", k->base_path);
    rungi_command_add_words(&c, settings);
    rungi_command_add_words(&c, arguments);
    rung_status status = rungi_command_run(&c, CHILD_LIMIT, &text, NULL);
    if (status == RUNG_OK)
        status = rungi_json_parse(rungi_string_text(&text), text.size, "a block", out);
    rungi_string_fini(&text);
    rungi_command_fini(&c);
    return status;
}

// ---- measuring --------------------------------------------------------------------------------

// One block's figures.
typedef struct figures {
    double step_ms, samples_per_s, wait_share, ms[RUNGI_CATEGORIES];
    int64_t peak_bytes;
} figures;

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
done:
    json_decref(o);
    return status;
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
        if ((uint64_t)blocks[i].peak_bytes > out->peak_bytes)
            out->peak_bytes = (uint64_t)blocks[i].peak_bytes;
}

static void rates(const figures *blocks, int n, double *out)
{
    for (int i = 0; i < n; i++) // time a sample: short batches count by their samples
        out[i] = 1 / blocks[i].samples_per_s;
}

// Base, best and candidate in turn, the order reversed from one repeat to the next.
static rung_status compare(rungi_climb *k, const char *name, const char *settings, rung_rung *out)
{
    int n = (int)k->c->ladder.repeats;
    n = n > RUNGI_REPEATS ? RUNGI_REPEATS : n;
    bool climbed = *k->best_set != 0; // else the best is the base
    static figures base[RUNGI_REPEATS], best[RUNGI_REPEATS], candidate[RUNGI_REPEATS];
    for (int i = 0; i < n; i++) {
        rungi_climb_tell(k, "%s: measuring %d of %d", name, i + 1, n);
        for (int j = 0; j < 3; j++) {
            int which = i % 2 ? 2 - j : j;
            if (which == 0)
                RUNG_TRY(timed_block(k, "", &base[i]));
            else if (which == 2)
                RUNG_TRY(timed_block(k, settings, &candidate[i]));
            else if (climbed)
                RUNG_TRY(timed_block(k, k->best_set, &best[i]));
        }
    }
    double before[RUNGI_REPEATS], after[RUNGI_REPEATS], first[RUNGI_REPEATS];
    rates(climbed ? best : base, n, before);
    rates(candidate, n, after);
    rates(base, n, first);
    rungi_gain step = rungi_gain_of(before, after, (size_t)n);
    rungi_gain whole = rungi_gain_of(first, after, (size_t)n);
    summarise(candidate, n, out);
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

// Three equal blocks before anything is compared: is this machine quiet enough?
static rung_status measure_base(rungi_climb *k, rung_rung *out)
{
    enum { BLOCKS = 3 };
    figures blocks[BLOCKS];
    double values[BLOCKS], low = INFINITY, high = 0, load = 0;
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
    if (spread > NOISE)
        snprintf(k->r->notice, sizeof k->r->notice,
                 "the machine is noisy: three equal blocks differ by %.0f %%; intervals will be "
                 "wide",
                 spread * 100);
    FILE *file = fopen("/proc/loadavg", "re");
    if (file && fscanf(file, "%lf", &load) == 1 && load > 1.5 && !*k->r->notice)
        snprintf(k->r->notice, sizeof k->r->notice,
                 "other programs are busy (load %.1f): figures may be off", load);
    if (file)
        fclose(file);
    return RUNG_OK;
}

// Adds text to a buffer of `size` bytes, cut where it is full.
static void add_text(char *out, size_t size, const char *text)
{
    size_t used = strlen(out), length = strlen(text);
    if (length > size - used - 1)
        length = size - used - 1;
    memmove(out + used, text, length);
    out[used + length] = 0;
}

// ---- climbing ---------------------------------------------------------------------------------

static bool wanted(const rungi_climb *k, const char *name)
{
    const rungi_texts *list = &k->c->ladder.rungs;
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->data[i], name) == 0)
            return true;
    return list->count == 0;
}

static rung_status check_names(const rungi_climb *k)
{
    const char *names[RUNG_LADDER_RUNGS];
    size_t count = 0;
    for (int i = 0; rungi_rungs[i].name; i++)
        names[count++] = rungi_rungs[i].name;
    for (size_t i = 0; i < k->c->ladder.rungs.count; i++) {
        const char *given = k->c->ladder.rungs.data[i];
        bool known = false;
        for (size_t j = 0; j < count; j++)
            known |= strcmp(names[j], given) == 0;
        const char *near = rungi_text_nearest(given, names, count);
        RUNG_CHECK(known, RUNG_CONFIG, "ladder.rungs: there is no rung '%s'%s%s%s", given,
                   near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
    }
    return RUNG_OK;
}

static const char *effect_name(rungi_effect effect)
{
    static const char *const names[] = {"exact", "numeric", "semantic"};
    return names[effect];
}

static rung_status keep(rungi_climb *k, const char *setting)
{
    if (*k->best_set)
        add_text(k->best_set, sizeof k->best_set, " ");
    add_text(k->best_set, sizeof k->best_set, setting);
    k->have_best_gate = false;
    char words[RUNG_LADDER_TEXT], *rest = words;
    snprintf(words, sizeof words, "%s", setting);
    for (char *word; (word = strtok_r(rest, " ", &rest));)
        RUNG_TRY(rung_config_override(k->best, word));
    return RUNG_OK;
}

// Tries one rung; `setting` receives what it switches.
static rung_status climb_one(rungi_climb *k, const rungi_rung *rung, rung_rung *out, char *setting,
                             size_t size)
{
    char settings[1400];
    if (!rung->setting(rungi_config_values(k->best), setting, size, out->reason,
                       sizeof out->reason)) {
        out->verdict = RUNG_VERDICT_NOT_AVAILABLE;
        return RUNG_OK;
    }
    if (rungi_climb_left(k) <= 0) {
        out->verdict = RUNG_VERDICT_NOT_AVAILABLE;
        snprintf(out->reason, sizeof out->reason, "the budget of ladder.budget is spent");
        return RUNG_OK;
    }
    snprintf(settings, sizeof settings, "%s %s", k->best_set, setting);
    RUNG_TRY(rungi_climb_gate(k, rung, settings, out));
    if (!out->gate_passed) {
        out->verdict = RUNG_VERDICT_WRONG;
        add_text(out->reason, sizeof out->reason, out->gate_detail);
        return RUNG_OK;
    }
    double best_gain = k->r->best_gain, best_low = k->r->best_ci_low;
    RUNG_TRY(compare(k, rung->name, settings, out));
    if (rung->effect == RUNGI_SEMANTIC) { // a ceiling is shown, not kept
        k->r->best_gain = best_gain;
        k->r->best_ci_low = best_low;
        if (out->verdict == RUNG_VERDICT_KEPT) {
            out->verdict = RUNG_VERDICT_NOT_AVAILABLE;
            snprintf(out->reason, sizeof out->reason,
                     "a ceiling, not kept: the same order and augmentation in each epoch");
        }
        return RUNG_OK;
    }
    return out->verdict == RUNG_VERDICT_KEPT ? keep(k, setting) : RUNG_OK;
}

static rung_rung *next_row(rungi_climb *k, const char *name, const char *effect, const char *what)
{
    rung_rung *row = &k->r->rungs[k->r->count++];
    *row = (rung_rung){.name = name, .effect = effect, .what = what, .gate = "none"};
    row->gate_passed = true;
    return row;
}

static void finished(const rungi_climb *k, const rung_rung *row)
{
    if (k->o->observer && k->o->observer->rung)
        k->o->observer->rung(k->o->observer->user, row);
}

static rung_status climb(rungi_climb *k)
{
    static char settings[RUNG_LADDER_RUNGS][128];
    rung_rung *base = next_row(k, "base", "-", "");
    RUNG_TRY(measure_base(k, base));
    finished(k, base);
    if (*k->r->notice && k->o->observer && k->o->observer->notice)
        k->o->observer->notice(k->o->observer->user, k->r->notice);
    for (int i = 0; rungi_rungs[i].name; i++) {
        if (!wanted(k, rungi_rungs[i].name))
            continue;
        rung_rung *row =
            next_row(k, rungi_rungs[i].name, effect_name(rungi_rungs[i].effect), settings[i]);
        RUNG_TRY(climb_one(k, &rungi_rungs[i], row, settings[i], sizeof settings[i]));
        finished(k, row);
    }
    snprintf(k->r->best_set, sizeof k->r->best_set, "%s", k->best_set);
    return RUNG_OK;
}

static rung_status prepare(rungi_climb *k)
{
    k->block_seconds = k->c->ladder.quick ? QUICK_SECONDS : BLOCK_SECONDS;
    k->r->best_gain = k->r->best_ci_low = 1;
    RUNG_TRY(check_names(k));
    RUNG_TRY(rungi_fs_make_folders(k->o->run));
    snprintf(k->base_path, sizeof k->base_path, "%s/base.yaml", k->o->run);
    RUNG_CHECK(!rungi_fs_exists(k->base_path), RUNG_INVALID,
               "%s holds a ladder already: give another folder with --run", k->o->run);
    RUNG_TRY(rung_config_copy(k->config, &k->best));
    return rung_config_save(k->config, RUNG_CONFIG_SOURCES, k->base_path);
}

rung_status rung_ladder_run(rung_context *context, const rung_config *config,
                            const rung_ladder_options *options, rung_ladder_result *result_out)
{
    RUNG_TRY(rung_config_check(config));
    rungi_climb *k = calloc(1, sizeof *k);
    RUNG_CHECK(k, RUNG_NO_MEMORY, "no memory for a ladder");
    *result_out = (rung_ladder_result){0};
    k->context = context;
    k->config = config;
    k->c = rungi_config_values(config);
    k->o = options;
    k->r = result_out;
    k->began = rungi_now(context);
    rung_status status = prepare(k);
    if (status == RUNG_OK)
        status = climb(k);
    if (status == RUNG_OK)
        status = rungi_climb_confirm(k);
    k->r->seconds = (double)(rungi_now(context) - k->began) * 1e-9;
    if (status == RUNG_OK)
        status = rungi_climb_write(k);
    const rung_confirm *c = &k->r->confirm;
    if (status == RUNG_OK && c->done && !(c->equal && c->reload_equal && c->coverage_ok))
        status = RUNG_FAIL(RUNG_GATE, "the best configuration is not confirmed: %s", c->detail);
    rung_error error = *rung_error_last();
    rung_config_destroy(&k->best);
    free(k);
    return status == RUNG_OK ? RUNG_OK : rungi_fail_adopt(&error);
}
