// SPDX-License-Identifier: Apache-2.0
// The charts of a run, from its metrics.jsonl, so that they show what came before a resume as well:
// the loss, and with fp16 the scale of the loss and the steps that were left out.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "base/file_io.h"
#include "base/fs.h"
#include "formats/svg_chart.h"
#include "train/run_metrics.h"
#include "train/trainer.h"

// Points from which on the training loss gets a moving average, and a longer one.
enum { SMOOTH_FROM = 40, SMOOTHER_FROM = 200 };

typedef RUNGI_ARRAY(double) doubles;

typedef struct curve {
    doubles step, loss; // or another value
} curve;

typedef struct curves {
    curve train, validation, scale, skipped;
} curves;

static rung_status add_point(curve *c, const json_t *line, const char *member)
{
    RUNG_CHECK(rungi_array_push(&c->step, rungi_metrics_number(line, "step")) &&
                   rungi_array_push(&c->loss, rungi_metrics_number(line, member)),
               RUNG_NO_MEMORY, "no memory for a chart");
    return RUNG_OK;
}

static rung_status add_line(void *user, const char *event, const json_t *line)
{
    curves *both = user;
    bool eval = strcmp(event, "eval") == 0;
    if (!eval && strcmp(event, "step") != 0)
        return RUNG_OK;
    RUNG_TRY(add_point(eval ? &both->validation : &both->train, line, "loss"));
    if (eval || !json_object_get(line, "loss_scale"))
        return RUNG_OK;
    RUNG_TRY(add_point(&both->scale, line, "loss_scale"));
    return add_point(&both->skipped, line, "skipped");
}

static rung_status draw(const char *path, const curve *train, const curve *validation)
{
    rungi_svg_series series[2];
    size_t n = 0;
    series[n++] = (rungi_svg_series){.name = "training",
                                     .x = train->step.data,
                                     .y = train->loss.data,
                                     .count = train->loss.count,
                                     .points = train->loss.count == 1,
                                     .smooth = train->loss.count >= SMOOTHER_FROM ? 0.9
                                               : train->loss.count >= SMOOTH_FROM ? 0.7
                                                                                  : 0};
    if (validation->loss.count)
        series[n++] = (rungi_svg_series){.name = "validation",
                                         .x = validation->step.data,
                                         .y = validation->loss.data,
                                         .count = validation->loss.count,
                                         .points = validation->loss.count < SMOOTH_FROM};
    rungi_string svg = {0};
    rung_status status = rungi_svg_line_chart(
        &(rungi_svg_lines){
            .title = "Loss", .x_label = "step", .y_label = "loss", .series = series, .count = n},
        &svg);
    if (status == RUNG_OK)
        status = rungi_fs_write(path, svg.data, svg.size);
    rungi_string_fini(&svg);
    return status;
}

// Replaces the number of steps left out so far by the scale, where it has grown, to mark these.
static void mark_skipped(const curve *scale, curve *skipped)
{
    double before = 0;
    for (size_t i = 0; i < skipped->loss.count; i++) {
        const double until = skipped->loss.data[i];
        skipped->loss.data[i] = until > before ? scale->loss.data[i] : NAN;
        before = until;
    }
}

static rung_status draw_scale(const char *path, const curve *scale, curve *skipped)
{
    char name[64];
    snprintf(name, sizeof name, "skipped steps (%.0f)",
             skipped->loss.data[skipped->loss.count - 1]);
    mark_skipped(scale, skipped);
    const rungi_svg_series series[] = {{.name = "loss scale",
                                        .x = scale->step.data,
                                        .y = scale->loss.data,
                                        .count = scale->loss.count,
                                        .points = scale->loss.count == 1},
                                       {.name = name,
                                        .x = skipped->step.data,
                                        .y = skipped->loss.data,
                                        .count = skipped->loss.count,
                                        .points = true}};
    rungi_string svg = {0};
    rung_status status = rungi_svg_line_chart(&(rungi_svg_lines){.title = "Loss scale of fp16",
                                                                 .x_label = "step",
                                                                 .log_y = true,
                                                                 .series = series,
                                                                 .count = 2},
                                              &svg);
    if (status == RUNG_OK)
        status = rungi_fs_write(path, svg.data, svg.size);
    rungi_string_fini(&svg);
    return status;
}

rung_status rungi_trainer_chart(const char *run)
{
    curves all = {0};
    char *loss = rungi_path_join(run, "loss.svg"), *scale = rungi_path_join(run, "loss_scale.svg");
    rung_status status = loss && scale ? rungi_metrics_each(run, add_line, &all)
                                       : RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a chart");
    if (status == RUNG_OK && all.train.loss.count)
        status = draw(loss, &all.train, &all.validation);
    if (status == RUNG_OK && all.scale.loss.count)
        status = draw_scale(scale, &all.scale, &all.skipped);
    curve *each[] = {&all.train, &all.validation, &all.scale, &all.skipped};
    for (int i = 0; i < 4; i++) {
        rungi_array_fini(&each[i]->step);
        rungi_array_fini(&each[i]->loss);
    }
    free(loss);
    free(scale);
    return status;
}
