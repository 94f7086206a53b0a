// SPDX-License-Identifier: Apache-2.0
// The gradient check of a pipeline: no stage has the whole network, so rank 0 makes it once more.
#include <string.h>

#include "base/error.h"
#include "ladder/gradient_check.h"
#include "train/session_stages.h"

static rung_status copy_state(const rungi_session *s, rung_state *state)
{
    for (int i = 0; i < rung_state_count(state); i++) {
        rung_state_entry e = rung_state_at(state, i), of_stage;
        int64_t count;
        RUNG_CHECK(rungi_session_stages_find(s, e.name, &of_stage), RUNG_INTERNAL,
                   "no stage has %s", e.name);
        RUNG_TRY(rung_shape_count(&e.shape, &count));
        memcpy(e.data, of_stage.data, (size_t)count * rung_dtype_size(e.dtype));
    }
    return RUNG_OK;
}

static rungi_gradient_error error_of(const rungi_session *s, const rung_state *state,
                                     const rung_plan *truth)
{
    rungi_gradient_sums sums = {0};
    for (int i = 0; i < rung_state_count(state); i++) {
        rung_state_entry e = rung_state_at(state, i), of_stage;
        rung_view want;
        int64_t count;
        if (!e.trainable || rung_plan_grad(truth, e.name, &want) != RUNG_OK ||
            !rungi_session_stages_find(s, e.name, &of_stage) ||
            rung_shape_count(&e.shape, &count) != RUNG_OK)
            continue;
        rungi_gradient_add(&sums, want.data, of_stage.grad, count, rungi_gradient_scale(s));
    }
    return rungi_gradient_error_of(&sums);
}

static rung_status run_truth(const rungi_session *s, rung_plan *truth, const rungi_batch_view *view)
{
    for (int i = 0; i < view->n_feeds; i++)
        RUNG_TRY(rung_plan_bind(truth, view->feeds[i].input, view->feeds[i].data));
    rung_plan_set_step(truth, (uint64_t)s->c->seed, 0);
    RUNG_TRY(rung_plan_forward(truth));
    return rung_plan_backward(truth);
}

static rung_status compare(rungi_session *s, const rungi_batch_view *view,
                           rungi_gradient_error *out)
{
    const rung_graph *whole = rungi_session_whole(s);
    const rung_compile_options o = {
        .batch = view->count, .training = true, .gradients = true, .float64 = true};
    rung_state *state;
    rung_plan *truth = NULL;
    RUNG_TRY(rung_state_create(whole, s->device, &state));
    rung_status status = copy_state(s, state);
    if (status == RUNG_OK)
        status = rung_compile(whole, state, &o, &truth);
    if (status == RUNG_OK && rungi_gradient_forward_flops(truth) <= RUNGI_GRADIENT_FLOPS) {
        status = run_truth(s, truth, view);
        if (status == RUNG_OK)
            *out = error_of(s, state, truth);
    }
    rung_plan_destroy(&truth);
    rung_state_destroy(&state);
    return status;
}

rung_status rungi_gradient_check_stages(rungi_session *s, double disturb, uint64_t seed,
                                        rungi_gradient_error *out)
{
    rung_batch batch;
    rungi_feed feeds[RUNG_MAX_FIELDS];
    RUNG_TRY(rungi_session_next(s, 0, &batch));
    rungi_batch_view view = {.count = batch.count < RUNGI_GRADIENT_SAMPLES ? batch.count
                                                                           : RUNGI_GRADIENT_SAMPLES,
                             .feeds = feeds,
                             .n_feeds = rungi_session_feeds(s, &batch, feeds),
                             .loss_scale = rungi_gradient_scale(s),
                             .seed = (uint64_t)s->c->seed};
    rung_status status = rungi_gradient_train(s, &view, disturb, seed);
    if (status == RUNG_OK)
        status = rungi_session_join_stages(s, true);
    if (status == RUNG_OK && s->rank == 0) {
        rungi_comm_busy(s->comm, "checking the gradient");
        status = compare(s, &view, out);
        rungi_comm_busy(s->comm, NULL);
    }
    rungi_session_part_stages(s);
    rungi_session_release(s, &batch);
    return status == RUNG_OK ? rungi_session_seek(s, 0, 0) : status;
}
