// SPDX-License-Identifier: Apache-2.0
// What the ranks of a run must have in common.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "data/source.h"
#include "optim/optimizer.h"
#include "train/session.h"

// One "what\tvalue" a line: what training depends on.
static void describe(const rungi_session *s, rungi_string *out)
{
    const rungi_train_config *c = s->c;
    rungi_string_add(out, "the seed\t%" PRId64 "\n", c->seed);
    rungi_string_add(out, "the network\t%s, %" PRId64 " parameters\n", c->model.name,
                     rung_state_param_count(s->state));
    rungi_string_add(out, "data.batch_size\t%" PRId64 "\n", rungi_session_micro_batch(s));
    rungi_string_add(out, "train.accumulate\t%" PRId64 "\n", c->gradients.accumulate);
    if (c->exact)
        rungi_string_add(out, "exact\ttrue, %" PRId64 " shards\n", c->train.shards);
    else
        rungi_string_add(out, "exact\tfalse\n");
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
    return status == RUNG_OK ? share(s) : status;
}

// ---- the optimizer, cut over the ranks ----------------------------------------------------------

bool rungi_session_shards_optimizer(const rungi_session *s)
{
    return s->comm && s->c->ddp.shard_optimizer;
}

rungi_comm_part rungi_session_optimizer_part(const rungi_session *s)
{
    int64_t size = s->state->flat_size;
    return rungi_session_shards_optimizer(s) ? rungi_comm_part_of(size, s->ranks, s->rank)
                                             : (rungi_comm_part){0, size};
}

rung_status rungi_session_update_params(rungi_session *s, const rung_optimizer_update *update,
                                        int64_t step, rung_optimizer_report *report_out)
{
    rung_state *state = s->state;
    RUNG_TRY(rung_optimizer_step(s->optimizer, state->params, state->grads, update, report_out));
    if (!rungi_session_shards_optimizer(s))
        return RUNG_OK;
    rungi_timeline_begin(s->timeline, RUNGI_QUEUE_EXCHANGE, RUNGI_TIME_EXCHANGE, step);
    rung_status status = rungi_comm_all_gather(s->comm, state->params, state->flat_size, RUNG_F32,
                                               "updated parameters");
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
        RUNG_TRY(rungi_comm_all_gather(s->comm, s->whole_state[k], size, RUNG_F32,
                                       "the optimizer's state"));
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
