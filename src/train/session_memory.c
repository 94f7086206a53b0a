// SPDX-License-Identifier: Apache-2.0
// What a session's configuration says about memory, and the optimizer's state in it.
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "optim/optimizer.h"
#include "train/session.h"
#include "train/session_servers.h"
#include "train/session_stages.h"
#include "train/shards.h"

// Bytes of the device that training takes beside its arenas.
static uint64_t beside_arenas(const rungi_session *s)
{
    rung_optimizer_options optimizer = rungi_config_optimizer(s->c);
    uint64_t flat = (uint64_t)s->state->flat_size * sizeof(float);
    uint64_t buffers = (uint64_t)s->state->buffer_bytes;
    uint64_t shards = (uint64_t)rungi_session_own_shards(s);
    uint64_t rounds = (uint64_t)s->c->gradients.accumulate;
    uint64_t levels = s->c->exact ? (uint64_t)rungi_tree_levels((int)rounds) *
                                        (uint64_t)rungi_tree_branches((int)shards)
                                  : 0;
    if (s->stages && s->stages->total > 1)
        shards = 2; // gradients that are added
    uint64_t state = (uint64_t)rungi_session_optimizer_part(s).count * sizeof(float);
    // Each of the two training plans (full and last batches) keeps statistics as large as the
    // running ones, for each shard.
    return flat * (1 + shards + levels) + state * (uint64_t)rungi_optimizer_states(&optimizer) +
           buffers * (1 + 2 * shards * (rounds > 1 ? 1 + rounds : 1)) +
           rungi_session_replica_bytes(s);
}

rung_status rungi_session_memory_options(const rungi_session *s, rungi_engine_options *o)
{
    const rungi_memory_config *m = &s->c->memory;
    const char *first = m->recompute.count ? m->recompute.data[0] : "none";
    if (strcmp(first, "auto") == 0) {
        o->recompute = RUNG_RECOMPUTE_AUTO;
    } else if (strcmp(first, "none") != 0) {
        o->recompute = RUNG_RECOMPUTE_LAYERS;
        o->recompute_layers = (const char *const *)m->recompute.data;
        o->n_recompute_layers = (int)m->recompute.count;
    }
    if (!m->budget)
        return RUNG_OK;
    char beside_text[32], budget_text[32];
    uint64_t budget = (uint64_t)m->budget, beside = beside_arenas(s);
    bool several = rungi_train_devices(s->c) > 1;
    // Micro-batches that a stage of a pipeline keeps have an arena each, too.
    int arenas = s->stages ? s->stages->info[s->rank].in_flight : rungi_session_arenas(s);
    RUNG_CHECK(
        beside < budget, RUNG_NO_MEMORY,
        "memory.budget: weights, gradients and optimizer take %s%s%s, so that nothing is left of "
        "%s",
        rungi_text_bytes(beside, beside_text, sizeof beside_text), several ? " of " : "",
        several ? rung_device_name(s->device) : "",
        rungi_text_bytes(budget, budget_text, sizeof budget_text));
    o->budget = (budget - beside) / (uint64_t)arenas;
    return RUNG_OK;
}

rung_status rungi_session_make_optimizer(rungi_session *s, const rung_optimizer_options *o)
{
    for (int d = 0; d < rungi_train_devices(s->c); d++)
        rungi_device_set_cap(s->devices[d], (uint64_t)s->c->memory.budget);
    if (s->comm && rungi_config_is_async(s->c, s->ranks))
        return rungi_session_make_servers(s, o);
    rungi_comm_part part = rungi_session_optimizer_part(s);
    uint64_t bytes = (uint64_t)part.count * sizeof(float);
    for (int i = 0; i < rungi_optimizer_states(o); i++) {
        RUNG_TRY(rungi_device_alloc_zero(s->device, bytes, "optimizer state",
                                         (void **)&s->optimizer_state[i]));
    }
    RUNG_TRY(rungi_optimizer_create_part(s->context, o, s->segments, s->n_segments, part.begin,
                                         part.begin + part.count, s->optimizer_state,
                                         &s->optimizer));
    rungi_optimizer_use_team(s->optimizer, rungi_engine_team(s->engine));
    return RUNG_OK;
}
