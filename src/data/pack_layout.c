// SPDX-License-Identifier: Apache-2.0
// What a pack's samples are made of: places of the fields, and the description of them in the file.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/json.h"
#include "data/pack_file.h"

enum { NAME_MAX_BYTES = 256 };
static const uint64_t SAMPLE_MAX = (uint64_t)1 << 40;

static const char *const pixel_names[] = {
    [RUNG_PIXELS_NONE] = "none",
    [RUNG_PIXELS_CHW] = "chw",
    [RUNG_PIXELS_HWC] = "hwc",
    [RUNG_PIXELS_FILE] = "file",
};
enum { PIXELS = sizeof pixel_names / sizeof *pixel_names };

// ---- places

static rung_status check_field(const char *path, const rung_field *field, uint64_t *bytes_out)
{
    int64_t count;
    size_t bytes;
    RUNG_CHECK(field->name && *field->name && strlen(field->name) < NAME_MAX_BYTES, RUNG_INVALID,
               "%s: a field of a pack needs a name of 1 to %d bytes", path, NAME_MAX_BYTES - 1);
    RUNG_CHECK((unsigned)field->dtype < RUNG_DTYPE_COUNT && (unsigned)field->pixels < PIXELS,
               RUNG_INVALID, "%s: field %s: no such dtype or kind of pixels", path, field->name);
    if (field->pixels == RUNG_PIXELS_FILE) {
        RUNG_CHECK(field->dtype == RUNG_U8 && field->shape.rank == 1, RUNG_INVALID,
                   "%s: field %s: a picture's file is u8 of one dimension", path, field->name);
        *bytes_out = 0;
        return RUNG_OK;
    }
    RUNG_CHECK(field->shape.rank >= 0 && field->shape.rank < RUNG_MAX_RANK, RUNG_INVALID,
               "%s: field %s has rank %d, can be 0 to %d", path, field->name, field->shape.rank,
               RUNG_MAX_RANK - 1);
    RUNG_CHECK(field->pixels == RUNG_PIXELS_NONE || field->shape.rank == 3, RUNG_INVALID,
               "%s: field %s is an image of rank %d, must be 3", path, field->name,
               field->shape.rank);
    if (rung_shape_count(&field->shape, &count) != RUNG_OK)
        return rungi_fail_prefix("%s: field %s", path, field->name);
    RUNG_CHECK(count > 0 && rungi_size_mul((size_t)count, rung_dtype_size(field->dtype), &bytes) &&
                   bytes <= SAMPLE_MAX,
               RUNG_INVALID, "%s: field %s: a sample of it has no usable size", path, field->name);
    *bytes_out = bytes;
    return RUNG_OK;
}

static rung_status place_field(rungi_pack_layout *l, const char *path, const rung_field *field)
{
    int f = l->field_count;
    uint64_t bytes = 0;
    RUNG_TRY(check_field(path, field, &bytes));
    for (int i = 0; i < f; i++)
        RUNG_CHECK(strcmp(l->names[i], field->name) != 0, RUNG_INVALID,
                   "%s: two fields are called %s", path, field->name);
    l->names[f] = rungi_text_copy(field->name);
    RUNG_CHECK(l->names[f], RUNG_NO_MEMORY, "%s: no memory for its fields", path);
    l->field_count++;
    l->fields[f] = *field;
    l->fields[f].name = l->names[f];
    l->bytes[f] = bytes;
    if (field->pixels == RUNG_PIXELS_FILE) {
        RUNG_CHECK(l->file < 0, RUNG_INVALID, "%s: fields %s and %s are both pictures' files", path,
                   l->fields[l->file < 0 ? 0 : l->file].name, field->name);
        l->file = f;
        l->fields[f].shape.dim[0] = 0;
    } else if (strcmp(field->name, "label") == 0 && field->dtype == RUNG_I64 &&
               field->shape.rank == 0) {
        l->label = f;
    } else {
        l->offset[f] = rungi_pack_round(l->fixed);
        l->fixed = l->offset[f] + bytes;
    }
    return RUNG_OK;
}

static rung_status copy_classes(rungi_pack_layout *l, const char *path, const char *const *names)
{
    l->class_names = calloc((size_t)l->class_count + 1, sizeof *l->class_names);
    RUNG_CHECK(l->class_names, RUNG_NO_MEMORY, "%s: no memory for the names of its classes", path);
    for (int i = 0; i < l->class_count; i++) {
        l->class_names[i] = names[i] ? rungi_text_copy(names[i]) : NULL;
        RUNG_CHECK(l->class_names[i], RUNG_NO_MEMORY, "%s: no memory for the names of its classes",
                   path);
    }
    return RUNG_OK;
}

rung_status rungi_pack_layout_init(rungi_pack_layout *l, const char *path, const rung_field *fields,
                                   int field_count, int class_count, const char *const *class_names,
                                   const char *note)
{
    *l = (rungi_pack_layout){.label = -1, .file = -1, .class_count = class_count};
    RUNG_CHECK(field_count >= 1 && field_count <= RUNG_MAX_FIELDS, RUNG_INVALID,
               "%s: a pack of %d fields, must be 1 to %d", path, field_count, RUNG_MAX_FIELDS);
    RUNG_CHECK(class_count >= 0 && class_count <= RUNGI_PACK_CLASSES_MAX, RUNG_INVALID,
               "%s: a pack of %d classes, can be at most %d", path, class_count,
               RUNGI_PACK_CLASSES_MAX);
    for (int f = 0; f < field_count; f++)
        RUNG_TRY(place_field(l, path, &fields[f]));
    if (l->file >= 0) {
        l->offset[l->file] = rungi_pack_round(l->fixed);
        l->fixed = l->offset[l->file];
    }
    RUNG_CHECK(l->file >= 0 || l->fixed > 0, RUNG_INVALID, "%s: a pack of nothing but labels",
               path);
    if (class_names)
        RUNG_TRY(copy_classes(l, path, class_names));
    if (note)
        l->note = rungi_text_copy(note);
    RUNG_CHECK(!note || l->note, RUNG_NO_MEMORY, "%s: no memory for its description", path);
    return RUNG_OK;
}

void rungi_pack_layout_fini(rungi_pack_layout *l)
{
    for (int f = 0; f < l->field_count; f++)
        free(l->names[f]);
    for (int i = 0; l->class_names && i < l->class_count; i++)
        free(l->class_names[i]);
    free((void *)l->class_names);
    free(l->note);
    *l = (rungi_pack_layout){0};
}

// ---- the description: JSON

static json_t *write_field(const rung_field *field)
{
    json_t *object = json_object(), *shape = json_array();
    for (int i = 0; field->pixels != RUNG_PIXELS_FILE && i < field->shape.rank; i++)
        json_array_append_new(shape, json_integer(field->shape.dim[i]));
    json_object_set_new(object, "name", rungi_json_string(field->name));
    json_object_set_new(object, "dtype", json_string(rung_dtype_name(field->dtype)));
    json_object_set_new(object, "pixels", json_string(pixel_names[field->pixels]));
    json_object_set_new(object, "shape", shape);
    return object;
}

rung_status rungi_pack_meta_write(const rungi_pack_layout *l, rungi_string *out)
{
    json_t *root = json_object(), *fields = json_array(), *classes = json_array();
    for (int f = 0; f < l->field_count; f++)
        json_array_append_new(fields, write_field(&l->fields[f]));
    for (int i = 0; l->class_names && i < l->class_count; i++)
        json_array_append_new(classes, rungi_json_string(l->class_names[i]));
    json_object_set_new(root, "fields", fields);
    json_object_set_new(root, "classes", json_integer(l->class_count));
    json_object_set_new(root, "class_names", classes);
    json_object_set_new(root, "note", rungi_json_string(l->note ? l->note : ""));
    rungi_json_print(root, false, out);
    json_decref(root);
    RUNG_CHECK(!out->failed, RUNG_NO_MEMORY, "no memory for the description of a pack");
    RUNG_CHECK(out->size <= RUNGI_PACK_META_MAX, RUNG_INVALID,
               "the description of a pack takes %zu bytes, can be at most %d: shorten the names of "
               "its classes",
               out->size, RUNGI_PACK_META_MAX);
    return RUNG_OK;
}

static rung_status read_choice(const json_t *object, const char *where, const char *member,
                               const char *(*name_of)(int), int count, int *out)
{
    const char *text;
    RUNG_TRY(rungi_json_text(object, where, member, &text));
    for (*out = 0; *out < count; (*out)++)
        if (strcmp(text, name_of(*out)) == 0)
            return RUNG_OK;
    return RUNG_FAIL(RUNG_FORMAT, "%s: %s: no such %s: %s", where, member, member, text);
}

static const char *dtype_name(int i)
{
    return rung_dtype_name((rung_dtype)i);
}

static const char *pixel_name(int i)
{
    return pixel_names[i];
}

static rung_status read_field(const json_t *object, const char *where, rung_field *field)
{
    json_t *shape;
    int dtype, pixels;
    RUNG_TRY(rungi_json_text(object, where, "name", &field->name));
    RUNG_TRY(read_choice(object, where, "dtype", dtype_name, RUNG_DTYPE_COUNT, &dtype));
    RUNG_TRY(read_choice(object, where, "pixels", pixel_name, PIXELS, &pixels));
    RUNG_TRY(rungi_json_array(object, where, "shape", &shape));
    field->dtype = (rung_dtype)dtype;
    field->pixels = (rung_pixels)pixels;
    field->shape = (rung_shape){.rank = (int)json_array_size(shape)};
    RUNG_CHECK(json_array_size(shape) < RUNG_MAX_RANK, RUNG_FORMAT, "%s: has %zu dimensions", where,
               json_array_size(shape));
    for (int i = 0; i < field->shape.rank; i++) {
        const json_t *dim = json_array_get(shape, (size_t)i);
        RUNG_CHECK(json_is_integer(dim) && json_integer_value(dim) > 0, RUNG_FORMAT,
                   "%s: shape: dimensions are whole numbers from 1", where);
        field->shape.dim[i] = json_integer_value(dim);
    }
    if (field->pixels == RUNG_PIXELS_FILE)
        field->shape = (rung_shape){.rank = 1};
    return RUNG_OK;
}

static rung_status read_root(const char *path, const json_t *root, rungi_pack_layout *layout)
{
    rung_field fields[RUNG_MAX_FIELDS];
    json_t *list, *classes;
    int64_t class_count;
    const char *note, **names = NULL;
    rung_status status;
    RUNG_TRY(rungi_json_array(root, path, "fields", &list));
    RUNG_TRY(rungi_json_i64(root, path, "classes", 0, RUNGI_PACK_CLASSES_MAX, &class_count));
    RUNG_TRY(rungi_json_array(root, path, "class_names", &classes));
    RUNG_TRY(rungi_json_text(root, path, "note", &note));
    size_t count = json_array_size(list), named = json_array_size(classes);
    RUNG_CHECK(count >= 1 && count <= RUNG_MAX_FIELDS, RUNG_FORMAT,
               "%s: a pack of %zu fields, must be 1 to %d", path, count, RUNG_MAX_FIELDS);
    RUNG_CHECK(named == 0 || named == (size_t)class_count, RUNG_FORMAT,
               "%s: %zu names of %" PRId64 " classes", path, named, class_count);
    for (size_t f = 0; f < count; f++)
        RUNG_TRY(read_field(json_array_get(list, f), path, &fields[f]));
    if (named) {
        names = calloc(named, sizeof *names);
        RUNG_CHECK(names, RUNG_NO_MEMORY, "%s: no memory for the names of its classes", path);
        for (size_t i = 0; i < named; i++) {
            names[i] = json_string_value(json_array_get(classes, i));
            if (!names[i])
                RUNG_TRY_GOTO(free_names,
                              RUNG_FAIL(RUNG_FORMAT, "%s: a class's name is no text", path));
        }
    }
    status =
        rungi_pack_layout_init(layout, path, fields, (int)count, (int)class_count, names, note);
    if (status == RUNG_INVALID) { // it is the file that is wrong, not the caller
        rung_error error = *rung_error_last();
        error.status = RUNG_FORMAT;
        status = rungi_fail_adopt(&error);
    }
free_names:
    free((void *)names);
    return status;
}

rung_status rungi_pack_meta_read(const char *path, const char *text, size_t size,
                                 rungi_pack_layout *layout_out)
{
    json_t *root;
    rungi_pack_layout layout = {0};
    RUNG_TRY(rungi_json_parse(text, size, path, &root));
    rung_status status = read_root(path, root, &layout);
    json_decref(root);
    if (status == RUNG_OK)
        *layout_out = layout;
    else
        rungi_pack_layout_fini(&layout);
    return status;
}
