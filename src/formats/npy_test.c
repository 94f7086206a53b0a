// SPDX-License-Identifier: Apache-2.0
// Against files that NumPy wrote (tools/fixtures/formats.py).
#include "scratch.h"

#include <unistd.h>

#include "base/philox.h"
#include "rung/npy.h"

static double value(int i, double scale)
{
    return (i * 7 % 23 - 11) * scale;
}

static void read_fixture(const char *name, rung_view *view)
{
    char path[RUNGI_PATH_MAX];
    assert_ok(rungi_path_format(path, "%s/%s.npy", FORMATS_FIXTURE(""), name));
    assert_ok(rung_npy_read(path, view));
}

static void reads_numpys_files(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        rung_dtype dtype;
        rung_shape shape;
        double scale;
    } cases[] = {
        {"f4_v1", RUNG_F32, {2, {3, 4}}, 0.5},    {"f2_v2", RUNG_F16, {2, {3, 4}}, 0.5},
        {"f8_v3", RUNG_F64, {2, {3, 4}}, 0.5},    {"i8", RUNG_I64, {1, {4}}, 1},
        {"i4_fortran_1d", RUNG_I32, {1, {4}}, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rung_view view;
        double got[12];
        int64_t count;
        read_fixture(cases[i].name, &view);
        assert_int_equal(view.dtype, cases[i].dtype);
        assert_true(rung_shape_equal(&view.shape, &cases[i].shape));
        assert_ok(rung_shape_count(&view.shape, &count));
        rung_convert(RUNG_F64, got, view.dtype, view.data, count, NULL);
        for (int j = 0; j < count; j++)
            assert_true(got[j] == value(j, cases[i].scale));
        free(view.data);
    }
    rung_view view;
    read_fixture("u1_cube", &view);
    assert_int_equal(view.shape.rank, 3);
    assert_int_equal(((uint8_t *)view.data)[7], 210);
    free(view.data);
    read_fixture("b1", &view);
    assert_int_equal(view.dtype, RUNG_BOOL);
    assert_memory_equal(view.data, ((uint8_t[]){1, 0, 1, 0, 1}), 5);
    free(view.data);
    read_fixture("scalar", &view);
    assert_int_equal(view.shape.rank, 0);
    assert_true(*(float *)view.data == 2.5f);
    free(view.data);
    read_fixture("empty", &view);
    assert_true(rung_shape_equal(&view.shape, &RUNG_SHAPE(0, 3)));
    free(view.data);
}

static void refuses(void **state)
{
    (void)state;
    rung_view view;
    assert_fails(RUNG_UNSUPPORTED, "Fortran order; save numpy.ascontiguousarray",
                 rung_npy_read(FORMATS_FIXTURE("fortran.npy"), &view));
    assert_fails(RUNG_UNSUPPORTED, "type >f4",
                 rung_npy_read(FORMATS_FIXTURE("big_endian.npy"), &view));
    assert_fails(RUNG_UNSUPPORTED, "type <c8",
                 rung_npy_read(FORMATS_FIXTURE("complex.npy"), &view));
    assert_fails(RUNG_UNSUPPORTED, "7 dimensions",
                 rung_npy_read(FORMATS_FIXTURE("deep.npy"), &view));
    assert_fails(RUNG_UNSUPPORTED, "holds records",
                 rung_npy_read(FORMATS_FIXTURE("records.npy"), &view));
    assert_fails(RUNG_FORMAT, "not an .npy file",
                 rung_npy_read(FORMATS_FIXTURE("types.safetensors"), &view));
    assert_fails(RUNG_NOT_FOUND, "cannot open", rung_npy_read("/nonexistent.npy", &view));
}

static void hostile(void **state)
{
    (void)state;
    char folder[RUNGI_PATH_MAX], path[RUNGI_PATH_MAX];
    scratch_make(folder);
    assert_ok(rungi_path_format(path, "%s/x.npy", folder));
    static const struct {
        const char *header, *reason;
    } cases[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", NULL},
        {"{\"descr\":\"<f4\",\"fortran_order\":False,\"shape\":(2L,),}", NULL},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)", "malformed"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", "malformed"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2.0,)}", "malformed"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x", "malformed"},
        {"{'descr': '<f4', 'fortran_order': False}", "malformed"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'shape': (2,)}", "malformed"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}", "malformed"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}", "malformed"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 2}", "malformed"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "malformed"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,)}", "too large"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296,4294967296)}",
         "more elements than"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", "cut: expected"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "4 bytes after the array"},
        {"", "malformed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char file[256] = "\x93NUMPY\x01\x00";
        size_t length = strlen(cases[i].header);
        file[8] = (char)length;
        memcpy(file + 10, cases[i].header, length);
        scratch_write(path, file, 10 + length + 8);
        rung_view view;
        rung_status status = rung_npy_read(path, &view);
        if (status == RUNG_OK)
            free(view.data);
        if ((status == RUNG_OK) != !cases[i].reason ||
            (status && !strstr(rung_error_last()->message, cases[i].reason)))
            fail_msg("%s: got %s", cases[i].header,
                     status ? rung_error_last()->message : "success");
    }
    // Random changes and every cut of a good file.
    size_t size;
    char *good = scratch_read(FORMATS_FIXTURE("f8_v3.npy"), &size);
    rungi_random random = rungi_random_make(3, RUNGI_PURPOSE_TEST, 0, 0, 0);
    uint64_t at = 0;
    for (int trial = 0; trial < 2000; trial++) {
        size_t where = rungi_random_below(&random, 140, &at);
        char kept = good[where];
        good[where] = (char)rungi_random_below(&random, 256, &at);
        scratch_write(path, good, trial < (int)size ? (size_t)trial : size);
        good[where] = kept;
        rung_view view;
        if (rung_npy_read(path, &view) == RUNG_OK)
            free(view.data);
    }
    free(good);
    scratch_remove(folder);
}

static void writes_and_reads_back(void **state)
{
    (void)state;
    char folder[RUNGI_PATH_MAX], path[RUNGI_PATH_MAX];
    scratch_make(folder);
    assert_ok(rungi_path_format(path, "%s/x.npy", folder));
    static double source[24];
    for (int i = 0; i < 24; i++)
        source[i] = i % 2;
    static const rung_shape shapes[] = {{0, {0}}, {1, {24}}, {3, {2, 3, 4}}, {2, {0, 5}}};
    for (int dtype = 0; dtype < RUNG_DTYPE_COUNT; dtype++)
        for (size_t s = 0; s < 4; s++) {
            double data[24];
            int64_t count;
            rung_view view = {(rung_dtype)dtype, shapes[s], data}, back;
            rung_convert((rung_dtype)dtype, data, RUNG_F64, source, 24, NULL);
            assert_ok(rung_npy_write(path, &view));
            assert_ok(rung_npy_read(path, &back));
            assert_int_equal(back.dtype, dtype == RUNG_BF16 ? RUNG_F32 : (rung_dtype)dtype);
            assert_true(rung_shape_equal(&back.shape, &shapes[s]));
            assert_ok(rung_shape_count(&shapes[s], &count));
            double got[24];
            rung_convert(RUNG_F64, got, back.dtype, back.data, count, NULL);
            assert_memory_equal(got, source, (size_t)count * sizeof *got);
            free(back.data);
        }
    size_t size;
    rung_view scalar = {RUNG_F64, RUNG_SCALAR, source};
    assert_ok(rung_npy_write(path, &scalar));
    char *text = scratch_read(path, &size);
    assert_int_equal(size, 128 + 8); // data begin at a multiple of 64, as NumPy has it
    free(text);
    rung_view bad = {RUNG_F32, RUNG_SHAPE(-1), source};
    assert_fails(RUNG_INVALID, "negative", rung_npy_write(path, &bad));
    assert_fails(RUNG_NOT_FOUND, "cannot create", rung_npy_write("/nonexistent/x.npy", &scalar));
    scratch_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_numpys_files),
        cmocka_unit_test(refuses),
        cmocka_unit_test(hostile),
        cmocka_unit_test(writes_and_reads_back),
    };
    return RUN_TESTS(tests);
}
