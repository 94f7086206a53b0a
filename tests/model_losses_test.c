// SPDX-License-Identifier: Apache-2.0
// ctest-labels: compiler long
// Losses of 20 SGD steps of the built-in networks beside PyTorch's (tests/fixtures/models.txt, made
// by tools/fixtures/models.py, which makes the same weights and batches): within 1e-4, or 3 times
// the spread that PyTorch shows itself, at each step; with Winograd, whose error is some ten times
// that of PyTorch's convolutions, within 3e-4, or 9 times the spread. In bfloat16 beside those of
// PyTorch's autocast: within 3 times what its ways of computing have been apart so far, from each
// other and from float32, and not below 1e-3.
#include "testing.h"

#include <math.h>
#include <stdio.h>

#include "base/philox.h"
#include "rung/models.h"
#include "rung/optim.h"
#include "rung/plan.h"

enum { STEPS = 20, BATCHES = 2, CLASSES = 10, MAX_PARAMS = 128 };

typedef struct fixture {
    char name[32];
    uint64_t seed;
    int64_t batch;
    rung_shape image; // [C, H, W]
    double lr, loss[STEPS], spread[STEPS];
    double bf16[STEPS], bf16_spread[STEPS]; // under autocast
} fixture;

// ---- the file ---------------------------------------------------------------------------------

static void read_values(FILE *file, const char *word, double *values)
{
    char got[16];
    assert_int_equal(fscanf(file, "%15s", got), 1);
    assert_string_equal(got, word);
    for (int i = 0; i < STEPS; i++)
        assert_int_equal(fscanf(file, "%lf", &values[i]), 1);
}

static void read_fixture(const char *name, fixture *f)
{
    char line[4096] = "";
    FILE *file = fopen(RUNG_SOURCE_DIR "/tests/fixtures/models.txt", "r");
    assert_non_null(file);
    f->image.rank = 3;
    do {
        assert_non_null(fgets(line, sizeof line, file));
    } while (sscanf(line, "model %31s seed %lu batch %ld image %ld %ld %ld lr %lf", f->name,
                    &f->seed, &f->batch, &f->image.dim[0], &f->image.dim[1], &f->image.dim[2],
                    &f->lr) != 7 ||
             strcmp(f->name, name) != 0);
    read_values(file, "loss", f->loss);
    read_values(file, "spread", f->spread);
    if (strcmp(name, "mlp") == 0 || strcmp(name, "lenet5") == 0) {
        read_values(file, "bf16", f->bf16);
        read_values(file, "bf16_spread", f->bf16_spread);
    }
    fclose(file);
}

// ---- weights and batches, as the script makes them --------------------------------------------

// FNV-1a, 64 bits (Fowler, Noll, Vo).
static uint64_t fnv1a(const char *text)
{
    uint64_t h = 0xCBF29CE484222325;
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001B3;
    return h;
}

// Word i of a generator: four to a block.
static uint32_t word(const rungi_random *random, int64_t i)
{
    return rungi_random_block(random, (uint64_t)i / 4).v[i % 4];
}

static void fill(const rung_state_entry *e, uint64_t seed)
{
    rungi_random random = rungi_random_make(seed, RUNGI_PURPOSE_TEST, fnv1a(e->name), 0, 0);
    int64_t fan = 1, count;
    for (int d = 1; d < e->shape.rank; d++)
        fan *= e->shape.dim[d];
    const char *last = strrchr(e->name, '.');
    double high = sqrt(6 / (double)fan), low = -high;
    if (e->shape.rank == 1) {
        bool scale = strcmp(last, ".weight") == 0; // of a normalization
        low = scale ? 0.8 : -0.05;
        high = scale ? 1.2 : 0.05;
    }
    assert_ok(rung_shape_count(&e->shape, &count));
    float *x = e->data;
    for (int64_t i = 0; i < count; i += 4) {
        rungi_philox4 block = rungi_random_block(&random, (uint64_t)i / 4);
        for (int64_t k = 0; k < 4 && i + k < count; k++)
            x[i + k] = (float)(low + (high - low) * (double)rungi_unit_f32(block.v[k]));
    }
}

typedef struct batch {
    float *pixels;
    int64_t labels[64];
} batch;

static void make_batch(const fixture *f, int index, batch *b)
{
    int64_t size = f->batch * f->image.dim[0] * f->image.dim[1] * f->image.dim[2];
    rungi_random image =
        rungi_random_make(f->seed, RUNGI_PURPOSE_TEST, fnv1a("image"), (uint64_t)index, 0);
    rungi_random label =
        rungi_random_make(f->seed, RUNGI_PURPOSE_TEST, fnv1a("label"), (uint64_t)index, 0);
    b->pixels = malloc((size_t)size * sizeof *b->pixels);
    assert_non_null(b->pixels);
    for (int64_t i = 0; i < size; i++)
        b->pixels[i] = rungi_unit_f32(word(&image, i)) - 0.5f;
    for (int64_t i = 0; i < f->batch; i++)
        b->labels[i] = word(&label, i) % CLASSES;
}

// ---- training ---------------------------------------------------------------------------------

typedef struct world {
    rung_context *context;
    rung_device *device;
    rung_graph *graph;
    rung_state *state;
    float *initial; // parameters as the script makes them, as the flat buffer has them
    batch batches[BATCHES];
} world;

static void make_world(const fixture *f, world *w)
{
    *w = (world){0};
    rung_value logits;
    rung_shape shape = {4, {RUNG_BATCH, f->image.dim[0], f->image.dim[1], f->image.dim[2]}};
    assert_ok(rung_context_create(NULL, &w->context));
    assert_ok(
        rung_device_create(w->context, "cpu:0", &(rung_device_options){.threads = 2}, &w->device));
    assert_ok(rung_graph_create(w->context, &w->graph));
    rung_value x = rung_input(w->graph, "image", RUNG_F32, shape);
    rung_value y = rung_input(w->graph, "label", RUNG_I64, RUNG_SHAPE(RUNG_BATCH));
    assert_ok(rung_model_build(
        w->graph, f->name,
        &(rung_model_options){.classes = CLASSES, .set_dropout = true, .stem = RUNG_STEM_CIFAR}, x,
        &logits));
    rung_graph_loss(w->graph, rung_cross_entropy(w->graph, logits, y, 0));
    assert_ok(rung_state_create(w->graph, w->device, &w->state));
    for (int i = 0; i < rung_state_count(w->state); i++) {
        rung_state_entry e = rung_state_at(w->state, i);
        if (!e.buffer)
            fill(&e, f->seed);
    }
    int64_t size;
    const float *params = rung_state_params(w->state, &size);
    w->initial = malloc((size_t)size * sizeof *params);
    assert_non_null(w->initial);
    memcpy(w->initial, params, (size_t)size * sizeof *params);
    for (int i = 0; i < BATCHES; i++)
        make_batch(f, i, &w->batches[i]);
}

static void drop_world(world *w)
{
    for (int i = 0; i < BATCHES; i++)
        free(w->batches[i].pixels);
    free(w->initial);
    rung_state_destroy(&w->state);
    rung_graph_destroy(&w->graph);
    rung_device_destroy(&w->device);
    rung_context_destroy(&w->context);
}

static int by_begin(const void *a, const void *b)
{
    int64_t x = ((const rung_segment *)a)->begin, y = ((const rung_segment *)b)->begin;
    return x < y ? -1 : x > y;
}

static rung_optimizer *make_optimizer(const world *w, double lr)
{
    rung_segment segments[MAX_PARAMS];
    rung_optimizer *optimizer;
    int64_t n = 0, count;
    const float *params = rung_state_params(w->state, &count);
    for (int i = 0; i < rung_state_count(w->state); i++) {
        rung_state_entry e = rung_state_at(w->state, i);
        if (e.buffer)
            continue;
        assert_true(n < MAX_PARAMS);
        assert_ok(rung_shape_count(&e.shape, &count));
        int64_t begin = (float *)e.data - params;
        segments[n++] = (rung_segment){.name = e.name, .begin = begin, .end = begin + count};
    }
    qsort(segments, (size_t)n, sizeof *segments, by_begin);
    rung_optimizer_options o = rung_optimizer_defaults(RUNG_OPTIMIZER_SGD);
    o.lr = lr;
    o.momentum = 0.9;
    assert_ok(rung_optimizer_create(w->context, &o, segments, n, &optimizer));
    return optimizer;
}

typedef struct switches {
    rung_layout layout;
    bool fuse;
    rung_kernels kernels;
    bool winograd;
    rung_dtype precision;
} switches;

static void describe(const switches *s, char *out, size_t size)
{
    snprintf(out, size, "%s, %s, %s kernels%s%s",
             s->layout == RUNG_LAYOUT_PLAIN ? "plain" : "channels last",
             s->fuse ? "fused" : "not fused", s->kernels == RUNG_KERNELS_OWN ? "own" : "library",
             s->winograd ? ", Winograd" : "", s->precision == RUNG_BF16 ? ", bf16" : "");
}

// Trains for some steps; returns the largest of the differences over their limits.
static double train(const fixture *f, const world *w, const switches *s, int steps)
{
    rung_plan *plan;
    float loss;
    double worst = 0;
    char what[64];
    describe(s, what, sizeof what);
    int64_t size;
    float *params = rung_state_params(w->state, &size);
    memcpy(params, w->initial, (size_t)size * sizeof *params);
    assert_ok(rung_compile(w->graph, w->state,
                           &(rung_compile_options){.batch = f->batch,
                                                   .training = true,
                                                   .gradients = true,
                                                   .fuse = s->fuse,
                                                   .layout = s->layout,
                                                   .kernels = s->kernels,
                                                   .winograd = s->winograd,
                                                   .precision = s->precision},
                           &plan));
    rung_optimizer *optimizer = make_optimizer(w, f->lr);
    bool half = s->precision == RUNG_BF16;
    double apart = 0; // PyTorch's ways, so far
    for (int step = 0; step < steps; step++) {
        const batch *b = &w->batches[step % BATCHES];
        assert_ok(rung_plan_bind(plan, "image", b->pixels));
        assert_ok(rung_plan_bind(plan, "label", b->labels));
        assert_ok(rung_plan_forward(plan));
        assert_ok(rung_plan_loss(plan, &loss));
        assert_ok(rung_plan_backward(plan));
        assert_ok(rung_optimizer_step(optimizer, params, rung_state_grads(w->state, &size),
                                      &(rung_optimizer_update){.rates.lr = f->lr, .threads = 2},
                                      NULL));
        if (half)
            apart =
                fmax(apart, fmax(f->bf16_spread[step], fabs(f->bf16[step] / f->loss[step] - 1)));
        double limit = half ? fmax(1e-3, 3 * apart) : fmax(1e-4, 3 * f->spread[step]);
        if (s->winograd)
            limit *= 3;
        double theirs = half ? f->bf16[step] : f->loss[step];
        double difference = fabs((double)loss / theirs - 1);
        if (!(difference <= limit))
            fail_msg("%s, %s: loss of step %d is %.9g, PyTorch's %.9g: %.2g apart, limit %.2g",
                     f->name, what, step + 1, (double)loss, theirs, difference, limit);
        worst = fmax(worst, difference / limit);
    }
    rung_optimizer_destroy(&optimizer);
    rung_plan_destroy(&plan);
    return worst;
}

static void compare(const char *name, const switches *list, int count, int steps)
{
    fixture f;
    world w;
    double worst = 0;
    read_fixture(name, &f);
    make_world(&f, &w);
    for (int i = 0; i < count; i++)
        worst = fmax(worst, train(&f, &w, &list[i], steps));
    print_message("%s: at most %.2g of the limit\n", name, worst);
    drop_world(&w);
}

// Any two values of two switches occur together in the first four.
static const switches all[] = {
    {RUNG_LAYOUT_CHANNELS_LAST, true, RUNG_KERNELS_OWN},
    {RUNG_LAYOUT_PLAIN, false, RUNG_KERNELS_OWN},
    {RUNG_LAYOUT_PLAIN, true, RUNG_KERNELS_LIBRARY},
    {RUNG_LAYOUT_CHANNELS_LAST, false, RUNG_KERNELS_LIBRARY},
    {RUNG_LAYOUT_CHANNELS_LAST, false, RUNG_KERNELS_OWN},
    {RUNG_LAYOUT_CHANNELS_LAST, true, RUNG_KERNELS_LIBRARY},
    {RUNG_LAYOUT_PLAIN, false, RUNG_KERNELS_LIBRARY},
    {RUNG_LAYOUT_PLAIN, true, RUNG_KERNELS_OWN},
};
static const switches winograd[] = {{RUNG_LAYOUT_CHANNELS_LAST, true, RUNG_KERNELS_OWN, true}};
static const switches opposites[] = {
    {RUNG_LAYOUT_CHANNELS_LAST, true, RUNG_KERNELS_OWN, true},
    {RUNG_LAYOUT_PLAIN, false, RUNG_KERNELS_LIBRARY},
};

static const switches half[] = {
    {RUNG_LAYOUT_CHANNELS_LAST, true, RUNG_KERNELS_OWN, .precision = RUNG_BF16},
    {RUNG_LAYOUT_PLAIN, false, RUNG_KERNELS_LIBRARY, .precision = RUNG_BF16},
};

// Large networks take long in builds that find mistakes of memory: one setting and the first steps
// are enough there.
#if defined(__OPTIMIZE__) && !SANITIZED
enum { ALL = 8, PAIRS = 4, OPPOSITES = 2, LARGE_STEPS = STEPS };
#else
enum { ALL = 4, PAIRS = 1, OPPOSITES = 1, LARGE_STEPS = 2 };
#endif

static void mlp(void **state)
{
    (void)state;
    compare("mlp", all, ALL, STEPS);
    compare("mlp", half, 2, STEPS);
}

static void lenet5(void **state)
{
    (void)state;
    compare("lenet5", all, ALL, STEPS);
    compare("lenet5", half, 2, STEPS);
}

static void dlf_cnn(void **state)
{
    (void)state;
    compare("dlf_cnn", all, PAIRS, LARGE_STEPS);
    compare("dlf_cnn", winograd, 1, LARGE_STEPS);
}

static void resnet18(void **state)
{
    (void)state;
    compare("resnet18", opposites, OPPOSITES, LARGE_STEPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mlp),
        cmocka_unit_test(lenet5),
        cmocka_unit_test(dlf_cnn),
        cmocka_unit_test(resnet18),
    };
    return RUN_TESTS(tests);
}
