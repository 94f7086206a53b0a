// SPDX-License-Identifier: Apache-2.0
// The loss of several devices on one of them: the graph is cut before the loss. Shards run the
// part before the cut on their devices; what crosses it is gathered on the output device, where the
// part behind it runs, and its gradients go back.
//
// In fast mode the loss is that of the whole batch at once; under exact there is one loss for each
// shard, with one thread, so that it has the bits that it has within one device. Of accumulated
// rounds there is one for each shard, too, in the round's turn. Outputs and their gradients are
// gathered and returned in float32, whatever the precision.
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/error.h"
#include "train/engine_inside.h"

// ---- making -----------------------------------------------------------------------------------

// The node before which only what the outputs need is computed.
static int find_cut(const rung_graph *g)
{
    int cut = 0;
    for (size_t i = 0; i < g->outputs.count; i++) {
        const rungi_value *v = &g->values.data[g->outputs.data[i].value];
        if (g->outputs.data[i].value != g->loss && v->kind == RUNGI_VALUE_NODE && v->node >= cut)
            cut = v->node + 1;
    }
    return cut;
}

static const char *const instead = "set data_parallel.parallel_criterion=true";

static rung_status check_cut(const rungi_engine *e, int cut)
{
    const rung_graph *g = e->graph;
    char why[256];
    RUNG_CHECK(g->loss && cut > 0 && cut < (int)g->nodes.count, RUNG_UNSUPPORTED,
               "the network has no output before its loss, to be gathered: %s", instead);
    RUNG_CHECK(rungi_part_can_cut(g, cut, why, sizeof why), RUNG_UNSUPPORTED, "%s: %s", why,
               instead);
    for (int k = 0; k < cut; k++)
        RUNG_CHECK(!g->nodes.data[k].op->normalizer, RUNG_UNSUPPORTED,
                   "the loss %s is computed before the outputs: %s", g->nodes.data[k].name,
                   instead);
    for (size_t i = 1; i < g->values.count; i++) {
        const rungi_value *v = &g->values.data[i];
        bool entry = v->kind == RUNGI_VALUE_PARAM || v->kind == RUNGI_VALUE_BUFFER;
        for (size_t k = (size_t)cut; entry && k < g->nodes.count; k++)
            for (int n = 0; n < g->nodes.data[k].n_in; n++)
                RUNG_CHECK(g->nodes.data[k].in[n] != (int)i, RUNG_UNSUPPORTED,
                           "the loss reads %s, which only replicas have: %s", v->name, instead);
    }
    return RUNG_OK;
}

// The engine's state as the part before the cut names it: the same memory.
static rung_status make_alias(rungi_engine *e, rungi_criterion *c)
{
    RUNG_TRY(rungi_state_describe(c->model.graph, e->state->device, &c->alias));
    rung_state *a = c->alias;
    bool same = a->flat_size == e->state->flat_size && a->buffer_bytes == e->state->buffer_bytes &&
                a->n_entries == e->state->n_entries;
    for (int i = 0; same && i < a->n_entries; i++)
        same = a->entries[i].offset == e->state->entries[i].offset;
    RUNG_CHECK(same, RUNG_UNSUPPORTED,
               "the network keeps its parameters in another order without its loss: %s", instead);
    a->params = e->state->params;
    a->grads = e->state->grads;
    a->buffers = e->state->buffers;
    return RUNG_OK;
}

rung_status rungi_criterion_create(rungi_engine *e)
{
    int cut = find_cut(e->graph);
    RUNG_TRY(check_cut(e, cut));
    rungi_criterion *c = e->criterion = calloc(1, sizeof *c);
    RUNG_CHECK(c, RUNG_NO_MEMORY, "no memory for an engine");
    RUNG_TRY(rungi_part_create(e->graph, 0, cut, false, &c->model));
    RUNG_TRY(rungi_part_create(e->graph, cut, (int)e->graph->nodes.count, false, &c->loss));
    RUNG_CHECK(c->loss.n_in <= RUNG_MAX_FIELDS, RUNG_UNSUPPORTED,
               "%d values go from the network to its loss; at most %d work: %s", c->loss.n_in,
               RUNG_MAX_FIELDS, instead);
    for (int i = 0; i < c->model.n_out; i++) {
        const rung_shape *shape = &c->model.graph->values.data[c->model.out[i].part].shape;
        RUNG_CHECK(shape->rank > 0 && shape->dim[0] == RUNG_BATCH, RUNG_UNSUPPORTED,
                   "what goes from the network to its loss is not one value a sample: %s", instead);
    }
    RUNG_TRY(make_alias(e, c));
    e->model = c->model.graph;
    e->replicas[0].state = c->alias;
    c->output = &e->replicas[e->options.replicas.output_device];
    return rung_state_create(c->loss.graph, c->output->device, &c->state);
}

static void drop_entry(rungi_shard_plan *x)
{
    for (int s = 0; s < RUNGI_MAX_SHARDS; s++)
        if (x->instances[s] != x->plan->instance)
            rungi_instance_destroy(&x->instances[s]);
    rung_plan_destroy(&x->plan);
    free(x);
}

void rungi_criterion_destroy(rungi_engine *e)
{
    rungi_criterion *c = e->criterion;
    if (!c)
        return;
    for (size_t i = 0; i < c->entries.count; i++)
        drop_entry(c->entries.data[i]);
    rungi_array_fini(&c->entries);
    for (int s = 0; s < RUNGI_MAX_SHARDS; s++)
        rung_arena_destroy(&c->arenas[s]);
    for (int f = 0; c->output && f < RUNG_MAX_FIELDS; f++)
        rung_device_free(c->output->device, c->targets[f]);
    for (int d = 0; d < e->devices; d++)
        for (int i = 0; i < RUNG_MAX_FIELDS; i++)
            rung_device_free(e->replicas[d].device, c->seeds[d][i]);
    rung_state_destroy(&c->state);
    if (c->alias) { // what it points to is the engine's
        c->alias->params = c->alias->grads = NULL;
        c->alias->buffers = NULL;
    }
    rung_state_destroy(&c->alias);
    rungi_part_fini(&c->model);
    rungi_part_fini(&c->loss);
    free(c);
    e->criterion = NULL;
}

// ---- plans ------------------------------------------------------------------------------------

static rung_status compile(rungi_engine *e, bool training, int64_t count, rungi_shard_plan **out)
{
    rungi_criterion *c = e->criterion;
    rung_compile_options o = rungi_engine_plan_options(e, training, count);
    o.gradients = training && rungi_criterion_gradients(c);
    o.recompute = RUNG_RECOMPUTE_NONE;
    o.arena = c->arenas[0];
    rungi_shard_plan *x = calloc(1, sizeof *x);
    RUNG_CHECK(x, RUNG_NO_MEMORY, "no memory for a plan");
    *x = (rungi_shard_plan){.training = training, .loss = true, .count = count};
    rung_status status = rung_compile(c->loss.graph, c->state, &o, &x->plan);
    if (status == RUNG_OK && !rungi_array_push(&c->entries, x))
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a plan");
    if (status != RUNG_OK) {
        rung_plan_destroy(&x->plan);
        free(x);
        return status;
    }
    x->instances[0] = x->plan->instance;
    *out = x;
    return RUNG_OK;
}

static rung_status find(rungi_engine *e, bool training, int64_t count, int piece,
                        rungi_shard_plan **out)
{
    rungi_criterion *c = e->criterion;
    rungi_shard_plan *x = NULL;
    for (size_t i = 0; i < c->entries.count && !x; i++)
        if (c->entries.data[i]->training == training && c->entries.data[i]->count == count)
            x = c->entries.data[i];
    if (!c->arenas[piece])
        RUNG_TRY(rung_arena_create(c->output->device, &c->arenas[piece]));
    if (!x)
        RUNG_TRY(compile(e, training, count, &x));
    if (!x->instances[piece])
        RUNG_TRY(rungi_instance_create(x->plan, c->arenas[piece], c->state->grads, false,
                                       &x->instances[piece]));
    *out = x;
    return RUNG_OK;
}

rung_status rungi_criterion_plans(rungi_engine *e, bool training, int64_t count)
{
    rungi_criterion *c = e->criterion;
    c->by_shard = e->options.exact || e->rounds > 1;
    c->count = c->by_shard ? e->shards : 1;
    for (int i = 0; i < c->count; i++)
        if (!c->by_shard || e->now[i])
            RUNG_TRY(find(e, training, rungi_criterion_piece(e, count, i).count, i % e->slots,
                          &c->now[i]));
    return RUNG_OK;
}

rung_status rungi_engine_loss_plan(rungi_engine *e, bool training, int64_t count,
                                   const rung_plan **plan_out)
{
    RUNG_TRY(rungi_engine_prepare(e, training, count));
    *plan_out = e->criterion && e->graph->loss ? e->criterion->now[0]->plan : NULL;
    return RUNG_OK;
}

bool rungi_criterion_gradients(const rungi_criterion *c)
{
    for (int i = 0; i < c->model.n_out; i++)
        if (c->model.out[i].gradient)
            return true;
    return false;
}
