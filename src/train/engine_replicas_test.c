// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
// An engine whose batches several devices share, against one with one device: cases C25, C26, C28.
#include "testing.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/philox.h"
#include "device/device.h"
#include "rung/nn.h"
#include "rung/ops.h"
#include "train/engine.h"
#include "train/shards.h"

#ifdef RUNG_OPENMP
static const rung_kernels kernels = RUNG_KERNELS_OWN;
enum { SIDE = 6, WIDTH = 8 };
#else // the build for ThreadSanitizer, which is slow
static const rung_kernels kernels = RUNG_KERNELS_REFERENCE;
enum { SIDE = 4, WIDTH = 4 };
#endif

enum { MOST = 36, CHANNELS = 3, PIXELS = CHANNELS * SIDE * SIDE, CLASSES = 4, DEVICES = 8 };

static float images[MOST * PIXELS];
static int64_t labels[MOST];

typedef struct notes {
    char text[1024];
} notes;

// What a network is trained with.
typedef struct kind {
    int devices;
    rungi_engine_options options; // replicas.devices and count apart
    rung_device_options device;
    bool norm, dropout;
    rung_clock *clock;
} kind;

typedef struct world {
    notes log;
    rung_context *context;
    rung_device *devices[DEVICES];
    rung_graph *graph;
    rung_state *state;
    rungi_engine *engine;
    uint64_t steps;
} world;

static void keep_note(void *user, rung_log_level level, const char *line)
{
    notes *n = user;
    size_t used = strlen(n->text);
    (void)level;
    snprintf(n->text + used, sizeof n->text - used, "%s\n", line);
}

static void build_network(rung_graph *g, const kind *k)
{
    rung_value x = rung_input(g, "image", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, CHANNELS, SIDE, SIDE));
    rung_value y = rung_input(g, "label", RUNG_I64, RUNG_SHAPE(RUNG_BATCH));
    x = rung_conv2d(g, x, "conv1", .out = WIDTH, .kernel = 3, .pad = 1);
    if (k->norm)
        x = rung_batch_norm(g, x, "bn1", 0);
    x = rung_flatten(g, rung_relu(g, x), 1);
    if (k->dropout)
        x = rung_dropout(g, x, 0.5);
    x = rung_linear(g, rung_relu(g, rung_linear(g, x, "fc1", .out = 16)), "fc2", .out = CLASSES);
    rung_graph_output(g, "logits", x);
    rung_graph_loss(g, rung_cross_entropy(g, x, y, 0));
}

static void make_devices(world *w, const kind *k)
{
    rung_device_options o = k->device;
    o.threads = o.threads ? o.threads : 1;
    assert_ok(rung_context_create(
        &(rung_context_options){
            .log = keep_note, .log_user = &w->log, .log_level = RUNG_LOG_NOTICE, .clock = k->clock},
        &w->context));
    for (int d = 0; d < k->devices; d++) {
        char name[16];
        snprintf(name, sizeof name, "cpu:%d", d);
        assert_ok(rung_device_create(w->context, name, &o, &w->devices[d]));
    }
    assert_ok(rung_graph_create(w->context, &w->graph));
}

static rung_status make_engine(world *w, const kind *k)
{
    rungi_engine_options options = k->options;
    options.kernels = kernels;
    options.replicas.devices = w->devices;
    options.replicas.count = k->devices;
    RUNG_TRY(rung_state_create(w->graph, w->devices[0], &w->state));
    RUNG_TRY(rung_state_init(w->state, 5));
    return rungi_engine_create(w->graph, w->state, &options, &w->engine);
}

static void make(world *w, const kind *k)
{
    *w = (world){0};
    make_devices(w, k);
    build_network(w->graph, k);
    assert_ok(make_engine(w, k));
}

static void drop(world *w)
{
    rungi_engine_destroy(&w->engine);
    rung_state_destroy(&w->state);
    rung_graph_destroy(&w->graph);
    for (int d = 0; d < DEVICES; d++)
        rung_device_destroy(&w->devices[d]);
    rung_context_destroy(&w->context);
}

static rung_status gradients(world *w, int64_t count, double *loss)
{
    const rungi_feed feeds[] = {{"image", images}, {"label", labels}};
    return rungi_engine_train(
        w->engine,
        &(rungi_batch_view){
            .count = count, .feeds = feeds, .n_feeds = 2, .seed = 1, .step = w->steps++},
        loss);
}

// A step of plain descent.
static double step(world *w, int64_t count)
{
    double loss;
    assert_ok(gradients(w, count, &loss));
    for (int64_t i = 0; i < w->state->flat_size; i++)
        w->state->params[i] -= 0.1f * w->state->grads[i];
    return loss;
}

static double evaluate(world *w, int64_t count)
{
    const rungi_feed feeds[] = {{"image", images}, {"label", labels}};
    double loss;
    assert_ok(rungi_engine_eval(
        w->engine, &(rungi_batch_view){.count = count, .feeds = feeds, .n_feeds = 2}, &loss));
    return loss;
}

// The relative difference of two gradients, as vectors.
static double distance(const world *a, const world *b)
{
    double apart = 0, size = 0;
    for (int64_t i = 0; i < a->state->flat_size; i++) {
        apart += pow((double)a->state->grads[i] - b->state->grads[i], 2);
        size += pow(a->state->grads[i], 2);
    }
    return sqrt(apart / size);
}

// ---- how a batch is cut -----------------------------------------------------------------------

static void weights_cut_a_batch(void **state)
{
    (void)state;
    static const struct {
        int parts;
        double weights[4];
        int64_t count, expected[4];
    } cases[] = {
        {2, {2, 1}, 9, {6, 3}},
        {2, {2, 1}, 10, {7, 3}},
        {2, {2, 1}, 3, {2, 1}},
        {2, {2, 1}, 1, {1, 0}},
        {3, {1, 1000, 1}, 6, {1, 4, 1}},
        {3, {1000, 1, 1000}, 2, {1, 1, 0}},
        {4, {0.1, 0.2, 0.3, 0.4}, 10, {1, 2, 3, 4}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t begin = 0;
        for (int p = 0; p < cases[i].parts; p++) {
            rungi_shard part = rungi_share_of(cases[i].count, cases[i].weights, cases[i].parts, p);
            assert_int_equal(part.begin, begin);
            assert_int_equal(part.count, cases[i].expected[p]);
            begin += part.count;
        }
    }
}

// Case C25: sizes, idle devices with one note, and the gradient of one device.
static void batches_that_do_not_divide(void **state)
{
    (void)state;
    static const struct {
        int devices;
        int64_t count, sizes[7];
        const char *note;
    } cases[] = {
        {4, 9, {3, 2, 2, 2}, ""},
        {7, 36, {6, 5, 5, 5, 5, 5, 5}, ""},
        {4, 3, {1, 1, 1, 0}, "a batch of 3 samples leaves 1 of 4 devices idle, from cpu:3 on\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int parallel = 0; parallel < 2; parallel++) {
            world one, many;
            make(&one, &(kind){.devices = 1});
            make(&many, &(kind){.devices = cases[i].devices,
                                .options.replicas.parallel_criterion = parallel});
            for (int d = 0; d < cases[i].devices; d++)
                assert_int_equal(rungi_engine_part_of(many.engine, cases[i].count, d).count,
                                 cases[i].sizes[d]);
            double loss, expected;
            assert_ok(gradients(&one, cases[i].count, &expected));
            for (int again = 0; again < 2; again++) {
                assert_ok(gradients(&many, cases[i].count, &loss));
                assert_near(loss, expected, 1e-6);
                assert_true(distance(&one, &many) < 1e-5);
            }
            for (int d = 0; d < cases[i].devices; d++)
                assert_int_equal(rungi_engine_use(many.engine, d).samples, 2 * cases[i].sizes[d]);
            assert_string_equal(many.log.text, cases[i].note);
            drop(&many);
            drop(&one);
        }
}

// ---- the same bits ----------------------------------------------------------------------------

static void assert_same_state(const world *a, const world *b)
{
    assert_memory_equal(a->state->params, b->state->params,
                        (size_t)a->state->flat_size * sizeof(float));
    assert_memory_equal(a->state->buffers, b->state->buffers, (size_t)a->state->buffer_bytes);
}

static void compare_bits(const kind *k)
{
    static const int64_t counts[] = {16, 13, 5, 3, 1};
    world one, many;
    kind alone = *k;
    alone.devices = 1;
    make(&one, &alone);
    make(&many, k);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        double a = step(&one, counts[i]), b = step(&many, counts[i]);
        assert_memory_equal(&a, &b, sizeof a);
        assert_same_state(&one, &many);
        a = evaluate(&one, counts[i]);
        b = evaluate(&many, counts[i]);
        assert_memory_equal(&a, &b, sizeof a);
        rung_view va, vb;
        assert_ok(rungi_engine_output(one.engine, "logits", &va));
        assert_ok(rungi_engine_output(many.engine, "logits", &vb));
        assert_int_equal(vb.shape.dim[0], counts[i]);
        assert_memory_equal(va.data, vb.data, (size_t)counts[i] * CLASSES * sizeof(float));
    }
    drop(&many);
    drop(&one);
}

// Under exact the number of devices does not show, wherever the loss is computed, whether what goes
// between them is copied, with one thread a device or several, and however shards are cut.
static void devices_do_not_show_under_exact(void **state)
{
    (void)state;
    static const double weights[] = {3, 1, 1};
    for (int variant = 0; variant < 8; variant++)
        for (int devices = 2; devices <= 4; devices++) {
            kind k = {.devices = devices,
                      .norm = true,
                      .dropout = true,
                      .device.threads = variant & 1 ? 2 : 1,
                      .device.async = variant == 6,
                      .options = {.exact = true,
                                  .shards = devices == 3 ? 8 : 4,
                                  .fuse = variant & 2,
                                  .replicas = {.parallel_criterion = variant & 1,
                                               .copies = variant & 4,
                                               .output_device = variant >> 1 & 1}}};
            if (devices == 3)
                k.options.replicas.weights = weights;
            compare_bits(&k);
        }
}

// The same of accumulated rounds; a round of one device with as many shards has been compared with
// one large batch (engine_accumulate_test.c).
static void rounds_on_devices_are_shards_too(void **state)
{
    (void)state;
    static const double weights[] = {3, 1, 1};
    for (int variant = 0; variant < 8; variant++) {
        int devices = 2 + variant % 3;
        kind k = {.devices = devices,
                  .norm = true,
                  .dropout = true,
                  .device.threads = variant & 1 ? 2 : 1,
                  .options = {.exact = true,
                              .shards = devices == 3 ? 8 : 4,
                              .accumulate = variant & 2 ? 4 : 2,
                              .fuse = variant & 1,
                              .replicas = {.parallel_criterion = variant & 2,
                                           .copies = variant & 4,
                                           .output_device = variant & 1}}};
        if (devices == 3)
            k.options.replicas.weights = weights;
        compare_bits(&k);
    }
}

// Fast mode: rounds on several devices give the gradient, the loss and the outputs of one batch on
// one, for batches that divide, that do not, that leave devices or rounds empty, and by weights.
static void rounds_on_devices_equal_one_batch(void **state)
{
    (void)state;
    static const int64_t counts[] = {16, 13, 5, 3, 1};
    static const double weights[] = {2, 1, 4};
    for (int variant = 0; variant < 6; variant++) {
        world one, many;
        make(&one, &(kind){.devices = 1, .dropout = true});
        make(&many, &(kind){.devices = 2 + variant % 3,
                            .dropout = true,
                            .options = {.accumulate = 2 + variant % 2,
                                        .fuse = variant & 1,
                                        .replicas = {.parallel_criterion = variant & 1,
                                                     .copies = variant & 2,
                                                     .weights = variant == 4 ? weights : NULL}}});
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            double loss, expected;
            assert_ok(gradients(&one, counts[i], &expected));
            assert_ok(gradients(&many, counts[i], &loss));
            assert_near(loss, expected, 1e-6 * fabs(expected));
            assert_true(expected == 0 || distance(&one, &many) < 2e-6);
            if (variant & 1)
                continue; // outputs stay on their devices
            rung_view a, b;
            assert_ok(rungi_engine_output(one.engine, "logits", &a));
            assert_ok(rungi_engine_output(many.engine, "logits", &b));
            assert_int_equal(b.shape.dim[0], counts[i]);
            for (int64_t k = 0; k < counts[i] * CLASSES; k++)
                assert_near(((float *)a.data)[k], ((float *)b.data)[k], 1e-5);
        }
        drop(&many);
        drop(&one);
    }
}

// ---- the loss ---------------------------------------------------------------------------------

// Case C26: losses 1, 2, 3 | 4, 10 of samples are 4.0 of the batch, not 4.5, and the gradient is
// that of one device; the same for sums; outputs come back in the order of the inputs.
static void a_loss_is_no_mean_of_means(void **state)
{
    (void)state;
    static const float squares[] = {1, 2, 3, 4, 10};
    float x[5], zero[5] = {0};
    for (int i = 0; i < 5; i++)
        x[i] = sqrtf(squares[i]);
    for (int variant = 0; variant < 8; variant++) {
        bool sum = variant & 1;
        kind k = {.devices = 2,
                  .options.replicas = {.parallel_criterion = variant & 2, .copies = variant & 4}};
        world w = {0};
        make_devices(&w, &k);
        rung_value in = rung_input(w.graph, "x", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 1));
        rung_value target = rung_input(w.graph, "target", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 1));
        rung_value out = rung_linear(w.graph, in, "fc", .out = 1, .no_bias = true);
        rung_graph_output(w.graph, "out", out);
        rung_graph_loss(w.graph, rung_mse_loss(w.graph, out, target, .sum = sum));
        assert_ok(make_engine(&w, &k));
        w.state->params[0] = 1;
        const rungi_feed feeds[] = {{"x", x}, {"target", zero}};
        const rungi_batch_view view = {.count = 5, .feeds = feeds, .n_feeds = 2};
        double loss;
        assert_ok(rungi_engine_train(w.engine, &view, &loss));
        assert_near(loss, sum ? 20 : 4, 4e-6);
        assert_near(w.state->grads[0], sum ? 40 : 8, 8e-6); // d/dw of the mean of (w x)^2
        rung_view got;
        if (k.options.replicas.parallel_criterion)
            assert_fails(RUNG_UNSUPPORTED, "stays on its devices",
                         rungi_engine_output(w.engine, "out", &got));
        assert_ok(rungi_engine_eval(w.engine, &view, &loss));
        assert_near(loss, sum ? 20 : 4, 4e-6);
        assert_ok(rungi_engine_output(w.engine, "out", &got));
        assert_int_equal(got.shape.dim[0], 5);
        for (int i = 0; i < 5; i++)
            assert_true(((const float *)got.data)[i] == x[i]);
        assert_string_equal(w.log.text, "");
        drop(&w);
    }
}

// ---- statistics -------------------------------------------------------------------------------

// Case C28: halves of a batch with means 0 and 10, running mean 0, momentum 0.1: 0.5 of all
// devices, 0.0 of the first; the same on all of them, and in their evaluation. Rounds move them
// once a step.
static void statistics_follow_the_policy(void **state)
{
    (void)state;
    static float halves[16 * PIXELS];
    for (int variant = 0; variant < 8; variant++) {
        bool first = variant & 1;
        world w;
        rung_state_entry weight, bias, mean;
        make(&w, &(kind){.devices = 2,
                         .norm = true,
                         .options = {.accumulate = variant & 4 ? 4 : 1,
                                     .replicas = {.first_statistics = first,
                                                  .parallel_criterion = variant & 2}}});
        // A convolution that gives the mean of the three channels: a picture of 10 becomes 10.
        for (int i = 0; i < 16 * PIXELS; i++)
            halves[i] = i < 8 * PIXELS ? 0 : 10;
        assert_true(rung_state_find(w.state, "conv1.weight", &weight));
        assert_true(rung_state_find(w.state, "conv1.bias", &bias));
        for (int i = 0; i < WIDTH * CHANNELS * 9; i++)
            ((float *)weight.data)[i] = i % 9 == 4 ? 1.0f / CHANNELS : 0;
        memset(bias.data, 0, WIDTH * sizeof(float));
        const rungi_feed feeds[] = {{"image", halves}, {"label", labels}};
        double loss;
        assert_ok(rungi_engine_train(
            w.engine, &(rungi_batch_view){.count = 16, .feeds = feeds, .n_feeds = 2}, &loss));
        assert_true(rung_state_find(w.state, "bn1.running_mean", &mean));
        for (int c = 0; c < WIDTH; c++)
            assert_near(((float *)mean.data)[c], first ? 0 : 0.5, 1e-6);
        const rung_state *copy = rungi_engine_replica(w.engine, 1);
        assert_memory_equal(copy->buffers, w.state->buffers, (size_t)w.state->buffer_bytes);
        // The same pictures on both devices.
        memcpy(halves + 8 * PIXELS, halves, 8 * PIXELS * sizeof(float));
        rung_view logits;
        assert_ok(rungi_engine_eval(
            w.engine, &(rungi_batch_view){.count = 16, .feeds = feeds, .n_feeds = 2}, &loss));
        assert_ok(rungi_engine_output(w.engine, "logits", &logits));
        assert_memory_equal(logits.data, (float *)logits.data + 8 * CLASSES,
                            8 * CLASSES * sizeof(float));
        drop(&w);
    }
}

// ---- memory -----------------------------------------------------------------------------------

static uint64_t live(const world *w, int device)
{
    return rung_device_memory(w->devices[device]).live;
}

// Another output device takes the gathered outputs and the loss off the first one, by as many
// bytes; a parallel criterion has none of them; copies take room for what comes.
static void accounts_tell_where_outputs_are(void **state)
{
    (void)state;
    uint64_t bytes[4][2];
    for (int variant = 0; variant < 4; variant++) {
        world w;
        double loss;
        make(&w, &(kind){.devices = 2,
                         .options.replicas = {.output_device = variant == 1,
                                              .parallel_criterion = variant == 2,
                                              .copies = variant == 3}});
        assert_ok(gradients(&w, MOST, &loss));
        for (int d = 0; d < 2; d++)
            bytes[variant][d] = live(&w, d);
        char *text;
        assert_ok(rung_device_memory_text(w.devices[variant == 1], &text));
        assert_true((strstr(text, "gathered outputs") != NULL) == (variant != 2));
        free(text);
        drop(&w);
    }
    uint64_t outputs = MOST * CLASSES * sizeof(float), flat = 0;
    assert_true(bytes[0][0] >= bytes[0][1] + outputs);
    assert_int_equal(bytes[0][0] - bytes[1][0], bytes[1][1] - bytes[0][1]);
    assert_true(bytes[0][0] - bytes[1][0] >= 2 * outputs); // and their gradients
    assert_true(bytes[2][0] < bytes[0][0]);
    world w;
    make(&w, &(kind){.devices = 2});
    flat = (uint64_t)w.state->flat_size * sizeof(float);
    drop(&w);
    assert_int_equal(bytes[3][0] - bytes[0][0], flat); // gradients of the other device
    uint64_t half = MOST / 2 * (PIXELS + CLASSES) * sizeof(float);
    assert_int_equal(bytes[3][1] - bytes[0][1], half); // its pictures; gradients of its outputs
}

// Each device has a cap of its own, and the message says which one ran out.
static void a_full_device_is_named(void **state)
{
    (void)state;
    world w = {0};
    kind k = {.devices = 2};
    make_devices(&w, &k);
    build_network(w.graph, &k);
    assert_ok(make_engine(&w, &k));
    double loss;
    assert_ok(gradients(&w, 2, &loss));
    rungi_device_set_cap(w.devices[1], live(&w, 1) + 64);
    assert_fails(RUNG_NO_MEMORY, "cpu:1: no memory for", gradients(&w, MOST, &loss));
    rungi_device_set_cap(w.devices[1], 0);
    assert_ok(gradients(&w, MOST, &loss));
    drop(&w);
}

// ---- time -------------------------------------------------------------------------------------

// A clock on which threads sleep together: it moves when all of them do, by the same.
typedef struct shared_sleep {
    pthread_mutex_t lock;
    pthread_cond_t all;
    int sleepers, arrived;
    int64_t now, rounds;
    bool alone; // somebody waited in vain
} shared_sleep;

static int64_t shared_now(void *user)
{
    shared_sleep *s = user;
    pthread_mutex_lock(&s->lock);
    int64_t now = s->now;
    pthread_mutex_unlock(&s->lock);
    return now;
}

static void sleep_together(void *user, int64_t nanoseconds)
{
    shared_sleep *s = user;
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 60;
    pthread_mutex_lock(&s->lock);
    int64_t round = s->rounds;
    if (++s->arrived == s->sleepers) {
        s->now += nanoseconds;
        s->arrived = 0;
        s->rounds++;
        pthread_cond_broadcast(&s->all);
    }
    while (s->rounds == round && !s->alone)
        s->alone = pthread_cond_timedwait(&s->all, &s->lock, &limit) != 0;
    pthread_mutex_unlock(&s->lock);
}

// Time that a step takes on so many devices of a speed.
static int64_t step_time(int devices, int64_t *busy)
{
    shared_sleep s = {.sleepers = devices, .now = 1};
    pthread_mutex_init(&s.lock, NULL);
    pthread_cond_init(&s.all, NULL);
    rung_clock clock = {&s, shared_now, sleep_together};
    world w;
    make(&w, &(kind){.devices = devices,
                     .clock = &clock,
                     .device.op_rate = 1e-3,
                     .options.replicas.parallel_criterion = true});
    double loss;
    assert_ok(gradients(&w, 32, &loss));
    assert_false(s.alone);
    *busy = rungi_engine_use(w.engine, devices - 1).busy;
    assert_int_equal(rungi_engine_spent(w.engine), s.now - 1);
    int64_t took = s.now - 1;
    drop(&w);
    pthread_cond_destroy(&s.all);
    pthread_mutex_destroy(&s.lock);
    return took;
}

// Four devices are busy at the same time, and take a quarter of the time of one.
static void devices_compute_at_once(void **state)
{
    (void)state;
    int64_t busy, one = step_time(1, &busy);
    int64_t four = step_time(4, &busy);
    assert_int_equal(busy, four);
    assert_near((double)one / (double)four, 4, 0.02);
}

// ---- mistakes ---------------------------------------------------------------------------------

static void what_cannot_be_shared_is_refused(void **state)
{
    (void)state;
    world w = {0};
    kind k = {.devices = 2, .options = {.exact = true, .shards = 1}};
    make_devices(&w, &k);
    build_network(w.graph, &k);
    assert_fails(RUNG_CONFIG, "exact with 2 devices: at most train.shards, which is 1",
                 make_engine(&w, &k));
    drop(&w);
    w = (world){0};
    k = (kind){.devices = 2, .options.replicas.output_device = 2};
    make_devices(&w, &k);
    build_network(w.graph, &k);
    assert_fails(RUNG_INVALID, "the output device is 2; allowed are 0..1", make_engine(&w, &k));
    drop(&w);
    // A loss with a parameter of its own: the replicas have it, the output device does not.
    w = (world){0};
    k = (kind){.devices = 2};
    make_devices(&w, &k);
    rung_value x = rung_input(w.graph, "image", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 4));
    rung_value y = rung_input(w.graph, "label", RUNG_I64, RUNG_SHAPE(RUNG_BATCH));
    x = rung_linear(w.graph, x, "fc1", .out = 4);
    rung_graph_output(w.graph, "features", x);
    rung_graph_loss(w.graph,
                    rung_cross_entropy(w.graph, rung_linear(w.graph, x, "fc2", .out = 3), y, 0));
    assert_fails(RUNG_UNSUPPORTED,
                 "the loss reads fc2.weight, which only replicas have: set "
                 "data_parallel.parallel_criterion=true",
                 make_engine(&w, &k));
    rung_state_destroy(&w.state);
    k.options.replicas.parallel_criterion = true;
    assert_ok(make_engine(&w, &k));
    drop(&w);
}

int main(void)
{
    rungi_random random = rungi_random_make(1, RUNGI_PURPOSE_TEST, 0, 0, 0);
    for (int i = 0; i < MOST * PIXELS; i++)
        images[i] = (float)rungi_random_normal(&random, (uint64_t)i);
    for (int i = 0; i < MOST; i++)
        labels[i] = i % 5 ? i % CLASSES : -100; // some do not count
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_cut_a_batch),
        cmocka_unit_test(batches_that_do_not_divide),
        cmocka_unit_test(devices_do_not_show_under_exact),
        cmocka_unit_test(rounds_on_devices_are_shards_too),
        cmocka_unit_test(rounds_on_devices_equal_one_batch),
        cmocka_unit_test(a_loss_is_no_mean_of_means),
        cmocka_unit_test(statistics_follow_the_policy),
        cmocka_unit_test(accounts_tell_where_outputs_are),
        cmocka_unit_test(a_full_device_is_named),
        cmocka_unit_test(devices_compute_at_once),
        cmocka_unit_test(what_cannot_be_shared_is_refused),
    };
    return RUN_TESTS(tests);
}
