// SPDX-License-Identifier: Apache-2.0
// What the ways to write a data set share.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file_io.h"
#include "base/fs.h"
#include "data/convert.h"
#include "formats/image_file.h"

// ---- pictures

static const char *end_of(const uint8_t *data, size_t size)
{
    if (size >= 3 && memcmp(data, "\xff\xd8\xff", 3) == 0)
        return ".jpg";
    if (size >= 8 && memcmp(data, "\x89PNG\r\n\x1a\n", 8) == 0)
        return ".png";
    if (size >= 12 && memcmp(data, "RIFF", 4) == 0 && memcmp(data + 8, "WEBP", 4) == 0)
        return ".webp";
    if (size >= 2 && data[0] == 'P' && (data[1] == '2' || data[1] == '5'))
        return ".pgm";
    if (size >= 2 && data[0] == 'P' && (data[1] == '3' || data[1] == '6'))
        return ".ppm";
    return NULL;
}

static rung_status encode(const rung_field *field, const uint8_t *from, const char *name,
                          rungi_string *png)
{
    bool planes = field->pixels == RUNG_PIXELS_CHW;
    const int64_t *d = field->shape.dim;
    int channels = (int)d[planes ? 0 : 2];
    rung_image image = {
        .width = (int)d[planes ? 2 : 1], .height = (int)d[planes ? 1 : 0], .channels = channels};
    size_t plane = (size_t)image.width * (size_t)image.height;
    image.pixels = malloc(plane * (size_t)channels);
    RUNG_CHECK(image.pixels, RUNG_NO_MEMORY, "%s: no memory to write it as PNG", name);
    if (planes)
        for (size_t i = 0; i < plane; i++)
            for (size_t k = 0; k < (size_t)channels; k++)
                image.pixels[i * (size_t)channels + k] = from[k * plane + i];
    else
        memcpy(image.pixels, from, plane * (size_t)channels);
    png->size = 0;
    rung_status status = rungi_image_encode_png(&image, name, png);
    free(image.pixels);
    return status;
}

rung_status rungi_convert_picture(const rungi_conversion *c, const rungi_convert_sample *sample,
                                  rungi_string *png, const void **data_out, size_t *size_out,
                                  const char **end_out)
{
    const rung_view *view = &sample->fields[c->image];
    const rung_field *field = &c->fields[c->image];
    if (field->pixels == RUNG_PIXELS_FILE) {
        *data_out = view->data;
        *size_out = (size_t)view->shape.dim[0];
        *end_out = end_of(view->data, *size_out);
        RUNG_CHECK(*end_out, RUNG_DATA, "not a picture of kind JPEG, PNG, WebP, PGM or PPM");
        return RUNG_OK;
    }
    RUNG_TRY(encode(field, view->data, sample->name, png));
    *data_out = png->data;
    *size_out = png->size;
    *end_out = ".png";
    return RUNG_OK;
}

rung_status rungi_convert_check_pictures(const rungi_conversion *c, const char *what)
{
    const rung_field *image = c->image >= 0 ? &c->fields[c->image] : NULL;
    RUNG_CHECK(image && c->label >= 0 && c->field_count == 2, RUNG_MISMATCH,
               "%s: %s holds pictures with one label each, the samples are something else: "
               "convert to a pack",
               c->options->from, what);
    if (image->pixels == RUNG_PIXELS_FILE)
        return RUNG_OK;
    const int64_t *d = image->shape.dim;
    int64_t channels = d[image->pixels == RUNG_PIXELS_CHW ? 0 : 2];
    RUNG_CHECK(image->dtype == RUNG_U8 && (channels == 1 || channels == 3) && d[0] <= UINT16_MAX &&
                   d[1] <= UINT16_MAX && d[2] <= UINT16_MAX,
               RUNG_MISMATCH,
               "%s: %s holds pictures of u8 with 1 or 3 channels, these are %s with %" PRId64
               ": convert to a pack or to npy",
               c->options->from, what, rung_dtype_name(image->dtype), channels);
    return RUNG_OK;
}

int64_t rungi_convert_label(const rungi_conversion *c, const rungi_convert_sample *sample)
{
    return *(const int64_t *)sample->fields[c->label].data;
}

rung_status rungi_convert_tell(const rungi_conversion *c, const char *stage, int64_t done,
                               int64_t total)
{
    const rung_convert_options *o = c->options;
    if (!o->progress || o->progress(o->progress_user, stage, done, total))
        return RUNG_OK;
    return RUNG_FAIL(RUNG_CANCELLED, "%s: stopped while %s", o->to, stage);
}

// ---- folders

static bool same_stamp(const char *path, const char *wanted)
{
    char *text = NULL;
    size_t size;
    bool same = rungi_fs_read(path, 64, &text, &size) == RUNG_OK && strcmp(text, wanted) == 0;
    free(text);
    return same;
}

// Removes all that is in a folder.
static rung_status empty_folder(const char *path)
{
    rungi_names names = {0};
    RUNG_TRY(rungi_fs_list(path, &names));
    rung_status status = RUNG_OK;
    for (size_t i = 0; i < names.count && status == RUNG_OK; i++) {
        char *inner = rungi_path_join(path, names.data[i]);
        status = inner ? rungi_fs_remove_tree(inner)
                       : RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory for a path", path);
        free(inner);
    }
    rungi_names_fini(&names);
    return status;
}

// Locks the folder as long as this process lives, or until the descriptor is closed. One that was
// renamed meanwhile is no longer there.
static rung_status lock_folder(const char *path, int *fd_out)
{
    struct stat locked, there;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return rungi_io_fail(path, "open", errno, 0);
    bool mine = flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    if (mine && fstat(fd, &locked) == 0 && stat(path, &there) == 0 &&
        locked.st_ino == there.st_ino) {
        *fd_out = fd;
        return RUNG_OK;
    }
    close(fd);
    return RUNG_FAIL(RUNG_IO, "%s: another process is writing it", path);
}

rung_status rungi_convert_begin_folder(rungi_conversion *c, char *path_out)
{
    char path[RUNGI_PATH_MAX], stamp[RUNGI_PATH_MAX], text[32];
    bool exists;
    RUNG_TRY(rungi_path_format(path, "%s.partial", c->options->to));
    RUNG_TRY(rungi_path_format(stamp, "%s/.stamp", path));
    snprintf(text, sizeof text, "%016" PRIx64 "\n", c->stamp);
    RUNG_TRY(rungi_io_make_folder(path, &exists, NULL));
    RUNG_TRY(lock_folder(path, &c->lock));
    if (c->options->restart || !same_stamp(stamp, text)) {
        RUNG_TRY(empty_folder(path));
        RUNG_TRY(rungi_fs_write(stamp, text, strlen(text)));
    }
    memcpy(path_out, path, sizeof path);
    return RUNG_OK;
}

rung_status rungi_convert_end_folder(const rungi_conversion *c, const char *path)
{
    char stamp[RUNGI_PATH_MAX];
    RUNG_TRY(rungi_path_format(stamp, "%s/.stamp", path));
    if (unlink(stamp) != 0 && errno != ENOENT)
        return rungi_fs_fail(stamp, "cannot remove", errno);
    RUNG_TRY(rungi_io_sync_folder(path, NULL));
    RUNG_TRY(rungi_io_rename(path, c->options->to, NULL));
    char *folder = rungi_path_folder(c->options->to);
    RUNG_CHECK(folder, RUNG_NO_MEMORY, "%s: no memory for a path", c->options->to);
    rung_status status = rungi_io_sync_folder(folder, NULL);
    free(folder);
    return status;
}
