// SPDX-License-Identifier: Apache-2.0
// What gradients and updates of each parameter look like (train.log_layers), and parameters whose
// gradient is zero again and again.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file_io.h"
#include "base/fs.h"
#include "formats/jsonl.h"
#include "formats/svg_chart.h"
#include "train/run_metrics.h"
#include "train/session_stages.h"
#include "train/trainer.h"

// What a segment's gradient and update were at a step that was looked at.
struct rungi_layer_log {
    double grad_norm, params, update; // the latter two: sums of squares
    int zeros;                        // looks in a row at which its gradient was zero
};

rung_status rungi_trainer_layers_begin(rung_trainer *t)
{
    free(t->layers);
    t->layers_step = -1;
    t->layers = calloc((size_t)t->s->n_segments + 1, sizeof *t->layers);
    RUNG_CHECK(t->layers, RUNG_NO_MEMORY, "no memory to log layers");
    return RUNG_OK;
}

// Tells of parameters whose gradient was zero at two looks one after the other, once.
static void tell_zeros(rung_trainer *t)
{
    enum { SHOWN = 5 };

    rungi_string names = {0};
    int count = 0;
    for (int64_t i = 0; i < t->s->n_segments; i++) {
        if (t->layers[i].zeros != 2)
            continue;
        if (count++ < SHOWN)
            rungi_string_add(&names, "%s%s", count > 1 ? ", " : "", t->s->segments[i].name);
    }
    if (count > SHOWN)
        rungi_string_add(&names, " and %d more", count - SHOWN);
    if (count && (t->s->rank == 0 || t->s->stages))
        rungi_log(t->context, RUNG_LOG_WARNING,
                  "step %lld: the gradient of %s is zero in every element, as when it was last "
                  "looked at: nothing is learned there",
                  (long long)t->at.step + 1, rungi_string_text(&names));
    rungi_string_fini(&names);
}

// An optimizer that is cut over the ranks has measured its part on each.
static rung_status share_sums(rung_trainer *t)
{
    rungi_session *s = t->s;
    if (!rungi_session_shards_optimizer(s))
        return RUNG_OK;
    double *sums = calloc((size_t)s->n_segments * 2 + 1, sizeof *sums);
    RUNG_CHECK(sums, RUNG_NO_MEMORY, "no memory to log layers");
    for (int64_t i = 0; i < s->n_segments; i++) {
        sums[2 * i] = t->layers[i].params;
        sums[2 * i + 1] = t->layers[i].update;
    }
    rung_status status = rungi_comm_all_reduce(s->comm, sums, s->n_segments * 2, RUNG_F64,
                                               RUNGI_COMM_SUM, "norms of updates");
    for (int64_t i = 0; i < s->n_segments; i++) {
        t->layers[i].params = sums[2 * i];
        t->layers[i].update = sums[2 * i + 1];
    }
    free(sums);
    return status;
}

static double ratio(const struct rungi_layer_log *l)
{
    return l->params > 0 ? sqrt(l->update / l->params) : NAN;
}

// What all stages of a pipeline have looked at, "NAME\tNORM\tRATIO" a line, in the order of one
// device: from the last layer to the first.
static rung_status share_stages(rung_trainer *t)
{
    const rungi_session *s = t->s;
    uint64_t offsets[RUNGI_PIPELINE_STAGES + 1];
    rungi_string own = {0}, all_rows = {0};
    void *all = NULL;
    for (int64_t i = 0; i < s->n_segments; i++)
        if (!s->segments[i].frozen)
            rungi_string_add(&own, "%s\t%.17g\t%.17g\n", s->segments[i].name,
                             t->layers[i].grad_norm, ratio(&t->layers[i]));
    rung_status status = rungi_comm_gather_objects(s->comm, rungi_string_text(&own), own.size + 1,
                                                   "norms of updates", &all, offsets);
    for (int r = s->ranks - 1; r >= 0 && status == RUNG_OK; r--)
        rungi_string_add(&all_rows, "%s", (char *)all + offsets[r]);
    if (status == RUNG_OK && (own.failed || all_rows.failed))
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory to log layers");
    free(all);
    rungi_string_fini(&own);
    free(t->stage_layers);
    t->stage_layers = all_rows.data;
    return status;
}

rung_status rungi_trainer_layers_look(rung_trainer *t, const rung_optimizer_update *u,
                                      const rung_optimizer_report *report)
{
    const rungi_session *s = t->s;
    if (!s->optimizer || rungi_session_is_async(s) || isnan(report->grad_norm) || !report->applied)
        return RUNG_OK;
    for (int64_t i = 0; i < s->n_segments; i++) {
        struct rungi_layer_log *l = &t->layers[i];
        bool learns = !s->segments[i].frozen && s->segments[i].end > s->segments[i].begin;
        l->grad_norm = rung_optimizer_segment_norm(s->optimizer, i);
        if (u->want_norm)
            l->zeros = learns && l->grad_norm == 0 ? l->zeros + 1 : 0;
        if (u->measure)
            rung_optimizer_segment_update(s->optimizer, i, &l->params, &l->update);
    }
    if (u->want_norm)
        tell_zeros(t);
    if (!u->measure)
        return RUNG_OK;
    t->layers_step = t->at.step + 1;
    return s->stages ? share_stages(t) : share_sums(t);
}

static void add_layer(json_t *norms, json_t *ratios, const char *name, double norm, double share)
{
    json_object_set_new(norms, name, rungi_jsonl_number(norm));
    json_object_set_new(ratios, name, rungi_jsonl_number(share));
}

static void add_stages(const rung_trainer *t, json_t *norms, json_t *ratios)
{
    char name[512], *end;
    for (const char *at = t->stage_layers; at && *at;) {
        const char *tab = strchr(at, '\t');
        snprintf(name, sizeof name, "%.*s", (int)(tab - at), at);
        double norm = strtod(tab, &end), share = strtod(end, &end);
        add_layer(norms, ratios, name, norm, share);
        at = end + 1; // behind the line
    }
}

void rungi_trainer_layers_json(const rung_trainer *t, json_t *o)
{
    if (!t->layers || t->layers_step != t->at.step)
        return;
    json_t *norms = json_object(), *ratios = json_object();
    if (t->s->stages)
        add_stages(t, norms, ratios);
    for (int64_t i = 0; i < t->s->n_segments && !t->s->stages; i++)
        if (!t->s->segments[i].frozen)
            add_layer(norms, ratios, t->s->segments[i].name, t->layers[i].grad_norm,
                      ratio(&t->layers[i]));
    json_object_set_new(o, "layer_grad_norm", norms);
    json_object_set_new(o, "layer_update_ratio", ratios);
}

// ---- layers.svg -------------------------------------------------------------------------------

enum { CURVES = 8 }; // as many as there are colours

typedef RUNGI_ARRAY(double) doubles;

typedef struct layer_curves {
    int count;
    const char *names[CURVES];
    doubles step, ratio[CURVES];
} layer_curves;

static rung_status add_line(void *user, const char *event, const json_t *line)
{
    layer_curves *c = user;
    const json_t *ratios = json_object_get(line, "layer_update_ratio");
    if (strcmp(event, "step") != 0 || !ratios)
        return RUNG_OK;
    bool good = rungi_array_push(&c->step, rungi_metrics_number(line, "step"));
    for (int i = 0; i < c->count; i++)
        good = good && rungi_array_push(&c->ratio[i], rungi_metrics_number(ratios, c->names[i]));
    RUNG_CHECK(good, RUNG_NO_MEMORY, "no memory for layers.svg");
    return RUNG_OK;
}

// Is it a matrix or a kernel that learns? Vectors (biases, scales) are left out of the drawing.
static bool is_drawn(const rungi_value *v, bool reached)
{
    return v->kind == RUNGI_VALUE_PARAM && !v->frozen && reached && v->shape.rank > 1;
}

// Of all stages, where there are some.
static rung_status choose(const rung_trainer *t, layer_curves *c, int *drawn_out)
{
    const rung_graph *g = rungi_session_whole(t->s);
    int drawn = 0, at = 0;
    bool *reached;
    RUNG_TRY(rungi_graph_gradients(g, &reached));
    for (size_t i = 1; i < g->values.count; i++)
        drawn += is_drawn(&g->values.data[i], reached[i]);
    int wanted = drawn < CURVES ? drawn : CURVES;
    for (size_t i = 1; i < g->values.count; i++) {
        if (!is_drawn(&g->values.data[i], reached[i]))
            continue;
        // evenly, the first and the last among them
        if (wanted == drawn || at * (wanted - 1) / (drawn - 1) == c->count)
            c->names[c->count++] = g->values.data[i].name;
        at++;
    }
    free(reached);
    *drawn_out = drawn;
    return RUNG_OK;
}

static rung_status draw(const char *path, const layer_curves *c, int of)
{
    rungi_svg_series series[CURVES];
    char title[96];
    for (int i = 0; i < c->count; i++)
        series[i] = (rungi_svg_series){.name = c->names[i],
                                       .x = c->step.data,
                                       .y = c->ratio[i].data,
                                       .count = c->step.count,
                                       .points = c->step.count < 2};
    snprintf(title, sizeof title,
             of > c->count ? "Norm of a step's update over the weights' (%d of %d layers)"
                           : "Norm of a step's update over the weights'",
             c->count, of);
    rungi_string svg = {0};
    rung_status status = rungi_svg_line_chart(&(rungi_svg_lines){.title = title,
                                                                 .x_label = "step",
                                                                 .y_label = "update ratio",
                                                                 .log_y = true,
                                                                 .series = series,
                                                                 .count = (size_t)c->count},
                                              &svg);
    if (status == RUNG_OK)
        status = rungi_fs_write(path, svg.data, svg.size);
    rungi_string_fini(&svg);
    return status;
}

rung_status rungi_trainer_layers_chart(const rung_trainer *t)
{
    if (!t->s->c->gradients.log_layers)
        return RUNG_OK;
    layer_curves c = {0};
    int drawn;
    RUNG_TRY(choose(t, &c, &drawn));
    char *path = rungi_path_join(t->run, "layers.svg");
    RUNG_CHECK(path, RUNG_NO_MEMORY, "no memory for layers.svg");
    rung_status status = rungi_metrics_each(t->run, add_line, &c);
    if (status == RUNG_OK && c.step.count && c.count)
        status = draw(path, &c, drawn);
    rungi_array_fini(&c.step);
    for (int i = 0; i < c.count; i++)
        rungi_array_fini(&c.ratio[i]);
    free(path);
    return status;
}
