// SPDX-License-Identifier: Apache-2.0
// The parameter server's life, and what its scheduler and servers do.
#include "comm/param_server.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/param_server_inside.h"

rungi_comm_part rungi_ps_range(int64_t size, int servers, int server)
{
    return rungi_comm_part_of(size, servers, server);
}

int rungi_ps_host(int ranks, int servers, int server)
{
    return (int)((int64_t)server * ranks / servers);
}

int rungi_ps_hosted(int ranks, int servers, int rank)
{
    for (int s = 0; s < servers; s++)
        if (rungi_ps_host(ranks, servers, s) == rank)
            return s;
    return -1;
}

// Floats of the largest range.
static int64_t room_of(int64_t size, int servers)
{
    return (rungi_ps_range(size, servers, 0).count + 15) / 16 * 16;
}

rungi_ps_memory rungi_ps_memory_of(int64_t size, int servers, int states)
{
    uint64_t range = (uint64_t)room_of(size, servers) * sizeof(float);
    return (rungi_ps_memory){range, range * (uint64_t)states, sizeof(rungi_ps_block)};
}

void *rungi_ps_own(rungi_ps *ps)
{
    return ps->own;
}

// ---- life -------------------------------------------------------------------------------------

static rung_status find_blocks(rungi_ps *ps, uint64_t bytes)
{
    void *at[RUNGI_PS_WORKERS];
    RUNG_TRY(rungi_comm_reach(ps->o.comm, ps->own, bytes, "places of the servers", at));
    for (int r = 0; r < ps->ranks; r++)
        ps->blocks[r] = at[r];
    return RUNG_OK;
}

static rung_status make(rungi_ps *ps)
{
    const rungi_ps_setup *o = &ps->o;
    RUNG_CHECK(ps->ranks <= RUNGI_PS_WORKERS, RUNG_UNSUPPORTED,
               "%d workers of a parameter server; at most %d work", ps->ranks, RUNGI_PS_WORKERS);
    RUNG_CHECK(o->servers >= 1 && o->servers <= ps->ranks, RUNG_INVALID,
               "%d servers for %d ranks: one lives with each rank at most", o->servers, ps->ranks);
    RUNG_CHECK(o->size >= 1 && o->states >= 0 && o->states <= RUNGI_PS_STATES, RUNG_INVALID,
               "a parameter server of %" PRId64 " floats with %d states", o->size, o->states);
    ps->room = room_of(o->size, o->servers);
    rungi_ps_memory m = rungi_ps_memory_of(o->size, o->servers, o->states);
    uint64_t bytes = m.weights + m.states + m.rest;
    ps->blocks = calloc((size_t)ps->ranks, sizeof(rungi_ps_block *));
    RUNG_CHECK(ps->blocks, RUNG_NO_MEMORY, "no memory for a parameter server");
    void *own;
    RUNG_TRY(rungi_comm_alloc(o->comm, bytes, "parameter server", &own));
    ps->own = own;
    RUNG_TRY(find_blocks(ps, bytes));
    return rungi_comm_local_size(o->comm) < ps->ranks ? rungi_ps_remote_create(ps) : RUNG_OK;
}

rung_status rungi_ps_create(const rungi_ps_setup *options, rungi_ps **ps_out)
{
    rungi_ps *ps = calloc(1, sizeof *ps);
    RUNG_CHECK(ps, RUNG_NO_MEMORY, "no memory for a parameter server");
    ps->o = *options;
    ps->rank = rungi_comm_rank(options->comm);
    ps->ranks = rungi_comm_size(options->comm);
    rung_status status = make(ps);
    if (status != RUNG_OK) {
        rungi_ps_destroy(&ps);
        return status;
    }
    *ps_out = ps;
    return RUNG_OK;
}

void rungi_ps_destroy(rungi_ps **ps)
{
    if (!ps || !*ps)
        return;
    rungi_ps *p = *ps;
    if (p->remote)
        rungi_ps_remote_destroy(p);
    rungi_comm_free(p->o.comm, p->own);
    free(p->blocks);
    free(p);
    *ps = NULL;
}

bool rungi_ps_is_near(const rungi_ps *ps, int server)
{
    return rungi_ps_block_of(ps, server) != NULL;
}

float *rungi_ps_state(const rungi_ps *ps, int server, int index)
{
    rungi_ps_block *block = rungi_ps_block_of(ps, server);
    return block ? block->floats + (index + 1) * ps->room : NULL;
}

bool rungi_ps_is_open(const rungi_ps *ps)
{
    return ps->open;
}

rung_status rungi_ps_open(rungi_ps *ps, const float *params, int64_t clock)
{
    int server = rungi_ps_hosted(ps->ranks, ps->o.servers, ps->rank);
    if (server >= 0) {
        rungi_comm_part range = rungi_ps_range_of(ps, server);
        memcpy(ps->own->floats, params + range.begin, (size_t)range.count * sizeof(float));
    }
    ps->clock = clock;
    if (ps->rank == 0) {
        rungi_ps_scheduler *s = &ps->own->scheduler;
        rungi_ps_set(&s->stop_at, 0);
        for (int w = 0; w < ps->ranks; w++) {
            rungi_ps_set(&s->workers[w].clock, clock);
            rungi_ps_set(&s->workers[w].begun, clock);
        }
    }
    if (ps->remote)
        RUNG_TRY(rungi_ps_remote_open(ps));
    RUNG_TRY(rungi_comm_barrier(ps->o.comm, "servers are ready"));
    ps->open = true;
    return RUNG_OK;
}

rung_status rungi_ps_serve(rungi_ps *ps)
{
    return ps->remote && ps->open ? rungi_ps_remote_serve(ps) : RUNG_OK;
}

// ---- the scheduler ----------------------------------------------------------------------------

static void count(rungi_ps_counts *c, int64_t value)
{
    int64_t at = value < RUNGI_PS_COUNTS - 1 ? value : RUNGI_PS_COUNTS - 1;
    rungi_ps_set(&c->count, rungi_ps_get(&c->count) + 1);
    rungi_ps_set(&c->sum, rungi_ps_get(&c->sum) + value);
    rungi_ps_set(&c->counts[at], rungi_ps_get(&c->counts[at]) + 1);
    if (value > rungi_ps_get(&c->most))
        rungi_ps_set(&c->most, value);
}

static int64_t slowest(const rungi_ps_scheduler *s, int workers)
{
    int64_t least = INT64_MAX;
    for (int w = 0; w < workers; w++) {
        int64_t clock = rungi_ps_get(&s->workers[w].clock);
        least = clock < least ? clock : least;
    }
    return least;
}

bool rungi_ps_all_at(const rungi_ps_scheduler *s, int workers, int64_t clock)
{
    return slowest(s, workers) >= clock;
}

rungi_ps_answer rungi_ps_schedule(rungi_ps_scheduler *s, const rungi_ps_setup *o, int workers,
                                  int worker, bool stop)
{
    rungi_ps_entry *own = &s->workers[worker];
    int64_t clock = rungi_ps_get(&own->clock), stop_at = rungi_ps_get(&s->stop_at);
    if (stop && !stop_at) {
        int64_t last = clock + 1;
        for (int w = 0; w < workers; w++) {
            int64_t begun = rungi_ps_get(&s->workers[w].begun);
            last = begun > last ? begun : last;
        }
        stop_at = last + 1;
        rungi_ps_set(&s->stop_at, stop_at);
    }
    if (stop_at && clock >= stop_at - 1)
        return RUNGI_PS_STOP;
    int64_t ahead = clock - slowest(s, workers);
    if (o->staleness >= 0 && ahead > o->staleness)
        return RUNGI_PS_WAIT;
    rungi_ps_set(&own->begun, clock + 1);
    rungi_ps_set(&own->pulled, rungi_ps_get(&s->pushes));
    count(&own->ahead, ahead);
    return RUNGI_PS_GO;
}

void rungi_ps_count(rungi_ps_scheduler *s, int worker, bool pushed, int64_t samples)
{
    rungi_ps_entry *own = &s->workers[worker];
    if (pushed) {
        int64_t before = rungi_ps_get(&s->pushes);
        count(&own->staleness, before - rungi_ps_get(&own->pulled));
        rungi_ps_set(&s->pushes, before + 1);
        rungi_ps_set(&own->pushes, rungi_ps_get(&own->pushes) + 1);
        rungi_ps_set(&own->samples, rungi_ps_get(&own->samples) + samples);
    }
    rungi_ps_set(&own->clock, rungi_ps_get(&own->clock) + 1);
}

int64_t rungi_ps_updates(const rungi_ps *ps)
{
    return ps->updates;
}

static void read_counts(const rungi_ps_counts *c, struct rungi_ps_distribution *out)
{
    out->count = rungi_ps_get(&c->count);
    out->sum = rungi_ps_get(&c->sum);
    out->most = rungi_ps_get(&c->most);
    for (int i = 0; i < RUNGI_PS_COUNTS; i++)
        out->counts[i] = rungi_ps_get(&c->counts[i]);
}

void rungi_ps_report(const rungi_ps *ps, int worker, rungi_ps_worker *out)
{
    const rungi_ps_entry *e = &rungi_ps_scheduler_of(ps)->workers[worker];
    *out = (rungi_ps_worker){.clock = rungi_ps_get(&e->clock),
                             .samples = rungi_ps_get(&e->samples),
                             .pushes = rungi_ps_get(&e->pushes)};
    read_counts(&e->staleness, &out->staleness);
    read_counts(&e->ahead, &out->ahead);
}

// ---- servers ----------------------------------------------------------------------------------

rung_status rungi_ps_apply(rungi_ps *ps, int server, const float *grads,
                           const rungi_ps_terms *terms)
{
    rungi_ps_block *block = rungi_ps_block_of(ps, server);
    int64_t updates = rungi_ps_get(&block->server.updates);
    RUNG_TRY(ps->o.update(ps->o.user, server, block->floats, grads, terms, updates));
    rungi_ps_set(&block->server.updates, updates + 1);
    return RUNG_OK;
}

void rungi_ps_copy(const rungi_ps *ps, int server, float *weights_out)
{
    memcpy(weights_out, rungi_ps_block_of(ps, server)->floats,
           (size_t)rungi_ps_range_of(ps, server).count * sizeof(float));
}
