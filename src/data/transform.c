// SPDX-License-Identifier: Apache-2.0
#include "data/transform.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "data/erase.h"
#include "data/fused.h"
#include "data/picture.h"
#include "data/sample.h"
#include "data/source.h"

// One pass over a sample: a run of built-in steps, or one custom step.
typedef struct stage {
    rungi_picture *picture; // of these four one counts:
    rungi_fused *fused;
    rungi_erase *erase;
    rung_transform step; // custom
    uint32_t stream;
    rung_field in, out;
} stage;

struct rungi_chain {
    int stage_count;
    stage *stages;
    rung_field input, output;
    bool planes;    // pictures come out as such
    size_t between; // bytes of the largest sample between two stages
    size_t maps;    // bytes of the fused passes' scratch
    bool has_picture;
};

struct rungi_chain_worker {
    void *memory;
    rungi_picture_worker picture; // if the chain has one
};

// The stage that takes more steps, if any.
typedef struct open_stage {
    rungi_picture *picture;
    rungi_fused *fused;
} open_stage;

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

static stage *add_stage(rungi_chain *chain, const rung_field *in)
{
    stage *s = &chain->stages[chain->stage_count++];
    *s = (stage){.in = *in};
    return s;
}

static rung_status begin_fused(rungi_chain *chain, const rung_field *in, open_stage *open)
{
    stage *s = add_stage(chain, in);
    s->fused = calloc(1, sizeof *s->fused);
    RUNG_CHECK(s->fused, RUNG_NO_MEMORY, "no memory for transforms");
    RUNG_TRY(rungi_fused_begin(s->fused, in));
    open->fused = s->fused;
    return RUNG_OK;
}

static rung_status begin_picture(rungi_chain *chain, const rung_field *in, open_stage *open)
{
    stage *s = add_stage(chain, in);
    s->picture = calloc(1, sizeof *s->picture);
    RUNG_CHECK(s->picture, RUNG_NO_MEMORY, "no memory for transforms");
    RUNG_TRY(rungi_picture_begin(s->picture, in));
    open->picture = s->picture;
    chain->has_picture = true;
    return RUNG_OK;
}

// Ends the open stage; *current is then what came out so far.
static rung_status finish(rungi_chain *chain, open_stage *open, rung_field *current)
{
    stage *s = chain->stage_count ? &chain->stages[chain->stage_count - 1] : NULL;
    if (open->fused) {
        rungi_fused_finish(open->fused);
        size_t maps = rungi_fused_scratch(open->fused);
        chain->maps = maps > chain->maps ? maps : chain->maps;
        s->out = open->fused->out;
    } else if (open->picture) {
        RUNG_TRY(rungi_picture_finish(open->picture));
        s->out = open->picture->out;
    }
    *open = (open_stage){0};
    if (s)
        *current = s->out;
    return RUNG_OK;
}

// Adds a built-in step to the open stage where that takes it, or opens one.
static rung_status add_builtin(rungi_chain *chain, rung_field *current, const rung_transform *step,
                               uint32_t stream, open_stage *open)
{
    bool picture = rungi_picture_only(step);
    if (open->picture ? !rungi_picture_takes(step)
                      : open->fused && (picture || must_split(open->fused, step)))
        RUNG_TRY(finish(chain, open, current));
    if (!open->picture && !open->fused) {
        if (picture || current->pixels == RUNG_PIXELS_FILE)
            RUNG_TRY(begin_picture(chain, current, open));
        if (open->picture && !rungi_picture_takes(step))
            RUNG_TRY(finish(chain, open, current)); // fails: nothing made the size known
        if (!open->picture)
            RUNG_TRY(begin_fused(chain, current, open));
    }
    return open->picture ? rungi_picture_add(open->picture, step, stream)
                         : rungi_fused_add(open->fused, step, stream);
}

// Pictures come out as planes, whatever the last step was.
static rung_status end_chain(rungi_chain *chain, open_stage *open, rung_field *current)
{
    if (!open->picture && !open->fused && current->pixels == RUNG_PIXELS_FILE)
        RUNG_TRY(begin_picture(chain, current, open));
    bool picture = open->picture;
    RUNG_TRY(finish(chain, open, current));
    if (picture && chain->planes) {
        RUNG_TRY(begin_fused(chain, current, open));
        RUNG_TRY(finish(chain, open, current));
    }
    return RUNG_OK;
}

static rung_status add_erase(rungi_chain *chain, const rung_field *in, const rung_transform *step,
                             uint32_t stream)
{
    stage *s = add_stage(chain, in);
    s->erase = calloc(1, sizeof *s->erase);
    RUNG_CHECK(s->erase, RUNG_NO_MEMORY, "no memory for transforms");
    s->out = *in;
    return rungi_erase_init(s->erase, in, step, stream);
}

static rung_status compile(rungi_chain *chain, const rung_field *field, int field_index,
                           const rung_transform *steps, int begin, int end)
{
    rung_field current = *field;
    open_stage open = {0};
    for (int i = begin; i < end; i++) {
        if (steps[i].field != field_index)
            continue;
        uint32_t earlier = 0;
        for (int j = 0; j < i; j++)
            earlier += steps[j].kind == steps[i].kind;
        uint32_t stream = (uint32_t)steps[i].kind << 16 | earlier;
        if (steps[i].kind == RUNG_TRANSFORM_RANDOM_ERASING) {
            RUNG_TRY(end_chain(chain, &open, &current));
            RUNG_TRY(add_erase(chain, &current, &steps[i], stream));
            continue;
        }
        if (steps[i].kind != RUNG_TRANSFORM_CUSTOM) {
            RUNG_TRY(add_builtin(chain, &current, &steps[i], stream, &open));
            continue;
        }
        RUNG_TRY(end_chain(chain, &open, &current));
        RUNG_TRY(add_custom(chain, &current, &steps[i], stream));
        current = chain->stages[chain->stage_count - 1].out;
    }
    RUNG_TRY(end_chain(chain, &open, &current));
    chain->input = *field;
    chain->output = current;
    for (int i = 0; i + 1 < chain->stage_count; i++) {
        size_t bytes = rungi_field_bytes(&chain->stages[i].out) + RUNGI_PIXELS_SLACK;
        chain->between = bytes > chain->between ? bytes : chain->between;
    }
    return RUNG_OK;
}

rung_status rungi_chain_create(const rung_field *field, int field_index,
                               const rung_transform *steps, int step_count, rungi_chain **chain_out)
{
    return rungi_chain_create_part(field, field_index, steps, 0, step_count, true, chain_out);
}

rung_status rungi_chain_create_part(const rung_field *field, int field_index,
                                    const rung_transform *steps, int begin, int end, bool planes,
                                    rungi_chain **chain_out)
{
    int count = 0;
    for (int i = begin; i < end; i++)
        count += steps[i].field == field_index;
    if (count == 0 && field->pixels != RUNG_PIXELS_FILE) {
        *chain_out = NULL;
        return RUNG_OK;
    }
    rungi_chain *chain = calloc(1, sizeof *chain);
    RUNG_CHECK(chain, RUNG_NO_MEMORY, "no memory for transforms");
    chain->planes = planes;
    // A custom step may end a stage and add one that makes planes; so may the end.
    chain->stages = calloc(3 * (size_t)count + 2, sizeof *chain->stages);
    rung_status status = chain->stages ? compile(chain, field, field_index, steps, begin, end)
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
    for (int i = 0; i < (*chain)->stage_count; i++) {
        free((*chain)->stages[i].picture);
        free((*chain)->stages[i].fused);
        free((*chain)->stages[i].erase);
    }
    free((*chain)->stages);
    free(*chain);
    *chain = NULL;
}

const rung_field *rungi_chain_input(const rungi_chain *chain)
{
    return &chain->input;
}

const rung_field *rungi_chain_output(const rungi_chain *chain)
{
    return &chain->output;
}

rung_status rungi_chain_worker_create(const rungi_chain *chain, rung_isa isa,
                                      rungi_chain_worker **worker_out)
{
    rungi_chain_worker *worker = calloc(1, sizeof *worker);
    RUNG_CHECK(worker, RUNG_NO_MEMORY, "no memory for transforms");
    rung_status status = RUNG_OK;
    size_t bytes = 2 * rungi_round64(chain->between) + rungi_round64(chain->maps);
    worker->memory = bytes ? aligned_alloc(64, bytes) : NULL;
    if (bytes && !worker->memory)
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for transforms");
    if (status == RUNG_OK && chain->has_picture)
        status = rungi_picture_worker_init(&worker->picture, isa);
    if (status != RUNG_OK) {
        rungi_chain_worker_destroy(&worker);
        return status;
    }
    *worker_out = worker;
    return RUNG_OK;
}

void rungi_chain_worker_watch(rungi_chain_worker *worker, const rung_clock *clock)
{
    worker->picture.clock = clock;
}

int64_t rungi_chain_worker_decoding(rungi_chain_worker *worker)
{
    int64_t decoding = worker->picture.decoding;
    worker->picture.decoding = 0;
    return decoding;
}

void rungi_chain_worker_destroy(rungi_chain_worker **worker)
{
    if (!*worker)
        return;
    rungi_picture_worker_fini(&(*worker)->picture);
    free((*worker)->memory);
    free(*worker);
    *worker = NULL;
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

rung_status rungi_chain_apply(const rungi_chain *chain, const rung_sample *sample,
                              const rung_view *in, rungi_chain_worker *worker, void *out)
{
    char *memory = worker->memory;
    char *buffers[2] = {memory, memory + rungi_round64(chain->between)};
    void *maps = memory + 2 * rungi_round64(chain->between);
    rung_view from = *in;
    int last = chain->stage_count - 1; // that makes something new
    while (last > 0 && chain->stages[last].erase)
        last--;
    for (int i = 0; i < chain->stage_count; i++) {
        const stage *s = &chain->stages[i];
        void *to = i >= last ? out : buffers[i % 2];
        if (s->erase) {
            if (i == 0) // the source's own memory stays as it is
                memcpy(to, from.data, rungi_field_bytes(&s->in));
            else
                to = from.data;
            rungi_erase_apply(s->erase, sample, to);
            from.data = to;
            continue;
        }
        if (s->picture)
            RUNG_TRY(rungi_picture_apply(s->picture, &worker->picture, sample, &from, to));
        else if (s->fused)
            rungi_fused_apply(s->fused, sample, from.data, maps, to);
        else
            RUNG_TRY(run_custom(s, sample, from.data, to));
        from = (rung_view){s->out.dtype, s->out.shape, to};
    }
    return RUNG_OK;
}
