// SPDX-License-Identifier: Apache-2.0
#include "rung/scale.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cores.h"
#include "base/error.h"
#include "base/file_io.h"
#include "base/fs.h"
#include "base/json.h"
#include "formats/svg_chart.h"
#include "ladder/child.h"
#include "ladder/statistics.h"
#include "train/train_config.h"

enum { REPEATS_MOST = 32 };
#define CHILD_LIMIT 3600.0

// The blocks of a row.
typedef struct blocks {
    double step_ms[REPEATS_MOST], samples_per_s[REPEATS_MOST], exchange_ms[REPEATS_MOST],
        wait_share[REPEATS_MOST];
    int count;
} blocks;

typedef struct scale {
    const rung_scale_options *o;
    rung_scale_result *r;
    bool replicas;        // the devices are those of train.strategy data_parallel; else ranks
    const char *launcher; // of ranks
    char config[4096];    // the file that the children read
    blocks blocks[RUNG_SCALE_ROWS];
} scale;

static void tell(const scale *k, const char *fmt, ...) RUNG_PRINTF(2, 3);
static void tell(const scale *k, const char *fmt, ...)
{
    char line[256];
    va_list args;
    if (!k->o->progress)
        return;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    k->o->progress(k->o->user, line);
}

// ---- blocks -----------------------------------------------------------------------------------

static rung_status read_block(const json_t *o, blocks *b, rung_scale_row *row)
{
    json_t *ms;
    int64_t peak;
    int i = b->count;
    RUNG_TRY(rungi_json_f64(o, "a block", "step_ms", &b->step_ms[i]));
    RUNG_TRY(rungi_json_f64(o, "a block", "samples_per_s", &b->samples_per_s[i]));
    RUNG_TRY(rungi_json_f64(o, "a block", "wait_share", &b->wait_share[i]));
    RUNG_TRY(rungi_json_object(o, "a block", "ms", &ms));
    RUNG_TRY(rungi_json_f64(ms, "a block: ms", "exchange", &b->exchange_ms[i]));
    RUNG_TRY(rungi_json_f64(o, "a block", "loss", &row->loss));
    RUNG_TRY(rungi_json_i64(o, "a block", "device_peak_bytes", 0, INT64_MAX, &peak));
    row->peak_bytes = (uint64_t)peak;
    b->count++;
    return RUNG_OK;
}

// Of data_parallel, whose devices divide the threads.
static void list_devices(int count, int threads, char *out, size_t size)
{
    int used = snprintf(out, size, "device.threads=%d device.list=[cpu:0", threads * count);
    for (int d = 1; d < count && used > 0 && (size_t)used < size; d++)
        used += snprintf(out + used, size - (size_t)used, ",cpu:%d", d);
    if (used > 0 && (size_t)used < size)
        snprintf(out + used, size - (size_t)used, "]");
}

static rung_status run_block(const scale *k, rung_scale_row *row, blocks *b)
{
    char settings[1024], arguments[64];
    json_t *o;
    if (k->replicas)
        list_devices(row->devices, k->r->threads, settings, sizeof settings);
    else
        snprintf(settings, sizeof settings, "train.ranks=%d device.threads=%d", row->devices,
                 k->r->threads);
    size_t used = strlen(settings);
    snprintf(settings + used, sizeof settings - used, " data.batch_size=%" PRId64, row->batch);
    snprintf(arguments, sizeof arguments, "--warmup=3 --steps=%" PRId64, k->r->steps);
    const rungi_child child = {k->o->program, k->config, k->launcher,
                               k->replicas ? 1 : row->devices};
    RUNG_TRY(rungi_child_block(&child, settings, arguments, CHILD_LIMIT, &o));
    rung_status status = read_block(o, b, row);
    json_decref(o);
    return status;
}

// One block of each row, backwards in every second round.
static rung_status one_round(scale *k, int64_t round, int64_t rounds)
{
    for (int j = 0; j < k->r->count; j++) {
        int i = round % 2 ? k->r->count - 1 - j : j;
        rung_scale_row *row = &k->r->rows[i];
        if (*row->reason)
            continue;
        tell(k, "round %" PRId64 " of %" PRId64 ": %s scaling, %d device%s", round + 1, rounds,
             row->weak ? "weak" : "strong", row->devices, row->devices == 1 ? "" : "s");
        rung_status status = run_block(k, row, &k->blocks[i]);
        if (status == RUNG_OK)
            continue;
        if (i == 0) // nothing to compare with
            return status;
        snprintf(row->reason, sizeof row->reason, "%s", rung_error_last()->message);
    }
    return RUNG_OK;
}

static void summarise(scale *k)
{
    const rung_scale_row *first = NULL;
    for (int i = 0; i < k->r->count; i++) {
        rung_scale_row *row = &k->r->rows[i];
        blocks *b = &k->blocks[i];
        row->measured = !*row->reason;
        if (!row->measured)
            continue;
        row->step_ms = rungi_median(b->step_ms, (size_t)b->count);
        row->samples_per_s = rungi_median(b->samples_per_s, (size_t)b->count);
        row->exchange_ms = rungi_median(b->exchange_ms, (size_t)b->count);
        row->wait_share = rungi_median(b->wait_share, (size_t)b->count);
        if (!first || first->weak != row->weak)
            first = row;
        row->speed_up = row->samples_per_s / first->samples_per_s * first->devices;
        row->efficiency = row->speed_up / row->devices;
    }
}

// ---- files ------------------------------------------------------------------------------------

static json_t *row_json(const rung_scale_row *row)
{
    json_t *o = json_object();
    json_object_set_new(o, "kind", json_string(row->weak ? "weak" : "strong"));
    json_object_set_new(o, "devices", json_integer(row->devices));
    json_object_set_new(o, "batch_size", json_integer(row->batch));
    if (!row->measured) {
        json_object_set_new(o, "not_available", rungi_json_string(row->reason));
        return o;
    }
    json_object_set_new(o, "step_ms", rungi_json_real(row->step_ms));
    json_object_set_new(o, "samples_per_s", rungi_json_real(row->samples_per_s));
    json_object_set_new(o, "speed_up", rungi_json_real(row->speed_up));
    json_object_set_new(o, "efficiency", rungi_json_real(row->efficiency));
    json_object_set_new(o, "exchange_ms", rungi_json_real(row->exchange_ms));
    json_object_set_new(o, "wait_share", rungi_json_real(row->wait_share));
    json_object_set_new(o, "device_peak_bytes", json_integer((json_int_t)row->peak_bytes));
    json_object_set_new(o, "loss", rungi_json_real(row->loss));
    return o;
}

static rung_status write_json(const scale *k, const char *path)
{
    rungi_string text = {0};
    json_t *o = json_object(), *rows = json_array();
    for (int i = 0; i < k->r->count; i++)
        json_array_append_new(rows, row_json(&k->r->rows[i]));
    json_object_set_new(o, "threads_of_a_device", json_integer(k->r->threads));
    json_object_set_new(o, "steps", json_integer(k->r->steps));
    json_object_set_new(o, "cores", json_integer(rungi_core_count()));
    json_object_set_new(o, "notice", rungi_json_string(k->r->notice));
    json_object_set_new(o, "rows", rows);
    rungi_json_print(o, true, &text);
    json_decref(o);
    rung_status status = text.failed ? RUNG_FAIL(RUNG_NO_MEMORY, "no memory for scale.json")
                                     : rungi_fs_write(path, text.data, text.size);
    rungi_string_fini(&text);
    return status;
}

static rung_status write_chart(const scale *k, const char *path)
{
    double x[2][RUNG_SCALE_DEVICES], y[2][RUNG_SCALE_DEVICES], most = 1;
    size_t n[2] = {0};
    for (int i = 0; i < k->r->count; i++) {
        const rung_scale_row *row = &k->r->rows[i];
        if (!row->measured)
            continue;
        x[row->weak][n[row->weak]] = row->devices;
        y[row->weak][n[row->weak]++] = row->speed_up;
        most = fmax(most, row->devices);
    }
    const double ideal[] = {1, most};
    const rungi_svg_series series[] = {
        {.name = "strong", .x = x[0], .y = y[0], .count = n[0], .points = true},
        {.name = "weak", .x = x[1], .y = y[1], .count = n[1], .points = true},
        {.name = "ideal", .x = ideal, .y = ideal, .count = 2},
    };
    rungi_string svg = {0};
    rung_status status = rungi_svg_line_chart(&(rungi_svg_lines){.title = "Scaling",
                                                                 .x_label = "devices",
                                                                 .y_label = "speed-up",
                                                                 .series = series,
                                                                 .count = 3,
                                                                 .from_zero = true},
                                              &svg);
    if (status == RUNG_OK)
        status = rungi_fs_write(path, svg.data, svg.size);
    rungi_string_fini(&svg);
    return status;
}

static rung_status write_files(const scale *k)
{
    char path[4200];
    if (!k->o->run)
        return RUNG_OK;
    snprintf(path, sizeof path, "%s/scale.json", k->o->run);
    RUNG_TRY(write_json(k, path));
    snprintf(path, sizeof path, "%s/scale.svg", k->o->run);
    return write_chart(k, path);
}

// ---- all of it --------------------------------------------------------------------------------

static rung_status check_devices(const rung_scale_options *o)
{
    RUNG_CHECK(o->n_devices >= 1 && o->n_devices <= RUNG_SCALE_DEVICES, RUNG_INVALID,
               "%d numbers of devices; 1 to %d work", o->n_devices, RUNG_SCALE_DEVICES);
    for (int i = 0; i < o->n_devices; i++)
        RUNG_CHECK(o->devices[i] >= 1 && (i == 0 || o->devices[i] > o->devices[i - 1]),
                   RUNG_INVALID, "numbers of devices must rise from 1 on, not be %d",
                   o->devices[i]);
    return RUNG_OK;
}

static void plan_rows(scale *k, const rungi_train_config *c)
{
    int64_t batch =
        c->data.batch_per_device ? c->data.batch_per_device * k->o->devices[0] : c->data.batch_size;
    for (int weak = 0; weak < 2; weak++)
        for (int i = 0; i < k->o->n_devices; i++) {
            rung_scale_row *row = &k->r->rows[k->r->count++];
            row->weak = weak;
            row->devices = k->o->devices[i];
            row->batch = weak ? batch * row->devices / k->o->devices[0] : batch;
        }
}

static void choose_threads(scale *k, const rungi_train_config *c)
{
    int cores = rungi_core_count(), most = k->o->devices[k->o->n_devices - 1];
    k->r->threads = c->device.threads ? (int)c->device.threads : cores > most ? cores / most : 1;
    if (most * k->r->threads > cores && c->device.op_rate <= 0)
        snprintf(k->r->notice, sizeof k->r->notice,
                 "%d devices of %d thread%s share %d core%s: from %d device%s on more of them "
                 "cannot be faster",
                 most, k->r->threads, k->r->threads == 1 ? "" : "s", cores, cores == 1 ? "" : "s",
                 cores / k->r->threads ? cores / k->r->threads : 1,
                 cores / k->r->threads > 1 ? "s" : "");
}

static rung_status measure(scale *k, const rung_config *config)
{
    int64_t repeats = k->o->repeats ? k->o->repeats : 3;
    repeats = repeats > REPEATS_MOST ? REPEATS_MOST : repeats;
    RUNG_TRY(rung_config_save(config, 0, k->config));
    for (int64_t i = 0; i < repeats; i++)
        RUNG_TRY(one_round(k, i, repeats));
    summarise(k);
    return write_files(k);
}

// The configuration for the children: without what each of them is given, or what is for one rank.
static rung_status for_children(const scale *k, const rung_config *config, rung_config **copy_out)
{
    const char *const settings[] = {
        k->replicas ? "train.strategy=data_parallel" : "train.strategy=auto",
        "data.batch_per_device=none", "device.list=[cpu:0]", "train.ranks=1"};
    rung_config *copy;
    RUNG_TRY(rung_config_copy(config, &copy));
    rung_status status = RUNG_OK;
    for (size_t i = 0; i < sizeof settings / sizeof *settings && status == RUNG_OK; i++)
        status = rung_config_override(copy, settings[i]);
    if (status == RUNG_OK)
        *copy_out = copy;
    else
        rung_config_destroy(&copy);
    return status;
}

rung_status rung_scale_run(rung_context *context, const rung_config *config,
                           const rung_scale_options *options, rung_scale_result *result_out)
{
    rung_config *copy = NULL;
    scale *k = calloc(1, sizeof *k);
    (void)context;
    RUNG_CHECK(k, RUNG_NO_MEMORY, "no memory for a measurement");
    rung_status status;
    *result_out = (rung_scale_result){.steps = options->steps ? options->steps : 20};
    k->o = options;
    k->r = result_out;
    snprintf(k->config, sizeof k->config, "%s/rung-scale-%d.yaml",
             options->run ? options->run : P_tmpdir, (int)getpid());
    RUNG_TRY_GOTO(done, check_devices(options));
    if (options->run)
        RUNG_TRY_GOTO(done, rungi_fs_make_folders(options->run));
    plan_rows(k, rungi_config_values(config));
    choose_threads(k, rungi_config_values(config));
    k->replicas = rungi_config_values(config)->train.strategy == RUNGI_STRATEGY_DATA_PARALLEL;
    k->launcher = rungi_config_values(config)->ladder.launcher;
    RUNG_TRY_GOTO(done, for_children(k, config, &copy));
    RUNG_TRY_GOTO(done, rung_config_check(copy));
    RUNG_TRY_GOTO(done, measure(k, copy));
done:;
    rung_error error = *rung_error_last();
    remove(k->config);
    rung_config_destroy(&copy);
    free(k);
    return status == RUNG_OK ? RUNG_OK : rungi_fail_adopt(&error);
}
