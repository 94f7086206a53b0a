// SPDX-License-Identifier: Apache-2.0
// The optimizer's pass over the parameters of GPT-2 124M, timed on request.
//
//   optimizer step    a step: unscale, clip by norm, AdamW, the weights rounded to bf16
//   optimizer triad   a = b + s * c over large arrays, until as many bytes have gone by as a step
//                     must move: 34 for each parameter (4 for the norm, 28 for the update, 2 for
//                     bf16), 12 for each element of the arrays (as STREAM counts)
//
// Prints "ready" and answers lines of stdin as bench/step.c does.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/context.h"
#include "base/cores.h"
#include "base/error.h"
#include "device/device.h"
#include "measure/resident.h"
#include "optim/optimizer.h"

enum { LAYERS = 12, WIDTH = 768, WORDS = 50257, PLACES = 1024, STEP_BYTES = 34, TRIAD_BYTES = 12 };

typedef struct bench {
    rung_context *context;
    rung_device *device;
    RUNGI_ARRAY(rung_segment) segments;
    int64_t parameters, size;
    rung_optimizer *optimizer;
    float *params, *grads, *state[RUNG_OPTIMIZER_STATES];
    uint16_t *low;
    int threads;
    bool triad;
} bench;

// A tensor of rows x columns, or a vector, which is not decayed.
static rung_status add(bench *b, int64_t rows, int64_t columns)
{
    rung_segment s = {.begin = b->size, .end = b->size + rows * columns, .group = rows == 1};
    b->parameters += rows * columns;
    b->size = (s.end + 15) / 16 * 16;
    RUNG_CHECK(rungi_array_push(&b->segments, s), RUNG_NO_MEMORY, "no memory for a benchmark");
    return RUNG_OK;
}

// In the order of backward.
static rung_status add_tensors(bench *b)
{
    const int64_t w = WIDTH;
    for (int i = 0; i < 2; i++)
        RUNG_TRY(add(b, 1, w));
    for (int layer = 0; layer < LAYERS; layer++) {
        const int64_t matrices[4][2] = {{4 * w, w}, {w, 4 * w}, {w, w}, {w, 3 * w}};
        for (int i = 0; i < 4; i++) {
            RUNG_TRY(add(b, 1, matrices[i][1]));
            RUNG_TRY(add(b, matrices[i][0], matrices[i][1]));
            RUNG_TRY(add(b, 1, w)); // normalization: two of two
        }
    }
    RUNG_TRY(add(b, PLACES, w));
    return add(b, WORDS, w);
}

static rung_status floats(bench *b, const char *what, float **out)
{
    RUNG_TRY(rung_device_alloc(b->device, (uint64_t)b->size * sizeof(float), what, (void **)out));
    memset(*out, 0, (size_t)b->size * sizeof(float));
    return RUNG_OK;
}

static rung_status make(bench *b)
{
    const rung_param_group no_decay = {.lr_multiplier = 1, .weight_decay = 0};
    rung_optimizer_options o = rung_optimizer_defaults(RUNG_OPTIMIZER_ADAMW);
    void *low;
    o.groups = &no_decay;
    o.group_count = 1;
    b->threads = rungi_core_count();
    RUNG_TRY(rung_context_create(NULL, &b->context));
    RUNG_TRY(rung_device_create(b->context, "cpu:0",
                                &(rung_device_options){.threads = b->threads, .huge_pages = true},
                                &b->device));
    RUNG_TRY(add_tensors(b));
    RUNG_TRY(floats(b, "parameters", &b->params));
    RUNG_TRY(floats(b, "gradients", &b->grads));
    for (int i = 0; i < 2; i++)
        RUNG_TRY(floats(b, "state", &b->state[i]));
    RUNG_TRY(
        rung_device_alloc(b->device, (uint64_t)b->size * sizeof(uint16_t), "bf16 weights", &low));
    b->low = memset(low, 0, (size_t)b->size * sizeof(uint16_t));
    for (size_t i = 0; i < b->segments.count; i++)
        for (int64_t k = b->segments.data[i].begin; k < b->segments.data[i].end; k++) {
            b->params[k] = (float)(k % 1009) * 1e-4f - 0.05f;
            b->grads[k] = (float)(k % 997) * 10 - 5000;
        }
    return rungi_optimizer_create_in(b->context, &o, b->segments.data, (int64_t)b->segments.count,
                                     b->state, &b->optimizer);
}

static rung_status step(bench *b)
{
    const rung_optimizer_update u = {.rates = {.lr = 1e-4},
                                     .loss_scale = 65536,
                                     .max_grad_norm = 1,
                                     .skip_nonfinite = true,
                                     .low = b->low,
                                     .low_dtype = RUNG_BF16,
                                     .threads = b->threads};
    rung_optimizer_report report;
    RUNG_TRY(rung_optimizer_step(b->optimizer, b->params, b->grads, &u, &report));
    RUNG_CHECK(report.applied && report.clip < 1, RUNG_INTERNAL, "a step was not clipped");
    return RUNG_OK;
}

// In rounds over all elements of three buffers, the last one in part.
static void triad(const bench *b)
{
    int64_t elements = b->parameters * STEP_BYTES / TRIAD_BYTES;
    for (int64_t n; elements > 0; elements -= n) {
        n = elements < b->size ? elements : b->size;
#pragma omp parallel for schedule(static) num_threads(b->threads)
        for (int64_t at = 0; at < n; at += 4096) {
            int64_t end = at + 4096 < n ? at + 4096 : n;
            float *restrict x = b->state[0];
            const float *restrict y = b->params, *restrict z = b->grads;
            for (int64_t i = at; i < end; i++)
                x[i] = y[i] + 3.0f * z[i];
        }
    }
}

static rung_status serve(bench *b)
{
    char line[256];
    long steps;
    printf("ready %lld parameters\n", (long long)b->parameters);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) && strcmp(line, "quit\n") != 0) {
        if (strcmp(line, "rss\n") == 0)
            printf("%llu\n", (unsigned long long)rungi_peak_resident() / 1024);
        else
            RUNG_CHECK(sscanf(line, "run %ld", &steps) == 1 && steps > 0, RUNG_INVALID,
                       "unknown command: %s", line);
        for (long i = 0; strncmp(line, "run ", 4) == 0 && i < steps; i++) {
            int64_t begin = rungi_now(b->context);
            if (b->triad)
                triad(b);
            else
                RUNG_TRY(step(b));
            printf("%.6g%c", (double)(rungi_now(b->context) - begin) * 1e-6,
                   i == steps - 1 ? '\n' : ' ');
        }
        fflush(stdout);
    }
    return RUNG_OK;
}

int main(int argc, char **argv)
{
    bench b = {.triad = argc == 2 && strcmp(argv[1], "triad") == 0};
    if (argc != 2 || (!b.triad && strcmp(argv[1], "step") != 0)) {
        fprintf(stderr, "usage: optimizer step | triad\n");
        return 2;
    }
    rung_status status = make(&b);
    if (status == RUNG_OK)
        status = serve(&b);
    if (status != RUNG_OK)
        fprintf(stderr, "optimizer: %s\n", rung_error_last()->message);
    rung_optimizer_destroy(&b.optimizer);
    float *all[] = {b.params, b.grads, b.state[0], b.state[1]};
    for (int i = 0; i < 4; i++)
        rung_device_free(b.device, all[i]);
    rung_device_free(b.device, b.low);
    rungi_array_fini(&b.segments);
    rung_device_destroy(&b.device);
    rung_context_destroy(&b.context);
    return status != RUNG_OK;
}
