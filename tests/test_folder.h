// SPDX-License-Identifier: Apache-2.0
// A folder of its own for a test, removed with all that is in it.
#ifndef RUNGI_TESTS_TEST_FOLDER_H
#define RUNGI_TESTS_TEST_FOLDER_H

#include "testing.h"

#include <stdio.h>

#include "base/fs.h"

typedef struct test_folder {
    char path[256];
    char *joined[64]; // paths made by test_path
    int count;
} test_folder;

static inline void test_folder_init(test_folder *folder)
{
    const char *top = getenv("TMPDIR");
    *folder = (test_folder){0};
    snprintf(folder->path, sizeof folder->path, "%s/rung-test-XXXXXX", top ? top : "/tmp");
    assert_non_null(mkdtemp(folder->path));
}

static inline void test_folder_fini(test_folder *folder)
{
    for (int i = 0; i < folder->count; i++)
        free(folder->joined[i]);
    assert_ok(rungi_fs_remove_tree(folder->path));
}

// The path of `name` in the folder. Valid until test_folder_fini.
static inline const char *test_path(test_folder *folder, const char *name)
{
    assert_true(folder->count < 64);
    return folder->joined[folder->count++] = rungi_path_join(folder->path, name);
}

static inline void test_write(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

// A test that gets a test_folder as its state.
static inline int test_folder_set_up(void **state)
{
    test_folder *folder = malloc(sizeof *folder);
    test_folder_init(folder);
    *state = folder;
    return 0;
}

static inline int test_folder_tear_down(void **state)
{
    test_folder_fini(*state);
    free(*state);
    return 0;
}

#define IN_FOLDER(test) \
    cmocka_unit_test_setup_teardown(test, test_folder_set_up, test_folder_tear_down)

#endif
