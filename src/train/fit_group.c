// SPDX-License-Identifier: Apache-2.0
#include "train/fit_group.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "train/session_stages.h"

// ---- life -------------------------------------------------------------------------------------

rung_status rungi_fit_group_create(rung_context *context, const rung_config *config,
                                   rungi_fit_group *g)
{
    *g = (rungi_fit_group){.ranks = (int)rungi_config_values(config)->train.ranks};
    rung_status status = rungi_session_crew_create(context, config, RUNGI_SESSION_ALL, &g->crew);
    g->sessions = g->crew.of;
    return status;
}

void rungi_fit_group_fini(rungi_fit_group *g)
{
    for (int i = 0; i < RUNG_FIT_PRECISIONS; i++) {
        for (int r = 0; g->times[i] && r < g->ranks; r++)
            rungi_array_fini(&g->times[i][r].list);
        free(g->times[i]);
    }
    rungi_session_crew_fini(&g->crew);
    *g = (rungi_fit_group){0};
}

int rungi_fit_group_devices(const rungi_fit_group *g)
{
    int sum = 0;
    for (int r = 0; r < g->ranks; r++)
        sum += rungi_engine_devices(g->sessions[r]->engine);
    return sum;
}

int64_t rungi_fit_parts(const rungi_session *s)
{
    if (s->stages)
        return s->stages->total;
    return (int64_t)rungi_session_shards(s) * rungi_engine_rounds(s->engine);
}

// ---- times ------------------------------------------------------------------------------------

// Operators of stages differ, those of replicas do not.
static int measured_ranks(const rungi_fit_group *g)
{
    return g->sessions[0]->stages ? g->ranks : 1;
}

static rung_status measure_at(rungi_session *s, int64_t batch, const rungi_fit_what *what,
                              rungi_fit_times *times)
{
    rungi_fit_prediction p;
    rung_plan *plan;
    RUNG_TRY(rungi_fit_predict(s, 0, batch, what, &p, &plan));
    rung_status status = plan ? rungi_fit_measure(s, plan, times) : RUNG_OK;
    rung_plan_destroy(&plan);
    return status;
}

rung_status rungi_fit_group_measure(rungi_fit_group *g, int64_t batch, const rungi_fit_what *what,
                                    int precision)
{
    rungi_fit_times *times = calloc((size_t)g->ranks, sizeof *times);
    RUNG_CHECK(times, RUNG_NO_MEMORY, "no memory for a fit");
    g->times[precision] = times;
    for (int r = 0; r < measured_ranks(g); r++) {
        rungi_session *s = g->sessions[r];
        rung_loader_info info = {.last_batch = rungi_session_batch(s)};
        if (s->train_loader)
            rung_loader_describe(s->train_loader, &info);
        RUNG_TRY(measure_at(s, batch, what, &times[r]));
        RUNG_TRY(measure_at(s, rungi_session_batch(s), what, &times[r]));
        rung_status status = measure_at(s, info.last_batch, what, &times[r]);
        if (status != RUNG_OK && status != RUNG_INVALID) // of batches that training refuses
            return status;
    }
    return RUNG_OK;
}

// What is added up while devices are looked at.
typedef struct tally {
    double forward[RUNGI_PIPELINE_STAGES], backward[RUNGI_PIPELINE_STAGES]; // of stages
    double slowest;                                                         // of replicas
    double optimizer;
} tally;

static void add_time(const rungi_fit_group *g, int r, int device, const rungi_fit_what *what,
                     const rungi_fit_times *times, const rung_plan *plan, tally *k)
{
    const rungi_session *s = g->sessions[r];
    const rungi_fit_times *own = &times[r < measured_ranks(g) ? r : 0];
    double forward = 0, backward = 0;
    if (plan)
        rungi_fit_seconds(own, plan, &forward, &backward);
    k->optimizer = fmax(k->optimizer, own->optimizer);
    if (s->stages && r < RUNGI_PIPELINE_STAGES) {
        k->forward[r] = forward;
        k->backward[r] = backward;
    } else {
        double turns = rungi_engine_turns(s->engine, device) * what->rounds;
        k->slowest = fmax(k->slowest, (forward + backward) * turns);
    }
}

static double total_time(const rungi_fit_group *g, const rungi_fit_what *what, const tally *k)
{
    const rungi_session_stages *stages = g->sessions[0]->stages;
    if (!stages)
        return k->slowest + k->optimizer;
    int micro = stages->micro * what->rounds;
    micro = micro < RUNGI_PIPELINE_MICRO ? micro : RUNGI_PIPELINE_MICRO;
    double more = (double)(stages->micro * what->rounds) / micro; // of those that are looked at
    return more * rungi_pipeline_makespan(g->sessions[0]->c->pipeline.schedule, stages->count,
                                          stages->micro, micro, k->forward, k->backward) +
           k->optimizer;
}

// ---- bytes ------------------------------------------------------------------------------------

rung_status rungi_fit_group_predict(const rungi_fit_group *g, int64_t batch,
                                    const rungi_fit_what *what, const rungi_fit_times *times,
                                    rung_fit_bytes *bytes, rung_fit_row *row)
{
    tally k = {.optimizer = 0};
    int at = 0;
    row->peak = row->loader = 0;
    row->left_out = 0;
    row->extra = 0;
    for (int r = 0; r < g->ranks; r++)
        for (int d = 0; d < rungi_engine_devices(g->sessions[r]->engine); d++, at++) {
            rungi_fit_prediction p;
            rung_plan *plan;
            RUNG_TRY(rungi_fit_predict(g->sessions[r], d, batch, what, &p, &plan));
            if (times)
                add_time(g, r, d, what, times, plan, &k);
            rung_plan_destroy(&plan);
            row->loader += p.bytes.loader;
            row->left_out = p.left_out ? p.left_out : row->left_out;
            row->extra = fmax(row->extra, p.extra);
            if (bytes)
                bytes[at] = p.bytes;
            if (p.bytes.total <= row->peak)
                continue;
            row->peak = p.bytes.total;
            row->most = p.bytes;
            row->device = at;
        }
    row->seconds = times ? total_time(g, what, &k) : NAN;
    return RUNG_OK;
}
