// SPDX-License-Identifier: Apache-2.0
// Converting to a folder with two NumPy arrays.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "data/convert.h"
#include "data/regrow.h"
#include "formats/npy_read.h"

typedef struct npy_sink {
    rungi_sink sink; // first
    rungi_conversion *c;
    char folder[RUNGI_PATH_MAX];
    rungi_regrow files[2]; // pictures, labels
    size_t bytes;          // of a picture
} npy_sink;

static rung_status add(rungi_sink *sink, const rungi_convert_sample *sample)
{
    npy_sink *s = (npy_sink *)sink;
    RUNG_TRY(rungi_regrow_write(&s->files[0], sample->fields[s->c->image].data, s->bytes));
    int64_t label = rungi_convert_label(s->c, sample);
    return rungi_regrow_write(&s->files[1], &label, sizeof label);
}

static rung_status finish(rungi_sink *sink, uint64_t *bytes_out)
{
    npy_sink *s = (npy_sink *)sink;
    *bytes_out = s->files[0].at + s->files[1].at;
    RUNG_TRY(rungi_convert_tell(s->c, "checking", 0, 1));
    for (int i = 0; i < 2; i++)
        RUNG_TRY(rungi_regrow_finish(&s->files[i]));
    return rungi_convert_end_folder(s->c, s->folder);
}

static void destroy(rungi_sink *sink)
{
    npy_sink *s = (npy_sink *)sink;
    for (int i = 0; i < 2; i++)
        rungi_regrow_close(&s->files[i]);
    free(s);
}

static rung_status begin_file(npy_sink *s, int which, const char *name, rung_dtype dtype,
                              rung_shape shape)
{
    char path[RUNGI_PATH_MAX];
    rungi_string head = {0};
    for (int i = shape.rank; i > 0; i--)
        shape.dim[i] = shape.dim[i - 1];
    shape.dim[0] = s->c->source->count;
    shape.rank++;
    RUNG_TRY(rungi_path_format(path, "%s/%s.npy", s->folder, name));
    RUNG_TRY(rungi_regrow_open(&s->files[which], path, s->c->options->restart));
    rung_status status = rungi_npy_head(&(rung_view){.dtype = dtype, .shape = shape}, &head);
    if (status == RUNG_OK)
        status = rungi_regrow_write(&s->files[which], head.data, head.size);
    rungi_string_fini(&head);
    return status;
}

static rung_status begin(npy_sink *s)
{
    static const char *const names[][2] = {
        {"images", "labels"}, {"x_train", "y_train"}, {"x_test", "y_test"}};
    rungi_conversion *c = s->c;
    const rung_field *image = &c->fields[c->image];
    int split = strcmp(c->split, "train") == 0 ? 1 : strcmp(c->split, "test") == 0 ? 2 : 0;
    int64_t count;
    RUNG_TRY(rung_shape_count(&image->shape, &count));
    s->bytes = (size_t)count * rung_dtype_size(image->dtype);
    RUNG_TRY(rungi_convert_begin_folder(c, s->folder));
    RUNG_TRY(begin_file(s, 0, names[split][0], image->dtype, image->shape));
    return begin_file(s, 1, names[split][1], RUNG_I64, RUNG_SCALAR);
}

rung_status rungi_sink_npy(rungi_conversion *c, rungi_sink **sink_out)
{
    const rung_convert_options *o = c->options;
    RUNG_CHECK(c->image >= 0 && c->label >= 0 && c->field_count == 2, RUNG_MISMATCH,
               "%s: npy holds pictures with one label each, the samples are something else: "
               "convert to a pack",
               o->from);
    const rung_field *image = &c->fields[c->image];
    RUNG_CHECK(image->pixels != RUNG_PIXELS_FILE, RUNG_MISMATCH,
               "%s: npy holds pixels, these are files: tell the size that they get (--raw HxW)",
               o->from);
    RUNG_CHECK(image->dtype == RUNG_U8 || image->dtype == RUNG_F32, RUNG_MISMATCH,
               "%s: npy holds pictures of u8 or f32, these are %s", o->from,
               rung_dtype_name(image->dtype));
    RUNG_CHECK(!o->skip_bad, RUNG_UNSUPPORTED,
               "%s: the length of an array must be known: bad samples cannot be left out; convert "
               "to a pack, and that to npy",
               o->to);
    npy_sink *s = calloc(1, sizeof *s);
    RUNG_CHECK(s, RUNG_NO_MEMORY, "%s: no memory to write it", o->to);
    s->c = c;
    s->files[0].file.fd = s->files[1].file.fd = -1;
    s->sink = (rungi_sink){.add = add, .finish = finish, .destroy = destroy};
    rung_status status = begin(s);
    if (status != RUNG_OK) {
        destroy(&s->sink);
        return status;
    }
    *sink_out = &s->sink;
    return RUNG_OK;
}
