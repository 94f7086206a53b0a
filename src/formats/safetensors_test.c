// SPDX-License-Identifier: Apache-2.0
// Against files of the format's own library (tests/fixtures/formats, made by tools/fixtures).
#include "scratch.h"

#include <math.h>
#include <unistd.h>

#include "formats/safetensors.h"

// Element i of the fixtures' values: (i * 7 mod 23 - 11) * scale.
static double value(int i, double scale)
{
    return (i * 7 % 23 - 11) * scale;
}

static void reads_all_types(void **state)
{
    (void)state;
    rung_safetensors *file;
    assert_ok(rung_safetensors_open(FORMATS_FIXTURE("types.safetensors"), &file));
    assert_int_equal(rung_safetensors_count(file), 11);
    size_t pairs;
    const rung_safetensors_pair *metadata = rung_safetensors_metadata(file, &pairs);
    assert_int_equal(pairs, 1);
    assert_string_equal(metadata[0].key, "format");
    assert_string_equal(metadata[0].value, "np");
    static const struct {
        const char *name;
        rung_dtype dtype;
        int count;
        double scale;
    } wanted[] = {
        {"weight", RUNG_F32, 12, 0.5},
        {"half", RUNG_F16, 5, 0.25},
        {"another", RUNG_F32, 2, 2},
        {"double", RUNG_F64, 3, 0.125},
        {"long", RUNG_I64, 4, 1},
        {"int", RUNG_I32, 4, 1},
        {"na\"me\\\n\u00e9\u4e16", RUNG_F32, 1, 1},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const rung_safetensors_tensor *t = rung_safetensors_find(file, wanted[i].name);
        assert_non_null(t);
        assert_int_equal(t->dtype, wanted[i].dtype);
        double got[12];
        assert_ok(rung_safetensors_read(file, t, RUNG_F64, got, NULL));
        for (int j = 0; j < wanted[i].count; j++)
            assert_true(got[j] == value(j, wanted[i].scale));
    }
    uint8_t bytes[7], mask[5];
    rung_view view = {RUNG_U8, RUNG_SHAPE(7), bytes};
    assert_ok(rung_safetensors_load(file, "byte", &view, NULL));
    assert_int_equal(bytes[6], 240);
    view = (rung_view){RUNG_BOOL, RUNG_SHAPE(5), mask};
    assert_ok(rung_safetensors_load(file, "mask", &view, NULL));
    assert_memory_equal(mask, ((uint8_t[]){1, 0, 1, 0, 1}), 5);
    float scalar, none;
    view = (rung_view){RUNG_F32, RUNG_SCALAR, &scalar};
    assert_ok(rung_safetensors_load(file, "scalar", &view, NULL));
    assert_true(scalar == 2.5f);
    view = (rung_view){RUNG_F32, RUNG_SHAPE(0, 3), &none};
    assert_ok(rung_safetensors_load(file, "empty", &view, NULL));
    view.shape = RUNG_SHAPE(4, 3);
    assert_fails(RUNG_MISMATCH, "tensor weight has shape [3, 4] where [4, 3] is expected",
                 rung_safetensors_load(file, "weight", &view, NULL));
    assert_fails(RUNG_NOT_FOUND, "has no tensor bias",
                 rung_safetensors_load(file, "bias", &view, NULL));
    assert_null(rung_safetensors_get(file, 11));
    rung_safetensors_close(&file);
    assert_null(file);
}

// Case C84, and types that rung lacks.
static void reads_more_types(void **state)
{
    (void)state;
    rung_safetensors *file;
    assert_ok(rung_safetensors_open(FORMATS_FIXTURE("more_types.safetensors"), &file));
    float b[5];
    rung_view view = {RUNG_F32, RUNG_SHAPE(5), b};
    assert_ok(rung_safetensors_load(file, "b", &view, NULL));
    assert_true(b[0] == 1 && b[3] == -INFINITY && isnan(b[4]));
    assert_true(fabsf(b[1] - 3.3895e38f) < 1e34f && b[2] == 0x1p-133f);
    uint16_t halves[5];
    int64_t lost;
    view = (rung_view){RUNG_F16, RUNG_SHAPE(5), halves};
    assert_ok(rung_safetensors_load(file, "b", &view, &lost));
    assert_int_equal(lost, 1); // 3.39e38; the infinity was one before
    const rung_safetensors_tensor *f8 = rung_safetensors_find(file, "f8");
    assert_int_equal(f8->dtype, RUNG_DTYPE_COUNT);
    assert_string_equal(f8->type, "F8_E4M3");
    assert_int_equal(f8->bytes, 4);
    assert_fails(RUNG_UNSUPPORTED, "type F8_E4M3",
                 rung_safetensors_read(file, f8, RUNG_F32, b, NULL));
    const rung_safetensors_tensor *deep = rung_safetensors_find(file, "deep");
    assert_int_equal(deep->rank, 7);
    assert_int_equal(deep->dim[6], 2);
    assert_fails(RUNG_UNSUPPORTED, "7 dimensions",
                 rung_safetensors_load(file, "deep", &view, NULL));
    rung_safetensors_close(&file);
}

// Reading a file of the library and writing what was read gives its bytes again (also case C62).
static void writes_the_same_bytes(void **state)
{
    (void)state;
    char folder[RUNGI_PATH_MAX], path[RUNGI_PATH_MAX];
    scratch_make(folder);
    assert_ok(rungi_path_format(path, "%s/copy.safetensors", folder));
    rung_safetensors *file;
    assert_ok(rung_safetensors_open(FORMATS_FIXTURE("types.safetensors"), &file));
    size_t count = rung_safetensors_count(file), pairs;
    const rung_safetensors_pair *metadata = rung_safetensors_metadata(file, &pairs);
    rung_safetensors_item items[11];
    for (size_t i = 0; i < count; i++) { // handed over in another order
        const rung_safetensors_tensor *t = rung_safetensors_get(file, i);
        rung_view view = {.dtype = t->dtype, .shape = {.rank = t->rank}};
        for (int d = 0; d < t->rank; d++)
            view.shape.dim[d] = t->dim[d];
        view.data = malloc(t->bytes + 1);
        assert_ok(rung_safetensors_read(file, t, t->dtype, view.data, NULL));
        items[count - 1 - i] = (rung_safetensors_item){t->name, view};
    }
    assert_ok(rung_safetensors_write(path, items, count, metadata, pairs));
    size_t size, copy_size;
    char *original = scratch_read(FORMATS_FIXTURE("types.safetensors"), &size);
    char *copy = scratch_read(path, &copy_size);
    assert_int_equal(size, copy_size);
    assert_memory_equal(original, copy, size);
    // Written over itself: still whole, and no temporary file is left.
    assert_ok(rung_safetensors_write(path, items, count, metadata, pairs));
    for (size_t i = 0; i < count; i++)
        free(items[i].view.data);
    free(original);
    free(copy);
    rung_safetensors_close(&file);
    assert_int_equal(remove(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

// Every pattern of 16 bits survives, as bf16 and as f16 (case C84).
static void keeps_all_patterns(void **state)
{
    (void)state;
    char folder[RUNGI_PATH_MAX], path[RUNGI_PATH_MAX];
    scratch_make(folder);
    assert_ok(rungi_path_format(path, "%s/patterns.safetensors", folder));
    static uint16_t in[65536], out[65536];
    for (int i = 0; i < 65536; i++)
        in[i] = (uint16_t)i;
    rung_safetensors_item items[] = {
        {"b", {RUNG_BF16, RUNG_SHAPE(256, 256), in}},
        {"h", {RUNG_F16, RUNG_SHAPE(65536), in}},
    };
    assert_ok(rung_safetensors_write(path, items, 2, NULL, 0));
    rung_safetensors *file;
    assert_ok(rung_safetensors_open(path, &file));
    for (int i = 0; i < 2; i++) {
        rung_view view = items[i].view;
        view.data = out;
        memset(out, 0xAA, sizeof out);
        assert_ok(rung_safetensors_load(file, items[i].name, &view, NULL));
        assert_memory_equal(in, out, sizeof in);
    }
    // A converted read over several pieces.
    static float wide[65536];
    rung_view view = {RUNG_F32, RUNG_SHAPE(256, 256), wide};
    assert_ok(rung_safetensors_load(file, "b", &view, NULL));
    for (int i = 0; i < 65536; i++)
        assert_true(isnan(wide[i]) || rung_f32_to_bf16(wide[i]) == in[i]);
    rung_safetensors_close(&file);
    scratch_remove(folder);
}

static rung_status give_bytes(void *user, uint64_t offset, void *out, size_t size)
{
    memcpy(out, (const char *)user + offset, size);
    return RUNG_OK;
}

// Data given piece by piece (as from a device), and the checksums of both ways.
static void emits_with_checksums(void **state)
{
    (void)state;
    enum { COUNT = 300000 };
    char folder[RUNGI_PATH_MAX], path[RUNGI_PATH_MAX];
    scratch_make(folder);
    assert_ok(rungi_path_format(path, "%s/pieces.safetensors", folder));
    float *data = malloc(COUNT * sizeof *data);
    for (int i = 0; i < COUNT; i++)
        data[i] = (float)i;
    rungi_safetensors_source sources[] = {
        {.name = "z",
         .dtype = RUNG_F32,
         .shape = RUNG_SHAPE(COUNT),
         .read = give_bytes,
         .user = data},
        {.name = "a", .dtype = RUNG_F32, .shape = RUNG_SHAPE(3), .data = data},
        {.name = "none", .dtype = RUNG_F64, .shape = RUNG_SHAPE(0)},
    };
    rungi_safetensors_plan plan;
    rungi_file out;
    rungi_sum header, sums[3], again;
    assert_ok(rungi_safetensors_plan_init(&plan, sources, 3, NULL, 0));
    assert_ok(rungi_file_create(&out, path, plan.file_size, NULL));
    assert_ok(rungi_safetensors_emit(&plan, &out, &header, sums));
    assert_ok(rungi_file_finish(&out));
    assert_int_equal(out.written, plan.file_size);
    assert_int_equal(plan.header_size % 8, 0);
    rung_safetensors *file;
    assert_ok(rung_safetensors_open(path, &file));
    assert_int_equal(rungi_safetensors_bytes(file), plan.file_size);
    assert_ok(rungi_safetensors_sum_header(file, &again));
    assert_memory_equal(&again, &header, sizeof header);
    for (int i = 0; i < 3; i++) {
        const rung_safetensors_tensor *t = rung_safetensors_find(file, sources[i].name);
        assert_ok(rungi_safetensors_sum_tensor(file, t, &again));
        assert_memory_equal(&again, &sums[i], sizeof again);
    }
    rungi_sum direct = rungi_sum_of(data, COUNT * sizeof *data);
    assert_memory_equal(&direct, &sums[0], sizeof direct);
    char text[RUNGI_SUM_TEXT]; // of no bytes: as xxh128sum prints it
    assert_string_equal(rungi_sum_text(sums[2], text), "99aa06d3014798d86001c324468d497f");
    rung_safetensors_close(&file);
    rungi_safetensors_plan_fini(&plan);
    free(data);
    scratch_remove(folder);
}

static void refuses_to_write(void **state)
{
    (void)state;
    char folder[RUNGI_PATH_MAX], path[RUNGI_PATH_MAX];
    scratch_make(folder);
    assert_ok(rungi_path_format(path, "%s/x.safetensors", folder));
    float x[2] = {1, 2};
    rung_view good = {RUNG_F32, RUNG_SHAPE(2), x};
    rung_view negative = {RUNG_F32, RUNG_SHAPE(-2), x}, none = {RUNG_F32, RUNG_SHAPE(2), NULL};
    rung_view huge = {RUNG_F32, RUNG_SHAPE((int64_t)1 << 62, 2), x};
    rung_safetensors_item twice[] = {{"a", good}, {"b", good}, {"a", good}};
    assert_fails(RUNG_INVALID, "two tensors are named a",
                 rung_safetensors_write(path, twice, 3, NULL, 0));
    static const struct {
        const char *name, *reason;
    } names[] = {{"__metadata__", "__metadata__"}, {"\xff", "not UTF-8"}};
    for (int i = 0; i < 2; i++)
        assert_fails(RUNG_INVALID, names[i].reason,
                     rung_safetensors_write(path, &(rung_safetensors_item){names[i].name, good}, 1,
                                            NULL, 0));
    assert_fails(RUNG_INVALID, "negative",
                 rung_safetensors_write(path, &(rung_safetensors_item){"n", negative}, 1, NULL, 0));
    assert_fails(RUNG_INVALID, "no data",
                 rung_safetensors_write(path, &(rung_safetensors_item){"n", none}, 1, NULL, 0));
    assert_fails(RUNG_INVALID, "tensor n",
                 rung_safetensors_write(path, &(rung_safetensors_item){"n", huge}, 1, NULL, 0));
    rung_safetensors_pair pairs[] = {{"k", "1"}, {"k", "2"}};
    assert_fails(RUNG_INVALID, "metadata key k is given twice",
                 rung_safetensors_write(path, twice, 2, pairs, 2));
    assert_int_equal(rmdir(folder), 0); // nothing was left
    assert_fails(RUNG_NOT_FOUND, "cannot create", rung_safetensors_write(path, twice, 2, NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_all_types),       cmocka_unit_test(reads_more_types),
        cmocka_unit_test(writes_the_same_bytes), cmocka_unit_test(keeps_all_patterns),
        cmocka_unit_test(emits_with_checksums),  cmocka_unit_test(refuses_to_write),
    };
    return RUN_TESTS(tests);
}
