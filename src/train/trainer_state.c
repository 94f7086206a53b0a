// SPDX-License-Identifier: Apache-2.0
// Where training stands, to a checkpoint and back.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "train/session_stages.h"
#include "train/trainer.h"

// ---- saving -----------------------------------------------------------------------------------

static json_t *number(double value)
{
    return rungi_json_real(value);
}

static json_t *classes_json(const rungi_session *s)
{
    json_t *list = json_array();
    for (int64_t i = 0; s->class_names && i < s->classes; i++)
        json_array_append_new(list, rungi_json_string(s->class_names[i]));
    return list;
}

static json_t *steps_json(const rungi_session *s)
{
    json_t *steps = json_object();
    if (s->stages) {
        rungi_session_stages_steps(s, steps);
        return steps;
    }
    for (int64_t i = 0; i < s->n_segments; i++)
        json_object_set_new(steps, s->segments[i].name,
                            json_integer(rung_optimizer_steps(s->optimizer, i)));
    return steps;
}

static json_t *loss_scale_json(const rung_loss_scale *l)
{
    json_t *o = json_object();
    json_object_set_new(o, "scale", number(l->scale));
    json_object_set_new(o, "good", json_integer(l->good));
    json_object_set_new(o, "skipped", json_integer(l->skipped));
    json_object_set_new(o, "at_floor", json_integer(l->at_floor));
    return o;
}

static json_t *shape_json(const rung_shape *shape)
{
    json_t *list = json_array();
    for (int i = 0; i < shape->rank; i++)
        json_array_append_new(list, json_integer(shape->dim[i]));
    return list;
}

static rung_status state_json(const rung_trainer *t, json_t **out)
{
    const rungi_session *s = t->s;
    char schedule[RUNG_SCHEDULE_TEXT], described[RUNG_SCHEDULE_TEXT], *yaml;
    rung_shape image, picture = {0};
    rung_loader_info info;
    rungi_session_picture(s, &picture);
    rung_loader_describe(s->train_loader, &info);
    RUNG_TRY(rungi_session_image(s, &image));
    RUNG_TRY(rung_config_dump(s->config, 0, &yaml));
    json_t *o = json_object();
    json_object_set_new(o, "step", json_integer(t->at.step));
    json_object_set_new(o, "epoch", json_integer(t->at.epoch));
    json_object_set_new(o, "position", json_integer(t->at.position));
    json_object_set_new(o, "samples", json_integer(t->at.samples));
    json_object_set_new(o, "total_steps", json_integer(s->total_steps));
    json_object_set_new(o, "samples_per_epoch", json_integer(info.samples_per_epoch));
    json_object_set_new(o, "seed", json_integer(s->c->seed));
    json_object_set_new(o, "exact", json_boolean(s->c->exact));
    json_object_set_new(o, "shards", json_integer(rungi_session_trained_shards(s)));
    json_object_set_new(o, "accumulate", json_integer(s->c->gradients.accumulate));
    json_object_set_new(o, "ranks", json_integer(s->ranks * rungi_train_devices(s->c)));
    json_object_set_new(o, "threads", json_integer(rung_device_threads(s->device)));
    json_object_set_new(o, "isa", json_string(rung_isa_name(rung_context_isa(t->context))));
    json_object_set_new(o, "batch_size", json_integer(rungi_session_batch(s)));
    json_object_set_new(o, "sync_batch_norm", json_boolean(s->c->ddp.sync_batch_norm));
    json_object_set_new(o, "model", json_string(s->c->model.name));
    json_object_set_new(o, "optimizer", json_string(rung_optimizer_name(s->c->optim.name)));
    json_object_set_new(o, "optimizer_steps", steps_json(s));
    json_object_set_new(o, "schedule",
                        json_string(rung_schedule_text(&s->schedule, described, sizeof described)));
    json_object_set_new(
        o, "schedule_state",
        json_string(rung_schedule_state_text(&t->at.schedule, schedule, sizeof schedule)));
    json_object_set_new(o, "best", number(t->at.best));
    json_object_set_new(o, "best_step", json_integer(t->at.best_step));
    json_object_set_new(o, "stop_best", number(t->at.stop_best));
    json_object_set_new(o, "stop_count", json_integer(t->at.stop_count));
    json_object_set_new(o, "loss_scale", loss_scale_json(&s->loss_scale));
    json_object_set_new(o, "classes", json_integer(s->classes));
    json_object_set_new(o, "class_names", classes_json(s));
    json_object_set_new(o, "image", shape_json(&image));
    json_object_set_new(o, "picture", shape_json(&picture));
    json_object_set_new(o, "config", json_string(yaml));
    free(yaml);
    *out = o;
    return RUNG_OK;
}

void rungi_trainer_checkpoint_name(const rung_trainer *t, char *out, size_t size)
{
    snprintf(out, size, "step-%08" PRId64, t->at.step);
}

rung_status rungi_trainer_save(rung_trainer *t, bool best)
{
    char name[48];
    rungi_sources model = {0}, optimizer = {0};
    json_t *state = NULL;
    rung_status status;
    rungi_trainer_checkpoint_name(t, name, sizeof name);
    RUNG_TRY_GOTO(done, rungi_session_model(t->s, &model));
    RUNG_TRY_GOTO(done, rungi_session_optimizer(t->s, &optimizer));
    RUNG_TRY_GOTO(done, state_json(t, &state));
    RUNG_TRY_GOTO(done, rungi_jsonl_sync(t->metrics));
    rungi_checkpoint_file files[] = {
        {RUNGI_CHECKPOINT_MODEL, model.list.data, model.list.count},
        {RUNGI_CHECKPOINT_OPTIMIZER, optimizer.list.data, optimizer.list.count},
    };
    RUNG_TRY_GOTO(done, rungi_checkpoints_save(t->checkpoints, name, files, 2, state));
    if (best)
        RUNG_TRY_GOTO(done, rungi_checkpoints_mark(t->checkpoints, RUNGI_CHECKPOINT_BEST, name));
    RUNG_TRY_GOTO(
        done, rungi_checkpoints_prune(t->checkpoints, (size_t)t->s->c->checkpoint.keep, NULL, 0));
    t->saved_step = t->at.step;
done:
    json_decref(state);
    rungi_sources_fini(&model);
    rungi_sources_fini(&optimizer);
    return status;
}

// ---- loading ----------------------------------------------------------------------------------

// Checkpoints from before there were loss scales have none; steps that were left out belong to the
// schedule whatever the precision is now.
static rung_status load_loss_scale(rungi_session *s, const json_t *state, const char *where)
{
    rung_loss_scale *l = &s->loss_scale;
    json_t *o;
    if (!json_object_get(state, "loss_scale"))
        return RUNG_OK;
    RUNG_TRY(rungi_json_object(state, where, "loss_scale", &o));
    RUNG_TRY(rungi_json_f64(o, where, "scale", &l->scale));
    RUNG_TRY(rungi_json_i64(o, where, "good", 0, INT64_MAX, &l->good));
    RUNG_TRY(rungi_json_i64(o, where, "skipped", 0, INT64_MAX, &l->skipped));
    RUNG_TRY(rungi_json_i64(o, where, "at_floor", 0, INT64_MAX, &l->at_floor));
    RUNG_CHECK(l->scale >= 1 && isfinite(l->scale), RUNG_FORMAT, "%s: loss scale %g is below 1",
               where, l->scale);
    return RUNG_OK;
}

static rung_status load_progress(rung_trainer *t, rungi_checkpoint *checkpoint)
{
    json_t *o = rungi_checkpoint_state(checkpoint);
    const char *where = rungi_checkpoint_path(checkpoint), *text;
    rungi_progress *at = &t->at;
    json_t *steps;
    RUNG_TRY(rungi_json_i64(o, where, "step", 0, INT64_MAX, &at->step));
    RUNG_TRY(rungi_json_i64(o, where, "epoch", 0, INT64_MAX, &at->epoch));
    RUNG_TRY(rungi_json_i64(o, where, "position", 0, INT64_MAX, &at->position));
    RUNG_TRY(rungi_json_i64(o, where, "samples", 0, INT64_MAX, &at->samples));
    RUNG_TRY(rungi_json_text(o, where, "schedule_state", &text));
    RUNG_TRY(rung_schedule_state_parse(text, &at->schedule));
    RUNG_TRY(rungi_json_f64(o, where, "best", &at->best));
    RUNG_TRY(rungi_json_i64(o, where, "best_step", INT64_MIN, INT64_MAX, &at->best_step));
    RUNG_TRY(rungi_json_f64(o, where, "stop_best", &at->stop_best));
    RUNG_TRY(rungi_json_i64(o, where, "stop_count", 0, INT64_MAX, &at->stop_count));
    // By the patience of now: raising it lets a run go on.
    int64_t patience = t->s->c->train.early_stop_patience;
    at->stopped_early = patience > 0 && at->stop_count >= patience;
    RUNG_TRY(load_loss_scale(t->s, o, where));
    RUNG_TRY(rungi_json_object(o, where, "optimizer_steps", &steps));
    for (int64_t i = 0; i < t->s->n_segments; i++) {
        int64_t count;
        RUNG_TRY(rungi_json_i64(steps, where, t->s->segments[i].name, 0, INT64_MAX, &count));
        rung_optimizer_set_steps(t->s->optimizer, i, count);
    }
    return RUNG_OK;
}

rung_status rungi_trainer_load(rung_trainer *t, rungi_checkpoint *checkpoint, bool all)
{
    RUNG_TRY(rungi_session_load_model(t->s, checkpoint));
    if (!all)
        return RUNG_OK;
    RUNG_TRY(rungi_session_load_optimizer(t->s, checkpoint));
    RUNG_TRY(load_progress(t, checkpoint));
    t->saved_step = t->at.step;
    if (t->s->c->train.overfit_one_batch)
        return RUNG_OK; // its one batch is the first
    return rungi_session_seek(t->s, t->at.epoch, t->at.position);
}
