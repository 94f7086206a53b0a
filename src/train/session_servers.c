// SPDX-License-Identifier: Apache-2.0
#include "train/session_servers.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "device/device.h"
#include "optim/optimizer.h"

struct rungi_session_servers {
    rungi_session *s;
    rungi_ps *ps;
    // By server: this rank's view of its optimizer; the state is shared. NULL: on another machine.
    rung_optimizer *optimizers[RUNGI_PS_WORKERS];
    int64_t *steps; // of each segment, before the first push
    bool begun;     // the step that comes next
};

const rungi_ps *rungi_session_servers_of(const rungi_session *s)
{
    return s->servers ? s->servers->ps : NULL;
}

bool rungi_session_is_async(const rungi_session *s)
{
    return s->servers != NULL;
}

int64_t rungi_session_samples_of_all(const rungi_session *s)
{
    int64_t all = 0;
    for (int r = 0; r < s->ranks; r++) {
        rungi_ps_worker w;
        rungi_ps_report(s->servers->ps, r, &w);
        all += w.samples;
    }
    return all;
}

// ---- servers ----------------------------------------------------------------------------------

// The start of a whole buffer of which only what begins at element `begin` is here.
static float *whole_of(const float *part, int64_t begin)
{
    return (float *)((uintptr_t)part - (uintptr_t)begin * sizeof(float));
}

static void set_steps(const struct rungi_session_servers *v, rung_optimizer *optimizer,
                      int64_t updates)
{
    for (int64_t i = 0; i < v->s->n_segments; i++) {
        int64_t steps = v->steps[i] + (v->s->segments[i].frozen ? 0 : updates);
        if (rung_optimizer_steps(optimizer, i) != steps)
            rung_optimizer_set_steps(optimizer, i, steps);
    }
}

static rung_status update_range(void *user, int server, float *weights, const float *grads,
                                const rungi_ps_terms *terms, int64_t updates)
{
    const struct rungi_session_servers *v = user;
    rung_optimizer *optimizer = v->optimizers[server];
    int64_t begin =
        rungi_ps_range(v->s->state->flat_size, rungi_config_servers(v->s->c, v->s->ranks), server)
            .begin;
    // infinity: no limit
    const rung_optimizer_update u = {.rates = terms->rates,
                                     .max_grad_value = isfinite(terms->limit) ? terms->limit : 0,
                                     .threads = rung_device_threads(v->s->device)};
    set_steps(v, optimizer, updates);
    RUNG_CHECK(rungi_optimizer_apply(optimizer, whole_of(weights, begin), whole_of(grads, begin),
                                     &u, terms->scale),
               RUNG_DIVERGED, "server %d was given a gradient that is not finite", server);
    return RUNG_OK;
}

static rung_status make_optimizers(struct rungi_session_servers *v, const rung_optimizer_options *o)
{
    rungi_session *s = v->s;
    int servers = rungi_config_servers(s->c, s->ranks);
    int own = rungi_ps_hosted(s->ranks, servers, s->rank);
    for (int k = 0; k < servers; k++) {
        rungi_comm_part part = rungi_ps_range(s->state->flat_size, servers, k);
        float *state[RUNG_OPTIMIZER_STATES];
        if (!rungi_ps_is_near(v->ps, k))
            continue;
        for (int i = 0; i < rungi_optimizer_states(o); i++)
            state[i] = rungi_ps_state(v->ps, k, i);
        RUNG_TRY(rungi_optimizer_create_part(s->context, o, s->segments, s->n_segments, part.begin,
                                             part.begin + part.count, state, &v->optimizers[k]));
        if (k == own)
            RUNG_TRY(rungi_optimizer_create_part(s->context, o, s->segments, s->n_segments,
                                                 part.begin, part.begin + part.count, state,
                                                 &s->optimizer));
    }
    return own >= 0 ? RUNG_OK
                    : rungi_optimizer_create_part(s->context, o, s->segments, s->n_segments, 0, 0,
                                                  NULL, &s->optimizer);
}

static rung_status serve(void *user)
{
    return rungi_ps_serve(user);
}

rung_status rungi_session_make_servers(rungi_session *s, const rung_optimizer_options *o)
{
    struct rungi_session_servers *v = calloc(1, sizeof *v);
    RUNG_CHECK(v, RUNG_NO_MEMORY, "no memory for servers");
    s->servers = v; // destroyed with the session
    v->s = s;
    v->steps = calloc((size_t)s->n_segments + 1, sizeof *v->steps);
    RUNG_CHECK(v->steps, RUNG_NO_MEMORY, "no memory for servers");
    RUNG_TRY(rungi_ps_create(&(rungi_ps_setup){.comm = s->comm,
                                               .size = s->state->flat_size,
                                               .servers = rungi_config_servers(s->c, s->ranks),
                                               .states = rungi_optimizer_states(o),
                                               .staleness = s->c->ps.staleness,
                                               .update = update_range,
                                               .user = v},
                             &v->ps));
    rungi_ps_memory m = rungi_ps_memory_of(
        s->state->flat_size, rungi_config_servers(s->c, s->ranks), rungi_optimizer_states(o));
    RUNG_TRY(rungi_device_adopt(s->device, rungi_ps_own(v->ps), m.weights + m.states + m.rest,
                                "parameter server"));
    if (rungi_comm_local_size(s->comm) < s->ranks)
        rungi_engine_between(s->engine, serve, v->ps);
    return make_optimizers(v, o);
}

void rungi_session_destroy_servers(rungi_session *s)
{
    struct rungi_session_servers *v = s->servers;
    if (!v)
        return;
    rung_optimizer_destroy(&s->optimizer); // its state is the server's
    for (int k = 0; k < RUNGI_PS_WORKERS; k++)
        rung_optimizer_destroy(&v->optimizers[k]);
    if (v->ps)
        rungi_device_disown(s->device, rungi_ps_own(v->ps));
    rungi_ps_destroy(&v->ps);
    free(v->steps);
    free(v);
    s->servers = NULL;
}

// ---- the worker -------------------------------------------------------------------------------

static void begin_exchange(const rungi_session *s, int64_t step)
{
    rungi_timeline_begin(s->timeline, RUNGI_QUEUE_EXCHANGE, RUNGI_TIME_EXCHANGE, step);
}

static rung_status end_exchange(const rungi_session *s, rung_status status)
{
    rungi_timeline_end(s->timeline, RUNGI_QUEUE_EXCHANGE);
    return status;
}

static rung_status open(struct rungi_session_servers *v, int64_t step)
{
    rungi_session *s = v->s;
    int64_t updates = rungi_ps_updates(v->ps);
    for (int64_t i = 0; i < s->n_segments; i++)
        v->steps[i] = rung_optimizer_steps(s->optimizer, i) -
                      (s->segments[i].frozen || updates < 0 ? 0 : updates);
    return rungi_ps_open(v->ps, s->state->params, step);
}

static rung_status begin_step(rungi_session *s, int64_t step, bool *go_out)
{
    struct rungi_session_servers *v = s->servers;
    if (!rungi_ps_is_open(v->ps))
        RUNG_TRY(open(v, step));
    RUNG_TRY(rungi_ps_begin(v->ps, s->want_stop, go_out));
    v->begun = *go_out;
    return *go_out ? rungi_ps_pull(v->ps, s->state->params) : RUNG_OK;
}

rung_status rungi_session_begin_step(rungi_session *s, int64_t step, bool *go_out)
{
    *go_out = true;
    if (!s->servers || s->servers->begun)
        return RUNG_OK;
    begin_exchange(s, step);
    return end_exchange(s, begin_step(s, step, go_out));
}

static rung_status push(rungi_session *s, const rung_optimizer_update *u,
                        rung_optimizer_report *report)
{
    const float *grads = s->state->grads;
    // A worker's scale is its own: what overflowed there is left out there.
    double unscale = s->scales_loss ? 1 / s->loss_scale.scale : 1;
    *report = (rung_optimizer_report){.applied = true, .grad_norm = NAN, .clip = 1};
    report->nonfinite = -1;
    RUNG_TRY(rungi_optimizer_check(s->optimizer, u));
    if (s->batch_count) {
        report->grad_norm =
            rungi_optimizer_norm(s->optimizer, grads, unscale, u->threads, &report->nonfinite);
        report->applied = report->nonfinite < 0;
        RUNG_CHECK(report->applied || u->skip_nonfinite, RUNG_DIVERGED,
                   "the gradient of %s is not finite", s->segments[report->nonfinite].name);
        if (u->max_grad_norm > 0 && report->applied)
            report->clip = rungi_clip_coefficient(report->grad_norm, u->max_grad_norm);
        if (s->scales_loss)
            RUNG_TRY(rungi_loss_scale_note(&s->loss_scale, s->optimizer, report));
    }
    const rungi_ps_terms terms = {
        .rates = u->rates,
        .scale = unscale * report->clip,
        .limit = u->max_grad_value > 0 ? u->max_grad_value : INFINITY,
    };
    s->servers->begun = false;
    return rungi_ps_push(s->servers->ps, s->batch_count && report->applied ? grads : NULL, &terms,
                         s->batch_count);
}

rung_status rungi_session_push(rungi_session *s, const rung_optimizer_update *update, int64_t step,
                               rung_optimizer_report *report_out)
{
    rung_optimizer_report report;
    begin_exchange(s, step);
    RUNG_TRY(end_exchange(s, push(s, update, &report)));
    if (report_out)
        *report_out = report;
    return RUNG_OK;
}

// Running statistics become the mean over the workers.
static rung_status mean_statistics(rungi_session *s)
{
    for (int i = 0; i < rung_state_count(s->state); i++) {
        rung_state_entry e = rung_state_at(s->state, i);
        int64_t count;
        if (!e.buffer || e.dtype != RUNG_F32 || rung_shape_count(&e.shape, &count) != RUNG_OK)
            continue;
        RUNG_TRY(rungi_comm_all_reduce(s->comm, e.data, count, RUNG_F32, RUNGI_COMM_SUM,
                                       "running statistics"));
        for (int64_t k = 0; k < count; k++)
            ((float *)e.data)[k] /= (float)s->ranks;
    }
    return RUNG_OK;
}

static rung_status meet(rungi_session *s)
{
    struct rungi_session_servers *v = s->servers;
    RUNG_TRY(rungi_ps_meet(v->ps, s->state->params));
    int64_t updates = rungi_ps_updates(v->ps);
    v->begun = false;
    if (updates >= 0)
        set_steps(v, s->optimizer, updates);
    return mean_statistics(s);
}

rung_status rungi_session_meet(rungi_session *s, int64_t step)
{
    if (!s->servers || !rungi_ps_is_open(s->servers->ps))
        return RUNG_OK;
    begin_exchange(s, step);
    return end_exchange(s, meet(s));
}
