// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
// Accumulation on one rank: rounds against one large batch. (engine_ranks_test.c has several
// ranks.)
#include "testing.h"

#include <math.h>
#include <stdlib.h>

#include "base/philox.h"
#include "rung/nn.h"
#include "rung/ops.h"
#include "train/engine.h"

#ifdef RUNG_OPENMP
static const rung_kernels kernels = RUNG_KERNELS_OWN;
#else
static const rung_kernels kernels = RUNG_KERNELS_REFERENCE; // the build for ThreadSanitizer
#endif

enum { MOST = 16, SIDE = 6, PIXELS = SIDE * SIDE, CLASSES = 4 };

typedef struct world {
    rung_context *context;
    rung_device *device;
    rung_graph *graph;
    rung_state *state;
    rungi_engine *engine;
} world;

static float images[MOST * PIXELS];
static int64_t labels[MOST];

static void make_data(void)
{
    rungi_random random = rungi_random_make(1, RUNGI_PURPOSE_TEST, 0, 0, 0);
    for (int i = 0; i < MOST * PIXELS; i++)
        images[i] = (float)rungi_random_normal(&random, (uint64_t)i);
    // Of four micro-batches of a full batch the second has no label that counts.
    for (int i = 0; i < MOST; i++)
        labels[i] = i % 5 && i / 4 != 1 ? i % CLASSES : -100;
}

static void open(world *w, int threads)
{
    *w = (world){0};
    assert_ok(rung_context_create(NULL, &w->context));
    assert_ok(rung_device_create(w->context, "cpu:0", &(rung_device_options){.threads = threads},
                                 &w->device));
    assert_ok(rung_graph_create(w->context, &w->graph));
}

static void start(world *w, rungi_engine_options options)
{
    assert_ok(rung_state_create(w->graph, w->device, &w->state));
    assert_ok(rung_state_init(w->state, 5));
    options.kernels = kernels;
    assert_ok(rungi_engine_create(w->graph, w->state, &options, &w->engine));
}

// A network with a weight that is used twice, dropout, and batch normalization where it is wanted.
static void make(world *w, int threads, bool norm, rungi_engine_options options)
{
    open(w, threads);
    rung_graph *g = w->graph;
    rung_value x = rung_input(g, "image", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 1, SIDE, SIDE));
    rung_value y = rung_input(g, "label", RUNG_I64, RUNG_SHAPE(RUNG_BATCH));
    x = rung_conv2d(g, x, "conv1", .out = 4, .kernel = 3, .pad = 1);
    if (norm)
        x = rung_batch_norm(g, x, "bn1", 0);
    rung_value scale = rung_param(g, "twice", RUNG_SHAPE(1), &(rung_param_options){0});
    x = rung_add(g, rung_relu(g, rung_add(g, x, scale)), scale);
    x = rung_dropout(g, rung_flatten(g, x, 1), 0.5);
    x = rung_linear(g, rung_relu(g, rung_linear(g, x, "fc1", .out = 16)), "fc2", .out = CLASSES);
    rung_graph_output(g, "logits", x);
    rung_graph_loss(g, rung_cross_entropy(g, x, y, 0));
    start(w, options);
}

static void drop(world *w)
{
    rungi_engine_destroy(&w->engine);
    rung_state_destroy(&w->state);
    rung_graph_destroy(&w->graph);
    rung_device_destroy(&w->device);
    rung_context_destroy(&w->context);
}

static double step(world *w, int64_t count, uint64_t number)
{
    const rungi_feed feeds[] = {{"image", images}, {"label", labels}};
    double loss;
    assert_ok(rungi_engine_train(
        w->engine,
        &(rungi_batch_view){
            .count = count, .feeds = feeds, .n_feeds = 2, .seed = 1, .step = number},
        &loss));
    return loss;
}

static void assert_near_gradients(const world *a, const world *b)
{
    double largest = 0; // zero where no label counts
    for (int64_t i = 0; i < a->state->flat_size; i++)
        largest = fmax(largest, fabs(a->state->grads[i]));
    for (int64_t i = 0; i < a->state->flat_size; i++)
        assert_near(a->state->grads[i], b->state->grads[i], 1e-6 * largest);
}

static void assert_near_outputs(world *a, world *b, int64_t count)
{
    rung_view va, vb;
    assert_ok(rungi_engine_output(a->engine, "logits", &va));
    assert_ok(rungi_engine_output(b->engine, "logits", &vb));
    assert_true(rung_shape_equal(&va.shape, &vb.shape));
    for (int64_t i = 0; i < count * CLASSES; i++)
        assert_near(((float *)va.data)[i], ((float *)vb.data)[i], 1e-5);
}

// Fast mode: loss, gradients and outputs are those of the whole batch, for batches that divide,
// that do not, and that leave rounds empty; dropout is drawn by the place in the whole batch.
static void rounds_equal_one_batch(void **state)
{
    (void)state;
    static const int64_t counts[] = {16, 13, 5, 3, 2, 1};
    for (int rounds = 2; rounds <= 5; rounds++) {
        world one, many;
        make(&one, 1, false, (rungi_engine_options){.fuse = rounds & 1});
        make(&many, 1, false, (rungi_engine_options){.fuse = rounds & 1, .accumulate = rounds});
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            double loss = step(&one, counts[c], c);
            assert_near(step(&many, counts[c], c), loss, 1e-6 * loss);
            assert_near_gradients(&one, &many);
            assert_near_outputs(&one, &many, counts[c]);
        }
        drop(&one);
        drop(&many);
    }
}

// Exact mode: rounds of few shards give the bits of one batch that is cut into as many, batch
// normalization's running statistics included, for any number of threads.
static void exact_rounds_are_shards(void **state)
{
    (void)state;
    static const int64_t counts[] = {16, 13, 5, 3};
    static const struct {
        int rounds, shards, threads, buffers; // of gradients
    } cuts[] = {{2, 4, 1, 2 + 1}, {2, 4, 3, 3 + 1}, {4, 2, 2, 2 + 2}, {8, 1, 1, 1 + 3}};
    double losses[4];
    world one;
    make(&one, 2, true, (rungi_engine_options){.exact = true, .shards = 8});
    for (int c = 0; c < 4; c++)
        losses[c] = step(&one, counts[c], (uint64_t)c);
    for (size_t k = 0; k < sizeof cuts / sizeof *cuts; k++) {
        world many;
        make(&many, cuts[k].threads, true,
             (rungi_engine_options){
                 .exact = true, .shards = cuts[k].shards, .accumulate = cuts[k].rounds});
        for (int c = 0; c < 4; c++) {
            double loss = step(&many, counts[c], (uint64_t)c);
            assert_memory_equal(&loss, &losses[c], sizeof loss);
        }
        assert_memory_equal(one.state->grads, many.state->grads,
                            (size_t)one.state->flat_size * sizeof(float));
        assert_memory_equal(one.state->buffers, many.state->buffers,
                            (size_t)one.state->buffer_bytes);
        assert_int_equal(rungi_engine_gradient_buffers(many.engine), cuts[k].buffers);
        drop(&many);
    }
    drop(&one);
}

// Fast mode with batch normalization: running statistics move once a step, by those of all rounds.
static void statistics_move_once_a_step(void **state)
{
    (void)state;
    world one, many;
    rung_state_entry a, b, tracked;
    make(&one, 1, true, (rungi_engine_options){0});
    make(&many, 1, true, (rungi_engine_options){.accumulate = 4});
    step(&one, 16, 0);
    step(&many, 16, 0);
    assert_true(rung_state_find(one.state, "bn1.running_mean", &a));
    assert_true(rung_state_find(many.state, "bn1.running_mean", &b));
    for (int c = 0; c < 4; c++)
        assert_near(((float *)a.data)[c], ((float *)b.data)[c], 1e-6);
    assert_true(rung_state_find(one.state, "bn1.running_var", &a));
    assert_true(rung_state_find(many.state, "bn1.running_var", &b));
    for (int c = 0; c < 4; c++)
        assert_near(((float *)a.data)[c], ((float *)b.data)[c], 1e-5);
    assert_true(rung_state_find(many.state, "bn1.num_batches_tracked", &tracked));
    assert_int_equal(*(int64_t *)tracked.data, 1);
    drop(&one);
    drop(&many);
}

// Recomputation changes no bit of accumulated gradients.
static void recomputed_rounds_are_the_same(void **state)
{
    (void)state;
    world plain, again;
    make(&plain, 1, true, (rungi_engine_options){.accumulate = 4, .fuse = true});
    make(&again, 1, true,
         (rungi_engine_options){.accumulate = 4, .fuse = true, .recompute = RUNG_RECOMPUTE_AUTO});
    for (uint64_t i = 0; i < 2; i++) {
        double a = step(&plain, 16 - 3 * (int64_t)i, i), b = step(&again, 16 - 3 * (int64_t)i, i);
        assert_memory_equal(&a, &b, sizeof a);
        assert_memory_equal(plain.state->grads, again.state->grads,
                            (size_t)plain.state->flat_size * sizeof(float));
    }
    drop(&plain);
    drop(&again);
}

// Memory for activations is that of a round: a quarter of the batch, and what one layer's gradient
// takes.
static void a_round_takes_the_memory(void **state)
{
    (void)state;
    world one, many;
    const rung_plan *large, *small;
    make(&one, 1, false, (rungi_engine_options){0});
    make(&many, 1, false, (rungi_engine_options){.accumulate = 4});
    assert_ok(rungi_engine_plan(one.engine, true, 4 * MOST, &large));
    assert_ok(rungi_engine_plan(many.engine, true, 4 * MOST, &small));
    const rung_plan *adding = rungi_engine_adding_plan(many.engine);
    assert_non_null(adding);
    uint64_t whole = rung_plan_memory_use(large).arena;
    assert_true(rung_plan_memory_use(small).arena < whole / 3);
    assert_true(rung_plan_memory_use(adding).arena <
                whole / 3 + rung_plan_memory_use(adding).grads);
    uint64_t first = rung_plan_memory_use(small).arena, more = rung_plan_memory_use(adding).arena;
    assert_ptr_equal(rungi_engine_training_plan(many.engine), more > first ? adding : small);
    drop(&one);
    drop(&many);
}

// ---- case C50 ---------------------------------------------------------------------------------

enum { LENGTH = 6 };

// Scores [N, 2, LENGTH] plus a bias; the loss of a token whose first score is s is log(1 + e^-s).
static void make_tokens(world *w, int rounds)
{
    open(w, 1);
    rung_graph *g = w->graph;
    rung_value x = rung_input(g, "scores", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 2, LENGTH));
    rung_value y = rung_input(g, "tokens", RUNG_I64, RUNG_SHAPE(RUNG_BATCH, LENGTH));
    rung_value bias = rung_param(g, "bias", RUNG_SHAPE(2, 1), &(rung_param_options){0});
    rung_graph_loss(g, rung_cross_entropy(g, rung_add(g, x, bias), y, 0));
    start(w, (rungi_engine_options){.accumulate = rounds});
    memset(w->state->params, 0, (size_t)w->state->flat_size * sizeof(float));
}

static double tokens_step(world *w, int64_t count, const float *scores, const int64_t *tokens)
{
    const rungi_feed feeds[] = {{"scores", scores}, {"tokens", tokens}};
    double loss;
    assert_ok(rungi_engine_train(
        w->engine, &(rungi_batch_view){.count = count, .feeds = feeds, .n_feeds = 2}, &loss));
    return loss;
}

// Micro-batches with token losses (1, 1) and (3 six times), and one without a token that counts.
static void tokens_weigh_the_same(void **state)
{
    (void)state;
    static const double losses[] = {1, 3, 7};
    float scores[3][2][LENGTH] = {0};
    int64_t tokens[3][LENGTH] = {0};
    world one, many;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < LENGTH; k++) {
            scores[i][0][k] = (float)-log(expm1(losses[i]));
            tokens[i][k] = i == 2 || (i == 0 && k >= 2) ? -100 : 0;
        }
    for (int count = 2; count <= 3; count++) {
        make_tokens(&one, 1);
        make_tokens(&many, count);
        double whole = tokens_step(&one, count, scores[0][0], tokens[0]);
        double sum = tokens_step(&many, count, scores[0][0], tokens[0]);
        assert_near(whole, 2.5, 1e-6);
        assert_near(sum, 2.5, 1e-6);
        for (int64_t i = 0; i < one.state->flat_size; i++)
            assert_near(many.state->grads[i], one.state->grads[i], 1e-6);
        assert_true(fabs(one.state->grads[0]) > 0.5);
        drop(&one);
        drop(&many);
    }
}

static void no_token_counts(void **state)
{
    (void)state;
    float scores[2][2][LENGTH] = {0};
    int64_t tokens[2][LENGTH];
    world w;
    for (int k = 0; k < 2 * LENGTH; k++)
        tokens[k / LENGTH][k % LENGTH] = -100;
    make_tokens(&w, 2);
    assert_true(tokens_step(&w, 2, scores[0][0], tokens[0]) == 0);
    for (int64_t i = 0; i < w.state->flat_size; i++)
        assert_true(w.state->grads[i] == 0);
    drop(&w);
}

// After a loss that is not finite each round can be run again by itself.
static void rounds_can_be_looked_into(void **state)
{
    (void)state;
    world w;
    const rung_plan *plan;
    rungi_instance *instance;
    float kept = images[6 * PIXELS];
    make(&w, 1, false, (rungi_engine_options){.accumulate = 4});
    images[6 * PIXELS] = NAN; // of the second round, in which no label counts: its outputs tell
    step(&w, 16, 0);
    for (int s = 0; s < 4; s++) {
        assert_true(rungi_engine_shard(w.engine, s, &plan, &instance));
        assert_ok(rungi_instance_run(instance, 0, plan->n_forward));
        const float *logits = instance->ptr[plan->value_tensor[w.graph->outputs.data[0].value]];
        bool finite = true;
        for (int i = 0; i < 4 * CLASSES; i++)
            finite &= isfinite(logits[i]);
        assert_int_equal(finite, s != 1);
    }
    assert_false(rungi_engine_shard(w.engine, 4, &plan, &instance));
    images[6 * PIXELS] = kept;
    drop(&w);
}

static void wrong_rounds_are_refused(void **state)
{
    (void)state;
    world w;
    rungi_engine *engine;
    make_tokens(&w, 1);
    assert_fails(
        RUNG_CONFIG, "train.accumulate is 3; with exact it must be a power of two",
        rungi_engine_create(w.graph, w.state,
                            &(rungi_engine_options){.exact = true, .shards = 2, .accumulate = 3},
                            &engine));
    assert_fails(
        RUNG_CONFIG, "would be cut into 2048 parts (train.accumulate is 1024)",
        rungi_engine_create(w.graph, w.state,
                            &(rungi_engine_options){.exact = true, .shards = 2, .accumulate = 1024},
                            &engine));
    drop(&w);
}

int main(void)
{
    make_data();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_equal_one_batch),
        cmocka_unit_test(exact_rounds_are_shards),
        cmocka_unit_test(statistics_move_once_a_step),
        cmocka_unit_test(recomputed_rounds_are_the_same),
        cmocka_unit_test(a_round_takes_the_memory),
        cmocka_unit_test(tokens_weigh_the_same),
        cmocka_unit_test(no_token_counts),
        cmocka_unit_test(rounds_can_be_looked_into),
        cmocka_unit_test(wrong_rounds_are_refused),
    };
    return RUN_TESTS(tests);
}
