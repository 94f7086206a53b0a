// SPDX-License-Identifier: Apache-2.0
// Pictures and labels in two NumPy files, or two arrays of an archive of them, read into memory.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "data/memory_source.h"
#include "data/source_npy.h"
#include "rung/npy.h"

enum { CHANNELS_MOST = 4 };

// The shape of one picture, and where its channels stand: [N, H, W]; or of [N, C, H, W] and [N, H,
// W, C] the one with 1 to 4 channels.
static rung_status tell_pixels(const char *path, const rung_shape *all, rung_shape *shape,
                               rung_pixels *pixels)
{
    const int64_t *d = all->dim;
    char text[RUNG_SHAPE_TEXT];
    *pixels = RUNG_PIXELS_CHW;
    if (all->rank == 3) {
        *shape = RUNG_SHAPE(1, d[1], d[2]);
        return RUNG_OK;
    }
    bool first = all->rank == 4 && d[1] <= CHANNELS_MOST;
    bool last = all->rank == 4 && d[3] <= CHANNELS_MOST;
    RUNG_CHECK(
        first != last, RUNG_MISMATCH,
        "%s: has shape %s: pictures are [N, H, W], [N, C, H, W] or [N, H, W, C] with 1 to %d "
        "channels",
        path, rung_shape_text(all, text, sizeof text), CHANNELS_MOST);
    *shape = RUNG_SHAPE(d[1], d[2], d[3]);
    *pixels = first ? RUNG_PIXELS_CHW : RUNG_PIXELS_HWC;
    return RUNG_OK;
}

// An array: a file, or in an archive.
typedef struct part {
    const char *file, *member; // member NULL: a file by itself
    char name[512];            // for messages
} part;

static part make_part(const char *file, const char *member)
{
    part p = {.file = file, .member = member};
    snprintf(p.name, sizeof p.name, "%s%s%s", file, member ? ", " : "", member ? member : "");
    return p;
}

static rung_status read_part(const part *p, rung_view *view_out)
{
    return p->member ? rung_npz_read(p->file, p->member, view_out)
                     : rung_npy_read(p->file, view_out);
}

static rung_status add_images(rungi_memory_source *memory, const part *p)
{
    const char *path = p->name;
    rung_view all;
    rung_shape shape;
    rung_pixels pixels;
    int64_t count;
    char text[RUNG_SHAPE_TEXT];
    RUNG_TRY(read_part(p, &all));
    RUNG_TRY(rungi_memory_source_own(memory, all.data));
    RUNG_CHECK(all.dtype == RUNG_U8 || all.dtype == RUNG_F32, RUNG_MISMATCH,
               "%s: holds %s: pictures are u8 (0 to 255) or f32", path, rung_dtype_name(all.dtype));
    RUNG_TRY(tell_pixels(path, &all.shape, &shape, &pixels));
    RUNG_TRY(rung_shape_count(&all.shape, &count));
    RUNG_CHECK(count > 0, RUNG_DATA, "%s: has shape %s: no pictures", path,
               rung_shape_text(&all.shape, text, sizeof text));
    memory->source.count = all.shape.dim[0];
    size_t stride = (size_t)(count / all.shape.dim[0]) * rung_dtype_size(all.dtype);
    RUNG_TRY(rungi_memory_source_file(memory, path, 0));
    return rungi_memory_source_field(memory, "image", all.dtype, shape, pixels, all.data, stride);
}

static rung_status add_labels(rungi_memory_source *memory, const char *images, const part *p)
{
    const char *path = p->name;
    rung_view all;
    char text[RUNG_SHAPE_TEXT];
    RUNG_TRY(read_part(p, &all));
    RUNG_TRY(rungi_memory_source_own(memory, all.data));
    if (all.shape.rank == 2 && all.shape.dim[1] == 1) // a column, as MedMNIST has
        all.shape.rank = 1;
    RUNG_CHECK(all.dtype == RUNG_U8 || all.dtype == RUNG_I32 || all.dtype == RUNG_I64,
               RUNG_MISMATCH, "%s: holds %s: labels are whole numbers (u8, i32, i64)", path,
               rung_dtype_name(all.dtype));
    RUNG_CHECK(all.shape.rank == 1, RUNG_MISMATCH, "%s: has shape %s: labels are [N]", path,
               rung_shape_text(&all.shape, text, sizeof text));
    int64_t count = all.shape.dim[0], most = 0;
    RUNG_CHECK(count == memory->source.count, RUNG_DATA,
               "%s: has %" PRId64 " labels, %s has %" PRId64 " pictures", path, count, images,
               memory->source.count);
    int64_t *labels = malloc((size_t)count * sizeof *labels);
    RUNG_TRY(rungi_memory_source_own(memory, labels));
    rung_convert(RUNG_I64, labels, all.dtype, all.data, count, NULL);
    for (int64_t i = 0; i < count; i++) {
        RUNG_CHECK(labels[i] >= 0 && labels[i] < INT32_MAX, RUNG_DATA,
                   "%s: label %" PRId64 " of picture %" PRId64 " is no class: they count from 0",
                   path, labels[i], i);
        most = labels[i] > most ? labels[i] : most;
    }
    memory->source.class_count = (int)most + 1;
    return rungi_memory_source_field(memory, "label", RUNG_I64, RUNG_SCALAR, RUNG_PIXELS_NONE,
                                     labels, sizeof *labels);
}

static rung_status make_source(const part *images, const part *labels, rung_source **source_out)
{
    rungi_memory_source *memory;
    RUNG_TRY(rungi_memory_source_create("npy", &memory));
    rung_status status = add_images(memory, images);
    if (status == RUNG_OK)
        status = add_labels(memory, images->name, labels);
    if (status != RUNG_OK) {
        rungi_memory_source_drop(&memory);
        return status;
    }
    *source_out = &memory->source;
    return RUNG_OK;
}

rung_status rung_source_npy(rung_context *context, const char *images, const char *labels,
                            rung_source **source_out)
{
    (void)context;
    RUNG_CHECK(images && labels, RUNG_INVALID,
               "npy: give the files of the pictures and the labels");
    part pictures = make_part(images, NULL), classes = make_part(labels, NULL);
    return make_source(&pictures, &classes, source_out);
}

rung_status rungi_source_npz(const char *path, const char *images, const char *labels,
                             rung_source **source_out)
{
    part pictures = make_part(path, images), classes = make_part(path, labels);
    return make_source(&pictures, &classes, source_out);
}
