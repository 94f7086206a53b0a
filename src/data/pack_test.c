// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
// Packs: files written by an independent program (tools/fixtures/packs.py), the same bytes from the
// writer, taking up what was begun, hostile files, the order of groups.
#include <fcntl.h>

#include "data/pack_file.h"
#include "formats/crc32c.h"
#include "group_testing.h"

#define PACKS RUNG_SOURCE_DIR "/tests/fixtures/packs/"

static const rung_field file_fields[] = {
    {"image", RUNG_U8, {.rank = 1}, RUNG_PIXELS_FILE},
    {"label", RUNG_I64, {0}, RUNG_PIXELS_NONE},
};
static const rung_field raw_fields[] = {
    {"image", RUNG_U8, {3, {2, 3, 3}}, RUNG_PIXELS_HWC},
    {"label", RUNG_I64, {0}, RUNG_PIXELS_NONE},
    {"weight", RUNG_F32, {0}, RUNG_PIXELS_NONE},
};
static const char *const animals[] = {"cat", "dog"};

static const rung_pack_writer_options file_options = {.fields = file_fields,
                                                      .field_count = 2,
                                                      .class_count = 2,
                                                      .class_names = animals,
                                                      .note = "three files",
                                                      .stamp = 7};

static const int sizes[] = {5, 64, 130};

static void add_file(rung_pack_writer *writer, int i)
{
    uint8_t bytes[256];
    char name[32];
    int64_t label = sizes[i] % 2;
    for (int k = 0; k < sizes[i]; k++)
        bytes[k] = (uint8_t)k;
    snprintf(name, sizeof name, "dir/%d.jpg", sizes[i]);
    rung_view views[] = {{RUNG_U8, RUNG_SHAPE(sizes[i]), bytes}, {RUNG_I64, RUNG_SCALAR, &label}};
    assert_ok(rung_pack_writer_add(writer, name, views));
}

static void compare_files(const char *a, const char *b)
{
    static char left[1 << 16], right[1 << 16];
    size_t size = test_read(a, left, sizeof left);
    assert_int_equal(size, test_read(b, right, sizeof right));
    assert_memory_equal(left, right, size);
}

static void reads_files(void **state)
{
    (void)state;
    for (int read = 0; read < 2; read++) {
        rung_source *source;
        char place[256];
        void *worker = NULL;
        assert_ok(rung_source_pack(context, PACKS "files.pack", &(rung_pack_options){.read = read},
                                   &source));
        assert_int_equal(source->count, 3);
        assert_int_equal(source->class_count, 2);
        assert_string_equal(source->class_names[1], "dog");
        assert_int_equal(source->fields[0].pixels, RUNG_PIXELS_FILE);
        if (source->open)
            assert_ok(source->open(source->self, 0, &worker));
        for (int i = 2; i >= 0; i--) {
            int64_t label;
            rung_view views[] = {{RUNG_U8, RUNG_SHAPE(0), NULL}, {RUNG_I64, RUNG_SCALAR, &label}};
            assert_ok(source->read(source->self, worker,
                                   &(rung_sample){.index = i, .may_borrow = 1}, views));
            assert_int_equal(views[0].shape.dim[0], sizes[i]);
            assert_int_equal(label, sizes[i] % 2);
            const uint8_t *bytes = views[0].data;
            for (int k = 0; k < sizes[i] + 64; k++) // 64 behind can be read
                assert_true(k >= sizes[i] || bytes[k] == k);
        }
        source->describe(source->self, 1, place, sizeof place);
        assert_string_equal(place, PACKS "files.pack, dir/64.jpg");
        if (source->close)
            source->close(source->self, worker);
        rung_source_destroy(&source);
    }
    assert_ok(rung_pack_check(PACKS "files.pack", NULL, NULL));
}

static void reads_arrays(void **state)
{
    (void)state;
    rung_source *source;
    char place[256];
    assert_ok(rung_source_pack(context, PACKS "raw.pack", NULL, &source));
    assert_int_equal(source->field_count, 3);
    assert_true(rung_shape_equal(&source->fields[0].shape, &RUNG_SHAPE(2, 3, 3)));
    assert_null(source->class_names);
    for (int borrow = 0; borrow < 2; borrow++)
        for (int i = 0; i < 3; i++) {
            uint8_t image[18];
            int64_t label;
            float weight;
            rung_view views[] = {{RUNG_U8, RUNG_SHAPE(2, 3, 3), image},
                                 {RUNG_I64, RUNG_SCALAR, &label},
                                 {RUNG_F32, RUNG_SCALAR, &weight}};
            assert_ok(source->read(source->self, NULL,
                                   &(rung_sample){.index = i, .may_borrow = borrow ? 7 : 0},
                                   views));
            assert_int_equal(views[0].data != image, borrow);
            assert_true(!borrow || (uintptr_t)views[0].data % 64 == 0);
            for (int k = 0; k < 18; k++)
                assert_int_equal(((const uint8_t *)views[0].data)[k], i * 20 + k);
            assert_int_equal(label, 2 - i);
            assert_true(*(const float *)views[2].data == (float)i + 0.5f);
        }
    source->describe(source->self, 1, place, sizeof place);
    assert_string_equal(place, PACKS "raw.pack, record 1");
    rung_source_destroy(&source);
    assert_ok(rung_source_pack(context, PACKS "plain.pack", NULL, &source));
    double x[3];
    rung_view view = {RUNG_F64, RUNG_SHAPE(3), x};
    assert_ok(source->read(source->self, NULL, &(rung_sample){.index = 1}, &view));
    assert_true(x[0] == 1 && x[1] == 1 && x[2] == -0.25);
    rung_source_destroy(&source);
}

static void writes_the_same(void **state)
{
    (void)state;
    rung_pack_writer *writer;
    const char *path = test_path(&folder, "w.pack");
    assert_ok(rung_pack_writer_create(context, path, &file_options, &writer));
    for (int i = 0; i < 3; i++)
        add_file(writer, i);
    assert_int_equal(rung_pack_writer_count(writer), 3);
    assert_int_not_equal(access(path, F_OK), 0); // not before it is whole
    assert_ok(rung_pack_writer_finish(&writer, NULL, NULL));
    assert_null(writer);
    compare_files(path, PACKS "files.pack");
    assert_int_not_equal(access(test_path(&folder, "w.pack.partial"), F_OK), 0);
    assert_int_not_equal(access(test_path(&folder, "w.pack.partial-index"), F_OK), 0);

    path = test_path(&folder, "raw.pack");
    assert_ok(rung_pack_writer_create(
        context, path,
        &(rung_pack_writer_options){.fields = raw_fields, .field_count = 3, .class_count = 3},
        &writer));
    for (int i = 0; i < 3; i++) {
        uint8_t image[18];
        int64_t label = 2 - i;
        float weight = (float)i + 0.5f;
        for (int k = 0; k < 18; k++)
            image[k] = (uint8_t)(i * 20 + k);
        rung_view views[] = {{RUNG_U8, RUNG_SHAPE(2, 3, 3), image},
                             {RUNG_I64, RUNG_SCALAR, &label},
                             {RUNG_F32, RUNG_SCALAR, &weight}};
        assert_ok(rung_pack_writer_add(writer, "", views));
        label = 3; // refused, and left out
        assert_fails(RUNG_DATA, "label 3, there are 3 classes",
                     rung_pack_writer_add(writer, "", views));
        views[2].dtype = RUNG_I32;
        assert_fails(RUNG_MISMATCH, "field weight", rung_pack_writer_add(writer, "", views));
    }
    assert_ok(rung_pack_writer_finish(&writer, NULL, NULL));
    compare_files(path, PACKS "raw.pack");
}

// A killed writer leaves its two files at any length: the rest is written again, the result is the
// same to the byte.
static void takes_up(void **state)
{
    (void)state;
    rung_pack_writer *writer;
    const char *path = test_path(&folder, "r.pack");
    char data[PATH_MAX + 16], index[PATH_MAX + 16];
    snprintf(data, sizeof data, "%s.partial", path);
    snprintf(index, sizeof index, "%s.partial-index", path);
    static char bytes[2][4096];
    size_t size[2];
    // The whole of both files, as they stand before the end.
    assert_ok(rung_pack_writer_create(context, path, &file_options, &writer));
    for (int i = 0; i < 3; i++)
        add_file(writer, i);
    for (int i = 0; i < 20000; i++) // a megabyte of them is on disk
        add_file(writer, 0);
    rung_pack_writer_destroy(&writer, false);
    size[0] = test_read(data, bytes[0], 64 + 64 + 64 + 192);
    size[1] = test_read(index, bytes[1], 24 + 3 * 40 + 9 + 10 + 11);
    for (size_t cut = 0; cut <= size[1]; cut++)
        for (int data_cut = 0; data_cut < 3; data_cut++) {
            static const size_t left[] = {384, 200, 0};
            FILE *f = fopen(data, "wb");
            fwrite(bytes[0], 1, left[data_cut] < size[0] ? left[data_cut] : size[0], f);
            fclose(f);
            f = fopen(index, "wb");
            fwrite(bytes[1], 1, cut, f);
            fclose(f);
            assert_ok(rung_pack_writer_create(context, path, &file_options, &writer));
            int64_t stand = rung_pack_writer_count(writer);
            int64_t records = cut < 24 + 49 ? 0 : cut < 24 + 49 + 50 ? 1 : cut < size[1] ? 2 : 3;
            int64_t there = data_cut == 0 ? 3 : data_cut == 1 ? 2 : 0;
            assert_int_equal(stand, records < there ? records : there);
            for (int64_t i = stand; i < 3; i++)
                add_file(writer, (int)i);
            assert_ok(rung_pack_writer_finish(&writer, NULL, NULL));
            compare_files(path, PACKS "files.pack");
            assert_int_equal(unlink(path), 0);
        }
}

static void begins_anew(void **state)
{
    (void)state;
    rung_pack_writer *writer, *other;
    const char *path = test_path(&folder, "n.pack");
    rung_pack_writer_options options = file_options;
    for (int round = 0; round < 4; round++) {
        assert_ok(rung_pack_writer_create(context, path, &file_options, &writer));
        for (int i = 0; i < 10000; i++)
            add_file(writer, 2);
        assert_fails(RUNG_IO, "another process is writing it",
                     rung_pack_writer_create(context, path, &file_options, &other));
        rung_pack_writer_destroy(&writer, false);
        options = file_options;
        options.stamp += round == 1;
        options.note = round == 2 ? "others" : options.note;
        options.restart = round == 3;
        assert_ok(rung_pack_writer_create(context, path, &options, &writer));
        assert_int_equal(rung_pack_writer_count(writer) > 1000, round == 0);
        rung_pack_writer_destroy(&writer, true);
        assert_int_not_equal(access(test_path(&folder, "n.pack.partial"), F_OK), 0);
    }
    // A bit of what was written has changed: what comes after is written again.
    assert_ok(rung_pack_writer_create(context, path, &file_options, &writer));
    for (int i = 0; i < 10000; i++)
        add_file(writer, 2);
    rung_pack_writer_destroy(&writer, false);
    int fd = open(test_path(&folder, "n.pack.partial"), O_RDWR);
    assert_int_equal(pwrite(fd, "x", 1, 64 + 500 * 192 + 7), 1);
    close(fd);
    assert_ok(rung_pack_writer_create(context, path, &file_options, &writer));
    assert_int_equal(rung_pack_writer_count(writer), 500);
    rung_pack_writer_destroy(&writer, true);
    // Nothing to write, nowhere to write.
    assert_ok(rung_pack_writer_create(context, path, &file_options, &writer));
    assert_fails(RUNG_DATA, "no samples to write", rung_pack_writer_finish(&writer, NULL, NULL));
    assert_null(writer);
    assert_fails(
        RUNG_NOT_FOUND, "there is no folder",
        rung_pack_writer_create(context, test_path(&folder, "no/n.pack"), &file_options, &writer));
    const rung_field both[] = {file_fields[0], {"second", RUNG_U8, {.rank = 1}, RUNG_PIXELS_FILE}};
    options.fields = both;
    assert_fails(RUNG_INVALID, "fields image and second are both pictures' files",
                 rung_pack_writer_create(context, path, &options, &writer));
}

// ---- hostile files

typedef struct bytes {
    uint8_t data[4096];
    size_t size;
} bytes;

static rungi_pack_header *header_of(bytes *b)
{
    return (rungi_pack_header *)(void *)b->data;
}

static void sign(bytes *b)
{
    rungi_pack_header *h = header_of(b);
    if (h->tail < b->size)
        h->tail_crc = rungi_crc32c(0, b->data + h->tail, b->size - h->tail);
    h->header_crc = rungi_crc32c(0, h, offsetof(rungi_pack_header, header_crc));
}

static void refused(rung_status code, const char *text, const bytes *b)
{
    rung_source *source;
    const char *path = test_write(&folder, "h.pack", b->data, b->size);
    assert_fails(code, text, rung_source_pack(context, path, NULL, &source));
    assert_fails(code, text,
                 rung_source_pack(context, path, &(rung_pack_options){.read = true}, &source));
    assert_non_null(strstr(rung_error_last()->message, "h.pack"));
}

static bytes good(void)
{
    bytes b = {.size = 0};
    b.size = test_read(PACKS "files.pack", b.data, sizeof b.data);
    return b;
}

static rungi_pack_entry *entry_of(bytes *b, int i)
{
    return (rungi_pack_entry *)(void *)(b->data + header_of(b)->tail) + i;
}

static void replace(bytes *b, const char *from, const char *to)
{
    assert_int_equal(strlen(from), strlen(to));
    char *at = memmem(b->data, b->size, from, strlen(from));
    assert_non_null(at);
    memcpy(at, to, strlen(to));
    sign(b);
}

// C60, C80, C82 for packs.
static void hostile_files(void **state)
{
    (void)state;
    bytes b = good();
    for (size_t cut = 0; cut < b.size; cut++) {
        bytes part = b;
        part.size = cut;
        refused(cut < 64 ? RUNG_FORMAT : RUNG_CORRUPT, cut < 64 ? "not a pack" : "cut: expected",
                &part);
    }
    b.data[b.size++] = 0;
    refused(RUNG_CORRUPT, "too long: expected", &b);
    b = good();
    b.data[0] ^= 1;
    refused(RUNG_FORMAT, "not a pack", &b);
    b = good();
    b.data[20] ^= 1;
    refused(RUNG_CORRUPT, "its header does not have its checksum", &b);
    b = good();
    b.data[b.size - 3] ^= 1;
    refused(RUNG_CORRUPT, "its index does not have its checksum", &b);
    b = good();
    header_of(&b)->version = 2;
    refused(RUNG_UNSUPPORTED, "a pack of version 2, this rung reads version 1", &b);
    b = good();
    header_of(&b)->flags = 4;
    sign(&b);
    refused(RUNG_UNSUPPORTED, "flags 0x4", &b);
    // Sizes that wrap.
    static const uint64_t large[] = {
        UINT64_MAX, UINT64_MAX / 32 + 1, UINT64_MAX / 2, (uint64_t)1 << 59, 4, 0};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        for (int member = 0; member < 4; member++) {
            b = good();
            rungi_pack_header *h = header_of(&b);
            uint64_t *members[] = {&h->count, &h->tail, &h->names_size, &h->meta_size};
            *members[member] = large[i];
            sign(&b);
            refused(RUNG_FORMAT, "its header is wrong", &b);
        }
}

static void hostile_entries(void **state)
{
    (void)state;
    static const struct {
        size_t member;
        uint64_t value;
        const char *text;
    } changes[] = {
        {offsetof(rungi_pack_entry, offset), 0, "not among the samples"},
        {offsetof(rungi_pack_entry, offset), 65, "not among the samples"},
        {offsetof(rungi_pack_entry, offset), UINT64_MAX - 63, "not among the samples"},
        {offsetof(rungi_pack_entry, size), UINT64_MAX, "not among the samples"},
        {offsetof(rungi_pack_entry, size), 4096, "not among the samples"},
        {offsetof(rungi_pack_entry, size), 0, "has 0 bytes, expected more than 0"},
        {offsetof(rungi_pack_entry, label), 2, "label 2 of 2 classes"},
        {offsetof(rungi_pack_entry, label), (uint64_t)-1, "label -1 of 2 classes"},
        {offsetof(rungi_pack_entry, name), UINT32_MAX, "its name is not among the names"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        bytes b = good();
        memcpy((char *)entry_of(&b, 1) + changes[i].member, &changes[i].value,
               changes[i].member == offsetof(rungi_pack_entry, name) ? 4 : 8);
        sign(&b);
        refused(changes[i].member == offsetof(rungi_pack_entry, label) ? RUNG_DATA : RUNG_FORMAT,
                changes[i].text, &b);
    }
    bytes b = good();
    replace(&b, "\"dtype\":\"u8\"", "\"dtype\":\"u9\"");
    refused(RUNG_FORMAT, "no such dtype: u9", &b);
    b = good();
    replace(&b, "\"pixels\":\"file\"", "\"pixels\":\"none\"");
    refused(RUNG_FORMAT, "expected 1", &b); // a scalar, which has one byte
    b = good();
    replace(&b, "\"classes\":2", "\"classes\":3");
    refused(RUNG_FORMAT, "2 names of 3 classes", &b);
    b = good();
    replace(&b, "{\"fields\"", "[\"fields\"");
    refused(RUNG_FORMAT, "h.pack", &b);
    b = good();
    b.data[(uint8_t *)memmem(b.data, b.size, "130.jpg", 7) - b.data + 7] = 'x';
    sign(&b);
    refused(RUNG_FORMAT, "its names have no end", &b);
}

// A sample that is damaged is its own error, each time it is read.
static void damaged_sample(void **state)
{
    (void)state;
    bytes b = good();
    b.data[64 + 64 + 10] ^= 0x40;
    const char *path = test_write(&folder, "d.pack", b.data, b.size);
    for (int read = 0; read < 2; read++) {
        rung_source *source;
        void *worker = NULL;
        int64_t label;
        assert_ok(rung_source_pack(context, path, &(rung_pack_options){.read = read}, &source));
        if (source->open)
            assert_ok(source->open(source->self, 0, &worker));
        for (int again = 0; again < 2; again++)
            for (int i = 0; i < 3; i++) {
                rung_view views[] = {{RUNG_U8, RUNG_SHAPE(0), NULL},
                                     {RUNG_I64, RUNG_SCALAR, &label}};
                rung_sample sample = {.index = i, .may_borrow = 1};
                if (i == 1)
                    assert_fails(RUNG_CORRUPT,
                                 "sample 1 (dir/64.jpg, 64 bytes at byte 128) does not have its "
                                 "checksum",
                                 source->read(source->self, worker, &sample, views));
                else
                    assert_ok(source->read(source->self, worker, &sample, views));
            }
        if (!read)
            assert_fails(RUNG_CORRUPT, "sample 1", rung_pack_check(path, NULL, NULL));
        // A file that is cut after it was opened.
        assert_int_equal(truncate(path, 200), 0);
        rung_view cut[] = {{RUNG_U8, RUNG_SHAPE(0), NULL}, {RUNG_I64, RUNG_SCALAR, &label}};
        assert_fails(RUNG_CORRUPT, "the file has changed since it was opened",
                     source->read(source->self, worker, &(rung_sample){.index = 2}, cut));
        test_write(&folder, "d.pack", b.data, b.size);
        if (source->close)
            source->close(source->self, worker);
        rung_source_destroy(&source);
    }
}

// ---- order

enum { SIDE = 64 };

static void make_large(const char *path, int count)
{
    size_t bytes_each = SIDE * SIDE;
    rung_pack_writer *writer;
    uint8_t *image = calloc(1, bytes_each);
    int64_t label = 0;
    rung_field fields[] = {{"image", RUNG_U8, RUNG_SHAPE(SIDE, SIDE, 1), RUNG_PIXELS_HWC},
                           {"label", RUNG_I64, RUNG_SCALAR, RUNG_PIXELS_NONE}};
    rung_view views[] = {{RUNG_U8, fields[0].shape, image}, {RUNG_I64, RUNG_SCALAR, &label}};
    assert_ok(rung_pack_writer_create(
        context, path, &(rung_pack_writer_options){.fields = fields, .field_count = 2}, &writer));
    for (int i = 0; i < count; i++) {
        label = i;
        memcpy(image, &i, sizeof i);
        assert_ok(rung_pack_writer_add(writer, "", views));
    }
    assert_ok(rung_pack_writer_finish(&writer, NULL, NULL));
    free(image);
}

static void order_of_groups(void **state)
{
    (void)state;
    enum { COUNT = 1003 };
    rung_source *source, *other;
    rung_sampler *sampler, *twin;
    const char *path = test_path(&folder, "g.pack");
    make_large(path, COUNT);
    assert_ok(rung_source_pack(context, path, NULL, &source));
    // About 10 samples a group, 8 groups at a time.
    assert_ok(rung_sampler_pack(source, 43000, 8, 5, &sampler));
    assert_ok(rung_sampler_pack(source, 43000, 8, 5, &twin));
    assert_int_equal(sampler->count, COUNT);
    int64_t first[2][COUNT];
    for (int64_t epoch = 0; epoch < 2; epoch++) {
        void *order, *same;
        bool seen[COUNT] = {0};
        assert_ok(sampler->begin(sampler->self, epoch, &order));
        assert_ok(twin->begin(twin->self, epoch, &same));
        int groups_met = 0;
        bool group[COUNT] = {0};
        for (int64_t i = 0; i < COUNT; i++) {
            rung_draw draw, again;
            sampler->at(sampler->self, order, i, &draw);
            twin->at(twin->self, same, i, &again);
            assert_int_equal(draw.sample, again.sample);
            assert_false(seen[draw.sample]); // exactly once
            seen[draw.sample] = true;
            first[epoch][i] = draw.sample;
            groups_met += i < 80 && !group[draw.sample / 10];
            group[draw.sample / 10] = true;
        }
        assert_true(groups_met <= 9); // 8 of 10, with the short one at most 9 in 80 places
        sampler->end(sampler->self, order);
        twin->end(twin->self, same);
    }
    int equal = 0, neighbours = 0;
    for (int i = 0; i < COUNT; i++) {
        equal += first[0][i] == first[1][i];
        neighbours += i > 0 && first[0][i] == first[0][i - 1] + 1;
    }
    assert_true(equal < 20 && neighbours < 60);
    rung_sampler_destroy(&sampler);
    rung_sampler_destroy(&twin);
    assert_ok(rung_sampler_pack(source, 0, 0, 5, &sampler)); // the defaults
    rung_sampler_destroy(&sampler);
    assert_fails(RUNG_INVALID, "must not be negative",
                 rung_sampler_pack(source, -1, 0, 5, &sampler));
    rung_source_destroy(&source);
    float one[] = {1, 2};
    rung_array_field field = {"x", {RUNG_F32, RUNG_SHAPE(2, 1), one}, RUNG_PIXELS_NONE};
    assert_ok(rung_source_arrays(context, &field, 1, 0, false, &other));
    assert_fails(RUNG_INVALID, "not a pack", rung_sampler_pack(other, 0, 0, 5, &sampler));
    rung_source_destroy(&other);
}

// Through the loader, for any number of workers the same batches; mapped and read.
static void loads(void **state)
{
    (void)state;
    const char *path = test_path(&folder, "g.pack");
    uint32_t sums[6];
    for (int run = 0; run < 6; run++) {
        rung_source *source;
        rung_loader *loader;
        rung_batch batch;
        rung_transform step = {.kind = RUNG_TRANSFORM_TO_FLOAT};
        assert_ok(rung_source_pack(context, path, &(rung_pack_options){.read = run >= 3}, &source));
        assert_ok(rung_loader_create(context, source,
                                     &(rung_loader_options){.batch_size = 64,
                                                            .shuffle = true,
                                                            .num_workers = run % 3,
                                                            .transforms = &step,
                                                            .transform_count = 1},
                                     &loader));
        sums[run] = 0;
        do {
            assert_ok(rung_loader_next(loader, &batch));
            sums[run] = rungi_crc32c(sums[run], batch.fields[0].data,
                                     (size_t)batch.count * 4096 * sizeof(float));
            const int64_t *labels = batch.fields[1].data;
            for (int64_t i = 0; i < batch.count; i++)
                assert_int_equal(labels[i], batch.samples[i]);
            bool last = batch.is_last_of_epoch;
            rung_loader_release(loader, &batch);
            if (last)
                break;
        } while (true);
        assert_int_equal(sums[run], sums[0]);
        rung_loader_destroy(&loader);
        rung_source_destroy(&source);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_files),     cmocka_unit_test(reads_arrays),
        cmocka_unit_test(writes_the_same), cmocka_unit_test(takes_up),
        cmocka_unit_test(begins_anew),     cmocka_unit_test(hostile_files),
        cmocka_unit_test(hostile_entries), cmocka_unit_test(damaged_sample),
        cmocka_unit_test(order_of_groups), cmocka_unit_test(loads),
    };
    return RUN_GROUP(tests, group_set_up);
}
