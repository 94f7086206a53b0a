// SPDX-License-Identifier: Apache-2.0
// One block of steps, measured in this process: what `rung block` runs for the ladder.
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/error.h"
#include "base/json.h"
#include "ladder/gradient_check.h"
#include "measure/ceilings.h"
#include "measure/resident.h"
#include "rung/ladder.h"
#include "rung/train.h"
#include "train/crew.h"
#include "train/session_stages.h"

typedef struct block {
    rungi_session *s; // of several ranks one of these each; the first one's is told
    const rung_block_options *o;
    int64_t step;
    double losses[4096]; // of all steps, warm-up included
    double step_ms[65536];
    double loss; // of the last one
    int64_t measured, samples;
    int64_t began, ended;
    double round_trip[2];       // seconds, before and after
    uint64_t peak, device_peak; // resident, of all processes; of the fullest device
    rungi_gradient_error gradient;
} block;

static rung_status one_step(block *b)
{
    rungi_session *s = b->s;
    rung_batch batch;
    double loss;
    rungi_timeline_begin(s->timeline, RUNGI_QUEUE_HOST, RUNGI_TIME_WAIT, b->step);
    rung_status status = rungi_session_next(s, b->step, &batch);
    rungi_timeline_end(s->timeline, RUNGI_QUEUE_HOST);
    RUNG_TRY(status);
    status = rungi_session_step(s, &batch, b->step, &loss);
    b->samples += rungi_session_is_async(s) ? 0 : batch.global_count;
    rungi_session_release(s, &batch);
    if (s->stopped) // the others have come to the same end
        return status;
    if (b->step < (int64_t)(sizeof b->losses / sizeof *b->losses))
        b->losses[b->step] = loss;
    b->loss = loss;
    b->step++;
    return status;
}

// Is the step that comes next the last one of the block?
static bool enough(const block *b, int64_t last, int64_t until)
{
    int64_t limit = (int64_t)(sizeof b->step_ms / sizeof *b->step_ms), after = b->measured + 1;
    if (after >= limit)
        return true;
    return b->o->seconds > 0 ? after >= 3 && last >= until : after >= b->o->steps;
}

// All ranks are at rest while one measures the way between cores.
static rung_status round_trip(block *b, double *out)
{
    if (b->s->rank == 0)
        RUNG_TRY(rungi_round_trip_measure(b->s->context, out));
    return b->s->comm ? rungi_comm_barrier(b->s->comm, "round trip") : RUNG_OK;
}

// Of ranks that do not go in step; 0: they do, and each counts those of all.
static int64_t samples_of_all(const block *b)
{
    return rungi_session_is_async(b->s) && b->s->rank == 0 ? rungi_session_samples_of_all(b->s) : 0;
}

static rung_status measure(block *b)
{
    RUNG_TRY(round_trip(b, &b->round_trip[0]));
    for (int64_t i = 0; i < b->o->warmup; i++)
        RUNG_TRY(one_step(b));
    b->samples = -samples_of_all(b);
    b->began = rungi_now(b->s->context);
    int64_t last = b->began, until = b->began + (int64_t)(b->o->seconds * 1e9);
    for (bool stop = b->o->seconds <= 0 && b->o->steps <= 0; !stop;) {
        stop = enough(b, last, until);
        b->s->want_stop = stop && b->s->rank == 0; // which all ranks hear of
        RUNG_TRY(one_step(b));
        if (b->s->comm)
            stop = rungi_session_is_async(b->s) ? b->s->stopped : rungi_engine_stop(b->s->engine);
        int64_t now = rungi_now(b->s->context);
        if (b->s->stopped || b->measured >= (int64_t)(sizeof b->step_ms / sizeof *b->step_ms))
            continue;
        b->step_ms[b->measured++] = (double)(now - last) * 1e-6;
        last = now;
    }
    b->ended = last;
    b->samples += samples_of_all(b);
    RUNG_TRY(rungi_session_meet(b->s, b->step));
    return round_trip(b, &b->round_trip[1]);
}

static void hash_state(const rungi_session *s, XXH3_state_t *state)
{
    XXH3_128bits_update(state, s->state->params, (size_t)s->state->flat_size * sizeof(float));
    XXH3_128bits_update(state, s->state->buffers, (size_t)s->state->buffer_bytes);
    for (int i = 0; i < rung_optimizer_state_count(s->optimizer); i++)
        for (int64_t k = 0; k < s->n_segments; k++)
            XXH3_128bits_update(state, rungi_session_optimizer_state(s, i) + s->segments[k].begin,
                                (size_t)(s->segments[k].end - s->segments[k].begin) *
                                    sizeof(float));
}

// Of all stages, which have been joined.
static void hash_stages(const rungi_session *s, XXH3_state_t *state)
{
    rungi_sources sources = {0};
    rungi_session_model(s, &sources);
    rungi_session_optimizer(s, &sources);
    for (size_t i = 0; i < sources.list.count; i++) {
        const rungi_safetensors_source *x = &sources.list.data[i];
        XXH3_128bits_update(state, x->data,
                            (size_t)rungi_shape_size(&x->shape) * rung_dtype_size(x->dtype));
    }
    rungi_sources_fini(&sources);
}

// Parameters, buffers and optimizer state as one checksum.
static void add_checksum(const rungi_session *s, json_t *out)
{
    char text[33];
    XXH3_state_t *state = XXH3_createState();
    XXH3_128bits_reset(state);
    if (s->stages)
        hash_stages(s, state);
    else
        hash_state(s, state);
    XXH128_hash_t sum = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    snprintf(text, sizeof text, "%016llx%016llx", (unsigned long long)sum.high64,
             (unsigned long long)sum.low64);
    json_object_set_new(out, "state", json_string(text));
}

// Workers' time by stage, since the beginning, for each step.
static json_t *loader_ms(const block *b)
{
    rung_loader_statistics s;
    json_t *o = json_object();
    rung_loader_measure(b->s->train_loader, &s);
    for (int i = 0; i < RUNG_STAGES; i++)
        json_object_set_new(o, rung_loader_stage_name(i),
                            rungi_json_real(s.seconds[i] * 1e3 / (double)(b->step ? b->step : 1)));
    return o;
}

// What all processes together had resident, and the fullest device held. `first`: of this process.
static rung_status measure_memory(block *b, bool first)
{
    const rungi_session *s = b->s;
    double most = 0, resident = first ? (double)rungi_peak_resident() : 0;
    for (int d = 0; d < rungi_train_devices(s->c); d++)
        most = fmax(most, (double)rung_device_memory(s->devices[d]).peak_live);
    if (s->comm) {
        RUNG_TRY(rungi_comm_all_reduce(s->comm, &most, 1, RUNG_F64, RUNGI_COMM_MAX,
                                       "memory of the devices"));
        RUNG_TRY(rungi_comm_all_reduce(s->comm, &resident, 1, RUNG_F64, RUNGI_COMM_SUM,
                                       "memory of the processes"));
    }
    b->device_peak = (uint64_t)most;
    b->peak = (uint64_t)resident;
    return RUNG_OK;
}

static json_t *report(const block *b)
{
    json_t *o = json_object(), *ms = json_object(), *losses = json_array();
    rungi_breakdown parts;
    double seconds = (double)(b->ended - b->began) * 1e-9;
    rungi_timeline_between(b->s->timeline, b->began, b->ended, &parts);
    for (int i = 0; i < RUNG_TIME_PARTS; i++)
        json_object_set_new(
            ms, rung_time_part(i),
            rungi_json_real((double)parts.ns[i] * 1e-6 / (double)(b->measured ? b->measured : 1)));
    json_object_set_new(o, "steps", json_integer(b->measured));
    json_object_set_new(o, "samples", json_integer(b->samples));
    json_object_set_new(o, "seconds", rungi_json_real(seconds));
    json_object_set_new(o, "samples_per_s",
                        rungi_json_real(seconds > 0 ? (double)b->samples / seconds : 0));
    json_object_set_new(o, "step_ms",
                        rungi_json_real(seconds * 1e3 / (double)(b->measured ? b->measured : 1)));
    json_object_set_new(o, "ms", ms);
    json_object_set_new(o, "wait_share",
                        rungi_json_real(b->ended > b->began ? (double)parts.ns[RUNGI_TIME_WAIT] /
                                                                  (double)(b->ended - b->began)
                                                            : 0));
    json_object_set_new(o, "peak_bytes", json_integer((json_int_t)b->peak));
    json_object_set_new(o, "device_peak_bytes", json_integer((json_int_t)b->device_peak));
    json_object_set_new(o, "loss", rungi_json_real(b->loss));
    json_object_set_new(o, "loader_ms", loader_ms(b));
    json_object_set_new(o, "round_trip_ns",
                        json_pack("[f, f]", b->round_trip[0] * 1e9, b->round_trip[1] * 1e9));
    if (b->o->gate) {
        for (int64_t i = 0; i < b->step && i < 4096; i++)
            json_array_append_new(losses, rungi_json_real(b->losses[i]));
        json_object_set_new(o, "losses", json_incref(losses));
        add_checksum(b->s, o);
        json_object_set_new(o, "gradient_error", rungi_json_real(b->gradient.largest));
        json_object_set_new(o, "gradient_distance", rungi_json_real(b->gradient.distance));
    }
    json_decref(losses);
    return o;
}

// `first`: of this process.
static rung_status run(block *b, rung_context *context, const rung_config *config, rungi_comm *comm,
                       bool first)
{
    const rung_block_options *o = b->o;
    b->gradient = (rungi_gradient_error){NAN, NAN};
    RUNG_TRY(rungi_session_create(
        context, config, &(rungi_session_options){.parts = RUNGI_SESSION_TRAIN, .comm = comm},
        &b->s));
    if (o->gate && (o->disturb <= 0 || o->disturb_gradient))
        RUNG_TRY(rungi_gradient_check(b->s, o->disturb, o->disturb_seed, &b->gradient));
    // Running statistics moved with that: begin as any run begins.
    if (o->gate)
        RUNG_TRY(rungi_session_begin(b->s));
    if (o->disturb > 0)
        rungi_disturb(b->s, o->disturb, o->disturb_seed);
    RUNG_TRY(measure(b));
    RUNG_TRY(measure_memory(b, first));
    if (!o->gate)
        return RUNG_OK;
    return b->s->stages ? rungi_session_join_stages(b->s, false)
                        : rungi_session_join_optimizer(b->s, true);
}

static rung_status give(const block *b, char **json_out)
{
    rungi_string text = {0};
    json_t *o = report(b);
    rungi_json_print(o, false, &text);
    json_decref(o);
    RUNG_CHECK(!text.failed && text.data, RUNG_NO_MEMORY, "no memory for a block's report");
    *json_out = text.data;
    return RUNG_OK;
}

typedef struct blocks {
    const rung_config *config;
    block *of; // by rank
} blocks;

static rung_status run_member(void *arg, rungi_member *m)
{
    blocks *all = arg;
    rung_config *config = NULL;
    RUNG_TRY(rungi_config_copy_for(m->context, all->config, &config));
    rung_status status = run(&all->of[m->index], m->context, config, m->comm, m->index == 0);
    rung_config_destroy(&config);
    return status;
}

rung_status rung_block_run(rung_context *context, const rung_config *config,
                           const rung_block_options *options, char **json_out)
{
    const rungi_train_config *c = rungi_config_values(config);
    int ranks = (int)c->train.ranks;
    blocks all = {config, calloc((size_t)ranks, sizeof(block))};
    rungi_crew *crew = NULL;
    rung_status status = RUNG_OK;
    RUNG_CHECK(all.of, RUNG_NO_MEMORY, "no memory for a block");
    for (int i = 0; i < ranks; i++)
        all.of[i].o = options;
    if (rungi_crew_wanted(c))
        status = rungi_crew_for(context, c, NULL, &crew);
    if (status == RUNG_OK)
        status = crew ? rungi_crew_run(crew, run_member, &all)
                      : run(&all.of[0], context, config, NULL, true);
    *json_out = NULL;
    if (status == RUNG_OK && all.of[0].s->rank == 0)
        status = give(&all.of[0], json_out);
    rung_error error = *rung_error_last();
    for (int i = 0; i < ranks; i++)
        rungi_session_destroy(&all.of[i].s);
    rungi_crew_destroy(&crew);
    free(all.of);
    return status == RUNG_OK ? RUNG_OK : rungi_fail_adopt(&error);
}
