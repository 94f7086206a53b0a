// SPDX-License-Identifier: Apache-2.0
// Confirmation: the base is trained several times with different seeds, the best configuration once
// with the first of them, all on the same number of samples. The best must reach the base's
// validation accuracy within the spread of the base's trainings.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fs.h"
#include "base/json.h"
#include "ladder/climb.h"

enum { LOG_LIMIT = 256 << 20, BASELINES_QUICK = 3 };
#define TRAIN_LIMIT (7 * 86400.0)

// What a finished training tells.
typedef struct trained {
    double accuracy, seconds; // seconds of an epoch's training
    int64_t samples, correct, evaluated;
    bool covered;
} trained;

// One line of metrics.jsonl.
static rung_status read_line(const json_t *o, const char *where, int64_t expected, trained *out,
                             double *aside, int64_t *epochs)
{
    const char *event;
    RUNG_TRY(rungi_json_text(o, where, "event", &event));
    json_t *ms;
    RUNG_TRY(rungi_json_object(o, where, "ms", &ms));
    double eval, checkpoint;
    RUNG_TRY(rungi_json_f64(ms, where, "eval", &eval));
    RUNG_TRY(rungi_json_f64(ms, where, "checkpoint", &checkpoint));
    if (strcmp(event, "eval") == 0) {
        RUNG_TRY(rungi_json_f64(o, where, "accuracy", &out->accuracy));
        RUNG_TRY(rungi_json_i64(o, where, "correct", 0, INT64_MAX, &out->correct));
        RUNG_TRY(rungi_json_i64(o, where, "evaluated", 0, INT64_MAX, &out->evaluated));
        *aside += eval;
    } else if (strcmp(event, "checkpoint") == 0) {
        *aside += checkpoint;
    } else if (strcmp(event, "epoch") == 0) {
        int64_t once, again;
        RUNG_TRY(rungi_json_i64(o, where, "seen_once", -1, INT64_MAX, &once));
        RUNG_TRY(rungi_json_i64(o, where, "seen_again", -1, INT64_MAX, &again));
        out->covered &= once == expected && again == 0;
        ++*epochs;
    } else if (strcmp(event, "end") == 0) {
        double seconds;
        RUNG_TRY(rungi_json_f64(o, where, "seconds", &seconds));
        RUNG_TRY(rungi_json_i64(o, where, "samples", 0, INT64_MAX, &out->samples));
        out->seconds = (seconds - *aside * 1e-3) / (double)(*epochs ? *epochs : 1);
    }
    return RUNG_OK;
}

static rung_status read_metrics(const char *run, int64_t epochs_wanted, trained *out)
{
    char *path = rungi_text_format("%s/metrics.jsonl", run), *data = NULL;
    size_t size;
    double aside = 0;
    int64_t epochs = 0;
    RUNG_CHECK(path, RUNG_NO_MEMORY, "no memory for a path");
    *out = (trained){.covered = true};
    rung_status status = rungi_fs_read(path, LOG_LIMIT, &data, &size);
    // The last line tells how many samples there were: each epoch must have had its share.
    int64_t expected = 0;
    for (int pass = 0; pass < 2 && status == RUNG_OK; pass++) {
        char *text = data;
        aside = 0;
        epochs = 0;
        for (char *end;
             status == RUNG_OK && (end = memchr(text, '\n', (size_t)(data + size - text)));
             text = end + 1) {
            json_t *o;
            status = rungi_json_parse(text, (size_t)(end - text), path, &o);
            if (status == RUNG_OK) {
                status = read_line(o, path, expected, out, &aside, &epochs);
                json_decref(o);
            }
        }
        expected = out->samples / (epochs_wanted ? epochs_wanted : 1);
        if (pass == 0)
            out->covered = true;
    }
    free(data);
    free(path);
    return status;
}

static rung_status train(rungi_climb *k, const char *name, const char *settings, int64_t seed,
                         int64_t epochs, trained *out)
{
    rungi_command c = {0};
    rungi_string text = {0};
    char run[4200];
    snprintf(run, sizeof run, "%s/%s", k->o->run, name);
    rungi_climb_tell(k, "confirm: training %s", name);
    int64_t ranks;
    RUNG_TRY(rungi_climb_ranks(k, settings, &ranks));
    bool launched = *k->c->ladder.launcher && ranks > 1;
    if (launched)
        rungi_command_launch(&c, k->c->ladder.launcher, ranks, k->o->program);
    else
        rungi_command_add(&c, "%s", k->o->program);
    rungi_command_add(&c, "train");
    rungi_command_add(&c, "%s", k->base_path);
    rungi_command_add_words(&c, settings);
    if (launched)
        rungi_command_add(&c, "train.ranks=1");
    rungi_command_add(&c, "seed=%" PRId64, seed);
    rungi_command_add(&c, "train.epochs=%" PRId64, epochs);
    rungi_command_add(&c, "train.steps=none");
    rungi_command_add(&c, "checkpoint.every=never");
    rungi_command_add(&c, "--run=%s", run);
    rungi_command_add(&c, "--quiet");
    rung_status status = rungi_command_run(&c, TRAIN_LIMIT, &text, NULL);
    rungi_string_fini(&text);
    rungi_command_fini(&c);
    return status == RUNG_OK ? read_metrics(run, epochs, out)
                             : rungi_fail_prefix("confirm: %s", name);
}

// Evaluates the saved checkpoint in a process of its own: it must count what training counted.
static rung_status reload(rungi_climb *k, const char *name, const trained *best, bool *equal)
{
    rungi_command c = {0};
    rungi_string text = {0};
    json_t *o = NULL;
    int64_t correct = -1, samples = -1;
    rungi_climb_tell(k, "confirm: evaluating the saved checkpoint");
    rungi_command_add(&c, "%s", k->o->program);
    rungi_command_add(&c, "eval");
    rungi_command_add(&c, "%s/%s", k->o->run, name);
    rungi_command_add(&c, "--json");
    rung_status status = rungi_command_run(&c, TRAIN_LIMIT, &text, NULL);
    if (status == RUNG_OK)
        status = rungi_json_parse(rungi_string_text(&text), text.size, "rung eval", &o);
    if (status == RUNG_OK)
        status = rungi_json_i64(o, "rung eval", "correct", 0, INT64_MAX, &correct);
    if (status == RUNG_OK)
        status = rungi_json_i64(o, "rung eval", "samples", 0, INT64_MAX, &samples);
    *equal = correct == best->correct && samples == best->evaluated;
    json_decref(o);
    rungi_string_fini(&text);
    rungi_command_fini(&c);
    return status;
}

static void judge(rungi_climb *k, const trained *base, int baselines, const trained *best)
{
    rung_confirm *r = &k->r->confirm;
    double values[RUNGI_REPEATS], mean = 0, floor = k->c->ladder.min_accuracy;
    for (int i = 0; i < baselines; i++) {
        values[i] = base[i].accuracy;
        mean += base[i].accuracy / baselines;
        r->coverage_ok &= base[i].covered || r->weighted;
    }
    r->coverage_ok &= (best->covered || r->weighted) && best->samples == base[0].samples;
    r->base_metric = mean;
    r->best_metric = best->accuracy;
    // Not finer than what one validation sample can tell.
    r->margin = fmax(rungi_prediction_margin(values, (size_t)baselines),
                     2.0 / (double)(best->evaluated > 0 ? best->evaluated : 1));
    bool near = best->accuracy >= mean - r->margin;
    bool high = floor < 0 || (best->accuracy >= floor && mean >= floor);
    r->equal = near && high;
    r->samples = best->samples;
    r->base_seconds = base[0].seconds;
    r->best_seconds = best->seconds;
    if (!near)
        snprintf(r->detail, sizeof r->detail,
                 "accuracy %.4f is below the base's %.4f by more than the margin %.4f",
                 best->accuracy, mean, r->margin);
    else if (!high)
        snprintf(r->detail, sizeof r->detail,
                 "accuracy %.4f (base %.4f) is below ladder.min_accuracy %.4f", best->accuracy,
                 mean, floor);
    else if (!r->reload_equal)
        snprintf(r->detail, sizeof r->detail,
                 "the saved checkpoint evaluates to other counts than training saw");
    else if (!r->coverage_ok)
        snprintf(r->detail, sizeof r->detail,
                 "not every sample was seen exactly once in each epoch");
    else
        snprintf(r->detail, sizeof r->detail, "accuracy within the margin, same samples");
}

rung_status rungi_climb_confirm(rungi_climb *k)
{
    const rungi_ladder_config *l = &k->c->ladder;
    rung_confirm *r = &k->r->confirm;
    trained base[RUNGI_REPEATS], best;
    int n = l->quick ? BASELINES_QUICK : (int)l->baselines;
    r->epochs = l->confirm_epochs ? l->confirm_epochs : l->quick ? 1 : k->c->train.epochs;
    r->coverage_ok = true;
    r->weighted = k->c->data.sampler == RUNGI_SAMPLER_WEIGHTED;
    if (rungi_climb_left(k) <= 0) {
        snprintf(r->detail, sizeof r->detail, "not done: the budget of ladder.budget is spent");
        return RUNG_OK;
    }
    n = n > RUNGI_REPEATS ? RUNGI_REPEATS : n;
    for (int i = 0; i < n; i++) {
        char name[48];
        snprintf(name, sizeof name, "base-seed-%" PRId64, k->c->seed + i);
        RUNG_TRY(train(k, name, "", k->c->seed + i, r->epochs, &base[i]));
    }
    RUNG_TRY(train(k, "best", k->best_set, k->c->seed, r->epochs, &best));
    RUNG_TRY(reload(k, "best", &best, &r->reload_equal));
    judge(k, base, n, &best);
    r->done = true;
    return RUNG_OK;
}
