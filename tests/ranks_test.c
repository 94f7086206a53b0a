// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
// Runs of several ranks: cases C18, C19, C21, C24, C30, C32, C37, C38, C42, C89.
#include "watched_run.h"

#include <math.h>
#include <sys/stat.h>

#include "base/json.h"
#include "train/crew.h"
#include "train/trainer.h"

#ifdef RUNG_OPENMP
#    define NETWORK "fashion_cnn"
#    define SIZES ""
#    define ANOTHER "mlp"
#    define BUCKET "4KiB"
#else // the build for ThreadSanitizer, which is slow
#    define NETWORK "mlp"
#    define SIZES ", hidden: [32, 32, 32]"
#    define ANOTHER "fashion_cnn"
#    define BUCKET "1KiB"
#endif

// 61 pictures in batches of 8: the last batch has 5, and validation 7 of 4 and 3.
#define DATA                             \
    PICTURES(LIBRARY, 61)                \
    "  batch_size: 8\n"                  \
    "  random_flip: 0.5\n"               \
    "  random_crop: {padding: 1}\n"      \
    "model: {name: " NETWORK SIZES "}\n" \
    "optim: {lr: 0.05, momentum: 0.9}\n" \
    "schedule: {name: cosine}\n"         \
    "train: {epochs: 2, max_grad_norm: 1}\n"

// Under exact the number of ranks and of workers does not show: same bits of weights and optimizer
// state, same losses, each sample trained on once an epoch and validated once.
static void exact_runs_are_the_same(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    seen first = {0};
    const char *one[] = {"exact=true", "train.log_every=1", NULL};
    assert_ok(train(context, DATA, one, test_path(folder, "one"), &first));
    for (int ranks = 2; ranks <= 4; ranks *= 2) {
        char count[32];
        seen s = {0};
        snprintf(count, sizeof count, "train.ranks=%d", ranks);
        const char *many[] = {"exact=true",         "train.log_every=1", count,
                              "data.num_workers=1", "ddp.overlap=true",  NULL};
        assert_ok(train(context, DATA, many, test_path(folder, count), &s));
        assert_same_bits(test_path(folder, "one"), test_path(folder, count));
        assert_int_equal(s.steps, 16);
        assert_memory_equal(s.losses, first.losses, sizeof s.losses);
        assert_int_equal(s.evaluated, 7);
        assert_int_equal(s.correct, first.correct);
        assert_memory_equal(&s.val_loss, &first.val_loss, sizeof s.val_loss);
        assert_int_equal(s.seen_once, 61);
        assert_int_equal(s.seen_again, 0);
    }
    rung_context_destroy(&context);
}

// The optimizer's state cut over the ranks: same bits, for every optimizer, and over a resume with
// another number of ranks.
static void a_sharded_optimizer_is_the_same(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    static const char *const optimizers[] = {"optim.name=sgd", "optim.name=adamw"};
    for (int i = 0; i < 2; i++) {
        char name[2][40];
        seen s = {0};
        snprintf(name[0], sizeof name[0], "one-%d", i);
        snprintf(name[1], sizeof name[1], "cut-%d", i);
        const char *one[] = {
            "exact=true",     optimizers[i],       i ? "optim.momentum=0" : "seed=0",
            "optim.lr=0.003", "train.log_every=1", NULL};
        assert_ok(train(context, DATA, one, test_path(folder, name[0]), &s));
        const char *cut[] = {"exact=true",
                             optimizers[i],
                             i ? "optim.momentum=0" : "seed=0",
                             "optim.lr=0.003",
                             "train.log_every=1",
                             "train.ranks=4",
                             "ddp.shard_optimizer=true",
                             NULL};
        s = (seen){.stop_at = 6};
        assert_fails(RUNG_CANCELLED, "stopped after step",
                     train(context, DATA, cut, test_path(folder, name[1]), &s));
        const char *two[] = {"train.ranks=2", NULL};
        assert_ok(training_resume(context, test_path(folder, name[1]), two, NULL));
        assert_same_bits(test_path(folder, name[0]), test_path(folder, name[1]));
    }
    rung_context_destroy(&context);
}

// A run begun with two ranks, stopped, gone on with by four, stopped, and ended by one.
static void another_number_of_ranks_goes_on(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    const char *run = test_path(folder, "parts");
    const char *two[] = {"exact=true", "train.log_every=1", "train.ranks=2", NULL};
    seen s = {.stop_at = 5};
    assert_fails(RUNG_CANCELLED, "stopped after step", train(context, DATA, two, run, &s));
    assert_true(s.steps >= 5 && s.steps < 8);
    const char *four[] = {"train.ranks=4"};
    bool finished;
    s = (seen){.stop_at = 10};
    assert_ok(rung_trainer_resume(context, run, four, 1, &finished, &s.trainer));
    assert_fails(RUNG_CANCELLED, "stopped after step",
                 rung_trainer_fit(s.trainer, &(rung_observer){&s, watch}));
    rung_trainer_destroy(&s.trainer);
    const char *last[] = {"train.ranks=1"};
    assert_ok(rung_trainer_resume(context, run, last, 1, &finished, &s.trainer));
    assert_ok(rung_trainer_fit(s.trainer, NULL));
    rung_trainer_destroy(&s.trainer);
    const char *whole[] = {"exact=true", "train.log_every=1", NULL};
    s = (seen){0};
    assert_ok(train(context, DATA, whole, test_path(folder, "whole"), &s));
    assert_same_bits(test_path(folder, "whole"), run);
    assert_string_equal(log.text, "");
    rung_context_destroy(&context);
}

// Without exact: the same bits for the same layout; losses near those of one rank at every step,
// however the global batch is said (C89); validation of all samples, each once (C19).
static void fast_runs_agree(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    seen one = {0};
    const char *alone[] = {"train.log_every=1", NULL};
    assert_ok(train(context, DATA, alone, NULL, &one));
    for (int ranks = 2; ranks <= 4; ranks++) {
        char count[32], again[40];
        seen s = {0}, t = {0};
        snprintf(count, sizeof count, "train.ranks=%d", ranks);
        snprintf(again, sizeof again, "again%d", ranks);
        const char *many[] = {"train.log_every=1", count, NULL};
        assert_ok(train(context, DATA, many, test_path(folder, count), &s));
        assert_ok(train(context, DATA, many, test_path(folder, again), &t));
        assert_same_bits(test_path(folder, count), test_path(folder, again));
        for (int k = 1; k <= 16; k++)
            assert_near(s.losses[k], one.losses[k], 1e-4);
        assert_int_equal(s.evaluated, 7);
        assert_int_equal(s.seen_once, 61);
    }
    rung_context_destroy(&context);
}

// The number of workers is measured by all ranks together, which then have the same, and it does
// not show in the result.
static void ranks_choose_workers_together(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    seen s = {0};
    const char *chosen[] = {"exact=true", "train.ranks=2", "train.steps=3", "data.num_workers=auto",
                            NULL};
    const char *none[] = {"exact=true", "train.ranks=2", "train.steps=3", NULL};
    assert_ok(train(context, DATA, chosen, test_path(folder, "auto"), &s));
    const char *told = strstr(log.text, "data.num_workers auto: chose ");
    assert_true(!told || !strstr(told + 1, "data.num_workers auto: chose "));
    assert_ok(train(context, DATA, none, test_path(folder, "none"), &s));
    assert_same_bits(test_path(folder, "auto"), test_path(folder, "none"));
    rung_context_destroy(&context);
}

static void a_batch_of_each_device(void **state)
{
    (void)state;
    training_log log;
    rung_context *context = training_context(&log);
    static const char yaml[] = "device: {threads: 1}\n"
                               "plan: {kernels: " LIBRARY "}\n"
                               "data: {source: synthetic, batch_per_device: 4,"
                               " synthetic: {shape: [1, 8, 8], count: 64, classes: 4}}\n"
                               "model: {name: mlp, hidden: [8]}\n"
                               "train: {steps: 2, ranks: 2, eval_every: never}\n";
    rung_config *config = training_config(context, yaml, NULL);
    rung_trainer *trainer;
    char *banner;
    assert_ok(rung_trainer_create(context, config, NULL, &trainer));
    assert_ok(rung_trainer_banner(trainer, &banner));
    assert_non_null(strstr(banner, "batch      8 samples = 2 ranks x 4; the learning rate is not "
                                   "scaled by it"));
    assert_non_null(strstr(banner, "8 steps an epoch"));
    assert_non_null(strstr(banner, "2 threads of this process; gradients added after"));
    free(banner);
    rung_trainer_destroy(&trainer);
    rung_config_destroy(&config);
    rung_context_destroy(&context);
}

// ---- what is written down ---------------------------------------------------------------------

static double number_of(const json_t *o, const char *name)
{
    const json_t *value = json_object_get(o, name);
    if (!json_is_number(value))
        fail_msg("no number %s", name);
    return json_number_value(value);
}

// Events of the trace by rank: forward spans, and spans of buckets in them. Those of a row must not
// overlap.
static void count_events(const json_t *trace, int forward[2], int buckets[2])
{
    double ends[2][64] = {0};
    const json_t *e;
    size_t i;
    json_array_foreach(json_object_get(trace, "traceEvents"), i, e)
    {
        const char *name = json_string_value(json_object_get(e, "name"));
        int rank = (int)number_of(e, "pid"), row = (int)number_of(e, "tid");
        if (strcmp(json_string_value(json_object_get(e, "ph")), "X") != 0)
            continue;
        double begin = number_of(e, "ts"), took = number_of(e, "dur");
        assert_in_range(rank, 0, 1);
        if (begin < ends[rank][row] - 0.002 || took < 0)
            fail_msg("rank %d, row %d: %s at %.3f for %.3f, the one before ends at %.3f", rank, row,
                     name, begin, took, ends[rank][row]);
        ends[rank][row] = begin + took;
        forward[rank] += strcmp(name, "forward") == 0;
        buckets[rank] += strncmp(name, "bucket ", 7) == 0;
    }
}

// The timelines of all ranks are in one trace, their buckets as spans; ranks.json has where each
// rank's time went and what became of each bucket. The parts of a step still add up.
static void exchanges_are_written_down(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    const char *two[] = {"train.log_every=4", "train.ranks=2",           "ddp.overlap=true",
                         "train.steps=8",     "ddp.bucket_size=" BUCKET, NULL};
    seen s = {0};
    json_t *trace, *ranks, *bucket, *rank;
    int forward[2] = {0}, buckets[2] = {0};
    size_t i;
    assert_ok(train(context, DATA, two, test_path(folder, "two"), &s));
    assert_ok(rungi_json_load(test_path(folder, "two/trace.json"), 1 << 24, &trace));
    count_events(trace, forward, buckets);
    assert_ok(rungi_json_load(test_path(folder, "two/ranks.json"), 1 << 20, &ranks));
    const json_t *all = json_object_get(ranks, "buckets");
    assert_true(json_array_size(all) > 2);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(forward[r], 8);
        assert_int_equal(buckets[r], 8 * json_array_size(all));
    }
    double hidden = 0, exposed = 0, last = 0;
    json_array_foreach(all, i, bucket)
    {
        assert_true(number_of(bucket, "ready_ms") >= last); // in the order of backward
        last = number_of(bucket, "ready_ms");
        assert_true(number_of(bucket, "start_ms") >= last);
        assert_true(number_of(bucket, "end_ms") >= number_of(bucket, "start_ms"));
        assert_true(number_of(bucket, "bus_gb_s") > 0);
        hidden += number_of(bucket, "hidden_ms");
        exposed += number_of(bucket, "exposed_ms");
    }
    json_array_foreach(json_object_get(ranks, "ranks"), i, rank)
    {
        assert_int_equal((int)number_of(rank, "rank"), (int)i);
        assert_true(number_of(rank, "link_ms") >= 0 && number_of(rank, "exposed_ms") > 0);
        assert_true(number_of(rank, "moved_bytes") > 0);
        assert_near(number_of(rank, "clock_offset_us"), 0, 0); // threads share a clock
    }
    assert_true(hidden > 0 && exposed >= 0);
    json_decref(trace);
    json_decref(ranks);
    rung_context_destroy(&context);
}

// Cases C37 and C42: four ranks on four devices. Each allocates on its own alone, and after a
// resume all have the same there; the start says where each rank is.
static void each_rank_has_a_device(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    const char *run = test_path(folder, "four");
    const char *four[] = {"train.ranks=4", "train.steps=2", "train.eval_every=never", NULL};
    const char *more[] = {"train.steps=4"};
    seen s = {0};
    bool finished;
    char *banner;
    assert_ok(train(context, DATA, four, run, &s));
    assert_ok(rung_trainer_resume(context, run, more, 1, &finished, &s.trainer));
    assert_ok(rung_trainer_banner(s.trainer, &banner));
    assert_non_null(strstr(banner, "device     each: cpu:0, "));
    assert_non_null(strstr(banner, "places     rank 0 cpu:0, 1 cpu:1, 2 cpu:2, 3 cpu:3 on "));
    free(banner);
    assert_ok(rung_trainer_fit(s.trainer, NULL));
    uint64_t first = 0;
    for (int r = 0; r < 4; r++) {
        const rung_trainer *t = rungi_crew_member(s.trainer->crew, r)->user;
        char name[16];
        snprintf(name, sizeof name, "cpu:%d", r);
        assert_string_equal(rung_device_name(t->s->device), name);
        uint64_t live = rung_device_memory(t->s->device).live;
        first = r ? first : live;
        assert_true(live > 0 && llabs((int64_t)live - (int64_t)first) <= (int64_t)first / 100);
    }
    rung_trainer_destroy(&s.trainer);
    rung_context_destroy(&context);
}

// ---- what cannot be ---------------------------------------------------------------------------

static void refuse(const char *expected, const char *const *overrides)
{
    training_log log;
    rung_context *context = training_context(&log);
    seen s = {0};
    assert_fails(RUNG_CONFIG, expected, train(context, DATA, overrides, NULL, &s));
    rung_context_destroy(&context);
}

static void wrong_ranks_are_refused(void **state)
{
    (void)state;
    refuse("is single, but there are 2 ranks",
           (const char *[]){"train.ranks=2", "train.strategy=single", NULL});
    refuse("names 3 devices for 2 ranks",
           (const char *[]){"train.ranks=2", "device.list=[cpu:0, cpu:1, cpu:2]", NULL});
    refuse("must make 1, 2, 4, ... ranks under exact",
           (const char *[]){"train.ranks=3", "exact=true", NULL});
    refuse("at most train.shards, which is 4, not 8",
           (const char *[]){"train.ranks=8", "exact=true", NULL});
    refuse("needs a shard for each rank under exact: train.shards is 4, the number of ranks is 2",
           (const char *[]){"train.ranks=2", "exact=true", "ddp.sync_batch_norm=true", NULL});
    refuse("needs a shard for each rank under exact: train.shards is 4, the number of ranks is 1",
           (const char *[]){"exact=true", "ddp.sync_batch_norm=true", NULL});
    refuse("set one of them", (const char *[]){"data.batch_per_device=4", NULL});
    refuse("cannot be combined with exact",
           (const char *[]){"ddp.compress=bf16", "exact=true", NULL});
}

// What a rank of another configuration does; case C21.
static rung_status open_with_another(void *arg, rungi_member *m)
{
    const char *const *overrides = arg;
    rung_config *config = NULL;
    rungi_session *s = NULL;
    static const char yaml[] = DATA;
    rung_status status = rung_config_create(m->context, &config);
    if (status == RUNG_OK)
        status = rung_config_load_text(config, "test", yaml, strlen(yaml));
    if (status == RUNG_OK && m->index)
        status = rung_config_override(config, overrides[0]);
    if (status == RUNG_OK)
        status = rungi_session_create(
            m->context, config,
            &(rungi_session_options){.parts = RUNGI_SESSION_ALL, .comm = m->comm}, &s);
    rungi_session_destroy(&s);
    rung_config_destroy(&config);
    return status;
}

static void ranks_must_agree(void **state)
{
    (void)state;
    static const struct {
        const char *override, *expected;
    } cases[] = {
        {"seed=5", "the seed is 0 on rank 0, but 5 on rank 1"},
        {"data.batch_size=16", "data.batch_size is 8 on rank 0, but 16 on rank 1"},
        {"data.synthetic.count=60",
         "the number of training samples is 61 on rank 0, but 60 on rank 1"},
        {"model.name=" ANOTHER, "the network is " NETWORK ", "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        training_log log;
        rung_context *context = training_context(&log);
        rungi_crew *crew;
        const char *overrides[] = {cases[i].override};
        assert_ok(rungi_crew_create(context, 2, &(rungi_comm_options){.context = context}, &crew));
        assert_fails(RUNG_CONFIG, cases[i].expected,
                     rungi_crew_run(crew, open_with_another, overrides));
        rungi_crew_destroy(&crew);
        rung_context_destroy(&context);
    }
}

// ---- failures ---------------------------------------------------------------------------------

static void write_picture(const char *path, int grey)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fprintf(file, "P5 8 8 255\n");
    for (int i = 0; i < 64; i++)
        putc(grey + i, file);
    assert_int_equal(fclose(file), 0);
}

// One rank cannot read its sample: the run ends on all, and the message has the file and the rank.
static void a_failing_rank_ends_all(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    char data[512];
    seen s = {0};
    assert_int_equal(mkdir(test_path(folder, "pictures"), 0777), 0);
    for (int c = 0; c < 2; c++) {
        char name[64];
        snprintf(name, sizeof name, "pictures/c%d", c);
        assert_int_equal(mkdir(test_path(folder, name), 0777), 0);
        for (int i = 0; i < 8; i++) {
            snprintf(name, sizeof name, "pictures/c%d/%d.pgm", c, i);
            write_picture(test_path(folder, name), 16 * i + c);
        }
    }
    FILE *cut = fopen(test_path(folder, "pictures/c1/7.pgm"), "wb"); // the last sample: of rank 1
    assert_non_null(cut);
    fprintf(cut, "P5 8 8 255\nxyz");
    assert_int_equal(fclose(cut), 0);
    snprintf(data, sizeof data,
             "device: {threads: 1}\n"
             "plan: {kernels: " LIBRARY "}\n"
             "data: {format: image_folder, path: %s, channels: 1, center_crop: [8], batch_size: 8,"
             " shuffle: false,"
             " val: {path: %s}}\n"
             "model: {name: mlp, hidden: [8]}\n"
             "train: {steps: 4, ranks: 2, eval_every: never}\n",
             test_path(folder, "pictures"), test_path(folder, "pictures"));
    assert_int_not_equal(train(context, data, NULL, test_path(folder, "failing"), &s), RUNG_OK);
    const char *message = rung_error_last()->message;
    if (!strstr(message, "rank 1: ") || !strstr(message, "c1/7.pgm"))
        fail_msg("%s", message);
    rung_context_destroy(&context);
}

// A loss that is not finite: the run stops on all ranks, and says which was the first.
static void a_diverging_run_names_its_rank(void **state)
{
    (void)state;
    training_log log;
    rung_context *context = training_context(&log);
    seen s = {0};
    const char *overrides[] = {"train.ranks=2", "optim.lr=1e30", "schedule.name=constant",
                               "train.max_grad_norm=none", NULL};
    assert_fails(RUNG_DIVERGED, "step ", train(context, DATA, overrides, NULL, &s));
    rung_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(exact_runs_are_the_same),
        IN_FOLDER(a_sharded_optimizer_is_the_same),
        IN_FOLDER(another_number_of_ranks_goes_on),
        IN_FOLDER(fast_runs_agree),
        IN_FOLDER(ranks_choose_workers_together),
        cmocka_unit_test(a_batch_of_each_device),
        IN_FOLDER(exchanges_are_written_down),
        IN_FOLDER(each_rank_has_a_device),
        cmocka_unit_test(wrong_ranks_are_refused),
        cmocka_unit_test(ranks_must_agree),
        IN_FOLDER(a_failing_rank_ends_all),
        cmocka_unit_test(a_diverging_run_names_its_rank),
    };
    return RUN_TESTS(tests);
}
