// SPDX-License-Identifier: Apache-2.0
#include "formats/checkpoint_manifest.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fs.h"

// What every manifest begins and ends with. The number's digits are replaced by the size, padded
// with spaces; the checksum's by the checksum.
#define FORMAT_NAME "rung checkpoint"
#define BEGIN "{\n \"format\": \"" FORMAT_NAME "\",\n \"version\": "
#define SIZE_KEY ",\n \"bytes\": "
#define END_KEY "\n \"checksum\": \""
#define END "\"\n}\n"

enum { SIZE_DIGITS = 13, SUM_DIGITS = RUNGI_SUM_TEXT - 1, MANIFEST_MAX = 256 * 1024 * 1024 };
static const json_int_t SIZE_PLACE = 1000000000000; // 13 digits

rung_status rungi_manifest_add_file(json_t *files, const char *name,
                                    const rungi_safetensors_plan *plan, rungi_sum header,
                                    const rungi_sum *sums)
{
    char text[RUNGI_SUM_TEXT];
    json_t *tensors = json_object();
    for (size_t i = 0; i < plan->count; i++) {
        size_t index = plan->order[i];
        if (json_object_set_new(tensors, plan->sources[index].name,
                                json_string(rungi_sum_text(sums[index], text))) != 0) {
            json_decref(tensors);
            return RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory for its manifest", name);
        }
    }
    json_t *entry = json_pack("{s:I, s:I, s:s, s:o}", "bytes", (json_int_t)plan->file_size,
                              "header_bytes", (json_int_t)plan->header_size, "header",
                              rungi_sum_text(header, text), "tensors", tensors);
    RUNG_CHECK(entry && json_object_set_new(files, name, entry) == 0, RUNG_NO_MEMORY,
               "%s: no memory for its manifest", name);
    return RUNG_OK;
}

// Writes size and checksum into their places.
static bool seal(char *text, size_t size)
{
    char wanted[128];
    int length = snprintf(wanted, sizeof wanted, BEGIN "%d" SIZE_KEY "%" JSON_INTEGER_FORMAT,
                          RUNGI_MANIFEST_VERSION, SIZE_PLACE);
    size_t tail = strlen(END_KEY) + SUM_DIGITS + strlen(END);
    if (size < (size_t)length + tail || memcmp(text, wanted, (size_t)length) != 0)
        return false;
    char digits[SIZE_DIGITS + 1], sum[RUNGI_SUM_TEXT];
    snprintf(digits, sizeof digits, "%*zu", SIZE_DIGITS, size);
    memcpy(text + length - SIZE_DIGITS, digits, SIZE_DIGITS);
    size_t at = size - strlen(END) - SUM_DIGITS;
    if (memcmp(text + size - tail, END_KEY, strlen(END_KEY)) != 0)
        return false;
    memcpy(text + at, rungi_sum_text(rungi_sum_of(text, at), sum), SUM_DIGITS);
    return true;
}

rung_status rungi_manifest_write(int64_t save, json_t *files, json_t *state, rungi_string *out)
{
    char zeros[RUNGI_SUM_TEXT];
    json_t *none = state ? NULL : json_object();
    json_t *root = json_pack("{s:s, s:i, s:I, s:I, s:O, s:O, s:s}", "format", FORMAT_NAME,
                             "version", RUNGI_MANIFEST_VERSION, "bytes", SIZE_PLACE, "save",
                             (json_int_t)save, "files", files, "state", state ? state : none,
                             "checksum", rungi_sum_text((rungi_sum){0, 0}, zeros));
    json_decref(none);
    RUNG_CHECK(root, RUNG_INVALID, "the training state of a checkpoint is not an object of JSON");
    char *text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    json_decref(root);
    RUNG_CHECK(text, RUNG_NO_MEMORY, "no memory for the manifest of a checkpoint");
    rungi_string_append(out, text, strlen(text));
    rungi_string_append(out, "\n", 1);
    free(text);
    RUNG_CHECK(!out->failed, RUNG_NO_MEMORY, "no memory for the manifest of a checkpoint");
    RUNG_CHECK(seal(out->data, out->size), RUNG_INTERNAL,
               "jansson wrote a manifest in an unknown form");
    return RUNG_OK;
}

// Size and checksum before JSON: damage gets the message that says what happened.
static rung_status check_text(const char *path, const char *text, size_t size)
{
    size_t end_size = strlen(END_KEY) + SUM_DIGITS + strlen(END);
    bool has_begin = size > strlen(BEGIN) && memcmp(text, BEGIN, strlen(BEGIN)) == 0;
    bool has_end = size > end_size &&
                   memcmp(text + size - end_size, END_KEY, strlen(END_KEY)) == 0 &&
                   memcmp(text + size - strlen(END), END, strlen(END)) == 0;
    if (has_end) {
        char sum[RUNGI_SUM_TEXT];
        size_t at = size - strlen(END) - SUM_DIGITS;
        rungi_sum_text(rungi_sum_of(text, at), sum);
        RUNG_CHECK(memcmp(sum, text + at, SUM_DIGITS) == 0, RUNG_CORRUPT,
                   "%s: checksum of the manifest differs: the file is damaged", path);
        return RUNG_OK;
    }
    RUNG_CHECK(size > 0, RUNG_CORRUPT, "%s: cut: expected a manifest, found 0 bytes", path);
    RUNG_CHECK(has_begin, RUNG_FORMAT, "%s: not a checkpoint's manifest", path);
    const char *at = strstr(text, SIZE_KEY);
    unsigned long long expected = at ? strtoull(at + strlen(SIZE_KEY), NULL, 10) : 0;
    if (expected > size)
        return RUNG_FAIL(RUNG_CORRUPT, "%s: cut: expected %llu bytes, found %zu", path, expected,
                         size);
    return RUNG_FAIL(RUNG_CORRUPT, "%s: checksum of the manifest differs: the file is damaged",
                     path);
}

static bool is_plain_name(const char *name)
{
    return name[0] && name[0] != '.' && !strchr(name, '/');
}

static bool is_entry(const json_t *entry)
{
    json_int_t bytes, header_bytes;
    const char *header;
    json_t *tensors, *sum;
    if (json_unpack((json_t *)entry, "{s:I, s:I, s:s, s:o}", "bytes", &bytes, "header_bytes",
                    &header_bytes, "header", &header, "tensors", &tensors) != 0)
        return false;
    if (bytes < 0 || header_bytes < 0 || header_bytes > bytes || !json_is_object(tensors))
        return false;
    const char *name;
    json_object_foreach(tensors, name, sum) if (!json_is_string(sum)) return false;
    return true;
}

static rung_status check_form(const char *path, const json_t *root)
{
    const json_t *version = json_object_get(root, "version");
    const char *format = json_string_value(json_object_get(root, "format"));
    RUNG_CHECK(format && strcmp(format, FORMAT_NAME) == 0 && json_is_integer(version), RUNG_FORMAT,
               "%s: not a checkpoint's manifest", path);
    RUNG_CHECK(json_integer_value(version) == RUNGI_MANIFEST_VERSION, RUNG_UNSUPPORTED,
               "%s: version %lld of checkpoints, this rung reads version %d; use a newer one", path,
               (long long)json_integer_value(version), RUNGI_MANIFEST_VERSION);
    json_t *files = json_object_get(root, "files"), *entry;
    RUNG_CHECK(json_is_integer(json_object_get(root, "save")) && json_is_object(files) &&
                   json_is_object(json_object_get(root, "state")),
               RUNG_FORMAT, "%s: save, files or state are missing", path);
    const char *name;
    json_object_foreach(files, name, entry)
        RUNG_CHECK(is_plain_name(name) && is_entry(entry), RUNG_FORMAT,
                   "%s: the entry of file %s is malformed", path, name);
    return RUNG_OK;
}

rung_status rungi_manifest_read(const char *folder, json_t **root_out)
{
    char path[RUNGI_PATH_MAX], *text = NULL;
    size_t size = 0;
    RUNG_TRY(rungi_path_format(path, "%s/" RUNGI_MANIFEST_NAME, folder));
    rung_status status = rungi_fs_read(path, MANIFEST_MAX, &text, &size);
    if (status == RUNG_NOT_FOUND)
        return access(folder, F_OK) == 0
                   ? RUNG_FAIL(RUNG_FORMAT, "%s: not a checkpoint: has no " RUNGI_MANIFEST_NAME,
                               folder)
                   : RUNG_FAIL(RUNG_NOT_FOUND, "%s: no such checkpoint", folder);
    RUNG_TRY(status);
    json_t *root = NULL;
    RUNG_TRY_GOTO(free_text, check_text(path, text, size));
    json_error_t error;
    root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    if (!root) {
        status = RUNG_FAIL(RUNG_FORMAT, "%s: not JSON: %s", path, error.text);
        goto free_text;
    }
    RUNG_TRY_GOTO(free_text, check_form(path, root));
    free(text);
    *root_out = root;
    return RUNG_OK;
free_text:
    json_decref(root);
    free(text);
    return status;
}

int64_t rungi_manifest_save(const json_t *root)
{
    return json_integer_value(json_object_get(root, "save"));
}

json_t *rungi_manifest_files(const json_t *root)
{
    return json_object_get(root, "files");
}

json_t *rungi_manifest_state(const json_t *root)
{
    return json_object_get(root, "state");
}

static uint64_t entry_number(const json_t *entry, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(entry, key));
}

// Size and header, from the raw file: the header is believed only when its checksum is right.
static rung_status check_raw(int fd, const char *path, uint64_t size, const json_t *entry)
{
    uint64_t expected = entry_number(entry, "bytes");
    if (size != expected) {
        char start[9] = {0};
        uint64_t length;
        if (size >= sizeof start)
            RUNG_TRY(rungi_io_read_at(fd, path, 0, start, sizeof start));
        memcpy(&length, start, sizeof length);
        RUNG_CHECK(size < sizeof start ||
                       (length <= RUNGI_SAFETENSORS_HEADER_MAX && start[8] == '{'),
                   RUNG_FORMAT, "%s: not a checkpoint: another kind of file has this name", path);
        RUNG_CHECK(size > expected, RUNG_CORRUPT, "%s: cut: expected %llu bytes, found %llu", path,
                   (unsigned long long)expected, (unsigned long long)size);
        return RUNG_FAIL(RUNG_CORRUPT, "%s: too long: expected %llu bytes, found %llu", path,
                         (unsigned long long)expected, (unsigned long long)size);
    }
    rungi_sum sum = {0, 0};
    char text[RUNGI_SUM_TEXT];
    RUNG_TRY(rungi_sum_of_range(fd, path, 0, entry_number(entry, "header_bytes"), &sum));
    RUNG_CHECK(
        strcmp(rungi_sum_text(sum, text), json_string_value(json_object_get(entry, "header"))) == 0,
        RUNG_CORRUPT, "%s: checksum of the header differs: the file is damaged", path);
    return RUNG_OK;
}

static rung_status check_tensors(rung_safetensors *file, const char *path, const json_t *tensors,
                                 bool verify)
{
    RUNG_CHECK(rung_safetensors_count(file) == json_object_size(tensors), RUNG_CORRUPT,
               "%s: has %zu tensors, the manifest names %zu", path, rung_safetensors_count(file),
               json_object_size(tensors));
    for (size_t i = 0; i < rung_safetensors_count(file); i++) {
        const rung_safetensors_tensor *t = rung_safetensors_get(file, i);
        const char *wanted = json_string_value(json_object_get(tensors, t->name));
        RUNG_CHECK(wanted, RUNG_CORRUPT, "%s: tensor %s is not in the manifest", path, t->name);
        if (!verify)
            continue;
        rungi_sum sum = {0, 0};
        char text[RUNGI_SUM_TEXT];
        RUNG_TRY(rungi_safetensors_sum_tensor(file, t, &sum));
        RUNG_CHECK(strcmp(rungi_sum_text(sum, text), wanted) == 0, RUNG_CORRUPT,
                   "%s: checksum of tensor %s differs: the file is damaged", path, t->name);
    }
    return RUNG_OK;
}

rung_status rungi_manifest_check_file(const char *folder, const char *name, const json_t *entry,
                                      bool verify, rung_safetensors **file_out)
{
    char path[RUNGI_PATH_MAX];
    int fd = -1;
    uint64_t size = 0;
    RUNG_TRY(rungi_path_format(path, "%s/%s", folder, name));
    rung_status status = rungi_io_open_read(path, &fd, &size);
    if (status == RUNG_NOT_FOUND)
        return RUNG_FAIL(RUNG_CORRUPT, "%s: is missing; its manifest names it", path);
    RUNG_TRY(status);
    status = check_raw(fd, path, size, entry);
    close(fd);
    RUNG_TRY(status);
    rung_safetensors *file = NULL;
    RUNG_TRY(rung_safetensors_open(path, &file));
    status = check_tensors(file, path, json_object_get(entry, "tensors"), verify);
    if (status != RUNG_OK) {
        rung_safetensors_close(&file);
        return status;
    }
    *file_out = file;
    return RUNG_OK;
}
