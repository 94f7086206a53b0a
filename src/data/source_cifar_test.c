// SPDX-License-Identifier: Apache-2.0
#include "data/data_testing.h"

enum { RECORD = 3073, RECORD100 = 3074 };

typedef struct fixture {
    test_folder folder;
    test_log log;
    rung_context *context;
    unsigned char bytes[4 * RECORD100];
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    test_folder_make(&f->folder);
    f->context = test_context(&f->log, NULL);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    test_folder_remove(&f->folder);
    rung_context_destroy(&f->context);
    free(f);
    return 0;
}

// File n of `records` records: label 2 n + record, pixel p is p + 10 n + record.
static const char *write_batch(fixture *f, const char *name, int n, int records)
{
    for (int r = 0; r < records; r++) {
        f->bytes[r * RECORD] = (unsigned char)((2 * n + r) % 10);
        for (int p = 0; p < RECORD - 1; p++)
            f->bytes[r * RECORD + 1 + p] = (unsigned char)(p + 10 * n + r);
    }
    return test_write(&f->folder, name, f->bytes, (size_t)records * RECORD);
}

static rung_status open_train(fixture *f)
{
    rung_source *source = NULL;
    rung_status status = rung_source_open(f->context, "cifar10", f->folder.path, "train", &source);
    assert_true((source != NULL) == (status == RUNG_OK));
    rung_source_destroy(&source);
    return status;
}

static void read_one(const rung_source *source, int64_t index, unsigned char image[3072],
                     int64_t *label)
{
    rung_view views[2] = {{.data = image}, {.data = label}};
    rung_sample sample = {.index = index};
    assert_ok(source->read(source->self, NULL, &sample, views));
}

static void reads_five_files(void **state)
{
    fixture *f = *state;
    rung_source *source;
    unsigned char image[3072];
    int64_t label;
    char name[32], text[PATH_MAX];
    for (int n = 1; n <= 5; n++) {
        snprintf(name, sizeof name, "data_batch_%d.bin", n);
        write_batch(f, name, n, n % 2 + 1); // 2, 1, 2, 1, 2 records
    }
    write_batch(f, "test_batch.bin", 0, 3);
    assert_ok(rung_source_open(f->context, "cifar10", f->folder.path, "train", &source));
    assert_int_equal(source->count, 8);
    assert_true(rung_shape_equal(&source->fields[0].shape, &RUNG_SHAPE(3, 32, 32)));
    assert_int_equal(source->fields[0].pixels, RUNG_PIXELS_CHW);
    assert_int_equal(source->class_count, 10);
    assert_string_equal(source->class_names[9], "truck");
    read_one(source, 4, image, &label); // the second record of file 3
    assert_int_equal(label, 7);
    for (int p = 0; p < 3072; p++)
        assert_int_equal(image[p], (unsigned char)(p + 31));
    source->describe(source->self, 4, text, sizeof text);
    assert_non_null(strstr(text, "data_batch_3.bin, record 1"));
    rung_source_destroy(&source);

    test_write(&f->folder, "batches.meta.txt", "a\nb\r\nc\nd\ne\nf\ng\nh\ni\nj\n\n", 22);
    assert_ok(rung_source_open(f->context, "cifar10", f->folder.path, "test", &source));
    assert_int_equal(source->count, 3);
    assert_string_equal(source->class_names[1], "b");
    rung_source_destroy(&source);
}

static void finds_the_archives_folder_and_single_files(void **state)
{
    fixture *f = *state;
    rung_source *source;
    char path[PATH_MAX];
    assert_int_equal(mkdir(test_path(&f->folder, "cifar-10-batches-bin"), 0700), 0);
    const char *file = write_batch(f, "cifar-10-batches-bin/test_batch.bin", 1, 2);
    strcpy(path, file);
    assert_ok(rung_source_open(f->context, "cifar10", f->folder.path, "test", &source));
    assert_int_equal(source->count, 2);
    rung_source_destroy(&source);
    assert_ok(rung_source_open(f->context, "cifar10", path, "train", &source));
    assert_int_equal(source->count, 2);
    rung_source_destroy(&source);
}

static void reads_cifar100(void **state)
{
    fixture *f = *state;
    rung_source *source;
    unsigned char image[3072];
    int64_t label;
    for (int r = 0; r < 2; r++) {
        f->bytes[r * RECORD100] = (unsigned char)(r + 18);
        f->bytes[r * RECORD100 + 1] = (unsigned char)(r + 98);
        memset(f->bytes + r * RECORD100 + 2, r + 1, 3072);
    }
    test_write(&f->folder, "train.bin", f->bytes, 2 * RECORD100);
    assert_ok(rung_source_open(f->context, "cifar100", f->folder.path, "train", &source));
    assert_int_equal(source->class_count, 100);
    assert_null(source->class_names);
    read_one(source, 1, image, &label);
    assert_int_equal(label, 99);
    assert_int_equal(image[0], 2);
    assert_int_equal(image[3071], 2);
    rung_source_destroy(&source);
    rung_cifar_options options = {.path = f->folder.path, .coarse = true};
    assert_ok(rung_source_cifar100(f->context, &options, &source));
    assert_int_equal(source->class_count, 20);
    read_one(source, 1, image, &label);
    assert_int_equal(label, 19);
    rung_source_destroy(&source);
    f->bytes[0] = 20;
    test_write(&f->folder, "train.bin", f->bytes, 2 * RECORD100);
    assert_fails(RUNG_DATA, "label 20 of record 0 is above 19",
                 rung_source_cifar100(f->context, &options, &source));
}

// Case C73.
static void case_c73(void **state)
{
    fixture *f = *state;
    char name[32];
    for (int n = 1; n <= 5; n++) {
        snprintf(name, sizeof name, "data_batch_%d.bin", n);
        write_batch(f, name, n, 1);
    }
    assert_ok(open_train(f));
    // not a multiple of 3073
    write_batch(f, "data_batch_4.bin", 1, 2);
    test_write(&f->folder, "data_batch_4.bin", f->bytes, 2 * RECORD - 1);
    assert_fails(RUNG_CORRUPT, "6145 bytes are not a multiple of 3073", open_train(f));
    assert_non_null(strstr(rung_error_last()->message, "data_batch_4.bin"));
    assert_non_null(strstr(rung_error_last()->message, "expected 3073 or 6146 bytes, found 6145"));
    // still compressed
    test_write_gzip(&f->folder, "data_batch_4.bin", f->bytes, RECORD);
    assert_fails(RUNG_FORMAT, "still gzip-compressed", open_train(f));
    // label above 9
    write_batch(f, "data_batch_4.bin", 1, 2);
    f->bytes[RECORD] = 10;
    test_write(&f->folder, "data_batch_4.bin", f->bytes, 2 * RECORD);
    assert_fails(RUNG_DATA, "label 10 of record 1 is above 9", open_train(f));
    // empty, missing, a folder
    test_write(&f->folder, "data_batch_4.bin", "", 0);
    assert_fails(RUNG_FORMAT, "is empty", open_train(f));
    assert_int_equal(remove(test_path(&f->folder, "data_batch_4.bin")), 0);
    assert_fails(RUNG_NOT_FOUND, "data_batch_4.bin", open_train(f));
    assert_int_equal(mkdir(test_path(&f->folder, "data_batch_4.bin"), 0700), 0);
    assert_fails(RUNG_IO, "is a folder", open_train(f));
    assert_int_equal(remove(test_path(&f->folder, "data_batch_1.bin")), 0);
    assert_fails(RUNG_NOT_FOUND, "no data_batch_1.bin there", open_train(f));
    rung_source *source = NULL;
    assert_fails(RUNG_NOT_FOUND, "/nowhere: no such file or folder",
                 rung_source_open(f->context, "cifar10", "/nowhere", "train", &source));
    assert_fails(RUNG_CONFIG, "no split is called dev",
                 rung_source_open(f->context, "cifar10", f->folder.path, "dev", &source));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_five_files, setup, teardown),
        cmocka_unit_test_setup_teardown(finds_the_archives_folder_and_single_files, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(reads_cifar100, setup, teardown),
        cmocka_unit_test_setup_teardown(case_c73, setup, teardown),
    };
    return RUN_TESTS(tests);
}
