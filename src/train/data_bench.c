// SPDX-License-Identifier: Apache-2.0
#include "train/data_bench.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/cores.h"
#include "base/error.h"
#include "base/team.h"
#include "data/reader.h"
#include "data/source.h"
#include "measure/resident.h"

enum { BATCHES_MIN = 3 };

static const double seconds_default = 2;
static const double share_of_best = 0.95;
// What is kept in memory: files for the decode ceiling, batches to be served from there.
static const int64_t files_max = (int64_t)256 << 20, preloaded_max = (int64_t)512 << 20;

// ---- a consumer

// Reads a batch once.
static uint64_t consume(const rung_batch *batch)
{
    uint64_t sum = 0;
    for (int f = 0; f < batch->field_count; f++) {
        int64_t count = 0;
        rung_shape_count(&batch->fields[f].shape, &count);
        size_t words = (size_t)count * rung_dtype_size(batch->fields[f].dtype) / sizeof(uint64_t);
        const uint64_t *at = batch->fields[f].data;
        for (size_t i = 0; i < words; i++)
            sum += at[i];
    }
    return sum;
}

static rung_status take(rung_loader *loader, int64_t *samples, atomic_ullong *sink)
{
    rung_batch batch;
    RUNG_TRY(rung_loader_next(loader, &batch));
    atomic_store_explicit(sink, consume(&batch), memory_order_relaxed);
    *samples += batch.count;
    rung_loader_release(loader, &batch);
    return RUNG_OK;
}

static rung_status measure(rungi_bench *b, rung_loader *loader, rungi_supply *out)
{
    rung_context *context = b->s->context;
    rung_loader_info info;
    rung_loader_statistics before, after;
    atomic_ullong sink = 0;
    int64_t samples = 0, batches = 0;
    double seconds = b->o->seconds > 0 ? b->o->seconds : seconds_default;
    rung_loader_describe(loader, &info);
    // Warm: every slot has been filled, and a quarter of the time has passed.
    int64_t start = rungi_now(context), until = start + (int64_t)(seconds * 0.25e9);
    for (int i = 0; i <= info.slots || rungi_now(context) < until; i++)
        RUNG_TRY(take(loader, &samples, &sink));
    rung_loader_measure(loader, &before);
    double cpu = rungi_cpu_seconds();
    samples = 0;
    start = rungi_now(context);
    int64_t now = start;
    until = start + (int64_t)(seconds * 1e9);
    for (; now < until || batches < BATCHES_MIN; batches++) {
        RUNG_TRY(take(loader, &samples, &sink));
        now = rungi_now(context);
    }
    double took = (double)(now - start) * 1e-9;
    out->cpu_share = (rungi_cpu_seconds() - cpu) / took / b->cores;
    rung_loader_measure(loader, &after);
    out->samples_per_s = (double)samples / took;
    out->batch_ms = took * 1e3 / (double)batches;
    out->resident = rungi_resident();
    double reads = (double)(after.reads - before.reads);
    for (int i = 0; i < RUNG_STAGES && reads > 0; i++)
        out->sample_ms[i] = (after.seconds[i] - before.seconds[i]) * 1e3 / reads;
    double there = after.worker_seconds - before.worker_seconds;
    out->busy_share = there > 0 ? (after.busy_seconds - before.busy_seconds) / there : 0;
    out->queue_depth = after.mean_queue_depth;
    return RUNG_OK;
}

// As many samples as fit, for a loader that serves from memory.
static rung_status limit_samples(rungi_bench *b, const rung_source *source,
                                 rung_sampler **sampler_out)
{
    rung_loader_info info;
    rung_loader_describe(b->s->train_loader, &info);
    int64_t bytes = 1;
    for (int f = 0; f < info.field_count; f++)
        bytes += (int64_t)rungi_field_bytes(&info.fields[f]);
    int64_t count = preloaded_max / bytes, least = rungi_session_batch(b->s);
    count = count < least ? least : count;
    count = count > source->count ? source->count : count;
    b->preloaded_samples = count;
    b->preloaded_whole = count == source->count;
    int64_t *list = malloc((size_t)count * sizeof *list);
    RUNG_CHECK(list, RUNG_NO_MEMORY, "no memory for a list of samples");
    for (int64_t i = 0; i < count; i++)
        list[i] = i;
    rung_status status = rung_sampler_subset(list, count, true, 0, sampler_out);
    free(list);
    return status;
}

rung_status rungi_bench_supply(rungi_bench *b, int workers, rungi_supply *out)
{
    rung_transform steps[RUNGI_SESSION_TRANSFORMS];
    rung_loader_options options;
    rung_source *source;
    rung_loader *loader = NULL;
    rung_sampler *sampler = NULL;
    *out = (rungi_supply){.workers = workers};
    RUNG_TRY(rungi_session_loader_options(b->s, true, steps, &options, &source));
    options.on_bad = NULL;
    options.quiet = true;
    options.preload = workers < 0;
    options.num_workers = workers < 0 ? b->rows[b->best].workers : workers;
    options.timeout = options.num_workers ? (double)b->s->c->data.timeout * 1e-9 : 0;
    if (workers < 0) {
        RUNG_TRY(limit_samples(b, source, &sampler));
        options.sampler = sampler;
        options.shuffle = false;
    }
    rung_status status = rung_loader_create(b->s->context, source, &options, &loader);
    if (status == RUNG_OK)
        status = measure(b, loader, out);
    rung_loader_destroy(&loader);
    rung_sampler_destroy(&sampler);
    return status;
}

int rungi_bench_best(const rungi_supply *rows, int count)
{
    double most = 0;
    for (int i = 0; i < count; i++)
        most = rows[i].samples_per_s > most ? rows[i].samples_per_s : most;
    for (int i = 0; i < count; i++)
        if (rows[i].samples_per_s >= share_of_best * most)
            return i;
    return 0;
}

// ---- the decode ceiling

typedef struct decoding {
    rungi_bench *b;
    rungi_block *files;
    int64_t *sizes;
    int64_t count;
    atomic_llong next, decoded;
    int64_t until; // clock
} decoding;

static rung_status load_files(rungi_bench *b, decoding *d)
{
    rung_source *source = b->s->train_source;
    rungi_reader reader;
    int64_t bytes = 0;
    rung_status status = rungi_reader_open(source, -1, &reader);
    for (int64_t i = 0; i < source->count && bytes < files_max && status == RUNG_OK; i++) {
        if (rungi_reader_read(&reader, i) != RUNG_OK)
            continue; // `data check` names it
        const rung_view *file = &reader.fields[0];
        size_t size = (size_t)file->shape.dim[0];
        if (!rungi_block_reserve(&d->files[d->count], size + RUNGI_PIXELS_SLACK)) {
            status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for pictures");
            break;
        }
        memcpy(d->files[d->count].data, file->data, size);
        d->sizes[d->count++] = (int64_t)size;
        bytes += (int64_t)size;
    }
    rungi_reader_close(&reader);
    return status;
}

static rung_status decode_some(void *d_, int member)
{
    decoding *d = d_;
    rungi_decoder *decoder = NULL;
    int channels = (int)d->b->s->c->data.channels;
    (void)member;
    RUNG_TRY(rungi_decoder_create(&decoder));
    while (rungi_now(d->b->s->context) < d->until) {
        int64_t i = atomic_fetch_add(&d->next, 1) % d->count;
        rungi_image_info info = {0};
        rungi_pixels pixels;
        rung_status status = rungi_decoder_begin(decoder, d->files[i].data, (size_t)d->sizes[i],
                                                 "picture", false, &info);
        rungi_rect whole = {0, 0, info.width, info.height};
        if (status == RUNG_OK)
            status = rungi_decoder_read(decoder, &whole, channels, &pixels);
        atomic_fetch_add(&d->decoded, status == RUNG_OK);
    }
    rungi_decoder_destroy(&decoder);
    return RUNG_OK;
}

static rung_status measure_decoding(rungi_bench *b)
{
    rung_source *source = b->s->train_source;
    rungi_team *team = NULL;
    decoding d = {.b = b};
    if (source->fields[0].pixels != RUNG_PIXELS_FILE)
        return RUNG_OK;
    d.files = calloc((size_t)source->count, sizeof *d.files);
    d.sizes = calloc((size_t)source->count, sizeof *d.sizes);
    rung_status status = d.files && d.sizes ? load_files(b, &d)
                                            : RUNG_FAIL(RUNG_NO_MEMORY, "no memory for pictures");
    if (status == RUNG_OK && d.count > 0)
        status = rungi_team_create(b->cores, &team);
    if (status == RUNG_OK && d.count > 0) {
        double seconds = b->o->seconds > 0 ? b->o->seconds : seconds_default;
        int64_t begin = rungi_now(b->s->context);
        d.until = begin + (int64_t)(seconds * 1e9);
        status = rungi_team_run(team, decode_some, &d);
        double took = (double)(rungi_now(b->s->context) - begin) * 1e-9;
        b->decode_per_s = (double)atomic_load(&d.decoded) / took;
        b->decoded = d.count;
    }
    rungi_team_destroy(&team);
    for (int64_t i = 0; d.files && i < d.count; i++)
        free(d.files[i].data);
    free(d.files);
    free(d.sizes);
    return status;
}

// ---- all of it

static void tell(const rungi_bench *b, int done, int total, const char *what)
{
    if (b->o->progress)
        b->o->progress(b->o->progress_user, done, total, what);
}

static rung_status measure_all(rungi_bench *b)
{
    int most = b->o->max_workers ? b->o->max_workers : 2 * b->cores > 4 ? 2 * b->cores : 4;
    int total = 4, done = 0;
    char what[48];
    for (int n = 1; n < most; n *= 2)
        total++;
    for (int n = 0; b->count < RUNGI_BENCH_ROWS; n = n ? 2 * n : 1) {
        n = n > most ? most : n;
        snprintf(what, sizeof what, "%d workers", n);
        tell(b, done++, total, what);
        RUNG_TRY(rungi_bench_supply(b, n, &b->rows[b->count++]));
        if (n >= most)
            break;
    }
    b->best = rungi_bench_best(b->rows, b->count);
    tell(b, done++, total, "decode ceiling");
    RUNG_TRY(measure_decoding(b));
    tell(b, done++, total, "from memory");
    return rungi_bench_supply(b, -1, &b->preloaded);
}

rung_status rung_data_bench(rung_context *context, const rung_config *config,
                            const rung_data_bench_options *options, rung_data_report *report_out)
{
    rungi_bench *b = calloc(1, sizeof *b);
    RUNG_CHECK(b, RUNG_NO_MEMORY, "no memory for a benchmark");
    b->o = options;
    b->cores = rungi_core_count();
    rung_status status = RUNG_OK;
    if (options->seconds < 0 || options->max_workers < 0 || options->max_workers > 1024)
        status = RUNG_FAIL(RUNG_INVALID, "data bench: seconds and workers must not be negative, "
                                         "and 1024 workers are the most");
    if (status == RUNG_OK)
        status = rungi_session_of_data(context, config, RUNGI_SESSION_TRAIN, &b->s);
    if (status == RUNG_OK)
        status = measure_all(b);
    if (status == RUNG_OK)
        status = rungi_bench_report(b, report_out);
    rung_error error = *rung_error_last();
    rungi_session_destroy(&b->s);
    free(b);
    return status == RUNG_OK ? RUNG_OK : rungi_fail_adopt(&error);
}
