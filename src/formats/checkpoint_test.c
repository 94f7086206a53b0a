// SPDX-License-Identifier: Apache-2.0
// Saving, loading, damage (case C60), types (C62), marks, pruning, lock (C38), left-overs (C57).
#include "checkpoint_testing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"

static char folder[RUNGI_PATH_MAX], root[RUNGI_PATH_MAX];
static rungi_checkpoints *store;

static int set_up(void **state)
{
    (void)state;
    scratch_make(folder);
    assert_ok(rungi_path_format(root, "%s/run/checkpoints", folder));
    assert_ok(rungi_checkpoints_open(root, NULL, &store));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rungi_checkpoints_close(&store);
    scratch_remove(folder);
    return 0;
}

static const char *in_root(const char *name)
{
    static char path[RUNGI_PATH_MAX];
    assert_ok(rungi_path_format(path, "%s/%s", root, name));
    return path;
}

// Names in the root that are not hidden, and how many of them are temporary.
static int count_entries(int *temporary_out)
{
    int count = 0;
    *temporary_out = 0;
    DIR *dir = opendir(root);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        count += e->d_name[0] != '.';
        *temporary_out +=
            rungi_name_is_temporary(e->d_name, "tmp") || rungi_name_is_temporary(e->d_name, "old");
    }
    closedir(dir);
    return count;
}

static void saves_and_loads(void **state)
{
    (void)state;
    int temporary;
    assert_int_equal(demo_newest(root), -1);
    assert_ok(demo_save_step(store, 100));
    assert_ok(demo_save_step(store, 200));
    assert_int_equal(demo_newest(root), 200);
    rungi_checkpoint *checkpoint;
    assert_ok(rungi_checkpoint_open(in_root("latest"), true, &checkpoint));
    assert_string_equal(strrchr(rungi_checkpoint_path(checkpoint), '/'), "/step-00000200");
    assert_int_equal(demo_check(checkpoint), 200);
    json_t *saved = rungi_checkpoint_state(checkpoint);
    assert_true(json_real_value(json_object_get(saved, "loss")) == 1.0 / 201);
    rung_safetensors *optimizer = rungi_checkpoint_tensors(checkpoint, RUNGI_CHECKPOINT_OPTIMIZER);
    assert_int_equal(rung_safetensors_find(optimizer, "step")->dtype, RUNG_I64);
    assert_null(rungi_checkpoint_tensors(checkpoint, "other.safetensors"));
    rungi_checkpoint_close(&checkpoint);
    // An older step saved later is the newer checkpoint: a run that went back goes on from there.
    assert_ok(demo_save_step(store, 150));
    assert_int_equal(demo_newest(root), 150);
    // A name is used again.
    assert_ok(demo_save(store, "step-00000200", 201));
    assert_int_equal(demo_newest(root), 201);
    assert_int_equal(count_entries(&temporary), 4);
    assert_int_equal(temporary, 0);
    assert_fails(RUNG_INVALID, "cannot be the name", demo_save(store, "../x", 1));
    assert_fails(RUNG_INVALID, "cannot be the name", demo_save(store, ".x", 1));
    assert_fails(RUNG_NOT_FOUND, "no such checkpoint",
                 rungi_checkpoint_open(in_root("step-1"), true, &checkpoint));
}

// Saved, loaded and saved again: the same bytes, and so the same types (case C62).
static void same_bytes_again(void **state)
{
    (void)state;
    assert_ok(demo_save_step(store, 7));
    rungi_checkpoint *checkpoint;
    assert_ok(rungi_checkpoint_open(in_root("step-00000007"), true, &checkpoint));
    rungi_checkpoint_file files[2];
    static const char *const names[] = {RUNGI_CHECKPOINT_MODEL, RUNGI_CHECKPOINT_OPTIMIZER};
    rungi_safetensors_source sources[2][2];
    for (int f = 0; f < 2; f++) {
        rung_safetensors *file = rungi_checkpoint_tensors(checkpoint, names[f]);
        assert_int_equal(rung_safetensors_count(file), 2);
        for (size_t i = 0; i < 2; i++) {
            const rung_safetensors_tensor *t = rung_safetensors_get(file, i);
            void *data = malloc(t->bytes);
            assert_ok(rung_safetensors_read(file, t, t->dtype, data, NULL));
            sources[f][i] = (rungi_safetensors_source){
                .name = t->name, .dtype = t->dtype, .shape = {.rank = t->rank}, .data = data};
            if (t->rank)
                sources[f][i].shape.dim[0] = t->dim[0];
        }
        files[f] = (rungi_checkpoint_file){names[f], sources[f], 2};
    }
    assert_ok(rungi_checkpoints_save(store, "again", files, 2, rungi_checkpoint_state(checkpoint)));
    for (int f = 0; f < 2; f++) {
        char path[RUNGI_PATH_MAX];
        size_t size, again_size;
        assert_ok(rungi_path_format(path, "%s/step-00000007/%s", root, names[f]));
        char *first = scratch_read(path, &size);
        assert_ok(rungi_path_format(path, "%s/again/%s", root, names[f]));
        char *again = scratch_read(path, &again_size);
        assert_int_equal(size, again_size);
        assert_memory_equal(first, again, size);
        free(first);
        free(again);
        for (int i = 0; i < 2; i++)
            free((void *)sources[f][i].data);
    }
    rungi_checkpoint_close(&checkpoint);
}

// What can happen to a file of a checkpoint.
static void damage(const char *name, const char *kind, long bit, const char *good, size_t size)
{
    char path[RUNGI_PATH_MAX];
    assert_ok(rungi_path_format(path, "%s/step-00000001/%s", root, name));
    if (strcmp(kind, "other") == 0) {
        scratch_write(path, "\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16);
    } else if (strcmp(kind, "missing") == 0) {
        assert_int_equal(unlink(path), 0);
    } else if (strcmp(kind, "longer") == 0) {
        char *copy = calloc(1, size + 1);
        memcpy(copy, good, size);
        scratch_write(path, copy, size + 1);
        free(copy);
    } else if (strcmp(kind, "flip") == 0) {
        char *copy = malloc(size);
        memcpy(copy, good, size);
        copy[bit / 8] = (char)(copy[bit / 8] ^ 1 << bit % 8);
        scratch_write(path, copy, size);
        free(copy);
    } else { // cut to `bit` bytes
        scratch_write(path, good, (size_t)bit);
    }
}

static void expect_damage(const char *reason)
{
    rung_status status = rung_checkpoint_verify(in_root("step-00000001"));
    const char *message = rung_error_last()->message;
    if (status == RUNG_OK || !strstr(message, reason) || strchr(message, '\n'))
        fail_msg("expected \"%s\", got \"%s\"", reason, status ? message : "success");
    rungi_checkpoint *checkpoint = NULL;
    assert_true(rungi_checkpoint_open_newest(root, NULL, NULL, &checkpoint) == RUNG_CORRUPT);
    assert_null(checkpoint);
}

static void damaged_tensors(void **state)
{
    (void)state;
    char path[RUNGI_PATH_MAX], wanted[128];
    size_t size;
    uint64_t header;
    assert_ok(demo_save_step(store, 1));
    assert_ok(rungi_path_format(path, "%s/step-00000001/model.safetensors", root));
    char *good = scratch_read(path, &size);
    memcpy(&header, good, sizeof header);
    header += sizeof header;
    assert_ok(rung_checkpoint_verify(in_root("step-00000001")));
    size_t cuts[] = {size - 1, size / 2, 20, 0};
    for (size_t i = 0; i < 4; i++) {
        damage(RUNGI_CHECKPOINT_MODEL, "cut", (long)cuts[i], good, size);
        snprintf(wanted, sizeof wanted, "cut: expected %zu bytes, found %zu", size, cuts[i]);
        expect_damage(wanted);
    }
    damage(RUNGI_CHECKPOINT_MODEL, "flip", (long)header * 8 + 5, good, size);
    expect_damage("checksum of tensor conv1.weight");
    damage(RUNGI_CHECKPOINT_MODEL, "flip", (long)size * 8 - 1, good, size);
    expect_damage("checksum of tensor conv1.bias");
    for (long bit = 0; bit < (long)header * 8; bit += 37) {
        damage(RUNGI_CHECKPOINT_MODEL, "flip", bit, good, size);
        expect_damage("checksum of the header");
    }
    damage(RUNGI_CHECKPOINT_MODEL, "longer", 0, good, size);
    expect_damage("too long: expected");
    damage(RUNGI_CHECKPOINT_MODEL, "other", 0, good, size);
    expect_damage("not a checkpoint: another kind of file");
    damage(RUNGI_CHECKPOINT_MODEL, "missing", 0, good, size);
    expect_damage("model.safetensors: is missing");
    scratch_write(path, good, size);
    assert_ok(rung_checkpoint_verify(in_root("step-00000001")));
    free(good);
}

static void damaged_manifest(void **state)
{
    (void)state;
    char path[RUNGI_PATH_MAX], wanted[128];
    size_t size;
    assert_ok(demo_save_step(store, 1));
    assert_ok(rungi_path_format(path, "%s/step-00000001/manifest.json", root));
    char *good = scratch_read(path, &size);
    size_t cuts[] = {size - 1, size / 2, 100};
    for (size_t i = 0; i < 3; i++) {
        damage("manifest.json", "cut", (long)cuts[i], good, size);
        snprintf(wanted, sizeof wanted, "cut: expected %zu bytes, found %zu", size, cuts[i]);
        expect_damage(wanted);
    }
    damage("manifest.json", "cut", 0, good, size);
    expect_damage("manifest.json: cut: expected a manifest, found 0 bytes");
    for (long bit = 0; bit < (long)size * 8; bit += 5) {
        damage("manifest.json", "flip", bit, good, size);
        expect_damage("checksum of the manifest");
    }
    damage("manifest.json", "other", 0, good, size);
    expect_damage("not a checkpoint");
    damage("manifest.json", "missing", 0, good, size);
    expect_damage("not a checkpoint: has no manifest.json");
    scratch_write(path, good, size);
    free(good);
    assert_fails(RUNG_FORMAT, "not a checkpoint", rung_checkpoint_verify(path));
    assert_fails(RUNG_FORMAT, "not a checkpoint", rung_checkpoint_verify(folder));
    assert_fails(RUNG_NOT_FOUND, "no such checkpoint", rung_checkpoint_verify("/nonexistent"));
}

static void collect(void *user, const char *path, const char *reason)
{
    rungi_string_add(user, "%s: %s\n", strrchr(path, '/') + 1, strrchr(reason, '/') + 1);
}

// The newest that verifies is taken, and each that was passed over is told with the reason (C57).
static void passes_over_damaged(void **state)
{
    (void)state;
    for (int step = 1; step <= 4; step++)
        assert_ok(demo_save_step(store, step));
    assert_int_equal(truncate(in_root("step-00000004/optimizer.safetensors"), 100), 0);
    assert_int_equal(unlink(in_root("step-00000003/manifest.json")), 0);
    rungi_string told = {0};
    rungi_checkpoint *checkpoint;
    assert_ok(rungi_checkpoint_open_newest(root, collect, &told, &checkpoint));
    assert_int_equal(demo_check(checkpoint), 2);
    rungi_checkpoint_close(&checkpoint);
    assert_non_null(strstr(told.data, "step-00000003: step-00000003: not a checkpoint: has no"));
    assert_non_null(strstr(told.data, "step-00000004: optimizer.safetensors: cut: expected"));
    assert_null(strstr(told.data, "step-00000002"));
    rungi_string_fini(&told);
}

static void prunes(void **state)
{
    (void)state;
    int temporary;
    for (int step = 1; step <= 7; step++)
        assert_ok(demo_save_step(store, step));
    assert_ok(rungi_checkpoints_mark(store, RUNGI_CHECKPOINT_BEST, "step-00000002"));
    assert_fails(RUNG_NOT_FOUND, "no such checkpoint",
                 rungi_checkpoints_mark(store, RUNGI_CHECKPOINT_BEST, "step-9"));
    scratch_write(in_root("notes.txt"), "a user's file\n", 14);
    assert_int_equal(mkdir(in_root("mine"), 0777), 0);
    assert_ok(rungi_checkpoints_prune(store, 0, NULL, 0));
    assert_int_equal(count_entries(&temporary), 11);
    static const char *const protect[] = {"step-00000004"};
    assert_ok(rungi_checkpoints_prune(store, 2, protect, 1));
    for (int step = 1; step <= 7; step++) {
        char name[32];
        snprintf(name, sizeof name, "step-%08d", step);
        bool kept = step == 2 || step == 4 || step >= 6;
        assert_int_equal(access(in_root(name), F_OK) == 0, kept);
    }
    assert_int_equal(count_entries(&temporary), 8);
    assert_int_equal(temporary, 0);
}

// Folders of killed saves are removed by the next start and never loaded (case C57).
static void removes_leftovers(void **state)
{
    (void)state;
    int temporary;
    char path[RUNGI_PATH_MAX], old[RUNGI_PATH_MAX];
    assert_ok(demo_save_step(store, 1));
    assert_ok(demo_save_step(store, 2));
    // A save killed just before its rename, and one killed in the middle of a replacement.
    assert_ok(rungi_path_format(path, "%s", in_root("step-00000002")));
    assert_ok(rungi_path_temporary(old, path, "tmp", 1));
    assert_int_equal(rename(path, old), 0);
    assert_int_equal(demo_newest(root), 1);
    assert_ok(rungi_path_format(path, "%s", in_root("step-00000001")));
    assert_ok(rungi_path_temporary(old, path, "old", 2));
    assert_int_equal(rename(path, old), 0);
    assert_int_equal(demo_newest(root), 1); // still found under its other name
    scratch_write(in_root("x.tmp-not-ours"), "a user's file", 13);
    rungi_checkpoints_close(&store);
    assert_ok(rungi_checkpoints_open(root, NULL, &store));
    assert_int_equal(count_entries(&temporary), 3);
    assert_int_equal(temporary, 0);
    assert_ok(rung_checkpoint_verify(in_root("step-00000001")));
    assert_int_equal(demo_newest(root), 1);
}

// Four processes at once: one saves, the others are refused and told who it is (case C38).
static void one_owner(void **state)
{
    (void)state;
    rungi_checkpoints *second = NULL;
    assert_fails(RUNG_IO, "another run saves its checkpoints here (process",
                 rungi_checkpoints_open(root, NULL, &second));
    rungi_checkpoints_close(&store);
    int won[2], hold[2];
    assert_int_equal(pipe(won), 0);
    assert_int_equal(pipe(hold), 0);
    pid_t children[4];
    for (int i = 0; i < 4; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            close(hold[1]);
            char verdict = rungi_checkpoints_open(root, NULL, &second) == RUNG_OK ? 'y' : 'n';
            if (verdict == 'y' && demo_save_step(second, i) != RUNG_OK)
                verdict = 'e';
            char wait;
            _exit(write(won[1], &verdict, 1) != 1 || read(hold[0], &wait, 1) != 0);
        }
    }
    int owners = 0, refused = 0;
    for (int i = 0; i < 4; i++) {
        char verdict;
        assert_int_equal(read(won[0], &verdict, 1), 1);
        owners += verdict == 'y';
        refused += verdict == 'n';
    }
    close(hold[1]); // all answered: they may end
    for (int i = 0; i < 4; i++) {
        int result;
        assert_int_equal(waitpid(children[i], &result, 0), children[i]);
        assert_int_equal(result, 0);
    }
    close(hold[0]);
    close(won[0]);
    close(won[1]);
    assert_int_equal(owners, 1);
    assert_int_equal(refused, 3);
    assert_true(demo_newest(root) >= 0);
}

static void bad_places(void **state)
{
    (void)state;
    rungi_checkpoints *other = NULL;
    scratch_write(in_root("file"), "x", 1);
    assert_fails(RUNG_IO, "", rungi_checkpoints_open(in_root("file"), NULL, &other));
    assert_fails(RUNG_NOT_FOUND, "/proc/none", rungi_checkpoints_open("/proc/none", NULL, &other));
    char deep[RUNGI_PATH_MAX];
    assert_ok(rungi_path_format(deep, "%s/a/b/c/", root));
    assert_ok(rungi_checkpoints_open(deep, NULL, &other));
    rungi_checkpoints_close(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(saves_and_loads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(same_bytes_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damaged_tensors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damaged_manifest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(passes_over_damaged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(prunes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(removes_leftovers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_owner, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_places, set_up, tear_down),
    };
    return RUN_TESTS(tests);
}
