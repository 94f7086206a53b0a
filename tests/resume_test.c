// SPDX-License-Identifier: Apache-2.0
// Going on with a run: cases C53, C54, C56, C57, C63, C85.
#include "training.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "formats/checkpoint_folder.h"
#include "train/run_metrics.h"
#include "train/trainer.h"

// ---- schedules (C53) --------------------------------------------------------------------------

enum { EPOCHS = 12, STEPS = 8 * EPOCHS, CUT = 43 }; // cut inside of an epoch

typedef struct rates {
    rung_trainer *trainer; // stopped at step `stop`
    int64_t stop;
    double lr[STEPS + 1];
    int seen[STEPS + 1];
} rates;

static void keep_rate(void *user, const rung_train_event *e)
{
    rates *r = user;
    if (e->kind != RUNG_EVENT_STEP)
        return;
    r->lr[e->step] = e->lr;
    r->seen[e->step]++;
    if (e->step == r->stop)
        rung_trainer_stop(r->trainer);
}

static void train_rates(rung_context *context, const char *const *overrides, const char *run,
                        int64_t stop, rates *r)
{
    rung_config *config = training_config(context, TRAINING_MLP, overrides);
    r->stop = stop;
    assert_ok(rung_trainer_create(context, config, run, &r->trainer));
    assert_int_equal(rung_trainer_fit(r->trainer, &(rung_observer){r, keep_rate}),
                     stop ? RUNG_CANCELLED : RUNG_OK);
    rung_trainer_destroy(&r->trainer);
    rung_config_destroy(&config);
}

// One run's rates equal those of two parts, bit for bit, and so do its weights.
static void check_schedule(test_folder *folder, const char *name, const char *const *settings)
{
    static rates whole, parts;
    training_log log;
    rung_context *context = training_context(&log);
    const char *overrides[16] = {"train.epochs=12", "train.log_every=1", "checkpoint.every=never"};
    char text[64], a[300], b[300];
    int n = 3;
    snprintf(text, sizeof text, "schedule.name=%s", name);
    overrides[n++] = text;
    for (; *settings; settings++)
        overrides[n++] = *settings;
    snprintf(a, sizeof a, "%s/%s-whole", folder->path, name);
    snprintf(b, sizeof b, "%s/%s-parts", folder->path, name);
    whole = parts = (rates){0};
    train_rates(context, overrides, a, 0, &whole);
    train_rates(context, overrides, b, CUT, &parts);
    assert_ok(training_resume(context, b, NULL, &(rung_observer){&parts, keep_rate}));
    int differ = 0;
    for (int i = 1; i <= STEPS; i++) {
        assert_int_equal(whole.seen[i], 1);
        assert_int_equal(parts.seen[i], 1);
        assert_memory_equal(&whole.lr[i], &parts.lr[i], sizeof(double));
        differ += whole.lr[i] != whole.lr[1];
    }
    assert_int_equal(differ > 0, strcmp(name, "constant") != 0);
    assert_same_bits(a, b);
    assert_string_equal(log.text, "");
    rung_context_destroy(&context);
}

static void rates_go_on(void **state)
{
    check_schedule(*state, "constant", (const char *const[]){NULL});
    check_schedule(*state, "step", (const char *const[]){"schedule.step_size=2", NULL});
    check_schedule(*state, "cosine",
                   (const char *const[]){"schedule.warmup=3", "schedule.unit=step", NULL});
    check_schedule(*state, "one_cycle", (const char *const[]){"optim.momentum=0.9", NULL});
    check_schedule(*state, "plateau",
                   (const char *const[]){"schedule.patience=0", "schedule.threshold=0.5",
                                         "train.eval_every=5", NULL});
}

// ---- parts of a run ---------------------------------------------------------------------------

typedef struct stopper {
    rung_trainer *trainer;
    int64_t at;
} stopper;

static void stop_at(void *user, const rung_train_event *e)
{
    stopper *s = user;
    if (e->kind == RUNG_EVENT_STEP && e->step >= s->at)
        rung_trainer_stop(s->trainer);
}

// Trains the first `steps` steps of a run, which ends as if by SIGINT.
static void train_part(rung_context *context, const char *yaml, const char *const *overrides,
                       const char *run, int64_t steps)
{
    stopper s = {.at = steps};
    rung_config *config = training_config(context, yaml, overrides);
    assert_ok(rung_config_override(config, "train.log_every=1"));
    assert_ok(rung_trainer_create(context, config, run, &s.trainer));
    assert_fails(RUNG_CANCELLED, "stopped after step",
                 rung_trainer_fit(s.trainer, &(rung_observer){&s, stop_at}));
    assert_int_equal(rung_trainer_place(s.trainer).step, steps);
    rung_trainer_destroy(&s.trainer);
    rung_config_destroy(&config);
}

// C54: 20 steps equal 10 + 10, the counter behind Adam's bias correction included.
static void moments_go_on(void **state)
{
    static const char *const optimizers[][3] = {
        {"optim.name=sgd", "optim.momentum=0.9", "optim.nesterov=true"},
        {"optim.name=adam", "optim.lr=0.01", "optim.weight_decay=0.1"},
        {"optim.name=adamw", "optim.lr=0.01", "optim.betas=[0.8, 0.9]"},
    };
    training_log log;
    rung_context *context = training_context(&log);
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
        const char *const overrides[] = {optimizers[i][0], optimizers[i][1], optimizers[i][2],
                                         "train.steps=20", NULL};
        char a[300], b[300];
        snprintf(a, sizeof a, "%s/%d-whole", ((test_folder *)*state)->path, (int)i);
        snprintf(b, sizeof b, "%s/%d-parts", ((test_folder *)*state)->path, (int)i);
        assert_ok(training_run(context, TRAINING_MLP, overrides, a, NULL));
        train_part(context, TRAINING_MLP, overrides, b, 10);
        assert_ok(training_resume(context, b, NULL, NULL));
        assert_same_bits(a, b);
    }
    rung_context_destroy(&context);
}

// C56: stopped after 20 of 64 samples, the other 44 come in the old order; the 20 are not read.
static void the_place_in_the_data_is_kept(void **state)
{
    training_log log;
    rung_context *context = training_context(&log);
    const char *const overrides[] = {"data.batch_size=4", "train.epochs=1", NULL};
    const char *a = test_path(*state, "whole"), *b = test_path(*state, "parts");
    assert_ok(training_run(context, TRAINING_MLP, overrides, a, NULL));
    train_part(context, TRAINING_MLP, overrides, b, 5);
    rung_trainer *t;
    bool finished;
    rung_loader_statistics read;
    assert_ok(rung_trainer_resume(context, b, NULL, 0, &finished, &t));
    assert_false(finished);
    assert_ok(rung_trainer_fit(t, NULL));
    rung_loader_measure(t->s->train_loader, &read);
    assert_int_equal(read.samples, 44);
    assert_int_equal(read.reads, 44);
    rung_trainer_destroy(&t);
    assert_same_bits(a, b);
    rung_context_destroy(&context);
}

// Its one batch is the first one after a resume as well.
static void overfitting_goes_on(void **state)
{
    training_log log;
    rung_context *context = training_context(&log);
    const char *const overrides[] = {"train.overfit_one_batch=true", "train.steps=20", NULL};
    const char *a = test_path(*state, "whole"), *b = test_path(*state, "parts");
    assert_ok(training_run(context, TRAINING_MLP, overrides, a, NULL));
    train_part(context, TRAINING_MLP, overrides, b, 7);
    assert_ok(training_resume(context, b, NULL, NULL));
    assert_same_bits(a, b);
    rung_context_destroy(&context);
}

// plan.autotune: what was measured is kept with the run, also when this CPU's file is gone.
static void measured_kernels_are_kept(void **state)
{
    training_log log;
    rung_context *context = training_context(&log);
    const char *const overrides[] = {"plan.autotune=true", "train.steps=20", NULL};
    const char *a = test_path(*state, "whole"), *b = test_path(*state, "parts");
    const char *cache = test_path(*state, "cache");
    char tuning[300];
    assert_int_equal(setenv("XDG_CACHE_HOME", cache, 1), 0);
    assert_ok(training_run(context, TRAINING_MLP, overrides, a, NULL));
    train_part(context, TRAINING_MLP, overrides, b, 10);
    assert_true(rungi_fs_exists(cache));
    snprintf(tuning, sizeof tuning, "%s/tuning.json", b);
    assert_true(rungi_fs_exists(tuning));
    assert_ok(rungi_fs_remove_tree(cache));
    assert_ok(training_resume(context, b, NULL, NULL));
    assert_false(rungi_fs_exists(cache)); // nothing was measured anew
    assert_same_bits(a, b);
    rung_context_destroy(&context);
}

// ---- checkpoints that are missing or damaged ---------------------------------------------------

static void from_the_start(void **state)
{
    training_log log;
    rung_context *context = training_context(&log);
    const char *const overrides[] = {"train.steps=12", "checkpoint.every=4", NULL};
    const char *a = test_path(*state, "whole"), *b = test_path(*state, "parts");
    assert_ok(training_run(context, TRAINING_MLP, overrides, a, NULL));
    train_part(context, TRAINING_MLP, overrides, b, 9);
    char checkpoints[300];
    snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", b);
    assert_ok(rungi_fs_remove_tree(checkpoints));
    assert_ok(training_resume(context, b, NULL, NULL));
    assert_non_null(strstr(log.text, "has no checkpoint yet: from step 0"));
    assert_same_bits(a, b);
    rung_context_destroy(&context);
}

static void damage(const char *run, const char *file, bool cut)
{
    char path[400];
    char *data;
    size_t size;
    snprintf(path, sizeof path, "%s/checkpoints/%s", run, file);
    assert_ok(rungi_fs_read(path, 1 << 20, &data, &size));
    data[size - 3] ^= 1;
    test_write(path, data, cut ? size - 1 : size);
    free(data);
}

// C57: the newest one that verifies is used, and it is told which was not and why.
static void damaged_checkpoints_are_passed_over(void **state)
{
    training_log log;
    rung_context *context = training_context(&log);
    const char *const overrides[] = {"train.steps=24", "checkpoint.every=5",
                                     "train.eval_every=never", NULL};
    const char *a = test_path(*state, "whole"), *b = test_path(*state, "parts");
    assert_ok(training_run(context, TRAINING_MLP, overrides, a, NULL));
    train_part(context, TRAINING_MLP, overrides, b, 17);
    damage(b, "step-00000017/model.safetensors", false);
    damage(b, "step-00000015/optimizer.safetensors", true);
    stopper s = {.at = INT64_MAX};
    bool finished;
    assert_ok(rung_trainer_resume(context, b, NULL, 0, &finished, &s.trainer));
    assert_int_equal(rung_trainer_place(s.trainer).step, 10);
    assert_non_null(strstr(log.text, "step-00000017 is passed over: "));
    assert_non_null(strstr(log.text, "checksum of tensor"));
    assert_non_null(strstr(log.text, "step-00000015 is passed over: "));
    assert_non_null(strstr(log.text, "cut: expected"));
    assert_ok(rung_trainer_fit(s.trainer, NULL));
    rung_trainer_destroy(&s.trainer);
    assert_same_bits(a, b);

    // All of them: nothing to go on with, and nothing is changed.
    damage(b, "latest", false);
    damage(b, "step-00000024/model.safetensors", false);
    damage(b, "step-00000020/model.safetensors", false);
    damage(b, "step-00000015/model.safetensors", false);
    rung_status status = rung_trainer_resume(context, b, NULL, 0, &finished, &s.trainer);
    assert_int_equal(status, RUNG_CORRUPT);
    rung_context_destroy(&context);
}

// C54: a checkpoint of weights only is refused by the name of what it lacks.
static void weights_alone_do_not_resume(void **state)
{
    training_log log;
    rung_context *context = training_context(&log);
    const char *run = test_path(*state, "run");
    const char *const overrides[] = {"train.steps=12", "checkpoint.every=never", NULL};
    train_part(context, TRAINING_MLP, overrides, run, 6);
    char root[300], old[400];
    snprintf(root, sizeof root, "%s/checkpoints", run);
    snprintf(old, sizeof old, "%s/step-00000006", root);
    rungi_checkpoint *checkpoint;
    rungi_checkpoints *store;
    assert_ok(rungi_checkpoint_open(old, true, &checkpoint));
    rung_safetensors *file = rungi_checkpoint_tensors(checkpoint, RUNGI_CHECKPOINT_MODEL);
    rungi_safetensors_source sources[8];
    size_t count = rung_safetensors_count(file);
    for (size_t i = 0; i < count; i++) {
        const rung_safetensors_tensor *t = rung_safetensors_get(file, i);
        sources[i] = (rungi_safetensors_source){.name = t->name, .dtype = t->dtype};
        sources[i].shape.rank = t->rank;
        memcpy(sources[i].shape.dim, t->dim, (size_t)t->rank * sizeof *t->dim);
        void *data = malloc(t->bytes);
        assert_ok(rung_safetensors_read(file, t, t->dtype, data, NULL));
        sources[i].data = data;
    }
    rungi_checkpoint_file model = {RUNGI_CHECKPOINT_MODEL, sources, count};
    assert_ok(rungi_checkpoints_open(root, NULL, &store));
    assert_ok(rungi_checkpoints_save(store, "step-00000007", &model, 1,
                                     rungi_checkpoint_state(checkpoint)));
    rungi_checkpoints_close(&store);
    rungi_checkpoint_close(&checkpoint);
    for (size_t i = 0; i < count; i++)
        free((void *)sources[i].data);
    assert_fails(RUNG_FORMAT,
                 "step-00000007 has no optimizer.safetensors: it holds weights only and training "
                 "cannot be resumed from it",
                 training_resume(context, run, NULL, NULL));
    rung_context_destroy(&context);
}

// ---- finished runs and other settings (C63) ----------------------------------------------------

// Names, sizes, contents' times and inodes of a folder.
static void add_listing(const char *path, char *out, size_t size)
{
    rungi_names names;
    assert_ok(rungi_fs_list(path, &names));
    for (size_t i = 0; i < names.count; i++) {
        char *full = rungi_path_join(path, names.data[i]);
        struct stat found;
        size_t used = strlen(out);
        assert_int_equal(lstat(full, &found), 0);
        if (strcmp(names.data[i], ".lock") != 0)
            snprintf(out + used, size - used, "%s %ld %ld.%ld %ld\n", full, (long)found.st_size,
                     (long)found.st_mtim.tv_sec, found.st_mtim.tv_nsec, (long)found.st_ino);
        if (S_ISDIR(found.st_mode))
            add_listing(full, out, size);
        free(full);
    }
    rungi_names_fini(&names);
}

// Killed after the last checkpoint was in place, before the marks were moved: they are what eval
// and compare look for.
static void marks_are_moved_later(void **state)
{
    training_log log;
    rung_context *context = training_context(&log);
    const char *run = test_path(*state, "run"), *whole = test_path(*state, "whole");
    const char *const overrides[] = {"train.steps=16", NULL};
    char latest[300];
    assert_ok(training_run(context, TRAINING_MLP, overrides, whole, NULL));
    assert_ok(training_run(context, TRAINING_MLP, overrides, run, NULL));
    snprintf(latest, sizeof latest, "%s/checkpoints/latest", run);
    test_write(latest, "step-00000008\n", 14);
    rung_trainer *trainer;
    bool finished = false;
    assert_ok(rung_trainer_resume(context, run, NULL, 0, &finished, &trainer));
    assert_true(finished);
    rung_trainer_destroy(&trainer);
    assert_same_bits(run, whole);
    rung_context_destroy(&context);
}

static void a_finished_run_stays(void **state)
{
    static char before[16384], after[16384];
    training_log log;
    rung_context *context = training_context(&log);
    const char *run = test_path(*state, "run");
    const char *const overrides[] = {"train.steps=16", "schedule.name=cosine", "schedule.unit=step",
                                     NULL};
    const char *const more[] = {"train.steps=24", NULL};
    assert_ok(training_run(context, TRAINING_MLP, overrides, run, NULL));
    add_listing(run, before, sizeof before);
    rung_trainer *trainer;
    bool finished = false;
    assert_ok(rung_trainer_resume(context, run, NULL, 0, &finished, &trainer));
    assert_true(finished);
    rung_train_place at = rung_trainer_place(trainer);
    assert_int_equal(at.step, 16);
    assert_int_equal(at.steps, 16);
    assert_false(at.stopped_early);
    rung_trainer_destroy(&trainer);
    add_listing(run, after, sizeof after);
    assert_string_equal(before, after);
    assert_string_equal(log.text, "");

    // With a higher limit it goes on, and says what is not as it was.
    assert_ok(training_resume(context, run, more, NULL));
    assert_non_null(strstr(log.text, "the number of steps is 24 now, the run was begun with 16"));
    assert_non_null(strstr(log.text, "the schedule is cosine"));
    assert_non_null(strstr(log.text, "T_max=24"));
    assert_non_null(strstr(log.text, "T_max=16"));
    assert_ok(rung_trainer_open(context, run, "step-00000024", NULL, 0, &trainer));
    rung_trainer_destroy(&trainer);
    rung_context_destroy(&context);
}

static void another_run_is_refused(void **state)
{
    training_log log;
    rung_context *context = training_context(&log);
    const char *run = test_path(*state, "run");
    const char *const overrides[] = {"train.steps=16", NULL};
    train_part(context, TRAINING_MLP, overrides, run, 9);
    static const char *const cases[][2] = {
        {"seed=1", "seed is 1, but the run was begun with 0"},
        {"train.shards=8", "train.shards is 8, but the run was begun with 4"},
        {"optim.name=adam", "optim.name is adam, but the run was begun with sgd"},
        {"model.name=lenet5", "model.name is lenet5, but the run was begun with mlp"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const other[] = {cases[i][0], "data.synthetic.shape=[1, 28, 28]", NULL};
        assert_fails(RUNG_CONFIG, cases[i][1],
                     training_resume(context, run,
                                     i == 3 ? other : (const char *const[]){cases[i][0], NULL},
                                     NULL));
    }
    assert_fails(
        RUNG_MISMATCH, "fc1.weight",
        training_resume(context, run, (const char *const[]){"model.hidden=[8]", NULL}, NULL));
    // What is allowed but changes the result is told.
    assert_ok(training_resume(
        context, run,
        (const char *const[]){"data.batch_size=16", "exact=true", "device.threads=2", NULL}, NULL));
    assert_non_null(strstr(log.text, "data.batch_size is 16 now, the run was begun with 8"));
    assert_non_null(strstr(log.text, "without exact) is 2 now, the run was begun with 1"));
    assert_non_null(strstr(log.text, "exact is true now, the run was begun with false"));
    assert_fails(RUNG_NOT_FOUND, "is not a run folder: it has no config.yaml",
                 training_resume(context, test_path(*state, "none"), NULL, NULL));
    rung_context_destroy(&context);
}

// ---- records (C85) ----------------------------------------------------------------------------

typedef struct record {
    int64_t last, steps, ends;
    char status[64];
} record;

static rung_status check_line(void *user, const char *event, const json_t *line)
{
    record *r = user;
    int64_t step = json_integer_value(json_object_get(line, "step"));
    assert_int_equal(r->ends, 0); // nothing comes after the end
    if (strcmp(event, "step") == 0) {
        assert_int_equal(step, r->last + 1);
        r->last = step;
        r->steps++;
    }
    assert_true(step == r->last);
    if (strcmp(event, "end") == 0) {
        r->ends++;
        snprintf(r->status, sizeof r->status, "%s",
                 json_string_value(json_object_get(line, "status")));
    }
    return RUNG_OK;
}

static uint64_t varint(const unsigned char **at)
{
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        unsigned char byte = *(*at)++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
}

// Steps of the events with a summary, counted by step.
static void count_events(const unsigned char *data, size_t size, int *counts, int most)
{
    for (size_t at = 0; at + 16 <= size;) {
        uint64_t length;
        memcpy(&length, data + at, 8);
        const unsigned char *p = data + at + 12, *end = p + length;
        uint64_t step = 0;
        bool summary = false;
        while (p < end) {
            uint64_t key = varint(&p);
            if ((key & 7) == 0) {
                uint64_t value = varint(&p);
                if (key >> 3 == 2)
                    step = value;
            } else if ((key & 7) == 2) {
                uint64_t skip = varint(&p);
                summary |= key >> 3 == 5;
                p += skip;
            } else {
                p += (key & 7) == 1 ? 8 : 4;
            }
        }
        assert_true(step <= (uint64_t)most);
        counts[step] += summary;
        at += 16 + length;
    }
}

static void each_step_is_recorded_once(void **state)
{
    enum { TOTAL = 24 };
    training_log log;
    rung_context *context = training_context(&log);
    const char *run = test_path(*state, "run");
    const char *const overrides[] = {"train.steps=24", "checkpoint.every=8",
                                     "train.eval_every=never", NULL};
    char gone[400];
    train_part(context, TRAINING_MLP, overrides, run, 20);
    snprintf(gone, sizeof gone, "%s/checkpoints/step-00000020", run);
    assert_ok(rungi_fs_remove_tree(gone)); // killed at step 20: the newest is of step 16
    record r = {0};
    assert_ok(rungi_metrics_each(run, check_line, &r));
    assert_int_equal(r.last, 20);
    assert_string_equal(r.status, "cancelled");
    assert_ok(training_resume(context, run, NULL, NULL));
    r = (record){0};
    assert_ok(rungi_metrics_each(run, check_line, &r));
    assert_int_equal(r.steps, TOTAL);
    assert_int_equal(r.ends, 1);
    assert_string_equal(r.status, "ok");

    int counts[TOTAL + 1] = {0};
    rungi_names names;
    assert_ok(rungi_fs_list(run, &names));
    for (size_t i = 0; i < names.count; i++)
        if (strncmp(names.data[i], "events.out.tfevents.", 20) == 0) {
            char *path = rungi_path_join(run, names.data[i]), *data;
            size_t size;
            assert_ok(rungi_fs_read(path, 1 << 20, &data, &size));
            count_events((unsigned char *)data, size, counts, TOTAL);
            free(data);
            free(path);
        }
    rungi_names_fini(&names);
    for (int i = 1; i <= TOTAL; i++)
        assert_int_equal(counts[i], 1);
    rung_context_destroy(&context);
}

// A run that was killed between a save and its mark gets the mark when it goes on.
static void the_best_is_marked_again(void **state)
{
    training_log log;
    rung_context *context = training_context(&log);
    const char *run = test_path(*state, "run");
    const char *const overrides[] = {"train.steps=16", "checkpoint.best=loss", NULL};
    train_part(context, TRAINING_MLP, overrides, run, 8);
    char mark[300], name[RUNGI_CHECKPOINT_NAME_MAX + 1];
    snprintf(mark, sizeof mark, "%s/checkpoints/best", run);
    assert_true(rungi_checkpoint_read_mark(mark, name));
    assert_string_equal(name, "step-00000008");
    assert_int_equal(unlink(mark), 0);
    stopper s = {.at = 9};
    bool finished;
    assert_ok(rung_trainer_resume(context, run, NULL, 0, &finished, &s.trainer));
    assert_int_equal(rung_trainer_fit(s.trainer, &(rung_observer){&s, stop_at}), RUNG_CANCELLED);
    rung_trainer_destroy(&s.trainer);
    assert_true(rungi_checkpoint_read_mark(mark, name));
    assert_string_equal(name, "step-00000008");
    rung_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(rates_go_on),
        IN_FOLDER(moments_go_on),
        IN_FOLDER(the_place_in_the_data_is_kept),
        IN_FOLDER(overfitting_goes_on),
        IN_FOLDER(measured_kernels_are_kept),
        IN_FOLDER(from_the_start),
        IN_FOLDER(damaged_checkpoints_are_passed_over),
        IN_FOLDER(weights_alone_do_not_resume),
        IN_FOLDER(marks_are_moved_later),
        IN_FOLDER(a_finished_run_stays),
        IN_FOLDER(another_run_is_refused),
        IN_FOLDER(each_step_is_recorded_once),
        IN_FOLDER(the_best_is_marked_again),
    };
    return RUN_TESTS(tests);
}
