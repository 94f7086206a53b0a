// SPDX-License-Identifier: Apache-2.0
// The memory of a stage of a pipeline: see pipeline.c, whose rungi_pipeline_prepare this follows.
#include "base/error.h"
#include "train/engine_memory_inside.h"

typedef struct cuts {
    uint64_t inputs[RUNGI_PIPELINE_MICRO], seeds[RUNGI_STAGE_SEEDS];
} cuts;

static rung_status note_batch(rungi_survey *v, bool training, int64_t count, cuts *c)
{
    const rungi_pipeline *p = v->e->pipeline;
    const rungi_part *part = p->o.part;
    rungi_pipeline_use use = rungi_pipeline_use_of(p, training, count, v->load->rounds);
    int64_t most = rungi_shard_of(count, use.active, 0).count;
    for (int m = 0; m < use.active; m++)
        RUNG_TRY(rungi_survey_note(v, training, false, rungi_shard_of(count, use.active, m).count,
                                   m % use.slots, m % use.slots, 0, 0));
    // Accumulated batches that are not cut: see pipeline_statistics.c.
    if (training && p->o.schedule == RUNGI_PIPELINE_NONE && use.active > 1)
        rungi_need(&v->room, (uint64_t)use.active * v->looks.data[0]->statistics);
    for (int i = 0; i < use.slots; i++)
        rungi_need(&c->inputs[i], rungi_pipeline_crossing_bytes(p, part->in, part->n_in, most,
                                                                v->load->precision, false));
    for (int i = 0; training && i < RUNGI_STAGE_SEEDS && i < use.active; i++)
        rungi_need(&c->seeds[i], rungi_pipeline_crossing_bytes(p, part->out, part->n_out, most,
                                                               v->load->precision, true));
    return RUNG_OK;
}

rung_status rungi_survey_stage(rungi_survey *v)
{
    const rungi_pipeline *p = v->e->pipeline;
    uint64_t flat = (uint64_t)v->e->state->flat_size * sizeof(float);
    cuts c = {0};
    v->bytes->gradients = flat * (p->o.micro * v->load->rounds > 1 ? 2 : 1);
    for (int i = 0; i < RUNGI_LOAD_BATCHES; i++) {
        if (v->load->trained[i])
            RUNG_TRY(note_batch(v, true, v->load->trained[i], &c));
        if (v->load->evaluated[i])
            RUNG_TRY(note_batch(v, false, v->load->evaluated[i], &c));
    }
    v->bytes->statistics += v->room;
    for (int i = 0; i < RUNGI_PIPELINE_MICRO; i++)
        v->bytes->communication += c.inputs[i];
    for (int i = 0; i < RUNGI_STAGE_SEEDS; i++)
        v->bytes->communication += c.seeds[i];
    return RUNG_OK;
}
