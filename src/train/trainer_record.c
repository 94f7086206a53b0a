// SPDX-License-Identifier: Apache-2.0
// The run folder: configuration, environment, metrics as they come, tables and pictures at the end.
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file_io.h"
#include "base/fs.h"
#include "base/json.h"
#include "formats/csv.h"
#include "rung/env.h"
#include "train/trainer.h"

static char *in_run(const rung_trainer *t, const char *name)
{
    return rungi_path_join(t->run, name);
}

// Writes text to a file of the run folder, whole or not at all; frees nothing.
static rung_status write_text(const rung_trainer *t, const char *name, const char *text)
{
    char *path = in_run(t, name);
    RUNG_CHECK(path, RUNG_NO_MEMORY, "no memory for a path");
    rung_status status = rungi_fs_write(path, text, strlen(text));
    free(path);
    return status;
}

static rung_status open_logs(rung_trainer *t)
{
    char *path = in_run(t, "metrics.jsonl");
    RUNG_CHECK(path, RUNG_NO_MEMORY, "no memory for a path");
    int64_t step = t->at.step > 0 ? t->at.step : -1;
    rung_status status = t->resumed ? rungi_jsonl_resume(path, step, NULL, NULL, &t->metrics)
                                    : rungi_jsonl_create(path, NULL, &t->metrics);
    free(path);
    RUNG_TRY(status);
    rungi_tfevents_options o = {.first_step = t->at.step ? t->at.step + 1 : 0,
                                .resumed = t->resumed,
                                .clock = rungi_clock(t->context)};
    return rungi_tfevents_create(t->run, &o, &t->events);
}

rung_status rungi_trainer_lock_run(rung_trainer *t)
{
    if (!rungi_trainer_writes(t) || t->checkpoints)
        return RUNG_OK;
    RUNG_TRY(rungi_fs_make_folders(t->run));
    char *path = in_run(t, "checkpoints");
    RUNG_CHECK(path, RUNG_NO_MEMORY, "no memory for a path");
    rung_status status = rungi_checkpoints_open(
        path, &(rungi_checkpoints_options){.context = t->context}, &t->checkpoints);
    free(path);
    return status;
}

// Removes what a killed process left half written. The lock is held: nobody else writes here.
static rung_status remove_temporary(const rung_trainer *t)
{
    rungi_names names;
    RUNG_TRY(rungi_fs_list(t->run, &names));
    rung_status status = RUNG_OK;
    for (size_t i = 0; i < names.count && status == RUNG_OK; i++) {
        const char *name = names.data[i];
        if (!rungi_name_is_temporary(name, "tmp"))
            continue;
        char *path = in_run(t, name);
        status =
            path ? rungi_fs_remove_tree(path) : RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a path");
        free(path);
    }
    rungi_names_fini(&names);
    return status;
}

// The choices of kernels belong to the run: a resume makes the same ones.
static rung_status save_tuning(const rung_trainer *t)
{
    char *path = in_run(t, "tuning.json");
    RUNG_CHECK(path, RUNG_NO_MEMORY, "no memory for a path");
    rung_status status = rung_tuning_save(t->s->tuning, path);
    free(path);
    return status;
}

rung_status rungi_trainer_check_run(const char *run)
{
    if (!run)
        return RUNG_OK;
    char *config = rungi_path_join(run, "config.yaml");
    RUNG_CHECK(config, RUNG_NO_MEMORY, "no memory for a path");
    bool taken = rungi_fs_exists(config);
    free(config);
    RUNG_CHECK(!taken, RUNG_INVALID,
               "%s holds a run already: continue it with --resume, or give another folder with "
               "--run",
               run);
    return RUNG_OK;
}

rung_status rungi_trainer_open_run(rung_trainer *t)
{
    if (!rungi_trainer_writes(t))
        return RUNG_OK;
    if (!t->resumed)
        RUNG_TRY(rungi_trainer_check_run(t->run));
    char *config = in_run(t, "config.yaml"), *text = NULL;
    RUNG_CHECK(config, RUNG_NO_MEMORY, "no memory for a path");
    rung_status status;
    RUNG_TRY_GOTO(done, rungi_trainer_lock_run(t));
    RUNG_TRY_GOTO(done, remove_temporary(t));
    RUNG_TRY_GOTO(done, rung_config_save(t->s->config, RUNG_CONFIG_SOURCES, config));
    RUNG_TRY_GOTO(done, rung_env_text(t->context, &text));
    RUNG_TRY_GOTO(done, write_text(t, "environment.txt", text));
    if (t->s->tuning)
        RUNG_TRY_GOTO(done, save_tuning(t));
    RUNG_TRY_GOTO(done, open_logs(t));
done:
    free(text);
    free(config);
    return status;
}

// ---- records ----------------------------------------------------------------------------------

static const char *event_name(rung_event_kind kind)
{
    static const char *const names[] = {"start",      "progress", "step", "eval",
                                        "checkpoint", "epoch",    "end"};
    return names[kind];
}

static json_t *parts_json(const rung_train_event *e)
{
    json_t *ms = json_object();
    for (int i = 0; i < RUNG_TIME_PARTS; i++)
        json_object_set_new(ms, rung_time_part(i), rungi_jsonl_number(e->ms[i]));
    return ms;
}

// What ran hidden behind another part.
static json_t *hidden_json(const rung_train_event *e)
{
    json_t *ms = json_object();
    for (int i = 0; i < RUNG_TIME_PARTS; i++)
        if (i == RUNGI_TIME_COPY || i == RUNGI_TIME_EXCHANGE)
            json_object_set_new(ms, rung_time_part(i), rungi_jsonl_number(e->hidden_ms[i]));
    return ms;
}

static json_t *event_json(const rung_train_event *e)
{
    json_t *o = json_object();
    json_object_set_new(o, "event", json_string(event_name(e->kind)));
    json_object_set_new(o, "step", json_integer(e->step));
    json_object_set_new(o, "epoch", json_integer(e->epoch));
    json_object_set_new(o, "samples", json_integer(e->samples));
    json_object_set_new(o, "seconds", rungi_jsonl_number(e->seconds));
    if (e->kind != RUNG_EVENT_CHECKPOINT)
        json_object_set_new(o, "loss", rungi_jsonl_number(e->loss));
    if (e->kind == RUNG_EVENT_EVAL)
        json_object_set_new(o, "train_loss", rungi_jsonl_number(e->train_loss));
    json_object_set_new(o, "lr", rungi_jsonl_number(e->lr));
    json_object_set_new(o, "samples_per_s", rungi_jsonl_number(e->samples_per_s));
    json_object_set_new(o, "ms", parts_json(e));
    if (e->kind == RUNG_EVENT_STEP || e->kind == RUNG_EVENT_END)
        json_object_set_new(o, "hidden_ms", hidden_json(e));
    json_object_set_new(o, "wait_share", rungi_jsonl_number(e->wait_share));
    if (e->kind == RUNG_EVENT_STEP || e->kind == RUNG_EVENT_END)
        rungi_trainer_loader_json(e, o);
    if (e->kind == RUNG_EVENT_STEP && !isnan(e->grad_norm))
        json_object_set_new(o, "grad_norm", rungi_jsonl_number(e->grad_norm));
    if (e->loss_scale > 0 && (e->kind == RUNG_EVENT_STEP || e->kind == RUNG_EVENT_END)) {
        json_object_set_new(o, "loss_scale", rungi_jsonl_number(e->loss_scale));
        json_object_set_new(o, "skipped", json_integer(e->skipped));
    }
    if (e->kind == RUNG_EVENT_EVAL) {
        json_object_set_new(o, "accuracy", rungi_jsonl_number(e->accuracy));
        json_object_set_new(o, "top5", rungi_jsonl_number(e->top5));
        json_object_set_new(o, "correct", json_integer(e->correct));
        json_object_set_new(o, "evaluated", json_integer(e->evaluated));
        json_object_set_new(o, "best", json_boolean(e->best));
    }
    if (e->kind == RUNG_EVENT_EPOCH) {
        json_object_set_new(o, "seen_once", json_integer(e->seen_once));
        json_object_set_new(o, "seen_again", json_integer(e->seen_again));
    }
    if (e->kind == RUNG_EVENT_CHECKPOINT)
        json_object_set_new(o, "path", rungi_json_string(e->path));
    if (e->kind == RUNG_EVENT_END) {
        json_object_set_new(o, "peak_live", json_integer((json_int_t)e->peak_live));
        json_object_set_new(o, "peak_reserved", json_integer((json_int_t)e->peak_reserved));
        json_object_set_new(o, "peak_resident", json_integer((json_int_t)e->peak_resident));
        json_object_set_new(o, "status", json_string(rung_status_text(e->status)));
        if (e->note)
            json_object_set_new(o, "note", rungi_json_string(e->note));
    }
    return o;
}

static rung_status add_scalars(rung_trainer *t, const rung_train_event *e)
{
    if (e->kind == RUNG_EVENT_STEP) {
        const char *tags[] = {"train/loss",       "train/lr",         "train/samples_per_s",
                              "train/wait_share", "train/loss_scale", "train/skipped"};
        const double values[] = {e->loss,       e->lr,         e->samples_per_s,
                                 e->wait_share, e->loss_scale, (double)e->skipped};
        return rungi_tfevents_scalars(t->events, e->step, e->loss_scale > 0 ? 6 : 4, tags, values);
    }
    if (e->kind == RUNG_EVENT_EVAL) {
        const char *tags[] = {"val/loss", "val/accuracy", "val/top5"};
        const double values[] = {e->loss, e->accuracy, e->top5};
        return rungi_tfevents_scalars(t->events, e->step, 3, tags, values);
    }
    return rungi_tfevents_flush(t->events);
}

rung_status rungi_trainer_record(rung_trainer *t, const rung_train_event *event)
{
    if (!t->metrics || event->kind == RUNG_EVENT_START || event->kind == RUNG_EVENT_PROGRESS)
        return RUNG_OK;
    json_t *o = event_json(event);
    if (event->kind == RUNG_EVENT_STEP)
        rungi_trainer_layers_json(t, o);
    rungi_trainer_servers_json(t, o);
    rung_status status = rungi_jsonl_append(t->metrics, o);
    json_decref(o);
    RUNG_TRY(status);
    return add_scalars(t, event);
}

// ---- the end ----------------------------------------------------------------------------------

static rung_status write_confusion(const rung_trainer *t)
{
    rungi_string csv = {0};
    rungi_csv_text(&csv, "true \\ predicted");
    for (int64_t k = 0; k < t->classes; k++) {
        char number[24];
        snprintf(number, sizeof number, "%" PRId64, k);
        bool named = t->s->class_names && k < t->s->classes;
        rungi_csv_text(&csv, named ? t->s->class_names[k] : number);
    }
    rungi_csv_end(&csv);
    for (int64_t i = 0; i < t->classes; i++) {
        char number[24];
        snprintf(number, sizeof number, "%" PRId64, i);
        bool named = t->s->class_names && i < t->s->classes;
        rungi_csv_text(&csv, named ? t->s->class_names[i] : number);
        for (int64_t k = 0; k < t->classes; k++)
            rungi_csv_integer(&csv, t->confusion[i * t->classes + k]);
        rungi_csv_end(&csv);
    }
    rung_status status = csv.failed ? RUNG_FAIL(RUNG_NO_MEMORY, "no memory for confusion.csv")
                                    : write_text(t, "confusion.csv", rungi_string_text(&csv));
    rungi_string_fini(&csv);
    return status;
}

// Adds what is new to bad_samples.csv; a run that goes on goes on with its list.
static rung_status write_bad(const rung_trainer *t)
{
    rungi_string csv = {0};
    bool begin = t->bad_listed == 0 && !t->resumed;
    if (begin) {
        rungi_csv_text(&csv, "set");
        rungi_csv_text(&csv, "sample");
        rungi_csv_text(&csv, "message");
        rungi_csv_end(&csv);
    }
    for (size_t i = t->bad_listed; i < t->s->bad.count; i++) {
        const rungi_bad_entry *entry = &t->s->bad.data[i];
        rungi_csv_text(&csv, entry->training ? "train" : "validation");
        rungi_csv_integer(&csv, entry->sample);
        rungi_csv_text(&csv, entry->message);
        rungi_csv_end(&csv);
    }
    char *path = in_run(t, "bad_samples.csv");
    FILE *file = path ? fopen(path, begin ? "we" : "ae") : NULL;
    bool good = file && !csv.failed && fwrite(csv.data, 1, csv.size, file) == csv.size;
    good = (!file || fclose(file) == 0) && good;
    rung_status status = good ? RUNG_OK
                              : RUNG_FAIL(RUNG_IO, "%s: cannot write the list of bad samples: %s",
                                          path ? path : t->run, strerror(errno));
    free(path);
    rungi_string_fini(&csv);
    return status;
}

rung_status rungi_trainer_keep_bad(rung_trainer *t, rung_status status)
{
    if (t->s->bad.count == t->bad_listed || !t->metrics)
        return status;
    rung_error error = *rung_error_last();
    rung_status written = write_bad(t);
    t->bad_listed = t->s->bad.count;
    return status != RUNG_OK ? rungi_fail_adopt(&error) : written;
}

rung_status rungi_trainer_close_run(rung_trainer *t)
{
    rung_status status = RUNG_OK;
    if (t->metrics) {
        char *jsonl = in_run(t, "metrics.jsonl"), *csv = in_run(t, "metrics.csv");
        rungi_jsonl_sync(t->metrics);
        status = rungi_jsonl_to_csv(jsonl, csv);
        free(jsonl);
        free(csv);
        if (status == RUNG_OK && t->confusion)
            status = write_confusion(t);
        if (status == RUNG_OK)
            status = rungi_trainer_write_trace(t);
        if (status == RUNG_OK)
            status = rungi_trainer_loader_write(t);
        if (status == RUNG_OK)
            status = rungi_trainer_write_ranks(t);
        if (status == RUNG_OK)
            status = rungi_trainer_servers_write(t);
        if (status == RUNG_OK)
            status = rungi_trainer_chart(t->run);
        if (status == RUNG_OK)
            status = rungi_trainer_layers_chart(t);
        if (status == RUNG_OK)
            status = rungi_trainer_memory_write(t);
    }
    rungi_jsonl_close(&t->metrics);
    rung_status closed = rungi_tfevents_close(&t->events);
    rungi_checkpoints_close(&t->checkpoints);
    return status != RUNG_OK ? status : closed;
}
