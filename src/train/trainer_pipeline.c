// SPDX-License-Identifier: Apache-2.0
// What a trainer tells of a pipeline, and what it checks before a checkpoint of all stages.
#include <inttypes.h>
#include <math.h>

#include "base/error.h"
#include "base/json.h"
#include "train/session_stages.h"
#include "train/trainer.h"

static json_t *stage_json(const rungi_session *s, const rungi_pipeline_times *p, int stage)
{
    const rungi_session_stages *g = s->stages;
    const rungi_stage_info *i = &g->info[stage];
    json_t *o = json_object();
    json_object_set_new(o, "rank", json_integer(stage));
    json_object_set_new(o, "first", rungi_json_string(g->whole->nodes.data[i->begin].name));
    json_object_set_new(o, "last", rungi_json_string(g->whole->nodes.data[i->end - 1].name));
    json_object_set_new(o, "parameters", json_integer(i->params));
    json_object_set_new(o, "in_flight", json_integer(i->in_flight));
    json_object_set_new(o, "compute_ms", rungi_json_real(p->busy[stage] * 1e3 / (double)p->steps));
    json_object_set_new(o, "busy_share",
                        rungi_json_real(p->wall > 0 ? p->busy[stage] / p->wall : 0));
    return o;
}

void rungi_trainer_pipeline_json(const rung_trainer *t, json_t *o)
{
    const rungi_session *s = t->s;
    const rungi_pipeline_times *p = rungi_engine_pipeline(s->engine);
    json_t *stages = json_array();
    double busy = 0;
    for (int r = 0; r < p->stages; r++) {
        busy += p->busy[r];
        json_array_append_new(stages, stage_json(s, p, r));
    }
    json_object_set_new(o, "steps", json_integer(p->steps));
    json_object_set_new(o, "schedule",
                        json_string(rungi_pipeline_schedule_name(s->c->pipeline.schedule)));
    json_object_set_new(o, "micro_batches", json_integer(p->micro));
    json_object_set_new(o, "step_ms", rungi_json_real(p->wall * 1e3 / (double)p->steps));
    // Of the time of all stages, from the batch's first forward to its last backward.
    json_object_set_new(o, "bubble",
                        rungi_json_real(p->wall > 0 ? 1 - busy / (p->wall * p->stages) : 0));
    json_object_set_new(o, "bubble_of_equal_stages",
                        rungi_json_real(rungi_pipeline_bubble(s->c->pipeline.schedule, p->stages,
                                                              p->most, p->micro)));
    json_object_set_new(o, "ranks", stages);
}

static rung_status check(const rung_trainer *t, const rungi_sources *sources)
{
    for (size_t i = 0; i < sources->list.count; i++) {
        const rungi_safetensors_source *x = &sources->list.data[i];
        const float *data = x->data;
        int64_t count = rungi_shape_size(&x->shape);
        for (int64_t k = 0; x->dtype == RUNG_F32 && k < count; k++)
            RUNG_CHECK(isfinite(data[k]), RUNG_DIVERGED,
                       "step %" PRId64 ": %s is %s at element %" PRId64
                       ": no checkpoint is written, the last good one is kept",
                       t->at.step, x->name, isnan(data[k]) ? "nan" : "infinite", k);
    }
    return RUNG_OK;
}

rung_status rungi_trainer_check_stages(const rung_trainer *t)
{
    rungi_sources sources = {0};
    rung_status status = rungi_session_model(t->s, &sources);
    if (status == RUNG_OK)
        status = rungi_session_optimizer(t->s, &sources);
    if (status == RUNG_OK)
        status = check(t, &sources);
    rungi_sources_fini(&sources);
    return status;
}
