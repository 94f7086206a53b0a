// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
// Runs of strategy parameter_server: the result of ddp when workers go in step, and what holds when
// they do not. Cases C19, C24, C25, C28, C32, C40.
#include "watched_run.h"

#include <jansson.h>
#include <math.h>

#include "base/error.h"
#include "train/crew.h"
#include "train/session_servers.h"

#ifdef RUNG_OPENMP
#    define NETWORK "fashion_cnn"
#else // the build for ThreadSanitizer, which is slow
#    define NETWORK "mlp"
#endif

// 61 pictures in batches of 8: the last batch has 5, and validation 7.
#define COMMON                           \
    PICTURES(LIBRARY, 61)                \
    "  batch_size: 8\n"                  \
    "  random_flip: 0.5\n"               \
    "optim: {lr: 0.02, momentum: 0.9}\n" \
    "train: {epochs: 2, log_every: 1}\n" \
    "checkpoint: {every: never}\n"
#define DATA COMMON "model: {name: " NETWORK "}\n"
#define MLP COMMON "model: {name: mlp, hidden: [16]}\n"
#define SERVERS "train.strategy=parameter_server"

// ---- sync -------------------------------------------------------------------------------------

// Under exact: the bits of one device, whatever the number of workers and servers, with momentum
// and a clipped norm (which needs all gradients) and with AdamW without.
static void sync_is_the_same_as_one_device(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    static const char *const optimizers[2][3] = {
        {"train.max_grad_norm=0.5", "optim.name=sgd", "seed=0"},
        {"optim.momentum=0", "optim.name=adamw", "optim.lr=0.003"}};
    static const char *const layouts[3][2] = {{"train.ranks=2", "ps.servers=auto"},
                                              {"train.ranks=2", "ps.servers=1"},
                                              {"train.ranks=4", "ps.servers=3"}};
    for (int i = 0; i < 2; i++) {
        const char *const *o = optimizers[i];
        char name[2][40];
        seen s = {0};
        snprintf(name[0], sizeof name[0], "one-%d", i);
        const char *one[] = {"exact=true", o[0], o[1], o[2], NULL};
        assert_ok(train(context, DATA, one, test_path(folder, name[0]), &s));
        for (int k = 0; k < 3; k++) {
            snprintf(name[1], sizeof name[1], "servers-%d-%d", i, k);
            const char *many[] = {"exact=true", o[0],          o[1],          o[2],
                                  SERVERS,      layouts[k][0], layouts[k][1], NULL};
            s = (seen){0};
            assert_ok(train(context, DATA, many, test_path(folder, name[1]), &s));
            assert_same_bits(test_path(folder, name[0]), test_path(folder, name[1]));
            assert_int_equal(s.seen_once, 61);
            assert_int_equal(s.evaluated, 7);
        }
    }
    assert_string_equal(log.text, "");
    rung_context_destroy(&context);
}

// Without exact: the bits of ddp.
static void sync_is_the_same_as_ddp(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    seen s = {0};
    const char *ddp[] = {"train.ranks=3", NULL};
    const char *servers[] = {"train.ranks=3", SERVERS, "ps.servers=2", NULL};
    assert_ok(train(context, DATA, ddp, test_path(folder, "ddp"), &s));
    assert_ok(train(context, DATA, servers, test_path(folder, "servers"), &s));
    assert_same_bits(test_path(folder, "ddp"), test_path(folder, "servers"));
    rung_context_destroy(&context);
}

// What servers saved goes on anywhere, and they go on with what others saved: the same bits.
static void a_run_goes_on_with_and_without_servers(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    const char *run = test_path(folder, "run");
    const char *exact[] = {"exact=true", NULL};
    seen s = {0};
    assert_ok(train(context, DATA, exact, test_path(folder, "one"), &s));
    const char *two[] = {"exact=true", SERVERS, "train.ranks=2", "ps.servers=1", NULL};
    s = (seen){.stop_at = 5};
    assert_fails(RUNG_CANCELLED, "stopped after step", train(context, DATA, two, run, &s));
    const char *alone[] = {"train.strategy=single", "train.ranks=1", "ps.servers=auto",
                           "train.steps=11", NULL};
    assert_ok(training_resume(context, run, alone, NULL));
    const char *four[] = {SERVERS, "train.ranks=4", "train.steps=none", NULL};
    assert_ok(training_resume(context, run, four, NULL));
    assert_same_bits(test_path(folder, "one"), run);
    rung_context_destroy(&context);
}

// ---- async ------------------------------------------------------------------------------------

static json_t *read_json(const char *path)
{
    json_error_t error;
    json_t *o = json_load_file(path, 0, &error);
    if (!o)
        fail_msg("%s: %s", path, error.text);
    return o;
}

// Each sample is trained on and validated once, the loss falls, and what is told of the workers is
// right. Three workers and a batch of five: one worker has one sample less than the others.
static void async_trains(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    seen s = {0};
    const char *run = test_path(folder, "run");
    const char *async[] = {SERVERS,
                           "ps.mode=async",
                           "ps.staleness=1",
                           "ps.servers=2",
                           "train.ranks=3",
                           "train.epochs=14",
                           "train.log_every=8",
                           "optim.momentum=0.5",
                           "optim.lr=0.05",
                           NULL};
    assert_ok(train(context, MLP, async, run, &s));
    assert_int_equal(s.steps, 14 * 8);
    assert_int_equal(s.samples, 14 * 61);
    assert_int_equal(s.seen_once, 61);
    assert_int_equal(s.seen_again, 0);
    assert_int_equal(s.evaluated, 7);
    assert_true(s.last_loss < 0.5 * s.first_loss);
    json_t *o = read_json(test_path(folder, "run/ranks.json")),
           *ranks = json_object_get(o, "ranks");
    assert_int_equal(json_integer_value(json_object_get(o, "bound")), 1);
    assert_int_equal(json_array_size(ranks), 3);
    for (size_t r = 0; r < 3; r++) {
        json_t *rank = json_array_get(ranks, r), *counts, *value;
        int64_t pushes = json_integer_value(json_object_get(rank, "pushes")), sum = 0;
        size_t i;
        assert_int_equal(json_integer_value(json_object_get(rank, "steps")), 112);
        assert_int_equal(pushes, 112);
        json_t *ahead = json_object_get(rank, "ahead"), *stale = json_object_get(rank, "staleness");
        assert_true(json_integer_value(json_object_get(ahead, "max")) <= 1);
        assert_true(json_integer_value(json_object_get(stale, "max")) <= 2 * 3);
        counts = json_object_get(stale, "counts");
        json_array_foreach(counts, i, value) sum += json_integer_value(value);
        assert_int_equal(sum, pushes);
    }
    json_decref(o);
    FILE *chart = fopen(test_path(folder, "run/staleness.svg"), "r");
    assert_non_null(chart);
    fclose(chart);
    // One device goes on with it: the optimizer's state and its count of steps are whole.
    const char *alone[] = {"train.strategy=single",
                           "ps.mode=sync",
                           "ps.staleness=none",
                           "ps.servers=auto",
                           "train.ranks=1",
                           "train.epochs=15",
                           NULL};
    assert_ok(training_resume(context, run, alone, NULL));
    rung_context_destroy(&context);
}

// One worker alone in step with itself: the bits of one device, by every optimizer. Nothing but the
// order in which workers come is left to chance.
static void async_in_turn_is_sequential(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    static const char *const optimizers[] = {"optim.name=sgd", "optim.name=adamw"};
    for (int i = 0; i < 2; i++) {
        char name[2][40];
        seen s = {0};
        snprintf(name[0], sizeof name[0], "one-%d", i);
        snprintf(name[1], sizeof name[1], "two-%d", i);
        const char *momentum = i ? "optim.momentum=0" : "seed=0";
        // A batch of one: the second worker never has a sample.
        const char *one[] = {"data.batch_size=1", "train.epochs=1", optimizers[i], momentum, NULL};
        const char *two[] = {
            "data.batch_size=1", "train.epochs=1", optimizers[i], momentum, SERVERS,
            "ps.mode=async",     "train.ranks=2",  NULL};
        assert_ok(train(context, MLP, one, test_path(folder, name[0]), &s));
        assert_ok(train(context, MLP, two, test_path(folder, name[1]), &s));
        assert_same_bits(test_path(folder, name[0]), test_path(folder, name[1]));
    }
    rung_context_destroy(&context);
}

// A stop is heard by all workers, at one step; the run goes on from there to its end.
static void async_stops_and_goes_on(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    const char *run = test_path(folder, "run");
    const char *async[] = {SERVERS,
                           "ps.mode=async",
                           "ps.staleness=2",
                           "train.ranks=2",
                           "optim.name=adamw",
                           "optim.momentum=0",
                           "optim.lr=0.003",
                           NULL};
    seen s = {.stop_at = 5}, t = {0};
    assert_fails(RUNG_CANCELLED, "stopped after step", train(context, MLP, async, run, &s));
    assert_true(s.steps >= 5 && s.steps <= 5 + 1 + 3); // a step more, and as many as one was ahead
    assert_ok(training_resume(context, run, NULL, &(rung_observer){&t, watch}));
    assert_int_equal(t.steps, 16);
    assert_int_equal(t.samples, 2 * 61);
    rung_context_destroy(&context);
}

// What a worker's running statistics are before and after the workers meet.
typedef struct norms {
    const rung_config *config;
    float before[2][64], after[2][64];
    int between[2]; // calls between the steps of the plan
    int steps[2];   // of the plan
} norms;

static rung_status count_calls(void *user)
{
    ++*(int *)user;
    return RUNG_OK;
}

static float *running_mean(const rungi_session *s)
{
    rung_state_entry e = {0};
    rung_state_find(s->state, "bn1.running_mean", &e);
    return e.data;
}

static rung_status train_and_meet(void *arg, rungi_member *m)
{
    norms *n = arg;
    rungi_session *s = NULL;
    rung_batch batch;
    double loss;
    rung_config *config = NULL;
    RUNG_TRY(rungi_config_copy_for(m->context, n->config, &config));
    rung_status status = rungi_session_create(
        m->context, config, &(rungi_session_options){.parts = RUNGI_SESSION_TRAIN, .comm = m->comm},
        &s);
    rung_config_destroy(&config);
    RUNG_TRY(status);
    status = rungi_session_next(s, 0, &batch);
    rungi_engine_between(s->engine, count_calls, &n->between[m->index]);
    if (status == RUNG_OK) {
        status = rungi_session_step(s, &batch, 0, &loss);
        rungi_session_release(s, &batch);
    }
    const rung_plan *plan = rungi_engine_training_plan(s->engine);
    n->steps[m->index] = plan ? (int)plan->steps.count : -1;
    memcpy(n->before[m->index], running_mean(s), sizeof n->before[0]);
    if (status == RUNG_OK)
        status = rungi_session_meet(s, 1);
    memcpy(n->after[m->index], running_mean(s), sizeof n->after[0]);
    if (status == RUNG_OK)
        status = rungi_comm_barrier(m->comm, "end");
    rung_error error = *rung_error_last();
    if (status != RUNG_OK)
        rungi_comm_fail(m->comm); // before memory goes that the other one may be at
    rungi_session_destroy(&s);
    return status == RUNG_OK ? status : rungi_fail_adopt(&error);
}

// Running statistics are each worker's own until they meet, and then the mean.
static void statistics_become_the_mean(void **state)
{
    (void)state;
    if (strcmp(LIBRARY, "reference") == 0)
        skip_because("a deep network takes too long here");
    training_log log;
    static norms n;
    rung_context *context = training_context(&log);
    static const char yaml[] = "device: {threads: 1}\n"
                               "plan: {kernels: " LIBRARY "}\n"
                               "data: {source: synthetic, batch_size: 4,"
                               " synthetic: {shape: [3, 8, 8], count: 8, classes: 4}}\n"
                               "model: {name: resnet18, stem: cifar}\n"
                               "train: {strategy: parameter_server, ranks: 2}\n"
                               "ps: {mode: async, servers: 1}\n";
    rung_config *config = training_config(context, yaml, NULL);
    rungi_crew *crew;
    n.config = config;
    assert_ok(rungi_crew_create(context, 2, &(rungi_comm_options){.context = context}, &crew));
    assert_ok(rungi_crew_run(crew, train_and_meet, &n));
    rungi_crew_destroy(&crew);
    for (int r = 0; r < 2; r++) // hosts can serve others while they compute
        assert_int_equal(n.between[r], n.steps[r]);
    assert_memory_not_equal(n.before[0], n.before[1], sizeof n.before[0]);
    assert_memory_equal(n.after[0], n.after[1], sizeof n.after[0]);
    for (int i = 0; i < 64; i++)
        assert_near(n.after[0][i], ((double)n.before[0][i] + n.before[1][i]) / 2, 1e-7);
    rung_config_destroy(&config);
    rung_context_destroy(&context);
}

// ---- what cannot be ---------------------------------------------------------------------------

static void refuse(const char *expected, const char *const *overrides)
{
    training_log log;
    rung_context *context = training_context(&log);
    seen s = {0};
    assert_fails(RUNG_CONFIG, expected, train(context, MLP, overrides, NULL, &s));
    rung_context_destroy(&context);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    refuse("async cannot be combined with exact",
           (const char *[]){SERVERS, "ps.mode=async", "exact=true", "train.ranks=2", NULL});
    refuse("is 3, but there are 2 ranks, and a server lives with a rank",
           (const char *[]){SERVERS, "ps.servers=3", "train.ranks=2", NULL});
    refuse("is 2, but there is 1 rank,", (const char *[]){SERVERS, "ps.servers=2", NULL});
    refuse("belongs to ps.mode async", (const char *[]){SERVERS, "ps.staleness=0", NULL});
    refuse("belongs to train.strategy ddp",
           (const char *[]){SERVERS, "ddp.overlap=true", "train.ranks=2", NULL});
    refuse(
        "has 3 numbers, but there are 2 ranks",
        (const char *[]){"train.ranks=2", "device.slowdown=[1, 2, 1]", "device.op_rate=1", NULL});
    refuse("which ps.mode async does without",
           (const char *[]){SERVERS, "ps.mode=async", "ddp.link_delay=1ms", "train.ranks=2", NULL});
    refuse("needs device.op_rate",
           (const char *[]){"train.ranks=2", "device.slowdown=[1, 2]", NULL});
}

// A worker whose gradient is not finite stops the run before the servers have it.
static void a_diverging_worker_is_named(void **state)
{
    (void)state;
    training_log log;
    rung_context *context = training_context(&log);
    seen s = {0};
    const char *async[] = {SERVERS, "ps.mode=async", "train.ranks=2", "optim.lr=1e30", NULL};
    assert_fails(RUNG_DIVERGED, "step ", train(context, MLP, async, NULL, &s));
    rung_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(sync_is_the_same_as_one_device),
        IN_FOLDER(sync_is_the_same_as_ddp),
        IN_FOLDER(a_run_goes_on_with_and_without_servers),
        IN_FOLDER(async_trains),
        IN_FOLDER(async_in_turn_is_sequential),
        IN_FOLDER(async_stops_and_goes_on),
        cmocka_unit_test(statistics_become_the_mean),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(a_diverging_worker_is_named),
    };
    return RUN_TESTS(tests);
}
