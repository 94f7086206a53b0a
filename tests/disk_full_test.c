// SPDX-License-Identifier: Apache-2.0
// A disk that fills up while a run or a pack is written: one line that says so, and nothing is
// lost.
#include "training.h"

#include "rung/pack.h"

#include <sys/wait.h>

#include "small_disk.h"

// In a child, whose asserts would not reach the test: a number says what went wrong.
static int train_on_a_small_disk(const char *folder)
{
    training_log log;
    rung_context *context = training_context(&log);
    char run[300], filler[300], latest[320];
    snprintf(run, sizeof run, "%s/run", folder);
    snprintf(filler, sizeof filler, "%s/filler", folder);
    snprintf(latest, sizeof latest, "%s/run/checkpoints/latest", folder);
    static char much[600000];
    test_write(filler, much, sizeof much);
    const char *const overrides[] = {"train.steps=200", "checkpoint.every=2", "checkpoint.keep=all",
                                     "train.eval_every=never", NULL};
    if (training_run(context, TRAINING_MLP, overrides, run, NULL) != RUNG_IO)
        return 2;
    const char *message = rung_error_last()->message;
    if (!strstr(message, "disk full") || !strstr(message, run) || strchr(message, '\n'))
        return 3;
    rung_trainer *trainer;
    bool finished;
    // The newest checkpoint is whole, and with room the run goes on to its end.
    if (rung_checkpoint_verify(latest) != RUNG_OK || remove(filler) != 0)
        return 4;
    if (rung_trainer_resume(context, run, (const char *const[]){"checkpoint.keep=2"}, 1, &finished,
                            &trainer) != RUNG_OK)
        return 5;
    int64_t step = rung_trainer_place(trainer).step;
    if (step < 2 || step % 2 != 0 || strstr(log.text, "passed over"))
        return 6;
    if (rung_trainer_fit(trainer, NULL) != RUNG_OK)
        return 7;
    rung_trainer_destroy(&trainer);
    rung_context_destroy(&context);
    return 0;
}

// Adds samples of 8 KiB up to `count`.
static rung_status fill_pack(rung_pack_writer *writer, int64_t count)
{
    static uint8_t pixels[8192];
    rung_view view = {RUNG_U8, RUNG_SHAPE(8192), pixels};
    rung_status status = RUNG_OK;
    while (status == RUNG_OK && rung_pack_writer_count(writer) < count)
        status = rung_pack_writer_add(writer, "", &view);
    return status;
}

static int pack_on_a_small_disk(const char *folder)
{
    char path[300], filler[300];
    rung_pack_writer *writer;
    static char much[600000];
    rung_field field = {"x", RUNG_U8, RUNG_SHAPE(8192), RUNG_PIXELS_NONE};
    rung_pack_writer_options options = {.fields = &field, .field_count = 1};
    snprintf(path, sizeof path, "%s/p.pack", folder);
    snprintf(filler, sizeof filler, "%s/filler", folder);
    test_write(filler, much, sizeof much);
    if (rung_pack_writer_create(NULL, path, &options, &writer) != RUNG_OK)
        return 2;
    if (fill_pack(writer, 1000) != RUNG_IO || !strstr(rung_error_last()->message, "disk full"))
        return 3;
    rung_pack_writer_destroy(&writer, false);
    if (access(path, F_OK) == 0 || remove(filler) != 0)
        return 4;
    // With room, from where it stands to the end.
    if (rung_pack_writer_create(NULL, path, &options, &writer) != RUNG_OK ||
        fill_pack(writer, 50) != RUNG_OK || rung_pack_writer_finish(&writer, NULL, NULL) != RUNG_OK)
        return 5;
    return rung_pack_check(path, NULL, NULL) == RUNG_OK ? 0 : 6;
}

static void run_on_a_small_disk(const char *folder, int (*fn)(const char *folder))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int result = small_disk_mount(folder, "1m") ? fn(folder) : 99;
        if (result && result != 99)
            fprintf(stderr, "%s\n", rung_error_last()->message);
        _exit(result);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    if (WEXITSTATUS(result) == 99)
        skip_because("no right to mount a file system");
    assert_int_equal(WEXITSTATUS(result), 0);
}

static void full_while_saving(void **state)
{
    run_on_a_small_disk(((test_folder *)*state)->path, train_on_a_small_disk);
}

static void full_while_packing(void **state)
{
    run_on_a_small_disk(((test_folder *)*state)->path, pack_on_a_small_disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {IN_FOLDER(full_while_saving), IN_FOLDER(full_while_packing)};
    return RUN_TESTS(tests);
}
