// SPDX-License-Identifier: Apache-2.0
// Own kernels: the mask of a piece is made and applied while it is in the cache.
#include <string.h>

#include "ops/dropout/dropout_loops.h"
#include "ops/parallel.h"

// Philox4x32-10 of eight blocks, in loops that compilers turn into vectors.
static void blocks(const uint32_t key[2], uint64_t first, uint64_t sample, uint32_t c[4][8])
{
    uint32_t k0 = key[0], k1 = key[1];
    for (int i = 0; i < 8; i++) {
        c[0][i] = (uint32_t)first + (uint32_t)i;
        c[1][i] = (uint32_t)(first >> 32);
        c[2][i] = (uint32_t)sample;
        c[3][i] = (uint32_t)(sample >> 32);
    }
    for (int round = 0; round < 10; round++) {
        uint32_t low0[8], high0[8], low1[8], high1[8];
        for (int i = 0; i < 8; i++) {
            uint64_t p0 = (uint64_t)0xD2511F53 * c[0][i], p1 = (uint64_t)0xCD9E8D57 * c[2][i];
            low0[i] = (uint32_t)p0;
            high0[i] = (uint32_t)(p0 >> 32);
            low1[i] = (uint32_t)p1;
            high1[i] = (uint32_t)(p1 >> 32);
        }
        for (int i = 0; i < 8; i++) {
            c[0][i] = high1[i] ^ c[1][i] ^ k0;
            c[2][i] = high0[i] ^ c[3][i] ^ k1;
            c[1][i] = low1[i];
            c[3][i] = low0[i];
        }
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
}

static uint64_t mask_of(const rungi_dropout_source *s, int64_t sample, int64_t group)
{
    uint32_t c[4][8], limit = s->threshold >> 16, ties = 0;
    uint64_t mask = 0;
    blocks(s->random.key, (uint64_t)group * 8, (uint64_t)sample, c);
    for (int b = 0; b < 8; b++)
        for (int w = 0; w < 4; w++) {
            uint32_t first = c[w][b] & 0xFFFF, second = c[w][b] >> 16;
            mask |= (uint64_t)(first >= limit) << (8 * b + 2 * w);
            mask |= (uint64_t)(second >= limit) << (8 * b + 2 * w + 1);
            ties |= (uint32_t)(first == limit) | (uint32_t)(second == limit);
        }
    for (int i = 0; i < 64 && ties; i++) {
        mask &= ~((uint64_t)1 << i);
        mask |= (uint64_t)rungi_dropout_keeps(s, sample, group * 64 + i) << i;
    }
    return mask;
}

static void dropout_bits(const rungi_dropout_source *s, int64_t sample, int64_t group,
                         int64_t count, uint64_t *words)
{
    for (int64_t i = 0; i < count; i++)
        words[i] = mask_of(s, sample, group + i);
}

const rungi_dropout_loops rungi_dropout_loops_cpu = {.bits = dropout_bits, .apply = dropout_apply};

enum { PIECE = 4096 }; // elements; a multiple of 64

typedef struct work {
    const rungi_dropout_loops *loops;
    rungi_dropout_source source;
    rungi_dropout_samples samples;
    const float *x;
    float *y;
    uint8_t *mask; // NULL: nobody wants it
    float scale;
    bool drops_all;
} work;

// Mask and result of `count` elements from `at` on, whose bits are given.
static void put(const work *w, int64_t at, int64_t count, const uint64_t *words)
{
    if (w->mask)
        memcpy(w->mask + at / 8, words, (size_t)(count + 7) / 8);
    w->loops->apply(w->x + at, (const uint8_t *)words, w->y + at, count, w->scale);
}

// Bits of elements [at, at + count) in plain order, which may belong to several samples.
static void plain_bits(const work *w, int64_t at, int64_t count, uint64_t *words)
{
    uint64_t part[PIECE / 64 + 1];
    memset(words, 0, (size_t)(count + 63) / 64 * 8);
    for (int64_t done = 0, n; done < count && !w->drops_all; done += n) {
        int64_t e = (at + done) % w->samples.size, sample = (at + done) / w->samples.size;
        n = w->samples.size - e < count - done ? w->samples.size - e : count - done;
        rungi_dropout_fill(w->loops, &w->source, w->samples.first + sample, e, n, part);
        for (int64_t i = 0; i * 64 < n; i++) {
            uint64_t value =
                n - i * 64 >= 64 ? part[i] : part[i] & (((uint64_t)1 << (n - i * 64)) - 1);
            int64_t word = (done + i * 64) / 64, shift = (done + i * 64) % 64;
            words[word] |= value << shift;
            if (shift && (word + 1) * 64 < count)
                words[word + 1] |= value >> (64 - shift);
        }
    }
}

static void plain_forward(const work *w, int64_t count, int threads)
{
    RUNGI_PARALLEL_FOR(threads, count)
    for (int64_t at = 0; at < count; at += PIECE) {
        uint64_t words[PIECE / 64];
        int64_t n = count - at < PIECE ? count - at : PIECE;
        plain_bits(w, at, n, words);
        put(w, at, n, words);
    }
}

static int64_t image_words(const rung_shape *s)
{
    return (s->dim[1] * s->dim[2] * s->dim[3] + 63) / 64 + 1;
}

// One image of another layout than plain. Its bits start at bit 0 of a byte or, where the size of
// an image is no multiple of 8, are put behind those of the image before it, so that eight images
// are handled by one thread.
static void image_forward(const work *w, const rungi_operand *x, int64_t image, uint64_t *scratch)
{
    const int64_t *d = x->shape.dim;
    int64_t size = d[1] * d[2] * d[3], at = image * size, words = image_words(&x->shape);
    uint64_t *plain = scratch, *arranged = scratch + words;
    memset(plain, 0, (size_t)words * 8);
    if (!w->drops_all)
        rungi_dropout_fill(w->loops, &w->source, w->samples.first + at / w->samples.size,
                           at % w->samples.size, size, plain);
    rungi_dropout_arrange(plain, arranged, d[1], d[2] * d[3], x->layout);
    w->loops->apply(w->x + at, (const uint8_t *)arranged, w->y + at, size, w->scale);
    if (!w->mask)
        return;
    const uint8_t *bytes = (const uint8_t *)arranged;
    uint8_t *mask = w->mask + at / 8;
    int shift = (int)(at % 8);
    if (!shift) {
        memcpy(mask, bytes, (size_t)(size + 7) / 8);
        return;
    }
    int64_t end = (shift + size + 7) / 8;
    mask[0] |= (uint8_t)(bytes[0] << shift);
    for (int64_t i = 1; i < end; i++)
        mask[i] = (uint8_t)(bytes[i - 1] >> (8 - shift) | bytes[i] << shift);
}

static void images_forward(const work *w, const rungi_call *c)
{
    const rungi_operand *x = &c->q->in[0];
    const int64_t *d = x->shape.dim;
    int threads = c->q->threads;
    int64_t unit = d[1] * d[2] * d[3] % 8 ? 8 : 1, units = (d[0] + unit - 1) / unit;
    RUNGI_PARALLEL_FOR(threads, rungi_operand_count(x))
    for (int share = 0; share < threads; share++) {
        uint64_t *scratch = (uint64_t *)c->workspace + share * 2 * image_words(&x->shape);
        int64_t end = units * (share + 1) / threads * unit;
        for (int64_t i = units * share / threads * unit; i < end && i < d[0]; i++)
            image_forward(w, x, i, scratch);
    }
}

static rung_status forward(const rungi_call *c, const rungi_dropout_loops *loops)
{
    const rungi_query *q = c->q;
    work w = {.loops = loops,
              .source = rungi_dropout_source_of(c),
              .samples = rungi_dropout_samples_of(c),
              .x = rungi_ptr(c, &q->in[0]),
              .y = rungi_ptr(c, &q->out[0]),
              .mask = rungi_ptr(c, &q->out[1]),
              .scale = rungi_dropout_scale(q),
              .drops_all = rungi_dropout_rate(q) >= 1};
    if (q->in[0].layout == RUNGI_PLAIN)
        plain_forward(&w, rungi_operand_count(&q->in[0]), q->threads);
    else
        images_forward(&w, c);
    return RUNG_OK;
}

static rung_status backward(const rungi_call *c, const rungi_dropout_loops *loops)
{
    const rungi_query *q = c->q;
    const float *gy = rungi_ptr(c, &q->gout[0]);
    const uint8_t *mask = rungi_ptr(c, &q->out[1]);
    float *gx = rungi_ptr(c, &q->gin[0]), scale = rungi_dropout_scale(q);
    int64_t count = rungi_operand_count(&q->gout[0]);
    RUNGI_PARALLEL_FOR(q->threads, count)
    for (int64_t at = 0; at < count; at += PIECE)
        loops->apply(gy + at, mask + at / 8, gx + at, count - at < PIECE ? count - at : PIECE,
                     scale);
    return RUNG_OK;
}

static rung_status create(const rungi_query *q, rungi_setup *setup)
{
    if (q->in[0].layout != RUNGI_PLAIN)
        setup->workspace = (size_t)(image_words(&q->in[0].shape) * 2 * q->threads) * 8;
    return RUNG_OK;
}

// ---- kernels ----------------------------------------------------------------------------------

static rung_status forward_cpu(const rungi_call *c)
{
    return forward(c, &rungi_dropout_loops_cpu);
}

static rung_status forward_avx2(const rungi_call *c)
{
    return forward(c, rungi_dropout_loops_avx2);
}

static rung_status backward_cpu(const rungi_call *c)
{
    return backward(c, &rungi_dropout_loops_cpu);
}

static rung_status backward_avx2(const rungi_call *c)
{
    return backward(c, rungi_dropout_loops_avx2);
}

static const rungi_kernel bits_avx2 = {.name = "bits_avx2",
                                       .kind = RUNGI_OWN,
                                       .can_run = rungi_f32_avx2,
                                       .create = create,
                                       .run = forward_avx2};
static const rungi_kernel bits = {.name = "bits",
                                  .kind = RUNGI_OWN,
                                  .can_run = rungi_f32_only,
                                  .create = create,
                                  .run = forward_cpu};
static const rungi_kernel bits_back_avx2 = {
    .name = "bits_avx2", .kind = RUNGI_OWN, .can_run = rungi_f32_avx2, .run = backward_avx2};
static const rungi_kernel bits_back = {
    .name = "bits", .kind = RUNGI_OWN, .can_run = rungi_f32_only, .run = backward_cpu};

const rungi_kernel *const rungi_dropout_forward_cpu[] = {&bits_avx2, &bits,
                                                         &rungi_dropout_forward_reference, NULL};
const rungi_kernel *const rungi_dropout_backward_cpu[] = {&bits_back_avx2, &bits_back,
                                                          &rungi_dropout_backward_reference, NULL};
