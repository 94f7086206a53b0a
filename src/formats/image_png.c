// SPDX-License-Identifier: Apache-2.0
// PNG through libpng. Its errors come by longjmp: each function that calls it keeps what must
// survive in a struct of its caller.
#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "formats/image_file.h"

typedef struct png_job {
    const char *name;
    char message[128];
    bool cut;
    // Reading.
    const unsigned char *data;
    size_t size, at;
    rung_image image;
    png_bytep *rows;
    // Writing.
    rungi_string *out;
} png_job;

static void on_error(png_structp png, png_const_charp message)
{
    png_job *job = png_get_error_ptr(png);
    snprintf(job->message, sizeof job->message, "%s", message);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

static void give_bytes(png_structp png, png_bytep out, size_t size)
{
    png_job *job = png_get_io_ptr(png);
    if (size > job->size - job->at) {
        job->cut = true;
        png_error(png, "cut");
    }
    memcpy(out, job->data + job->at, size);
    job->at += size;
}

static void take_bytes(png_structp png, png_bytep data, size_t size)
{
    png_job *job = png_get_io_ptr(png);
    rungi_string_append(job->out, (const char *)data, size);
}

static void flush_nothing(png_structp png)
{
    (void)png;
}

// Runs libpng's calls. False when it jumped out; the message is in the job.
static bool read_png(png_structp png, png_infop info, png_job *job, rung_status *status)
{
    if (setjmp(png_jmpbuf(png)))
        return false;
    png_set_read_fn(png, job, give_bytes);
    png_set_user_limits(png, RUNG_IMAGE_PIXELS_MAX, RUNG_IMAGE_PIXELS_MAX);
    // What is said besides the pixels is passed over: libpng asks for memory before it is there.
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_read_info(png, info);
    int type = png_get_color_type(png, info), depth = png_get_bit_depth(png, info);
    // Deflate makes at most 1032 bytes of one: no memory for what cannot be there.
    if (png_get_rowbytes(png, info) * png_get_image_height(png, info) / 1032 > job->size) {
        job->cut = true;
        png_error(png, "cut");
    }
    png_set_strip_16(png);
    png_set_packing(png);
    png_set_strip_alpha(png);
    if (type == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(png);
    if (!(type & PNG_COLOR_MASK_COLOR) && depth < 8)
        png_set_expand_gray_1_2_4_to_8(png);
    (void)png_set_interlace_handling(png);
    png_read_update_info(png, info);
    png_uint_32 width = png_get_image_width(png, info), height = png_get_image_height(png, info);
    int channels = png_get_channels(png, info);
    if (channels != 1 && channels != 3)
        png_error(png, "unexpected number of channels");
    *status = rungi_image_allocate(&job->image, job->name, width, height, channels);
    if (*status != RUNG_OK)
        return true;
    job->rows = malloc(height * sizeof *job->rows);
    if (!job->rows || png_get_rowbytes(png, info) != (size_t)width * (size_t)channels)
        png_error(png, "no memory for its rows");
    for (png_uint_32 y = 0; y < height; y++)
        job->rows[y] = job->image.pixels + (size_t)y * width * (size_t)channels;
    png_read_image(png, job->rows);
    png_read_end(png, NULL);
    return true;
}

static uint32_t big_endian(const unsigned char *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

// The chunk eXIf (PNG 3rd edition, 11.3.4.5) may stand before or behind the pixels.
static void find_orientation(const unsigned char *data, size_t size, rungi_image_info *info)
{
    info->orientation = 1;
    for (size_t at = 8; at + 12 <= size;) {
        size_t length = big_endian(data + at);
        if (length > size - at - 12)
            return;
        if (memcmp(data + at + 4, "eXIf", 4) == 0) {
            int found = rungi_exif_orientation(data + at + 8, length);
            info->bad_orientation = found < 0;
            info->orientation = found > 0 ? found : 1;
            return;
        }
        at += 12 + length;
    }
}

rung_status rungi_image_probe_png(const unsigned char *data, size_t size, const char *name,
                                  rungi_image_info *info)
{
    enum { HEADER = 26, COLOUR = 2 };
    RUNG_CHECK(size >= HEADER, RUNG_CORRUPT, "%s: cut: the PNG goes on after %zu bytes", name,
               size);
    RUNG_CHECK(memcmp(data + 12, "IHDR", 4) == 0, RUNG_FORMAT,
               "%s: damaged PNG: it does not begin with IHDR", name);
    uint32_t width = big_endian(data + 16), height = big_endian(data + 20);
    RUNG_TRY(rungi_image_check_size(name, width, height));
    info->width = (int)width;
    info->height = (int)height;
    static const rungi_colour colours[8] = {
        RUNGI_COLOUR_GREY,       0, RUNGI_COLOUR_RGB,  RUNGI_COLOUR_PALETTE,
        RUNGI_COLOUR_GREY_ALPHA, 0, RUNGI_COLOUR_RGBA, 0};
    info->channels = data[25] & COLOUR ? 3 : 1;
    info->colour = colours[data[25] & 7];
    info->deep = data[24] > 8;
    find_orientation(data, size, info);
    return RUNG_OK;
}

rung_status rungi_image_decode_png(const unsigned char *data, size_t size, const char *name,
                                   rung_image *image_out)
{
    png_job job = {.name = name, .data = data, .size = size};
    rung_status status = RUNG_OK;
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &job, on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (!info)
        status = RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory to decode it", name);
    else if (!read_png(png, info, &job, &status))
        status = job.cut ? RUNG_FAIL(RUNG_CORRUPT, "%s: cut: the PNG goes on after %zu bytes", name,
                                     size)
                         : RUNG_FAIL(RUNG_FORMAT, "%s: damaged PNG: %s", name, job.message);
    png_destroy_read_struct(&png, &info, NULL);
    free(job.rows);
    if (status == RUNG_OK)
        *image_out = job.image;
    else
        rung_image_fini(&job.image);
    return status;
}

static bool write_png(png_structp png, png_infop info, const rung_image *image, png_job *job)
{
    if (setjmp(png_jmpbuf(png)))
        return false;
    png_set_write_fn(png, job, take_bytes, flush_nothing);
    png_set_IHDR(png, info, (png_uint_32)image->width, (png_uint_32)image->height, 8,
                 image->channels == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    size_t stride = (size_t)image->width * (size_t)image->channels;
    for (int y = 0; y < image->height; y++)
        png_write_row(png, image->pixels + (size_t)y * stride);
    png_write_end(png, NULL);
    return true;
}

rung_status rungi_image_encode_png(const rung_image *image, const char *name, rungi_string *out)
{
    png_job job = {.name = name, .out = out};
    rung_status status = RUNG_OK;
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &job, on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (!info)
        status = RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory to encode it", name);
    else if (!write_png(png, info, image, &job))
        status = RUNG_FAIL(RUNG_LIBRARY, "%s: libpng: %s", name, job.message);
    else if (out->failed)
        status = RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory to encode it", name);
    png_destroy_write_struct(&png, &info);
    return status;
}
