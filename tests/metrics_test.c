// SPDX-License-Identifier: Apache-2.0
// What a run tells of itself: parts of time that add up, records, losses summed by samples; and
// that a step allocates nothing.
#include "training.h"

#include <math.h>
#include <unistd.h>

#include "allocation_count.h"
#include "train/run_metrics.h"
#include "train/trainer.h"

// ---- time -------------------------------------------------------------------------------------

// Each look at the clock takes a fixed time, so that every part of a step has a known length.
static int64_t ticks, tick_length;

static int64_t tick(void *user)
{
    (void)user;
    return ticks += tick_length;
}

static const rung_clock ticking = {NULL, tick, NULL};

typedef struct times {
    double seconds, step_ms; // of the last STEP; sum over STEP events, weighted by their steps
    int64_t step, ends, evals, checkpoints, epochs;
    double end_seconds, end_ms, end_forward_ms;
    double eval_ms, checkpoint_ms; // sums of the events of that kind
    double end_eval_ms, end_checkpoint_ms;
} times;

static void add_times(void *user, const rung_train_event *e)
{
    times *t = user;
    double sum = 0;
    for (int i = 0; i < RUNG_TIME_PARTS; i++) {
        assert_true(e->ms[i] >= 0);
        sum += e->ms[i];
    }
    if (e->kind == RUNG_EVENT_START)
        t->seconds = e->seconds;
    if (e->kind == RUNG_EVENT_STEP) {
        // All of the time since the last one, to the rounding of the sum. The first begins before
        // the START event is sent.
        if (t->step)
            assert_near(sum * (double)(e->step - t->step), (e->seconds - t->seconds) * 1e3, 1e-6);
        t->step = e->step;
        t->seconds = e->seconds;
    }
    t->evals += e->kind == RUNG_EVENT_EVAL;
    t->checkpoints += e->kind == RUNG_EVENT_CHECKPOINT;
    t->epochs += e->kind == RUNG_EVENT_EPOCH;
    if (e->kind == RUNG_EVENT_EVAL)
        t->eval_ms += sum;
    if (e->kind == RUNG_EVENT_CHECKPOINT)
        t->checkpoint_ms += sum;
    if (e->kind == RUNG_EVENT_END) {
        t->ends++;
        t->end_seconds = e->seconds;
        t->end_ms = sum;
        t->end_forward_ms = e->ms[RUNGI_TIME_FORWARD];
        t->end_eval_ms = e->ms[RUNGI_TIME_EVAL];
        t->end_checkpoint_ms = e->ms[RUNGI_TIME_CHECKPOINT];
        assert_true(e->ms[RUNGI_TIME_WAIT] > 0 && e->ms[RUNGI_TIME_FORWARD] > 0 &&
                    e->ms[RUNGI_TIME_BACKWARD] > 0 && e->ms[RUNGI_TIME_OPTIMIZER] > 0);
    }
}

static void parts_add_up(void **state)
{
    rung_context *context;
    times t = {0};
    tick_length = 1000;
    // Steps between two logs, validations and checkpoints fall beside each other.
    const char *const overrides[] = {"train.steps=700",      "train.log_every=9",
                                     "train.eval_every=100", "checkpoint.every=150",
                                     "checkpoint.best=loss", NULL};
    assert_ok(rung_context_create(&(rung_context_options){.clock = &ticking}, &context));
    assert_ok(training_run(context, TRAINING_MLP, overrides, test_path(*state, "run"),
                           &(rung_observer){&t, add_times}));
    assert_int_equal(t.ends, 1);
    assert_int_equal(t.evals, 7);
    assert_int_equal(t.epochs, 700 / 8);
    assert_near(t.end_ms, t.end_seconds * 1e3, 1e-6);
    // An event's own measure looks at the clock two or three times more.
    assert_near(t.end_eval_ms, t.eval_ms, 0.0021 * (double)t.evals);
    assert_near(t.end_checkpoint_ms, t.checkpoint_ms, 0.0031 * (double)t.checkpoints);
    rung_context_destroy(&context);
}

// Steps between two logs may be more than the timeline has room for: what forward takes is known
// all the same.
static void long_windows_are_whole(void **state)
{
    (void)state;
    enum { SHORT = 100, LONG = 40000 };
    rung_context *context;
    times few = {0}, many = {0};
    tick_length = 1; // so short that no progress is shown, which looks at the timeline as well
    const char *overrides[] = {"train.steps=100",
                               "train.log_every=1000000",
                               "train.eval_every=never",
                               "model.hidden=[1]",
                               "data.batch_size=1",
                               "data.random_crop.padding=none",
                               "data.synthetic.count=40000", // epochs end windows too
                               NULL};
    assert_ok(rung_context_create(&(rung_context_options){.clock = &ticking}, &context));
    assert_ok(
        training_run(context, TRAINING_MLP, overrides, NULL, &(rung_observer){&few, add_times}));
    overrides[0] = "train.steps=40000";
    assert_ok(
        training_run(context, TRAINING_MLP, overrides, NULL, &(rung_observer){&many, add_times}));
    assert_near(many.end_ms, many.end_seconds * 1e3, 1e-3);
    assert_near(many.end_forward_ms, few.end_forward_ms * LONG / SHORT, 1e-3);
    rung_context_destroy(&context);
}

// ---- records ----------------------------------------------------------------------------------

typedef struct last {
    char event[32], status[64];
    double ms, seconds;
    int64_t lines;
} last;

static rung_status keep_line(void *user, const char *event, const json_t *line)
{
    static const char *const members[] = {"step", "epoch", "samples", "lr", "samples_per_s"};
    last *l = user;
    const char *part;
    json_t *value;
    snprintf(l->event, sizeof l->event, "%s", event);
    const char *status = json_string_value(json_object_get(line, "status"));
    snprintf(l->status, sizeof l->status, "%s", status ? status : "");
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        assert_true(json_is_number(json_object_get(line, members[i])));
    json_t *ms = json_object_get(line, "ms");
    assert_int_equal(json_object_size(ms), RUNG_TIME_PARTS);
    l->ms = 0;
    json_object_foreach(ms, part, value)
    {
        l->ms += json_number_value(value);
    }
    l->seconds = rungi_metrics_number(line, "seconds");
    l->lines++;
    return RUNG_OK;
}

static void the_record_is_complete(void **state)
{
    training_log log;
    rung_context *context = training_context(&log);
    const char *run = test_path(*state, "run");
    static const char *const files[] = {
        "config.yaml", "environment.txt", "metrics.jsonl", "metrics.csv",        "loss.svg",
        "trace.json",  "confusion.csv",   "checkpoints",   "checkpoints/latest", "checkpoints/best",
    };
    last l = {0};
    assert_ok(training_run(context, TRAINING_MLP,
                           (const char *const[]){"train.epochs=2", "train.log_every=4", NULL}, run,
                           NULL));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", run, files[i]);
        if (access(path, F_OK) != 0)
            fail_msg("%s is missing", path);
    }
    assert_ok(rungi_metrics_each(run, keep_line, &l));
    assert_string_equal(l.event, "end");
    assert_string_equal(l.status, "ok");
    assert_near(l.ms, l.seconds * 1e3, 0.01 * l.seconds * 1e3);
    assert_true(l.lines >= 4 + 2 + 2 + 1 + 1);
    rung_context_destroy(&context);
}

// ---- validation -------------------------------------------------------------------------------

// Losses are means over samples, whatever the batches are: 7 validation samples in batches of 7, 3
// and 2, and in shards.
static void losses_are_summed_by_samples(void **state)
{
    static const char *const sizes[] = {"data.batch_size=7", "data.batch_size=3",
                                        "data.batch_size=2", "exact=true"};
    training_log log;
    rung_context *context = training_context(&log);
    const char *run = test_path(*state, "run");
    rung_eval_result first = {0};
    assert_ok(training_run(context, TRAINING_MLP, (const char *const[]){"train.epochs=1", NULL},
                           run, NULL));
    for (int i = 0; i < 4; i++) {
        rung_trainer *trainer;
        rung_eval_result r;
        assert_ok(rung_trainer_open(context, run, "latest", &sizes[i], 1, &trainer));
        assert_ok(rung_trainer_evaluate(trainer, &r));
        assert_int_equal(r.samples, 7);
        int64_t total = 0, hits = 0;
        for (int64_t k = 0; k < 16; k++) {
            total += r.confusion[k];
            hits += k % 5 == 0 ? r.confusion[k] : 0;
        }
        assert_int_equal(total, 7);
        assert_int_equal(hits, r.correct);
        assert_int_equal(r.correct5, 7); // of 4 classes
        if (i == 0)
            first = r;
        assert_near(r.loss, first.loss, 1e-6 * first.loss);
        assert_int_equal(r.correct, first.correct);
        rung_trainer_destroy(&trainer);
    }
    rung_context_destroy(&context);
}

typedef struct ends {
    int64_t step, evals;
    char note[64];
    bool stopped;
} ends;

static void keep_end(void *user, const rung_train_event *e)
{
    ends *n = user;
    n->evals += e->kind == RUNG_EVENT_EVAL;
    if (e->kind == RUNG_EVENT_END) {
        n->step = e->step;
        snprintf(n->note, sizeof n->note, "%s", e->note ? e->note : "");
    }
}

static void early_stopping(void **state)
{
    training_log log;
    rung_context *context = training_context(&log);
    const char *run = test_path(*state, "run");
    ends n = {0};
    // No change counts as progress, so that the first validation is the best.
    const char *const overrides[] = {"train.epochs=20", "train.early_stopping.patience=3",
                                     "train.early_stopping.min_delta=100", NULL};
    assert_ok(training_run(context, TRAINING_MLP, overrides, run, &(rung_observer){&n, keep_end}));
    assert_int_equal(n.evals, 4);
    assert_int_equal(n.step, 4 * 8);
    assert_string_equal(n.note, "early stopping");
    // More patience lets it go on.
    bool finished;
    rung_trainer *trainer;
    assert_ok(rung_trainer_resume(context, run, NULL, 0, &finished, &trainer));
    assert_true(finished);
    assert_true(rung_trainer_place(trainer).stopped_early);
    rung_trainer_destroy(&trainer);
    assert_ok(training_resume(context, run,
                              (const char *const[]){"train.early_stopping.patience=5", NULL},
                              &(rung_observer){&n, keep_end}));
    assert_int_equal(n.step, 6 * 8);
    rung_context_destroy(&context);
}

// The last step is validated and its checkpoint marked, whatever the intervals are.
static void the_last_step_is_validated(void **state)
{
    training_log log;
    rung_context *context = training_context(&log);
    const char *run = test_path(*state, "run");
    ends n = {0};
    const char *const overrides[] = {"train.steps=20",      "train.eval_every=17",
                                     "checkpoint.every=10", "checkpoint.best=loss",
                                     "optim.lr=0.05",       NULL};
    assert_ok(training_run(context, TRAINING_MLP, overrides, run, &(rung_observer){&n, keep_end}));
    assert_int_equal(n.evals, 2);
    char mark[300], name[RUNGI_CHECKPOINT_NAME_MAX + 1];
    snprintf(mark, sizeof mark, "%s/checkpoints/best", run);
    assert_true(rungi_checkpoint_read_mark(mark, name));
    assert_string_equal(name, "step-00000020");
    rung_context_destroy(&context);
}

// ---- allocations ------------------------------------------------------------------------------

typedef struct allocations {
    rung_trainer *trainer;
    int64_t begun, during; // calls of rung's own code before the first step, and until the end
    uint64_t device[3];    // of the device at steps 20, 40, 60
} allocations;

static void count_allocations(void *user, const rung_train_event *e)
{
    allocations *a = user;
    if (e->kind == RUNG_EVENT_START)
        a->begun = allocation_count();
    if (e->kind == RUNG_EVENT_END)
        a->during = allocation_count() - a->begun;
    if (e->kind == RUNG_EVENT_STEP && e->step % 20 == 0 && e->step <= 60)
        a->device[e->step / 20 - 1] = rung_device_memory(a->trainer->s->device).allocations;
}

static void fit_counted(const char *const *overrides, allocations *a)
{
    training_log log;
    rung_context *context = training_context(&log);
    rung_config *config = training_config(context, TRAINING_MLP, overrides);
    assert_ok(rung_trainer_create(context, config, NULL, &a->trainer));
    assert_ok(rung_trainer_fit(a->trainer, &(rung_observer){a, count_allocations}));
    rung_trainer_destroy(&a->trainer);
    rung_config_destroy(&config);
    rung_context_destroy(&context);
}

// 300 steps allocate as often as 50: only the warm-up does. Epochs prepare an order of samples, so
// both have the same number of them.
static void a_step_allocates_nothing(void **state)
{
    (void)state;
    static const char *const workers[] = {"data.num_workers=0", "data.num_workers=2"};
    for (int i = 0; i < 2; i++) {
        allocations few = {0}, many = {0};
        const char *overrides[] = {"train.steps=50",
                                   "train.log_every=1000000",
                                   "train.eval_every=never",
                                   "data.synthetic.count=4000",
                                   workers[i],
                                   NULL};
        fit_counted(overrides, &few);
        overrides[0] = "train.steps=300";
        fit_counted(overrides, &many);
        assert_true(few.begun > 0);
        // With workers, what one prepares for itself may come late: a few calls, not one a step.
        if (i == 0)
            assert_int_equal(many.during, few.during);
        else
            assert_true(many.during - few.during < 25);
    }
}

static void device_memory_is_planned_once(void **state)
{
    (void)state;
    allocations a = {0};
    fit_counted((const char *const[]){"model.name=fashion_cnn", "train.steps=60",
                                      "train.log_every=20", "train.eval_every=20", NULL},
                &a);
    assert_true(a.device[0] > 0);
    assert_int_equal(a.device[1], a.device[0]);
    assert_int_equal(a.device[2], a.device[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(parts_add_up),
        cmocka_unit_test(long_windows_are_whole),
        IN_FOLDER(the_record_is_complete),
        IN_FOLDER(losses_are_summed_by_samples),
        IN_FOLDER(early_stopping),
        IN_FOLDER(the_last_step_is_validated),
        cmocka_unit_test(a_step_allocates_nothing),
        cmocka_unit_test(device_memory_is_planned_once),
    };
    return RUN_TESTS(tests);
}
