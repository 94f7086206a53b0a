// SPDX-License-Identifier: Apache-2.0
#include "train/fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/error.h"
#include "measure/resident.h"
#include "train/fit_group.h"
#include "train/session_stages.h"

const char *rung_fit_way_name(rung_fit_way way)
{
    static const char *const names[] = {"keep", "recompute", "recompute most"};
    return names[way];
}

typedef struct fitter {
    rungi_fit_group group;
    const rung_fit_options *o;
    rung_fit *fit;
    uint64_t base; // resident before arenas and loaders
    size_t room;
} fitter;

static const rungi_session *first_of(const fitter *f)
{
    return f->group.sessions[0];
}

static rungi_fit_what what_of(const fitter *f, int precision, rung_fit_way way)
{
    rungi_fit_what what = rungi_fit_configured(first_of(f), way);
    what.precision = f->fit->precisions[precision];
    return what;
}

// ---- rows -------------------------------------------------------------------------------------

// Fills a row's prediction, or says that training refuses the batch.
static rung_status look(const fitter *f, int64_t batch, const rungi_fit_what *what,
                        const rungi_fit_times *times, rung_fit_bytes *bytes, rung_fit_row *row)
{
    rung_status status = rungi_fit_group_predict(&f->group, batch, what, times, bytes, row);
    row->fits = status == RUNG_OK && row->peak <= f->fit->memory;
    if (status != RUNG_INVALID)
        return status;
    *row = (rung_fit_row){.batch = batch,
                          .precision = what->precision,
                          .way = what->way,
                          .seconds = NAN,
                          .refused = true};
    return RUNG_OK;
}

static int64_t most_rounds(const fitter *f, int64_t batch)
{
    int64_t shards = rungi_fit_parts(first_of(f)) / rungi_engine_rounds(first_of(f)->engine);
    return batch < RUNGI_MAX_SHARDS / shards ? batch : RUNGI_MAX_SHARDS / shards;
}

// The fewest rounds in which the batch fits, twice as many each time as are configured.
static rung_status find_rounds(const fitter *f, rung_fit_row *row)
{
    bool fits = row->fits;
    int64_t most = most_rounds(f, row->batch);
    for (int64_t rounds = rungi_engine_rounds(first_of(f)->engine); rounds <= most; rounds *= 2) {
        rungi_fit_what what = rungi_fit_configured(first_of(f), row->way);
        rung_fit_row with = *row;
        what.precision = row->precision;
        what.rounds = (int)rounds;
        if (!fits) {
            RUNG_TRY(look(f, row->batch, &what, NULL, NULL, &with));
            fits = with.fits;
        }
        if (fits) {
            row->accumulate = rounds;
            break;
        }
    }
    return RUNG_OK;
}

static rung_status predict(fitter *f, int64_t batch, int precision, rung_fit_way way,
                           rung_fit_row *row, rung_fit_bytes *bytes)
{
    rungi_fit_what what = what_of(f, precision, way);
    const rungi_fit_times *times = f->o->no_times ? NULL : f->group.times[precision];
    *row = (rung_fit_row){.batch = batch, .precision = what.precision, .way = way, .seconds = NAN};
    RUNG_TRY(look(f, batch, &what, times, bytes, row));
    if ((row->refused || row->left_out) && !*f->fit->refusal)
        snprintf(f->fit->refusal, sizeof f->fit->refusal, "%s", rung_error_last()->message);
    if (row->refused) {
        memset(bytes, 0, (size_t)f->fit->device_count * sizeof *bytes);
        return RUNG_OK;
    }
    // Weights and what is as large are resident already.
    row->resident = f->base + row->loader;
    for (int d = 0; d < f->fit->device_count; d++)
        row->resident += bytes[d].activations + bytes[d].workspace + bytes[d].statistics;
    return find_rounds(f, row);
}

static rung_status reserve(fitter *f)
{
    rung_fit *fit = f->fit;
    if ((size_t)fit->count < f->room)
        return RUNG_OK;
    size_t room = f->room ? f->room * 2 : 16;
    rung_fit_row *rows = reallocarray(fit->rows, room, sizeof *rows);
    if (rows)
        fit->rows = rows;
    rung_fit_bytes *bytes =
        reallocarray(fit->bytes, room * (size_t)fit->device_count, sizeof *bytes);
    if (bytes)
        fit->bytes = bytes;
    RUNG_CHECK(rows && bytes, RUNG_NO_MEMORY, "no memory for a fit");
    f->room = room;
    return RUNG_OK;
}

static rung_status add_batch(fitter *f, int64_t batch, bool *any_fits)
{
    rung_fit *fit = f->fit;
    *any_fits = false;
    for (int i = 0; i < RUNG_FIT_PRECISIONS * RUNG_FIT_WAYS; i++) {
        RUNG_TRY(reserve(f));
        rung_fit_row *row = &fit->rows[fit->count];
        RUNG_TRY(predict(f, batch, i / RUNG_FIT_WAYS, (rung_fit_way)(i % RUNG_FIT_WAYS), row,
                         fit->bytes + fit->count * fit->device_count));
        *any_fits |= row->fits || row->refused; // larger ones may be taken
        fit->count++;
    }
    return RUNG_OK;
}

// ---- the largest batch ------------------------------------------------------------------------

// Stores to *low or *high whether a batch fits, to *low and *refused that it is too small.
static rung_status try_batch(fitter *f, const rungi_fit_what *what, int64_t batch, int64_t *low,
                             int64_t *high, int64_t *refused)
{
    rung_fit_row row = {.refused = false};
    RUNG_TRY(look(f, batch, what, NULL, NULL, &row));
    *(row.fits || row.refused ? low : high) = batch;
    if (row.refused)
        *refused = batch;
    return RUNG_OK;
}

// The largest batch that fits, between one that does and one that does not.
static rung_status find_largest(fitter *f, int precision, rung_fit_way way)
{
    enum { MOST = 1 << 20 };
    int64_t low = 0, high = 0, refused = 0;
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
        if (same && !row->fits && !row->refused && row->batch > low && (!high || row->batch < high))
            high = row->batch;
    }
    while (!f->o->n_batches && !high && low < MOST)
        RUNG_TRY(try_batch(f, &what, low ? low * 2 : 1, &low, &high, &refused));
    // To about one in a hundred.
    while (!f->o->n_batches && high - low > 1 && high - low > low / 100)
        RUNG_TRY(try_batch(f, &what, low + (high - low) / 2, &low, &high, &refused));
    f->fit->largest[precision][way] = low > refused ? low : 0;
    return RUNG_OK;
}

// ---- all of it --------------------------------------------------------------------------------

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

// Times the operators; without times on few samples, for what libraries keep once they have
// computed, which the process has resident from then on.
static rung_status measure(fitter *f)
{
    const rungi_session *s = first_of(f);
    int64_t batch, begin = rungi_now(s->context);
    RUNG_TRY(rungi_fit_sample(&f->group, !f->o->no_times, &batch));
    for (int i = 0; i < RUNG_FIT_PRECISIONS; i++) {
        rungi_fit_what what = what_of(f, i, RUNG_FIT_KEEP);
        what.full_only = true;
        RUNG_TRY(rungi_fit_group_measure(&f->group, batch, &what, i));
        if (f->o->no_times)
            break; // the libraries have been used
    }
    f->fit->measured_seconds = (double)(rungi_now(s->context) - begin) * 1e-9;
    return RUNG_OK;
}

static rung_status fill(fitter *f)
{
    enum { HALVES = 3, DOUBLES = 6 };

    bool fits = true;
    int64_t batch = rungi_session_batch(first_of(f));
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

static rung_status list_devices(const fitter *f)
{
    rung_fit *fit = f->fit;
    fit->device_count = rungi_fit_group_devices(&f->group);
    fit->devices = calloc((size_t)fit->device_count, sizeof *fit->devices);
    RUNG_CHECK(fit->devices, RUNG_NO_MEMORY, "no memory for a fit");
    int at = 0;
    for (int r = 0; r < f->group.ranks; r++)
        for (int d = 0; d < rungi_engine_devices(f->group.sessions[r]->engine); d++)
            rungi_fit_describe(f->group.sessions[r], d, &fit->devices[at++]);
    return RUNG_OK;
}

static rung_status run(fitter *f, rung_context *context, const rung_config *config)
{
    RUNG_TRY(rungi_fit_group_create(context, config, &f->group));
    rung_fit *fit = f->fit;
    const rungi_session *s = first_of(f);
    const rungi_train_config *c = s->c;
    RUNG_TRY(list_devices(f));
    snprintf(fit->model, sizeof fit->model, "%s", c->model.name);
    snprintf(fit->device, sizeof fit->device, "%s", rung_device_name(s->device));
    snprintf(fit->strategy, sizeof fit->strategy, "%s", rungi_config_strategy_name(c, s->ranks));
    fit->precisions[1] = c->precision.dtype == RUNG_F16 ? RUNG_F16 : RUNG_BF16;
    fit->batch = rungi_session_batch(s);
    fit->threads = rung_device_threads(s->device);
    fit->memory = f->o->memory ? f->o->memory
                  : c->memory.budget
                      ? (uint64_t)c->memory.budget
                      : (available() + rungi_resident()) / (uint64_t)fit->device_count;
    RUNG_TRY(measure(f));
    RUNG_TRY(rungi_fit_base(&f->group, &f->base));
    return fill(f);
}

rung_status rung_fit_run(rung_context *context, const rung_config *config,
                         const rung_fit_options *options, rung_fit *fit_out)
{
    rung_fit fit = {0};
    fitter f = {.o = options, .fit = &fit};
    rung_status status = run(&f, context, config);
    rung_error error = *rung_error_last();
    rungi_fit_group_fini(&f.group);
    if (status != RUNG_OK) {
        rung_fit_fini(&fit);
        return rungi_fail_adopt(&error);
    }
    *fit_out = fit;
    return RUNG_OK;
}

void rung_fit_fini(rung_fit *fit)
{
    free(fit->devices);
    free(fit->bytes);
    free(fit->rows);
    *fit = (rung_fit){0};
}
