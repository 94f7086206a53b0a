// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
// Engines of several ranks against one engine that has all of each batch: cases C25, C26, C28, C29,
// C33, C50.
#include "testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/philox.h"
#include "base/shard.h"
#include "rung/nn.h"
#include "rung/ops.h"
#include "train/crew.h"
#include "train/engine.h"

#ifdef RUNG_OPENMP
static const rung_kernels kernels = RUNG_KERNELS_OWN;
#else
static const rung_kernels kernels = RUNG_KERNELS_REFERENCE; // the build for ThreadSanitizer
#endif

enum { MOST = 16, CHANNELS = 3, SIDE = 6, PIXELS = CHANNELS * SIDE * SIDE, CLASSES = 4, RANKS = 8 };

// What one rank has, or what the only one has.
typedef struct world {
    rung_device *device;
    rung_graph *graph;
    rung_state *state;
    rungi_engine *engine;
} world;

// A batch of all ranks, and how it is run.
typedef struct job {
    rungi_engine_options options;
    bool norm, dropout, unused;
    bool deep; // normalization with a residual, and of the linear layers
    int steps;
    int64_t counts[4]; // of the steps' batches
    const float *image;
    const int64_t *label;
    int stop_rank; // that wants to stop; -1: none
    int late_rank; // whose batches come a second late; 0: none
    // results, by rank
    world *worlds;
    double losses[RANKS][4];
    int bad[RANKS];
    bool stop[RANKS];
    int64_t exchanges[RANKS];
    uint64_t moved[RANKS]; // bytes between ranks, of the last call
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

static rung_status build(rung_context *context, const job *j, int rank, rungi_comm *comm, world *w)
{
    char name[16];
    rungi_engine_options options = j->options;
    snprintf(name, sizeof name, "cpu:%d", rank);
    RUNG_TRY(rung_device_create(context, name, &(rung_device_options){.threads = 1}, &w->device));
    RUNG_TRY(rung_graph_create(context, &w->graph));
    rung_graph *g = w->graph;
    rung_value x = rung_input(g, "image", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, CHANNELS, SIDE, SIDE));
    rung_value y = rung_input(g, "label", RUNG_I64, RUNG_SHAPE(RUNG_BATCH));
    x = rung_conv2d(g, x, "conv1", .out = 8, .kernel = 3, .pad = 1);
    if (j->norm)
        x = rung_batch_norm(g, x, "bn1", 0);
    if (j->deep) {
        rung_value z = rung_conv2d(g, rung_relu(g, x), "conv2", .out = 8, .kernel = 3, .pad = 1);
        x = rung_add(g, rung_batch_norm(g, z, "bn2", 0), x);
    }
    x = rung_flatten(g, rung_relu(g, x), 1);
    if (j->dropout)
        x = rung_dropout(g, x, 0.5);
    x = rung_linear(g, x, "fc1", .out = 16);
    if (j->deep)
        x = rung_batch_norm(g, x, "bn3", 0);
    x = rung_linear(g, rung_relu(g, x), "fc2", .out = CLASSES);
    if (j->unused)
        rung_graph_output(g, "other", rung_linear(g, x, "aux", .out = 2));
    rung_graph_output(g, "logits", x);
    rung_graph_loss(g, rung_cross_entropy(g, x, y, 0));
    RUNG_TRY(rung_state_create(g, w->device, &w->state));
    RUNG_TRY(rung_state_init(w->state, 5));
    options.kernels = kernels;
    options.exchange.comm = comm;
    if (!options.exchange.bucket_bytes)
        options.exchange.bucket_bytes = 64;
    return rungi_engine_create(g, w->state, &options, &w->engine);
}

static void drop(world *w)
{
    rungi_engine_destroy(&w->engine);
    rung_state_destroy(&w->state);
    rung_graph_destroy(&w->graph);
    rung_device_destroy(&w->device);
}

// Trains the steps of a job with plain descent.
static rung_status train(job *j, int rank, int ranks, world *w)
{
    int rounds = j->options.accumulate ? j->options.accumulate : 1;
    int shards = (j->options.exact ? j->options.shards : ranks) * rounds, own = shards / ranks;
    for (int k = 0; k < j->steps; k++) {
        rungi_shard part = rungi_shards_of(j->counts[k], shards, rank * own, own);
        const rungi_feed feeds[] = {{"image", j->image + part.begin * PIXELS},
                                    {"label", j->label + part.begin}};
        const rungi_batch_view view = {.count = part.count,
                                       .global_count = j->counts[k],
                                       .begin = part.begin,
                                       .stop = rank == j->stop_rank,
                                       .waited = rank && rank == j->late_rank ? 1000000000 : 0,
                                       .feeds = feeds,
                                       .n_feeds = 2,
                                       .seed = 1,
                                       .step = (uint64_t)k};
        RUNG_TRY(rungi_engine_train(w->engine, &view, &j->losses[rank][k]));
        for (int64_t i = 0; i < w->state->flat_size; i++)
            w->state->params[i] -= 0.1f * w->state->grads[i];
    }
    j->bad[rank] = rungi_engine_bad_rank(w->engine);
    j->stop[rank] = rungi_engine_stop(w->engine);
    if (rungi_engine_exchange(w->engine))
        j->exchanges[rank] = rungi_exchange_count(rungi_engine_exchange(w->engine));
    return RUNG_OK;
}

static rung_status run_member(void *arg, rungi_member *m)
{
    job *j = arg;
    int ranks = rungi_comm_size(m->comm);
    world *w = &j->worlds[m->index];
    RUNG_TRY(build(m->context, j, m->index, m->comm, w));
    return train(j, m->index, ranks, w);
}

static rung_status train_member(void *arg, rungi_member *m)
{
    job *j = arg;
    uint64_t before = rungi_comm_moved(m->comm);
    RUNG_TRY(train(j, m->index, rungi_comm_size(m->comm), &j->worlds[m->index]));
    j->moved[m->index] = rungi_comm_moved(m->comm) - before;
    return RUNG_OK;
}

// One world for each rank; dropped by the caller before the crew.
static rungi_crew *run_ranks(rung_context *context, job *j, int ranks, world *worlds)
{
    rungi_crew *crew;
    j->worlds = worlds;
    assert_ok(rungi_crew_create(context, ranks, &(rungi_comm_options){.context = context}, &crew));
    assert_ok(rungi_crew_run(crew, run_member, j));
    return crew;
}

static void drop_ranks(rungi_crew *crew, world *worlds, int ranks)
{
    for (int r = 0; r < ranks; r++)
        drop(&worlds[r]);
    rungi_crew_destroy(&crew);
}

static void run_alone(rung_context *context, job *j, world *w)
{
    assert_ok(build(context, j, 0, NULL, w));
    assert_ok(train(j, 0, 1, w));
}

static void assert_same_state(const world *a, const world *b)
{
    assert_memory_equal(a->state->params, b->state->params,
                        (size_t)a->state->flat_size * sizeof(float));
    assert_memory_equal(a->state->buffers, b->state->buffers, (size_t)a->state->buffer_bytes);
}

// Under exact 1, 2 and 4 ranks give the same weights, running statistics and losses, bit for bit:
// with batches that divide, that do not, and that leave ranks without a sample.
static void ranks_do_not_show_under_exact(void **state)
{
    (void)state;
    rung_context *context;
    assert_ok(rung_context_create(NULL, &context));
    for (int variant = 0; variant < 4; variant++) {
        job one = {.options = {.exact = true, .shards = 4, .fuse = variant & 1},
                   .norm = true,
                   .dropout = true,
                   .steps = 4,
                   .counts = {16, 13, 5, 3},
                   .image = images,
                   .label = labels,
                   .stop_rank = -1};
        one.options.exchange.overlap = variant & 2;
        world alone = {0};
        run_alone(context, &one, &alone);
        for (int ranks = 2; ranks <= 4; ranks *= 2) {
            world worlds[4] = {0};
            job many = one;
            rungi_crew *crew = run_ranks(context, &many, ranks, worlds);
            for (int r = 0; r < ranks; r++) {
                assert_same_state(&worlds[r], &alone);
                assert_memory_equal(many.losses[r], one.losses[0], sizeof one.losses[0]);
                assert_int_equal(many.bad[r], -1);
            }
            drop_ranks(crew, worlds, ranks);
        }
        drop(&alone);
    }
    rung_context_destroy(&context);
}

// In fast mode ranks equal one device to rounding, whatever divides (C25), with the mean over the
// labels that count, not a mean of means (C26); overlap changes no bit; dropout is drawn by the
// place in the whole batch.
static void ranks_equal_one_device(void **state)
{
    (void)state;
    rung_context *context;
    assert_ok(rung_context_create(NULL, &context));
    job one = {.dropout = true,
               .steps = 4,
               .counts = {16, 9, 5, 2},
               .image = images,
               .label = labels,
               .stop_rank = -1};
    world alone = {0};
    run_alone(context, &one, &alone);
    for (int ranks = 2; ranks <= 4; ranks++) {
        world plain[4] = {0}, overlapped[4] = {0};
        job many = one;
        rungi_crew *crew = run_ranks(context, &many, ranks, plain);
        for (int k = 0; k < 4; k++)
            assert_near(many.losses[0][k], one.losses[0][k], 1e-5);
        for (int64_t i = 0; i < alone.state->flat_size; i++)
            assert_near(plain[0].state->params[i], alone.state->params[i], 2e-6);
        many = one;
        many.options.exchange.overlap = true;
        rungi_crew *second = run_ranks(context, &many, ranks, overlapped);
        for (int r = 0; r < ranks; r++) {
            assert_same_state(&plain[r], &plain[0]);
            assert_same_state(&overlapped[r], &plain[0]);
            assert_int_equal(many.exchanges[r],
                             4 * rungi_exchange_buckets(rungi_engine_exchange(plain[0].engine)));
        }
        assert_true(rungi_exchange_buckets(rungi_engine_exchange(plain[0].engine)) > 2);
        drop_ranks(second, overlapped, ranks);
        drop_ranks(crew, plain, ranks);
    }
    drop(&alone);
    rung_context_destroy(&context);
}

// Where each rank owns a part of the gradients, that has the bits of an all-reduce, for half of the
// bytes: (R - 1) times the gradients over all ranks, in place of twice as much.
static void owners_get_the_sums(void **state)
{
    (void)state;
    rung_context *context;
    assert_ok(rung_context_create(NULL, &context));
    for (int variant = 0; variant < 6; variant++) {
        int ranks = 2 + variant / 2;
        world whole[4] = {0}, owned[4] = {0};
        job j = {.steps = 1, .counts = {13}, .image = images, .label = labels, .stop_rank = -1};
        j.options.exchange.overlap = variant % 2;
        j.options.exchange.bucket_bytes = 1024;
        job other = j;
        other.options.exchange.owned = true;
        rungi_crew *one = run_ranks(context, &j, ranks, whole);
        rungi_crew *two = run_ranks(context, &other, ranks, owned);
        int64_t size = whole[0].state->flat_size, bytes = 0;
        assert_true(rungi_exchange_buckets(rungi_engine_exchange(owned[0].engine)) > ranks);
        for (int r = 0; r < ranks; r++) {
            rungi_comm_part part = rungi_comm_part_of(size, ranks, r);
            assert_true(part.count > 0);
            assert_memory_equal(owned[r].state->grads + part.begin,
                                whole[r].state->grads + part.begin,
                                (size_t)part.count * sizeof(float));
        }
        for (int r = 0; r < ranks; r++) // the same weights again
        {
            assert_ok(rung_state_init(owned[r].state, 5));
            assert_ok(rung_state_init(whole[r].state, 5));
        }
        assert_ok(rungi_crew_run(one, train_member, &j));
        assert_ok(rungi_crew_run(two, train_member, &other));
        for (int r = 0; r < ranks; r++)
            bytes += (int64_t)j.moved[r] - (int64_t)other.moved[r];
        assert_int_equal(bytes, (ranks - 1) * size * (int64_t)sizeof(float));
        drop_ranks(one, whole, ranks);
        drop_ranks(two, owned, ranks);
    }
    rung_context_destroy(&context);
}

// Accumulation: under exact 1, 2 and 4 ranks in 1, 2 and 4 rounds give the same bits, batch
// normalization included.
static void exact_rounds_of_ranks(void **state)
{
    (void)state;
    rung_context *context;
    assert_ok(rung_context_create(NULL, &context));
    job one = {.options = {.exact = true, .shards = 8},
               .norm = true,
               .dropout = true,
               .steps = 4,
               .counts = {16, 13, 5, 3},
               .image = images,
               .label = labels,
               .stop_rank = -1};
    world alone = {0};
    run_alone(context, &one, &alone);
    for (int ranks = 2; ranks <= 4; ranks *= 2)
        for (int rounds = 2; rounds <= 8 / ranks; rounds *= 2) {
            world worlds[4] = {0};
            job many = one;
            many.options.shards = 8 / rounds;
            many.options.accumulate = rounds;
            many.options.exchange.overlap = true;
            rungi_crew *crew = run_ranks(context, &many, ranks, worlds);
            for (int r = 0; r < ranks; r++) {
                assert_same_state(&worlds[r], &alone);
                assert_memory_equal(many.losses[r], one.losses[0], sizeof one.losses[0]);
            }
            drop_ranks(crew, worlds, ranks);
        }
    drop(&alone);
    rung_context_destroy(&context);
}

// Case C33: ranks x rounds equal one process with all of the batch, C50: whatever labels are
// ignored; gradients are exchanged once a step, with overlap or without, whose bits are the same.
static void rounds_exchange_once(void **state)
{
    (void)state;
    rung_context *context;
    assert_ok(rung_context_create(NULL, &context));
    job one = {.dropout = true,
               .steps = 4,
               .counts = {16, 16, 16, 5},
               .image = images,
               .label = labels,
               .stop_rank = -1};
    world alone = {0};
    run_alone(context, &one, &alone);
    for (int ranks = 1; ranks <= 3; ranks++) {
        world plain[4] = {0}, overlapped[4] = {0};
        job many = one;
        many.options.accumulate = 4;
        rungi_crew *crew = run_ranks(context, &many, ranks, plain);
        for (int k = 0; k < 4; k++)
            assert_near(many.losses[0][k], one.losses[0][k], 1e-6 * one.losses[0][k]);
        for (int64_t i = 0; i < alone.state->flat_size; i++)
            assert_near(plain[0].state->params[i], alone.state->params[i], 1e-6);
        many.options.exchange.overlap = true;
        rungi_crew *second = run_ranks(context, &many, ranks, overlapped);
        int buckets = rungi_exchange_buckets(rungi_engine_exchange(plain[0].engine));
        assert_true(buckets > 2);
        for (int r = 0; r < ranks; r++) {
            assert_same_state(&plain[r], &plain[0]);
            assert_same_state(&overlapped[r], &plain[0]);
            assert_int_equal(many.exchanges[r], 4 * buckets);
        }
        drop_ranks(second, overlapped, ranks);
        drop_ranks(crew, plain, ranks);
    }
    drop(&alone);
    rung_context_destroy(&context);
}

static void keep_log(void *user, rung_log_level level, const char *line)
{
    char *text = user;
    (void)level;
    snprintf(text + strlen(text), 400 - strlen(text), "%s\n", line);
}

// Case C29: a layer that takes no part in the loss. One rank tells, several refuse, all with the
// names; allowed, its gradients are zero and the result is that of one rank.
static void unused_parameters_are_named(void **state)
{
    (void)state;
    char text[400] = "";
    rung_context *context;
    world alone = {0}, worlds[2] = {0};
    rungi_crew *crew;
    rung_state_entry aux;
    assert_ok(rung_context_create(
        &(rung_context_options){.log = keep_log, .log_user = text, .log_level = RUNG_LOG_NOTICE},
        &context));
    job one = {.unused = true,
               .steps = 2,
               .counts = {16, 13},
               .image = images,
               .label = labels,
               .worlds = worlds,
               .stop_rank = -1};
    run_alone(context, &one, &alone);
    assert_non_null(strstr(text, "aux.weight, aux.bias take no part in the loss"));
    assert_ok(rungi_crew_create(context, 2, &(rungi_comm_options){.context = context}, &crew));
    assert_fails(RUNG_CONFIG, "aux.weight, aux.bias take no part in the loss: with several ranks",
                 rungi_crew_run(crew, run_member, &one));
    drop_ranks(crew, worlds, 2);
    memset(worlds, 0, sizeof worlds);
    job many = one;
    many.options.allow_unused = true;
    text[0] = '\0';
    crew = run_ranks(context, &many, 2, worlds);
    assert_string_equal(text, "");
    for (int r = 0; r < 2; r++) {
        for (int64_t i = 0; i < alone.state->flat_size; i++)
            assert_near(worlds[r].state->params[i], alone.state->params[i], 2e-6);
        assert_true(rung_state_find(worlds[r].state, "aux.weight", &aux));
        int64_t begin = (float *)aux.data - worlds[r].state->params;
        for (int64_t i = 0; i < 2 * CLASSES; i++)
            assert_true(worlds[r].state->grads[begin + i] == 0);
    }
    drop_ranks(crew, worlds, 2);
    drop(&alone);
    one.unused = false;
    one.options.allow_unused = true;
    run_alone(context, &one, &alone);
    assert_non_null(strstr(text, "every parameter takes part in the loss"));
    drop(&alone);
    rung_context_destroy(&context);
}

// 16-bit gradients: near the others', and the same on all ranks.
static void compressed_gradients_are_near(void **state)
{
    (void)state;
    rung_context *context;
    assert_ok(rung_context_create(NULL, &context));
    static const rung_dtype dtypes[] = {RUNG_BF16, RUNG_F16};
    job one = {.steps = 2, .counts = {16, 13}, .image = images, .label = labels, .stop_rank = -1};
    world alone = {0};
    run_alone(context, &one, &alone);
    for (int d = 0; d < 2; d++) {
        world worlds[2] = {0};
        job many = one;
        double moved = 0, error = 0;
        many.options.exchange.compress = dtypes[d];
        rungi_crew *crew = run_ranks(context, &many, 2, worlds);
        assert_same_state(&worlds[0], &worlds[1]);
        for (int64_t i = 0; i < alone.state->flat_size; i++) {
            moved = fmax(moved, fabs(alone.state->grads[i]));
            error = fmax(error, fabs(alone.state->grads[i] - worlds[0].state->grads[i]));
        }
        // Two roundings of 2^-9 (bf16) or 2^-12, of sums that are no larger than twice the result.
        assert_true(error < moved * (d ? 0.002 : 0.016));
        assert_true(error > 0);
        drop_ranks(crew, worlds, 2);
    }
    drop(&alone);
    rung_context_destroy(&context);
}

// Case C28: halves of a batch with means 0 and 10, running mean 0, momentum 0.1: 0.5 on all ranks.
static void statistics_are_those_of_all_ranks(void **state)
{
    (void)state;
    static float halves[MOST * PIXELS];
    rung_context *context;
    rung_state_entry weight, bias, mean;
    rungi_crew *crew;
    world worlds[2] = {0};
    assert_ok(rung_context_create(NULL, &context));
    job j = {.norm = true,
             .steps = 1,
             .counts = {MOST},
             .image = halves,
             .label = labels,
             .worlds = worlds,
             .stop_rank = -1};
    assert_ok(rungi_crew_create(context, 2, &(rungi_comm_options){.context = context}, &crew));
    // A convolution that gives the mean of the three channels: a picture of 10 becomes 10.
    for (int i = 0; i < MOST * PIXELS; i++)
        halves[i] = i < MOST / 2 * PIXELS ? 0 : 10;
    j.steps = 0;
    assert_ok(rungi_crew_run(crew, run_member, &j));
    for (int r = 0; r < 2; r++) {
        assert_true(rung_state_find(worlds[r].state, "conv1.weight", &weight));
        assert_true(rung_state_find(worlds[r].state, "conv1.bias", &bias));
        float *w = weight.data;
        for (int i = 0; i < 8 * CHANNELS * 9; i++)
            w[i] = i % 9 == 4 ? 1.0f / CHANNELS : 0;
        memset(bias.data, 0, 8 * sizeof(float));
    }
    j.steps = 1;
    assert_ok(rungi_crew_run(crew, train_member, &j));
    for (int r = 0; r < 2; r++) {
        assert_true(rung_state_find(worlds[r].state, "bn1.running_mean", &mean));
        for (int c = 0; c < 8; c++)
            assert_near(((float *)mean.data)[c], 0.5, 1e-6);
    }
    drop_ranks(crew, worlds, 2);
    rung_context_destroy(&context);
}

// A NaN on one rank is known on all, with the rank; and so is the wish to stop.
static void all_know_what_happens_to_one(void **state)
{
    (void)state;
    static float spoiled[MOST * PIXELS];
    rung_context *context;
    assert_ok(rung_context_create(NULL, &context));
    memcpy(spoiled, images, sizeof spoiled);
    spoiled[11 * PIXELS] = NAN; // of the third of four ranks
    for (int overlap = 0; overlap < 2; overlap++) {
        world worlds[4] = {0};
        job j = {.steps = 1, .counts = {16}, .image = spoiled, .label = labels, .stop_rank = 3};
        j.options.exchange.overlap = overlap;
        rungi_crew *crew = run_ranks(context, &j, 4, worlds);
        for (int r = 0; r < 4; r++) {
            assert_int_equal(j.bad[r], 2);
            assert_true(j.stop[r]);
            assert_true(isnan(j.losses[r][0]));
        }
        drop_ranks(crew, worlds, 4);
    }
    rung_context_destroy(&context);
}

// A rank whose data come late is named by all of them, 20 steps later.
static void a_late_rank_is_named(void **state)
{
    (void)state;
    rung_context *context;
    world worlds[3] = {0};
    rungi_straggler_verdict v;
    assert_ok(rung_context_create(NULL, &context));
    job j = {.steps = 4,
             .counts = {16, 16, 16, 16},
             .image = images,
             .label = labels,
             .stop_rank = -1,
             .late_rank = 1};
    rungi_crew *crew = run_ranks(context, &j, 3, worlds);
    for (int i = 4; i < RUNGI_STRAGGLER_STEPS; i += 4)
        assert_ok(rungi_crew_run(crew, train_member, &j));
    for (int r = 0; r < 3; r++) {
        const rungi_straggler *balance = rungi_engine_balance(worlds[r].engine);
        assert_true(rungi_straggler_find(balance, &v));
        assert_int_equal(v.rank, 1);
        assert_int_equal(v.cause, RUNGI_STRAGGLER_DATA);
        assert_near(v.own, 1, 1e-9);
        assert_true(rungi_straggler_imbalance(balance) > 1.5);
    }
    drop_ranks(crew, worlds, 3);
    rung_context_destroy(&context);
}

// So is one whose link is slow: all wait for it, though it computes as fast as they do.
#ifdef __SANITIZE_THREAD__
static const int64_t link_delay = 60000000; // far longer than a step computes
#else
static const int64_t link_delay = 15000000;
#endif

static void a_slow_link_is_named(void **state)
{
    (void)state;
    rung_context *context;
    rungi_crew *crew;
    world worlds[3] = {0};
    rungi_straggler_verdict v;
    assert_ok(rung_context_create(NULL, &context));
    job j = {.steps = 4,
             .counts = {16, 16, 16, 16},
             .image = images,
             .label = labels,
             .worlds = worlds,
             .stop_rank = -1};
    j.options.exchange.bucket_bytes = 1 << 20;
    assert_ok(rungi_crew_create(
        context, 3,
        &(rungi_comm_options){
            .context = context, .delay = link_delay, .delay_one = true, .delay_rank = 2},
        &crew));
    assert_ok(rungi_crew_run(crew, run_member, &j));
    for (int i = 4; i < RUNGI_STRAGGLER_STEPS + 4; i += 4)
        assert_ok(rungi_crew_run(crew, train_member, &j));
    const rungi_straggler *balance = rungi_engine_balance(worlds[0].engine);
    assert_true(rungi_straggler_find(balance, &v));
    assert_int_equal(v.rank, 2);
    assert_int_equal(v.cause, RUNGI_STRAGGLER_LINK);
    assert_true(v.own >= 2e-9 * (double)link_delay); // two calls and more
    drop_ranks(crew, worlds, 3);
    rung_context_destroy(&context);
}

// ---- synchronized batch normalization ---------------------------------------------------------

static const job whole_batches = {.norm = true,
                                  .deep = true,
                                  .steps = 4,
                                  .counts = {16, 13, 6, 2}, // of 2: ranks with one sample and none
                                  .image = images,
                                  .label = labels,
                                  .stop_rank = -1};

static void assert_near_state(const world *a, const world *b)
{
    rung_state_entry x, y;
    for (int64_t i = 0; i < b->state->flat_size; i++)
        assert_near(a->state->params[i], b->state->params[i], 3e-6);
    static const char *const norms[] = {"bn1", "bn2", "bn3"};
    static const char *const buffers[] = {"running_mean", "running_var"};
    for (int k = 0; k < 6; k++) {
        char name[32];
        snprintf(name, sizeof name, "%s.%s", norms[k / 2], buffers[k % 2]);
        assert_true(rung_state_find(a->state, name, &x) && rung_state_find(b->state, name, &y));
        for (int64_t i = 0; i < x.shape.dim[0]; i++)
            assert_near(((float *)x.data)[i], ((float *)y.data)[i],
                        2e-6 * (1 + fabs(((float *)y.data)[i])));
    }
}

// Ranks with synchronized normalization equal one device with the whole batch, whatever divides;
// fusion, overlap and what backward computes again change nothing, and all ranks stay equal.
static void synchronized_ranks_are_one_device(void **state)
{
    (void)state;
    enum { FUSE = 1, OVERLAP = 2, AGAIN = 4, LAST = 8 };
    rung_context *context;
    assert_ok(rung_context_create(NULL, &context));
    for (int variant = 0; variant < 8; variant++) {
        job one = whole_batches;
        one.options.fuse = variant & FUSE;
        one.options.layout = variant & FUSE ? RUNG_LAYOUT_CHANNELS_LAST : RUNG_LAYOUT_PLAIN;
        world alone = {0}, worlds[4] = {0};
        run_alone(context, &one, &alone);
        job many = one;
        many.options.synchronize = true;
        many.options.exchange.overlap = variant & OVERLAP;
        many.options.recompute = variant & AGAIN ? RUNG_RECOMPUTE_AUTO : RUNG_RECOMPUTE_NONE;
        many.options.exchange.servers = variant == 5 ? 2 : 0; // that add gradients
        int ranks = 2 + variant % 3;
        rungi_crew *crew = run_ranks(context, &many, ranks, worlds);
        for (int k = 0; k < 4; k++)
            assert_near(many.losses[0][k], one.losses[0][k], 1e-6 * one.losses[0][k]);
        assert_near_state(&worlds[0], &alone);
        for (int r = 1; r < ranks; r++)
            assert_same_state(&worlds[r], &worlds[0]);
        drop_ranks(crew, worlds, ranks);
        drop(&alone);
    }
    rung_context_destroy(&context);
}

enum { ROUNDS = 2 };

// Samples of a batch in the order of the rounds in which `ranks` ranks compute them.
static void order_by_rounds(int64_t count, int ranks, float *image, int64_t *label)
{
    int64_t at = 0;
    for (int round = 0; round < ROUNDS; round++)
        for (int r = 0; r < ranks; r++) {
            rungi_shard part = rungi_shard_of(count, ranks * ROUNDS, r * ROUNDS + round);
            memcpy(image + at * PIXELS, images + part.begin * PIXELS,
                   (size_t)part.count * PIXELS * sizeof *image);
            memcpy(label + at, labels + part.begin, (size_t)part.count * sizeof *label);
            at += part.count;
        }
}

// Accumulated: a round normalizes by the samples of all ranks in it. So ranks equal one device that
// has the same samples in each of its rounds, also where some have none in a round.
static void synchronized_rounds_are_those_of_one_device(void **state)
{
    (void)state;
    static float image[MOST * PIXELS];
    static int64_t label[MOST];
    static const int64_t counts[] = {16, 13, 3, 2};
    rung_context *context;
    assert_ok(rung_context_create(NULL, &context));
    for (int variant = 0; variant < 4; variant++) {
        int ranks = 2 + variant / 2;
        job one = {.norm = true,
                   .steps = 1,
                   .counts = {16},
                   .image = image,
                   .label = label,
                   .stop_rank = -1,
                   .options.accumulate = ROUNDS};
        job many = one;
        world alone = {0}, worlds[4] = {0};
        assert_ok(build(context, &one, 0, NULL, &alone));
        many.image = images;
        many.label = labels;
        many.steps = 4;
        memcpy(many.counts, counts, sizeof counts);
        many.options.synchronize = true;
        many.options.exchange.overlap = variant & 1;
        rungi_crew *crew = run_ranks(context, &many, ranks, worlds);
        for (int k = 0; k < 4; k++) {
            order_by_rounds(counts[k], ranks, image, label);
            one.counts[0] = counts[k];
            assert_ok(train(&one, 0, 1, &alone));
            assert_near(many.losses[0][k], one.losses[0][0], 1e-6 * one.losses[0][0]);
        }
        rung_state_entry x, y;
        for (int64_t i = 0; i < alone.state->flat_size; i++)
            assert_near(worlds[0].state->params[i], alone.state->params[i], 1e-6);
        assert_true(rung_state_find(worlds[0].state, "bn1.running_var", &x));
        assert_true(rung_state_find(alone.state, "bn1.running_var", &y));
        for (int i = 0; i < 8; i++)
            assert_near(((float *)x.data)[i], ((float *)y.data)[i], 2e-6);
        for (int r = 1; r < ranks; r++)
            assert_same_state(&worlds[r], &worlds[0]);
        drop_ranks(crew, worlds, ranks);
        drop(&alone);
    }
    rung_context_destroy(&context);
}

// Under exact a rank has one shard, and the bits are those of the layout; else it is refused. A
// rank that spoils the statistics of all is named.
static void synchronized_ranks_are_exact(void **state)
{
    (void)state;
    static float spoiled[MOST * PIXELS];
    rung_context *context;
    rungi_crew *crew;
    assert_ok(rung_context_create(NULL, &context));
    world first[4] = {0}, second[4] = {0}, worlds[4] = {0};
    job j = whole_batches;
    j.options = (rungi_engine_options){.exact = true, .shards = 4, .synchronize = true};
    rungi_crew *one = run_ranks(context, &j, 4, first);
    j.options.exchange.overlap = true;
    rungi_crew *two = run_ranks(context, &j, 4, second);
    for (int r = 0; r < 4; r++) {
        assert_same_state(&first[r], &first[0]);
        assert_same_state(&second[r], &first[0]);
    }
    drop_ranks(one, first, 4);
    drop_ranks(two, second, 4);
    memset(first, 0, sizeof first);
    memset(second, 0, sizeof second);
    j.deep = false; // whose linear layers need two samples in each round
    j.options.accumulate = 2;
    one = run_ranks(context, &j, 4, first);
    j.options.exchange.overlap = false;
    two = run_ranks(context, &j, 4, second);
    for (int r = 0; r < 4; r++) {
        assert_same_state(&first[r], &first[0]);
        assert_same_state(&second[r], &first[0]);
    }
    drop_ranks(one, first, 4);
    drop_ranks(two, second, 4);
    j.options.accumulate = 1;
    j.deep = true;
    memcpy(spoiled, images, sizeof spoiled);
    spoiled[11 * PIXELS] = NAN; // of the third
    j.image = spoiled;
    j.steps = 1;
    crew = run_ranks(context, &j, 4, worlds);
    for (int r = 0; r < 4; r++)
        assert_int_equal(j.bad[r], 2);
    drop_ranks(crew, worlds, 4);
    memset(worlds, 0, sizeof worlds);
    assert_ok(rungi_crew_create(context, 2, &(rungi_comm_options){.context = context}, &crew));
    assert_fails(RUNG_INVALID, "there are 4 shards, 2 ranks", rungi_crew_run(crew, run_member, &j));
    drop_ranks(crew, worlds, 2);
    rung_context_destroy(&context);
}

// What is no part of a batch is refused, on all ranks, with the first cause.
static void a_wrong_part_is_refused(void **state)
{
    (void)state;
    rung_context *context;
    rungi_crew *crew;
    world worlds[2] = {0};
    assert_ok(rung_context_create(NULL, &context));
    job j = {.image = images, .label = labels, .stop_rank = -1, .worlds = worlds};
    j.options = (rungi_engine_options){.exact = true, .shards = 1};
    assert_ok(rungi_crew_create(context, 2, &(rungi_comm_options){.context = context}, &crew));
    assert_fails(RUNG_CONFIG, "exact with 2 ranks: there must be 1, 2, 4, ... of them, at most",
                 rungi_crew_run(crew, run_member, &j));
    drop_ranks(crew, worlds, 2);
    rung_context_destroy(&context);
}

int main(void)
{
    make_data();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_do_not_show_under_exact),
        cmocka_unit_test(ranks_equal_one_device),
        cmocka_unit_test(owners_get_the_sums),
        cmocka_unit_test(exact_rounds_of_ranks),
        cmocka_unit_test(rounds_exchange_once),
        cmocka_unit_test(unused_parameters_are_named),
        cmocka_unit_test(compressed_gradients_are_near),
        cmocka_unit_test(statistics_are_those_of_all_ranks),
        cmocka_unit_test(all_know_what_happens_to_one),
        cmocka_unit_test(a_late_rank_is_named),
        cmocka_unit_test(a_slow_link_is_named),
        cmocka_unit_test(synchronized_ranks_are_one_device),
        cmocka_unit_test(synchronized_rounds_are_those_of_one_device),
        cmocka_unit_test(synchronized_ranks_are_exact),
        cmocka_unit_test(a_wrong_part_is_refused),
    };
    return RUN_TESTS(tests);
}
