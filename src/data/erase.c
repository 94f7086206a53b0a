// SPDX-License-Identifier: Apache-2.0
#include "data/erase.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "data/sample.h"

static rung_status check_range(const char *name, const double range[2])
{
    RUNG_CHECK(isfinite(range[0]) && range[0] > 0 && range[1] >= range[0] && range[1] < 1e6,
               RUNG_INVALID, "random_erasing: %s is %g to %g, must rise from above 0", name,
               range[0], range[1]);
    return RUNG_OK;
}

rung_status rungi_erase_init(rungi_erase *erase, const rung_field *in, const rung_transform *step,
                             uint32_t stream)
{
    RUNG_CHECK(in->pixels == RUNG_PIXELS_CHW && (in->dtype == RUNG_U8 || in->dtype == RUNG_F32),
               RUNG_MISMATCH, "random_erasing: field %s is no image of u8 or f32 in planes",
               in->name);
    RUNG_CHECK(step->probability <= 1, RUNG_INVALID,
               "random_erasing: probability is %g, must be at most 1", (double)step->probability);
    *erase = (rungi_erase){.step = *step,
                           .stream = stream,
                           .dtype = in->dtype,
                           .channels = (int)in->shape.dim[0],
                           .height = (int)in->shape.dim[1],
                           .width = (int)in->shape.dim[2]};
    rung_transform *s = &erase->step;
    if (s->scale[0] == 0 && s->scale[1] == 0) {
        s->scale[0] = 0.02;
        s->scale[1] = 0.33;
    }
    if (s->ratio[0] == 0 && s->ratio[1] == 0) {
        s->ratio[0] = 0.3;
        s->ratio[1] = 3.3;
    }
    RUNG_CHECK(in->dtype == RUNG_F32 || (s->value >= 0 && s->value <= 255), RUNG_INVALID,
               "random_erasing: value is %g, must be 0 to 255 for u8", (double)s->value);
    RUNG_TRY(check_range("scale", s->scale));
    return check_range("ratio", s->ratio);
}

static void fill(const rungi_erase *erase, int x, int y, int width, int height, void *image)
{
    for (int c = 0; c < erase->channels; c++)
        for (int row = y; row < y + height; row++) {
            size_t at = ((size_t)c * (size_t)erase->height + (size_t)row) * (size_t)erase->width +
                        (size_t)x;
            if (erase->dtype == RUNG_U8)
                memset((uint8_t *)image + at, (int)erase->step.value, (size_t)width);
            else
                for (int i = 0; i < width; i++)
                    ((float *)image)[at + (size_t)i] = erase->step.value;
        }
}

// torchvision's RandomErasing.make_params.
void rungi_erase_apply(const rungi_erase *erase, const rung_sample *sample, void *image)
{
    enum { TRIES = 10 };
    const rung_transform *s = &erase->step;
    rung_random random = rungi_random_stream(&sample->random, erase->stream);
    double probability = s->probability == 0 ? 0.5 : (double)s->probability;
    double low = log(s->ratio[0]), high = log(s->ratio[1]);
    double area = (double)erase->height * erase->width;
    if (rung_random_uniform(&random, 0) >= probability)
        return;
    for (uint64_t i = 0; i < TRIES; i++) {
        double share = rung_random_uniform(&random, 1 + 2 * i);
        double part = area * (s->scale[0] + (s->scale[1] - s->scale[0]) * share);
        double ratio = exp(low + (high - low) * rung_random_uniform(&random, 2 + 2 * i));
        double height = nearbyint(sqrt(part * ratio)), width = nearbyint(sqrt(part / ratio));
        if (height >= erase->height || width >= erase->width)
            continue;
        uint64_t next = 1 + 2 * TRIES;
        int y = (int)rung_random_below(&random, erase->height - (int)height + 1, &next);
        int x = (int)rung_random_below(&random, erase->width - (int)width + 1, &next);
        fill(erase, x, y, (int)width, (int)height, image);
        return;
    }
}
