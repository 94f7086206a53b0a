// SPDX-License-Identifier: Apache-2.0
// What a user is told when training finds no memory: what holds it, and what would help.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "graph/history.h"
#include "train/fit.h"

enum { REMEDIES = 8, SHOWN = 3, TENSORS = 3 };

typedef struct remedy {
    char what[64]; // settings
    uint64_t peak;
    double cost; // share of time, and what else it costs: the cheapest come first
    char effect[48];
} remedy;

typedef struct remedies {
    remedy list[REMEDIES];
    int count;
    uint64_t now, limit; // bytes: as configured; of the device, 0: not known
} remedies;

static void add(remedies *r, const char *what, uint64_t peak, double cost, const char *effect)
{
    if (r->count == REMEDIES || peak >= r->now)
        return;
    remedy *m = &r->list[r->count++];
    *m = (remedy){.peak = peak, .cost = cost};
    snprintf(m->what, sizeof m->what, "%s", what);
    snprintf(m->effect, sizeof m->effect, "%s", effect);
}

static rung_status predict(const rungi_session *s, int64_t batch, const rungi_fit_what *what,
                           rungi_fit_prediction *out)
{
    return rungi_fit_predict_fullest(s, batch, what, out, NULL);
}

static bool fits(const remedies *r, uint64_t peak)
{
    return !r->limit || peak <= r->limit;
}

// The largest half, quarter, ... of the batch that fits, if it is larger than *batch_out, which it
// is stored to.
static rung_status add_batch(remedies *r, const rungi_session *s, int64_t batch, rung_fit_way way,
                             const char *with, double cost, int64_t *batch_out)
{
    rungi_fit_prediction row;
    char what[64];
    rungi_fit_what as = rungi_fit_configured(s, way);
    for (int64_t less = batch / 2; less > *batch_out; less /= 2) {
        RUNG_TRY(predict(s, less, &as, &row));
        if (!fits(r, row.bytes.total))
            continue;
        snprintf(what, sizeof what, "data.batch_size=%" PRId64 "%s",
                 less / s->c->gradients.accumulate, with);
        add(r, what, row.bytes.total, cost, "a smaller batch");
        *batch_out = less;
        break;
    }
    return RUNG_OK;
}

// A step's batch in twice, four times, ... as many rounds: the fewest that fit.
static rung_status add_rounds(remedies *r, const rungi_session *s, rung_fit_way way)
{
    int64_t rounds = rungi_engine_rounds(s->engine) * 2, batch = rungi_session_batch(s);
    for (; rounds <= batch && rounds <= 1024; rounds *= 2) {
        rungi_fit_prediction row;
        rungi_fit_what as = rungi_fit_configured(s, way);
        as.rounds = (int)rounds;
        RUNG_TRY(predict(s, batch, &as, &row));
        if (!fits(r, row.bytes.total) || batch % rounds)
            continue;
        char what[64];
        snprintf(what, sizeof what, "train.accumulate=%" PRId64 " data.batch_size=%" PRId64, rounds,
                 batch / rounds);
        add(r, what, row.bytes.total, 0.25,
            row.bytes.statistics ? "normalized by smaller batches" : "the same result");
        break;
    }
    return RUNG_OK;
}

static rung_status find_remedies(const rungi_session *s, int64_t batch, rung_fit_way way,
                                 remedies *r)
{
    rungi_fit_prediction row;
    char effect[48];
    rungi_fit_what what = rungi_fit_configured(s, way);
    if (!what.fuse) {
        what.fuse = true;
        RUNG_TRY(predict(s, batch, &what, &row));
        what.fuse = false;
        if (fits(r, row.bytes.total))
            add(r, "plan.fuse=true", row.bytes.total, -0.1, "no slower");
    }
    if (what.precision == RUNG_F32) {
        what.precision = RUNG_BF16;
        RUNG_TRY(predict(s, batch, &what, &row));
        what.precision = RUNG_F32;
        if (fits(r, row.bytes.total))
            add(r, "train.precision=bf16", row.bytes.total, 0.3, "other rounding");
    }
    if (way == RUNG_FIT_KEEP) {
        what.way = RUNG_FIT_CHEAP;
        RUNG_TRY(predict(s, batch, &what, &row));
        snprintf(effect, sizeof effect, "%.0f %% more time", row.extra * 100);
        if (fits(r, row.bytes.total))
            add(r, "memory.recompute=auto", row.bytes.total, row.extra, effect);
    }
    RUNG_TRY(add_rounds(r, s, way));
    int64_t smaller = 0;
    RUNG_TRY(add_batch(r, s, batch, way, "", 0.7, &smaller));
    return way != RUNG_FIT_KEEP
               ? RUNG_OK
               : add_batch(r, s, batch, RUNG_FIT_LEAST, " memory.recompute=auto", 0.5, &smaller);
}

static int by_cost(const void *a, const void *b)
{
    double x = ((const remedy *)a)->cost, y = ((const remedy *)b)->cost;
    return (x > y) - (x < y);
}

typedef struct part {
    uint64_t bytes;
    const char *name;
} part;

static int by_bytes(const void *a, const void *b)
{
    const part *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : strcmp(x->name, y->name);
}

// What the device would hold, largest first.
static void add_parts(const rung_fit_bytes *b, rungi_string *out)
{
    part parts[] = {{b->activations, "activations"},
                    {b->workspace, "workspace"},
                    {b->gradients, "gradients"},
                    {b->optimizer, "optimizer"},
                    {b->weights, "weights"},
                    {b->buffers + b->statistics, "statistics"},
                    {b->communication, "communication"}};
    size_t n = sizeof parts / sizeof *parts;
    qsort(parts, n, sizeof *parts, by_bytes);
    for (size_t i = 0; i < n && parts[i].bytes > 1; i++) {
        char bytes[32];
        rungi_string_add(out, "%s%s %s", i ? ", " : " (", parts[i].name,
                         rungi_text_bytes(parts[i].bytes, bytes, sizeof bytes));
    }
    rungi_string_add(out, ")");
}

static void add_tensors(const rung_plan *plan, rungi_string *out)
{
    rungi_held held[TENSORS];
    int n = rungi_plan_largest(plan, plan->peak_step, held, TENSORS);
    for (int i = 0; i < n; i++) {
        char shape[RUNG_SHAPE_TEXT], bytes[32];
        rungi_string_add(out, "%s%s %s %s (%s)",
                         i ? ", " : "; largest at the peak: ", held[i].layer,
                         rung_shape_text(&held[i].shape, shape, sizeof shape),
                         rungi_text_bytes(held[i].bytes, bytes, sizeof bytes),
                         rungi_memory_kind_name(held[i].kind));
    }
}

static void add_remedies(remedies *r, rungi_string *out)
{
    qsort(r->list, (size_t)r->count, sizeof *r->list, by_cost);
    for (int i = 0; i < r->count && i < SHOWN; i++) {
        char bytes[32];
        rungi_string_add(out, "%s%s (peak %s, %s)",
                         i ? ", or " : "; what would help: ", r->list[i].what,
                         rungi_text_bytes(r->list[i].peak, bytes, sizeof bytes), r->list[i].effect);
    }
}

static rung_status tell(const rungi_session *s, int64_t batch, rungi_string *out)
{
    rungi_fit_prediction row;
    rung_plan *plan;
    const rungi_texts *list = &s->c->memory.recompute;
    bool keeps = !list->count || strcmp(list->data[0], "auto") != 0;
    rung_fit_way way = keeps ? RUNG_FIT_KEEP : RUNG_FIT_LEAST;
    char now[32];
    rungi_fit_what what = rungi_fit_configured(s, way);
    RUNG_TRY(rungi_fit_predict_fullest(s, batch, &what, &row, &plan));
    remedies r = {.now = row.bytes.total, .limit = rung_device_memory(s->device).cap};
    if (s->c->memory.budget)
        r.limit = (uint64_t)s->c->memory.budget;
    rungi_string_add(out, "; a batch of %" PRId64 " takes %s of the %sdevice", batch,
                     rungi_text_bytes(row.bytes.total, now, sizeof now),
                     rungi_engine_devices(s->engine) > 1 ? "fullest " : "");
    add_parts(&row.bytes, out);
    if (plan)
        add_tensors(plan, out);
    rung_plan_destroy(&plan);
    RUNG_TRY(find_remedies(s, batch, way, &r));
    add_remedies(&r, out);
    return RUNG_OK;
}

rung_status rungi_session_no_memory(const rungi_session *s, int64_t batch, rung_status status)
{
    if (status != RUNG_NO_MEMORY || !s->engine)
        return status;
    rung_error error = *rung_error_last();
    rungi_string out = {0};
    rungi_string_add(&out, "%s", error.message);
    if (tell(s, batch, &out) == RUNG_OK && !out.failed)
        snprintf(error.message, sizeof error.message, "%s", rungi_string_text(&out));
    rungi_string_fini(&out);
    return rungi_fail_adopt(&error);
}
