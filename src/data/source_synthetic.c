// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/context.h"
#include "base/error.h"
#include "base/philox.h"
#include "data/source.h"

typedef struct synthetic {
    rung_source source;
    rung_context *context;
    rung_synthetic_options options;
    size_t elements;     // of an image
    uint8_t *prototypes; // [classes, elements]
} synthetic;

// Numbers of prototypes are keyed by -1 - class, those of samples by the sample.
static rungi_random key(const synthetic *s, int64_t what)
{
    return rungi_random_make(s->options.seed, RUNGI_PURPOSE_SYNTHETIC, (uint64_t)what, 0, 0);
}

// Slow storage: in slices, so that a loader that stops need not wait for all of it.
static rung_status delay(const synthetic *s, const rung_sample *sample)
{
    int64_t left = (int64_t)llround(s->options.delay * 1e9), slice = 10 * 1000 * 1000;
    for (; left > 0; left -= slice) {
        if (rung_sample_cancelled(sample))
            return RUNG_FAIL(RUNG_CANCELLED, "reading was cancelled");
        rungi_sleep(s->context, left < slice ? left : slice);
    }
    return RUNG_OK;
}

static rung_status read_sample(void *self, void *state, const rung_sample *sample,
                               rung_view *fields)
{
    (void)state;
    const synthetic *s = self;
    int64_t label = sample->index % s->options.classes;
    const uint8_t *prototype = s->prototypes + (size_t)label * s->elements;
    rungi_random random = key(s, sample->index);
    if (s->options.delay > 0)
        RUNG_TRY(delay(s, sample));
    for (size_t i = 0; i < s->elements; i += 16) {
        rungi_philox4 block = rungi_random_block(&random, i / 16);
        for (size_t j = i; j < i + 16 && j < s->elements; j++) {
            unsigned noise = block.v[j % 16 / 4] >> (j % 4 * 8) & 0xff;
            unsigned mean = (prototype[j] + noise) / 2;
            if (s->options.dtype == RUNG_U8)
                ((uint8_t *)fields[0].data)[j] = (uint8_t)mean;
            else
                ((float *)fields[0].data)[j] = (float)mean / 255.0f;
        }
    }
    *(int64_t *)fields[1].data = label;
    return RUNG_OK;
}

// Images get prototypes of 8 x 8 blocks, which stay recognisable when they are shifted a little;
// other shapes a number of its own for each element.
static void draw_prototype(const synthetic *s, int64_t label)
{
    const rung_shape *shape = &s->options.shape;
    uint8_t *out = s->prototypes + (size_t)label * s->elements;
    rungi_random random = key(s, -1 - label);
    for (size_t i = 0; i < s->elements; i++) {
        uint64_t cell = i;
        if (shape->rank == 3) {
            size_t height = (size_t)shape->dim[1], width = (size_t)shape->dim[2];
            size_t y = i / width % height, x = i % width;
            cell = i / (height * width) * 64 + y * 8 / height * 8 + x * 8 / width;
        }
        out[i] = (uint8_t)rungi_random_block(&random, cell).v[0];
    }
}

static void destroy(rung_source *source)
{
    synthetic *s = (synthetic *)source;
    free(s->prototypes);
    free(s);
}

static rung_status check(const rung_synthetic_options *options)
{
    char text[RUNG_SHAPE_TEXT];
    int64_t elements;
    RUNG_CHECK(options->count > 0, RUNG_DATA, "synthetic: %" PRId64 " samples asked for",
               options->count);
    RUNG_CHECK(options->classes > 0, RUNG_INVALID, "synthetic: %d classes asked for",
               options->classes);
    RUNG_CHECK(options->dtype == RUNG_U8 || options->dtype == RUNG_F32, RUNG_UNSUPPORTED,
               "synthetic: makes u8 or f32, not %s", rung_dtype_name(options->dtype));
    RUNG_CHECK(options->delay >= 0 && options->delay < 1e6, RUNG_INVALID,
               "synthetic: a delay of %g s asked for", options->delay);
    RUNG_TRY(rung_shape_count(&options->shape, &elements));
    RUNG_CHECK(elements > 0, RUNG_MISMATCH, "synthetic: samples of shape %s have no elements",
               rung_shape_text(&options->shape, text, sizeof text));
    return RUNG_OK;
}

rung_status rung_source_synthetic(rung_context *context, const rung_synthetic_options *options,
                                  rung_source **source_out)
{
    RUNG_TRY(check(options));
    int64_t elements;
    size_t bytes;
    RUNG_TRY(rung_shape_count(&options->shape, &elements));
    RUNG_CHECK(rungi_size_mul((size_t)elements, (size_t)options->classes, &bytes), RUNG_INVALID,
               "synthetic: its prototypes are larger than memory can be");
    synthetic *s = calloc(1, sizeof *s);
    uint8_t *prototypes = malloc(bytes);
    if (!s || !prototypes) {
        free(s);
        free(prototypes);
        return RUNG_FAIL(RUNG_NO_MEMORY, "synthetic: no memory for %zu bytes of prototypes", bytes);
    }
    bool image = options->shape.rank == 3;
    *s = (synthetic){.context = context,
                     .options = *options,
                     .elements = (size_t)elements,
                     .prototypes = prototypes};
    s->source = (rung_source){
        .name = "synthetic",
        .count = options->count,
        .field_count = 2,
        .fields = {{"image", options->dtype, options->shape,
                    image ? RUNG_PIXELS_CHW : RUNG_PIXELS_NONE},
                   {"label", RUNG_I64, RUNG_SCALAR, RUNG_PIXELS_NONE}},
        .class_count = options->classes,
        .self = s,
        .read = read_sample,
        .destroy = destroy,
    };
    for (int64_t label = 0; label < options->classes; label++)
        draw_prototype(s, label);
    *source_out = &s->source;
    return RUNG_OK;
}
