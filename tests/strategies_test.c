// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
// What combines with what: every pair of the table in docs/strategies.md is tried; and runs that
// combine several.
#include "watched_run.h"

#include <math.h>
#include <stdlib.h>

#include "formats/checkpoint_folder.h"
#include "train/run_metrics.h"

// 29 pictures in batches of 8: the last one has 5.
#define DATA                                               \
    PICTURES(OWN, 29)                                      \
    "  batch_size: 8\n"                                    \
    "  random_flip: 0.5\n"                                 \
    "model: {name: mlp, hidden: [16], dropout: 0.2}\n"     \
    "optim: {lr: 0.05, momentum: 0.9}\n"                   \
    "train: {steps: 4, eval_every: never, log_every: 1}\n" \
    "checkpoint: {every: never}\n"

#define DEVICES "device.list=[cpu:0, cpu:1]", "train.strategy=data_parallel"
#define STAGES "train.ranks=2", "train.strategy=pipeline"
#define SERVERS "train.ranks=2", "train.strategy=parameter_server"
// So large that the first steps overflow: 2^28.
#define OVERFLOWS "train.loss_scale=268435456"

// ---- the table --------------------------------------------------------------------------------

enum { MOST = 3 };

// What a row or a column of the table stands for. `other`: another number of ranks or devices.
typedef struct entry {
    const char *name;
    const char *overrides[MOST], *other[MOST];
} entry;

static const entry strategies[] = {
    {"single", {"train.strategy=single"}, {NULL}},
    {"data_parallel", {DEVICES}, {"device.list=[cpu:0, cpu:1, cpu:2]"}},
    {"ddp", {"train.ranks=2", "train.strategy=ddp"}, {"train.ranks=4"}},
    {"pipeline", {STAGES, "pipeline.schedule=1f1b"}, {"train.ranks=3"}},
    {"parameter_server, sync", {SERVERS}, {"train.ranks=4"}},
    {"parameter_server, async", {SERVERS, "ps.mode=async"}, {"train.ranks=3"}},
};

static const entry features[] = {
    {"exact", {"exact=true"}, {NULL}},
    {"accumulate", {"train.accumulate=2"}, {NULL}},
    {"bf16", {"train.precision=bf16"}, {NULL}},
    {"fp16", {"train.precision=fp16"}, {NULL}},
    {"max_grad_norm", {"train.max_grad_norm=0.5"}, {NULL}},
    {"max_grad_value", {"train.max_grad_value=0.1"}, {NULL}},
    {"log_layers", {"train.log_layers=true"}, {NULL}},
    {"recompute", {"memory.recompute=auto"}, {NULL}},
    {"sync_batch_norm", {"ddp.sync_batch_norm=true"}, {NULL}},
    {"shard_optimizer", {"ddp.shard_optimizer=true"}, {NULL}},
    {"autotune", {"plan.autotune=true"}, {NULL}},
    {"resume with another count", {NULL}, {NULL}},
};

enum { STRATEGIES = sizeof strategies / sizeof *strategies };
enum { FEATURES = sizeof features / sizeof *features };

// What the page says of a pair: "yes", "no" or "-".
static char told[STRATEGIES][FEATURES][8];

// The cells of a line "| a | b |", cut apart in place; how many.
static int cut_line(char *line, char **cells)
{
    int count = 0;
    for (char *at = strchr(line, '|'); at && count < 1 + FEATURES;) {
        char *end = strchr(at + 1, '|');
        if (!end)
            break;
        char *begin = at + 1 + strspn(at + 1, " `"), *last = end;
        while (last > begin && strchr(" `", last[-1]))
            last--;
        *last = '\0';
        cells[count++] = begin;
        at = end;
    }
    return count;
}

static void read_table(void)
{
    FILE *file = fopen(RUNG_SOURCE_DIR "/docs/strategies.md", "r");
    char line[1024], *cells[1 + FEATURES];
    int rows = 0;
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        int count = line[0] == '|' ? cut_line(line, cells) : 0;
        if (count != 1 + FEATURES || cells[0][0] == '-')
            continue;
        for (int f = 0; f < FEATURES; f++)
            if (strcmp(cells[0], "train.strategy") == 0)
                assert_string_equal(cells[1 + f], features[f].name);
            else
                snprintf(told[rows][f], sizeof told[0][0], "%s", cells[1 + f]);
        if (strcmp(cells[0], "train.strategy") != 0)
            assert_string_equal(cells[0], strategies[rows++].name);
    }
    fclose(file);
    assert_int_equal(rows, STRATEGIES);
}

static int add(const char **list, int count, const char *const *more)
{
    for (int i = 0; i < MOST && more[i]; i++)
        list[count++] = more[i];
    list[count] = NULL;
    return count;
}

// "train.accumulate" of "train.accumulate=2".
static bool names(const char *message, const char *override)
{
    char key[64];
    snprintf(key, sizeof key, "%.*s", (int)strcspn(override, "="), override);
    return strstr(message, key) != NULL;
}

static void try_pair(test_folder *folder, int s, int f)
{
    const char *list[3 * MOST + 1] = {NULL}, *run = NULL;
    char name[32];
    training_log log;
    seen watched = {0};
    bool resumes = !features[f].overrides[0];
    rung_context *context = training_context(&log);
    snprintf(name, sizeof name, "pair-%d-%d", s, f);
    if (resumes)
        run = test_path(folder, name);
    add(list, add(list, 0, strategies[s].overrides), features[f].overrides);
    rung_status status = train(context, DATA, list, run, &watched);
    if (resumes && status == RUNG_OK) {
        int count = add(list, 0, strategies[s].other);
        list[count] = "train.steps=6";
        list[count + 1] = NULL;
        status = training_resume(context, run, list, NULL);
    }
    const char *message = rung_error_last()->message, *key = features[f].overrides[0];
    if (strcmp(told[s][f], "yes") == 0 && status != RUNG_OK)
        fail_msg("%s with %s: %s", strategies[s].name, features[f].name, message);
    if (strcmp(told[s][f], "no") == 0 && (status != RUNG_CONFIG || !names(message, key)))
        fail_msg("%s with %s: %s", strategies[s].name, features[f].name,
                 status == RUNG_OK ? "trains" : message);
    rung_context_destroy(&context);
}

static void every_pair_is_as_the_page_says(void **state)
{
    read_table();
    assert_int_equal(setenv("XDG_CACHE_HOME", ((test_folder *)*state)->path, 1), 0); // of autotune
    for (int s = 0; s < STRATEGIES; s++)
        for (int f = 0; f < FEATURES; f++)
            if (strcmp(told[s][f], "-") != 0)
                try_pair(*state, s, f);
}

// ---- combinations -----------------------------------------------------------------------------

static void run_all(rung_context *context, test_folder *folder, const char *const (*runs)[8],
                    const char *const *names_, int count)
{
    for (int i = 0; i < count; i++) {
        seen s = {0};
        assert_ok(train(context, DATA, runs[i], test_path(folder, names_[i]), &s));
    }
}

// Under exact 16 bits, accumulation, clipping and strategies change no bit of each other: those of
// one device.
static void sixteen_bits_under_exact(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    static const char *const precisions[] = {"train.precision=bf16", "train.precision=fp16"};
    for (int p = 0; p < 2; p++) {
        const char *const runs[][12] = {
            {"train.strategy=single"},
            {DEVICES, "data_parallel.parallel_criterion=true"},
            {DEVICES, "data.batch_size=4", "train.accumulate=2", "train.shards=2"},
            {SERVERS, "ps.servers=1"},
            {SERVERS, "data.batch_size=4", "train.accumulate=2", "train.shards=2"},
        };
        for (int i = 0; i < 5; i++) {
            const char *list[12] = {"exact=true", precisions[p], OVERFLOWS, "train.steps=14",
                                    "train.max_grad_norm=1"};
            char name[16];
            seen s = {0};
            for (int k = 0; runs[i][k]; k++)
                list[5 + k] = runs[i][k];
            snprintf(name, sizeof name, "run-%d-%d", p, i);
            assert_ok(train(context, DATA, list, test_path(folder, name), &s));
            snprintf(name, sizeof name, "run-%d-0", p);
            const char *first = test_path(folder, name);
            snprintf(name, sizeof name, "run-%d-%d", p, i);
            assert_same_bits(first, test_path(folder, name));
        }
    }
    rung_context_destroy(&context);
}

// Stages in 16 bits: the bits of one device where a batch is not cut, whether or not it is
// accumulated, the steps that fp16 leaves out included.
static void sixteen_bits_in_stages(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    static const char *const precisions[] = {"train.precision=fp32", "train.precision=bf16",
                                             "train.precision=fp16"};
    for (int p = 0; p < 3; p++) {
        const char *const runs[][8] = {
            {precisions[p], OVERFLOWS, "train.steps=14", "train.max_grad_norm=1",
             "train.accumulate=2"},
            {precisions[p], OVERFLOWS, "train.steps=14", "train.max_grad_norm=1",
             "train.accumulate=2", STAGES},
        };
        char name[2][16];
        snprintf(name[0], sizeof name[0], "one-%d", p);
        snprintf(name[1], sizeof name[1], "two-%d", p);
        const char *const names_[] = {name[0], name[1]};
        run_all(context, folder, runs, names_, 2);
        assert_same_bits(test_path(folder, name[0]), test_path(folder, name[1]));
    }
    rung_context_destroy(&context);
}

// How many steps a run has left out, from its last checkpoint.
static int64_t skipped_in(test_folder *folder, const char *run, int steps)
{
    char path[96];
    rungi_checkpoint *c;
    snprintf(path, sizeof path, "%s/checkpoints/step-%08d", run, steps);
    assert_ok(rungi_checkpoint_open(test_path(folder, path), true, &c));
    const json_t *scale = json_object_get(rungi_checkpoint_state(c), "loss_scale");
    int64_t skipped = json_integer_value(json_object_get(scale, "skipped"));
    rungi_checkpoint_close(&c);
    return skipped;
}

// Micro-batches, accumulation and fp16 together: both schedules give the same bits, leave the same
// steps out on all stages, and learn what one device learns.
static void sixteen_bits_in_micro_batches(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    const char *const runs[][8] = {
        {"train.precision=fp16", OVERFLOWS, "train.steps=16", "train.accumulate=2", STAGES,
         "pipeline.schedule=gpipe"},
        {"train.precision=fp16", OVERFLOWS, "train.steps=16", "train.accumulate=2", STAGES,
         "pipeline.schedule=1f1b"},
    };
    static const char *const names_[] = {"gpipe", "1f1b"};
    run_all(context, folder, runs, names_, 2);
    assert_same_bits(test_path(folder, "gpipe"), test_path(folder, "1f1b"));
    int64_t skipped = skipped_in(folder, "gpipe", 16);
    assert_true(skipped > 3 && skipped < 14);
    assert_int_equal(skipped_in(folder, "1f1b", 16), skipped);
    rung_context_destroy(&context);
}

// Asynchronous workers: each sums its own micro-batches and pushes once, has its own loss scale,
// and leaves its own overflows out; the loss falls.
static void asynchronous_workers(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    const char *list[] = {SERVERS,
                          "ps.mode=async",
                          "ps.staleness=1",
                          "train.precision=fp16",
                          OVERFLOWS,
                          "train.accumulate=2",
                          "train.steps=100",
                          "model.dropout=0",
                          "optim.momentum=0.5",
                          NULL};
    seen s = {0};
    assert_ok(train(context, DATA, list, test_path(folder, "async"), &s));
    print_message("loss %.4f, at last %.4f\n", s.first_loss, s.last_loss);
    assert_true(s.last_loss < 0.7 * s.first_loss);
    int64_t skipped = skipped_in(folder, "async", 100); // of the first worker
    assert_true(skipped > 3 && skipped < 20);
    rung_context_destroy(&context);
}

// ---- layers -----------------------------------------------------------------------------------

static rung_status keep_layers(void *user, const char *event, const json_t *line)
{
    json_t **kept = user;
    if (strcmp(event, "step") == 0 && json_object_get(line, "layer_update_ratio")) {
        json_decref(*kept);
        *kept = json_deep_copy(line);
    }
    return RUNG_OK;
}

static json_t *layers_of(test_folder *folder, const char *run)
{
    json_t *line = NULL;
    assert_ok(rungi_metrics_each(test_path(folder, run), keep_layers, &line));
    assert_non_null(line);
    assert_int_equal(json_integer_value(json_object_get(line, "step")), 4);
    return line;
}

// Stages and servers tell of all layers, what one device and ddp tell, in their order; and draw.
static void layers_of_all_ranks(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    const char *const runs[][8] = {
        {"train.log_layers=true"},
        {"train.log_layers=true", STAGES},
        {"train.log_layers=true", "train.ranks=2", "train.strategy=ddp"},
        {"train.log_layers=true", SERVERS},
    };
    static const char *const names_[] = {"one", "stages", "ddp", "servers"};
    static const char *const objects[] = {"layer_grad_norm", "layer_update_ratio"};
    run_all(context, folder, runs, names_, 4);
    for (int i = 0; i < 4; i += 2) {
        json_t *a = layers_of(folder, names_[i]), *b = layers_of(folder, names_[i + 1]);
        for (int k = 0; k < 2; k++) {
            json_t *x = json_object_get(a, objects[k]), *y = json_object_get(b, objects[k]);
            void *at = json_object_iter(x), *other = json_object_iter(y);
            assert_int_equal(json_object_size(x), 4);
            assert_int_equal(json_object_size(y), 4);
            for (; at; at = json_object_iter_next(x, at), other = json_object_iter_next(y, other)) {
                double value = json_number_value(json_object_iter_value(at));
                assert_string_equal(json_object_iter_key(at), json_object_iter_key(other));
                assert_true(value > 0);
                assert_near(json_number_value(json_object_iter_value(other)), value, 1e-9 * value);
            }
        }
        json_decref(a);
        json_decref(b);
    }
    assert_true(rungi_fs_exists(test_path(folder, "stages/layers.svg")));
    rung_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(every_pair_is_as_the_page_says), IN_FOLDER(sixteen_bits_under_exact),
        IN_FOLDER(sixteen_bits_in_stages),         IN_FOLDER(sixteen_bits_in_micro_batches),
        IN_FOLDER(asynchronous_workers),           IN_FOLDER(layers_of_all_ranks),
    };
    return RUN_TESTS(tests);
}
