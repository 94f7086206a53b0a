// SPDX-License-Identifier: Apache-2.0
// data.sampler through a session: which samples an epoch has, in which order, and going on in the
// middle of one.
#include "train/session.h"
#include "training.h"

enum { CATS = 30, DOGS = 3, SAMPLES = CATS + DOGS };

// Class folders whose classes differ ten times in size.
static void make_pictures(test_folder *folder)
{
    char name[64];
    static const char *const classes[] = {"pics/cat", "pics/dog"};
    for (int c = 0; c < 2; c++) {
        assert_ok(rungi_fs_make_folders(test_path(folder, classes[c])));
        for (int i = 0; i < (c ? DOGS : CATS); i++) {
            char *path;
            snprintf(name, sizeof name, "%s/%02d.pgm", classes[c], i);
            path = rungi_path_join(folder->path, name);
            test_write(path, "P5 1 1 255\n\x07", 12);
            free(path);
        }
    }
}

// Lines of 1 to 20 words, two classes.
static void make_text(test_folder *folder)
{
    FILE *file = fopen(test_path(folder, "lines.csv"), "w");
    assert_non_null(file);
    fputs("text,label\n", file);
    for (int i = 0; i < 200; i++) {
        for (int k = 0; k <= i * 7 % 20; k++)
            fputs("word ", file);
        fprintf(file, "end,%d\n", i % 2);
    }
    assert_int_equal(fclose(file), 0);
}

typedef struct opened {
    rung_context *context;
    rung_config *config;
    rungi_session *s;
    training_log log;
} opened;

static rung_status open_with(test_folder *folder, const char *format, const char *name,
                             const char *const *settings, opened *o)
{
    char text[512];
    o->context = training_context(&o->log);
    o->s = NULL;
    snprintf(text, sizeof text, "data: {format: %s, path: %s/%s, batch_size: 10%s}\n", format,
             folder->path, name, strcmp(format, "text") == 0 ? "" : ", resize: [1, 1]");
    o->config = training_config(o->context, text, settings);
    return rungi_session_of_data(o->context, o->config, RUNGI_SESSION_TRAIN, &o->s);
}

static void close_all(opened *o)
{
    rungi_session_destroy(&o->s);
    rung_config_destroy(&o->config);
    rung_context_destroy(&o->context);
}

// The samples and labels of the next `count` positions.
static void take(opened *o, int64_t count, int64_t *samples, int64_t *labels)
{
    for (int64_t done = 0; done < count;) {
        rung_batch batch;
        assert_ok(rungi_session_next(o->s, 0, &batch));
        for (int64_t i = 0; i < batch.count && done < count; i++, done++) {
            samples[done] = batch.samples[i];
            if (labels)
                labels[done] = ((const int64_t *)batch.fields[1].data)[i];
        }
        rungi_session_release(o->s, &batch);
    }
}

// One of eleven samples is a dog; half of the draws are.
static void classes_weigh_the_same(void **state)
{
    enum { EPOCHS = 60 };
    static int64_t samples[EPOCHS * SAMPLES], labels[EPOCHS * SAMPLES];
    opened o;
    int64_t dogs = 0, again = 0;
    make_pictures(*state);
    assert_ok(open_with(*state, "image_folder", "pics",
                        (const char *const[]){"data.sampler=weighted", "data.num_workers=2", NULL},
                        &o));
    take(&o, EPOCHS * SAMPLES, samples, labels);
    for (int i = 0; i < EPOCHS * SAMPLES; i++)
        dogs += labels[i];
    // 1,980 draws: five standard deviations are 111.
    assert_true(dogs > 990 - 111 && dogs < 990 + 111);
    for (int i = 1; i < SAMPLES; i++)
        for (int k = 0; k < i; k++)
            again += samples[i] == samples[k];
    assert_true(again > 0);
    // From the middle of the second epoch on: the same.
    int64_t rest[SAMPLES];
    assert_ok(rungi_session_seek(o.s, 1, 20));
    take(&o, SAMPLES - 20, rest, NULL);
    assert_memory_equal(rest, samples + SAMPLES + 20, (SAMPLES - 20) * sizeof *rest);
    close_all(&o);
}

static void without_replacement_each_once(void **state)
{
    int64_t samples[12];
    opened o;
    make_pictures(*state);
    assert_ok(open_with(*state, "image_folder", "pics",
                        (const char *const[]){"data.sampler=weighted", "data.replacement=false",
                                              "data.draws=12", NULL},
                        &o));
    rung_loader_info info;
    rung_loader_describe(o.s->train_loader, &info);
    assert_int_equal(info.samples_per_epoch, 12);
    take(&o, 12, samples, NULL);
    for (int i = 1; i < 12; i++)
        for (int k = 0; k < i; k++)
            assert_int_not_equal(samples[i], samples[k]);
    close_all(&o);
}

// Only samples 4 and 31 have a weight, 4 three times as much; and what validation holds back is
// never drawn.
static void weights_from_a_file(void **state)
{
    enum { DRAWS = 2000 };
    static int64_t samples[DRAWS];
    char text[SAMPLES * 4 + 1] = "", setting[320];
    opened o;
    int64_t fours = 0;
    make_pictures(*state);
    for (int i = 0; i < SAMPLES; i++)
        strcat(text, i == 4 ? "3\r\n" : i == 31 ? "1 \n" : "0\n");
    const char *path = test_path(*state, "weights.txt");
    test_write(path, text, strlen(text));
    snprintf(setting, sizeof setting, "data.weights=%s", path);
    const char *settings[] = {"data.sampler=weighted", "data.draws=2000", setting, NULL, NULL};
    assert_ok(open_with(*state, "image_folder", "pics", settings, &o));
    take(&o, DRAWS, samples, NULL);
    for (int i = 0; i < DRAWS; i++) {
        assert_true(samples[i] == 4 || samples[i] == 31);
        fours += samples[i] == 4;
    }
    assert_true(fours > 1500 - 97 && fours < 1500 + 97); // five standard deviations
    close_all(&o);
    test_write(path, text, strlen(text) - 2);
    assert_fails(RUNG_MISMATCH, "has 32 weights, one a line, but there are 33 training samples",
                 open_with(*state, "image_folder", "pics", settings, &o));
    close_all(&o);
    test_write(path, "1\n\n", 3);
    assert_fails(RUNG_FORMAT, "weights.txt: line 2 is no number",
                 open_with(*state, "image_folder", "pics", settings, &o));
    close_all(&o);
}

static void held_back_is_never_drawn(void **state)
{
    enum { DRAWS = 1000 };
    static int64_t samples[DRAWS];
    opened o;
    bool held[SAMPLES];
    make_pictures(*state);
    assert_ok(open_with(*state, "image_folder", "pics",
                        (const char *const[]){"data.sampler=weighted", "data.val.split=0.5",
                                              "data.val.split_by=name", NULL},
                        &o));
    assert_ok(rung_split_by_name(o.s->train_source, NULL, 0.5, held));
    take(&o, DRAWS, samples, NULL);
    for (int i = 0; i < DRAWS; i++)
        assert_false(held[samples[i]]);
    close_all(&o);
}

// Batches hold lines of similar length, each line once an epoch, and any place can be returned to.
static void batches_of_similar_length(void **state)
{
    static int64_t samples[400], rest[100];
    int64_t seen[200] = {0};
    opened o;
    make_text(*state);
    assert_ok(open_with(*state, "text", "lines.csv",
                        (const char *const[]){"data.sampler=by_length", NULL}, &o));
    take(&o, 400, samples, NULL);
    for (int i = 0; i < 200; i++)
        seen[samples[i]]++;
    for (int i = 0; i < 200; i++)
        assert_int_equal(seen[i], 1);
    for (int b = 0; b < 20; b++) { // ten of each length: a batch has two lengths at most
        int64_t least = 100, most = 0;
        for (int i = 0; i < 10; i++) {
            int64_t length = samples[10 * b + i] * 7 % 20;
            least = length < least ? length : least;
            most = length > most ? length : most;
        }
        assert_true(most - least <= 1);
    }
    assert_memory_not_equal(samples, samples + 200, 200 * sizeof *samples);
    assert_ok(rungi_session_seek(o.s, 1, 100));
    take(&o, 100, rest, NULL);
    assert_memory_equal(rest, samples + 300, sizeof rest);
    close_all(&o);
}

static void what_does_not_fit_is_refused(void **state)
{
    opened o;
    make_pictures(*state);
    assert_fails(RUNG_UNSUPPORTED,
                 "data.sampler: by_length: image_folder: its samples have no "
                 "length",
                 open_with(*state, "image_folder", "pics",
                           (const char *const[]){"data.sampler=by_length", NULL}, &o));
    close_all(&o);
    assert_fails(RUNG_DATA, "40 draws without replacement, but only 33",
                 open_with(*state, "image_folder", "pics",
                           (const char *const[]){"data.sampler=weighted", "data.draws=40",
                                                 "data.replacement=false", NULL},
                           &o));
    close_all(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(classes_weigh_the_same),    IN_FOLDER(without_replacement_each_once),
        IN_FOLDER(weights_from_a_file),       IN_FOLDER(held_back_is_never_drawn),
        IN_FOLDER(batches_of_similar_length), IN_FOLDER(what_does_not_fit_is_refused),
    };
    return RUN_TESTS(tests);
}
