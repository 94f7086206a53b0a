// SPDX-License-Identifier: Apache-2.0
// Conversions: the same samples come out of every format, resized pixels are Pillow's, what was
// begun is taken up, and nothing half-written has the final name.
#include <fcntl.h>
#include <sys/file.h>

#include "formats/crc32c.h"
#include "group_testing.h"
#include "rung/convert.h"
#include "rung/npy.h"
#include "rung/pack.h"

#define IMAGES RUNG_SOURCE_DIR "/tests/fixtures/images/"
#define NPZ RUNG_SOURCE_DIR "/tests/fixtures/npz/"

// A folder of pictures of two classes.
static int set_up(void **state)
{
    group_set_up(state);
    char command[2048];
    snprintf(command, sizeof command,
             "cd '%s' && mkdir -p pics/ant pics/bee && cp " IMAGES "rgb_4*.jpg " IMAGES
             "lossy.webp pics/ant && cp " IMAGES "photo.png " IMAGES "grey.jpg pics/bee",
             folder.path);
    return system(command);
}

typedef struct told {
    int64_t writing, checking, stop_at;
} told;

static bool tell(void *user, const char *stage, int64_t done, int64_t total)
{
    told *t = user;
    assert_true(done <= total);
    *(strcmp(stage, "writing") == 0 ? &t->writing : &t->checking) = done;
    return !t->stop_at || done < t->stop_at;
}

static bool is_there(const char *name)
{
    return access(test_path(&folder, name), F_OK) == 0;
}

// A number for all samples of a source, in order: bytes and labels.
static uint32_t sum_of(rung_source *source)
{
    static int64_t rooms[2][1 << 16];
    void *worker = NULL;
    uint32_t sum = 0;
    if (source->open)
        assert_ok(source->open(source->self, 0, &worker));
    for (int64_t i = 0; i < source->count; i++) {
        rung_view views[2];
        for (int f = 0; f < 2; f++)
            views[f] = (rung_view){source->fields[f].dtype, source->fields[f].shape, rooms[f]};
        assert_ok(
            source->read(source->self, worker, &(rung_sample){.index = i, .may_borrow = 1}, views));
        int64_t count;
        assert_ok(rung_shape_count(&views[0].shape, &count));
        sum = rungi_crc32c(sum, views[0].data, (size_t)count);
        sum = rungi_crc32c(sum, views[1].data, 8);
    }
    if (source->close)
        source->close(source->self, worker);
    return sum;
}

static rung_source *open_as(const char *format, const char *name, const char *split)
{
    rung_source *source;
    assert_ok(rung_source_open(context, format, test_path(&folder, name), split, &source));
    return source;
}

static rung_convert_report convert(rung_convert_options options, const char *from, const char *to)
{
    rung_convert_report report;
    options.from = *from == '/' ? from : test_path(&folder, from);
    options.to = test_path(&folder, to);
    assert_ok(rung_convert_data(context, &options, &report));
    char partial[PATH_MAX];
    snprintf(partial, sizeof partial, "%s.partial", to);
    assert_false(is_there(partial));
    snprintf(partial, sizeof partial, "%s.partial-index", to);
    assert_false(is_there(partial));
    return report;
}

// From a folder to each kind and back: bytes, labels, order and class names stay.
static void pictures_go_round(void **state)
{
    (void)state;
    told t = {0};
    rung_convert_options o = {.progress = tell, .progress_user = &t};
    rung_source *source = open_as("image_folder", "pics", "train");
    uint32_t sum = sum_of(source);
    rung_source_destroy(&source);

    rung_convert_report report = convert(o, "pics", "a.pack");
    assert_int_equal(report.samples, 6);
    assert_string_equal(report.format, "image_folder");
    assert_string_equal(report.split, "all");
    assert_true(t.writing == 6 && t.checking == 6);
    convert(o, "a.pack", "b.tar");
    o.shard = 4;
    o.kind = RUNG_CONVERT_TAR;
    convert(o, "b.tar", "c");
    assert_true(is_there("c/shard-000000.tar") && is_there("c/shard-000001.tar"));
    assert_false(is_there("c/.stamp"));
    o.shard = 0;
    o.kind = RUNG_CONVERT_FOLDER;
    convert(o, "c", "d");
    assert_true(is_there("d/bee/00000005.png") && is_there("d/ant/00000000.webp"));
    static const struct {
        const char *format, *name;
    } made[] = {{"pack", "a.pack"}, {"tar", "b.tar"}, {"tar", "c"}, {"image_folder", "d"}};
    for (int i = 0; i < 4; i++) {
        source = open_as(made[i].format, made[i].name, "train");
        assert_int_equal(source->count, 6);
        assert_int_equal(source->class_count, 2);
        assert_string_equal(source->class_names[0], "ant");
        assert_string_equal(source->class_names[1], "bee");
        assert_int_equal(sum_of(source), sum);
        rung_source_destroy(&source);
    }
    // A pack keeps the names.
    char place[512];
    source = open_as("pack", "a.pack", "train");
    source->describe(source->self, 5, place, sizeof place);
    assert_non_null(strstr(place, "a.pack, bee/photo.png"));
    rung_source_destroy(&source);
    o.kind = RUNG_CONVERT_AUTO;
    o.from = test_path(&folder, "pics");
    o.to = test_path(&folder, "a.pack");
    assert_fails(RUNG_INVALID, "a.pack: exists already", rung_convert_data(context, &o, &report));
}

// Arrays go to a pack and to npy as they are, and through PNG without loss.
static void arrays_go_round(void **state)
{
    (void)state;
    rung_source *source;
    assert_ok(rung_source_open(context, "npy", NPZ "stored.npz", "train", &source));
    uint32_t sum = sum_of(source);
    rung_source_destroy(&source);
    rung_convert_report report = convert((rung_convert_options){0}, NPZ "stored.npz", "n.pack");
    assert_string_equal(report.split, "train");
    convert((rung_convert_options){.kind = RUNG_CONVERT_NPY, .split = "all"}, "n.pack", "n1");
    convert((rung_convert_options){.kind = RUNG_CONVERT_NPY, .split = "test"}, NPZ "stored.npz",
            "n2");
    convert((rung_convert_options){0}, "n.pack", "n.tar");
    convert((rung_convert_options){.kind = RUNG_CONVERT_FOLDER}, "n.pack", "n3");
    convert(
        (rung_convert_options){.height = 4, .width = 5, .kind = RUNG_CONVERT_NPY, .channels = 1},
        "n3", "n4");
    // Of one channel, planes and interleaved pixels lie alike; folders come by class.
    static const struct {
        const char *format, *name, *split;
    } same[] = {{"pack", "n.pack", "train"}, {"npy", "n1", "all"}};
    for (int i = 0; i < 2; i++) {
        source = open_as(same[i].format, same[i].name, same[i].split);
        assert_int_equal(sum_of(source), sum);
        rung_source_destroy(&source);
    }
    rung_view view;
    assert_ok(rung_npy_read(test_path(&folder, "n4/images.npy"), &view));
    assert_true(rung_shape_equal(&view.shape, &RUNG_SHAPE(6, 4, 5, 1)));
    static const int order[] = {0, 3, 1, 4, 2, 5}; // labels 0 1 2 0 1 2
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 20; k++)
            assert_int_equal(((const uint8_t *)view.data)[i * 20 + k], order[i] * 20 + k);
    free(view.data);
    assert_true(is_there("n2/x_test.npy") && is_there("n3/2/00000002.png"));
    source = open_as("tar", "n.tar", "train");
    assert_int_equal(source->count, 6);
    assert_int_equal(source->class_count, 3);
    rung_source_destroy(&source);
}

// Folders whose order would not be that of the classes get numbers.
static void numbered_folders(void **state)
{
    (void)state;
    rung_pack_writer *writer;
    rung_field fields[] = {{"image", RUNG_U8, RUNG_SHAPE(1, 1, 3), RUNG_PIXELS_HWC},
                           {"label", RUNG_I64, RUNG_SCALAR, RUNG_PIXELS_NONE}};
    static const char *const names[] = {"z", "a/b", "", "m", "c", "d", "e", "f", "g", "h", "i"};
    for (int count = 10; count <= 11; count++) {
        assert_ok(rung_pack_writer_create(
            context, test_path(&folder, "z.pack"),
            &(rung_pack_writer_options){
                .fields = fields, .field_count = 2, .class_count = 11, .class_names = names},
            &writer));
        for (int64_t i = 0; i < count; i++) {
            uint8_t pixel[] = {(uint8_t)i, 2, 3};
            rung_view views[] = {{RUNG_U8, fields[0].shape, pixel}, {RUNG_I64, RUNG_SCALAR, &i}};
            assert_ok(rung_pack_writer_add(writer, "", views));
        }
        assert_ok(rung_pack_writer_finish(&writer, NULL, NULL));
        if (count == 10) {
            rung_convert_options o = {.from = test_path(&folder, "z.pack"),
                                      .to = test_path(&folder, "z"),
                                      .kind = RUNG_CONVERT_FOLDER};
            assert_fails(RUNG_DATA, "class 10_i has no samples",
                         rung_convert_data(context, &o, NULL));
        }
    }
    convert((rung_convert_options){.kind = RUNG_CONVERT_FOLDER}, "z.pack", "z");
    assert_true(is_there("z/00_z") && is_there("z/01_a_b") && is_there("z/02") &&
                is_there("z/10_i/00000010.png"));
}

// photo.png (97 x 71) at 110 x 90, as Pillow resizes it, and with the aspect kept.
static void raw_is_pillows(void **state)
{
    (void)state;
    rung_view expected;
    assert_ok(rung_npy_read(IMAGES "resize.npy", &expected));
    for (int workers = 0; workers < 3; workers += 2) {
        char to[32];
        snprintf(to, sizeof to, "r%d.pack", workers);
        convert((rung_convert_options){.height = 90, .width = 110, .num_workers = workers}, "pics",
                to);
        rung_source *source = open_as("pack", to, "train");
        assert_true(rung_shape_equal(&source->fields[0].shape, &RUNG_SHAPE(90, 110, 3)));
        assert_int_equal(source->fields[0].pixels, RUNG_PIXELS_HWC);
        int64_t label;
        rung_view views[] = {{RUNG_U8, source->fields[0].shape, NULL},
                             {RUNG_I64, RUNG_SCALAR, &label}};
        assert_ok(
            source->read(source->self, NULL, &(rung_sample){.index = 5, .may_borrow = 1}, views));
        assert_memory_equal(views[0].data, (const uint8_t *)expected.data + 21888,
                            (size_t)90 * 110 * 3);
        assert_int_equal(label, 1);
        rung_source_destroy(&source);
    }
    free(expected.data);
    // Resize(40) and CenterCrop(32) of torchvision: chains.txt, its first line, scaled to our rule.
    convert((rung_convert_options){.height = 40, .width = 30, .crop = true}, "pics", "rc.pack");
    rung_source *source = open_as("pack", "rc.pack", "train");
    assert_true(rung_shape_equal(&source->fields[0].shape, &RUNG_SHAPE(40, 30, 3)));
    rung_source_destroy(&source);
}

// Stopped after each number of samples, then taken up: the same as at one go.
static void taken_up(void **state)
{
    (void)state;
    static const struct {
        rung_convert_kind kind;
        const char *whole, *parts;
        int raw;
    } kinds[] = {{RUNG_CONVERT_PACK, "t0.pack", "t1.pack", 0},
                 {RUNG_CONVERT_PACK, "t2.pack", "t3.pack", 24},
                 {RUNG_CONVERT_TAR, "t4.tar", "t5.tar", 0},
                 {RUNG_CONVERT_NPY, "t6", "t7", 24},
                 {RUNG_CONVERT_FOLDER, "t8", "t9", 24}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        told t = {0};
        rung_convert_options o = {.kind = kinds[k].kind,
                                  .height = kinds[k].raw,
                                  .width = kinds[k].raw,
                                  .from = test_path(&folder, "pics"),
                                  .to = test_path(&folder, kinds[k].parts),
                                  .progress = tell,
                                  .progress_user = &t};
        convert((rung_convert_options){.kind = o.kind, .height = o.height, .width = o.width},
                "pics", kinds[k].whole);
        t.stop_at = 1;
        assert_fails(RUNG_CANCELLED, "stopped while writing", rung_convert_data(context, &o, NULL));
        assert_false(is_there(kinds[k].parts));
        if (o.kind == RUNG_CONVERT_PACK) { // stopped in the check
            t.stop_at = 6;
            assert_fails(RUNG_CANCELLED, "stopped while", rung_convert_data(context, &o, NULL));
            assert_false(is_there(kinds[k].parts));
        }
        t.stop_at = 0;
        rung_convert_report report;
        assert_ok(rung_convert_data(context, &o, &report));
        assert_int_equal(report.samples, 6);
        char command[4096];
        snprintf(command, sizeof command, "cd '%s' && diff -r '%s' '%s'", folder.path,
                 kinds[k].whole, kinds[k].parts);
        assert_int_equal(system(command), 0);
        char partial[64];
        snprintf(partial, sizeof partial, "%s.partial", kinds[k].parts);
        assert_false(is_there(partial));
    }
}

// C67: a bad sample stops by name, or is left out and counted.
static void bad_samples(void **state)
{
    (void)state;
    char command[1024];
    snprintf(command, sizeof command,
             "cd '%s' && cp -r pics bad && head -c 700 bad/ant/rgb_422.jpg >x && "
             "mv x bad/ant/rgb_422.jpg && echo no picture >bad/bee/aa.jpg && : >bad/bee/empty.jpg",
             folder.path);
    assert_int_equal(system(command), 0);
    static const rung_convert_kind kinds[] = {RUNG_CONVERT_PACK, RUNG_CONVERT_TAR,
                                              RUNG_CONVERT_FOLDER};
    for (int k = 0; k < 3; k++)
        for (int raw = 0; raw < 2; raw++) {
            rung_convert_report report;
            rung_convert_options o = {.kind = kinds[k],
                                      .from = test_path(&folder, "bad"),
                                      .to = test_path(&folder, "bad.out"),
                                      .height = raw ? 16 : 0,
                                      .width = raw ? 16 : 0};
            rung_status status = rung_convert_data(context, &o, &report);
            assert_int_not_equal(status, RUNG_OK);
            const char *named = raw ? "rgb_422.jpg" : k ? "bee/aa.jpg" : "bee/empty.jpg";
            if (!strstr(rung_error_last()->message, named))
                fail_msg("kind %d raw %d: %s", k, raw, rung_error_last()->message);
            assert_false(is_there("bad.out"));
            o.skip_bad = true;
            assert_ok(rung_convert_data(context, &o, &report));
            // As they are, pictures are not decoded: a pack takes the cut one and the text.
            int64_t left_out = raw ? 3 : k ? 2 : 1;
            assert_int_equal(report.left_out, left_out);
            assert_int_equal(report.samples, 8 - left_out);
            snprintf(command, sizeof command, "rm -r '%s/bad.out'", folder.path);
            assert_int_equal(system(command), 0);
        }
}

static void refusals(void **state)
{
    (void)state;
    char *pics = strdup(test_path(&folder, "pics"));
    static const struct {
        rung_convert_options o;
        rung_status code;
        const char *text;
    } cases[] = {
        {{.to = "x"}, RUNG_INVALID, "what is to be made?"},
        {{.to = "x.pack", .shard = 3}, RUNG_INVALID, "only tar archives come in shards"},
        {{.to = "x.pack", .height = 3}, RUNG_INVALID, "raw pixels of 3 x 0"},
        {{.to = "x.pack", .crop = true}, RUNG_INVALID, "belong to raw pixels"},
        {{.to = "x", .kind = RUNG_CONVERT_NPY}, RUNG_MISMATCH, "tell the size that they get"},
        {{.to = "no/where/x.pack"}, RUNG_NOT_FOUND, "there is no folder"},
        {{.to = "x.pack", .format = "idx"}, RUNG_NOT_FOUND, ""},
        {{.to = "x.pack", .split = "test"}, RUNG_NOT_FOUND, "has no val or test"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rung_convert_options o = cases[i].o;
        o.from = pics;
        o.to = test_path(&folder, o.to);
        assert_fails(cases[i].code, cases[i].text, rung_convert_data(context, &o, NULL));
    }
    free(pics);
    const char *format;
    assert_fails(RUNG_NOT_FOUND, "no such file", rung_source_guess("/no/where", &format));
    assert_fails(RUNG_FORMAT, "cannot be told", rung_source_guess(IMAGES "photo.png", &format));
}

// C74: class names with accents, of other scripts, with a blank, of 200 bytes, and not UTF-8 come
// through every format.
static void names_of_all_kinds(void **state)
{
    (void)state;
    char longest[201], command[4096];
    memset(longest, 'n', 200);
    longest[200] = '\0';
    const char *const folders[] = {"bad\xff", longest, "two words", "\u00e9t\u00e9", "\u732b"};
    const char *const classes[] = {"bad\\xff", longest, "two words", "\u00e9t\u00e9", "\u732b"};
    for (int i = 0; i < 5; i++) {
        snprintf(command, sizeof command,
                 "mkdir -p '%s/odd/%s' && cp " IMAGES "grey.jpg '%s/odd/%s/\u00fc b.jpg'",
                 folder.path, folders[i], folder.path, folders[i]);
        assert_int_equal(system(command), 0);
    }
    convert((rung_convert_options){0}, "odd", "odd.pack");
    convert((rung_convert_options){0}, "odd", "odd.tar");
    convert((rung_convert_options){.kind = RUNG_CONVERT_FOLDER}, "odd.pack", "odd2");
    static const struct {
        const char *format, *name;
    } made[] = {{"image_folder", "odd"},
                {"pack", "odd.pack"},
                {"tar", "odd.tar"},
                {"image_folder", "odd2"}};
    for (int m = 0; m < 4; m++) {
        rung_source *source = open_as(made[m].format, made[m].name, "train");
        assert_int_equal(source->count, 5);
        assert_int_equal(source->class_count, 5);
        for (int i = 0; i < 5; i++)
            assert_string_equal(source->class_names[i], classes[i]);
        rung_source_destroy(&source);
    }
    rung_source *source = open_as("pack", "odd.pack", "train");
    char place[512];
    source->describe(source->self, 3, place, sizeof place);
    assert_non_null(strstr(place, ", \u00e9t\u00e9/\u00fc b.jpg"));
    rung_source_destroy(&source);
}

// What lies there is told by names, of token files by how they begin.
static void guesses(void **state)
{
    (void)state;
    static const struct {
        const char *files, *path, *format; // made with touch; of g0, g1, ...
    } cases[] = {
        {"a.pack", "", "pack"},
        {"train-images-idx3-ubyte.gz", "", "idx"},
        {"data_batch_1.bin test_batch.bin", "", "cifar10"},
        {"fine_label_names.txt train.bin", "", "cifar100"},
        {"train.bin", "", "cifar100"},
        {"x_train.npy y_train.npy", "", "npy"},
        {"train.csv", "", "list"},
        {"a-0.tar.zst", "", "tar"},
        {"a-0.tar", "a-{0..3}.tar", "tar"},
        {"cat/1.jpg dog/2.jpg", "", "image_folder"},
        {"train/cat/1.jpg val/cat/2.jpg", "", "image_folder"},
        {"train/0.tar val/0.tar", "", "tar"},
        {"x.tsv", "x.tsv", "list"},
        {"x.npz", "x.npz", "npy"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char command[1024], path[PATH_MAX];
        const char *format;
        snprintf(command, sizeof command,
                 "cd '%s' && mkdir g%zu && cd g%zu && for f in %s; do mkdir -p $(dirname $f); "
                 "touch $f; done",
                 folder.path, i, i, cases[i].files);
        assert_int_equal(system(command), 0);
        snprintf(path, sizeof path, "%s/g%zu%s%s", folder.path, i, *cases[i].path ? "/" : "",
                 cases[i].path);
        assert_ok(rung_source_guess(path, &format));
        assert_string_equal(format, cases[i].format);
    }
    const char *format;
    assert_ok(rung_source_guess(RUNG_SOURCE_DIR "/tests/fixtures/tokens", &format));
    assert_string_equal(format, "tokens");
}

// A folder that another process is making is left alone; once it has ended, the same call goes on.
static void one_at_a_time(void **state)
{
    (void)state;
    const rung_convert_kind kinds[] = {RUNG_CONVERT_FOLDER, RUNG_CONVERT_NPY, RUNG_CONVERT_TAR};
    for (int k = 0; k < 3; k++) {
        char name[32], partial[64];
        snprintf(name, sizeof name, "locked-%d", k);
        snprintf(partial, sizeof partial, "%s.partial", name);
        const char *path = test_path(&folder, partial);
        assert_int_equal(mkdir(path, 0777), 0);
        int fd = open(path, O_RDONLY | O_DIRECTORY);
        assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
        rung_convert_options options = {.from = test_path(&folder, "pics"),
                                        .to = test_path(&folder, name),
                                        .kind = kinds[k],
                                        .shard = kinds[k] == RUNG_CONVERT_TAR ? 2 : 0};
        options.height = options.width = kinds[k] == RUNG_CONVERT_NPY ? 4 : 0;
        rung_convert_report report;
        assert_fails(RUNG_IO, "another process is writing it",
                     rung_convert_data(context, &options, &report));
        close(fd);
        assert_ok(rung_convert_data(context, &options, &report));
        assert_true(is_there(name) && !is_there(partial));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_at_a_time),   cmocka_unit_test(pictures_go_round),
        cmocka_unit_test(arrays_go_round), cmocka_unit_test(numbered_folders),
        cmocka_unit_test(raw_is_pillows),  cmocka_unit_test(taken_up),
        cmocka_unit_test(bad_samples),     cmocka_unit_test(refusals),
        cmocka_unit_test(guesses),         cmocka_unit_test(names_of_all_kinds),
    };
    return RUN_GROUP(tests, set_up);
}
