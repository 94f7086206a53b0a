// SPDX-License-Identifier: Apache-2.0
#include "rung/predict.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fs.h"
#include "base/json.h"
#include "formats/checkpoint_folder.h"
#include "formats/image_file.h"
#include "rung/train.h"
#include "train/session.h"
#include "train/session_state.h"

struct rung_predictor {
    rung_context *context;
    rungi_session *s;
    rung_shape picture; // [C, H, W]
    int64_t classes;    // of the network
};

static rung_status read_shape(const json_t *state, const char *where, const char *member,
                              bool any_size, rung_shape *shape_out)
{
    json_t *list;
    rung_shape shape = {.rank = 3};
    RUNG_TRY(rungi_json_array(state, where, member, &list));
    RUNG_CHECK(json_array_size(list) == 3, RUNG_UNSUPPORTED,
               "%s: the network was not trained on pictures of bytes: it predicts none", where);
    for (int i = 0; i < 3; i++) {
        shape.dim[i] = json_integer_value(json_array_get(list, (size_t)i));
        // Pictures of any size have height and width 0.
        RUNG_CHECK(shape.dim[i] >= (i > 0 && any_size ? 0 : 1) && shape.dim[i] <= INT32_MAX,
                   RUNG_FORMAT, "%s: %s holds a size that no picture has", where, member);
    }
    *shape_out = shape;
    return RUNG_OK;
}

// Makes the session as the checkpoint's state describes it.
static rung_status open_session(rung_predictor *p, const rung_config *config,
                                rungi_checkpoint *checkpoint, const char *tuning)
{
    const json_t *state = rungi_checkpoint_state(checkpoint);
    const char *where = rungi_checkpoint_path(checkpoint);
    rung_shape image;
    json_t *names;
    int64_t classes;
    RUNG_TRY(read_shape(state, where, "picture", true, &p->picture));
    RUNG_TRY(read_shape(state, where, "image", false, &image));
    RUNG_TRY(rungi_json_i64(state, where, "classes", 0, INT32_MAX, &classes));
    RUNG_TRY(rungi_json_array(state, where, "class_names", &names));
    size_t named = json_array_size(names);
    RUNG_CHECK(named == 0 || named == (size_t)classes, RUNG_FORMAT,
               "%s: %zu names for %" PRId64 " classes", where, named, classes);
    const char **list = calloc(named + 1, sizeof *list);
    RUNG_CHECK(list, RUNG_NO_MEMORY, "no memory for the names of the classes");
    for (size_t i = 0; i < named; i++) {
        const char *text = json_string_value(json_array_get(names, i));
        list[i] = text ? text : "";
    }
    rung_status status =
        rungi_session_create(p->context, config,
                             &(rungi_session_options){.timeline_off = true,
                                                      .loaded = true,
                                                      .tuning = tuning,
                                                      .image = &image,
                                                      .classes = classes,
                                                      .class_names = named ? list : NULL},
                             &p->s);
    free(list);
    return status;
}

rung_status rung_predictor_open(rung_context *context, const char *run, const char *checkpoint_name,
                                rung_predictor **predictor_out)
{
    rung_config *config = NULL;
    rungi_checkpoint *checkpoint = NULL;
    rung_predictor *p = calloc(1, sizeof *p);
    char *path = rungi_text_format("%s/checkpoints/%s", run, checkpoint_name);
    char *tuning = rungi_path_join(run, "tuning.json");
    rung_status status = RUNG_OK;
    if (!p || !path || !tuning) {
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a predictor");
        goto done;
    }
    p->context = context;
    RUNG_TRY_GOTO(done, rung_run_config(context, run, NULL, 0, &config));
    RUNG_TRY_GOTO(done, rungi_checkpoint_open(path, true, &checkpoint));
    RUNG_TRY_GOTO(done, open_session(p, config, checkpoint, tuning));
    RUNG_TRY_GOTO(done, rungi_session_load_model(p->s, checkpoint));
    p->classes = rungi_session_logits(p->s);
done:
    free(path);
    free(tuning);
    rungi_checkpoint_close(&checkpoint);
    rung_config_destroy(&config);
    if (status != RUNG_OK) {
        rung_error error = *rung_error_last();
        rung_predictor_destroy(&p);
        return rungi_fail_adopt(&error);
    }
    *predictor_out = p;
    return RUNG_OK;
}

void rung_predictor_destroy(rung_predictor **predictor)
{
    if (!predictor || !*predictor)
        return;
    rungi_session_destroy(&(*predictor)->s);
    free(*predictor);
    *predictor = NULL;
}

rung_predictor_info rung_predictor_describe(const rung_predictor *p)
{
    return (rung_predictor_info){.channels = (int)p->picture.dim[0],
                                 .height = (int)p->picture.dim[1],
                                 .width = (int)p->picture.dim[2],
                                 .classes = p->classes,
                                 .named = p->s->class_names ? p->s->classes : 0,
                                 .class_names = (const char *const *)p->s->class_names};
}

// ---- running ----------------------------------------------------------------------------------

static rung_status check_images(const rung_predictor *p, const rung_image *images, int count)
{
    const int64_t *want = p->picture.dim;
    RUNG_CHECK(count >= 1, RUNG_INVALID, "no picture to predict");
    for (int i = 0; i < count; i++)
        RUNG_CHECK(
            images[i].channels == want[0] &&
                (want[1] == 0 || (images[i].height == want[1] && images[i].width == want[2])),
            RUNG_MISMATCH,
            "the picture is %d x %d with %d channels, the network was trained on %" PRId64
            " x %" PRId64 " with %" PRId64 ": resize it first",
            images[i].width, images[i].height, images[i].channels, want[2], want[1], want[0]);
    return RUNG_OK;
}

// Planes one after the other, as data sets have them.
static uint8_t *planes_of(const rung_predictor *p, const rung_image *images, int count)
{
    size_t channels = (size_t)p->picture.dim[0];
    size_t pixels = (size_t)(p->picture.dim[1] * p->picture.dim[2]);
    uint8_t *planes = malloc((size_t)count * channels * pixels);
    for (size_t i = 0; planes && i < (size_t)count; i++)
        for (size_t c = 0; c < channels; c++)
            for (size_t k = 0; k < pixels; k++)
                planes[(i * channels + c) * pixels + k] = images[i].pixels[k * channels + c];
    return planes;
}

// Pictures of any size, as files in memory (PGM, PPM): they go the way of training's.
typedef struct file_source {
    rung_source source; // first
    const rung_image *images;
    rungi_block file;
} file_source;

static rung_status read_file(void *self, void *state, const rung_sample *sample, rung_view *fields)
{
    (void)state;
    file_source *files = self;
    const rung_image *image = &files->images[sample->index];
    char header[64];
    int begin = snprintf(header, sizeof header, "P%d %d %d 255\n", image->channels == 3 ? 6 : 5,
                         image->width, image->height);
    size_t bytes = (size_t)image->width * (size_t)image->height * (size_t)image->channels;
    RUNG_CHECK(rungi_block_reserve(&files->file, (size_t)begin + bytes + RUNGI_PIXELS_SLACK),
               RUNG_NO_MEMORY, "no memory for a picture of %d x %d", image->width, image->height);
    memcpy(files->file.data, header, (size_t)begin);
    memcpy(files->file.data + begin, image->pixels, bytes);
    fields[0].data = files->file.data;
    fields[0].shape.dim[0] = begin + (int64_t)bytes;
    return RUNG_OK;
}

static void destroy_files(rung_source *source)
{
    file_source *files = (file_source *)source;
    free(files->file.data);
    free(files);
}

static rung_status make_files(const rung_image *images, int count, rung_source **source_out)
{
    file_source *files = calloc(1, sizeof *files);
    RUNG_CHECK(files, RUNG_NO_MEMORY, "no memory for the pictures");
    files->images = images;
    files->source =
        (rung_source){.name = "pictures",
                      .count = count,
                      .field_count = 1,
                      .fields = {{"image", RUNG_U8, {.rank = 1, .dim = {0}}, RUNG_PIXELS_FILE}},
                      .self = files,
                      .read = read_file,
                      .destroy = destroy_files};
    *source_out = &files->source;
    return RUNG_OK;
}

static rung_status make_planes(rung_predictor *p, const rung_image *images, int count,
                               uint8_t **planes_out, rung_source **source_out)
{
    const int64_t *d = p->picture.dim;
    *planes_out = planes_of(p, images, count);
    RUNG_CHECK(*planes_out, RUNG_NO_MEMORY, "no memory for the pictures");
    rung_array_field field = {.name = "image",
                              .all = {RUNG_U8, RUNG_SHAPE(count, d[0], d[1], d[2]), *planes_out},
                              .pixels = RUNG_PIXELS_CHW};
    return rung_source_arrays(p->context, &field, 1, 0, false, source_out);
}

static void softmax(const float *logits, int64_t classes, float *out)
{
    double largest = logits[0], sum = 0;
    for (int64_t k = 1; k < classes; k++)
        largest = logits[k] > largest ? logits[k] : largest;
    for (int64_t k = 0; k < classes; k++)
        sum += exp(logits[k] - largest);
    for (int64_t k = 0; k < classes; k++)
        out[k] = (float)(exp(logits[k] - largest) / sum);
}

static rung_status run_batch(rung_predictor *p, const rung_batch *batch, float *out)
{
    rung_view logits;
    rungi_feed feed = {"image", batch->fields[0].data};
    rungi_batch_view view = {.count = batch->count, .feeds = &feed, .n_feeds = 1};
    RUNG_TRY(rungi_engine_eval(p->s->engine, &view, NULL));
    RUNG_TRY(rungi_engine_output(p->s->engine, "logits", &logits));
    for (int64_t i = 0; i < batch->count; i++)
        softmax((const float *)logits.data + i * p->classes, p->classes, out + i * p->classes);
    return RUNG_OK;
}

rung_status rung_predictor_run(rung_predictor *p, const rung_image *images, int count,
                               float *probabilities_out)
{
    rung_source *source = NULL;
    rung_loader *loader = NULL;
    rung_batch batch = {0};
    rung_status status;
    rung_transform transforms[RUNGI_SESSION_TRANSFORMS] = {0};
    uint8_t *planes = NULL;
    RUNG_TRY(check_images(p, images, count));
    RUNG_TRY_GOTO(done, p->picture.dim[1] ? make_planes(p, images, count, &planes, &source)
                                          : make_files(images, count, &source));
    rung_loader_options o = {.batch_size = count, .transforms = transforms};
    RUNG_TRY_GOTO(done, rungi_session_transforms(p->s, false, &source->fields[0], transforms,
                                                 &o.transform_count));
    RUNG_TRY_GOTO(done, rung_loader_create(p->context, source, &o, &loader));
    RUNG_TRY_GOTO(done, rung_loader_next(loader, &batch));
    status = run_batch(p, &batch, probabilities_out);
    rung_loader_release(loader, &batch);
done:
    rung_loader_destroy(&loader);
    rung_source_destroy(&source);
    free(planes);
    return status;
}
