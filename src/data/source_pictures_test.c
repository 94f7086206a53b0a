// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
// Sources of pictures as files: folders, lists, tar archives; names of all kinds; what is missing,
// cut or changed. The archives are made by tar(1) or here.
#include "data/survey.h"
#include "data_testing.h"
#include "rung/npy.h"

#define IMAGES RUNG_SOURCE_DIR "/tests/fixtures/images/"

static rung_context *context;
static test_log messages;
static test_folder folder;

static int set_up(void **state)
{
    (void)state;
    context = test_context(&messages, NULL);
    test_folder_make(&folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    test_folder_remove(&folder);
    rung_context_destroy(&context);
    return 0;
}

// Copies a fixture to FOLDER/NAME, with the folders above.
static void put(const char *fixture, const char *name)
{
    char from[256];
    static char bytes[1 << 16];
    snprintf(from, sizeof from, IMAGES "%s", fixture);
    size_t size = test_read(from, bytes, sizeof bytes);
    char *path = strdup(test_path(&folder, name));
    for (char *slash = strchr(path + strlen(folder.path) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0777);
        *slash = '/';
    }
    free(path);
    test_write(&folder, name, bytes, size);
}

static void put_text(const char *name, const char *text)
{
    test_write(&folder, name, text, strlen(text));
}

// "label:place" of each sample, one a line, read through the source.
static char *list_samples(rung_source *source)
{
    static char out[1 << 14];
    void *state = NULL;
    assert_ok(source->open(source->self, 0, &state));
    size_t used = 0;
    for (int64_t i = 0; i < source->count; i++) {
        int64_t label = -1;
        char place[512], escaped[600];
        rung_sample sample = {.index = i, .may_borrow = 1};
        rung_view views[2] = {{RUNG_U8, {1, {0}}, NULL}, {RUNG_I64, RUNG_SCALAR, &label}};
        assert_ok(source->read(source->self, state, &sample, views));
        rung_image image;
        assert_ok(rung_image_decode(views[0].data, (size_t)views[0].shape.dim[0], "x", 3, &image));
        rung_image_fini(&image);
        source->describe(source->self, i, place, sizeof place);
        snprintf(escaped, sizeof escaped, "%s", place + strlen(folder.path) + 1);
        used += (size_t)snprintf(out + used, sizeof out - used, "%d:%s\n", (int)label, escaped);
    }
    source->close(source->self, state);
    return out;
}

static void image_folder_as_torchvision(void **state)
{
    (void)state;
    rung_source *source;
    put("grey.jpg", "d/b/z.JPG");
    put("grey.jpg", "d/b/a.jpeg");
    put("exif_1.png", "d/b/sub/c.png");
    put("exif_1.png", "d/b-2/sub/c.png");
    put("lossy.webp", "d/b-2/x.webp");
    put("cmyk.jpg", "d/a/x.y.jpg");
    put("cmyk.jpg", "d/B/1.jpg");
    put_text("d/b/notes.txt", "no picture");
    put_text("d/README", "no class");
    assert_ok(rung_source_image_folder(context, test_path(&folder, "d"), &source));
    assert_string_equal(list_samples(source), "0:d/B/1.jpg\n"
                                              "1:d/a/x.y.jpg\n"
                                              "2:d/b/a.jpeg\n"
                                              "2:d/b/z.JPG\n"
                                              "2:d/b/sub/c.png\n"
                                              "3:d/b-2/x.webp\n"
                                              "3:d/b-2/sub/c.png\n");
    assert_int_equal(source->class_count, 4);
    assert_string_equal(source->class_names[3], "b-2");
    assert_non_null(strstr(messages.text, "1 files are left out"));
    rung_source_destroy(&source);
}

// C74: accents, other scripts, blanks, 200 bytes, and bytes that are no UTF-8.
static void names_of_all_kinds(void **state)
{
    (void)state;
    rung_source *source;
    char longest[256] = "n/";
    memset(longest + 2, 'x', 200);
    strcpy(longest + 202, "/a b.jpg");
    put("grey.jpg", longest);
    put("grey.jpg", "n/caf\xc3\xa9 cr\xc3\xa8me/1 2.jpg");
    put("grey.jpg", "n/\xe7\x8c\xab/\xe7\x8b\x97.jpg");
    put("grey.jpg", "n/bad\xff\xfe/\xc3.jpg");
    assert_ok(rung_source_image_folder(context, test_path(&folder, "n"), &source));
    list_samples(source); // all are read
    assert_int_equal(source->class_count, 4);
    assert_string_equal(source->class_names[0], "bad\\xff\\xfe");
    assert_string_equal(source->class_names[1], "caf\xc3\xa9 cr\xc3\xa8me");
    assert_int_equal(strlen(source->class_names[2]), 200);
    assert_string_equal(source->class_names[3], "\xe7\x8c\xab");
    rung_source_destroy(&source);
}

static void image_folder_refusals(void **state)
{
    (void)state;
    rung_source *source;
    mkdir(test_path(&folder, "e"), 0777);
    assert_fails(RUNG_NOT_FOUND, "nowhere",
                 rung_source_image_folder(context, test_path(&folder, "nowhere"), &source));
    assert_fails(RUNG_DATA, "has no folders",
                 rung_source_image_folder(context, test_path(&folder, "e"), &source));
    put("grey.jpg", "e/full/1.jpg");
    mkdir(test_path(&folder, "e/empty"), 0777);
    assert_fails(RUNG_DATA, "class empty holds no pictures",
                 rung_source_image_folder(context, test_path(&folder, "e"), &source));
    assert_int_equal(rmdir(test_path(&folder, "e/empty")), 0);
    assert_int_equal(symlink("..", test_path(&folder, "e/full/up")), 0);
    assert_fails(RUNG_DATA, "round in a circle",
                 rung_source_image_folder(context, test_path(&folder, "e"), &source));
}

static void splits(void **state)
{
    (void)state;
    rung_source *source;
    const char *path = test_path(&folder, "s");
    put("grey.jpg", "s/train/a/1.jpg");
    put("grey.jpg", "s/train/b/1.jpg");
    assert_fails(RUNG_NOT_FOUND, "has no val or test for validation: set data.val.path",
                 rung_source_open(context, "image_folder", path, "test", &source));
    put("grey.jpg", "s/val/a/2.jpg");
    assert_ok(rung_source_open(context, "image_folder", path, "train", &source));
    assert_string_equal(list_samples(source), "0:s/train/a/1.jpg\n1:s/train/b/1.jpg\n");
    rung_source_destroy(&source);
    assert_ok(rung_source_open(context, "image_folder", path, "test", &source));
    assert_string_equal(list_samples(source), "0:s/val/a/2.jpg\n");
    rung_source_destroy(&source);
    assert_ok(rung_source_open(context, "image_folder", path, "all", &source));
    assert_string_equal(list_samples(source),
                        "0:s/train/a/1.jpg\n0:s/train/b/1.jpg\n1:s/val/a/2.jpg\n");
    rung_source_destroy(&source);
    assert_fails(RUNG_CONFIG, "no split is called dev",
                 rung_source_open(context, "image_folder", path, "dev", &source));
    assert_fails(RUNG_CONFIG, "did you mean image_folder",
                 rung_source_open(context, "image_foler", path, "train", &source));
}

static void lists(void **state)
{
    (void)state;
    rung_source *source;
    put("grey.jpg", "l/a b.jpg");
    put("grey.jpg", "l/c,\"d.jpg");
    put("grey.jpg", "l/caf\xc3\xa9.jpg");
    const char *path = test_path(&folder, "l/x.csv");
    put_text("l/x.csv", "path,label\r\na b.jpg,3\r\n\"c,\"\"d.jpg\",0\r\n\r\ncaf\xc3\xa9.jpg,1");
    assert_ok(rung_source_list(context, path, &source));
    assert_string_equal(list_samples(source), "3:l/a b.jpg\n0:l/c,\"d.jpg\n1:l/caf\xc3\xa9.jpg\n");
    assert_int_equal(source->class_count, 4);
    assert_null(source->class_names);
    rung_source_destroy(&source);
    // Tabs; no header; names of classes.
    put_text("l/x.csv", "\xef\xbb\xbf"
                        "a b.jpg\tdog\nc,\"d.jpg\tcat\n");
    assert_ok(rung_source_list(context, path, &source));
    assert_string_equal(list_samples(source), "1:l/a b.jpg\n0:l/c,\"d.jpg\n");
    assert_string_equal(source->class_names[1], "dog");
    rung_source_destroy(&source);
    // Several labels.
    put_text("l/x.csv", "file,red,green,blue\na b.jpg,1,0,1\ncaf\xc3\xa9.jpg,0,0,0\n");
    assert_ok(rung_source_list(context, path, &source));
    assert_int_equal(source->count, 2);
    assert_string_equal(source->class_names[2], "blue");
    assert_true(rung_shape_equal(&source->fields[1].shape, &RUNG_SHAPE(3)));
    void *worker;
    float bits[3];
    rung_view views[2] = {{RUNG_U8, {1, {0}}, NULL}, {RUNG_F32, RUNG_SHAPE(3), bits}};
    assert_ok(source->open(source->self, 0, &worker));
    assert_ok(source->read(source->self, worker, &(rung_sample){.may_borrow = 1}, views));
    assert_true(bits[0] == 1 && bits[1] == 0 && bits[2] == 1);
    source->close(source->self, worker);
    rung_source_destroy(&source);
}

static void list_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text, *reason;
        rung_status status;
    } cases[] = {
        {"", "holds no pictures", RUNG_DATA},
        {"path,label\n", "holds no pictures", RUNG_DATA},
        {"a.jpg\nb.jpg\n", "line 1: has one column", RUNG_DATA},
        {"a.jpg,1\nb.jpg\n", "line 2: has 1 columns, the first row has 2", RUNG_DATA},
        {"a.jpg,1\n\n\nb,c.jpg,1\n", "line 4: has 3 columns", RUNG_DATA},
        {"a.jpg,1\nb.jpg,\n", "line 2: picture b.jpg has no label", RUNG_DATA},
        {"a.jpg,1\n,1\n", "line 2: names no picture", RUNG_DATA},
        {"a.jpg,1\n\"b.jpg,1\n", "line 2: a quote is never closed", RUNG_FORMAT},
        {"a.jpg,1\n\"b\"c.jpg,1\n", "line 2: text after a closing quote", RUNG_FORMAT},
        {"p,a,b\na.jpg,1,2\n", "line 2: label 2 is '2', must be 0 or 1", RUNG_DATA},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rung_source *source;
        put_text("bad.csv", cases[i].text);
        assert_fails(cases[i].status, cases[i].reason,
                     rung_source_list(context, test_path(&folder, "bad.csv"), &source));
    }
    rung_source *source;
    test_write(&folder, "bad.csv", "a.jpg,\0\n", 8);
    assert_fails(RUNG_FORMAT, "byte 6 is 0",
                 rung_source_list(context, test_path(&folder, "bad.csv"), &source));
    assert_fails(RUNG_NOT_FOUND, "none.csv",
                 rung_source_list(context, test_path(&folder, "none.csv"), &source));
}

// ---- tar

static void run_tar(const char *options, const char *names)
{
    char command[1024];
    snprintf(command, sizeof command, "cd '%s' && tar %s %s", folder.path, options, names);
    assert_int_equal(system(command), 0);
}

static rung_status open_tar(const char *name, rung_source **source)
{
    return rung_source_tar(context, test_path(&folder, name), source);
}

static void archives(void **state)
{
    (void)state;
    rung_source *source;
    put("grey.jpg", "w/0001.jpg");
    put_text("w/0001.cls", "7\n");
    put("grey.jpg", "w/0002.jpg");
    put_text("w/0002.cls", "2");
    put_text("w/0002.json", "{}");
    put("exif_1.png", "w/0003.seg.png");
    put_text("w/0003.cls", "0");
    char longest[256] = "w/";
    memset(longest + 2, 'y', 180);
    strcpy(longest + 182, ".jpg");
    put("grey.jpg", longest);
    strcpy(longest + 182, ".cls");
    put_text(longest, "1");
    // In every dialect, label before or behind the picture.
    static const char *const dialects[] = {
        "--format=gnu", "--format=pax", "--format=posix --sort=name", "--format=gnu --sort=name"};
    for (int i = 0; i < 4; i++) {
        char options[64];
        snprintf(options, sizeof options, "%s -cf w.tar", dialects[i]);
        run_tar(options, "w/0001.jpg w/0001.cls w/0002.cls w/0002.json w/0002.jpg w/0003.* w/y*");
        assert_ok(open_tar("w.tar", &source));
        char *listed = list_samples(source);
        assert_non_null(strstr(listed, "7:w.tar, w/0001.jpg\n2:w.tar, w/0002.jpg\n"
                                       "0:w.tar, w/0003.seg.png\n1:w.tar, w/yyy"));
        assert_int_equal(source->count, 4);
        assert_int_equal(source->class_count, 8);
        rung_source_destroy(&source);
    }
    // Ranges, and folders of archives.
    mkdir(test_path(&folder, "shards"), 0777);
    for (int i = 8; i <= 11; i++) {
        char options[64];
        snprintf(options, sizeof options, "-cf shards/p-%03d.tar", i);
        run_tar(options, i % 2 ? "w/0001.*" : "w/0002.*");
    }
    assert_ok(open_tar("shards/p-{008..011}.tar", &source));
    assert_string_equal(list_samples(source), "2:shards/p-008.tar, w/0002.jpg\n"
                                              "7:shards/p-009.tar, w/0001.jpg\n"
                                              "2:shards/p-010.tar, w/0002.jpg\n"
                                              "7:shards/p-011.tar, w/0001.jpg\n");
    rung_source_destroy(&source);
    assert_ok(open_tar("shards", &source));
    assert_int_equal(source->count, 4);
    rung_source_destroy(&source);
    assert_fails(RUNG_NOT_FOUND, "p-012.tar", open_tar("shards/p-{008..012}.tar", &source));
    assert_fails(RUNG_CONFIG, "must rise", open_tar("shards/p-{012..008}.tar", &source));
}

static void labels_from_names(void **state)
{
    (void)state;
    rung_source *source;
    put("grey.jpg", "t/cat/1.jpg");
    put("grey.jpg", "t/dog/1.jpg");
    put("grey.jpg", "t/cat/2.jpg");
    run_tar("-cf t.tar", "t/cat t/dog");
    assert_ok(open_tar("t.tar", &source));
    assert_int_equal(source->class_count, 2);
    assert_string_equal(source->class_names[1], "dog");
    rung_source_destroy(&source);
    put("grey.jpg", "t/n01_house_finch.jpg");
    put("grey.jpg", "t/n02_tench.jpg");
    run_tar("-cf t.tar -C t", "n01_house_finch.jpg n02_tench.jpg");
    assert_ok(open_tar("t.tar", &source));
    assert_string_equal(source->class_names[0], "house_finch");
    rung_source_destroy(&source);
    put("grey.jpg", "t/plain.jpg");
    run_tar("-cf t.tar -C t", "plain.jpg");
    assert_fails(RUNG_DATA, "plain.jpg: has no label", open_tar("t.tar", &source));
    put_text("t/n02_tench.cls", "1");
    run_tar("-cf t.tar -C t", "n02_tench.jpg n02_tench.cls plain.jpg");
    assert_fails(RUNG_DATA, "plain.jpg: has no label (an entry .cls), others have",
                 open_tar("t.tar", &source));
    put("exif_1.png", "t/plain.png");
    run_tar("-cf t.tar -C t", "plain.jpg plain.png");
    assert_fails(RUNG_DATA, "the sample has two pictures", open_tar("t.tar", &source));
}

static void bad_archives(void **state)
{
    (void)state;
    rung_source *source;
    static char bytes[1 << 16];
    put("grey.jpg", "x/a_b.jpg");
    put("grey.jpg", "x/a_c.jpg");
    run_tar("-cf x.tar -C x", "a_b.jpg a_c.jpg");
    size_t size = test_read(test_path(&folder, "x.tar"), bytes, sizeof bytes);
    // Cut at each block and in between: refused, but never taken for whole (what follows the end
    // mark is padding).
    size_t data_end = 0;
    for (size_t at = 0; at + 512 <= size; at += 512)
        for (size_t i = 0; i < 512; i++)
            data_end = bytes[at + i] ? at + 512 : data_end;
    for (size_t cut = 0; cut < data_end + 512; cut += 128) {
        test_write(&folder, "cut.tar", bytes, cut);
        rung_status status = open_tar("cut.tar", &source);
        assert_true(status == RUNG_CORRUPT || status == RUNG_FORMAT);
    }
    assert_fails(RUNG_CORRUPT, "without its end mark",
                 (test_write(&folder, "cut.tar", bytes, data_end), open_tar("cut.tar", &source)));
    assert_fails(RUNG_CORRUPT, "are there",
                 (test_write(&folder, "cut.tar", bytes, 700), open_tar("cut.tar", &source)));
    // A damaged header: its sum is wrong.
    bytes[20] ^= 1;
    test_write(&folder, "cut.tar", bytes, size);
    assert_fails(RUNG_FORMAT, "not a tar archive", open_tar("cut.tar", &source));
    bytes[20] ^= 1;
    run_tar("-czf x.tar.gz -C x", "a_b.jpg");
    assert_ok(open_tar("x.tar.gz", &source));
    rung_source_destroy(&source);
    static const char xz[600] = "\xfd"
                                "7zXZ";
    test_write(&folder, "x.tar.xz", xz, sizeof xz);
    assert_fails(RUNG_FORMAT, "is compressed: decompress it first (unxz)",
                 open_tar("x.tar.xz", &source));
    put_text("t.txt", "hello");
    assert_fails(RUNG_FORMAT, "not a tar archive", open_tar("t.txt", &source));
    run_tar("-cf empty.tar -T /dev/null", "");
    assert_fails(RUNG_DATA, "holds no pictures in 1 archives", open_tar("empty.tar", &source));
    // Names with .. go nowhere: they are names.
    run_tar("-P -cf up.tar --transform='s,^,../../,' -C x", "a_b.jpg");
    assert_ok(open_tar("up.tar", &source));
    assert_int_equal(source->count, 1);
    rung_source_destroy(&source);
    // Cut after it was opened.
    assert_ok(open_tar("x.tar", &source));
    assert_int_equal(truncate(test_path(&folder, "x.tar"), 1500), 0);
    void *worker;
    int64_t label;
    rung_view views[2] = {{RUNG_U8, {1, {0}}, NULL}, {RUNG_I64, RUNG_SCALAR, &label}};
    assert_ok(source->open(source->self, 0, &worker));
    assert_fails(RUNG_CORRUPT, "the file has changed since it was opened",
                 source->read(source->self, worker, &(rung_sample){.index = 1}, views));
    source->close(source->self, worker);
    rung_source_destroy(&source);
}

// ---- through the loader

static const rung_transform crop[] = {
    {.kind = RUNG_TRANSFORM_RANDOM_RESIZED_CROP, .height = 24, .width = 24},
    {.kind = RUNG_TRANSFORM_RANDOM_HORIZONTAL_FLIP},
    {.kind = RUNG_TRANSFORM_TO_FLOAT}};

static uint64_t hash(uint64_t h, const void *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        h = (h ^ ((const uint8_t *)data)[i]) * 1099511628211u;
    return h;
}

// C02, C69: two epochs of all colour kinds, for any number of workers and either source.
static void same_bits_for_any_workers(void **state)
{
    (void)state;
    static const char *const kinds[] = {"rgb_420.jpg",  "grey.jpg",     "cmyk.jpg",    "alpha.webp",
                                        "exif_6.jpg",   "photo.png",    "restart.jpg", "lossy.webp",
                                        "keep_rgb.jpg", "one_pixel.jpg"};
    for (int i = 0; i < 40; i++) {
        char name[64];
        snprintf(name, sizeof name, "m/%c/%02d%s", 'a' + i % 3, i, kinds[i % 10]);
        put(kinds[i % 10], name);
    }
    run_tar("-cf m.tar --sort=name", "m");
    uint64_t first = 0;
    for (int run = 0; run < 8; run++) {
        rung_source *source;
        rung_loader *loader;
        if (run % 2)
            assert_ok(rung_source_tar(context, test_path(&folder, "m.tar"), &source));
        else
            assert_ok(rung_source_image_folder(context, test_path(&folder, "m"), &source));
        rung_loader_options options = {.batch_size = 7,
                                       .shuffle = true,
                                       .seed = 5,
                                       .num_workers = run / 2 == 3 ? 4 : run / 2,
                                       .transforms = crop,
                                       .transform_count = 3,
                                       .end_epoch = 2};
        assert_ok(rung_loader_create(context, source, &options, &loader));
        uint64_t h = 14695981039346656037u;
        for (int b = 0; b < 12; b++) {
            rung_batch batch;
            assert_ok(rung_loader_next(loader, &batch));
            assert_int_equal(batch.fields[0].shape.dim[1], 3);
            size_t count = (size_t)batch.count;
            h = hash(h, batch.fields[0].data, count * 3 * 24 * 24 * sizeof(float));
            h = hash(h, batch.fields[1].data, count * sizeof(int64_t));
            rung_loader_release(loader, &batch);
        }
        first = run == 0 ? h : first;
        assert_true(h == first);
        rung_loader_destroy(&loader);
        rung_source_destroy(&source);
    }
}

// C67, C04: the cut file's name, its number and what is missing.
static void cut_file_is_named(void **state)
{
    (void)state;
    char name[64];
    for (int i = 0; i < 30; i++) {
        snprintf(name, sizeof name, "c/k/%02d.jpg", i);
        put("rgb_420.jpg", name);
    }
    assert_int_equal(truncate(test_path(&folder, "c/k/17.jpg"), 1000), 0);
    for (int workers = 0; workers <= 2; workers += 2) {
        rung_source *source;
        rung_loader *loader;
        rung_batch batch;
        rung_status status = RUNG_OK;
        assert_ok(rung_source_image_folder(context, test_path(&folder, "c"), &source));
        rung_loader_options options = {
            .batch_size = 4, .num_workers = workers, .transforms = crop, .transform_count = 3};
        assert_ok(rung_loader_create(context, source, &options, &loader));
        int good = 0;
        while ((status = rung_loader_next(loader, &batch)) == RUNG_OK) {
            good++;
            rung_loader_release(loader, &batch);
        }
        assert_int_equal(good, 4);
        assert_int_equal(status, RUNG_CORRUPT);
        const char *message = rung_error_last()->message;
        assert_non_null(strstr(message, "sample 17 ("));
        assert_non_null(strstr(message, "c/k/17.jpg)"));
        assert_non_null(strstr(message, "cut: the JPEG goes on after 1000 bytes, in row"));
        rung_loader_destroy(&loader);
        rung_source_destroy(&source);
    }
    // One that was removed after the start.
    rung_source *source;
    rung_loader *loader;
    rung_batch batch;
    assert_ok(rung_source_image_folder(context, test_path(&folder, "c"), &source));
    assert_int_equal(unlink(test_path(&folder, "c/k/00.jpg")), 0);
    rung_loader_options options = {.batch_size = 4, .transforms = crop, .transform_count = 3};
    assert_ok(rung_loader_create(context, source, &options, &loader));
    assert_fails(RUNG_NOT_FOUND, "c/k/00.jpg: cannot open it", rung_loader_next(loader, &batch));
    rung_loader_destroy(&loader);
    // Without a step that makes the size known.
    options.transform_count = 0;
    assert_fails(RUNG_MISMATCH, "differ in size",
                 rung_loader_create(context, source, &options, &loader));
    rung_source_destroy(&source);
}

static void put_array(const char *name, rung_dtype dtype, rung_shape shape, const void *data)
{
    rung_view view = {dtype, shape, (void *)(uintptr_t)data};
    assert_ok(rung_npy_write(test_path(&folder, name), &view));
}

static void arrays_in_files(void **state)
{
    (void)state;
    rung_source *source;
    static uint8_t pixels[4 * 5 * 6 * 3];
    static const int32_t labels[4] = {2, 0, 1, 2};
    static const int64_t bad[4] = {0, -1, 2, 3};
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 7);
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", test_path(&folder, "np"));
    mkdir(path, 0777);
    assert_fails(RUNG_NOT_FOUND, "has no x_train.npy or train_images.npy",
                 rung_source_open(context, "npy", path, "train", &source));
    put_array("np/x_train.npy", RUNG_U8, RUNG_SHAPE(4, 5, 6, 3), pixels);
    put_array("np/y_train.npy", RUNG_I32, RUNG_SHAPE(4), labels);
    put_array("np/test_images.npy", RUNG_U8, RUNG_SHAPE(4, 5, 18), pixels);
    put_array("np/test_labels.npy", RUNG_U8, RUNG_SHAPE(4), "\0\1\0\1");
    assert_ok(rung_source_open(context, "npy", path, "train", &source));
    assert_int_equal(source->count, 4);
    assert_int_equal(source->class_count, 3);
    assert_int_equal(source->fields[0].pixels, RUNG_PIXELS_HWC);
    uint8_t one[5 * 6 * 3];
    int64_t label;
    rung_view views[2] = {{RUNG_U8, RUNG_SHAPE(5, 6, 3), one}, {RUNG_I64, RUNG_SCALAR, &label}};
    assert_ok(source->read(source->self, NULL, &(rung_sample){.index = 3}, views));
    assert_memory_equal(one, pixels + 3 * sizeof one, sizeof one);
    assert_int_equal(label, 2);
    rung_source_destroy(&source);
    assert_ok(rung_source_open(context, "npy", path, "test", &source));
    assert_true(rung_shape_equal(&source->fields[0].shape, &RUNG_SHAPE(1, 5, 18)));
    assert_int_equal(source->class_count, 2);
    rung_source_destroy(&source);

    put_array("np/y_train.npy", RUNG_I32, RUNG_SHAPE(3), labels);
    assert_fails(RUNG_DATA, "has 3 labels, ",
                 rung_source_open(context, "npy", path, "train", &source));
    put_array("np/y_train.npy", RUNG_I64, RUNG_SHAPE(4), bad);
    assert_fails(RUNG_DATA, "label -1 of picture 1 is no class",
                 rung_source_open(context, "npy", path, "train", &source));
    put_array("np/y_train.npy", RUNG_F32, RUNG_SHAPE(4), labels);
    assert_fails(RUNG_MISMATCH, "holds f32: labels are whole numbers",
                 rung_source_open(context, "npy", path, "train", &source));
    put_array("np/x_train.npy", RUNG_U8, RUNG_SHAPE(4, 3, 6, 3), pixels);
    assert_fails(RUNG_MISMATCH, "has shape [4, 3, 6, 3]: pictures are",
                 rung_source_open(context, "npy", path, "train", &source));
    put_array("np/x_train.npy", RUNG_I32, RUNG_SHAPE(4, 3, 6), pixels);
    assert_fails(RUNG_MISMATCH, "holds i32: pictures are u8",
                 rung_source_open(context, "npy", path, "train", &source));
    assert_fails(RUNG_NOT_FOUND, "a.npz: cannot open",
                 rung_source_open(context, "npy", "a.npz", "train", &source));
}

// C69, C71: what the start tells of the kinds.
static void surveys(void **state)
{
    (void)state;
    static const char *const files[] = {
        "images/rgb_420.jpg",  "images/grey.jpg",     "images/cmyk.jpg",
        "images/alpha.webp",   "images/exif_6.jpg",   "images/exif_bad.jpg",
        "formats/palette.png", "formats/rgb16.png",   "formats/grey_alpha.png",
        "formats/p5.pgm",      "formats/p6_1000.ppm", "images/exif_9.png"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char name[64], fixture[64];
        snprintf(fixture, sizeof fixture, "../%s", files[i]);
        snprintf(name, sizeof name, "v/k/%02d%s", (int)i, strrchr(files[i], '.'));
        put(fixture, name);
    }
    put_text("v/k/99.jpg", "no picture");
    rung_source *source;
    rungi_survey survey;
    rungi_string text = {0};
    assert_ok(rung_source_image_folder(context, test_path(&folder, "v"), &source));
    assert_ok(rungi_survey_run(source, 1000, &survey));
    rungi_survey_text(&survey, source->count, &text);
    assert_string_equal(text.data,
                        "13 of 13 looked at: 6 RGB, 2 grey, 1 grey with alpha, 1 RGBA, 1 palette, "
                        "1 CMYK, 2 of 16 bits, 1 turned by the camera's note, 2 with a damaged "
                        "note, 1 unreadable");
    assert_ok(rungi_survey_run(source, 4, &survey)); // each third
    assert_int_equal(survey.seen, 4);
    rungi_string_fini(&text);
    rung_source_destroy(&source);
}

// C67, skipped: the same batches for any number of workers, the others in their order, and told
// once.
typedef struct told {
    int count;
    int64_t samples[8];
} told;

static void keep_told(void *user, int64_t sample, const char *message)
{
    told *t = user;
    assert_non_null(strstr(message, "cut: the JPEG goes on"));
    assert_true(t->count < 8);
    t->samples[t->count++] = sample;
}

static void skipped_samples(void **state)
{
    (void)state;
    char name[64];
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "k/k/%02d.jpg", i);
        put("rgb_420.jpg", name);
    }
    static const int bad[] = {3, 17, 18, 39};
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "k/k/%02d.jpg", bad[i]);
        assert_int_equal(truncate(test_path(&folder, name), 1000), 0);
    }
    for (int run = 0; run < 6; run++) {
        rung_source *source;
        rung_loader *loader;
        rung_loader_statistics statistics;
        told t = {0};
        assert_ok(rung_source_image_folder(context, test_path(&folder, "k"), &source));
        rung_loader_options options = {.batch_size = 6,
                                       .num_workers = run % 3,
                                       .transforms = crop,
                                       .transform_count = 3,
                                       .skip_bad = true,
                                       .bad_limit = 0.1,
                                       .on_bad = keep_told,
                                       .on_bad_user = &t,
                                       .preload = run >= 3};
        assert_ok(rung_loader_create(context, source, &options, &loader));
        for (int epoch = 0; epoch < 2; epoch++) {
            int64_t next = 0;
            bool last = false;
            while (!last) {
                rung_batch batch;
                assert_ok(rung_loader_next(loader, &batch));
                assert_int_equal(batch.epoch, epoch);
                last = batch.is_last_of_epoch;
                assert_int_equal(batch.count + batch.left_out, last ? 4 : 6);
                assert_int_equal(batch.fields[0].shape.dim[0], batch.count);
                assert_int_equal(batch.global_count, batch.count);
                for (int64_t i = 0; i < batch.count; i++, next++) {
                    while (next == 3 || next == 17 || next == 18)
                        next++;
                    assert_int_equal(batch.samples[i], next);
                    assert_int_equal(((const int64_t *)batch.fields[1].data)[i], 0);
                }
                rung_loader_release(loader, &batch);
            }
            assert_int_equal(next, 39);
        }
        assert_int_equal(t.count, 4);
        for (int i = 0; i < 4; i++)
            assert_int_equal(t.samples[i], bad[i]);
        rung_loader_measure(loader, &statistics);
        if (run < 3)
            assert_int_equal(statistics.bad_samples, 4);
        rung_loader_destroy(&loader);
        rung_source_destroy(&source);
    }
    assert_non_null(strstr(messages.text, "1 of 40 samples left out: sample 3 ("));
}

// More than the limit, and a batch with nothing left: the end, with the reason, for good.
static void too_many_bad(void **state)
{
    (void)state;
    for (int workers = 0; workers < 3; workers++) {
        rung_source *source;
        rung_loader *loader;
        rung_batch batch;
        assert_ok(rung_source_image_folder(context, test_path(&folder, "k"), &source));
        rung_loader_options options = {.batch_size = 6,
                                       .num_workers = workers,
                                       .transforms = crop,
                                       .transform_count = 3,
                                       .skip_bad = true,
                                       .bad_limit = 0.03};
        assert_ok(rung_loader_create(context, source, &options, &loader));
        for (int i = 0; i < 2; i++) {
            assert_ok(rung_loader_next(loader, &batch));
            assert_int_equal(batch.count, i ? 6 : 5);
            rung_loader_release(loader, &batch);
        }
        for (int again = 0; again < 2; again++)
            assert_fails(RUNG_DATA,
                         "2 of 40 samples are bad, more than data.bad_sample_limit (0.03) allows; "
                         "the last: sample 17 (",
                         rung_loader_next(loader, &batch));
        rung_loader_destroy(&loader);
        options.batch_size = 1;
        options.bad_limit = 1;
        assert_ok(rung_loader_create(context, source, &options, &loader));
        for (int i = 0; i < 3; i++) {
            assert_ok(rung_loader_next(loader, &batch));
            rung_loader_release(loader, &batch);
        }
        assert_fails(RUNG_DATA, "all 1 samples of a batch are bad: sample 3 (",
                     rung_loader_next(loader, &batch));
        rung_loader_destroy(&loader);
        options.world = 2;
        assert_fails(RUNG_UNSUPPORTED, "with 2 ranks",
                     rung_loader_create(context, source, &options, &loader));
        rung_source_destroy(&source);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(image_folder_as_torchvision),
        cmocka_unit_test(names_of_all_kinds),
        cmocka_unit_test(image_folder_refusals),
        cmocka_unit_test(splits),
        cmocka_unit_test(lists),
        cmocka_unit_test(list_refusals),
        cmocka_unit_test(archives),
        cmocka_unit_test(labels_from_names),
        cmocka_unit_test(bad_archives),
        cmocka_unit_test(same_bits_for_any_workers),
        cmocka_unit_test(cut_file_is_named),
        cmocka_unit_test(arrays_in_files),
        cmocka_unit_test(surveys),
        cmocka_unit_test(skipped_samples),
        cmocka_unit_test(too_many_bad),
    };
    return tests_status(cmocka_run_group_tests_name(__FILE__, tests, set_up, tear_down),
                        sizeof tests / sizeof *tests);
}
