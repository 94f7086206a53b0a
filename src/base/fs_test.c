// SPDX-License-Identifier: Apache-2.0
#include "test_folder.h"

#include <sys/stat.h>
#include <unistd.h>

static void check_text(char *text, const char *expected)
{
    assert_string_equal(text, expected);
    free(text);
}

static void paths(void **state)
{
    (void)state;
    check_text(rungi_path_join("a", "b"), "a/b");
    check_text(rungi_path_join("a/", "b"), "a/b");
    check_text(rungi_path_join("", "b"), "b");
    check_text(rungi_path_join("a", "/b"), "/b");
    check_text(rungi_path_folder("a/b/c"), "a/b");
    check_text(rungi_path_folder("a//b"), "a");
    check_text(rungi_path_folder("b"), ".");
    check_text(rungi_path_folder("/b"), "/");
    assert_string_equal(rungi_path_name("a/b.c"), "b.c");
    assert_string_equal(rungi_path_name("b"), "b");
}

static void read_gives_the_bytes(void **state)
{
    test_folder *folder = *state;
    const char *path = test_path(folder, "data");
    char bytes[10000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 31);
    for (size_t size = 0; size <= sizeof bytes; size += size < 3 ? 1 : 3333) {
        char *data;
        size_t got;
        test_write(path, bytes, size);
        assert_ok(rungi_fs_read(path, size, &data, &got));
        assert_int_equal(got, size);
        assert_memory_equal(data, bytes, size);
        assert_int_equal(data[size], 0);
        free(data);
    }
}

static void read_says_what_is_wrong(void **state)
{
    test_folder *folder = *state;
    char *data = NULL;
    size_t size;
    const char *file = test_path(folder, "data");
    test_write(file, "0123456789", 10);
    assert_fails(RUNG_FORMAT, "data: larger than 9 B", rungi_fs_read(file, 9, &data, &size));
    assert_fails(RUNG_NOT_FOUND, "missing: cannot open: no such file",
                 rungi_fs_read(test_path(folder, "missing"), 9, &data, &size));
    assert_fails(RUNG_IO, "it is a folder, not a file",
                 rungi_fs_read(folder->path, 9, &data, &size));
    assert_fails(RUNG_IO, "data is a file, not a folder",
                 rungi_fs_read(test_path(folder, "data/inner"), 9, &data, &size));
    assert_fails(RUNG_NOT_FOUND, "''", rungi_fs_read("", 9, &data, &size));
    assert_fails(RUNG_FORMAT, "/dev/zero: larger than",
                 rungi_fs_read("/dev/zero", 1 << 20, &data, &size));
    assert_fails(RUNG_NOT_FOUND, "caf\\xe9: cannot open",
                 rungi_fs_read(test_path(folder, "caf\xe9"), 9, &data, &size));
    assert_null(data);
}

static void folders_are_made_with_those_above(void **state)
{
    test_folder *folder = *state;
    const char *deep = test_path(folder, "a/b//c/");
    assert_ok(rungi_fs_make_folders(deep));
    assert_true(rungi_fs_is_folder(deep));
    assert_ok(rungi_fs_make_folders(deep));
    assert_ok(rungi_fs_make_folders("/"));
    test_write(test_path(folder, "file"), "", 0);
    assert_fails(RUNG_IO, "file: cannot create folder: it is a file, not a folder",
                 rungi_fs_make_folders(test_path(folder, "file")));
    assert_fails(RUNG_IO, "it is a file, not a folder",
                 rungi_fs_make_folders(test_path(folder, "file/inner")));
    assert_fails(RUNG_NOT_FOUND, "cannot create", rungi_fs_make_folders(""));
    assert_true(rungi_fs_exists(test_path(folder, "file")));
    assert_false(rungi_fs_is_folder(test_path(folder, "file")));
}

static void list_is_in_byte_order(void **state)
{
    test_folder *folder = *state;
    static const char *const order[] = {"10",           "9",       "B", "a b", "caf\xc3\xa9",
                                        "\xe4\xb8\xad", "\xff.png"};
    const char *inner = test_path(folder, "list");
    assert_ok(rungi_fs_make_folders(inner));
    rungi_names names = {0};
    assert_ok(rungi_fs_list(inner, &names));
    assert_int_equal(names.count, 0);
    for (int i = 6; i >= 0; i--) {
        char *path = rungi_path_join(inner, order[i]);
        test_write(path, "", 0);
        free(path);
    }
    assert_ok(rungi_fs_list(inner, &names));
    assert_int_equal(names.count, 7);
    for (int i = 0; i < 7; i++)
        assert_string_equal(names.data[i], order[i]);
    rungi_names_fini(&names);
    assert_fails(RUNG_NOT_FOUND, "cannot list", rungi_fs_list(test_path(folder, "none"), &names));
}

static void remove_tree_does_not_follow_links(void **state)
{
    test_folder *folder = *state;
    assert_ok(rungi_fs_make_folders(test_path(folder, "keep")));
    test_write(test_path(folder, "keep/file"), "x", 1);
    assert_ok(rungi_fs_make_folders(test_path(folder, "tree/a/b")));
    test_write(test_path(folder, "tree/a/b/\xff"), "x", 1);
    assert_int_equal(symlink("../keep", test_path(folder, "tree/link")), 0);
    assert_int_equal(symlink("nowhere", test_path(folder, "tree/a/dangling")), 0);
    const char *tree = test_path(folder, "tree");
    assert_ok(rungi_fs_remove_tree(tree));
    assert_false(rungi_fs_exists(tree));
    assert_ok(rungi_fs_remove_tree(tree));
    assert_true(rungi_fs_exists(test_path(folder, "keep/file")));
    assert_int_equal(symlink("keep", test_path(folder, "link")), 0);
    assert_ok(rungi_fs_remove_tree(test_path(folder, "link")));
    assert_true(rungi_fs_exists(test_path(folder, "keep/file")));
}

static void mappings(void **state)
{
    test_folder *folder = *state;
    const char *path = test_path(folder, "map");
    rungi_mapping mapping = {0};
    test_write(path, "", 0);
    assert_ok(rungi_mapping_init(&mapping, path));
    assert_int_equal(mapping.size, 0);
    assert_non_null(mapping.data);
    rungi_mapping_fini(&mapping);
    test_write(path, "abc", 3);
    assert_ok(rungi_mapping_init(&mapping, path));
    assert_int_equal(mapping.size, 3);
    assert_memory_equal(mapping.data, "abc", 3);
    rungi_mapping_fini(&mapping);
    rungi_mapping_fini(&mapping);
    assert_fails(RUNG_IO, "folder, not a file", rungi_mapping_init(&mapping, folder->path));
    assert_fails(RUNG_NOT_FOUND, "none", rungi_mapping_init(&mapping, test_path(folder, "none")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths),
        IN_FOLDER(read_gives_the_bytes),
        IN_FOLDER(read_says_what_is_wrong),
        IN_FOLDER(folders_are_made_with_those_above),
        IN_FOLDER(list_is_in_byte_order),
        IN_FOLDER(remove_tree_does_not_follow_links),
        IN_FOLDER(mappings),
    };
    return RUN_TESTS(tests);
}
