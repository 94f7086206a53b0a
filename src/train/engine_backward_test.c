// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
// For an optimizer that looks at all gradients first, backward makes sums where it can: the bits of
// a step are those of one that reads the gradients itself. (engine_ranks_test.c has what is sent
// during backward.)
#include "testing.h"

#include <math.h>

#include "base/philox.h"
#include "optim/optimizer.h"
#include "rung/nn.h"
#include "rung/ops.h"
#include "train/engine.h"

#ifdef RUNG_OPENMP
static const rung_kernels kernels = RUNG_KERNELS_OWN;
#else
static const rung_kernels kernels = RUNG_KERNELS_REFERENCE; // the build for ThreadSanitizer
#endif

// fc1 and fc2 have 3 blocks each and 1 for their bias, the weight that is used twice 1; none those
// that are frozen or not used.
enum { MOST = 16, IN = 40, HIDDEN = 300, CLASSES = 30, BLOCKS = 9, DEVICES = 2 };

typedef struct way {
    const char *name;
    rungi_engine_options options;
    rung_device_options device;
    int devices;
    bool sums; // in backward
} way;

static const way ways[] = {
    {"one shard", {0}, {.threads = 1}, 1, true},
    {"two threads", {0}, {.threads = 2}, 1, true},
    {"updates in backward", {.fuse = true, .fuse_optimizer = true}, {.threads = 1}, 1, true},
    {"three rounds", {.accumulate = 3}, {.threads = 1}, 1, true},
    {"bf16", {.precision = RUNG_BF16, .compute = RUNG_COMPUTE_STORAGE}, {.threads = 1}, 1, true},
    {"exact", {.exact = true, .shards = 4}, {.threads = 3}, 1, false},
    {"exact in rounds", {.exact = true, .shards = 1, .accumulate = 4}, {.threads = 1}, 1, false},
    {"two devices", {0}, {.threads = 1}, 2, false},
    {"asynchronous", {0}, {.threads = 1, .async = true}, 1, false},
};

typedef struct world {
    rung_context *context;
    rung_device *devices[DEVICES];
    rung_graph *graph;
    rung_state *state;
    rungi_engine *engine;
    rung_optimizer *optimizer;
} world;

static float inputs[MOST * IN];
static int64_t labels[MOST];

static void build_network(rung_graph *g)
{
    rung_value x = rung_input(g, "x", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, IN));
    rung_value y = rung_input(g, "y", RUNG_I64, RUNG_SHAPE(RUNG_BATCH));
    rung_value twice = rung_param(g, "twice", RUNG_SHAPE(1), &(rung_param_options){0});
    rung_value frozen = rung_param(g, "frozen", RUNG_SHAPE(HIDDEN), &(rung_param_options){0});
    rung_param(g, "unused", RUNG_SHAPE(50), &(rung_param_options){0});
    x = rung_linear(g, rung_add(g, x, twice), "fc1", .out = HIDDEN);
    x = rung_add(g, rung_relu(g, rung_add(g, x, frozen)), twice);
    x = rung_linear(g, x, "fc2", .out = CLASSES);
    rung_graph_output(g, "logits", x);
    rung_graph_loss(g, rung_cross_entropy(g, x, y, 0));
    assert_int_equal(rung_graph_freeze(g, "frozen"), 1);
}

static void open(world *w, const way *k)
{
    rung_optimizer_options adam = rung_optimizer_defaults(RUNG_OPTIMIZER_ADAM);
    rungi_engine_options options = k->options;
    options.kernels = kernels;
    options.allow_unused = true;
    options.replicas.devices = w->devices;
    options.replicas.count = k->devices;
    *w = (world){0};
    assert_ok(rung_context_create(NULL, &w->context));
    for (int d = 0; d < k->devices; d++)
        assert_ok(
            rung_device_create(w->context, d ? "cpu:1" : "cpu:0", &k->device, &w->devices[d]));
    assert_ok(rung_graph_create(w->context, &w->graph));
    build_network(w->graph);
    assert_ok(rung_state_create(w->graph, w->devices[0], &w->state));
    assert_ok(rung_state_init(w->state, 5));
    assert_ok(rungi_engine_create(w->graph, w->state, &options, &w->engine));
    assert_ok(rung_optimizer_for_state(w->context, &adam, w->state, &w->optimizer));
}

static void drop(world *w)
{
    rung_optimizer_destroy(&w->optimizer);
    rungi_engine_destroy(&w->engine);
    rung_state_destroy(&w->state);
    rung_graph_destroy(&w->graph);
    for (int d = 0; d < DEVICES; d++)
        rung_device_destroy(&w->devices[d]);
    rung_context_destroy(&w->context);
}

static void backward(world *w, int64_t count, const rung_optimizer_update *u)
{
    const rungi_feed feeds[] = {{"x", inputs}, {"y", labels}};
    double loss;
    assert_ok(rungi_engine_train(w->engine,
                                 &(rungi_batch_view){.count = count,
                                                     .feeds = feeds,
                                                     .n_feeds = 2,
                                                     .loss_scale = u->loss_scale,
                                                     .optimizer = w->optimizer,
                                                     .update = u},
                                 &loss));
}

static void check(const way *k)
{
    static const int64_t counts[] = {16, 13, 16, 2, 1};
    world a, b;
    open(&a, k);
    open(&b, k);
    size_t bytes = (size_t)a.state->flat_size * sizeof(float);
    for (int i = 0; i < 5; i++) {
        inputs[0] = i == 3 ? INFINITY : 1; // this step is left out
        rung_optimizer_update u = {.rates.lr = 0.01,
                                   .loss_scale = 0x1p40,
                                   .skip_nonfinite = true,
                                   .max_grad_norm = i ? 1 : 0,
                                   .threads = k->device.threads};
        rung_optimizer_report sums, reads;
        backward(&a, counts[i], &u);
        assert_int_equal(a.optimizer->summed, k->sums ? BLOCKS : 0);
        backward(&b, counts[i], &u);
        rungi_optimizer_begin_sums(b.optimizer); // forgotten
        assert_memory_equal(a.state->grads, b.state->grads, bytes);
        assert_ok(rung_optimizer_step(a.optimizer, a.state->params, a.state->grads, &u, &sums));
        assert_ok(rung_optimizer_step(b.optimizer, b.state->params, b.state->grads, &u, &reads));
        assert_true(sums.applied == (i != 3) && reads.applied == sums.applied);
        assert_int_equal(sums.nonfinite, reads.nonfinite);
        assert_memory_equal(&sums.grad_norm, &reads.grad_norm, sizeof reads.grad_norm);
        assert_memory_equal(a.state->params, b.state->params, bytes);
    }
    drop(&a);
    drop(&b);
}

static void steps_have_the_same_bits(void **state)
{
    (void)state;
    rungi_random random = rungi_random_make(1, RUNGI_PURPOSE_TEST, 0, 0, 0);
    for (int i = 0; i < MOST * IN; i++)
        inputs[i] = (float)rungi_random_normal(&random, (uint64_t)i);
    for (int i = 0; i < MOST; i++)
        labels[i] = i % CLASSES;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        print_message("%s\n", ways[i].name);
        check(&ways[i]);
    }
}

// For an optimizer that does not look at all gradients.
static void no_sums_in_vain(void **state)
{
    (void)state;
    world w;
    open(&w, &ways[0]);
    backward(&w, MOST, &(rung_optimizer_update){.rates.lr = 0.01, .threads = 1});
    assert_int_equal(w.optimizer->summed, 0);
    drop(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_have_the_same_bits),
        cmocka_unit_test(no_sums_in_vain),
    };
    return RUN_TESTS(tests);
}
