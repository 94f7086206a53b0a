// SPDX-License-Identifier: Apache-2.0
// trace.json: the last spans of all ranks as a Chrome trace, for Perfetto or chrome://tracing. A
// rank is a process there, with a row for each queue and the buckets of gradients on rows of their
// own: one where none overlap. Times are those of rank 0's clock.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fs.h"
#include "train/trainer.h"

enum {
    SPANS = 1 << 16, // of a queue, of all ranks together
    LANES = 8,       // rows of buckets; what overlaps more is left out
    LANE = 16,       // number of the first one
};

typedef struct writer {
    rungi_string *out;
    int rank;
    int64_t begin; // of the trace, in this rank's clock
} writer;

static void add_name(const writer *w, const char *what, int row, const char *name)
{
    rungi_string_add(w->out,
                     "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,"
                     "\"args\":{\"name\":\"%s\"}},\n",
                     what, w->rank, row, name);
}

static void add_order(const writer *w, int row)
{
    rungi_string_add(w->out,
                     "{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":%d,\"tid\":%d,"
                     "\"args\":{\"sort_index\":%d}},\n",
                     w->rank, row, row);
}

static void add_span(const writer *w, const char *name, int row, int64_t begin, int64_t end,
                     int64_t step)
{
    rungi_string_add(w->out,
                     "{\"ph\":\"X\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,"
                     "\"dur\":%.3f,\"args\":{\"step\":%" PRId64,
                     name, w->rank, row, (double)(begin - w->begin) * 1e-3,
                     (double)(end - begin) * 1e-3, step);
}

static void add_queues(const writer *w, const rungi_timeline *t, int64_t most)
{
    static const char *const queues[] = {"compute", "exchange", "copy", "host"};
    for (int q = 0; q < RUNGI_QUEUE_LINK; q++) {
        int64_t count = rungi_timeline_count(t, (rungi_queue)q);
        add_name(w, "thread_name", q, queues[q]);
        add_order(w, q);
        for (int64_t i = count > most ? count - most : 0; i < count; i++) {
            rungi_span s = rungi_timeline_span(t, (rungi_queue)q, i);
            add_span(w, rungi_category_name(s.category), q, s.begin, s.end, s.step);
            rungi_string_add(w->out, "}},\n");
        }
    }
}

static void add_buckets(const writer *w, const rungi_bucket_log *log, int64_t most)
{
    int64_t count = rungi_bucket_log_count(log), busy[LANES];
    int lanes = 0;
    for (int64_t i = count > most ? count - most : 0; i < count; i++) {
        rungi_bucket_span s = rungi_bucket_log_span(log, i);
        char name[32];
        int lane = 0;
        while (lane < lanes && busy[lane] > s.started)
            lane++;
        if (lane == LANES)
            continue;
        if (lane == lanes) {
            add_name(w, "thread_name", LANE + lane, "communication");
            add_order(w, LANE + lane);
            lanes++;
        }
        busy[lane] = s.ended;
        snprintf(name, sizeof name, "bucket %d", s.bucket);
        add_span(w, name, LANE + lane, s.started, s.ended, s.step);
        rungi_string_add(w->out, ",\"bytes\":%" PRIu64 ",\"ready_us\":%.3f,\"met_us\":%.3f}},\n",
                         s.bytes, (double)(s.ready - w->begin) * 1e-3,
                         (double)(s.met - w->begin) * 1e-3);
    }
}

// This rank's events. `offset`: from its clock to rank 0's, by which the trace begins at `begin`.
static void describe(const rung_trainer *t, int64_t begin, int64_t offset, rungi_string *out)
{
    const rungi_exchange *x = rungi_engine_exchange(t->s->engine);
    writer w = {.out = out, .rank = t->s->rank, .begin = begin - offset};
    char name[96];
    snprintf(name, sizeof name, "rank %d, %s", t->s->rank, rung_device_name(t->s->device));
    add_name(&w, "process_name", 0, t->s->comm ? name : "rung");
    add_queues(&w, t->s->timeline, SPANS / t->s->ranks);
    if (x)
        add_buckets(&w, rungi_exchange_log(x), SPANS / t->s->ranks);
}

rung_status rungi_trainer_gather_trace(rung_trainer *t)
{
    rungi_session *s = t->s;
    int64_t begin = t->began + t->exchanged.clock.offset; // of the first rank
    rungi_string own = {0};
    void *all = NULL;
    uint64_t *offsets = NULL;
    if (!s->comm || !t->run)
        return RUNG_OK;
    RUNG_TRY(rungi_comm_all_reduce(s->comm, &begin, 1, RUNG_I64, RUNGI_COMM_MIN,
                                   "when the trace begins"));
    offsets = calloc((size_t)s->ranks + 1, sizeof *offsets);
    describe(t, begin, t->exchanged.clock.offset, &own);
    rung_status status = RUNG_OK;
    if (!offsets || own.failed)
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for trace.json");
    if (status == RUNG_OK)
        status = rungi_comm_gather_objects(s->comm, rungi_string_text(&own), own.size, "timelines",
                                           &all, offsets);
    if (status == RUNG_OK && s->rank == 0) {
        t->trace.size = 0;
        rungi_string_append(&t->trace, all, offsets[s->ranks]);
        if (t->trace.failed)
            status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for trace.json");
    }
    rungi_string_fini(&own);
    free(all);
    free(offsets);
    return status;
}

rung_status rungi_trainer_write_trace(const rung_trainer *t)
{
    rungi_string out = {0};
    rungi_string_add(&out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    if (t->trace.size) // of all ranks
        rungi_string_append(&out, t->trace.data, t->trace.size);
    else
        describe(t, t->began, 0, &out);
    while (out.size && (out.data[out.size - 1] == '\n' || out.data[out.size - 1] == ','))
        out.size--;
    rungi_string_add(&out, "\n]}\n");
    char *path = rungi_path_join(t->run, "trace.json");
    rung_status status = out.failed || !path ? RUNG_FAIL(RUNG_NO_MEMORY, "no memory for trace.json")
                                             : rungi_fs_write(path, out.data, out.size);
    free(path);
    rungi_string_fini(&out);
    return status;
}
