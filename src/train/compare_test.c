// SPDX-License-Identifier: Apache-2.0
#include "test_folder.h"

#include <math.h>

#include "formats/checkpoint_folder.h"
#include "rung/compare.h"

typedef struct tensor {
    const char *name;
    rung_dtype dtype;
    int64_t count;
    const void *data;
} tensor;

// Saves a checkpoint with a model of these tensors (ended by {0}) and a step count of "w".
static const char *save(test_folder *folder, const char *name, const tensor *tensors, int steps)
{
    rungi_checkpoints *store;
    rungi_safetensors_source sources[8];
    size_t n = 0;
    const char *root = test_path(folder, "checkpoints");
    for (; tensors[n].name; n++)
        sources[n] = (rungi_safetensors_source){.name = tensors[n].name,
                                                .dtype = tensors[n].dtype,
                                                .shape = RUNG_SHAPE(tensors[n].count),
                                                .data = tensors[n].data};
    rungi_checkpoint_file file = {RUNGI_CHECKPOINT_MODEL, sources, n};
    json_t *state = json_pack("{s:i, s:{s:i}}", "step", 5, "optimizer_steps", "w", steps);
    assert_ok(rungi_checkpoints_open(root, NULL, &store));
    assert_ok(rungi_checkpoints_save(store, name, &file, 1, state));
    rungi_checkpoints_close(&store);
    json_decref(state);
    char path[64];
    snprintf(path, sizeof path, "checkpoints/%s", name);
    return test_path(folder, path);
}

static const rung_difference *find(const rung_comparison *c, const char *name)
{
    for (int64_t i = 0; i < c->count; i++)
        if (strcmp(c->differences[i].name, name) == 0)
            return &c->differences[i];
    fail_msg("%s is not told", name);
    return NULL;
}

static void tells_what_differs(void **state)
{
    const float w[] = {1, 2, 3, 4}, w2[] = {1, 2.5f, 3, 3.75f}, zero[] = {0.0f}, minus[] = {-0.0f};
    const float nan_w[] = {1, NAN, 3, 4};
    const int64_t counts[] = {5};
    const tensor a[] = {{"w", RUNG_F32, 4, w},
                        {"n", RUNG_I64, 1, counts},
                        {"z", RUNG_F32, 1, zero},
                        {"v", RUNG_F32, 4, w},
                        {"nan", RUNG_F32, 4, nan_w},
                        {"own", RUNG_F32, 1, zero},
                        {0}};
    const tensor b[] = {{"w", RUNG_F32, 4, w2},
                        {"n", RUNG_F32, 1, zero},
                        {"z", RUNG_F32, 1, minus},
                        {"v", RUNG_F32, 3, w},
                        {"nan", RUNG_F32, 4, w},
                        {"theirs", RUNG_F32, 1, zero},
                        {0}};
    const char *one = save(*state, "a", a, 5), *same = save(*state, "same", a, 5);
    const char *other = save(*state, "b", b, 6);
    rung_comparison c;
    assert_ok(rung_compare(one, same, &c)); // a NaN of the same bits is the same
    assert_int_equal(c.count, 0);
    assert_int_equal(c.tensors, 7);
    assert_false(c.sides[0].evaluated || c.sides[0].measured);
    rung_comparison_fini(&c);

    assert_ok(rung_compare(one, other, &c));
    assert_int_equal(c.tensors, 8);
    assert_int_equal(c.count, 8);
    assert_int_equal(c.sides[0].step, 5);
    const rung_difference *d = find(&c, "w");
    assert_int_equal(d->count, 4);
    assert_int_equal(d->differing, 2);
    assert_near(d->max_abs, 0.5, 0);
    assert_null(d->what);
    d = find(&c, "z"); // zeros of other signs are other bits
    assert_int_equal(d->differing, 1);
    assert_near(d->max_abs, 0, 0);
    assert_true(isinf(find(&c, "nan")->max_abs));
    assert_string_equal(find(&c, "n")->what, "type I64 and F32");
    assert_string_equal(find(&c, "v")->what, "shape [4] and [3]");
    assert_string_equal(find(&c, "own")->what, "only in A");
    assert_string_equal(find(&c, "theirs")->what, "only in B");
    assert_string_equal(find(&c, "w.step")->what, "5 and 6");
    rung_comparison_fini(&c);

    assert_int_equal(rung_compare(one, test_path(*state, "nothing"), &c), RUNG_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {IN_FOLDER(tells_what_differs)};
    return RUN_TESTS(tests);
}
