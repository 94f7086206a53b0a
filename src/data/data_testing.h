// SPDX-License-Identifier: Apache-2.0
// What the tests of this folder share: a context that keeps its log, a clock that is set by hand,
// files in a temporary folder, a source that does what it is told.
#ifndef RUNGI_DATA_TESTING_H
#define RUNGI_DATA_TESTING_H

#include "testing.h"

#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "rung/data.h"

// ---- a context with its log

typedef struct test_log {
    int warnings, notices;
    char text[8192]; // all warnings and notices, one a line
} test_log;

static inline void test_log_line(void *user, rung_log_level level, const char *line)
{
    test_log *log = user;
    log->warnings += level == RUNG_LOG_WARNING;
    log->notices += level == RUNG_LOG_NOTICE;
    size_t used = strlen(log->text);
    if (level >= RUNG_LOG_NOTICE)
        snprintf(log->text + used, sizeof log->text - used, "%s\n", line);
}

static inline rung_context *test_context(test_log *log, const rung_clock *clock)
{
    rung_context *context;
    *log = (test_log){0};
    assert_ok(rung_context_create(
        &(rung_context_options){.log = test_log_line, .log_user = log, .clock = clock}, &context));
    return context;
}

// ---- a clock that is set by hand (sleeping moves it)

typedef struct test_clock {
    rung_clock clock;
    atomic_llong now;
    atomic_llong step; // each look at the clock moves it by that
} test_clock;

static inline int64_t test_clock_now(void *user)
{
    test_clock *clock = user;
    return atomic_fetch_add(&clock->now, atomic_load(&clock->step));
}

static inline void test_clock_sleep(void *user, int64_t nanoseconds)
{
    atomic_fetch_add(&((test_clock *)user)->now, nanoseconds);
}

static inline void test_clock_init(test_clock *clock)
{
    clock->clock = (rung_clock){clock, test_clock_now, test_clock_sleep};
    atomic_init(&clock->now, 1000000000);
    atomic_init(&clock->step, 0);
}

// ---- threads

// Threads of this process.
static inline int test_threads(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

// Waits until no more than `count` are left.
static inline void test_wait_threads(int count)
{
    while (test_threads() > count)
        usleep(1000);
}

// ---- files

typedef struct test_folder {
    char path[64];
} test_folder;

static inline void test_folder_make(test_folder *folder)
{
    strcpy(folder->path, "/tmp/rung-data-XXXXXX");
    assert_non_null(mkdtemp(folder->path));
}

static inline void test_folder_remove(test_folder *folder)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder->path);
    assert_int_equal(system(command), 0);
}

// FOLDER/NAME in a static buffer; eight may be used at once.
static inline const char *test_path(const test_folder *folder, const char *name)
{
    static char paths[8][PATH_MAX];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, PATH_MAX, "%s/%s", folder->path, name);
    return path;
}

static inline const char *test_write(const test_folder *folder, const char *name, const void *bytes,
                                     size_t size)
{
    const char *path = test_path(folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return path;
}

static inline const char *test_write_gzip(const test_folder *folder, const char *name,
                                          const void *bytes, size_t size)
{
    const char *path = test_path(folder, name);
    gzFile file = gzopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, bytes, (unsigned)size), (int)size);
    assert_int_equal(gzclose(file), Z_OK);
    return path;
}

// Reads a whole file into `bytes` and gives its size.
static inline size_t test_read(const char *path, void *bytes, size_t size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t got = fread(bytes, 1, size, file);
    fclose(file);
    return got;
}

// ---- a source that does what it is told
//
// Fields: "draw" i64, the sample's first random number; "index" i64. Sample `fail_at` (and
// `fail_also`) fail, together if both are set and run in two workers; sample `stuck_at` waits for
// `test_source_free`.

typedef struct test_source {
    rung_source source;
    int64_t fail_at, fail_also, stuck_at;
    int meet; // failing samples wait until that many have begun
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool freed;
    int met, stuck;    // guarded by lock
    test_clock *clock; // the stuck sample moves it by 2.5 s
    test_clock *runs;  // from when `runs_from` workers are stuck, 5 ms at each look
    int runs_from;
    atomic_llong reads;      // of any epoch
    atomic_llong last_epoch; // highest epoch read
    atomic_int opened, closed, open_fails;
    atomic_llong by_epoch[8]; // reads of each epoch
    atomic_uchar seen[4096];  // reads of each sample
} test_source;

static inline rung_status test_source_open(void *self, int worker, void **state_out)
{
    test_source *s = self;
    if (atomic_load(&s->open_fails))
        return rung_hook_fail(RUNG_IO, "no such disk");
    atomic_fetch_add(&s->opened, 1);
    *state_out = (void *)(intptr_t)(worker + 2);
    return RUNG_OK;
}

static inline void test_source_close(void *self, void *state)
{
    (void)state;
    atomic_fetch_add(&((test_source *)self)->closed, 1);
}

static inline void test_source_describe(void *self, int64_t index, char *out, size_t size)
{
    (void)self;
    snprintf(out, size, "folder/file_%d.bin", (int)index);
}

static inline rung_status test_source_read(void *self, void *state, const rung_sample *sample,
                                           rung_view *fields)
{
    test_source *s = self;
    int64_t i = sample->index;
    atomic_fetch_add(&s->reads, 1);
    if (sample->epoch < 8)
        atomic_fetch_add(&s->by_epoch[sample->epoch], 1);
    if (i < 4096)
        atomic_fetch_add(&s->seen[i], 1);
    if (s->source.open && state != (void *)(intptr_t)(sample->worker + 2))
        return rung_hook_fail(RUNG_INTERNAL, "the state of another worker");
    pthread_mutex_lock(&s->lock);
    if (i == s->stuck_at) {
        s->stuck++;
        if (s->runs && s->stuck >= s->runs_from)
            atomic_store(&s->runs->step, 5000000);
        if (s->clock)
            test_clock_sleep(s->clock, 2500000000);
        while (!s->freed)
            pthread_cond_wait(&s->changed, &s->lock);
        s->stuck--;
        pthread_cond_broadcast(&s->changed);
    }
    bool fails = i == s->fail_at || i == s->fail_also;
    if (fails) {
        s->met++;
        pthread_cond_broadcast(&s->changed);
        while (s->met < s->meet)
            pthread_cond_wait(&s->changed, &s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    if (fails)
        return rung_hook_fail(RUNG_DATA, "bad label %d", (int)i);
    *(int64_t *)fields[0].data = (int64_t)rung_random_u64(&sample->random, 0);
    *(int64_t *)fields[1].data = i;
    return RUNG_OK;
}

static inline void test_source_init(test_source *s, int64_t count)
{
    memset(s, 0, sizeof *s);
    s->fail_at = s->fail_also = s->stuck_at = -1;
    s->source = (rung_source){
        .name = "test",
        .count = count,
        .field_count = 2,
        .fields = {{"draw", RUNG_I64, RUNG_SCALAR, RUNG_PIXELS_NONE},
                   {"index", RUNG_I64, RUNG_SCALAR, RUNG_PIXELS_NONE}},
        .self = s,
        .open = test_source_open,
        .close = test_source_close,
        .read = test_source_read,
        .describe = test_source_describe,
    };
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
}

// Lets stuck samples go on, and waits until they have.
static inline void test_source_free(test_source *s)
{
    pthread_mutex_lock(&s->lock);
    s->freed = true;
    pthread_cond_broadcast(&s->changed);
    while (s->stuck > 0)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

static inline void test_source_fini(test_source *s)
{
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
}

// The values of a batch of a test_source.
static inline const int64_t *test_draws(const rung_batch *batch)
{
    return batch->fields[0].data;
}

static inline const int64_t *test_indices(const rung_batch *batch)
{
    return batch->fields[1].data;
}

#endif
