// SPDX-License-Identifier: Apache-2.0
// Making, resuming and opening trainers.
#include "train/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fs.h"
#include "base/json.h"
#include "train/workers_auto.h"

static rung_status make(rung_context *context, const rung_config *config, const char *run,
                        const rungi_session_options *options, rung_trainer **trainer_out)
{
    rung_trainer *t = calloc(1, sizeof *t);
    RUNG_CHECK(t, RUNG_NO_MEMORY, "no memory for a trainer");
    t->context = context;
    t->at = (rungi_progress){.best = NAN, .stop_best = NAN, .best_step = -1};
    t->saved_step = t->straggler = -1;
    rung_status status = RUNG_OK;
    if (run) {
        t->run = strdup(run);
        if (!t->run)
            status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a trainer");
    }
    if (status == RUNG_OK)
        status = rungi_session_create(context, config, options, &t->s);
    if (status != RUNG_OK) {
        rung_error error = *rung_error_last();
        rung_trainer_destroy(&t);
        return rungi_fail_adopt(&error);
    }
    t->at.schedule = rung_schedule_start(&t->s->schedule);
    *trainer_out = t;
    return RUNG_OK;
}

// What a trainer with all of its parts is made from.
typedef struct origin {
    const rung_config *config;
    const char *run; // or NULL
    bool resume;
} origin;

static rung_status restore(rung_trainer *t);

// On failure *trainer_out may be set all the same: the caller destroys it.
static rung_status make_whole(rung_context *context, const origin *o, rungi_comm *comm,
                              rung_trainer **trainer_out)
{
    // What plan.autotune chooses is kept in the run folder.
    char *tuning = o->run ? rungi_path_join(o->run, "tuning.json") : NULL;
    rung_status status =
        make(context, o->config, o->run,
             &(rungi_session_options){
                 .parts = RUNGI_SESSION_ALL, .comm = comm, .loaded = o->resume, .tuning = tuning},
             trainer_out);
    free(tuning);
    RUNG_TRY(status);
    rung_trainer *t = *trainer_out;
    t->resumed = o->resume;
    // Before looking at its checkpoints: no other process goes on with them.
    RUNG_TRY(rungi_trainer_lock_run(t));
    // Asked for again on resume; the run itself keeps what was chosen.
    RUNG_TRY(rungi_session_choose_workers(t->s));
    if (comm)
        RUNG_TRY(rungi_comm_barrier(comm, "run folder"));
    return o->resume ? restore(t) : RUNG_OK;
}

static rung_status make_member(void *arg, rungi_member *member)
{
    origin own = *(const origin *)arg;
    rung_config *copy = NULL;
    rung_trainer *t = NULL;
    RUNG_TRY(rungi_config_copy_for(member->context, own.config, &copy));
    own.config = copy;
    rung_status status = make_whole(member->context, &own, member->comm, &t);
    rung_config_destroy(&copy);
    member->user = t;
    return status;
}

// The trainers that are not the first member's.
static rung_status destroy_member(void *arg, rungi_member *member)
{
    rung_trainer *t = member->user;
    (void)arg;
    if (member->index)
        rung_trainer_destroy(&t);
    return RUNG_OK;
}

static rung_status make_ranks(rung_context *context, const origin *o, rung_trainer **trainer_out)
{
    rungi_crew *crew;
    RUNG_TRY(rungi_crew_for(context, rungi_config_values(o->config), o->run, &crew));
    rung_status status = rungi_crew_run(crew, make_member, (void *)(uintptr_t)o);
    rung_trainer *first = rungi_crew_member(crew, 0)->user;
    *trainer_out = first;
    if (first) { // which takes the others along
        first->crew = crew;
        return status;
    }
    rungi_crew_run(crew, destroy_member, NULL);
    rungi_crew_destroy(&crew);
    return status;
}

// Makes the trainer, and with it those of the other ranks.
static rung_status launch(rung_context *context, const origin *o, rung_trainer **trainer_out)
{
    rung_trainer *t = NULL;
    const rungi_train_config *c = rungi_config_values(o->config);
    rung_status status;
    if (rungi_crew_wanted(c)) {
        status = make_ranks(context, o, &t);
    } else {
        RUNG_TRY(rungi_train_config_check_counts(rungi_config_options(o->config), c, 1));
        status = make_whole(context, o, NULL, &t);
    }
    if (status != RUNG_OK) {
        rung_error error = *rung_error_last();
        rung_trainer_destroy(&t);
        return rungi_fail_adopt(&error);
    }
    *trainer_out = t;
    return RUNG_OK;
}

rung_status rung_trainer_create(rung_context *context, const rung_config *config, const char *run,
                                rung_trainer **trainer_out)
{
    RUNG_TRY(rungi_trainer_check_run(run));
    return launch(context, &(origin){.config = config, .run = run}, trainer_out);
}

void rung_trainer_destroy(rung_trainer **trainer)
{
    if (!trainer || !*trainer)
        return;
    rung_trainer *t = *trainer;
    rungi_crew *crew = t->crew;
    if (crew)
        rungi_crew_run(crew, destroy_member, NULL);
    rungi_jsonl_close(&t->metrics);
    rungi_tfevents_close(&t->events);
    rungi_checkpoints_close(&t->checkpoints);
    rungi_session_destroy(&t->s);
    free(t->confusion);
    free(t->seen);
    free(t->layers);
    free(t->stage_layers);
    rungi_exchanged_fini(&t->exchanged);
    rungi_string_fini(&t->trace);
    free(t->run);
    free(t);
    rungi_crew_destroy(&crew);
    *trainer = NULL;
}

void rung_trainer_stop(rung_trainer *trainer)
{
    atomic_store(&trainer->stop, 1);
}

int rung_trainer_rank(const rung_trainer *trainer)
{
    return trainer->s->rank;
}

rung_train_place rung_trainer_place(const rung_trainer *t)
{
    return (rung_train_place){t->at.step, t->s->total_steps, t->at.stopped_early};
}

const char *const *rung_trainer_classes(const rung_trainer *trainer, int64_t *count_out)
{
    *count_out = trainer->s->classes;
    return (const char *const *)trainer->s->class_names;
}

// ---- from a run folder ------------------------------------------------------------------------

rung_status rung_run_config(rung_context *context, const char *run, const char *const *overrides,
                            int count, rung_config **config_out)
{
    char *path = rungi_path_join(run, "config.yaml");
    RUNG_CHECK(path, RUNG_NO_MEMORY, "no memory for a path");
    rung_config *config = NULL;
    rung_status status;
    if (!rungi_fs_exists(path)) {
        status = RUNG_FAIL(RUNG_NOT_FOUND, "%s is not a run folder: it has no config.yaml", run);
        goto undo;
    }
    RUNG_TRY_GOTO(undo, rung_config_create(context, &config));
    RUNG_TRY_GOTO(undo, rung_config_load(config, path));
    for (int i = 0; i < count; i++)
        RUNG_TRY_GOTO(undo, rung_config_override(config, overrides[i]));
    RUNG_TRY_GOTO(undo, rungi_run_config_batch(config));
    free(path);
    *config_out = config;
    return RUNG_OK;
undo:
    rung_config_destroy(&config);
    free(path);
    return status;
}

static void tell_rejected(void *user, const char *path, const char *reason)
{
    rungi_log(user, RUNG_LOG_WARNING, "%s is passed over: %s", path, reason);
}

static rung_status must_equal(const json_t *state, const char *where, const char *member,
                              int64_t now, const char *key)
{
    int64_t then;
    RUNG_TRY(rungi_json_i64(state, where, member, INT64_MIN, INT64_MAX, &then));
    RUNG_CHECK(then == now, RUNG_CONFIG,
               "%s is %" PRId64 ", but the run was begun with %" PRId64
               ": its result would be another one",
               key, now, then);
    return RUNG_OK;
}

static rung_status must_be(const json_t *state, const char *where, const char *member,
                           const char *now, const char *key)
{
    const char *then;
    RUNG_TRY(rungi_json_text(state, where, member, &then));
    RUNG_CHECK(strcmp(then, now) == 0, RUNG_CONFIG,
               "%s is %s, but the run was begun with %s: its state does not fit", key, now, then);
    return RUNG_OK;
}

static rung_status note_number(const rung_trainer *t, const json_t *state, const char *where,
                               const char *member, int64_t now, const char *what)
{
    int64_t then;
    RUNG_TRY(rungi_json_i64(state, where, member, 0, INT64_MAX, &then));
    if (then != now)
        rungi_log(t->context, RUNG_LOG_NOTICE,
                  "%s is %" PRId64 " now, the run was begun with %" PRId64, what, now, then);
    return RUNG_OK;
}

// What may not change when a run goes on, and what is told when it does.
static rung_status compare(const rung_trainer *t, rungi_checkpoint *checkpoint)
{
    json_t *state = rungi_checkpoint_state(checkpoint);
    const char *where = rungi_checkpoint_path(checkpoint), *schedule, *isa;
    const char *own_isa = rung_isa_name(rung_context_isa(t->context));
    const rungi_session *s = t->s;
    bool exact;
    char now[RUNG_SCHEDULE_TEXT];
    rung_loader_info info;
    rung_loader_describe(s->train_loader, &info);
    RUNG_TRY(must_equal(state, where, "seed", s->c->seed, "seed"));
    RUNG_TRY(must_equal(state, where, "shards", rungi_session_trained_shards(s),
                        s->c->exact && s->c->gradients.accumulate > 1
                            ? "train.shards times train.accumulate"
                            : "train.shards"));
    RUNG_TRY(must_be(state, where, "model", s->c->model.name, "model.name"));
    RUNG_TRY(
        must_be(state, where, "optimizer", rung_optimizer_name(s->c->optim.name), "optim.name"));
    RUNG_TRY(rungi_json_bool(state, where, "exact", &exact));
    RUNG_TRY(rungi_json_text(state, where, "schedule", &schedule));
    if (exact != s->c->exact)
        rungi_log(t->context, RUNG_LOG_NOTICE, "exact is %s now, the run was begun with %s",
                  s->c->exact ? "true" : "false", exact ? "true" : "false");
    RUNG_TRY(rungi_json_text(state, where, "isa", &isa));
    if (strcmp(isa, own_isa) != 0)
        rungi_log(t->context, RUNG_LOG_NOTICE,
                  "the instruction set is %s now, the run was begun with %s: rounding will differ",
                  own_isa, isa);
    RUNG_TRY(rungi_trainer_compare_ranks(t, state, where));
    if (!exact)
        RUNG_TRY(note_number(
            t, state, where, "ranks", s->ranks * rungi_train_devices(s->c),
            "the number of ranks or devices (which rounding, and the statistics of batch "
            "normalization, depend on without exact)"));
    if (!exact)
        RUNG_TRY(note_number(t, state, where, "threads", rung_device_threads(s->device),
                             "the number of threads (which rounding depends on without exact)"));
    RUNG_TRY(note_number(t, state, where, "batch_size", rungi_session_batch(s),
                         s->c->gradients.accumulate > 1
                             ? "the batch of a step (data.batch_size times train.accumulate)"
                             : "data.batch_size"));
    if (!exact && json_object_get(state, "accumulate"))
        RUNG_TRY(note_number(t, state, where, "accumulate", s->c->gradients.accumulate,
                             "train.accumulate (which rounding, and the statistics of batch "
                             "normalization, depend on without exact)"));
    RUNG_TRY(note_number(t, state, where, "samples_per_epoch", info.samples_per_epoch,
                         "the number of samples in an epoch"));
    RUNG_TRY(note_number(t, state, where, "total_steps", s->total_steps, "the number of steps"));
    rung_schedule_text(&s->schedule, now, sizeof now);
    if (strcmp(now, schedule) != 0)
        rungi_log(t->context, RUNG_LOG_NOTICE, "the schedule is %s now, the run was begun with %s",
                  now, schedule);
    return RUNG_OK;
}

// For a run that was killed between a save and its marks. They are what evaluation and comparison
// look for, and a finished run saves no more.
static rung_status repair_marks(rung_trainer *t, const char *name)
{
    RUNG_TRY(rungi_checkpoints_mark(t->checkpoints, RUNGI_CHECKPOINT_LATEST, name));
    return t->at.best_step == t->at.step
               ? rungi_checkpoints_mark(t->checkpoints, RUNGI_CHECKPOINT_BEST, name)
               : RUNG_OK;
}

static rung_status restore(rung_trainer *t)
{
    char *root = rungi_path_join(t->run, "checkpoints");
    RUNG_CHECK(root, RUNG_NO_MEMORY, "no memory for a path");
    rungi_checkpoint *checkpoint = NULL;
    rung_status status = rungi_checkpoint_open_newest(root, tell_rejected, t->context, &checkpoint);
    free(root);
    if (status == RUNG_NOT_FOUND) {
        rungi_log(t->context, RUNG_LOG_NOTICE, "%s has no checkpoint yet: from step 0", t->run);
        RUNG_TRY(rungi_session_begin(t->s));
        return rungi_trainer_same_step(t);
    }
    RUNG_TRY(status);
    status = compare(t, checkpoint);
    if (status == RUNG_OK)
        status = rungi_trainer_load(t, checkpoint, true);
    if (status == RUNG_OK && t->checkpoints)
        status = repair_marks(t, rungi_path_name(rungi_checkpoint_path(checkpoint)));
    rungi_checkpoint_close(&checkpoint);
    return status == RUNG_OK ? rungi_trainer_same_step(t) : status;
}

rung_status rung_trainer_resume(rung_context *context, const char *run,
                                const char *const *overrides, int count, bool *finished_out,
                                rung_trainer **trainer_out)
{
    rung_config *config;
    rung_trainer *t = NULL;
    RUNG_TRY(rung_run_config(context, run, overrides, count, &config));
    rung_status status =
        launch(context, &(origin){.config = config, .run = run, .resume = true}, &t);
    rung_config_destroy(&config);
    RUNG_TRY(status);
    *finished_out = t->at.step >= t->s->total_steps || t->at.stopped_early;
    *trainer_out = t;
    return RUNG_OK;
}

rung_status rung_trainer_open(rung_context *context, const char *run, const char *checkpoint_name,
                              const char *const *overrides, int count, rung_trainer **trainer_out)
{
    rung_config *config = NULL;
    rung_trainer *t = NULL;
    rungi_checkpoint *checkpoint = NULL;
    char *path = rungi_text_format("%s/checkpoints/%s", run, checkpoint_name);
    char *tuning = rungi_path_join(run, "tuning.json");
    rung_status status = RUNG_OK;
    if (!path || !tuning) {
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a path");
        goto done;
    }
    RUNG_TRY_GOTO(done, rung_run_config(context, run, overrides, count, &config));
    RUNG_TRY_GOTO(done, rungi_checkpoint_open(path, true, &checkpoint));
    RUNG_TRY_GOTO(done, make(context, config, run,
                             &(rungi_session_options){
                                 .parts = RUNGI_SESSION_EVAL, .loaded = true, .tuning = tuning},
                             &t));
    status = rungi_trainer_load(t, checkpoint, false);
done:
    free(path);
    free(tuning);
    rungi_checkpoint_close(&checkpoint);
    rung_config_destroy(&config);
    if (status != RUNG_OK) {
        rung_error error = *rung_error_last();
        rung_trainer_destroy(&t);
        return rungi_fail_adopt(&error);
    }
    *trainer_out = t;
    return RUNG_OK;
}
