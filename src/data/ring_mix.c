// SPDX-License-Identifier: Apache-2.0
// MixUp and CutMix in the loader: one more field of a batch, filled when its samples are there.
#include <stdlib.h>

#include "base/error.h"
#include "data/mix.h"
#include "data/reader.h"
#include "data/ring.h"
#include "data/sample.h"

rung_status rungi_ring_add_mix(rungi_ring *ring)
{
    rung_loader_info *info = &ring->info;
    ring->mix = *ring->options.mix;
    ring->options.mix = &ring->mix;
    ring->label_field = rungi_source_label_field(ring->source);
    const rung_field *image = &info->fields[0];
    int label = ring->label_field;
    RUNG_CHECK(ring->mix.classes >= 1 && ring->mix.mixup_alpha >= 0 && ring->mix.cutmix_alpha >= 0,
               RUNG_INVALID, "mix: alphas of %g and %g for %d classes", ring->mix.mixup_alpha,
               ring->mix.cutmix_alpha, ring->mix.classes);
    RUNG_CHECK(info->field_count < RUNG_MAX_FIELDS, RUNG_INVALID,
               "mix: %s has no field left for targets", ring->source->name);
    RUNG_CHECK(
        image->dtype == RUNG_F32 && image->shape.rank == 3 && image->pixels == RUNG_PIXELS_CHW,
        RUNG_MISMATCH, "mix: field %s is no image of floats after its transforms", image->name);
    RUNG_CHECK(label >= 0 && info->fields[label].dtype == RUNG_I64 &&
                   info->fields[label].shape.rank == 0,
               RUNG_MISMATCH, "mix: %s has no field 'label' of one i64", ring->source->name);
    int at = info->field_count++;
    info->fields[at] =
        (rung_field){"target", RUNG_F32, RUNG_SHAPE(ring->mix.classes), RUNG_PIXELS_NONE};
    ring->field_bytes[at] = (size_t)ring->mix.classes * sizeof(float);
    return RUNG_OK;
}

rung_status rungi_ring_mix(const rungi_ring *ring, rung_batch *batch)
{
    const int64_t *shape = ring->info.fields[0].shape.dim;
    rung_random random = rungi_batch_random(ring->options.seed, batch->epoch, batch->position);
    rungi_mix_draw draw = rungi_mix_choose(&ring->mix, &random, (int)shape[1], (int)shape[2]);
    float *spare = malloc(ring->field_bytes[0]);
    RUNG_CHECK(spare, RUNG_NO_MEMORY, "no memory to mix a batch");
    rung_status status = rungi_mix_apply(&draw, batch->fields[0].data, batch->count, shape,
                                         batch->fields[ring->label_field].data, ring->mix.classes,
                                         batch->fields[batch->field_count - 1].data, spare);
    free(spare);
    return status;
}
