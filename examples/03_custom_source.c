// SPDX-License-Identifier: Apache-2.0
// Data of one's own: a source is a struct of functions, a transform a function. Worker threads call
// both; batches come in the same order with the same values whatever their number is.
#include <rung/rung.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                              \
    do {                                                         \
        if ((call) != RUNG_OK) {                                 \
            fprintf(stderr, "%s\n", rung_error_last()->message); \
            exit(1);                                             \
        }                                                        \
    } while (0)

// Writes sample number sample->index: a stripe of a 16 x 16 picture, and whether it stands upright.
static rung_status read_stripe(void *self, void *state, const rung_sample *sample,
                               rung_view *fields)
{
    (void)self;
    (void)state;
    uint8_t *picture = fields[0].data;
    int upright = sample->index % 2, place = (int)(16 * rung_random_uniform(&sample->random, 0));
    for (int row = 0; row < 16; row++)
        for (int column = 0; column < 16; column++)
            picture[row * 16 + column] = (upright ? column : row) == place ? 255 : 0;
    *(int64_t *)fields[1].data = upright;
    return RUNG_OK; // or: rung_hook_fail(RUNG_DATA, "what is wrong with it")
}

// Adds noise, other noise for each sample and epoch.
static rung_status add_noise(void *user, const rung_sample *sample, const rung_random *random,
                             const rung_view *in, rung_view *out)
{
    (void)sample;
    const float *from = in->data, strength = *(const float *)user;
    for (uint64_t i = 0; i < 16 * 16; i++)
        ((float *)out->data)[i] = from[i] + strength * (float)rung_random_normal(random, i);
    return RUNG_OK;
}

int main(void)
{
    rung_source stripes = {
        .name = "stripes",
        .count = 1000,
        .field_count = 2,
        .fields = {{"image", RUNG_U8, RUNG_SHAPE(1, 16, 16), RUNG_PIXELS_CHW},
                   {"label", RUNG_I64, RUNG_SCALAR, RUNG_PIXELS_NONE}},
        .class_count = 2,
        .read = read_stripe,
    };
    float strength = 0.1f;
    const rung_transform transforms[] = {
        {.kind = RUNG_TRANSFORM_TO_FLOAT},
        {.kind = RUNG_TRANSFORM_CUSTOM, .name = "noise", .apply = add_noise, .user = &strength},
    };
    rung_context *context;
    rung_loader *loader;
    rung_batch batch;
    CHECK(rung_context_create(NULL, &context));
    CHECK(rung_loader_create(context, &stripes,
                             &(rung_loader_options){.batch_size = 100,
                                                    .shuffle = true,
                                                    .num_workers = 2,
                                                    .transforms = transforms,
                                                    .transform_count = 2},
                             &loader));
    for (int i = 0; i < 20; i++) { // two epochs; rung_plan_bind takes batch.fields[0].data
        CHECK(rung_loader_next(loader, &batch));
        int64_t upright = 0;
        for (int64_t k = 0; k < batch.count; k++)
            upright += ((const int64_t *)batch.fields[1].data)[k];
        printf("epoch %d  %d pictures, %d upright\n", (int)batch.epoch + 1, (int)batch.count,
               (int)upright);
        rung_loader_release(loader, &batch);
    }
    rung_loader_destroy(&loader);
    rung_context_destroy(&context);
}
