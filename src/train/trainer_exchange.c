// SPDX-License-Identifier: Apache-2.0
// What the ranks of a run exchanged: brought together at its end, as a table and as ranks.json.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fs.h"
#include "base/json.h"
#include "train/trainer.h"

enum { CLOCK_ROUNDS = 16, TABLE_ROWS = 12 };

void rungi_exchanged_fini(rungi_exchanged *e)
{
    free(e->rank);
    free(e->bucket);
    *e = (rungi_exchanged){0};
}

// Threads share a clock, and so do the processes of a machine: the monotonic one.
static rung_status compare_clocks(rung_trainer *t)
{
    const rungi_session *s = t->s;
    t->exchanged.clock = (rungi_clock_offset){0};
    return rungi_comm_local_size(s->comm) == s->ranks
               ? RUNG_OK
               : rungi_comm_clock_offset(s->comm, NULL, CLOCK_ROUNDS, &t->exchanged.clock);
}

static rungi_rank_numbers own_numbers(const rung_trainer *t)
{
    const rungi_window *w = &t->windows[RUNGI_WINDOW_FIT];
    return (rungi_rank_numbers){.steps = (double)w->steps,
                                .exposed = (double)w->ns[RUNGI_TIME_EXCHANGE],
                                .hidden = (double)w->hidden[RUNGI_TIME_EXCHANGE],
                                .moved = (double)rungi_comm_moved(t->s->comm),
                                .clock = (double)t->exchanged.clock.offset,
                                .clock_error = (double)t->exchanged.clock.error};
}

rung_status rungi_trainer_gather_exchange(rung_trainer *t)
{
    rungi_session *s = t->s;
    rungi_exchanged *e = &t->exchanged;
    const rungi_exchange *x = rungi_engine_exchange(s->engine);
    if (!x || s->ranks < 2)
        return RUNG_OK;
    rungi_windows_harvest(t);
    RUNG_TRY(compare_clocks(t));
    const rungi_bucket_log *log = rungi_exchange_log(x);
    size_t buckets = (size_t)rungi_bucket_log_buckets(log), ranks = (size_t)s->ranks;
    free(e->rank);
    free(e->bucket);
    e->rank = calloc(ranks, sizeof *e->rank);
    e->bucket = calloc(buckets + 1, sizeof *e->bucket);
    RUNG_CHECK(e->rank && e->bucket, RUNG_NO_MEMORY, "no memory for what was exchanged");
    e->rank[s->rank] = own_numbers(t);
    RUNG_TRY(rungi_comm_all_reduce(s->comm, e->rank, (int64_t)(ranks * sizeof *e->rank / 8),
                                   RUNG_F64, RUNGI_COMM_SUM, "what each rank exchanged"));
    memcpy(e->bucket, rungi_bucket_log_sums(log), buckets * sizeof *e->bucket);
    RUNG_TRY(rungi_comm_all_reduce(s->comm, e->bucket, (int64_t)(buckets * RUNGI_BUCKET_SUMS),
                                   RUNG_F64, RUNGI_COMM_SUM, "what became of the buckets"));
    e->ranks = s->ranks;
    e->buckets = (int)buckets;
    return RUNG_OK;
}

// ---- for people -------------------------------------------------------------------------------

// Mean over ranks and steps, times in ms.
static double mean(const rungi_exchanged *e, int bucket, int what)
{
    const double *sums = e->bucket[bucket];
    double unit = what == RUNGI_BUCKET_BYTES ? 1 : 1e-6;
    return sums[RUNGI_BUCKET_COUNT] > 0 ? sums[what] * unit / sums[RUNGI_BUCKET_COUNT] : NAN;
}

static double bandwidth(const rung_trainer *t, int bucket)
{
    const double *sums = t->exchanged.bucket[bucket];
    return rungi_bus_bandwidth(sums[RUNGI_BUCKET_BYTES], sums[RUNGI_BUCKET_MOVING],
                               t->exchanged.ranks, rungi_session_shards_optimizer(t->s));
}

static double per_step(double nanoseconds, const rungi_rank_numbers *r)
{
    return r->steps > 0 ? nanoseconds * 1e-6 / r->steps : 0;
}

static void add_row(const rung_trainer *t, int k, rungi_string *out)
{
    const rungi_exchanged *e = &t->exchanged;
    char bytes[32];
    rungi_string_add(
        out, "%8d %10s %8.3f %8.3f %8.3f %9.2f %8.3f %8.3f\n", k,
        rungi_text_bytes((uint64_t)mean(e, k, RUNGI_BUCKET_BYTES), bytes, sizeof bytes),
        mean(e, k, RUNGI_BUCKET_READY), mean(e, k, RUNGI_BUCKET_STARTED),
        mean(e, k, RUNGI_BUCKET_ENDED), bandwidth(t, k), mean(e, k, RUNGI_BUCKET_HIDDEN),
        mean(e, k, RUNGI_BUCKET_EXPOSED));
}

rung_status rung_trainer_exchange_text(const rung_trainer *t, char **text_out)
{
    const rungi_exchanged *e = &t->exchanged;
    rungi_string out = {0};
    *text_out = NULL;
    if (!e->ranks || !(e->rank[0].steps > 0) || !e->buckets)
        return RUNG_OK;
    bool any = false; // servers are given no buckets
    for (int k = 0; k < e->buckets; k++)
        any |= e->bucket[k][RUNGI_BUCKET_COUNT] > 0;
    if (any)
        rungi_string_add(
            &out,
            "buckets of gradients, mean of %d ranks: ms since a step's computing began, "
            "bus bandwidth, ms hidden by computing and not\n"
            "  bucket      bytes    ready    start      end  bus GB/s   hidden  exposed\n",
            e->ranks);
    for (int k = 0; k < e->buckets && k < TABLE_ROWS; k++)
        if (e->bucket[k][RUNGI_BUCKET_COUNT] > 0)
            add_row(t, k, &out);
    if (any && e->buckets > TABLE_ROWS)
        rungi_string_add(&out, "  and %d more, in ranks.json\n", e->buckets - TABLE_ROWS);
    int most = 0;
    for (int r = 1; r < e->ranks; r++)
        if (e->rank[r].exposed > e->rank[most].exposed)
            most = r;
    rungi_string_add(&out,
                     "exchange  a step exposes up to %.3f ms (rank %d), hides %.3f ms there; %.1f "
                     "MiB moved by each rank\n",
                     per_step(e->rank[most].exposed, &e->rank[most]), most,
                     per_step(e->rank[most].hidden, &e->rank[most]),
                     e->rank[most].moved / (1 << 20));
    if (out.failed) {
        rungi_string_fini(&out);
        return RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a text");
    }
    *text_out = out.data;
    return RUNG_OK;
}

// ---- ranks.json -------------------------------------------------------------------------------

static json_t *rank_json(const rung_trainer *t, const rungi_straggler *b, int r)
{
    const rungi_exchanged *e = &t->exchanged;
    double to_ms = 1e3 / (double)b->steps;
    json_t *o = json_object();
    json_object_set_new(o, "rank", json_integer(r));
    json_object_set_new(o, "wait_ms", rungi_json_real(b->sums[r][RUNGI_STRAGGLER_DATA] * to_ms));
    json_object_set_new(o, "compute_ms",
                        rungi_json_real(b->sums[r][RUNGI_STRAGGLER_COMPUTE] * to_ms));
    json_object_set_new(o, "link_ms", rungi_json_real(b->sums[r][RUNGI_STRAGGLER_LINK] * to_ms));
    if (!e->ranks)
        return o;
    const rungi_rank_numbers *n = &e->rank[r];
    json_object_set_new(o, "exposed_ms", rungi_json_real(per_step(n->exposed, n)));
    json_object_set_new(o, "hidden_ms", rungi_json_real(per_step(n->hidden, n)));
    json_object_set_new(o, "moved_bytes", json_integer((json_int_t)n->moved));
    json_object_set_new(o, "clock_offset_us", rungi_json_real(n->clock * 1e-3));
    json_object_set_new(o, "clock_error_us", rungi_json_real(n->clock_error * 1e-3));
    return o;
}

static json_t *bucket_json(const rung_trainer *t, int k)
{
    const rungi_exchanged *e = &t->exchanged;
    json_t *o = json_object();
    json_object_set_new(o, "bucket", json_integer(k));
    json_object_set_new(o, "bytes", json_integer((json_int_t)mean(e, k, RUNGI_BUCKET_BYTES)));
    json_object_set_new(o, "ready_ms", rungi_json_real(mean(e, k, RUNGI_BUCKET_READY)));
    json_object_set_new(o, "start_ms", rungi_json_real(mean(e, k, RUNGI_BUCKET_STARTED)));
    json_object_set_new(o, "end_ms", rungi_json_real(mean(e, k, RUNGI_BUCKET_ENDED)));
    json_object_set_new(o, "bus_gb_s", rungi_json_real(bandwidth(t, k)));
    json_object_set_new(o, "hidden_ms", rungi_json_real(mean(e, k, RUNGI_BUCKET_HIDDEN)));
    json_object_set_new(o, "exposed_ms", rungi_json_real(mean(e, k, RUNGI_BUCKET_EXPOSED)));
    return o;
}

static json_t *replicas_json(const rung_trainer *t, const rungi_straggler *b)
{
    json_t *o = json_object(), *ranks = json_array(), *buckets = json_array();
    for (int r = 0; r < b->ranks; r++)
        json_array_append_new(ranks, rank_json(t, b, r));
    for (int k = 0; k < t->exchanged.buckets; k++)
        if (t->exchanged.bucket[k][RUNGI_BUCKET_COUNT] > 0)
            json_array_append_new(buckets, bucket_json(t, k));
    json_object_set_new(o, "steps", json_integer(b->steps));
    json_object_set_new(o, "imbalance", rungi_json_real(rungi_straggler_imbalance(b)));
    json_object_set_new(o, "ranks", ranks);
    json_object_set_new(o, "buckets", buckets);
    return o;
}

rung_status rungi_trainer_write_ranks(const rung_trainer *t)
{
    const rungi_straggler *b = rungi_engine_balance(t->s->engine);
    json_t *o;
    if (rungi_engine_pipeline(t->s->engine)) {
        o = json_object();
        rungi_trainer_pipeline_json(t, o);
    } else if (b && b->steps)
        o = replicas_json(t, b);
    else
        return RUNG_OK;
    char *path = rungi_path_join(t->run, "ranks.json");
    rung_status status =
        path ? rungi_json_save(path, o) : RUNG_FAIL(RUNG_NO_MEMORY, "no memory for ranks.json");
    json_decref(o);
    free(path);
    return status;
}
