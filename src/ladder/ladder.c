// SPDX-License-Identifier: Apache-2.0
// The climb: rung by rung, blocks of base, best and candidate in turn.
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

#define QUICK_SECONDS 0.4
#define BLOCK_SECONDS 1.0
#define CHILD_LIMIT 600.0

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
    rungi_child child = {k->o->program, k->base_path, k->c->ladder.launcher, 1};
    RUNG_TRY(rungi_climb_ranks(k, settings, &child.ranks));
    return rungi_child_block(&child, settings, arguments, CHILD_LIMIT, out);
}

static rung_status override(rung_config *config, const char *settings)
{
    char word[RUNGI_SETTING];
    while (rungi_next_word(&settings, word, sizeof word))
        RUNG_TRY(rung_config_override(config, word));
    return RUNG_OK;
}

rung_status rungi_climb_ranks(const rungi_climb *k, const char *settings, int64_t *ranks_out)
{
    rung_config *config;
    RUNG_TRY(rung_config_copy(k->config, &config));
    rung_status status = override(config, settings);
    *ranks_out = rungi_config_values(config)->train.ranks;
    rung_config_destroy(&config);
    return status;
}

// Does the best configuration have these settings already?
static rung_status has_already(const rungi_climb *k, const char *settings, bool *has_out)
{
    rung_config *with;
    char *before = NULL, *after = NULL;
    RUNG_TRY(rung_config_copy(k->best, &with));
    rung_status status = rung_config_dump(with, 0, &before);
    if (status == RUNG_OK)
        status = override(with, settings);
    if (status == RUNG_OK)
        status = rung_config_dump(with, 0, &after);
    *has_out = status == RUNG_OK && strcmp(before, after) == 0;
    free(before);
    free(after);
    rung_config_destroy(&with);
    return status;
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

int rung_ladder_name_width(const rung_config *config)
{
    const rungi_climb like = {.c = rungi_config_values(config)};
    size_t width = strlen("base");
    for (int i = 0; rungi_rungs[i].name; i++)
        if (wanted(&like, rungi_rungs[i].name) && strlen(rungi_rungs[i].name) > width)
            width = strlen(rungi_rungs[i].name);
    return (int)width;
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
    return override(k->best, setting);
}

// Checks and measures a candidate. One that cannot run, or that diverges, ends its rung only.
static rung_status try_candidate(rungi_climb *k, const rungi_rung *rung, const char *settings,
                                 rung_rung *out)
{
    rung_status status = rungi_climb_gate(k, rung, settings, out);
    if (status == RUNG_OK && out->gate_passed)
        status = rungi_climb_compare(k, rung->name, settings, out);
    if (status == RUNG_DIVERGED) {
        out->gate_passed = false;
        snprintf(out->gate_detail, sizeof out->gate_detail, "%s", rung_error_last()->message);
    } else if (status == RUNG_INTERNAL || status == RUNG_TIMEOUT) {
        out->verdict = RUNG_VERDICT_NOT_AVAILABLE;
        snprintf(out->reason, sizeof out->reason, "%s", rung_error_last()->message);
        return RUNG_OK;
    } else if (status != RUNG_OK) {
        return status;
    }
    if (!out->gate_passed) {
        out->verdict = RUNG_VERDICT_WRONG;
        add_text(out->reason, sizeof out->reason, out->gate_detail);
    }
    return RUNG_OK;
}

static rung_status measure_candidate(rungi_climb *k, const rungi_rung *rung, const char *setting,
                                     rung_rung *out)
{
    char settings[4 * RUNGI_SETTING];
    snprintf(settings, sizeof settings, "%s %s", k->best_set, setting);
    double best_gain = k->r->best_gain, best_low = k->r->best_ci_low;
    RUNG_TRY(try_candidate(k, rung, settings, out));
    if (rung->effect != RUNGI_SEMANTIC)
        return out->verdict == RUNG_VERDICT_KEPT ? keep(k, setting) : RUNG_OK;
    // Shown, not kept.
    k->r->best_gain = best_gain;
    k->r->best_ci_low = best_low;
    if (out->verdict == RUNG_VERDICT_KEPT) {
        out->verdict = RUNG_VERDICT_NOT_AVAILABLE;
        snprintf(out->reason, sizeof out->reason, "%s", rung->not_kept);
    }
    return RUNG_OK;
}

// A data set that cannot be converted ends its rung only.
static rung_status pack_and_measure(rungi_climb *k, const rungi_rung *rung, char *setting,
                                    size_t size, rung_rung *out)
{
    rung_status status = rungi_climb_pack(k, rung, setting, size);
    if (status == RUNG_OK) {
        status = measure_candidate(k, rung, setting, out);
    } else if (status != RUNG_NO_MEMORY && status != RUNG_CANCELLED) {
        out->verdict = RUNG_VERDICT_NOT_AVAILABLE;
        snprintf(out->reason, sizeof out->reason, "%s", rung_error_last()->message);
        status = RUNG_OK;
    }
    if (status != RUNG_OK || out->verdict != RUNG_VERDICT_KEPT)
        rungi_climb_unpack(k, rung);
    return status;
}

// Tries one rung; `setting` receives what it switches.
static rung_status climb_one(rungi_climb *k, const rungi_rung *rung, rung_rung *out, char *setting,
                             size_t size)
{
    bool packs = rung->packing != RUNGI_PACKING_NONE, has = false;
    out->verdict = RUNG_VERDICT_NOT_AVAILABLE; // until it has been measured
    if (rung->switches)
        snprintf(setting, size, "%s", rung->switches);
    else if (!rung->setting(rungi_config_values(k->best), setting, size, out->reason,
                            sizeof out->reason))
        return RUNG_OK;
    if (!packs) // else the pack is another one
        RUNG_TRY(has_already(k, setting, &has));
    if (has || rungi_climb_left(k) <= 0) {
        snprintf(out->reason, sizeof out->reason, "%s",
                 has ? "the base has it already" : "the budget of ladder.budget is spent");
        if (has)
            *setting = 0;
        return RUNG_OK;
    }
    return packs ? pack_and_measure(k, rung, setting, size, out)
                 : measure_candidate(k, rung, setting, out);
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

// What supply can bring at most, before anything else is tried.
static void tell_ceiling(const rungi_climb *k, const rung_rung *base, const rung_rung *row)
{
    char text[RUNG_LADDER_TEXT];
    if (row->ci_low > 1)
        snprintf(
            text, sizeof text,
            "data from memory are %.2f times as fast as the base, which waits for data %.1f %% "
            "of its time: no change to the supply of data can bring more",
            row->gain_base, 100 * base->wait_share);
    else
        snprintf(text, sizeof text,
                 "data from memory are not clearly faster than the base, which waits for data "
                 "%.1f %% of its time: no change to the supply of data can bring much",
                 100 * base->wait_share);
    if (k->o->observer && k->o->observer->notice)
        k->o->observer->notice(k->o->observer->user, text);
}

static rung_status climb(rungi_climb *k)
{
    static char settings[RUNG_LADDER_RUNGS][RUNGI_SETTING];
    rung_rung *base = next_row(k, "base", "-", "");
    RUNG_TRY(rungi_climb_measure_base(k, base));
    finished(k, base);
    if (*k->r->notice && k->o->observer && k->o->observer->notice)
        k->o->observer->notice(k->o->observer->user, k->r->notice);
    for (int i = 0; rungi_rungs[i].name; i++) {
        if (!wanted(k, rungi_rungs[i].name))
            continue;
        rungi_rung rung = rungi_rungs[i];
        if (rung.effect_in)
            rung.effect = rung.effect_in(rungi_config_values(k->best));
        rung_rung *row = next_row(k, rung.name, effect_name(rung.effect), settings[i]);
        RUNG_TRY(climb_one(k, &rung, row, settings[i], sizeof settings[i]));
        finished(k, row);
        if (strcmp(rung.name, RUNGI_RUNG_CEILING) == 0 && row->gain_base > 0)
            tell_ceiling(k, base, row);
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
