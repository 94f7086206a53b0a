// SPDX-License-Identifier: Apache-2.0
// rung's side of the loader's benchmarks, on a folder of class folders with JPEGs, or on a pack of
// raw pixels:
//
//   loader supply FOLDER WORKERS BATCH    batches of random_resized_crop 224, flip, normalize
//   loader small FOLDER WORKERS BATCH     the same of random_crop 32 with 4 pixels of padding
//   loader decode FOLDER THREADS BATCH    the limit: every picture decoded whole from memory by
//                                         libjpeg-turbo, nothing else
//   loader raw PACK WORKERS BATCH         batches of the pack's pixels, shuffled
//   loader copy PACK THREADS BATCH        the limit: the same bytes copied from the mapped file, in
//   a
//                                         random order, to as many slots as the loader has
//
// Prints "ready", then answers lines of stdin:
//   run N   takes N batches (decodes as many pictures) and prints their times in milliseconds
//   rss     prints the highest resident size of the process in kB
//   quit    ends (so does the end of stdin)
// Mistakes end the program with one line on stderr and status 1.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// jpeglib.h needs FILE.
#include <jpeglib.h>

#include "base/context.h"
#include "base/error.h"
#include "base/philox.h"
#include "base/thread.h"
#include "formats/image_file.h"
#include "measure/resident.h"
#include "rung/pack.h"

enum { MAX_THREADS = 256, SLOTS_A_WORKER = 2 };

typedef struct bench {
    rung_context *context;
    rung_source *source;
    rung_loader *loader; // supply, raw
    int threads;
    long batch;
    rungi_block *files; // decode: all pictures in memory
    size_t *sizes;
    uint8_t *slots; // copy
    size_t sample_bytes, slot_count;
    atomic_long next;
    long last;
} bench;

// ---- supply

static rung_status open_augmented(bench *b, rung_transform first)
{
    const rung_transform steps[] = {first,
                                    {.kind = RUNG_TRANSFORM_RANDOM_HORIZONTAL_FLIP},
                                    {.kind = RUNG_TRANSFORM_TO_FLOAT},
                                    {.kind = RUNG_TRANSFORM_NORMALIZE,
                                     .mean = {0.485f, 0.456f, 0.406f},
                                     .std = {0.229f, 0.224f, 0.225f}}};
    return rung_loader_create(b->context, b->source,
                              &(rung_loader_options){.batch_size = b->batch,
                                                     .shuffle = true,
                                                     .drop_last = true,
                                                     .num_workers = b->threads,
                                                     .transforms = steps,
                                                     .transform_count = 4},
                              &b->loader);
}

static rung_status open_loader(bench *b)
{
    return open_augmented(
        b,
        (rung_transform){.kind = RUNG_TRANSFORM_RANDOM_RESIZED_CROP, .height = 224, .width = 224});
}

static rung_status open_small(bench *b)
{
    return open_augmented(
        b, (rung_transform){
               .kind = RUNG_TRANSFORM_RANDOM_CROP, .height = 32, .width = 32, .padding = 4});
}

static rung_status open_raw(bench *b)
{
    return rung_loader_create(b->context, b->source,
                              &(rung_loader_options){.batch_size = b->batch,
                                                     .shuffle = true,
                                                     .drop_last = true,
                                                     .num_workers = b->threads,
                                                     .prefetch_factor = SLOTS_A_WORKER},
                              &b->loader);
}

static rung_status run_supply(bench *b, long count, double *ms)
{
    int64_t last = rungi_now(b->context);
    for (long i = 0; i < count; i++) {
        rung_batch batch;
        RUNG_TRY(rung_loader_next(b->loader, &batch));
        rung_loader_release(b->loader, &batch);
        int64_t now = rungi_now(b->context);
        ms[i] = (double)(now - last) * 1e-6;
        last = now;
    }
    return RUNG_OK;
}

// ---- decode

static rung_status read_all(bench *b)
{
    void *state = NULL;
    size_t count = (size_t)b->source->count;
    b->files = calloc(count, sizeof *b->files);
    b->sizes = calloc(count, sizeof *b->sizes);
    RUNG_CHECK(b->files && b->sizes, RUNG_NO_MEMORY, "no memory for the pictures");
    RUNG_TRY(b->source->open(b->source->self, 0, &state));
    rung_status status = RUNG_OK;
    for (size_t i = 0; i < count && status == RUNG_OK; i++) {
        int64_t label;
        rung_view views[2] = {{RUNG_U8, {1, {0}}, NULL}, {RUNG_I64, RUNG_SCALAR, &label}};
        status =
            b->source->read(b->source->self, state, &(rung_sample){.index = (int64_t)i}, views);
        size_t size = (size_t)views[0].shape.dim[0];
        if (status == RUNG_OK && !rungi_block_reserve(&b->files[i], size))
            status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for the pictures");
        if (status == RUNG_OK)
            memcpy(b->files[i].data, views[0].data, size);
        b->sizes[i] = size;
    }
    b->source->close(b->source->self, state);
    return status;
}

// libjpeg alone; its errors end the program.
static void decode(struct jpeg_decompress_struct *c, const rungi_block *file, size_t size,
                   rungi_block *rows)
{
    enum { AT_ONCE = 16 };
    JSAMPROW list[AT_ONCE];
    jpeg_mem_src(c, file->data, size);
    jpeg_read_header(c, TRUE);
    c->out_color_space = c->num_components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(c);
    size_t stride = (size_t)c->output_width * (size_t)c->output_components;
    if (!rungi_block_reserve(rows, stride * c->output_height))
        abort();
    while (c->output_scanline < c->output_height) {
        JDIMENSION left = c->output_height - c->output_scanline;
        for (JDIMENSION i = 0; i < left && i < AT_ONCE; i++)
            list[i] = rows->data + stride * (c->output_scanline + i);
        jpeg_read_scanlines(c, list, left < AT_ONCE ? left : AT_ONCE);
    }
    jpeg_finish_decompress(c);
}

static rung_status decode_some(void *bench_)
{
    bench *b = bench_;
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr errors;
    rungi_block rows = {0};
    c.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&c);
    for (long i; (i = atomic_fetch_add(&b->next, 1)) < b->last;) {
        size_t at = (size_t)(i % b->source->count);
        decode(&c, &b->files[at], b->sizes[at], &rows);
    }
    jpeg_destroy_decompress(&c);
    free(rows.data);
    return RUNG_OK;
}

// ---- copy

static rung_status make_slots(bench *b)
{
    int64_t count;
    const rung_field *image = &b->source->fields[0];
    RUNG_CHECK(image->pixels == RUNG_PIXELS_HWC, RUNG_MISMATCH, "the pack holds no raw pixels");
    RUNG_TRY(rung_shape_count(&image->shape, &count));
    b->sample_bytes = (size_t)count;
    b->slot_count = (size_t)(SLOTS_A_WORKER * b->threads + 1);
    b->slots = aligned_alloc(64, b->slot_count * (size_t)b->batch * b->sample_bytes);
    RUNG_CHECK(b->slots, RUNG_NO_MEMORY, "no memory for batches");
    return RUNG_OK;
}

static rung_status copy_some(void *bench_)
{
    bench *b = bench_;
    rungi_random random = rungi_random_make(0, RUNGI_PURPOSE_TEST, 0, 0, 0);
    for (long i; (i = atomic_fetch_add(&b->next, 1)) < b->last;) {
        int64_t label;
        rung_view views[2] = {{RUNG_U8, b->source->fields[0].shape, NULL},
                              {RUNG_I64, RUNG_SCALAR, &label}};
        int64_t which =
            (int64_t)(rungi_random_u64(&random, (uint64_t)i) % (uint64_t)b->source->count);
        RUNG_TRY(b->source->read(b->source->self, NULL,
                                 &(rung_sample){.index = which, .may_borrow = 1}, views));
        size_t place = (size_t)i % (b->slot_count * (size_t)b->batch);
        memcpy(b->slots + place * b->sample_bytes, views[0].data, b->sample_bytes);
    }
    return RUNG_OK;
}

static rung_status run_decode(bench *b, long count, double *ms)
{
    rungi_thread threads[MAX_THREADS] = {0};
    int64_t start = rungi_now(b->context);
    b->last = atomic_load(&b->next) + count * b->batch;
    for (int i = 0; i < b->threads; i++)
        RUNG_TRY(rungi_thread_start(&threads[i], "limit", b->slots ? copy_some : decode_some, b));
    for (int i = 0; i < b->threads; i++)
        RUNG_TRY(rungi_thread_join(&threads[i]));
    atomic_store(&b->next, b->last);
    double each = (double)(rungi_now(b->context) - start) * 1e-6 / (double)count;
    for (long i = 0; i < count; i++)
        ms[i] = each;
    return RUNG_OK;
}

// ---- requests

static rung_status run(bench *b, long count)
{
    double *ms = malloc((size_t)count * sizeof *ms);
    RUNG_CHECK(ms, RUNG_NO_MEMORY, "no memory for %ld times", count);
    rung_status status = b->loader ? run_supply(b, count, ms) : run_decode(b, count, ms);
    for (long i = 0; i < count && status == RUNG_OK; i++)
        printf("%.6g%c", ms[i], i == count - 1 ? '\n' : ' ');
    free(ms);
    return status;
}

static rung_status serve(bench *b)
{
    char line[256];
    long count;
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) && strcmp(line, "quit\n") != 0) {
        if (sscanf(line, "run %ld", &count) == 1 && count > 0)
            RUNG_TRY(run(b, count));
        else if (strcmp(line, "rss\n") == 0)
            printf("%llu\n", (unsigned long long)rungi_peak_resident() / 1024);
        else
            return RUNG_FAIL(RUNG_INVALID, "unknown command: %s", line);
        fflush(stdout);
    }
    return RUNG_OK;
}

static rung_status begin(bench *b, int argc, char **argv)
{
    static const struct {
        const char *name;
        bool pack;
        rung_status (*begin)(bench *b);
    } modes[] = {{"supply", false, open_loader},
                 {"small", false, open_small},
                 {"decode", false, read_all},
                 {"raw", true, open_raw},
                 {"copy", true, make_slots}};
    enum { MODES = sizeof modes / sizeof *modes };
    int mode = 0;
    while (argc == 5 && mode < MODES && strcmp(argv[1], modes[mode].name) != 0)
        mode++;
    RUNG_CHECK(argc == 5 && mode < MODES, RUNG_INVALID,
               "usage: loader supply|small|decode|raw|copy FOLDER|PACK THREADS BATCH");
    b->threads = atoi(argv[3]);
    b->batch = atol(argv[4]);
    RUNG_CHECK(b->threads >= 0 && b->threads <= MAX_THREADS && b->batch > 0, RUNG_INVALID,
               "%s threads, batches of %s: no such numbers", argv[3], argv[4]);
    RUNG_TRY(rung_context_create(NULL, &b->context));
    RUNG_TRY(modes[mode].pack ? rung_source_pack(b->context, argv[2], NULL, &b->source)
                              : rung_source_image_folder(b->context, argv[2], &b->source));
    return modes[mode].begin(b);
}

int main(int argc, char **argv)
{
    bench b = {0};
    rung_status status = begin(&b, argc, argv);
    if (status == RUNG_OK)
        status = serve(&b);
    if (status != RUNG_OK)
        fprintf(stderr, "loader: %s\n", rung_error_last()->message);
    rung_loader_destroy(&b.loader);
    for (int64_t i = 0; b.files && i < b.source->count; i++)
        free(b.files[i].data);
    free(b.files);
    free(b.sizes);
    free(b.slots);
    rung_source_destroy(&b.source);
    rung_context_destroy(&b.context);
    return status == RUNG_OK ? 0 : 1;
}
