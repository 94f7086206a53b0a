// SPDX-License-Identifier: Apache-2.0
// What the ranks of a run must have in common.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/context.h"
#include "base/error.h"
#include "base/text.h"
#include "data/source.h"
#include "device/device.h"
#include "optim/optimizer.h"
#include "train/session_servers.h"
#include "train/session_stages.h"

// One "what\tvalue" a line: what training depends on.
static void describe(const rungi_session *s, rungi_string *out)
{
    const rungi_train_config *c = s->c;
    rungi_string_add(out, "the seed\t%" PRId64 "\n", c->seed);
    rungi_string_add(out, "the network\t%s, %" PRId64 " parameters\n", c->model.name,
                     rungi_session_param_count(s));
    rungi_string_add(out, "data.batch_size\t%" PRId64 "\n", rungi_session_micro_batch(s));
    rungi_string_add(out, "train.accumulate\t%" PRId64 "\n", c->gradients.accumulate);
    rungi_string_add(out, "train.precision\t%s\n", rung_dtype_name(c->precision.dtype));
    if (c->exact)
        rungi_string_add(out, "exact\ttrue, %" PRId64 " shards\n", c->train.shards);
    else
        rungi_string_add(out, "exact\tfalse\n");
    rungi_string_add(out, "plan.autotune\t%s\n", c->plan.autotune ? "true" : "false");
    if (s->stages)
        rungi_string_add(out, "the pipeline\t%s, %d micro-batches\n",
                         rungi_pipeline_schedule_name(c->pipeline.schedule), s->stages->micro);
    const rung_source *sources[] = {s->train_source, s->val_source};
    for (int i = 0; i < 2; i++) {
        const char *what = i ? "validation" : "training";
        if (!sources[i])
            continue;
        rungi_string_add(out, "the number of %s samples\t%" PRId64 "\n", what, sources[i]->count);
        rungi_string_add(out, "the hash of the %s samples' names\t%016" PRIx64 "\n", what,
                         rungi_source_fingerprint(sources[i], c->data.path));
    }
}

// The first line in which two descriptions differ, taken apart. False: they are equal.
static bool differ(char *own, char *first, const char **what, const char **own_value,
                   const char **first_value)
{
    char *own_place, *first_place;
    char *a = strtok_r(own, "\n", &own_place), *b = strtok_r(first, "\n", &first_place);
    for (; a && b; a = strtok_r(NULL, "\n", &own_place), b = strtok_r(NULL, "\n", &first_place)) {
        if (strcmp(a, b) == 0)
            continue;
        char *tab = strchr(a, '\t'), *other = strchr(b, '\t');
        if (tab)
            *tab = '\0';
        *what = a;
        *own_value = tab ? tab + 1 : "";
        *first_value = other ? other + 1 : b;
        return true;
    }
    return false;
}

// Compares what all ranks described: all[offsets[r]] is rank r's text, with its zero.
static rung_status compare(const rungi_session *s, char *all, const uint64_t *offsets)
{
    for (int r = 1; r < s->ranks; r++) {
        char *first = strdup(all), *own = all + offsets[r];
        RUNG_CHECK(first, RUNG_NO_MEMORY, "no memory to compare the ranks");
        const char *what, *value, *expected;
        rung_status status = RUNG_OK;
        if (differ(own, first, &what, &value, &expected))
            status = RUNG_FAIL(RUNG_CONFIG,
                               "%s is %s on rank 0, but %s on rank %d: all ranks must "
                               "have the same",
                               what, expected, value, r);
        free(first);
        RUNG_TRY(status);
    }
    return RUNG_OK;
}

static rung_status share(rungi_session *s)
{
    const rung_state *state = s->state;
    RUNG_TRY(rungi_comm_broadcast(s->comm, state->params,
                                  (uint64_t)state->flat_size * sizeof(float), 0,
                                  "initial parameters"));
    return rungi_comm_broadcast(s->comm, state->buffers, (uint64_t)state->buffer_bytes, 0,
                                "initial buffers");
}

// Puts what all ranks said, "HOST\tDEVICE", together: ranks of one host in a row share its name.
static rung_status list_places(rungi_session *s, const char *all, const uint64_t *offsets)
{
    rungi_string out = {0};
    for (int r = 0; r < s->ranks; r++) {
        const char *own = all + offsets[r], *tab = strchr(own, '\t');
        const char *next = r + 1 < s->ranks ? all + offsets[r + 1] : NULL;
        size_t host = (size_t)(tab - own) + 1;
        bool last = !next || strncmp(own, next, host) != 0;
        rungi_string_add(&out, "%s%d %s", r ? "" : "rank ", r, tab + 1);
        if (last)
            rungi_string_add(&out, " on %.*s", (int)host - 1, own);
        if (next)
            rungi_string_add(&out, last ? "; " : ", ");
    }
    if (out.failed) {
        rungi_string_fini(&out);
        return RUNG_FAIL(RUNG_NO_MEMORY, "no memory to compare the ranks");
    }
    free(s->places);
    s->places = out.data;
    return RUNG_OK;
}

// Where each rank is: known to all of them before the first step.
static rung_status share_places(rungi_session *s)
{
    char own[128] = "";
    void *all = NULL;
    uint64_t *offsets = calloc((size_t)s->ranks + 1, sizeof *offsets);
    RUNG_CHECK(offsets, RUNG_NO_MEMORY, "no memory to compare the ranks");
    gethostname(own, 64);
    own[63] = 0;
    size_t used = strlen(own);
    snprintf(own + used, sizeof own - used, "\t%s", rung_device_name(s->device));
    rung_status status = rungi_comm_gather_objects(s->comm, own, strlen(own) + 1,
                                                   "places of the ranks", &all, offsets);
    if (status == RUNG_OK)
        status = list_places(s, all, offsets);
    free(all);
    free(offsets);
    return status;
}

rung_status rungi_session_agree(rungi_session *s)
{
    rungi_string own = {0};
    void *all = NULL;
    uint64_t *offsets = calloc((size_t)s->ranks + 1, sizeof *offsets);
    rung_status status = RUNG_OK;
    describe(s, &own);
    if (!offsets || own.failed)
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory to compare the ranks");
    if (status == RUNG_OK)
        status = rungi_comm_gather_objects(s->comm, rungi_string_text(&own), own.size + 1,
                                           "what the ranks have in common", &all, offsets);
    if (status == RUNG_OK)
        status = compare(s, all, offsets);
    rungi_string_fini(&own);
    free(all);
    free(offsets);
    RUNG_TRY(status);
    RUNG_TRY(share_places(s));
    return s->stages ? RUNG_OK : share(s); // stages have their own
}

rung_status rungi_session_synchronize(const rungi_session *s, bool *synchronize_out)
{
    const rungi_train_config *c = s->c;
    const rungi_options *o = rungi_config_options(s->config);
    bool found = false;
    *synchronize_out = c->ddp.sync_batch_norm;
    if (!c->ddp.sync_batch_norm)
        return RUNG_OK;
    if (c->exact && c->train.shards != s->ranks)
        return rungi_options_fail(
            o, "ddp.sync_batch_norm",
            "needs a shard for each rank under exact: train.shards is %" PRId64
            ", the number of ranks is %d",
            c->train.shards, s->ranks);
    for (size_t i = 0; i < s->graph->nodes.count; i++)
        found |= s->graph->nodes.data[i].op->meets != NULL;
    if (!found && s->rank == 0)
        rungi_options_note(o, s->context, "ddp.sync_batch_norm",
                           "ignored: the network has no batch normalization");
    return RUNG_OK;
}

// ---- the optimizer, cut over the ranks ----------------------------------------------------------

bool rungi_session_owns_gradients(const rungi_session *s)
{
    return s->comm && s->c->ddp.shard_optimizer && !rungi_config_has_servers(s->c, s->ranks);
}

bool rungi_session_shards_optimizer(const rungi_session *s)
{
    return s->comm && (s->c->ddp.shard_optimizer || rungi_config_has_servers(s->c, s->ranks));
}

bool rungi_session_fuses_update(const rungi_session *s)
{
    return s->c->ddp.fuse_update && rungi_session_owns_gradients(s) && !rungi_config_unfused(s->c);
}

rungi_comm_part rungi_session_optimizer_part(const rungi_session *s)
{
    int64_t size = s->state->flat_size;
    if (rungi_config_has_servers(s->c, s->ranks)) {
        int servers = rungi_config_servers(s->c, s->ranks);
        int own = rungi_ps_hosted(s->ranks, servers, s->rank);
        return own < 0 ? (rungi_comm_part){0, 0} : rungi_ps_range(size, servers, own);
    }
    return rungi_session_shards_optimizer(s) ? rungi_comm_part_of(size, s->ranks, s->rank)
                                             : (rungi_comm_part){0, size};
}

// Every rank's part of data[the state's size] comes to all.
static rung_status give_parts(const rungi_session *s, float *data, const char *label)
{
    int servers =
        rungi_config_has_servers(s->c, s->ranks) ? rungi_config_servers(s->c, s->ranks) : s->ranks;
    return rungi_exchange_pull(s->comm, servers, data, s->state->flat_size, label);
}

// The gradients that blocks of the norm need behind the end of a rank's part: the first ones of
// each part come to all ranks.
static rung_status share_heads(rungi_session *s)
{
    enum { HEAD = RUNGI_OPTIM_BLOCK };
    rung_state *state = s->state;
    int64_t all = (int64_t)s->ranks * HEAD;
    if (!s->heads) {
        void *room;
        RUNG_TRY(rungi_comm_alloc(s->comm, (uint64_t)all * sizeof(float),
                                  "first gradients of each part", &room));
        s->heads = room;
        RUNG_TRY(rungi_device_adopt(s->device, room, (uint64_t)all * sizeof(float),
                                    "first gradients of each part"));
    }
    for (int gathered = 0; gathered < 2; gathered++) {
        for (int r = 0; r < s->ranks; r++) {
            rungi_comm_part part = rungi_comm_part_of(state->flat_size, s->ranks, r);
            size_t bytes = (size_t)(part.count < HEAD ? part.count : HEAD) * sizeof(float);
            if (gathered && r != s->rank)
                memcpy(state->grads + part.begin, s->heads + (int64_t)r * HEAD, bytes);
            else if (!gathered && r == s->rank)
                memcpy(s->heads + (int64_t)r * HEAD, state->grads + part.begin, bytes);
        }
        if (!gathered)
            RUNG_TRY(rungi_comm_all_gather(s->comm, s->heads, all, RUNG_F32,
                                           "first gradients of each part"));
    }
    return RUNG_OK;
}

// The norm of all ranks' gradients, with the bits that one rank's has: the same blocks, each summed
// by one rank.
static rung_status share_norm(rungi_session *s, const rung_optimizer_update *update)
{
    double *sums;
    int64_t count;
    RUNG_TRY(share_heads(s));
    rungi_optimizer_part_sums(s->optimizer, s->state->grads, update->threads, &sums, &count);
    return rungi_comm_all_reduce(s->comm, sums, count, RUNG_F64, RUNGI_COMM_SUM, "gradient norm");
}

rung_status rungi_session_update_params(rungi_session *s, const rung_optimizer_update *update,
                                        int64_t step, rung_optimizer_report *report_out)
{
    rung_state *state = s->state;
    if (s->stages)
        return rungi_session_update_stages(s, update, report_out);
    if (s->servers)
        return rungi_session_push(s, update, step, report_out);
    if (rungi_engine_left_gradients(s->engine))
        return rungi_engine_update(s->engine, s->optimizer, update, report_out);
    int64_t began = rungi_now(s->context);
    if (rungi_session_owns_gradients(s) && rungi_optimizer_needs_all(update)) {
        rungi_timeline_begin(s->timeline, RUNGI_QUEUE_EXCHANGE, RUNGI_TIME_EXCHANGE, step);
        rung_status shared = share_norm(s, update);
        rungi_timeline_end(s->timeline, RUNGI_QUEUE_EXCHANGE);
        RUNG_TRY(shared);
    }
    RUNG_TRY(s->scales_loss ? rung_loss_scale_step(&s->loss_scale, s->optimizer, state->params,
                                                   state->grads, update, report_out)
                            : rung_optimizer_step(s->optimizer, state->params, state->grads, update,
                                                  report_out));
    rungi_engine_note_update(s->engine, rungi_now(s->context) - began);
    if (!rungi_session_shards_optimizer(s))
        return RUNG_OK;
    rungi_timeline_begin(s->timeline, RUNGI_QUEUE_EXCHANGE, RUNGI_TIME_EXCHANGE, step);
    rung_status status = give_parts(s, state->params, "updated parameters");
    rungi_timeline_end(s->timeline, RUNGI_QUEUE_EXCHANGE);
    return status;
}

rung_status rungi_session_join_optimizer(rungi_session *s, bool gather)
{
    int64_t size = s->state->flat_size, begin, end;
    if (!rungi_session_shards_optimizer(s))
        return RUNG_OK;
    for (int k = 0; k < rung_optimizer_state_count(s->optimizer); k++) {
        s->whole_state[k] = calloc((size_t)size, sizeof(float));
        RUNG_CHECK(s->whole_state[k], RUNG_NO_MEMORY, "no memory for the optimizer's state");
        const float *own = rungi_optimizer_part_state(s->optimizer, k, &begin, &end);
        if (!gather)
            continue;
        memcpy(s->whole_state[k] + begin, own, (size_t)(end - begin) * sizeof(float));
        RUNG_TRY(give_parts(s, s->whole_state[k], "the optimizer's state"));
    }
    return RUNG_OK;
}

float *rungi_session_optimizer_state(const rungi_session *s, int index)
{
    return s->whole_state[index] ? s->whole_state[index]
                                 : rung_optimizer_state_data(s->optimizer, index);
}

void rungi_session_part_optimizer(rungi_session *s, bool keep)
{
    for (int k = 0; k < RUNG_OPTIMIZER_STATES; k++) {
        int64_t begin, end;
        if (!s->whole_state[k])
            continue;
        float *own = rungi_optimizer_part_state(s->optimizer, k, &begin, &end);
        if (keep)
            memcpy(own, s->whole_state[k] + begin, (size_t)(end - begin) * sizeof(float));
        free(s->whole_state[k]);
        s->whole_state[k] = NULL;
    }
}
