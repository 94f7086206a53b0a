// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
#include "testing.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/philox.h"
#include "rung/models.h"
#include "train/engine.h"
#include "train/shards.h"

#ifdef RUNG_OPENMP
static const rung_kernels kernels = RUNG_KERNELS_OWN;
static const char network[] = "fashion_cnn";
#else // the build for ThreadSanitizer, which is slow
static const rung_kernels kernels = RUNG_KERNELS_REFERENCE;
static const char network[] = "mlp";
#endif

typedef struct world {
    rung_context *context;
    rung_device *device;
    rung_graph *graph;
    rung_state *state;
    rungi_engine *engine;
    float image[16 * 64];
    int64_t label[16];
} world;

static void make(world *w, rung_device_options device, rungi_engine_options options)
{
    assert_ok(rung_context_create(NULL, &w->context));
    assert_ok(rung_device_create(w->context, "cpu:0", &device, &w->device));
    assert_ok(rung_graph_create(w->context, &w->graph));
    rung_value x = rung_input(w->graph, "image", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 1, 8, 8));
    rung_value y = rung_input(w->graph, "label", RUNG_I64, RUNG_SHAPE(RUNG_BATCH)), logits;
    const rung_model_options o = {.classes = 4, .hidden = (const int64_t[]){32}, .n_hidden = 1};
    assert_ok(rung_model_build(w->graph, network, &o, x, &logits));
    rung_graph_output(w->graph, "logits", logits);
    rung_graph_loss(w->graph, rung_cross_entropy(w->graph, logits, y, 0));
    assert_ok(rung_state_create(w->graph, w->device, &w->state));
    assert_ok(rung_state_init(w->state, 5));
    options.kernels = kernels;
    assert_ok(rungi_engine_create(w->graph, w->state, &options, &w->engine));
    rungi_random random = rungi_random_make(1, RUNGI_PURPOSE_TEST, 0, 0, 0);
    for (int i = 0; i < 16 * 64; i++)
        w->image[i] = (float)rungi_random_normal(&random, (uint64_t)i);
    for (int i = 0; i < 16; i++)
        w->label[i] = i % 3 ? i % 4 : -100; // some do not count
}

static void drop(world *w)
{
    rungi_engine_destroy(&w->engine);
    rung_state_destroy(&w->state);
    rung_graph_destroy(&w->graph);
    rung_device_destroy(&w->device);
    rung_context_destroy(&w->context);
}

static double step(world *w, int64_t count)
{
    const rungi_feed feeds[] = {{"image", w->image}, {"label", w->label}};
    double loss;
    assert_ok(rungi_engine_train(
        w->engine, &(rungi_batch_view){.count = count, .feeds = feeds, .n_feeds = 2, .seed = 1},
        &loss));
    return loss;
}

static void shards_differ_by_one(void **state)
{
    (void)state;
    // Case C25's sizes.
    static const int64_t nine[] = {3, 2, 2, 2}, three[] = {1, 1, 1, 0};
    int64_t begin = 0;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(rungi_shard_of(9, 4, i).count, nine[i]);
        assert_int_equal(rungi_shard_of(9, 4, i).begin, begin);
        assert_int_equal(rungi_shard_of(3, 4, i).count, three[i]);
        begin += nine[i];
    }
}

// Under exact, 1, 2 and 3 threads give the same bits, for full and short batches; and the gradient
// is the one-shard gradient to rounding, although some labels are ignored and shards are uneven.
static void threads_do_not_show_under_exact(void **state)
{
    (void)state;
    static const int64_t counts[] = {16, 13, 5, 3, 1};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        world plain, one;
        make(&plain, (rung_device_options){.threads = 1}, (rungi_engine_options){0});
        make(&one, (rung_device_options){.threads = 1},
             (rungi_engine_options){.exact = true, .shards = 4});
        double loss = step(&plain, counts[c]), exact = step(&one, counts[c]);
        assert_near(loss, exact, 1e-6);
        int64_t size;
        const float *a = rung_state_grads(plain.state, &size);
        const float *b = rung_state_grads(one.state, &size);
        for (int64_t i = 0; i < size; i++)
            assert_near(a[i], b[i], 2e-6);
        rung_view va, vb;
        assert_ok(rungi_engine_output(plain.engine, "logits", &va));
        assert_ok(rungi_engine_output(one.engine, "logits", &vb));
        assert_true(rung_shape_equal(&va.shape, &vb.shape));
        for (int64_t i = 0; i < counts[c] * 4; i++)
            assert_near(((float *)va.data)[i], ((float *)vb.data)[i], 1e-5);
        for (int threads = 2; threads <= 3; threads++) {
            world many;
            make(&many, (rung_device_options){.threads = threads},
                 (rungi_engine_options){.exact = true, .shards = 4});
            for (int repeat = 0; repeat < 3; repeat++) {
                double again = step(&many, counts[c]);
                assert_memory_equal(&exact, &again, sizeof again);
                assert_memory_equal(b, rung_state_grads(many.state, &size),
                                    (size_t)size * sizeof(float));
            }
            drop(&many);
        }
        drop(&plain);
        drop(&one);
    }
}

static void no_label_counts(void **state)
{
    (void)state;
    world w;
    make(&w, (rung_device_options){.threads = 1},
         (rungi_engine_options){.exact = true, .shards = 2});
    for (int i = 0; i < 16; i++)
        w.label[i] = -100;
    assert_true(step(&w, 8) == 0);
    int64_t size;
    const float *g = rung_state_grads(w.state, &size);
    for (int64_t i = 0; i < size; i++)
        assert_true(g[i] == 0);
    drop(&w);
}

typedef struct hand_clock {
    atomic_llong now;
} hand_clock;

static int64_t hand_now(void *user)
{
    return atomic_load(&((hand_clock *)user)->now);
}

static void hand_sleep(void *user, int64_t nanoseconds)
{
    atomic_fetch_add(&((hand_clock *)user)->now, nanoseconds);
}

// Case C87 through the engine: 10 ms for each operation of an asynchronous device are charged to
// the phase and the step in which they were spent.
static void charge(int rounds)
{
    hand_clock hand = {1};
    rung_clock clock = {&hand, hand_now, hand_sleep};
    rung_context *context;
    assert_ok(rung_context_create(&(rung_context_options){.clock = &clock}, &context));
    rung_device *device;
    assert_ok(rung_device_create(
        context, "cpu:0", &(rung_device_options){.threads = 1, .async = true, .delay_op = 10000000},
        &device));
    rungi_timeline *timeline;
    assert_ok(rungi_timeline_create(context, 1000, false, &timeline));
    rung_graph *g;
    assert_ok(rung_graph_create(context, &g));
    rung_value x = rung_input(g, "image", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 4));
    rung_value y = rung_input(g, "label", RUNG_I64, RUNG_SHAPE(RUNG_BATCH)), logits;
    assert_ok(rung_model_build(g, "mlp", &(rung_model_options){.classes = 2}, x, &logits));
    rung_graph_loss(g, rung_cross_entropy(g, logits, y, 0));
    rung_state *s;
    assert_ok(rung_state_create(g, device, &s));
    assert_ok(rung_state_init(s, 1));
    rungi_engine *engine;
    assert_ok(rungi_engine_create(
        g, s,
        &(rungi_engine_options){.kernels = kernels, .timeline = timeline, .accumulate = rounds},
        &engine));
    float image[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    int64_t label[2] = {0, 1};
    const rungi_feed feeds[] = {{"image", image}, {"label", label}};
    const rung_plan *plan;
    assert_ok(rungi_engine_plan(engine, true, 2, &plan));
    int forward, backward, more, adding = 0;
    rung_plan_steps(plan, &forward, &backward);
    assert_true(forward >= 3 && backward >= 3);
    if (rounds > 1)
        rung_plan_steps(rungi_engine_adding_plan(engine), &more, &adding);
    forward *= rounds;
    backward += adding * (rounds - 1);
    for (uint64_t i = 0; i < 3; i++) {
        double loss;
        assert_ok(rungi_engine_train(
            engine,
            &(rungi_batch_view){.count = 2, .feeds = feeds, .n_feeds = 2, .seed = 1, .step = i},
            &loss));
        rungi_timeline_mark(timeline, (int64_t)i);
        rungi_breakdown b;
        assert_true(rungi_timeline_step(timeline, (int64_t)i, &b));
        assert_int_equal(b.ns[RUNGI_TIME_FORWARD], forward * 10000000LL);
        assert_int_equal(b.ns[RUNGI_TIME_BACKWARD], backward * 10000000LL);
        assert_int_equal(b.end - b.begin, (forward + backward) * 10000000LL);
    }
    rungi_engine_destroy(&engine);
    rung_state_destroy(&s);
    rung_graph_destroy(&g);
    rungi_timeline_destroy(&timeline);
    rung_device_destroy(&device);
    rung_context_destroy(&context);
}

static void device_time_is_charged_where_it_was_spent(void **state)
{
    (void)state;
    charge(1);
    charge(2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_differ_by_one),
        cmocka_unit_test(threads_do_not_show_under_exact),
        cmocka_unit_test(no_label_counts),
        cmocka_unit_test(device_time_is_charged_where_it_was_spent),
    };
    return RUN_TESTS(tests);
}
