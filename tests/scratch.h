// SPDX-License-Identifier: Apache-2.0
// A folder of its own for a test, and small files in it.
#ifndef RUNGI_TESTS_SCRATCH_H
#define RUNGI_TESTS_SCRATCH_H

#include <stdio.h>
#include <sys/stat.h>

#include "base/file_io.h"
#include "base/fs.h"
#include "testing.h"

// Makes a folder under $TMPDIR or /tmp. The test ends it with scratch_remove.
static inline void scratch_make(char out[RUNGI_PATH_MAX])
{
    const char *parent = getenv("TMPDIR");
    assert_ok(rungi_path_format(out, "%s/rung-test-XXXXXX", parent ? parent : "/tmp"));
    assert_non_null(mkdtemp(out));
}

static inline void scratch_remove(const char *path)
{
    assert_true(rungi_io_remove(path, NULL));
}

static inline void scratch_write(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

// The file's bytes, freed by the caller.
static inline char *scratch_read(const char *path, size_t *size_out)
{
    char *data = NULL;
    assert_ok(rungi_fs_read(path, (size_t)1 << 30, &data, size_out));
    return data;
}

// Path of a file made by tools/fixtures/formats.py.
#define FORMATS_FIXTURE(name) RUNG_SOURCE_DIR "/tests/fixtures/formats/" name
#define IMAGES_FIXTURE(name) RUNG_SOURCE_DIR "/tests/fixtures/images/" name

#endif
