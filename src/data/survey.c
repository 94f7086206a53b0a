// SPDX-License-Identifier: Apache-2.0
#include "data/survey.h"

#include <inttypes.h>

#include "base/error.h"

static void count_picture(rungi_survey *survey, const rungi_image_info *info)
{
    survey->colours[info->colour]++;
    survey->deep += info->deep;
    survey->turned += info->orientation > 1;
    survey->bad_orientation += info->bad_orientation;
}

static void look(rung_source *source, void *state, int64_t index, rungi_decoder *decoder,
                 rungi_survey *survey)
{
    rungi_image_info info;
    rung_view views[RUNG_MAX_FIELDS];
    double room[64]; // for a label
    rung_sample sample = {.index = index, .worker = -1, .may_borrow = 1};
    for (int f = 0; f < source->field_count; f++)
        views[f] = (rung_view){source->fields[f].dtype, source->fields[f].shape, room};
    survey->seen++;
    if (source->read(source->self, state, &sample, views) == RUNG_OK &&
        rungi_decoder_begin(decoder, views[0].data, (size_t)views[0].shape.dim[0], "picture", true,
                            &info) == RUNG_OK)
        count_picture(survey, &info);
    else
        survey->unreadable++; // training tells which, and why
}

rung_status rungi_survey_run(rung_source *source, int64_t most, rungi_survey *survey_out)
{
    rungi_survey survey = {0};
    rungi_decoder *decoder = NULL;
    void *state = NULL;
    int64_t count = source->count < most ? source->count : most;
    bool small =
        source->field_count <= 2 && (source->field_count < 2 || source->fields[1].shape.rank == 0);
    RUNG_CHECK(small && source->fields[0].pixels == RUNG_PIXELS_FILE, RUNG_INVALID,
               "%s: no pictures with one label", source->name);
    RUNG_TRY(rungi_decoder_create(&decoder));
    rung_status status = source->open ? source->open(source->self, -1, &state) : RUNG_OK;
    for (int64_t i = 0; i < count && status == RUNG_OK; i++)
        look(source, state, source->count / count * i, decoder, &survey);
    if (status == RUNG_OK && source->open && source->close)
        source->close(source->self, state);
    rungi_decoder_destroy(&decoder);
    if (status == RUNG_OK)
        *survey_out = survey;
    return status;
}

void rungi_survey_text(const rungi_survey *survey, int64_t count, rungi_string *out)
{
    static const char *const names[] = {[RUNGI_COLOUR_RGB] = "RGB",
                                        [RUNGI_COLOUR_GREY] = "grey",
                                        [RUNGI_COLOUR_GREY_ALPHA] = "grey with alpha",
                                        [RUNGI_COLOUR_RGBA] = "RGBA",
                                        [RUNGI_COLOUR_PALETTE] = "palette",
                                        [RUNGI_COLOUR_CMYK] = "CMYK"};
    const char *separator = ": ";
    rungi_string_add(out, "%" PRId64 " of %" PRId64 " looked at", survey->seen, count);
    for (int i = 0; i < RUNGI_COLOUR_COUNT; i++)
        if (survey->colours[i]) {
            rungi_string_add(out, "%s%" PRId64 " %s", separator, survey->colours[i], names[i]);
            separator = ", ";
        }
    const struct {
        int64_t count;
        const char *what;
    } rest[] = {{survey->deep, "of 16 bits"},
                {survey->turned, "turned by the camera's note"},
                {survey->bad_orientation, "with a damaged note"},
                {survey->unreadable, "unreadable"}};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        if (rest[i].count) {
            rungi_string_add(out, "%s%" PRId64 " %s", separator, rest[i].count, rest[i].what);
            separator = ", ";
        }
}
