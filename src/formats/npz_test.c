// SPDX-License-Identifier: Apache-2.0
// .npz archives made by NumPy (tools/fixtures/npz.py); cut and changed ones.
#include "rung/npy.h"
#include "scratch.h"

#include "formats/npy_read.h"

#define NPZ(name) RUNG_SOURCE_DIR "/tests/fixtures/npz/" name

static void check_images(const rung_view *view, int64_t count, int first)
{
    assert_int_equal(view->dtype, RUNG_U8);
    assert_true(rung_shape_equal(&view->shape, &RUNG_SHAPE(count, 4, 5)));
    for (int i = 0; i < count * 20; i++)
        assert_int_equal(((const uint8_t *)view->data)[i], (uint8_t)(first + i));
}

static void reads(void **state)
{
    (void)state;
    static const char *const files[] = {NPZ("stored.npz"), NPZ("deflated.npz")};
    for (int f = 0; f < 2; f++) {
        rung_view view;
        assert_ok(rung_npz_read(files[f], "x_train", &view));
        check_images(&view, 6, 0);
        free(view.data);
        assert_ok(rung_npz_read(files[f], "y_test", &view));
        assert_int_equal(view.dtype, RUNG_I64);
        const int64_t *labels = view.data;
        assert_true(labels[0] == 2 && labels[1] == 1 && labels[2] == 0);
        free(view.data);
    }
    rung_view view;
    assert_ok(rung_npz_read(NPZ("deflated.npz"), "weight", &view));
    assert_int_equal(view.dtype, RUNG_F64);
    for (int i = 0; i < 5; i++)
        assert_true(((const double *)view.data)[i] == i / 4.0);
    free(view.data);
}

static void lists(void **state)
{
    (void)state;
    static const char *const wanted[] = {"x_train", "y_train", "x_test", "y_test"};
    rungi_names names;
    assert_ok(rungi_npz_list(NPZ("stored.npz"), &names));
    assert_int_equal(names.count, 4);
    for (int i = 0; i < 4; i++)
        assert_string_equal(names.data[i], wanted[i]);
    rungi_names_fini(&names);
}

static void refuses(void **state)
{
    (void)state;
    rung_view view;
    assert_fails(RUNG_NOT_FOUND,
                 "stored.npz: has no array x (there are: x_train, y_train, x_test, y_test)",
                 rung_npz_read(NPZ("stored.npz"), "x", &view));
    assert_fails(RUNG_NOT_FOUND, "cannot open", rung_npz_read(NPZ("no.npz"), "x", &view));
    assert_fails(RUNG_FORMAT, "not an .npz archive",
                 rung_npz_read(FORMATS_FIXTURE("f4_v1.npy"), "x", &view));
}

// Cut anywhere it is refused: its directory is at the end. A changed byte is refused, or it did not
// matter to the array.
static void hostile(void **state)
{
    (void)state;
    static const char *const files[] = {NPZ("stored.npz"), NPZ("deflated.npz")};
    char folder[RUNGI_PATH_MAX], path[RUNGI_PATH_MAX];
    scratch_make(folder);
    assert_ok(rungi_path_format(path, "%s/h.npz", folder));
    for (int f = 0; f < 2; f++) {
        size_t size;
        char *data = scratch_read(files[f], &size);
        for (size_t cut = 0; cut < size; cut++) {
            rung_view view;
            scratch_write(path, data, cut);
            rung_status status = rung_npz_read(path, "y_train", &view);
            assert_int_not_equal(status, RUNG_OK);
            assert_non_null(strstr(rung_error_last()->message, "h.npz"));
        }
        int refused = 0;
        for (size_t at = 0; at < size; at++) {
            rung_view view;
            data[at] ^= 0x55;
            scratch_write(path, data, size);
            if (rung_npz_read(path, "x_train", &view) == RUNG_OK) {
                check_images(&view, 6, 0);
                free(view.data);
            } else {
                refused++;
            }
            data[at] ^= 0x55;
        }
        assert_true(refused > 100); // of x_train's own bytes
        free(data);
    }
    scratch_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads),
        cmocka_unit_test(lists),
        cmocka_unit_test(refuses),
        cmocka_unit_test(hostile),
    };
    return RUN_TESTS(tests);
}
