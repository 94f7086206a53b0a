// SPDX-License-Identifier: Apache-2.0
#include "data/transform.h"

#include <stdlib.h>

#include "base/error.h"
#include "data/fused.h"
#include "data/sample.h"
#include "data/source.h"

// One pass over a sample: a run of built-in steps, or one custom step.
typedef struct stage {
    rungi_fused *fused;  // NULL: custom
    rung_transform step; // custom
    uint32_t stream;
    rung_field in, out;
} stage;

struct rungi_chain {
    int stage_count;
    stage *stages;
    rung_field output;
    size_t between; // bytes of the largest sample between two stages
    size_t maps;    // bytes of the fused passes' scratch
};

static rung_status add_custom(rungi_chain *chain, const rung_field *in, const rung_transform *step,
                              uint32_t stream)
{
    const char *name = rungi_transform_name(step);
    stage *s = &chain->stages[chain->stage_count];
    *s = (stage){.step = *step, .stream = stream, .in = *in, .out = *in};
    RUNG_CHECK(step->apply, RUNG_INVALID, "transform %s: has no apply function", name);
    if (step->output) {
        int64_t count = 0;
        RUNG_CHECK(step->output->shape.rank >= 0 && step->output->shape.rank < RUNG_MAX_RANK,
                   RUNG_MISMATCH, "transform %s: its output has rank %d", name,
                   step->output->shape.rank);
        RUNG_TRY(rung_shape_count(&step->output->shape, &count));
        RUNG_CHECK(count > 0 && count <= INT64_MAX / 16 && rung_dtype_size(step->output->dtype),
                   RUNG_MISMATCH, "transform %s: its output has no usable size", name);
        s->out = *step->output;
        s->out.name = in->name;
    }
    chain->stage_count++;
    return RUNG_OK;
}

// A crop that mirrors what an earlier step filled would bring fill into the middle of a row, where
// the fused pass does not look for it: it begins a pass of its own.
static bool must_split(const rungi_fused *open, const rung_transform *step)
{
    return open && open->move_count > 0 && step->kind == RUNG_TRANSFORM_RANDOM_CROP &&
           step->padding_mode == RUNG_CROP_PADDING_REFLECT;
}

// Adds a built-in step to the run of built-in steps that is open, or opens one.
static rung_status add_builtin(rungi_chain *chain, const rung_field *in, const rung_transform *step,
                               uint32_t stream, rungi_fused **open)
{
    if (!*open) {
        stage *s = &chain->stages[chain->stage_count];
        *s = (stage){.fused = calloc(1, sizeof *s->fused), .in = *in};
        RUNG_CHECK(s->fused, RUNG_NO_MEMORY, "no memory for transforms");
        chain->stage_count++;
        RUNG_TRY(rungi_fused_begin(s->fused, in));
        *open = s->fused;
    }
    return rungi_fused_add(*open, step, stream);
}

static void finish(rungi_chain *chain, rungi_fused **open, rung_field *current)
{
    if (*open) {
        stage *s = &chain->stages[chain->stage_count - 1];
        rungi_fused_finish(*open);
        size_t maps = rungi_fused_scratch(*open);
        chain->maps = maps > chain->maps ? maps : chain->maps;
        s->out = (*open)->out;
        *open = NULL;
    }
    if (chain->stage_count)
        *current = chain->stages[chain->stage_count - 1].out;
}

static rung_status compile(rungi_chain *chain, const rung_field *field, int field_index,
                           const rung_transform *steps, int step_count)
{
    rung_field current = *field;
    rungi_fused *open = NULL;
    for (int i = 0; i < step_count; i++) {
        if (steps[i].field != field_index)
            continue;
        uint32_t earlier = 0;
        for (int j = 0; j < i; j++)
            earlier += steps[j].kind == steps[i].kind;
        uint32_t stream = (uint32_t)steps[i].kind << 16 | earlier;
        if (steps[i].kind == RUNG_TRANSFORM_CUSTOM) {
            finish(chain, &open, &current);
            RUNG_TRY(add_custom(chain, &current, &steps[i], stream));
            finish(chain, &open, &current);
        } else {
            if (must_split(open, &steps[i]))
                finish(chain, &open, &current);
            RUNG_TRY(add_builtin(chain, &current, &steps[i], stream, &open));
        }
    }
    finish(chain, &open, &current);
    chain->output = current;
    for (int i = 0; i + 1 < chain->stage_count; i++) {
        size_t bytes = rungi_field_bytes(&chain->stages[i].out);
        chain->between = bytes > chain->between ? bytes : chain->between;
    }
    return RUNG_OK;
}

rung_status rungi_chain_create(const rung_field *field, int field_index,
                               const rung_transform *steps, int step_count, rungi_chain **chain_out)
{
    int count = 0;
    for (int i = 0; i < step_count; i++)
        count += steps[i].field == field_index;
    if (count == 0) {
        *chain_out = NULL;
        return RUNG_OK;
    }
    rungi_chain *chain = calloc(1, sizeof *chain);
    RUNG_CHECK(chain, RUNG_NO_MEMORY, "no memory for transforms");
    chain->stages = calloc((size_t)count, sizeof *chain->stages);
    rung_status status = chain->stages ? compile(chain, field, field_index, steps, step_count)
                                       : RUNG_FAIL(RUNG_NO_MEMORY, "no memory for transforms");
    if (status != RUNG_OK) {
        rungi_chain_destroy(&chain);
        return status;
    }
    *chain_out = chain;
    return RUNG_OK;
}

void rungi_chain_destroy(rungi_chain **chain)
{
    if (!*chain)
        return;
    for (int i = 0; i < (*chain)->stage_count; i++)
        free((*chain)->stages[i].fused);
    free((*chain)->stages);
    free(*chain);
    *chain = NULL;
}

const rung_field *rungi_chain_output(const rungi_chain *chain)
{
    return &chain->output;
}

size_t rungi_chain_scratch(const rungi_chain *chain)
{
    return 2 * rungi_round64(chain->between) + rungi_round64(chain->maps);
}

static rung_status run_custom(const stage *s, const rung_sample *sample, const void *in, void *out)
{
    rung_random random = rungi_random_stream(&sample->random, s->stream);
    rung_view from = {s->in.dtype, s->in.shape, (void *)(uintptr_t)in};
    rung_view to = {s->out.dtype, s->out.shape, out};
    rung_status status = s->step.apply(s->step.user, sample, &random, &from, &to);
    return status == RUNG_OK ? RUNG_OK
                             : rungi_fail_prefix("transform %s", rungi_transform_name(&s->step));
}

rung_status rungi_chain_apply(const rungi_chain *chain, const rung_sample *sample, const void *in,
                              void *scratch, void *out)
{
    char *buffers[2] = {scratch, (char *)scratch + rungi_round64(chain->between)};
    void *maps = (char *)scratch + 2 * rungi_round64(chain->between);
    for (int i = 0; i < chain->stage_count; i++) {
        const stage *s = &chain->stages[i];
        void *to = i + 1 == chain->stage_count ? out : buffers[i % 2];
        if (s->fused)
            rungi_fused_apply(s->fused, sample, in, maps, to);
        else
            RUNG_TRY(run_custom(s, sample, in, to));
        in = to;
    }
    return RUNG_OK;
}
