// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
// Stages of a pipeline, as threads: the numbers of one device, and no more memory than is said.
#include "testing.h"

#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/philox.h"
#include "graph/part.h"
#include "rung/nn.h"
#include "rung/ops.h"
#include "train/crew.h"
#include "train/engine.h"
#include "train/pipeline_stages.h"

#ifdef RUNG_OPENMP
static const rung_kernels kernels = RUNG_KERNELS_OWN;
enum { SIDE = 6, WIDTH = 8 };
#else // the build for ThreadSanitizer, which is slow
static const rung_kernels kernels = RUNG_KERNELS_REFERENCE;
enum { SIDE = 4, WIDTH = 4 };
#endif

enum { MOST = 16, CHANNELS = 3, PIXELS = CHANNELS * SIDE * SIDE, CLASSES = 4, RANKS = 4 };
enum { STEPS = 3 };

static const int64_t counts[STEPS] = {16, 13, 3}; // samples of the steps' batches

// What one rank has, or what the only one has.
typedef struct world {
    rung_device *device;
    rung_graph *whole;
    rungi_part part;
    rung_state *state;
    rungi_engine *engine;
} world;

typedef struct job {
    rungi_pipeline_schedule schedule;
    int micro, rounds; // rounds 0: 1
    rung_dtype precision;
    bool norm, dropout;
    bool spoil; // the input of the third sample is not a number
    world *worlds;
    double losses[RANKS][STEPS];
    int bad[RANKS], stopped[RANKS];
} job;

static float images[MOST * PIXELS];
static int64_t labels[MOST];

static void make_data(void)
{
    rungi_random random = rungi_random_make(1, RUNGI_PURPOSE_TEST, 0, 0, 0);
    for (int i = 0; i < MOST * PIXELS; i++)
        images[i] = (float)rungi_random_normal(&random, (uint64_t)i);
    for (int i = 0; i < MOST; i++)
        labels[i] = i % 5 ? i % CLASSES : -100; // some do not count
}

// A residual block that any cut may go through.
static void build_graph(rung_graph *g, const job *j)
{
    rung_value x = rung_input(g, "image", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, CHANNELS, SIDE, SIDE));
    rung_value y = rung_input(g, "label", RUNG_I64, RUNG_SHAPE(RUNG_BATCH));
    rung_value a = rung_relu(g, rung_conv2d(g, x, "conv1", .out = WIDTH, .kernel = 3, .pad = 1));
    rung_value b = rung_conv2d(g, a, "conv2", .out = WIDTH, .kernel = 3, .pad = 1);
    if (j->norm)
        b = rung_batch_norm(g, b, "bn2", 0);
    if (j->dropout)
        b = rung_dropout(g, b, 0.3);
    b = rung_conv2d(g, rung_relu(g, b), "conv3", .out = WIDTH, .kernel = 3, .pad = 1);
    b = rung_flatten(g, rung_relu(g, rung_add(g, a, b)), 1);
    if (j->dropout)
        b = rung_dropout(g, b, 0.5);
    b = rung_linear(g, rung_relu(g, rung_linear(g, b, "fc1", .out = 16)), "fc2", .out = CLASSES);
    rung_graph_output(g, "logits", b);
    rung_graph_loss(g, rung_cross_entropy(g, b, y, 0));
}

static rung_status make_part(const job *j, int rank, int ranks, world *w)
{
    rungi_stage_info stages[RANKS];
    const rungi_stages_options o = {.stages = ranks,
                                    .micro = j->micro,
                                    .rounds = j->rounds,
                                    .schedule = j->schedule,
                                    .plan = {.batch = 4,
                                             .training = true,
                                             .gradients = true,
                                             .threads = 1,
                                             .kernels = kernels,
                                             .precision = j->precision}};
    RUNG_TRY(rungi_stages_choose(w->whole, w->device, &o, stages));
    return rungi_part_create(w->whole, stages[rank].begin, stages[rank].end, true, &w->part);
}

static rung_status build(rung_context *context, const job *j, rungi_comm *comm, world *w)
{
    char name[16];
    int rank = comm ? rungi_comm_rank(comm) : 0;
    rungi_engine_options options = {
        .kernels = kernels, .accumulate = j->rounds, .precision = j->precision};
    snprintf(name, sizeof name, "cpu:%d", rank);
    RUNG_TRY(rung_device_create(context, name, &(rung_device_options){.threads = 1}, &w->device));
    RUNG_TRY(rung_graph_create(context, &w->whole));
    build_graph(w->whole, j);
    if (comm) {
        RUNG_TRY(make_part(j, rank, rungi_comm_size(comm), w));
        options.pipeline = (rungi_pipeline_options){
            .comm = comm, .part = &w->part, .micro = j->micro, .schedule = j->schedule};
    }
    const rung_graph *g = comm ? w->part.graph : w->whole;
    RUNG_TRY(rung_state_create(g, w->device, &w->state));
    RUNG_TRY(rung_state_init(w->state, 5));
    return rungi_engine_create(g, w->state, &options, &w->engine);
}

static void drop(world *w)
{
    rungi_engine_destroy(&w->engine);
    rung_state_destroy(&w->state);
    rungi_part_fini(&w->part);
    rung_graph_destroy(&w->whole);
    rung_device_destroy(&w->device);
}

// Plain descent; the first stage alone has the pictures.
static rung_status train(job *j, int rank, world *w)
{
    static float spoiled[MOST * PIXELS];
    const float *image = images;
    if (j->spoil && rank == 0) {
        memcpy(spoiled, images, sizeof images);
        spoiled[2 * PIXELS] = NAN;
        image = spoiled;
    }
    for (int k = 0; k < STEPS; k++) {
        const rungi_feed feeds[] = {{"label", labels}, {"image", image}};
        const rungi_batch_view view = {.count = counts[k],
                                       .global_count = counts[k],
                                       .stop = rank == 1 && k == STEPS - 1,
                                       .feeds = feeds,
                                       .n_feeds = rank ? 1 : 2,
                                       .seed = 1,
                                       .step = (uint64_t)k};
        RUNG_TRY(rungi_engine_train(w->engine, &view, &j->losses[rank][k]));
        if (!isfinite(j->losses[rank][k]))
            break;
        for (int64_t i = 0; i < w->state->flat_size; i++)
            w->state->params[i] -= 0.1f * w->state->grads[i];
    }
    j->bad[rank] = rungi_engine_bad_rank(w->engine);
    j->stopped[rank] = rungi_engine_stop(w->engine);
    return RUNG_OK;
}

static rung_status run_member(void *arg, rungi_member *m)
{
    job *j = arg;
    world *w = &j->worlds[m->index];
    RUNG_TRY(build(m->context, j, m->comm, w));
    return train(j, m->index, w);
}

static rungi_crew *run_stages(rung_context *context, job *j, int ranks, world *worlds)
{
    rungi_crew *crew;
    j->worlds = worlds;
    assert_ok(rungi_crew_create(context, ranks, &(rungi_comm_options){.context = context}, &crew));
    assert_ok(rungi_crew_run(crew, run_member, j));
    return crew;
}

static void drop_stages(rungi_crew *crew, world *worlds, int ranks)
{
    for (int r = 0; r < ranks; r++)
        drop(&worlds[r]);
    rungi_crew_destroy(&crew);
}

static void run_alone(rung_context *context, job *j, world *w)
{
    assert_ok(build(context, j, NULL, w));
    assert_ok(train(j, 0, w));
}

// The largest difference of a parameter or buffer from the one of one device, of its largest value.
static double difference(const world *alone, const world *worlds, int ranks)
{
    double worst = 0;
    int found = 0;
    for (int r = 0; r < ranks; r++)
        for (int i = 0; i < rung_state_count(worlds[r].state); i++, found++) {
            rung_state_entry a, b = rung_state_at(worlds[r].state, i);
            int64_t n;
            double top = 0, most = 0;
            assert_true(rung_state_find(alone->state, b.name, &a));
            assert_ok(rung_shape_count(&a.shape, &n));
            for (int64_t k = 0; a.dtype == RUNG_F32 && k < n; k++) {
                double x = ((float *)a.data)[k], y = ((float *)b.data)[k];
                top = fmax(top, fabs(x));
                most = fmax(most, fabs(x - y));
            }
            worst = top > 0 ? fmax(worst, most / top) : worst;
        }
    assert_int_equal(found, rung_state_count(alone->state));
    return worst;
}

static bool same_bits(const world *alone, const world *worlds, int ranks)
{
    for (int r = 0; r < ranks; r++)
        for (int i = 0; i < rung_state_count(worlds[r].state); i++) {
            rung_state_entry a, b = rung_state_at(worlds[r].state, i);
            int64_t n;
            assert_true(rung_state_find(alone->state, b.name, &a));
            assert_ok(rung_shape_count(&a.shape, &n));
            if (memcmp(a.data, b.data, (size_t)n * rung_dtype_size(a.dtype)) != 0)
                return false;
        }
    return true;
}

static void compare_bits(job one)
{
    rung_context *context;
    assert_ok(rung_context_create(NULL, &context));
    world alone = {0};
    run_alone(context, &one, &alone);
    for (int ranks = 2; ranks <= RANKS; ranks++) {
        world worlds[RANKS] = {0};
        job many = one;
        rungi_crew *crew = run_stages(context, &many, ranks, worlds);
        assert_true(same_bits(&alone, worlds, ranks));
        for (int r = 0; r < ranks; r++) {
            assert_memory_equal(many.losses[r], one.losses[0], sizeof one.losses[0]);
            assert_int_equal(many.bad[r], -1);
            assert_true(many.stopped[r]); // rank 1 wanted to
        }
        drop_stages(crew, worlds, ranks);
    }
    drop(&alone);
    rung_context_destroy(&context);
}

// As a whole, batches give the same bits on any number of stages: weights, running statistics,
// losses; also accumulated ones, and in 16 bits, which cross the cuts as they are.
static void one_micro_batch_gives_the_same_bits(void **state)
{
    (void)state;
    static const rung_dtype precisions[] = {RUNG_F32, RUNG_BF16, RUNG_F16};
    for (int p = 0; p < 3; p++)
        for (int rounds = 1; rounds <= 4; rounds += 3)
            compare_bits((job){.micro = 1,
                               .rounds = rounds,
                               .precision = precisions[p],
                               .norm = true,
                               .dropout = true});
}

// Micro-batches: the gradients of the whole batch but for rounding, with labels that do not count,
// dropout, batches that do not divide, and accumulation; and the same bits in both schedules.
static void micro_batches_add_up(void **state)
{
    (void)state;
    rung_context *context;
    assert_ok(rung_context_create(NULL, &context));
    job one = {.micro = 1, .dropout = true};
    world alone = {0};
    run_alone(context, &one, &alone);
    for (int ranks = 2; ranks <= 3; ranks++)
        for (int micro = 2; micro <= 5; micro += 3) {
            world worlds[2][RANKS] = {0};
            rungi_crew *crews[2];
            for (int k = 0; k < 2; k++) {
                job many = one;
                many.micro = micro;
                many.rounds = ranks == 3 ? 2 : 1;
                many.schedule = k ? RUNGI_PIPELINE_1F1B : RUNGI_PIPELINE_GPIPE;
                crews[k] = run_stages(context, &many, ranks, worlds[k]);
                assert_true(difference(&alone, worlds[k], ranks) < 2e-6);
                for (int i = 0; i < STEPS; i++)
                    assert_near(many.losses[ranks - 1][i], one.losses[0][i], 1e-6);
            }
            for (int r = 0; r < ranks; r++)
                assert_memory_equal(worlds[0][r].state->params, worlds[1][r].state->params,
                                    (size_t)worlds[0][r].state->flat_size * sizeof(float));
            for (int k = 0; k < 2; k++)
                drop_stages(crews[k], worlds[k], ranks);
        }
    drop(&alone);
    rung_context_destroy(&context);
}

// Batch normalization sees micro-batches: both schedules, any number of stages, and accumulated
// batches of fewer, agree.
static void running_statistics_follow_micro_batches(void **state)
{
    (void)state;
    rung_context *context;
    assert_ok(rung_context_create(NULL, &context));
    world first[RANKS] = {0}, second[RANKS] = {0};
    job a = {.micro = 2, .rounds = 2, .norm = true, .schedule = RUNGI_PIPELINE_GPIPE};
    job b = {.micro = 4, .norm = true, .schedule = RUNGI_PIPELINE_1F1B};
    rungi_crew *one = run_stages(context, &a, 2, first);
    rungi_crew *two = run_stages(context, &b, 3, second);
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < rung_state_count(first[r].state); i++) {
            rung_state_entry x = rung_state_at(first[r].state, i), y;
            int64_t n;
            int at = 0;
            while (!rung_state_find(second[at].state, x.name, &y))
                at++;
            assert_ok(rung_shape_count(&x.shape, &n));
            assert_memory_equal(x.data, y.data, (size_t)n * rung_dtype_size(x.dtype));
        }
    drop_stages(one, first, 2);
    drop_stages(two, second, 3);
    rung_context_destroy(&context);
}

// Micro-batches whose activations the account of a stage's device has room for.
static uint64_t held_by(rung_context *context, rungi_pipeline_schedule schedule, int micro,
                        int rounds, int ranks, int rank)
{
    world worlds[RANKS] = {0};
    job j = {.micro = micro, .rounds = rounds, .schedule = schedule};
    rungi_crew *crew = run_stages(context, &j, ranks, worlds);
    const world *w = &worlds[rank];
    int64_t largest = counts[0] / micro / rounds;
    // What is held besides: parameters, gradients twice, two gradients at the cut behind.
    uint64_t others = 3 * (uint64_t)w->state->flat_size * sizeof(float), each;
    for (int i = 0; i < w->part.n_out; i++)
        others += 2 * rungi_crossing_bytes(w->part.graph, &w->part.out[i], largest, RUNG_F32);
    each = rung_plan_memory_use(rungi_engine_training_plan(w->engine)).arena;
    for (int i = 0; i < w->part.n_in; i++)
        each += rungi_crossing_bytes(w->part.graph, &w->part.in[i], largest, RUNG_F32);
    uint64_t held = (rung_device_memory(w->device).live - others) / each;
    drop_stages(crew, worlds, ranks);
    return held;
}

// 1F1B holds as many micro-batches as there are stages from a stage on, GPipe all of them, and both
// no more of accumulated batches than of one: in the devices' accounts.
static void memory_follows_the_schedule(void **state)
{
    (void)state;
    rung_context *context;
    assert_ok(rung_context_create(NULL, &context));
    assert_int_equal(held_by(context, RUNGI_PIPELINE_GPIPE, 8, 1, 3, 1), 8);
    assert_int_equal(held_by(context, RUNGI_PIPELINE_1F1B, 8, 1, 3, 1), 2);
    assert_int_equal(held_by(context, RUNGI_PIPELINE_1F1B, 8, 1, 3, 0), 3);
    assert_int_equal(held_by(context, RUNGI_PIPELINE_GPIPE, 4, 4, 3, 1), 4);
    assert_int_equal(held_by(context, RUNGI_PIPELINE_1F1B, 2, 4, 3, 0), 2);
    rung_context_destroy(&context);
}

// The stage at which a loss begins to be not a number is named by all.
static void the_stage_at_fault_is_named(void **state)
{
    (void)state;
    rung_context *context;
    assert_ok(rung_context_create(NULL, &context));
    for (int spoiled = 0; spoiled < 2; spoiled++) {
        world worlds[RANKS] = {0};
        job j = {.micro = 4, .schedule = RUNGI_PIPELINE_1F1B, .spoil = spoiled};
        rungi_crew *crew = run_stages(context, &j, 3, worlds);
        for (int r = 0; r < 3; r++)
            assert_int_equal(j.bad[r], spoiled ? 0 : -1);
        drop_stages(crew, worlds, 3);
    }
    rung_context_destroy(&context);
}

static rung_status eval_member(void *arg, rungi_member *m)
{
    job *j = arg;
    world *w = &j->worlds[m->index];
    const rungi_feed feeds[] = {{"label", labels}, {"image", images}};
    const rungi_batch_view view = {.count = 13, .feeds = feeds, .n_feeds = m->index ? 1 : 2};
    RUNG_TRY(build(m->context, j, m->comm, w));
    return rungi_engine_eval(w->engine, &view, &j->losses[m->index][0]);
}

// Evaluation goes through the stages in micro-batches; the stage that makes the logits has all.
static void evaluation_equals_one_device(void **state)
{
    (void)state;
    rung_context *context;
    assert_ok(rung_context_create(NULL, &context));
    world alone = {0}, worlds[RANKS] = {0};
    job one = {.micro = 1, .norm = true}, many = {.micro = 5, .norm = true, .worlds = worlds};
    const rungi_feed feeds[] = {{"label", labels}, {"image", images}};
    const rungi_batch_view view = {.count = 13, .feeds = feeds, .n_feeds = 2};
    double loss;
    rung_view a, b;
    rungi_crew *crew;
    many.schedule = RUNGI_PIPELINE_GPIPE;
    assert_ok(build(context, &one, NULL, &alone));
    assert_ok(rungi_engine_eval(alone.engine, &view, &loss));
    assert_ok(rungi_engine_output(alone.engine, "logits", &a));
    assert_ok(rungi_crew_create(context, 3, &(rungi_comm_options){.context = context}, &crew));
    assert_ok(rungi_crew_run(crew, eval_member, &many));
    assert_ok(rungi_engine_output(worlds[2].engine, "logits", &b));
    assert_int_equal(b.shape.dim[0], 13);
    for (int i = 0; i < 13 * CLASSES; i++)
        assert_near(((float *)a.data)[i], ((float *)b.data)[i], 1e-5);
    for (int r = 0; r < 3; r++)
        assert_near(many.losses[r][0], loss, 1e-6);
    assert_fails(RUNG_NOT_FOUND, "no output 'logits'",
                 rungi_engine_output(worlds[0].engine, "logits", &b));
    drop_stages(crew, worlds, 3);
    drop(&alone);
    rung_context_destroy(&context);
}

int main(void)
{
    make_data();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_micro_batch_gives_the_same_bits),
        cmocka_unit_test(micro_batches_add_up),
        cmocka_unit_test(running_statistics_follow_micro_batches),
        cmocka_unit_test(memory_follows_the_schedule),
        cmocka_unit_test(the_stage_at_fault_is_named),
        cmocka_unit_test(evaluation_equals_one_device),
    };
    return RUN_TESTS(tests);
}
