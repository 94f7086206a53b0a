// SPDX-License-Identifier: Apache-2.0
// Case C82: hostile and damaged tensor files are refused with one line, in little memory.
#include "scratch.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/philox.h"
#include "base/text.h"
#include "rung/safetensors.h"

static char folder[RUNGI_PATH_MAX], path[RUNGI_PATH_MAX];

static int set_up(void **state)
{
    (void)state;
    scratch_make(folder);
    return rungi_path_format(path, "%s/hostile.safetensors", folder);
}

static int tear_down(void **state)
{
    (void)state;
    scratch_remove(folder);
    return 0;
}

static void write_file(uint64_t length, const char *header, size_t header_size, size_t data_size)
{
    rungi_string out = {0};
    rungi_string_append(&out, (const char *)&length, sizeof length);
    rungi_string_append(&out, header, header_size);
    for (size_t i = 0; i < data_size; i++)
        rungi_string_append(&out, "\x3f", 1);
    scratch_write(path, out.data, out.size);
    rungi_string_fini(&out);
}

static rung_status open_and_close(void)
{
    rung_safetensors *file = NULL;
    rung_status status = rung_safetensors_open(path, &file);
    if (status != RUNG_OK && (file || strchr(rung_error_last()->message, '\n')))
        fail_msg("an output was set, or the message has two lines");
    rung_safetensors_close(&file);
    return status;
}

#define T(type, shape, begin, end) \
    "{\"dtype\":\"" type "\",\"shape\":[" shape "],\"data_offsets\":[" begin "," end "]}"

static void headers(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        const char *reason; // NULL: good
    } cases[] = {
        {"{\"a\":" T("F32", "2", "0", "8") "}", 8, NULL},
        {"{}", 0, NULL},
        {"{}   ", 0, NULL},
        {"{\"a\":" T("F32", "0", "0", "0") ",\"b\":" T("U8", "", "0", "1") "}", 1, NULL},
        {"{\"a\":" T("F4", "6", "0", "3") "}", 3, NULL},
        {"{\"__metadata__\":{\"k\":\"\\u0041\"},\"a\":" T("U8", "1", "0", "1") "}", 1, NULL},
        {"[\"a\"]   ", 0, "does not start with {"},
        {"{\"a\":" T("F32", "2", "8", "0") "}", 8, "before it begins"},
        {"{\"a\":" T("F32", "2", "-8", "0") "}", 8, "negative number -8 in data_offsets"},
        {"{\"a\":" T("F32", "-2", "0", "8") "}", 8, "negative number -2 in shape"},
        {"{\"a\":" T("F32", "2", "0", "8.0") "}", 8, "8.0 in data_offsets is not an integer"},
        {"{\"a\":" T("F32", "2e0", "0", "8") "}", 8, "2e0 in shape is not an integer"},
        {"{\"a\":" T("F32", "-0", "0", "0") "}", 0, "negative"},
        {"{\"a\":" T("F32", "2", "0", "8") "}", 7, "cut: expected"},
        {"{\"a\":" T("F32", "200", "0", "800") "}", 8, "cut: expected"},
        {"{\"a\":" T("F32", "2", "0", "8") "}", 9, "1 bytes after the last tensor"},
        {"{\"a\":" T("F32", "2", "0", "8") ",\"b\":" T("F32", "2", "4", "12") "}", 12,
         "tensor b overlaps"},
        {"{\"a\":" T("F32", "2", "0", "8") ",\"b\":" T("F32", "2", "0", "8") "}", 8, "overlaps"},
        {"{\"a\":" T("F32", "2", "0", "8") ",\"b\":" T("F32", "1", "9", "13") "}", 13,
         "1 bytes before tensor b belong to no tensor"},
        {"{\"a\":" T("F32", "2", "4", "12") "}", 12, "4 bytes before tensor a"},
        {"{\"a\":" T("F32", "4294967296,4294967296", "0", "8") "}", 8, "product is too large"},
        {"{\"a\":" T("F32", "4294967296,4294967296,0", "0", "0") "}", 0, "product is too large"},
        {"{\"a\":" T("F64", "2305843009213693952", "0", "0") "}", 0, "product is too large"},
        {"{\"a\":" T("F32", "18446744073709551617", "0", "4") "}", 4, "too large"},
        {"{\"a\":" T("F32", "1", "0", "18446744073709551620") "}", 4, "too large"},
        {"{\"a\":" T("F32", "1", "9223372036854775804", "9223372036854775807") "}", 4,
         "shape and type take 4 bytes"},
        {"{\"a\":" T("F32", "3", "0", "8") "}", 8,
         "shape and type take 12 bytes, data_offsets span 8"},
        {"{\"a\":" T("F6_E2M3", "3", "0", "2") "}", 2, "end inside a byte"},
        {"{\"a\":" T("F33", "2", "0", "8") "}", 8, "unknown type F33"},
        {"{\"a\":" T("f32", "2", "0", "8") "}", 8, "unknown type f32"},
        {"{\"a\":" T("F32\\u0000", "2", "0", "8") "}", 8, "unknown type"},
        {"{\"a\":" T("F32", "1", "0", "4") ",\"a\":" T("F32", "1", "4", "8") "}", 8,
         "two tensors are named a"},
        {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1,
         "dtype is given twice"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1],\"x\":1}}", 1,
         "unknown member x"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[]}}", 1, "are missing"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0]}}", 1, "are missing"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1,2]}}", 1, "more than 2"},
        {"{\"a\":{\"dtype\":8,\"shape\":[],\"data_offsets\":[0,1]}}", 1, "dtype is not a string"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]}}", 1, "not an array"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[\"1\"],\"data_offsets\":[0,1]}}", 1,
         "something else than numbers"},
        {"{\"a\":[]}", 0, "is not an object"},
        {"{\"a\":" T("U8", "[[[[[[[[[[1]]]]]]]]]]", "0", "1") "}", 1, "something else"},
        {"{\"a\":{\"dtype\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{}}}}}}}}}", 1,
         "dtype is not a string"},
        {"{\"__metadata__\":{\"k\":1}}", 0, "k is not a string"},
        {"{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, "k is given twice"},
        {"{\"__metadata__\":[]}", 0, "__metadata__ is not an object"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__ is given twice"},
        {"{\"a\\u0000b\":" T("U8", "1", "0", "1") "}", 1, "holds a NUL"},
        {"{\"\xff\":" T("U8", "1", "0", "1") "}", 1, "not UTF-8"},
        {"{\"a\":" T("U8", "1", "0", "1") "}x", 1, "something follows"},
        {"{\"a\":" T("U8", "1", "0", "1") ",}", 1, "no member name"},
        {"{\"a\":" T("U8", "1", "0", "1"), 1, "ends inside a value"},
        {"{\"a\":" T("U8",
                     "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
                     "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1",
                     "0", "1") "}",
         1, "more than 64 numbers"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size = strlen(cases[i].header);
        write_file(size, cases[i].header, size, cases[i].data);
        if (!cases[i].reason) {
            assert_ok(open_and_close());
            continue;
        }
        rung_status status = open_and_close();
        if (status == RUNG_OK || !strstr(rung_error_last()->message, cases[i].reason))
            fail_msg("%s: expected \"%s\", got \"%s\"", cases[i].header, cases[i].reason,
                     status ? rung_error_last()->message : "success");
    }
}

static void lengths(void **state)
{
    (void)state;
    static const char header[] = "{\"a\":" T("F32", "2", "0", "8") "}";
    static const struct {
        uint64_t length;
        const char *reason;
    } cases[] = {
        {UINT64_MAX, "above 100000000"},
        {UINT64_MAX - 7, "above 100000000"},
        {100000001, "above 100000000"},
        {100000000, "cut: the header alone takes 100000008"},
        {sizeof header + 8, "cut: the header alone"},
        {1, "below 2"},
        {0, "below 2"},
        {2, "not a JSON value at byte 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_file(cases[i].length, header, sizeof header - 1, 8);
        if (i == 7)
            assert_fails(RUNG_FORMAT, "ends inside a value", open_and_close());
        else
            assert_fails(i == 3 || i == 4 ? RUNG_CORRUPT : RUNG_FORMAT, cases[i].reason,
                         open_and_close());
    }
    scratch_write(path, "", 0);
    assert_fails(RUNG_CORRUPT, "found 0 bytes", open_and_close());
    scratch_write(path, "\x89PNG\r\n\x1a\n", 8);
    assert_fails(RUNG_FORMAT, "not a safetensors file", open_and_close());
    scratch_write(path, "\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16);
    assert_fails(RUNG_FORMAT, "not a safetensors file", open_and_close());
    rung_safetensors *file = NULL;
    assert_fails(RUNG_IO, "is a folder", rung_safetensors_open(folder, &file));
    assert_fails(RUNG_IO, "not a regular file", rung_safetensors_open("/dev/zero", &file));
    assert_fails(RUNG_NOT_FOUND, "cannot open", rung_safetensors_open("/nonexistent/x", &file));
    char pipe_path[RUNGI_PATH_MAX];
    assert_ok(rungi_path_format(pipe_path, "%s/pipe", folder));
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_fails(RUNG_IO, "not a regular file", rung_safetensors_open(pipe_path, &file));
}

// Writes a file whose header is `head`, `count` times `unit` (%d counts), spaces up to `size`, and
// `tail`.
static void write_large(size_t size, const char *head, const char *unit, int count,
                        const char *tail)
{
    rungi_string text = {0};
    uint64_t length = size;
    rungi_string_append(&text, (const char *)&length, sizeof length);
    rungi_string_append(&text, head, strlen(head));
    for (int i = 0; i < count; i++) {
        char one[128];
        rungi_string_append(&text, one, (size_t)snprintf(one, sizeof one, unit, i));
    }
    size_t spaces = size + sizeof length - text.size - strlen(tail);
    char *blank = malloc(spaces);
    memset(blank, ' ', spaces);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text.data, 1, text.size, f), text.size);
    assert_int_equal(fwrite(blank, 1, spaces, f), spaces);
    assert_int_equal(fwrite(tail, 1, strlen(tail), f), strlen(tail));
    assert_int_equal(fclose(f), 0);
    free(blank);
    rungi_string_fini(&text);
}

// Headers of 30 and nearly 100 MB: refused (or read) with less than 64 MiB, measured in a child.
static void large_headers(void **state)
{
    (void)state;
    static const struct {
        const char *head, *unit;
        int count;
        const char *tail, *reason;
    } cases[] = {
        {"{", "\"t%08d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},", 270000, "",
         "more than 262144 tensors"},
        {"{",
         "\"t%d\":{\"dtype\":\"U8\",\"shape\":[0,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"
         "\"data_offsets\":[0,0]},",
         135000, "", "take more than 24 MiB"},
        {"{\"", "%020d", 440000, "\":1}", "a string is longer than allowed"},
        {"{\"__metadata__\":{", "\"%d\":\"\",", 70000, "", "more than 65536 pairs"},
        {"{\"a\":{\"shape\":[", "%d,", 100, "", "more than 64 numbers"},
        {"{\"a\":", "[[[[[[%d", 100, "", "is not an object"},
        {"{", "", 0, "", "ends inside a value"},
        {"{}", "", 0, "", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_large(i + 1 < sizeof cases / sizeof *cases ? 30000000 : 99999992, cases[i].head,
                    cases[i].unit, cases[i].count, cases[i].tail);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            rung_safetensors *file = NULL;
            rung_status status = rung_safetensors_open(path, &file);
            if (!cases[i].reason)
                _exit(status != RUNG_OK);
            _exit(status == RUNG_OK || !strstr(rung_error_last()->message, cases[i].reason));
        }
        int result;
        struct rusage usage;
        assert_int_equal(wait4(child, &result, 0, &usage), child);
        if (result != 0)
            fail_msg("%s%s...: not refused with \"%s\"", cases[i].head, cases[i].unit,
                     cases[i].reason ? cases[i].reason : "success");
        if (!SANITIZED && usage.ru_maxrss >= 64 * 1024) // a sanitizer's own memory would count
            fail_msg("%s%s...: peak of %ld KiB", cases[i].head, cases[i].unit, usage.ru_maxrss);
    }
}

// 10,000 random single-byte changes of a good file: all is read, or it is refused.
static void random_changes(void **state)
{
    (void)state;
    size_t size;
    char *good = scratch_read(FORMATS_FIXTURE("types.safetensors"), &size);
    int fd = memfd_create("changed", MFD_CLOEXEC);
    assert_int_equal(write(fd, good, size), size);
    assert_ok(rungi_path_format(path, "/proc/self/fd/%d", fd));
    rungi_random random = rungi_random_make(82, RUNGI_PURPOSE_TEST, 0, 0, 0);
    uint64_t at = 0;
    int loaded = 0;
    for (int trial = 0; trial < 10000; trial++) {
        size_t where = rungi_random_below(&random, size, &at);
        char changed = (char)rungi_random_below(&random, 256, &at);
        assert_int_equal(pwrite(fd, &changed, 1, (off_t)where), 1);
        rung_safetensors *file;
        rung_status opened = rung_safetensors_open(path, &file);
        if (opened != RUNG_OK) {
            assert_int_equal(pwrite(fd, &good[where], 1, (off_t)where), 1);
            continue;
        }
        loaded++;
        for (size_t i = 0; i < rung_safetensors_count(file); i++) {
            const rung_safetensors_tensor *t = rung_safetensors_get(file, i);
            assert_true(t->offset + t->bytes <= size);
            double out[256];
            rung_status status = rung_safetensors_read(file, t, RUNG_F64, out, NULL);
            assert_true(status == RUNG_OK || status == RUNG_UNSUPPORTED);
        }
        rung_safetensors_close(&file);
        assert_int_equal(pwrite(fd, &good[where], 1, (off_t)where), 1);
    }
    free(good);
    close(fd);
    assert_true(loaded > 100 && loaded < 9900);
}

// The file is cut after it was opened: an error, no signal.
static void cut_while_open(void **state)
{
    (void)state;
    static const char header[] = "{\"a\":" T("F32", "2", "0", "8") "}";
    write_file(sizeof header - 1, header, sizeof header - 1, 8);
    rung_safetensors *file;
    assert_ok(rung_safetensors_open(path, &file));
    assert_int_equal(truncate(path, 20), 0);
    float out[2];
    assert_fails(RUNG_CORRUPT, "cut: expected",
                 rung_safetensors_read(file, rung_safetensors_get(file, 0), RUNG_F32, out, NULL));
    rung_safetensors_close(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(headers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lengths, set_up, tear_down),
        cmocka_unit_test_setup_teardown(large_headers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(random_changes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cut_while_open, set_up, tear_down),
    };
    return RUN_TESTS(tests);
}
