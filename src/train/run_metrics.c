// SPDX-License-Identifier: Apache-2.0
#include "train/run_metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fs.h"
#include "measure/timeline.h"

static const size_t FILE_MAX = (size_t)4 << 30;

rung_status rungi_metrics_each(const char *run, rungi_metrics_fn fn, void *user)
{
    char *path = rungi_path_join(run, "metrics.jsonl"), *data = NULL, *end;
    size_t size = 0;
    RUNG_CHECK(path, RUNG_NO_MEMORY, "no memory for a path");
    rung_status status = rungi_fs_read(path, FILE_MAX, &data, &size);
    free(path);
    RUNG_TRY(status);
    for (char *line = data; (end = memchr(line, '\n', size - (size_t)(line - data)));
         line = end + 1) {
        json_t *o = json_loadb(line, (size_t)(end - line), 0, NULL);
        const char *event = json_string_value(json_object_get(o, "event"));
        if (event)
            status = fn(user, event, o);
        json_decref(o);
        if (status != RUNG_OK)
            break;
    }
    free(data);
    return status;
}

double rungi_metrics_number(const json_t *line, const char *member)
{
    const json_t *value = json_object_get(line, member);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

typedef struct sums {
    rung_compared *side;
    double steps, samples, ms[RUNG_TIME_PARTS];
    double last_step, last_samples;
} sums;

static void add_step(sums *sum, const json_t *line)
{
    const json_t *ms = json_object_get(line, "ms");
    double step = rungi_metrics_number(line, "step");
    double samples = rungi_metrics_number(line, "samples");
    double count = step - sum->last_step;
    sum->side->train_loss = rungi_metrics_number(line, "loss");
    if (!(count > 0))
        return;
    for (int i = 0; i < RUNG_TIME_PARTS; i++)
        sum->ms[i] += count * json_number_value(json_object_get(ms, rung_time_part(i)));
    sum->steps += count;
    sum->samples += samples - sum->last_samples;
    sum->last_step = step;
    sum->last_samples = samples;
}

static rung_status add_line(void *user, const char *event, const json_t *line)
{
    sums *sum = user;
    if (strcmp(event, "step") == 0) {
        add_step(sum, line);
    } else if (strcmp(event, "eval") == 0) {
        sum->side->evaluated = true;
        sum->side->loss = rungi_metrics_number(line, "loss");
        sum->side->accuracy = rungi_metrics_number(line, "accuracy");
        sum->side->top5 = rungi_metrics_number(line, "top5");
    }
    return RUNG_OK;
}

rung_status rungi_run_metrics(const char *run, rung_compared *side)
{
    sums sum = {.side = side};
    double stepping = 0;
    rung_status status = rungi_metrics_each(run, add_line, &sum);
    if (status == RUNG_NOT_FOUND)
        return RUNG_OK;
    RUNG_TRY(status);
    if (sum.steps <= 0)
        return RUNG_OK;
    side->measured = true;
    for (int i = 0; i < RUNG_TIME_PARTS; i++) {
        side->ms[i] = sum.ms[i] / sum.steps;
        if (i != RUNGI_TIME_EVAL && i != RUNGI_TIME_CHECKPOINT)
            stepping += sum.ms[i];
    }
    side->samples_per_s = stepping > 0 ? sum.samples / (stepping * 1e-3) : 0;
    return RUNG_OK;
}
