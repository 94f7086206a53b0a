// SPDX-License-Identifier: Apache-2.0
// The loss curve of a run, from its metrics.jsonl: so it shows what came before a resume as well.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/atomic_file.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/json.h"
#include "formats/svg_chart.h"
#include "train/trainer.h"

enum { SMOOTH_FROM = 40 }; // points from which on the training loss gets a moving average

static const size_t FILE_MAX = (size_t)1 << 30;

typedef RUNGI_ARRAY(double) doubles;

typedef struct curve {
    doubles step, loss;
} curve;

static bool add(curve *c, double step, double loss)
{
    return rungi_array_push(&c->step, step) && rungi_array_push(&c->loss, loss);
}

static bool add_line(const char *line, size_t size, curve *train, curve *validation)
{
    json_t *o = json_loadb(line, size, 0, NULL);
    const char *event = json_string_value(json_object_get(o, "event"));
    const json_t *loss = json_object_get(o, "loss");
    double step = json_number_value(json_object_get(o, "step"));
    double value = json_is_number(loss) ? json_number_value(loss) : NAN;
    bool ok = true;
    if (event && strcmp(event, "step") == 0)
        ok = add(train, step, value);
    else if (event && strcmp(event, "eval") == 0)
        ok = add(validation, step, value);
    json_decref(o);
    return ok;
}

static rung_status read_curves(const char *path, curve *train, curve *validation)
{
    char *data;
    size_t size;
    bool ok = true;
    RUNG_TRY(rungi_fs_read(path, FILE_MAX, &data, &size));
    for (char *line = data, *end; ok && (end = memchr(line, '\n', size - (size_t)(line - data)));
         line = end + 1)
        ok = add_line(line, (size_t)(end - line), train, validation);
    free(data);
    RUNG_CHECK(ok, RUNG_NO_MEMORY, "no memory for loss.svg");
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
                                     .smooth = train->loss.count >= SMOOTH_FROM ? 0.9 : 0};
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
    curve train = {0}, validation = {0};
    char *jsonl = rungi_path_join(run, "metrics.jsonl"), *svg = rungi_path_join(run, "loss.svg");
    rung_status status = RUNG_OK;
    if (!jsonl || !svg)
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for loss.svg");
    if (status == RUNG_OK)
        status = read_curves(jsonl, &train, &validation);
    if (status == RUNG_OK && train.loss.count)
        status = draw(svg, &train, &validation);
    curve *both[] = {&train, &validation};
    for (int i = 0; i < 2; i++) {
        rungi_array_fini(&both[i]->step);
        rungi_array_fini(&both[i]->loss);
    }
    free(jsonl);
    free(svg);
    return status;
}
