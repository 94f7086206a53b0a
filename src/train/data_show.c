// SPDX-License-Identifier: Apache-2.0
// rung_data_show: samples as they are beside what training sees of them.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "data/reader.h"
#include "data/sheet.h"
#include "data/source.h"
#include "rung/data_tools.h"
#include "train/session.h"

enum {
    SAMPLES = 24,
    SAMPLES_MAX = 400,
    SIDE_MIN = 112, // of a picture's cell
    SIDE_MAX = 224,
    GAP = 4,     // between the two pictures of a sample
    MARGIN = 12, // between samples, and around
    HEADER = 3 * RUNGI_GLYPH_HEIGHT,
    CAPTION = 2 * RUNGI_GLYPH_HEIGHT + 4,
    PER_ROW = 4,
};

static const uint8_t paper[3] = {250, 250, 250}, empty[3] = {228, 228, 232}, ink[3] = {20, 20, 24},
                     pale[3] = {110, 110, 120};

typedef struct show {
    rungi_session *s;
    rungi_reader reader;
    rung_image sheet;
    int side, count;
    rungi_string text;
    json_t *json;
} show;

// The side of a cell: the image's if that is legible, else a multiple or a part of it.
static int choose_side(const rung_shape *image)
{
    int64_t longer = image->dim[1] > image->dim[2] ? image->dim[1] : image->dim[2];
    if (longer >= SIDE_MAX)
        return SIDE_MAX;
    int64_t times = (SIDE_MIN + longer - 1) / longer;
    return (int)(longer * times);
}

static rungi_rect place_of(const show *sh, int i, int which)
{
    int wide = 2 * sh->side + GAP + MARGIN, high = sh->side + CAPTION + MARGIN;
    return (rungi_rect){MARGIN + i % PER_ROW * wide + which * (sh->side + GAP),
                        MARGIN + HEADER + i / PER_ROW * high, sh->side, sh->side};
}

static rung_status make_sheet(show *sh)
{
    int columns = sh->count < PER_ROW ? sh->count : PER_ROW,
        rows = (sh->count + PER_ROW - 1) / PER_ROW;
    int width = MARGIN + columns * (2 * sh->side + GAP + MARGIN);
    int height = MARGIN + HEADER + rows * (sh->side + CAPTION + MARGIN);
    RUNG_TRY(
        rungi_image_allocate(&sh->sheet, "contact sheet", (uint64_t)width, (uint64_t)height, 3));
    rungi_sheet_fill(&sh->sheet, &(rungi_rect){0, 0, width, height}, paper);
    char line[256];
    snprintf(line, sizeof line,
             "%s, seed %" PRId64 ", epoch 0: on the left as it is, on the right as "
             "training sees it",
             sh->s->train_source->name, sh->s->c->seed);
    rungi_sheet_text(&sh->sheet, MARGIN, MARGIN, width - 2 * MARGIN, line, ink);
    return RUNG_OK;
}

// An f32 [C, H, W] sample of a batch as 8-bit pixels: normalization undone, cut to 0 ... 255.
static rung_status pixels_of(const show *sh, const rung_batch *batch, int64_t i, rung_image *out)
{
    const rungi_data_config *d = &sh->s->c->data;
    const rung_view *v = &batch->fields[0];
    const int64_t *dim = v->shape.dim;
    bool image = v->shape.rank == 4 && v->dtype == RUNG_F32 && (dim[1] == 1 || dim[1] == 3);
    RUNG_CHECK(image, RUNG_UNSUPPORTED, "data show: samples are no pictures with 1 or 3 channels");
    RUNG_TRY(rungi_image_allocate(out, "augmented sample", (uint64_t)dim[3], (uint64_t)dim[2],
                                  (int)dim[1]));
    int64_t plane = dim[2] * dim[3];
    const float *from = (const float *)v->data + i * dim[1] * plane;
    for (int64_t c = 0; c < dim[1]; c++) {
        bool normalized = (int64_t)d->mean.count > c;
        double mean = normalized ? d->mean.data[c] : 0, std = normalized ? d->std.data[c] : 1;
        for (int64_t k = 0; k < plane; k++) {
            double value = nearbyint(((double)from[c * plane + k] * std + mean) * 255);
            out->pixels[k * dim[1] + c] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
        }
    }
    return RUNG_OK;
}

static void label_text(const show *sh, const rung_batch *batch, int64_t i, char *out, size_t size)
{
    const rung_source *source = sh->s->train_source;
    int label = rungi_source_label_field(source);
    snprintf(out, size, "no label");
    if (label < 0 || batch->fields[label].dtype != RUNG_I64)
        return;
    int64_t k = ((const int64_t *)batch->fields[label].data)[i], used;
    if (source->class_names && k >= 0 && k < source->class_count)
        snprintf(out, size, "%" PRId64 " %s", k, source->class_names[k]);
    else
        snprintf(out, size, "class %" PRId64, k);
    // Mixed with another class: its share too.
    for (int64_t c = 0; rungi_session_mixes(sh->s) && c < sh->s->mixes[1].classes; c++) {
        float share = ((const float *)batch->fields[batch->field_count - 1]
                           .data)[i * sh->s->mixes[1].classes + c];
        used = (int64_t)strlen(out);
        if (c != k && share > 0)
            snprintf(out + used, size - (size_t)used, ", %.0f %% %" PRId64 " %s",
                     100 * (double)share, c, source->class_names ? source->class_names[c] : "");
    }
}

static void note(show *sh, int64_t sample, const char *label, const char *size)
{
    char what[640];
    rungi_source_describe(sh->s->train_source, sample, what, sizeof what);
    rungi_string_add(&sh->text, "%-24s %-12s %s\n", label, size, what);
    json_t *o = json_object();
    json_object_set_new(o, "sample", json_integer(sample));
    json_object_set_new(o, "name", rungi_json_string(what));
    json_object_set_new(o, "label", rungi_json_string(label));
    json_array_append_new(sh->json, o);
}

static rung_status draw_sample(show *sh, int at, const rung_batch *batch, int64_t i)
{
    char label[256], size[32], caption[64];
    rungi_image_info info;
    rungi_pixels pixels;
    rung_image augmented = {0};
    int64_t sample = batch->samples[i];
    rungi_rect left = place_of(sh, at, 0), right = place_of(sh, at, 1);
    RUNG_TRY(rungi_reader_read(&sh->reader, sample));
    RUNG_TRY(
        rungi_reader_picture(&sh->reader, "picture", sh->s->c->data.exif_rotation, &info, &pixels));
    RUNG_TRY(pixels_of(sh, batch, i, &augmented));
    rungi_pixels seen = {augmented.pixels, (size_t)augmented.width * (size_t)augmented.channels,
                         augmented.width, augmented.height, augmented.channels};
    rungi_sheet_fill(&sh->sheet, &left, empty);
    rungi_sheet_fill(&sh->sheet, &right, empty);
    rungi_sheet_picture(&sh->sheet, &left, &pixels);
    rungi_sheet_picture(&sh->sheet, &right, &seen);
    rung_image_fini(&augmented);
    label_text(sh, batch, i, label, sizeof label);
    snprintf(size, sizeof size, "%d x %d", info.width, info.height);
    snprintf(caption, sizeof caption, "sample %" PRId64 ", %s", sample, size);
    int y = left.y + sh->side + 4, room = 2 * sh->side + GAP;
    rungi_sheet_text(&sh->sheet, left.x, y, room, label, ink);
    rungi_sheet_text(&sh->sheet, left.x, y + RUNGI_GLYPH_HEIGHT, room, caption, pale);
    note(sh, sample, label, size);
    return RUNG_OK;
}

static rung_status draw(show *sh, int count)
{
    rungi_session *s = sh->s;
    rung_loader_info info;
    rung_loader_describe(s->train_loader, &info);
    rung_shape image;
    RUNG_TRY(rungi_session_image(s, &image));
    RUNG_CHECK(image.rank == 3, RUNG_UNSUPPORTED,
               "data show: samples are no pictures with 1 or 3 channels");
    sh->side = choose_side(&image);
    sh->count = info.samples_per_epoch < count ? (int)info.samples_per_epoch : count;
    RUNG_TRY(rungi_reader_open(s->train_source, -1, &sh->reader));
    RUNG_TRY(make_sheet(sh));
    for (int done = 0; done < sh->count;) {
        rung_batch batch;
        RUNG_TRY(rungi_session_next(s, 0, &batch));
        rung_status status = RUNG_OK;
        for (int64_t i = 0; i < batch.count && done < sh->count && status == RUNG_OK; i++, done++)
            status = draw_sample(sh, done, &batch, i);
        rungi_session_release(s, &batch);
        RUNG_TRY(status);
    }
    return RUNG_OK;
}

rung_status rung_data_show(rung_context *context, const rung_config *config, int count,
                           const char *path, rung_data_report *report_out)
{
    show sh = {.json = json_array()};
    rungi_string json = {0};
    count = count ? count : SAMPLES;
    RUNG_CHECK(count > 0 && count <= SAMPLES_MAX, RUNG_INVALID, "data show: %d samples: 1 to %d",
               count, SAMPLES_MAX);
    rung_status status = rungi_session_of_data(context, config, RUNGI_SESSION_TRAIN, &sh.s);
    if (status == RUNG_OK)
        status = draw(&sh, count);
    if (status == RUNG_OK)
        status = rung_image_write_png(path, &sh.sheet);
    if (status == RUNG_OK)
        rungi_json_print(sh.json, false, &json);
    if (status == RUNG_OK && (json.failed || sh.text.failed))
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a report");
    rung_error error = *rung_error_last();
    if (sh.reader.source)
        rungi_reader_close(&sh.reader);
    rung_image_fini(&sh.sheet);
    rungi_session_destroy(&sh.s);
    json_decref(sh.json);
    if (status != RUNG_OK) {
        rungi_string_fini(&sh.text);
        rungi_string_fini(&json);
        return rungi_fail_adopt(&error);
    }
    *report_out = (rung_data_report){.sound = true, .text = sh.text.data, .json = json.data};
    return RUNG_OK;
}
