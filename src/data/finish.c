// SPDX-License-Identifier: Apache-2.0
#include "data/finish.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/team.h"
#include "data/picture.h"
#include "data/sample.h"
#include "data/source.h"

struct rungi_finish {
    rungi_chain *chain;
    rungi_chain_worker **workers;
    rungi_team *team;
    uint64_t seed;
    size_t in_bytes, out_bytes;
    // of the call under way
    int64_t epoch, count;
    const rung_draw *draws;
    const char *in;
    char *out;
};

static bool makes_size(const rung_transform *step)
{
    return step->kind == RUNG_TRANSFORM_CENTER_CROP || step->kind == RUNG_TRANSFORM_RANDOM_CROP ||
           step->kind == RUNG_TRANSFORM_RANDOM_RESIZED_CROP ||
           (step->kind == RUNG_TRANSFORM_RESIZE && step->width);
}

int rungi_finish_begin(const rung_field *field, const rung_transform *steps, int count)
{
    int begin = 0;
    bool sized = field->pixels != RUNG_PIXELS_FILE;
    for (int i = 0; i < count; i++)
        if (steps[i].field == 0 && rungi_picture_only(&steps[i]))
            begin = i + 1;
    for (int i = 0; i < begin; i++)
        sized |= steps[i].field == 0 && makes_size(&steps[i]);
    // Pictures must have one size when they leave the worker.
    for (; begin < count && !sized; begin++)
        sized = steps[begin].field == 0 && makes_size(&steps[begin]);
    return begin;
}

rung_status rungi_finish_create(rung_context *context, const rung_field *source,
                                const rung_field *field, const rung_transform *steps, int count,
                                uint64_t seed, int threads, rungi_finish **finish_out)
{
    rungi_finish *f = calloc(1, sizeof *f);
    RUNG_CHECK(f, RUNG_NO_MEMORY, "no memory for transforms");
    f->seed = seed;
    int begin = rungi_finish_begin(source, steps, count);
    rung_status status = rungi_chain_create_part(field, 0, steps, begin, count, true, &f->chain);
    if (status == RUNG_OK && !f->chain)
        status = RUNG_FAIL(RUNG_INVALID, "no transform is left for the device");
    if (status == RUNG_OK) {
        f->in_bytes = rungi_field_bytes(field);
        f->out_bytes = rungi_field_bytes(rungi_chain_output(f->chain));
        status = rungi_team_create(threads, &f->team);
    }
    f->workers = calloc((size_t)threads, sizeof(rungi_chain_worker *));
    if (status == RUNG_OK && !f->workers)
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for transforms");
    for (int i = 0; i < threads && status == RUNG_OK; i++)
        status = rungi_chain_worker_create(f->chain, rung_context_isa(context), &f->workers[i]);
    if (status != RUNG_OK) {
        rungi_finish_destroy(&f);
        return status;
    }
    *finish_out = f;
    return RUNG_OK;
}

void rungi_finish_destroy(rungi_finish **finish)
{
    if (!*finish)
        return;
    rungi_finish *f = *finish;
    for (int i = 0; f->workers && f->team && i < rungi_team_size(f->team); i++)
        rungi_chain_worker_destroy(&f->workers[i]);
    free(f->workers);
    rungi_team_destroy(&f->team);
    rungi_chain_destroy(&f->chain);
    free(f);
    *finish = NULL;
}

const rung_field *rungi_finish_output(const rungi_finish *finish)
{
    return rungi_chain_output(finish->chain);
}

static rung_status finish_some(void *finish, int member)
{
    rungi_finish *f = finish;
    int64_t size = rungi_team_size(f->team);
    for (int64_t i = f->count * member / size; i < f->count * (member + 1) / size; i++) {
        const rung_draw *draw = &f->draws[i];
        const rung_field *field = rungi_chain_input(f->chain);
        rung_sample sample = {
            .index = draw->sample,
            .epoch = f->epoch,
            .occurrence = draw->occurrence,
            .worker = -1,
            .random = rungi_sample_random(f->seed, f->epoch, draw->sample, draw->occurrence)};
        rung_view in = {field->dtype, field->shape,
                        (void *)(uintptr_t)(f->in + (size_t)i * f->in_bytes)};
        RUNG_TRY(rungi_chain_apply(f->chain, &sample, &in, f->workers[member],
                                   f->out + (size_t)i * f->out_bytes));
    }
    return RUNG_OK;
}

rung_status rungi_finish_run(rungi_finish *f, int64_t epoch, const rung_draw *draws, int64_t count,
                             const void *in, void *out)
{
    f->epoch = epoch;
    f->draws = draws;
    f->count = count;
    f->in = in;
    f->out = out;
    return rungi_team_run(f->team, finish_some, f);
}
