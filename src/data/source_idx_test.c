// SPDX-License-Identifier: Apache-2.0
#include "data/data_testing.h"

enum { COUNT = 5, HEIGHT = 3, WIDTH = 2, IMAGES = 16 + COUNT * HEIGHT * WIDTH, LABELS = 8 + COUNT };

typedef struct fixture {
    test_folder folder;
    test_log log;
    rung_context *context;
    unsigned char images[IMAGES], labels[LABELS];
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    test_folder_make(&f->folder);
    f->context = test_context(&f->log, NULL);
    const unsigned char images[16] = {0, 0, 8, 3, 0, 0, 0, COUNT, 0, 0, 0, HEIGHT, 0, 0, 0, WIDTH};
    const unsigned char labels[8] = {0, 0, 8, 1, 0, 0, 0, COUNT};
    memcpy(f->images, images, 16);
    memcpy(f->labels, labels, 8);
    for (int i = 16; i < IMAGES; i++)
        f->images[i] = (unsigned char)(i * 7);
    for (int i = 0; i < COUNT; i++)
        f->labels[8 + i] = (unsigned char)(9 - i);
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

static const char *write_images(fixture *f)
{
    return test_write(&f->folder, "train-images-idx3-ubyte", f->images, IMAGES);
}

static const char *write_labels(fixture *f)
{
    return test_write(&f->folder, "train-labels-idx1-ubyte", f->labels, LABELS);
}

// Opens the folder's train split.
static rung_status open_train(fixture *f)
{
    rung_source *source = NULL;
    rung_status status = rung_source_open(f->context, "idx", f->folder.path, "train", &source);
    assert_true((source != NULL) == (status == RUNG_OK));
    rung_source_destroy(&source);
    return status;
}

static void check_content(fixture *f, const rung_source *source)
{
    assert_int_equal(source->count, COUNT);
    assert_int_equal(source->field_count, 2);
    assert_string_equal(source->fields[0].name, "image");
    assert_int_equal(source->fields[0].dtype, RUNG_U8);
    assert_true(rung_shape_equal(&source->fields[0].shape, &RUNG_SHAPE(1, HEIGHT, WIDTH)));
    assert_int_equal(source->fields[1].dtype, RUNG_I64);
    assert_int_equal(source->fields[1].shape.rank, 0);
    assert_int_equal(source->class_count, 10);
    for (int i = 0; i < COUNT; i++) {
        unsigned char image[HEIGHT * WIDTH];
        int64_t label;
        rung_view views[2] = {{.data = image}, {.data = &label}};
        rung_sample sample = {.index = i};
        assert_ok(source->read(source->self, NULL, &sample, views));
        assert_memory_equal(image, f->images + 16 + i * HEIGHT * WIDTH, sizeof image);
        assert_int_equal(label, 9 - i);
        sample.may_borrow = 1;
        assert_ok(source->read(source->self, NULL, &sample, views));
        assert_ptr_not_equal(views[0].data, image);
        assert_memory_equal(views[0].data, image, sizeof image);
    }
}

static void reads_plain_and_gzip(void **state)
{
    fixture *f = *state;
    rung_source *source;
    char text[PATH_MAX];
    write_images(f);
    write_labels(f);
    test_write_gzip(&f->folder, "t10k-images-idx3-ubyte.gz", f->images, IMAGES);
    test_write_gzip(&f->folder, "t10k-labels.idx1-ubyte.gz", f->labels, LABELS);
    assert_ok(rung_source_open(f->context, "idx", f->folder.path, "train", &source));
    check_content(f, source);
    source->describe(source->self, 3, text, sizeof text);
    assert_non_null(strstr(text, "train-images-idx3-ubyte, record 3"));
    rung_source_destroy(&source);
    assert_null(source);
    assert_ok(rung_source_open(f->context, "idx", f->folder.path, "test", &source));
    check_content(f, source);
    rung_source_destroy(&source);
    assert_int_equal(f->log.warnings, 0);
}

// Two gzip members after each other are one file, as gzip has it.
static void reads_two_members(void **state)
{
    fixture *f = *state;
    unsigned char bytes[4096];
    rung_source *source;
    const char *first = test_write_gzip(&f->folder, "a", f->images, 20);
    size_t size = test_read(first, bytes, sizeof bytes);
    const char *second = test_write_gzip(&f->folder, "b", f->images + 20, IMAGES - 20);
    size += test_read(second, bytes + size, sizeof bytes - size);
    test_write(&f->folder, "train-images-idx3-ubyte.gz", bytes, size);
    write_labels(f);
    assert_ok(rung_source_open(f->context, "idx", f->folder.path, "train", &source));
    check_content(f, source);
    rung_source_destroy(&source);
    test_write(&f->folder, "train-images-idx3-ubyte.gz", bytes, size + 3);
    assert_fails(RUNG_CORRUPT, "other bytes follow", open_train(f));
}

// Case C73.
static void case_c73_still_compressed(void **state)
{
    fixture *f = *state;
    unsigned char bytes[4096];
    write_labels(f);
    const char *once = test_write_gzip(&f->folder, "once", f->images, IMAGES);
    size_t size = test_read(once, bytes, sizeof bytes);
    memmove(bytes + 12, bytes + 10, size - 10); // a name, as the gzip command writes it
    memcpy(bytes + 10, "x", 2);
    bytes[3] = 8;
    size += 2;
    assert_int_equal(bytes[0] << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3], 529205256);
    test_write_gzip(&f->folder, "train-images-idx3-ubyte.gz", bytes, size);
    assert_fails(RUNG_FORMAT, "still gzip-compressed", open_train(f));
}

static void case_c73_exchanged(void **state)
{
    fixture *f = *state;
    const char *images = write_images(f), *labels = write_labels(f);
    rung_source *source = NULL;
    rung_idx_options options = {.images = labels, .labels = images};
    assert_fails(RUNG_FORMAT, "expected 2051, found 2049",
                 rung_source_idx(f->context, &options, &source));
    assert_non_null(strstr(rung_error_last()->message, labels));
    options = (rung_idx_options){.images = images, .labels = images};
    assert_fails(RUNG_FORMAT, "expected 2049, found 2051",
                 rung_source_idx(f->context, &options, &source));
    f->images[0] = 'B';
    write_images(f);
    assert_fails(RUNG_FORMAT, "expected 2051, found 1107298307", open_train(f));
    assert_null(source);
}

static void case_c73_wrong_length(void **state)
{
    fixture *f = *state;
    unsigned char longer[IMAGES + 1] = {0};
    write_labels(f);
    test_write(&f->folder, "train-images-idx3-ubyte", f->images, IMAGES - 1);
    assert_fails(RUNG_CORRUPT, "expected 46 bytes, found 45", open_train(f));
    memcpy(longer, f->images, IMAGES);
    test_write(&f->folder, "train-images-idx3-ubyte", longer, IMAGES + 1);
    assert_fails(RUNG_CORRUPT, "expected 46 bytes, found 47", open_train(f));
    assert_int_equal(remove(test_path(&f->folder, "train-images-idx3-ubyte")), 0);
    test_write_gzip(&f->folder, "train-images-idx3-ubyte.gz", f->images, IMAGES - 1);
    assert_fails(RUNG_CORRUPT, "expected 46 bytes, found 45", open_train(f));
    test_write_gzip(&f->folder, "train-images-idx3-ubyte.gz", longer, IMAGES + 1);
    assert_fails(RUNG_CORRUPT, "expected 46 bytes, found 47", open_train(f));
    test_write_gzip(&f->folder, "train-images-idx3-ubyte.gz", f->images, IMAGES);
    test_write(&f->folder, "train-labels-idx1-ubyte", f->labels, LABELS - 2);
    assert_fails(RUNG_CORRUPT, "expected 13 bytes, found 11", open_train(f));
}

static void case_c73_labels(void **state)
{
    fixture *f = *state;
    rung_source *source;
    write_images(f);
    f->labels[8 + 2] = 10;
    const char *labels = write_labels(f);
    assert_fails(RUNG_DATA, "label 10 of record 2 is above 9", open_train(f));
    assert_non_null(strstr(rung_error_last()->message, labels));
    rung_idx_options options = {.path = f->folder.path, .classes = 11};
    assert_ok(rung_source_idx(f->context, &options, &source));
    assert_int_equal(source->class_count, 11);
    rung_source_destroy(&source);
    f->labels[7] = COUNT - 1;
    test_write(&f->folder, "train-labels-idx1-ubyte", f->labels, LABELS - 1);
    assert_fails(RUNG_DATA, "holds 5 images", open_train(f));
    assert_non_null(strstr(rung_error_last()->message, "holds 4 labels"));
}

// Any folder called like the set counts as a claim to be it.
static void case_c73_known_set(void **state)
{
    fixture *f = *state;
    rung_source *source;
    char folder[PATH_MAX], path[PATH_MAX];
    snprintf(folder, sizeof folder, "%s/FashionMNIST", f->folder.path);
    assert_int_equal(mkdir(folder, 0700), 0);
    snprintf(path, sizeof path, "%s/train-images-idx3-ubyte", folder);
    assert_int_equal(rename(write_images(f), path), 0);
    snprintf(path, sizeof path, "%s/train-labels-idx1-ubyte", folder);
    assert_int_equal(rename(write_labels(f), path), 0);
    assert_ok(rung_source_open(f->context, "idx", folder, "train", &source));
    assert_string_equal(source->class_names[9], "Ankle boot");
    rung_source_destroy(&source);
    assert_int_equal(f->log.warnings, 2); // one a file
    assert_non_null(strstr(f->log.text, "expected XXH3 checksum ca72265d7c26283b, found "));
    assert_non_null(strstr(f->log.text, "expected XXH3 checksum 775518db990ebf87, found "));
    rung_idx_options options = {.path = folder, .known = "fashion-mnits"};
    assert_fails(RUNG_CONFIG, "did you mean fashion-mnist",
                 rung_source_idx(f->context, &options, &source));
}

static void refuses_missing_and_odd_files(void **state)
{
    fixture *f = *state;
    rung_source *source = NULL;
    assert_fails(RUNG_NOT_FOUND, "no train-images-idx3-ubyte", open_train(f));
    write_images(f);
    assert_fails(RUNG_NOT_FOUND, "no train-labels-idx1-ubyte", open_train(f));
    write_labels(f);
    assert_ok(open_train(f));
    assert_fails(RUNG_NOT_FOUND, "/nowhere: no such folder",
                 rung_source_open(f->context, "idx", "/nowhere", "train", &source));
    assert_fails(RUNG_IO, "is a file; data.path is the folder",
                 rung_source_open(f->context, "idx",
                                  test_path(&f->folder, "train-images-idx3-ubyte"), "train",
                                  &source));
    assert_fails(RUNG_CONFIG, "no split is called valid",
                 rung_source_open(f->context, "idx", f->folder.path, "valid", &source));
    assert_fails(RUNG_CONFIG, "did you mean cifar10",
                 rung_source_open(f->context, "cifar01", f->folder.path, "train", &source));
    rung_idx_options options = {.images = f->folder.path, .labels = f->folder.path};
    assert_fails(RUNG_IO, "is a folder, expected a file",
                 rung_source_idx(f->context, &options, &source));
    options = (rung_idx_options){.images = f->folder.path};
    assert_fails(RUNG_INVALID, "both", rung_source_idx(f->context, &options, &source));
    options = (rung_idx_options){.images = "/nowhere/x", .labels = "/nowhere/y"};
    assert_fails(RUNG_NOT_FOUND, "/nowhere/x", rung_source_idx(f->context, &options, &source));
    assert_null(source);
}

static void refuses_empty_sets_and_absurd_headers(void **state)
{
    fixture *f = *state;
    write_labels(f);
    test_write(&f->folder, "train-images-idx3-ubyte", "", 0);
    assert_fails(RUNG_FORMAT, "is empty (0 bytes)", open_train(f));
    f->images[7] = 0;
    test_write(&f->folder, "train-images-idx3-ubyte", f->images, 16);
    assert_fails(RUNG_DATA, "holds no samples", open_train(f));
    memset(f->images + 4, 0xff, 12); // 2^96 bytes
    write_images(f);
    assert_fails(RUNG_CORRUPT, "sizes that no file can have", open_train(f));
    memset(f->images + 12, 0, 4);
    f->images[15] = 1; // 2^64 bytes
    write_images(f);
    assert_fails(RUNG_CORRUPT, "sizes that no file can have", open_train(f));
    memset(f->images + 4, 0, 12);
    f->images[4] = f->images[11] = f->images[15] = 0x40; // 2^30 * 2^12
    assert_int_equal(remove(test_path(&f->folder, "train-images-idx3-ubyte")), 0);
    test_write_gzip(&f->folder, "train-images-idx3-ubyte.gz", f->images, IMAGES);
    assert_fails(RUNG_CORRUPT, "expected 4398046511120 bytes, found 46", open_train(f));
}

// Cut anywhere, or with any byte changed, a file is refused or read, but never crashes.
static void survives_damage(void **state)
{
    fixture *f = *state;
    unsigned char bytes[4096], damaged[4096];
    const char *path = test_write_gzip(&f->folder, "whole", f->images, IMAGES);
    size_t size = test_read(path, bytes, sizeof bytes);
    write_labels(f);
    for (size_t cut = 0; cut < IMAGES; cut++) {
        test_write(&f->folder, "train-images-idx3-ubyte", f->images, cut);
        assert_int_not_equal(open_train(f), RUNG_OK);
    }
    assert_int_equal(remove(test_path(&f->folder, "train-images-idx3-ubyte")), 0);
    for (size_t cut = 0; cut < size; cut++) {
        test_write(&f->folder, "train-images-idx3-ubyte.gz", bytes, cut);
        assert_int_not_equal(open_train(f), RUNG_OK);
    }
    test_write(&f->folder, "train-images-idx3-ubyte.gz", bytes, size - 9); // without its checksum
    assert_fails(RUNG_CORRUPT, "cut", open_train(f));
    for (size_t i = 0; i < size; i++)
        for (int bit = 0; bit < 8; bit++) {
            memcpy(damaged, bytes, size);
            damaged[i] ^= (unsigned char)(1 << bit);
            test_write(&f->folder, "train-images-idx3-ubyte.gz", damaged, size);
            rung_status status = open_train(f);
            // Bits that say nothing of the data: time stamp and the like, filler before the
            // trailer.
            assert_true(status != RUNG_OK || i < 10 || i == size - 9);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_plain_and_gzip, setup, teardown),
        cmocka_unit_test_setup_teardown(reads_two_members, setup, teardown),
        cmocka_unit_test_setup_teardown(case_c73_still_compressed, setup, teardown),
        cmocka_unit_test_setup_teardown(case_c73_exchanged, setup, teardown),
        cmocka_unit_test_setup_teardown(case_c73_wrong_length, setup, teardown),
        cmocka_unit_test_setup_teardown(case_c73_labels, setup, teardown),
        cmocka_unit_test_setup_teardown(case_c73_known_set, setup, teardown),
        cmocka_unit_test_setup_teardown(refuses_missing_and_odd_files, setup, teardown),
        cmocka_unit_test_setup_teardown(refuses_empty_sets_and_absurd_headers, setup, teardown),
        cmocka_unit_test_setup_teardown(survives_damage, setup, teardown),
    };
    return RUN_TESTS(tests);
}
