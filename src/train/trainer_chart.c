// SPDX-License-Identifier: Apache-2.0
// The loss curve of a run, from its metrics.jsonl: so it shows what came before a resume as well.
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
    doubles step, loss;
} curve;

typedef struct curves {
    curve train, validation;
} curves;

static rung_status add_line(void *user, const char *event, const json_t *line)
{
    curves *both = user;
    bool eval = strcmp(event, "eval") == 0;
    if (!eval && strcmp(event, "step") != 0)
        return RUNG_OK;
    curve *c = eval ? &both->validation : &both->train;
    RUNG_CHECK(rungi_array_push(&c->step, rungi_metrics_number(line, "step")) &&
                   rungi_array_push(&c->loss, rungi_metrics_number(line, "loss")),
               RUNG_NO_MEMORY, "no memory for loss.svg");
    return RUNG_OK;
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

rung_status rungi_trainer_chart(const char *run)
{
    curves both = {0};
    char *svg = rungi_path_join(run, "loss.svg");
    RUNG_CHECK(svg, RUNG_NO_MEMORY, "no memory for loss.svg");
    rung_status status = rungi_metrics_each(run, add_line, &both);
    if (status == RUNG_OK && both.train.loss.count)
        status = draw(svg, &both.train, &both.validation);
    curve *all[] = {&both.train, &both.validation};
    for (int i = 0; i < 2; i++) {
        rungi_array_fini(&all[i]->step);
        rungi_array_fini(&all[i]->loss);
    }
    free(svg);
    return status;
}
