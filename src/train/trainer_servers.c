// SPDX-License-Identifier: Apache-2.0
// What the trainers of ps.mode async have in common, and what is told about their workers.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/file_io.h"
#include "base/fs.h"
#include "base/json.h"
#include "formats/svg_chart.h"
#include "train/session_servers.h"
#include "train/trainer.h"

typedef struct rungi_ps_distribution distribution;

static bool tells(const rung_trainer *t)
{
    return rungi_session_is_async(t->s) && t->s->rank == 0;
}

static rungi_ps_worker worker(const rung_trainer *t, int index)
{
    rungi_ps_worker w;
    rungi_ps_report(rungi_session_servers_of(t->s), index, &w);
    return w;
}

// Samples that all workers have done since this was last asked.
static int64_t new_samples(rung_trainer *t)
{
    int64_t before = t->counted;
    t->counted = rungi_session_samples_of_all(t->s);
    return t->counted - before;
}

int64_t rungi_trainer_samples(rung_trainer *t, const rung_batch *batch)
{
    if (!rungi_session_is_async(t->s))
        return batch->global_count;
    return tells(t) ? new_samples(t) : batch->count;
}

rung_status rungi_trainer_meet(rung_trainer *t)
{
    RUNG_TRY(rungi_session_meet(t->s, t->at.step));
    if (!tells(t))
        return RUNG_OK;
    int64_t samples = new_samples(t);
    t->at.samples += samples;
    for (int i = 0; i < RUNGI_WINDOWS; i++)
        t->windows[i].samples += samples;
    return RUNG_OK;
}

// ---- texts ------------------------------------------------------------------------------------

static double mean(const distribution *d)
{
    return d->count ? (double)d->sum / (double)d->count : 0;
}

rung_status rungi_trainer_servers_text(const rung_trainer *t, char **text_out)
{
    rungi_string out = {0};
    *text_out = NULL;
    if (!tells(t))
        return RUNG_OK;
    for (int r = 0; r < t->s->ranks; r++) {
        rungi_ps_worker w = worker(t, r);
        rungi_string_add(&out,
                         "worker %d: %" PRId64 " pushes, staleness %.2f (at most %" PRId64
                         "), ahead %.2f (at most %" PRId64 ")\n",
                         r, w.pushes, mean(&w.staleness), w.staleness.most, mean(&w.ahead),
                         w.ahead.most);
    }
    RUNG_CHECK(!out.failed, RUNG_NO_MEMORY, "no memory for a text");
    *text_out = out.data;
    return RUNG_OK;
}

void rungi_trainer_servers_json(const rung_trainer *t, json_t *o)
{
    if (!tells(t))
        return;
    json_t *clocks = json_array(), *samples = json_array(), *means = json_array();
    json_t *most = json_array(), *ahead = json_array(), *all = json_object();
    for (int r = 0; r < t->s->ranks; r++) {
        rungi_ps_worker w = worker(t, r);
        json_array_append_new(clocks, json_integer(w.clock));
        json_array_append_new(samples, json_integer(w.samples));
        json_array_append_new(means, rungi_json_real(mean(&w.staleness)));
        json_array_append_new(most, json_integer(w.staleness.most));
        json_array_append_new(ahead, json_integer(w.ahead.most));
    }
    json_object_set_new(all, "clock", clocks);
    json_object_set_new(all, "samples", samples);
    json_object_set_new(all, "staleness_mean", means);
    json_object_set_new(all, "staleness_max", most);
    json_object_set_new(all, "ahead_max", ahead);
    json_object_set_new(o, "workers", all);
}

static json_t *distribution_json(const distribution *d)
{
    json_t *counts = json_array();
    for (int64_t i = 0; i <= d->most && i < RUNGI_PS_COUNTS; i++)
        json_array_append_new(counts, json_integer(d->counts[i]));
    return json_pack("{s:f, s:I, s:o}", "mean", mean(d), "max", (json_int_t)d->most, "counts",
                     counts);
}

static rung_status write_ranks(const rung_trainer *t)
{
    json_t *o = json_object(), *ranks = json_array();
    for (int r = 0; r < t->s->ranks; r++) {
        rungi_ps_worker w = worker(t, r);
        json_array_append_new(ranks, json_pack("{s:i, s:I, s:I, s:I, s:o, s:o}", "rank", r, "steps",
                                               (json_int_t)w.clock, "pushes", (json_int_t)w.pushes,
                                               "samples", (json_int_t)w.samples, "staleness",
                                               distribution_json(&w.staleness), "ahead",
                                               distribution_json(&w.ahead)));
    }
    json_object_set_new(o, "servers", json_integer(rungi_config_servers(t->s->c, t->s->ranks)));
    json_object_set_new(
        o, "bound", t->s->c->ps.staleness < 0 ? json_null() : json_integer(t->s->c->ps.staleness));
    json_object_set_new(o, "ranks", ranks);
    char *path = rungi_path_join(t->run, "ranks.json");
    rung_status status =
        path ? rungi_json_save(path, o) : RUNG_FAIL(RUNG_NO_MEMORY, "no memory for ranks.json");
    json_decref(o);
    free(path);
    return status;
}

// Of each worker: which share of its gradients had missed how many updates.
static rung_status write_chart(const rung_trainer *t)
{
    enum { DRAWN = 16 }; // workers
    double(*y)[RUNGI_PS_COUNTS] = calloc(DRAWN, sizeof *y);
    char names[DRAWN][24];
    rungi_svg_series series[DRAWN];
    RUNG_CHECK(y, RUNG_NO_MEMORY, "no memory for staleness.svg");
    int n = t->s->ranks < DRAWN ? t->s->ranks : DRAWN;
    int64_t most = 1;
    for (int r = 0; r < n; r++) {
        rungi_ps_worker w = worker(t, r);
        for (int i = 0; i < RUNGI_PS_COUNTS && w.staleness.count; i++)
            y[r][i] = 100.0 * (double)w.staleness.counts[i] / (double)w.staleness.count;
        most = w.staleness.most > most ? w.staleness.most : most;
        snprintf(names[r], sizeof names[r], "worker %d", r);
        series[r] = (rungi_svg_series){.name = names[r], .y = y[r], .points = true};
    }
    for (int r = 0; r < n; r++)
        series[r].count = (size_t)(most < RUNGI_PS_COUNTS ? most + 1 : RUNGI_PS_COUNTS);
    rungi_string svg = {0};
    rung_status status = rungi_svg_line_chart(
        &(rungi_svg_lines){.title = "Staleness",
                           .x_label = "updates that a gradient's weights had missed",
                           .y_label = "% of pushes",
                           .series = series,
                           .count = (size_t)n,
                           .from_zero = true},
        &svg);
    free(y);
    char *path = rungi_path_join(t->run, "staleness.svg");
    if (status == RUNG_OK)
        status = path ? rungi_fs_write(path, svg.data, svg.size)
                      : RUNG_FAIL(RUNG_NO_MEMORY, "no memory for staleness.svg");
    free(path);
    rungi_string_fini(&svg);
    return status;
}

rung_status rungi_trainer_servers_write(const rung_trainer *t)
{
    if (!tells(t))
        return RUNG_OK;
    RUNG_TRY(write_ranks(t));
    return write_chart(t);
}
