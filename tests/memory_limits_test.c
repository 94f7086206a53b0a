// SPDX-License-Identifier: Apache-2.0
// Memory over many steps and at its end: cases C64 and C66, and what a user is told.
#include "training.h"

#include "base/philox.h"
#include "train/trainer.h"

// ---- many steps (C64) -------------------------------------------------------------------------

enum { STEPS = SANITIZED ? 100 : 1000 };

typedef struct account {
    rung_trainer *trainer;
    uint64_t live[STEPS + 1], reserved[STEPS + 1];
    size_t nodes[STEPS + 1], tensors[STEPS + 1];
    int seen;
} account;

static void keep_account(void *user, const rung_train_event *e)
{
    account *a = user;
    if (e->kind != RUNG_EVENT_STEP)
        return;
    const rungi_session *s = a->trainer->s;
    rung_memory_stats m = rung_device_memory(s->device);
    a->live[e->step] = m.live;
    a->reserved[e->step] = m.reserved;
    a->nodes[e->step] = s->graph->nodes.count;
    a->tensors[e->step] = rungi_engine_training_plan(s->engine)->tensors.count;
    a->seen++;
}

static void nothing_grows(void **state)
{
    (void)state;
    static account a;
    training_log log;
    rung_context *context = training_context(&log);
    rung_config *config = training_config(
        context, TRAINING_MLP,
        (const char *const[]){SANITIZED ? "train.steps=100" : "train.steps=1000",
                              "train.log_every=1", "data.num_workers=1", "data.batch_size=7",
                              NULL}); // the last batch of an epoch has 1
    assert_ok(rung_trainer_create(context, config, NULL, &a.trainer));
    assert_ok(rung_trainer_fit(a.trainer, &(rung_observer){&a, keep_account}));
    assert_int_equal(a.seen, STEPS);
    assert_int_equal(a.live[10], a.live[STEPS]);
    assert_int_equal(a.reserved[10], a.reserved[STEPS]);
    assert_int_equal(a.nodes[10], a.nodes[STEPS]);
    assert_int_equal(a.tensors[10], a.tensors[STEPS]);
    assert_true(a.live[10] > 0);
    rung_trainer_destroy(&a.trainer);
    rung_config_destroy(&config);
    rung_context_destroy(&context);
}

// ---- batches of any size (C66) ----------------------------------------------------------------

enum { LARGEST = 24, PIXELS = 64 };

typedef struct world {
    rung_context *context;
    rung_device *device;
    rung_graph *graph;
    rung_state *state;
    rungi_engine *engine;
    float image[2 * LARGEST * PIXELS];
    int64_t label[2 * LARGEST];
} world;

static void make(world *w, uint64_t cap)
{
    assert_ok(rung_context_create(NULL, &w->context));
    assert_ok(rung_device_create(
        w->context, "cpu:0", &(rung_device_options){.threads = 1, .memory_cap = cap}, &w->device));
    assert_ok(rung_graph_create(w->context, &w->graph));
    rung_value x = rung_input(w->graph, "image", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 1, 8, 8));
    rung_value y = rung_input(w->graph, "label", RUNG_I64, RUNG_SHAPE(RUNG_BATCH)), logits;
    assert_ok(
        rung_model_build(w->graph, "fashion_cnn", &(rung_model_options){.classes = 4}, x, &logits));
    rung_graph_loss(w->graph, rung_cross_entropy(w->graph, logits, y, 0));
    assert_ok(rung_state_create(w->graph, w->device, &w->state));
    assert_ok(rung_state_init(w->state, 5));
    assert_ok(rungi_engine_create(
        w->graph, w->state, &(rungi_engine_options){.kernels = RUNG_KERNELS_OWN}, &w->engine));
    rungi_random random = rungi_random_make(1, RUNGI_PURPOSE_TEST, 0, 0, 0);
    for (int i = 0; i < 2 * LARGEST * PIXELS; i++)
        w->image[i] = (float)rungi_random_normal(&random, (uint64_t)i);
    for (int i = 0; i < 2 * LARGEST; i++)
        w->label[i] = i % 4;
}

static void drop(world *w)
{
    rungi_engine_destroy(&w->engine);
    rung_state_destroy(&w->state);
    rung_graph_destroy(&w->graph);
    rung_device_destroy(&w->device);
    rung_context_destroy(&w->context);
}

static rung_status step(world *w, int64_t count, double *loss)
{
    const rungi_feed feeds[] = {{"image", w->image}, {"label", w->label}};
    const rungi_batch_view view = {.count = count, .feeds = feeds, .n_feeds = 2, .seed = 1};
    return rungi_engine_train(w->engine, &view, loss);
}

// What the largest batch needs.
static uint64_t needed(int64_t count)
{
    static world w;
    double loss;
    make(&w, 0);
    assert_ok(step(&w, count, &loss));
    uint64_t live = rung_device_memory(w.device).peak_live;
    drop(&w);
    return live;
}

static void batches_of_random_sizes(void **state)
{
    (void)state;
    static world w;
    double loss;
    uint64_t largest = needed(LARGEST);
    make(&w, largest + largest * 3 / 10);
    rungi_random random = rungi_random_make(2, RUNGI_PURPOSE_TEST, 0, 0, 0);
    for (uint64_t i = 0; i < (SANITIZED ? 200 : 2000); i++) {
        int64_t count = (int64_t)(rungi_random_u64(&random, i) % LARGEST) + 1;
        assert_ok(step(&w, count, &loss));
    }
    rung_memory_stats m = rung_device_memory(w.device);
    assert_int_equal(m.failures, 0);
    assert_int_equal(m.peak_live, largest); // one arena serves all sizes
    drop(&w);
}

static void a_failed_step_leaves_what_was(void **state)
{
    (void)state;
    static world w;
    double first, again;
    make(&w, needed(LARGEST));
    assert_ok(step(&w, LARGEST, &first));
    uint64_t live = rung_device_memory(w.device).live;
    for (int i = 0; i < 3; i++) {
        assert_fails(RUNG_NO_MEMORY, "no memory for activations", step(&w, 2 * LARGEST, &again));
        assert_int_equal(rung_device_memory(w.device).live, live);
    }
    assert_ok(step(&w, LARGEST, &again));
    assert_memory_equal(&first, &again, sizeof first);
    assert_int_equal(rung_device_memory(w.device).live, live);
    drop(&w);
}

// ---- what is told -----------------------------------------------------------------------------

static void the_message_names_tensors_and_remedies(void **state)
{
    (void)state;
    training_log log;
    rung_context *context = training_context(&log);
    const char *const yaml =
        "device: {threads: 1}\n"
        "data: {source: synthetic, batch_size: 16, synthetic: {shape: [3, 32, 32], count: 32, "
        "classes: 4}}\n"
        "model: {name: dlf_cnn}\n"
        "plan: {kernels: own, layout: channels_last, fuse: true}\n"
        "train: {epochs: 1, eval_every: never}\n";
    const char *const overrides[] = {"memory.budget=38000000", NULL};
    assert_int_equal(training_run(context, yaml, overrides, NULL, NULL), RUNG_NO_MEMORY);
    const char *message = rung_error_last()->message;
    print_message("%s\n", message);
    assert_non_null(strstr(message, "activations and workspace of a batch of 16 take "));
    assert_non_null(strstr(message, "a batch of 16 takes "));
    assert_non_null(strstr(message, " of the device (gradients 13.1 MiB, weights 13.1 MiB, "
                                    "activations 9.8 MiB, workspace "));
    assert_non_null(strstr(message, "largest at the peak: "));
    assert_non_null(strstr(message, " (activations)"));
    assert_non_null(strstr(message, "[16, 50, 32, 32] 3.1 MiB"));
    assert_non_null(strstr(message, "what would help: memory.recompute=auto (peak "));
    assert_non_null(strstr(message, " % more time)"));
    assert_non_null(strstr(message, "data.batch_size=8 (peak "));
    // What is promised holds.
    assert_ok(training_run(context, yaml,
                           (const char *const[]){overrides[0], "memory.recompute=auto", NULL}, NULL,
                           NULL));
    assert_ok(training_run(
        context, yaml, (const char *const[]){overrides[0], "data.batch_size=8", NULL}, NULL, NULL));
    rung_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_grows),
        cmocka_unit_test(batches_of_random_sizes),
        cmocka_unit_test(a_failed_step_leaves_what_was),
        cmocka_unit_test(the_message_names_tensors_and_remedies),
    };
    return RUN_TESTS(tests);
}
