// SPDX-License-Identifier: Apache-2.0
// Archives that are compressed, that hold splits, and arrays in archives, opened by format and
// split. Made by Python's tarfile, zstd(1) and NumPy (tools/fixtures/npz.py).
#include "data/source_tar.h"
#include "data/tar_stream.h"
#include "formats/tar_write.h"
#include "group_testing.h"

#define DATA RUNG_SOURCE_DIR "/tests/fixtures/data/"
#define NPZ RUNG_SOURCE_DIR "/tests/fixtures/npz/"

// The grey value of a tiny picture, and its label.
static int read_grey(rung_source *source, void *worker, int64_t i, int64_t *label)
{
    rung_view views[] = {{RUNG_U8, RUNG_SHAPE(0), NULL}, {RUNG_I64, RUNG_SCALAR, label}};
    assert_ok(
        source->read(source->self, worker, &(rung_sample){.index = i, .may_borrow = 1}, views));
    return ((const uint8_t *)views[0].data)[views[0].shape.dim[0] - 1];
}

static void check_animals(rung_source *source, int each)
{
    void *worker = NULL;
    assert_int_equal(source->count, 2 * each);
    assert_int_equal(source->class_count, 2);
    assert_string_equal(source->class_names[0], "cat");
    assert_string_equal(source->class_names[1], "dog");
    assert_ok(source->open(source->self, 0, &worker));
    for (int64_t i = 2 * each - 1; i >= 0; i--) { // at random
        int64_t label;
        int grey = read_grey(source, worker, i, &label);
        assert_int_equal(label, i / each);
        assert_int_equal(grey, (i < each ? 10 : 200) + i % each);
    }
    source->close(source->self, worker);
}

static void compressed(void **state)
{
    (void)state;
    static const char *const files[] = {DATA "splits.tar.gz", DATA "splits.tar.bz2",
                                        DATA "splits.tar.zst"};
    for (int f = 0; f < 3; f++) {
        rung_source *source;
        char place[256], wanted[256];
        assert_ok(rung_source_open(context, "tar", files[f], "train", &source));
        check_animals(source, 3);
        source->describe(source->self, 4, place, sizeof place);
        snprintf(wanted, sizeof wanted, "%s, train/dog/0001.pgm", files[f]);
        assert_string_equal(place, wanted);
        rung_source_destroy(&source);
        assert_ok(rung_source_open(context, "tar", files[f], "test", &source));
        check_animals(source, 2);
        rung_source_destroy(&source);
        assert_ok(rung_source_open(context, "tar", files[f], "all", &source));
        assert_int_equal(source->count, 10);
        rung_source_destroy(&source);
        // Unpacked into a folder instead of memory: nothing is left there.
        assert_ok(rungi_source_tar(context, files[f],
                                   &(rungi_tar_options){.split = "train", .spool = folder.path},
                                   NULL, &source));
        check_animals(source, 3);
        rung_source_destroy(&source);
    }
    assert_int_equal(rmdir(folder.path), 0);
    assert_int_equal(mkdir(folder.path, 0777), 0);
}

// What `rung convert` takes, found with one look: the training part of what has others, or all.
static void some_of_it(void **state)
{
    (void)state;
    rung_source *source;
    const char *split;
    const rungi_tar_options some = {.split = "some"};
    assert_ok(rungi_source_open_tar(context, DATA "splits.tar.gz", &some, &split, &source));
    assert_string_equal(split, "train");
    assert_int_equal(source->count, 6);
    rung_source_destroy(&source);
    assert_ok(rungi_source_open_tar(context, DATA "pax.tar", &some, &split, &source));
    assert_string_equal(split, "all");
    rung_source_destroy(&source);
}

// Cut anywhere: refused by name, or (in the padding behind the end mark) all there.
static void cut_compressed(void **state)
{
    (void)state;
    static const char *const names[] = {"c.tar.gz", "c.tar.bz2", "c.tar.zst"};
    static const char *const files[] = {DATA "splits.tar.gz", DATA "splits.tar.bz2",
                                        DATA "splits.tar.zst"};
    char bytes[4096];
    for (int f = 0; f < 3; f++) {
        size_t size = test_read(files[f], bytes, sizeof bytes);
        for (size_t cut = 0; cut < size; cut++) {
            rung_source *source = NULL;
            const char *path = test_write(&folder, names[f], bytes, cut);
            rung_status status = rung_source_open(context, "tar", path, "train", &source);
            if (status == RUNG_OK)
                check_animals(source, 3);
            else
                assert_non_null(strstr(rung_error_last()->message, names[f]));
            assert_true(cut > size / 2 || status != RUNG_OK);
            rung_source_destroy(&source);
        }
    }
}

// ---- written here

typedef struct tape {
    uint8_t bytes[1 << 16];
    size_t size;
} tape;

static rung_status put(void *user, const void *data, size_t size)
{
    tape *t = user;
    assert_true(size <= sizeof t->bytes - t->size);
    memcpy(t->bytes + t->size, data, size);
    t->size += size;
    return RUNG_OK;
}

static void put_text(tape *t, const char *name, const char *text)
{
    assert_ok(rungi_tar_put(put, t, name, text, strlen(text)));
}

static const char *write_tape(tape *t, const char *name)
{
    assert_ok(rungi_tar_end(put, t));
    return test_write(&folder, name, t->bytes, t->size);
}

#define GREY "P5 1 1 255\n\x07"

// The header of an entry whose `size` bytes follow.
static void put_padding(tape *t, const char *name, unsigned size)
{
    unsigned sum = 0;
    assert_ok(rungi_tar_put(put, t, name, "", 0));
    uint8_t *header = t->bytes + t->size - 512;
    snprintf((char *)header + 124, 12, "%011o", size);
    memset(header + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += header[i];
    snprintf((char *)header + 148, 7, "%06o", sum);
}

// More than the limit: read as a stream, at random too.
static void too_large(void **state)
{
    (void)state;
    static tape t;
    static char zeros[1 << 20];
    enum { PAD = 600 << 20 };
    t.size = 0;
    const char *path = test_path(&folder, "large.tar.gz");
    gzFile file = gzopen(path, "wb1");
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d.cls", i);
        put_text(&t, name, "1");
        snprintf(name, sizeof name, "%d.pgm", i);
        put_text(&t, name, GREY);
        snprintf(name, sizeof name, "%d.pad", i);
        put_padding(&t, name, PAD);
        assert_int_equal(gzwrite(file, t.bytes, (unsigned)t.size), (int)t.size);
        t.size = 0;
        for (int64_t done = 0; done < PAD; done += (int64_t)sizeof zeros)
            assert_int_equal(gzwrite(file, zeros, sizeof zeros), sizeof zeros);
    }
    assert_ok(rungi_tar_end(put, &t));
    assert_int_equal(gzwrite(file, t.bytes, (unsigned)t.size), (int)t.size);
    assert_int_equal(gzclose(file), Z_OK);
    rung_source *source;
    void *worker;
    assert_ok(rung_source_open(context, "tar", path, "train", &source));
    assert_int_equal(rungi_source_stream_archives(source), 1);
    assert_int_equal(source->count, 3);
    assert_ok(source->open(source->self, 0, &worker));
    for (int64_t i = 2; i >= 0; i--) {
        int64_t label;
        assert_int_equal(read_grey(source, worker, i, &label), 7);
        assert_int_equal(label, 1);
    }
    source->close(source->self, worker);
    rung_source_destroy(&source);
}

// Python's tarfile and our reader agree on what the writer makes, long names included.
static void writes_archives(void **state)
{
    (void)state;
    static tape t;
    char longer[301];
    rung_source *source;
    t.size = 0;
    memset(longer, 'n', 296);
    strcpy(longer + 296, ".ppm");
    longer[3] = '/';
    put_text(&t, "k/a.ppm", GREY);
    put_text(&t, longer, GREY);
    const char *path = write_tape(&t, "w.tar");
    char command[PATH_MAX + 64];
    snprintf(command, sizeof command, "tar tf '%s' >'%s/list'", path, folder.path);
    assert_int_equal(system(command), 0);
    char list[1024] = {0}, wanted[1024];
    test_read(test_path(&folder, "list"), list, sizeof list - 1);
    snprintf(wanted, sizeof wanted, "k/a.ppm\n%s\n", longer);
    assert_string_equal(list, wanted);
    assert_ok(rung_source_tar(context, path, &source));
    assert_int_equal(source->count, 2);
    rung_source_destroy(&source);
    assert_fails(RUNG_INVALID, "no name", rungi_tar_put(put, &t, "/a", "", 0));
    assert_fails(RUNG_INVALID, "no name", rungi_tar_put(put, &t, "", "", 0));
}

static void class_names(void **state)
{
    (void)state;
    static tape t;
    rung_source *source;
    t.size = 0;
    put_text(&t, "__classes__", "zebra\nant\nowl\n");
    put_text(&t, "1.ppm", GREY);
    put_text(&t, "1.cls", "1");
    put_text(&t, "2.ppm", GREY);
    put_text(&t, "2.cls", "0");
    assert_ok(rung_source_open(context, "tar", write_tape(&t, "n.tar"), "train", &source));
    assert_int_equal(source->class_count, 3);
    assert_string_equal(source->class_names[0], "zebra");
    assert_string_equal(source->class_names[2], "owl");
    rung_source_destroy(&source);
    assert_fails(RUNG_NOT_FOUND, "has no val or test for validation",
                 rung_source_open(context, "tar", test_path(&folder, "n.tar"), "test", &source));
    t.size = 0;
    put_text(&t, "__classes__", "zebra");
    put_text(&t, "1.ppm", GREY);
    put_text(&t, "1.cls", "1");
    assert_fails(RUNG_DATA, "label 1, __classes__ names 1",
                 rung_source_open(context, "tar", write_tape(&t, "m.tar"), "train", &source));
}

// ---- arrays

static void arrays(void **state)
{
    (void)state;
    static const struct {
        const char *path, *split;
        int count, classes, first;
    } sets[] = {
        {NPZ "stored.npz", "train", 6, 3, 0},   {NPZ "stored.npz", "test", 3, 3, 100},
        {NPZ "deflated.npz", "train", 6, 3, 0}, {NPZ "column.npz", "train", 4, 2, 7},
        {NPZ "column.npz", "test", 2, 2, 9},
    };
    for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
        rung_source *source;
        uint8_t image[20];
        int64_t label;
        rung_view views[] = {{RUNG_U8, RUNG_SHAPE(1, 4, 5), image},
                             {RUNG_I64, RUNG_SCALAR, &label}};
        assert_ok(rung_source_open(context, "npy", sets[s].path, sets[s].split, &source));
        assert_int_equal(source->count, sets[s].count);
        assert_int_equal(source->class_count, sets[s].classes);
        assert_ok(source->read(source->self, NULL, &(rung_sample){.index = 1}, views));
        assert_int_equal(image[3], sets[s].first + 20 + 3);
        rung_source_destroy(&source);
    }
    rung_source *source;
    assert_fails(RUNG_NOT_FOUND, "stored.npz: has no images (see data.format npy)",
                 rung_source_open(context, "npy", NPZ "stored.npz", "all", &source));
}

// ---- a real set

static void cifar10_as_it_comes(void **state)
{
    (void)state;
    char path[PATH_MAX];
    GROUP_REAL_DATA(path, "cifar10-jpeg.tar.zst");
    static const struct {
        const char *split;
        int64_t count;
    } splits[] = {{"train", 50000}, {"test", 10000}};
    for (int s = 0; s < 2; s++) {
        rung_source *source;
        rung_loader *loader;
        rung_batch batch;
        assert_ok(rung_source_open(context, "tar", path, splits[s].split, &source));
        assert_int_equal(source->count, splits[s].count);
        assert_int_equal(source->class_count, 10);
        assert_string_equal(source->class_names[0], "airplane");
        assert_string_equal(source->class_names[9], "truck");
        rung_transform steps[] = {
            {.kind = RUNG_TRANSFORM_RESIZE, .height = 32, .width = 32}}; // they have that size
        assert_ok(rung_loader_create(context, source,
                                     &(rung_loader_options){.batch_size = 1000,
                                                            .shuffle = true,
                                                            .num_workers = 2,
                                                            .transforms = steps,
                                                            .transform_count = 1},
                                     &loader));
        int64_t counts[10] = {0}, seen = 0;
        bool last = false;
        while (!last) {
            assert_ok(rung_loader_next(loader, &batch));
            const int64_t *labels = batch.fields[1].data;
            for (int64_t i = 0; i < batch.count; i++)
                counts[labels[i]]++;
            seen += batch.count;
            last = batch.is_last_of_epoch;
            rung_loader_release(loader, &batch);
        }
        assert_int_equal(seen, splits[s].count);
        for (int k = 0; k < 10; k++)
            assert_int_equal(counts[k], splits[s].count / 10);
        rung_loader_destroy(&loader);
        rung_source_destroy(&source);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(some_of_it),      cmocka_unit_test(compressed),
        cmocka_unit_test(cut_compressed),  cmocka_unit_test(too_large),
        cmocka_unit_test(writes_archives), cmocka_unit_test(class_names),
        cmocka_unit_test(arrays),          cmocka_unit_test(cifar10_as_it_comes),
    };
    return RUN_GROUP(tests, group_set_up);
}
