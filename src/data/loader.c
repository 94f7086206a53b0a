// SPDX-License-Identifier: Apache-2.0
// The public face of the loader: options, and the choice between ring and preloaded batches.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/context.h"
#include "base/cores.h"
#include "base/error.h"
#include "base/text.h"
#include "data/preload.h"
#include "data/ring.h"
#include "data/source.h"
#include "data/tar_stream.h"

enum { MAX_WORKERS = 1024, MAX_AHEAD = 1024 };

struct rung_loader {
    rung_context *context;
    rungi_ring *ring;       // NULL once everything is preloaded
    rungi_preload *preload; // NULL until then, and without `preload`
    rung_loader_info info;
    rung_loader_options options;
    int64_t epoch, position; // of the next preloaded batch
    rung_loader_statistics preloaded;
};

static rung_status check_options(const rung_loader_options *o)
{
    RUNG_CHECK(o->batch_size > 0 && o->batch_size <= INT64_MAX / (1 << 20), RUNG_INVALID,
               "data.batch_size is %" PRId64 ", must be at least 1", o->batch_size);
    RUNG_CHECK(o->num_workers >= 0 && o->num_workers <= MAX_WORKERS, RUNG_INVALID,
               "data.num_workers is %d, must be 0 to %d", o->num_workers, MAX_WORKERS);
    RUNG_CHECK(o->prefetch_factor >= 0 && o->prefetch_factor <= MAX_AHEAD, RUNG_INVALID,
               "data.prefetch_factor is %d, must be 1 to %d", o->prefetch_factor, MAX_AHEAD);
    RUNG_CHECK(o->worker_nice >= 0 && o->worker_nice <= 19, RUNG_INVALID,
               "data.worker_nice is %d, must be 0 to 19", o->worker_nice);
    RUNG_CHECK(o->hold >= 0 && o->hold <= MAX_AHEAD, RUNG_INVALID,
               "the loader's hold is %d, must be 1 to %d", o->hold, MAX_AHEAD);
    RUNG_CHECK(isfinite(o->timeout) && o->timeout >= 0 && o->timeout < 1e9, RUNG_INVALID,
               "data.timeout is %g s, must not be negative", o->timeout);
    RUNG_CHECK(!(o->shuffle && o->sampler), RUNG_INVALID,
               "the loader has both shuffle and a sampler: the sampler gives the order, leave "
               "shuffle out");
    RUNG_CHECK(o->transform_count >= 0 && (o->transform_count == 0 || o->transforms), RUNG_INVALID,
               "the loader's transforms are missing");
    RUNG_CHECK(!o->memory || (o->memory->allocate && o->memory->release), RUNG_INVALID,
               "the loader's memory lacks a function");
    RUNG_CHECK(o->world >= 0 && o->world <= 1 << 20 && o->rank >= 0 &&
                   o->rank < (o->world ? o->world : 1),
               RUNG_INVALID, "the loader is for rank %d of %d: no such rank", o->rank,
               o->world ? o->world : 1);
    RUNG_CHECK(o->shards >= 0 && o->shards % (o->world ? o->world : 1) == 0, RUNG_INVALID,
               "%d shards cannot be given to %d ranks in equal numbers", o->shards, o->world);
    RUNG_CHECK(
        !o->skip_bad || o->world <= 1, RUNG_UNSUPPORTED,
        "the loader cannot leave out bad samples (data.on_bad_sample skip) with %d ranks: the "
        "others would not know",
        o->world);
    RUNG_CHECK(o->bad_limit >= 0 && o->bad_limit <= 1, RUNG_INVALID,
               "data.bad_sample_limit is %g, must be 0 to 1", o->bad_limit);
    RUNG_CHECK(o->epoch >= 0 && o->position >= 0 && o->end_epoch >= 0, RUNG_INVALID,
               "the loader cannot begin at epoch %" PRId64 ", position %" PRId64, o->epoch,
               o->position);
    return RUNG_OK;
}

static rung_loader_options fill_in(const rung_loader_options *given)
{
    rung_loader_options options = *given;
    options.prefetch_factor = options.prefetch_factor ? options.prefetch_factor : 2;
    options.hold = options.hold ? options.hold : options.num_workers ? 1 : 2;
    options.world = options.world ? options.world : 1;
    options.shards = options.shards ? options.shards : options.world;
    return options;
}

static void tell_start(const rung_loader *loader)
{
    const rung_loader_options *o = &loader->options;
    char size[32];
    int cores = rungi_core_count();
    if (o->num_workers == 0 && o->timeout > 0)
        rungi_log(loader->context, RUNG_LOG_NOTICE,
                  "data.timeout (%g s) is ignored because data.num_workers is 0: nobody watches a "
                  "read without workers",
                  o->timeout);
    int archives = rungi_source_stream_archives(loader->ring->source);
    if (archives && archives < o->num_workers * o->world)
        rungi_log(loader->context, RUNG_LOG_NOTICE,
                  "%d archives are read as streams by %d readers (%d ranks x %d workers): no more "
                  "than %d unpack at a time",
                  archives, o->num_workers * o->world, o->world, o->num_workers, archives);
    if (o->num_workers > cores)
        rungi_log(loader->context, RUNG_LOG_WARNING,
                  "data.num_workers is %d (1 thread each) on %d core%s: more workers than cores "
                  "take time from training",
                  o->num_workers, cores, cores > 1 ? "s" : "");
    rungi_log(loader->context, RUNG_LOG_INFO,
              "loader: %" PRId64 " samples in %" PRId64 " batches of %" PRId64
              ", %d workers of 1 thread, %d batches of %s",
              loader->info.samples_per_epoch, loader->info.batches_per_epoch, o->batch_size,
              o->num_workers, loader->info.slots,
              rungi_text_bytes(loader->info.slot_bytes, size, sizeof size));
}

rung_status rung_loader_create(rung_context *context, rung_source *source,
                               const rung_loader_options *options, rung_loader **loader_out)
{
    RUNG_CHECK(options, RUNG_INVALID, "the loader needs options: batch_size at least");
    RUNG_TRY(rungi_source_check(source));
    RUNG_TRY(check_options(options));
    rung_loader *loader = calloc(1, sizeof *loader);
    RUNG_CHECK(loader, RUNG_NO_MEMORY, "no memory for the loader");
    loader->context = context;
    loader->options = fill_in(options);
    loader->epoch = options->epoch;
    loader->position = options->position;
    rung_loader_options reading = loader->options;
    if (options->preload) {
        reading.epoch = reading.position = 0;
        reading.end_epoch = 1;
    }
    rung_status status = rungi_ring_create(context, source, &reading, &loader->ring);
    if (status != RUNG_OK) {
        free(loader);
        return status;
    }
    loader->info = loader->ring->info;
    if (!options->quiet)
        tell_start(loader);
    *loader_out = loader;
    return RUNG_OK;
}

void rung_loader_destroy(rung_loader **loader)
{
    if (!loader || !*loader)
        return;
    if ((*loader)->ring)
        rungi_ring_destroy(&(*loader)->ring);
    rungi_preload_destroy(&(*loader)->preload);
    free(*loader);
    *loader = NULL;
}

rung_status rung_loader_start(rung_loader *loader)
{
    return loader->ring ? rungi_ring_start(loader->ring) : RUNG_OK;
}

static rung_status next_preloaded(rung_loader *loader, rung_batch *batch_out)
{
    int64_t start = rungi_now(loader->context);
    if (!loader->preload) {
        RUNG_TRY(rungi_preload_create(loader->ring, &loader->preload));
        rung_loader_measure(loader, &loader->preloaded);
        loader->preloaded.samples = loader->preloaded.batches = 0;
        loader->preloaded.wait_seconds = 0;
        loader->preloaded.batch_bytes = 0;
        rungi_ring_destroy(&loader->ring);
    }
    int64_t end = loader->options.end_epoch, epoch = loader->epoch, position = loader->position;
    rung_batch batch = {0};
    RUNG_TRY(rungi_preload_next(loader->preload, &epoch, &position, &batch));
    RUNG_CHECK(end == 0 || epoch < end, RUNG_INVALID,
               "no batch is left: the loader ends before epoch %" PRId64, end);
    loader->epoch = epoch;
    loader->position = position;
    loader->preloaded.samples += batch.count;
    loader->preloaded.batches++;
    loader->preloaded.batch_bytes += rungi_batch_bytes(&batch);
    loader->preloaded.wait_seconds += (double)(rungi_now(loader->context) - start) / 1e9;
    *batch_out = batch;
    return RUNG_OK;
}

rung_status rung_loader_next(rung_loader *loader, rung_batch *batch_out)
{
    return loader->options.preload ? next_preloaded(loader, batch_out)
                                   : rungi_ring_next(loader->ring, batch_out);
}

void rung_loader_release(rung_loader *loader, rung_batch *batch)
{
    if (batch->slot)
        rungi_ring_release(loader->ring, batch);
    *batch = (rung_batch){0};
}

rung_status rung_loader_seek(rung_loader *loader, int64_t epoch, int64_t position)
{
    if (!loader->options.preload)
        return rungi_ring_seek(loader->ring, epoch, position);
    int64_t count = loader->info.samples_per_epoch + loader->info.dropped;
    RUNG_CHECK(epoch >= 0 && position >= 0 && position <= count, RUNG_INVALID,
               "epoch %" PRId64 ", position %" PRId64 ": no such place, an epoch has %" PRId64
               " samples",
               epoch, position, count);
    loader->epoch = epoch;
    loader->position = position;
    return RUNG_OK;
}

void rung_loader_describe(const rung_loader *loader, rung_loader_info *info_out)
{
    *info_out = loader->info;
}

void rung_loader_measure(rung_loader *loader, rung_loader_statistics *statistics_out)
{
    if (loader->ring)
        rungi_ring_measure(loader->ring, statistics_out);
    else
        *statistics_out = loader->preloaded;
}

bool rung_loader_measure_worker(rung_loader *loader, int worker,
                                rung_worker_statistics *statistics_out)
{
    return loader->ring && rungi_ring_measure_worker(loader->ring, worker, statistics_out);
}

void rung_loader_count_copy(rung_loader *loader, double seconds, int64_t bytes)
{
    rungi_ring *ring = loader->ring;
    rung_loader_statistics *s = ring ? &ring->statistics : &loader->preloaded;
    if (ring)
        pthread_mutex_lock(&ring->lock);
    s->seconds[RUNG_STAGE_COPY] += seconds;
    s->copy_bytes += bytes;
    if (ring)
        pthread_mutex_unlock(&ring->lock);
}
