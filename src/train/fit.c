// SPDX-License-Identifier: Apache-2.0
#include "train/fit.h"

#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/error.h"
#include "data/source.h"
#include "measure/resident.h"
#include "optim/optimizer.h"
#include "train/session_stages.h"
#include "train/shards.h"

const char *rung_fit_way_name(rung_fit_way way)
{
    static const char *const names[] = {"keep", "recompute", "recompute most"};
    return names[way];
}

// ---- one prediction ---------------------------------------------------------------------------

// How a step's batch is cut on one rank.
typedef struct cut {
    int64_t batches[2]; // of an epoch: full, and last or 0
    int rounds, slots;  // see engine.h
    int stored;         // of a round's slots those whose gradients are kept apart
    int total;          // parts, of all ranks and devices
    bool exact;
    const rungi_engine *engine;
} cut;

static rung_status make_plan(const rungi_session *s, bool training, int64_t count,
                             const rungi_fit_what *what, bool adds, rung_plan **plan_out)
{
    rung_compile_options o = rungi_engine_plan_options(s->engine, training, count);
    o.plan_only = true;
    o.fuse = what->fuse;
    o.precision = what->precision;
    o.accumulate = adds;
    o.arena = NULL;
    o.recompute = what->way == RUNG_FIT_KEEP ? RUNG_RECOMPUTE_NONE : RUNG_RECOMPUTE_AUTO;
    o.budget = what->way == RUNG_FIT_LEAST ? 1 : 0;
    return rung_compile(s->graph, s->state, &o, plan_out);
}

// Arena of a plan that is made for that alone.
static rung_status arena_of(const rungi_session *s, bool training, int64_t count,
                            const rungi_fit_what *what, bool adds, uint64_t *arena)
{
    rung_plan *plan;
    RUNG_TRY(make_plan(s, training, count, what, adds, &plan));
    uint64_t needed = rung_plan_memory_use(plan).arena;
    *arena = needed > *arena ? needed : *arena;
    rung_plan_destroy(&plan);
    return RUNG_OK;
}

// Plans that steps on these batches need, and the places of a round that have an instance of each.
typedef struct plans {
    int count;
    struct {
        int64_t size;
        bool adds, used[RUNGI_MAX_SHARDS];
    } of[8]; // two sizes of a batch, plain and adding
} plans;

static void note_plan(plans *p, int64_t size, bool adds, int slot)
{
    int i = 0;
    while (i < p->count && (p->of[i].size != size || p->of[i].adds != adds))
        i++;
    if (i == p->count) {
        p->count++;
        p->of[i].size = size;
        p->of[i].adds = adds;
        p->of[i].used[0] = true; // the plan's own
    }
    p->of[i].used[slot] = true;
}

// Does own shard k add to gradients that are there?
static bool adds_to_others(const cut *c, int k)
{
    return c->exact ? rungi_engine_adds(c->engine, k % c->slots) : k > 0;
}

// Workers that have a shard which adds. Each has neighbouring ones.
static int workers_that_add(const cut *c, int workers)
{
    int count = 0;
    if (!c->exact)
        return c->rounds > 1 ? workers : 0;
    for (int w = 0; w < workers; w++) {
        rungi_shard part = rungi_shard_of(c->slots, workers, w);
        bool any = false;
        for (int64_t k = part.begin; k < part.begin + part.count; k++)
            any |= rungi_engine_adds(c->engine, (int)k);
        count += any;
    }
    return count;
}

// Statistics that instances keep, `bytes` each, and those of a step's rounds beside each other.
static uint64_t all_statistics(const cut *c, int ranks, uint64_t bytes)
{
    static const plans none;
    plans p = none;
    uint64_t sum = 0;
    int shards = c->slots * c->rounds;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < shards; k++) {
            int64_t size = rungi_shard_of(c->batches[i], c->total, k).count;
            if (size)
                note_plan(&p, size, adds_to_others(c, k), k % c->slots);
        }
    for (int i = 0; i < p.count; i++)
        for (int k = 0; k < c->slots; k++)
            sum += p.of[i].used[k] ? bytes : 0;
    return sum + (c->rounds > 1 && ranks == 1 ? bytes * (uint64_t)c->total : 0);
}

static uint64_t loader_bytes(const rungi_session *s, int64_t batch)
{
    uint64_t bytes = 0;
    rung_loader *loaders[] = {s->train_loader, s->val_loader};
    for (int i = 0; i < 2; i++) {
        rung_loader_info info;
        if (!loaders[i])
            continue;
        rung_loader_describe(loaders[i], &info);
        for (int f = 0; f < info.field_count; f++)
            bytes += (uint64_t)info.slots * (uint64_t)batch * rungi_field_bytes(&info.fields[f]);
    }
    return bytes;
}

rungi_fit_what rungi_fit_configured(const rungi_session *s, rung_fit_way way)
{
    return (rungi_fit_what){way, s->c->precision.dtype, s->c->plan.fuse,
                            rungi_engine_rounds(s->engine)};
}

rung_status rungi_fit_predict(const rungi_session *s, int64_t batch, const rungi_fit_what *what,
                              rung_fit_row *row, rung_plan **plan_out)
{
    int ranks = s->ranks > 1 && !s->stages ? s->ranks : 1;
    // Stages have more micro-batches instead of rounds.
    int micro = s->stages ? s->stages->micro * what->rounds : 0;
    bool apart = micro > 1; // gradients of micro-batches, to be added
    int64_t epoch = s->train_source ? s->train_source->count : batch;
    cut c = {.engine = s->engine,
             .batches = {batch < epoch ? batch : epoch, s->c->data.drop_last ? 0 : epoch % batch},
             .rounds = s->stages ? 1 : what->rounds,
             .slots = rungi_session_own_shards(s),
             .total = s->stages ? micro : rungi_session_shards(s) * what->rounds,
             .exact = s->c->exact};
    for (int k = 0; k < c.slots; k++)
        c.stored += !c.exact || !rungi_engine_adds(s->engine, k);
    int64_t most = rungi_shard_of(c.batches[0], c.total, 0).count;
    uint64_t flat = (uint64_t)s->state->flat_size * sizeof(float);
    rung_optimizer_options optimizer = rungi_config_optimizer(s->c);
    rung_plan *plan = NULL;
    *row = (rung_fit_row){
        .batch = batch, .precision = what->precision, .way = what->way, .seconds = NAN};
    RUNG_TRY(make_plan(s, true, most, what, false, &plan));
    rung_plan_memory m = rung_plan_memory_use(plan);
    uint64_t arena = m.arena;
    rung_status status = RUNG_OK;
    if (s->val_loader && s->c->train.eval_every != RUNGI_NEVER)
        status = arena_of(s, false, most, what, false, &arena);
    uint64_t adding = arena; // of a worker some of whose shards add
    if (status == RUNG_OK && (c.exact ? c.stored < c.slots : c.rounds > 1))
        status = arena_of(s, true, most, what, true, &adding);
    if (status != RUNG_OK) {
        rung_plan_destroy(&plan);
        return status;
    }
    uint64_t workers = (uint64_t)rungi_engine_width(s->engine);
    uint64_t adders = (uint64_t)workers_that_add(&c, (int)workers);
    int again;
    rung_plan_recomputed(plan, &again, &row->extra);
    row->weights = flat;
    row->buffers = m.buffers ? m.buffers : 1; // the least that is allocated
    int levels = c.exact ? rungi_tree_levels(what->rounds) * rungi_tree_branches(c.slots) : 0;
    row->gradients = flat * (uint64_t)(c.stored + apart + levels);
    row->optimizer = flat * (uint64_t)rungi_optimizer_states(&optimizer);
    row->workspace = workers * m.peak_workspace;
    row->activations = (workers - adders) * arena + adders * adding - row->workspace;
    row->statistics = all_statistics(&c, ranks, m.statistics);
    row->peak = row->weights + row->buffers + row->gradients + row->optimizer + row->activations +
                row->workspace + row->statistics;
    row->loader = loader_bytes(s, batch);
    *plan_out = plan;
    return RUNG_OK;
}

// ---- the table --------------------------------------------------------------------------------

typedef struct fitter {
    rungi_session *s;
    const rung_fit_options *o;
    rung_fit *fit;
    rungi_fit_times times[RUNG_FIT_PRECISIONS];
    uint64_t base; // resident before arenas and loaders
    size_t room;
} fitter;

static rungi_fit_what what_of(const fitter *f, int precision, rung_fit_way way)
{
    return (rungi_fit_what){way, f->fit->precisions[precision], f->s->c->plan.fuse,
                            rungi_engine_rounds(f->s->engine)};
}

// The fewest rounds in which the batch fits, twice as many each time as are configured.
static rung_status find_rounds(const fitter *f, rung_fit_row *row)
{
    int64_t most = row->batch < RUNGI_MAX_SHARDS / rungi_engine_round_shards(f->s->engine)
                       ? row->batch
                       : RUNGI_MAX_SHARDS / rungi_engine_round_shards(f->s->engine);
    bool fits = row->fits;
    for (int64_t rounds = rungi_engine_rounds(f->s->engine); rounds <= most; rounds *= 2) {
        rung_fit_row with = *row;
        rung_plan *plan;
        if (!fits) {
            rungi_fit_what what = {row->way, row->precision, f->s->c->plan.fuse, (int)rounds};
            RUNG_TRY(rungi_fit_predict(f->s, row->batch, &what, &with, &plan));
            rung_plan_destroy(&plan);
            fits = with.peak <= f->fit->memory;
        }
        if (fits) {
            row->accumulate = rounds;
            break;
        }
    }
    return RUNG_OK;
}

static rung_status predict(fitter *f, int64_t batch, int precision, rung_fit_way way,
                           rung_fit_row *row)
{
    rung_plan *plan;
    rungi_fit_what what = what_of(f, precision, way);
    const rungi_fit_times *times = &f->times[precision];
    RUNG_TRY(rungi_fit_predict(f->s, batch, &what, row, &plan));
    row->fits = row->peak <= f->fit->memory;
    // Weights and what is as large are resident already.
    row->resident = f->base + row->activations + row->workspace + row->statistics + row->loader;
    if (!f->o->no_times) {
        double shards = rungi_engine_round_shards(f->s->engine);
        double workers = rungi_engine_width(f->s->engine);
        row->seconds = rungi_fit_seconds(times, plan) * ceil(shards / workers) * what.rounds +
                       times->optimizer;
    }
    rung_plan_destroy(&plan);
    return find_rounds(f, row);
}

static rung_status add_batch(fitter *f, int64_t batch, bool *any_fits)
{
    rung_fit *fit = f->fit;
    *any_fits = false;
    for (int i = 0; i < RUNG_FIT_PRECISIONS * RUNG_FIT_WAYS; i++) {
        if ((size_t)fit->count == f->room) {
            f->room = f->room ? f->room * 2 : 16;
            rung_fit_row *rows = reallocarray(fit->rows, f->room, sizeof *rows);
            RUNG_CHECK(rows, RUNG_NO_MEMORY, "no memory for a fit");
            fit->rows = rows;
        }
        rung_fit_row *row = &fit->rows[fit->count];
        RUNG_TRY(predict(f, batch, i / RUNG_FIT_WAYS, (rung_fit_way)(i % RUNG_FIT_WAYS), row));
        *any_fits |= row->fits;
        fit->count++;
    }
    return RUNG_OK;
}

// Stores to *low or *high whether a batch fits.
static rung_status try_batch(fitter *f, const rungi_fit_what *what, int64_t batch, int64_t *low,
                             int64_t *high)
{
    rung_fit_row row;
    rung_plan *plan;
    RUNG_TRY(rungi_fit_predict(f->s, batch, what, &row, &plan));
    rung_plan_destroy(&plan);
    *(row.peak <= f->fit->memory ? low : high) = batch;
    return RUNG_OK;
}

// The largest batch that fits, between one that does and one that does not.
static rung_status find_largest(fitter *f, int precision, rung_fit_way way)
{
    enum { MOST = 1 << 20 };
    int64_t low = 0, high = 0;
    rungi_fit_what what = what_of(f, precision, way);
    for (int64_t i = 0; i < f->fit->count; i++) {
        const rung_fit_row *row = &f->fit->rows[i];
        bool same = row->way == way && row->precision == what.precision;
        if (same && row->fits && row->batch > low)
            low = row->batch;
    }
    for (int64_t i = 0; i < f->fit->count; i++) {
        const rung_fit_row *row = &f->fit->rows[i];
        bool same = row->way == way && row->precision == what.precision;
        if (same && !row->fits && row->batch > low && (!high || row->batch < high))
            high = row->batch;
    }
    while (!f->o->n_batches && !high && low < MOST)
        RUNG_TRY(try_batch(f, &what, low ? low * 2 : 1, &low, &high));
    // To about one in a hundred.
    while (!f->o->n_batches && high - low > 1 && high - low > low / 100)
        RUNG_TRY(try_batch(f, &what, low + (high - low) / 2, &low, &high));
    f->fit->largest[precision][way] = low;
    return RUNG_OK;
}

// Bytes that the system could give a new process; 0 where it does not tell.
static uint64_t available(void)
{
    char line[128];
    unsigned long long kb = 0;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu kB", &kb) == 1)
            break;
    if (file)
        fclose(file);
    return (uint64_t)kb * 1024;
}

// Times the operators; without times on two samples, for what libraries keep once they have
// computed, which the process has resident from then on.
static rung_status measure(fitter *f)
{
    const int64_t most = f->o->no_times ? 2 : 32; // enough for kernels to show their speed
    int64_t batch = rungi_session_batch(f->s) < most ? rungi_session_batch(f->s) : most;
    int64_t begin = rungi_now(f->s->context);
    for (int i = 0; i < RUNG_FIT_PRECISIONS; i++) {
        rung_fit_row row;
        rung_plan *plan;
        rungi_fit_what what = what_of(f, i, RUNG_FIT_KEEP);
        RUNG_TRY(rungi_fit_predict(f->s, batch, &what, &row, &plan));
        rung_status status = rungi_fit_measure(f->s, plan, &f->times[i]);
        rung_plan_destroy(&plan);
        RUNG_TRY(status);
        if (f->o->no_times)
            break; // the libraries have been used
    }
    f->fit->measured_seconds = (double)(rungi_now(f->s->context) - begin) * 1e-9;
    return RUNG_OK;
}

static rung_status fill(fitter *f)
{
    enum { HALVES = 3, DOUBLES = 6 };

    bool fits = true;
    int64_t batch = rungi_session_batch(f->s);
    for (int i = 0; i < f->o->n_batches; i++)
        RUNG_TRY(add_batch(f, f->o->batches[i], &fits));
    for (int i = 0; i < HALVES && batch % 2 == 0; i++)
        batch /= 2;
    for (int i = 0; !f->o->n_batches && i < HALVES + DOUBLES && fits; i++, batch *= 2)
        RUNG_TRY(add_batch(f, batch, &fits));
    for (int i = 0; i < RUNG_FIT_PRECISIONS * RUNG_FIT_WAYS; i++)
        RUNG_TRY(find_largest(f, i / RUNG_FIT_WAYS, (rung_fit_way)(i % RUNG_FIT_WAYS)));
    return RUNG_OK;
}

static rung_status run(fitter *f, rung_context *context, const rung_config *config)
{
    const rungi_train_config *given = rungi_config_values(config);
    RUNG_CHECK(given->train.ranks == 1 && given->train.strategy != RUNGI_STRATEGY_PIPELINE,
               RUNG_UNSUPPORTED,
               "fit looks at one rank: give train.strategy=single and a rank's batch");
    RUNG_TRY(rungi_session_create(context, config,
                                  &(rungi_session_options){.parts = RUNGI_SESSION_ALL}, &f->s));
    rung_fit *fit = f->fit;
    const rungi_train_config *c = f->s->c;
    RUNG_CHECK(rungi_train_devices(c) == 1, RUNG_UNSUPPORTED,
               "fit looks at one device: give train.strategy=single and a device's batch");
    snprintf(fit->model, sizeof fit->model, "%s", c->model.name);
    snprintf(fit->device, sizeof fit->device, "%s", rung_device_name(f->s->device));
    fit->precisions[1] = c->precision.dtype == RUNG_F16 ? RUNG_F16 : RUNG_BF16;
    fit->batch = rungi_session_batch(f->s);
    fit->threads = rung_device_threads(f->s->device);
    fit->memory = f->o->memory       ? f->o->memory
                  : c->memory.budget ? (uint64_t)c->memory.budget
                                     : available() + rungi_resident();
    RUNG_TRY(measure(f));
    malloc_trim(0);
    f->base = rungi_resident();
    return fill(f);
}

rung_status rung_fit_run(rung_context *context, const rung_config *config,
                         const rung_fit_options *options, rung_fit *fit_out)
{
    rung_fit fit = {0};
    fitter f = {.o = options, .fit = &fit};
    rung_status status = run(&f, context, config);
    rung_error error = *rung_error_last();
    rungi_session_destroy(&f.s);
    for (int i = 0; i < RUNG_FIT_PRECISIONS; i++)
        rungi_array_fini(&f.times[i].list);
    if (status != RUNG_OK) {
        rung_fit_fini(&fit);
        return rungi_fail_adopt(&error);
    }
    *fit_out = fit;
    return RUNG_OK;
}

void rung_fit_fini(rung_fit *fit)
{
    free(fit->rows);
    *fit = (rung_fit){0};
}
