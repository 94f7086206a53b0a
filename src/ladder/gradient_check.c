// SPDX-License-Identifier: Apache-2.0
#include "ladder/gradient_check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/philox.h"
#include "base/shard.h"

// The samples that are looked at: of all ranks, in their order.
typedef struct sample_set {
    int64_t count;
    rungi_shard part; // this rank's, the first ones of its batch
    int n_feeds;
    rungi_feed own[RUNG_MAX_FIELDS], all[RUNG_MAX_FIELDS];
    void *gathered[RUNG_MAX_FIELDS]; // what `all` refers to, with several ranks
} sample_set;

double rungi_gradient_scale(const rungi_session *s)
{
    return s->scales_loss ? s->loss_scale.scale : 1;
}

void rungi_gradient_add(rungi_gradient_sums *sums, const double *want, const float *got,
                        int64_t count, double scale)
{
    double top = 0, error = 0;
    for (int64_t i = 0; i < count; i++) {
        double difference = fabs(want[i] - got[i] / scale);
        top = fmax(top, fabs(want[i]));
        // NaN is the largest of all
        error = difference <= error ? error : isnan(difference) ? INFINITY : difference;
        sums->apart += difference * difference;
        sums->norm += want[i] * want[i];
    }
    if (top > 0)
        sums->worst = fmax(sums->worst, error / top);
}

rungi_gradient_error rungi_gradient_error_of(const rungi_gradient_sums *sums)
{
    return (rungi_gradient_error){sums->worst, sums->norm > 0 ? sqrt(sums->apart / sums->norm) : 0};
}

static rungi_gradient_error error_of(const rungi_session *s, const rung_plan *truth)
{
    rungi_gradient_sums sums = {0};
    for (int64_t k = 0; k < s->n_segments; k++) {
        rung_view want;
        const rung_segment *g = &s->segments[k];
        if (rung_plan_grad(truth, g->name, &want) == RUNG_OK)
            rungi_gradient_add(&sums, want.data, s->state->grads + g->begin, g->end - g->begin,
                               rungi_gradient_scale(s));
    }
    return rungi_gradient_error_of(&sums);
}

double rungi_gradient_forward_flops(const rung_plan *plan)
{
    double flops = 0;
    for (int i = 0; i < plan->n_forward; i++)
        flops += rungi_query_cost(&plan->steps.data[i].q).flops;
    return flops;
}

// Bytes of a sample in the field that a feed gives.
static size_t sample_bytes(const rung_batch *batch, const rungi_feed *feed)
{
    for (int i = 0; i < batch->field_count; i++) {
        const rung_view *field = &batch->fields[i];
        if (field->data != feed->data)
            continue;
        size_t bytes = rung_dtype_size(field->dtype);
        for (int d = 1; d < field->shape.rank; d++)
            bytes *= (size_t)field->shape.dim[d];
        return bytes;
    }
    return 0;
}

static rung_status gather(const rungi_session *s, const rung_batch *batch, sample_set *set)
{
    uint64_t offsets[RUNGI_MAX_SHARDS + 1];
    for (int i = 0; i < set->n_feeds; i++) {
        set->all[i] = set->own[i];
        if (!s->comm)
            continue;
        uint64_t bytes = (uint64_t)set->part.count * sample_bytes(batch, &set->own[i]);
        RUNG_TRY(rungi_comm_gather_objects(s->comm, set->own[i].data, bytes, "samples to check",
                                           &set->gathered[i], offsets));
        set->all[i].data = set->gathered[i];
    }
    return RUNG_OK;
}

static rung_status take(rungi_session *s, const rung_batch *batch, sample_set *set)
{
    int64_t all = batch->global_count;
    int shards = rungi_session_cut(s, true), own = shards / s->ranks;
    *set = (sample_set){.count = all < RUNGI_GRADIENT_SAMPLES ? all : RUNGI_GRADIENT_SAMPLES};
    set->part = rungi_shards_of(set->count, shards, s->rank * own, own);
    set->n_feeds = rungi_session_feeds(s, batch, set->own);
    return gather(s, batch, set);
}

// The float64 gradient, and what training's, which the state holds, differs by.
static rung_status compare(rungi_session *s, const sample_set *set, rungi_gradient_error *out)
{
    rung_plan *truth;
    rung_compile_options o = {
        .batch = set->count, .training = true, .gradients = true, .float64 = true};
    RUNG_TRY(rung_compile(s->graph, s->state, &o, &truth));
    rung_status status = RUNG_OK;
    if (rungi_gradient_forward_flops(truth) <= RUNGI_GRADIENT_FLOPS) {
        for (int i = 0; status == RUNG_OK && i < set->n_feeds; i++)
            status = rung_plan_bind(truth, set->all[i].input, set->all[i].data);
        rung_plan_set_step(truth, (uint64_t)s->c->seed, 0);
        if (status == RUNG_OK)
            status = rung_plan_forward(truth);
        if (status == RUNG_OK)
            status = rung_plan_backward(truth);
        if (status == RUNG_OK)
            *out = error_of(s, truth);
    }
    rung_plan_destroy(&truth);
    return status;
}

void rungi_disturb(const rungi_session *s, double by, uint64_t seed)
{
    rungi_random random = rungi_random_make(seed, RUNGI_PURPOSE_TEST, 1, 0, 0);
    for (int64_t i = 0; i < s->state->flat_size; i++) {
        double unit = rungi_unit_f64(rungi_random_u64(&random, (uint64_t)i)) * 2 - 1;
        s->state->params[i] = (float)(s->state->params[i] * (1 + by * unit));
    }
}

rung_status rungi_gradient_train(rungi_session *s, const rungi_batch_view *view, double disturb,
                                 uint64_t seed)
{
    size_t bytes = (size_t)s->state->flat_size * sizeof(float);
    double loss;
    if (disturb <= 0)
        return rungi_engine_train(s->engine, view, &loss);
    float *weights = malloc(bytes);
    RUNG_CHECK(weights, RUNG_NO_MEMORY, "no memory to check the gradient");
    memcpy(weights, s->state->params, bytes);
    rungi_disturb(s, disturb, seed);
    rung_status status = rungi_engine_train(s->engine, view, &loss);
    memcpy(s->state->params, weights, bytes);
    free(weights);
    return status;
}

rung_status rungi_gradient_check(rungi_session *s, double disturb, uint64_t seed,
                                 rungi_gradient_error *out)
{
    rung_batch batch;
    sample_set set;
    *out = (rungi_gradient_error){NAN, NAN};
    if (s->stages)
        return rungi_gradient_check_stages(s, disturb, seed, out);
    RUNG_TRY(rungi_session_next(s, 0, &batch));
    rung_status status = take(s, &batch, &set);
    rungi_batch_view view = {.count = set.part.count,
                             .global_count = set.count,
                             .begin = set.part.begin,
                             .feeds = set.own,
                             .n_feeds = set.n_feeds,
                             .loss_scale = rungi_gradient_scale(s),
                             .seed = (uint64_t)s->c->seed};
    if (status == RUNG_OK)
        status = rungi_gradient_train(s, &view, disturb, seed);
    if (status == RUNG_OK && rungi_session_shards_optimizer(s)) // rank 0 has its part alone
        status = rungi_comm_all_gather(s->comm, s->state->grads, s->state->flat_size, RUNG_F32,
                                       "gradients to check");
    if (s->comm && s->rank == 0)
        rungi_comm_busy(s->comm, "checking the gradient");
    if (status == RUNG_OK && s->rank == 0)
        status = compare(s, &set, out);
    if (s->comm && s->rank == 0)
        rungi_comm_busy(s->comm, NULL);
    for (int i = 0; i < set.n_feeds; i++)
        free(set.gathered[i]);
    rungi_session_release(s, &batch);
    return status == RUNG_OK ? rungi_session_seek(s, 0, 0) : status;
}
