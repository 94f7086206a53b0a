// SPDX-License-Identifier: Apache-2.0
// A small configuration with an option of every type, for the tests of options.
#ifndef RUNGI_TESTS_OPTIONS_SAMPLE_H
#define RUNGI_TESTS_OPTIONS_SAMPLE_H

#include "testing.h"

#include <stdio.h>

#include "base/options.h"

typedef enum sample_mode {
    MODE_FAST,
    MODE_SLOW,
} sample_mode;

typedef struct sample_optim {
    char *name;
    double lr;
    rungi_reals betas;
    sample_mode mode;
} sample_optim;

typedef struct sample_data {
    char *path;
    int64_t workers;
    int64_t threads;
    int64_t timeout;
    int64_t memory;
    bool quick;
    rungi_ints hidden;
    rungi_texts names;
    rungi_texts colors;
    double inner_mean;
    int64_t inner_deep_size;
} sample_data;

typedef struct sample_values {
    int64_t seed;
    bool exact;
    sample_optim optim;
    sample_data data;
} sample_values;

static const char *const sample_names[] = {"sgd", "adam", NULL};
static const char *const sample_modes[] = {
    [MODE_FAST] = "fast",
    [MODE_SLOW] = "slow",
    NULL,
};
static const char *const sample_colors[] = {"red", "green", NULL};
static const rungi_option_word sample_threads[] = {{"auto", 0}, {"all", -1}, {0}};
static const rungi_option_word sample_none[] = {{"none", 0}, {0}};

static const rungi_option sample_top_options[] = {
    {.key = "seed",
     .type = RUNGI_OPTION_INT,
     RUNGI_AT(sample_values, seed),
     .initial = "0",
     .range = ">= 0",
     .help = "Seed of all random numbers."},
    {.key = "exact",
     .type = RUNGI_OPTION_BOOL,
     RUNGI_AT(sample_values, exact),
     .initial = "false",
     .help = "Same bits everywhere."},
    {0},
};

static const rungi_option sample_optim_options[] = {
    {.key = "optim.name",
     .type = RUNGI_OPTION_TEXT,
     RUNGI_AT(sample_optim, name),
     .initial = "sgd",
     .choices = sample_names,
     .help = "Optimizer."},
    {.key = "optim.lr",
     .type = RUNGI_OPTION_REAL,
     RUNGI_AT(sample_optim, lr),
     .initial = "1e-3",
     .range = ">= 0",
     .help = "Learning rate."},
    {.key = "optim.betas",
     .type = RUNGI_OPTION_REALS,
     RUNGI_AT(sample_optim, betas),
     .initial = "[0.9, 0.999]",
     .range = "[0, 1)",
     .length = 2,
     .help = "Decay of the moments, in words long enough that the line which holds this help must "
             "be broken in two."},
    {.key = "optim.mode",
     .type = RUNGI_OPTION_CHOICE,
     RUNGI_AT(sample_optim, mode),
     .initial = "fast",
     .choices = sample_modes,
     .help = "How."},
    {0},
};

static const rungi_option sample_data_options[] = {
    {.key = "data.path",
     .type = RUNGI_OPTION_TEXT,
     RUNGI_AT(sample_data, path),
     .initial = "",
     .help = "Where."},
    {.key = "data.workers",
     .type = RUNGI_OPTION_INT,
     RUNGI_AT(sample_data, workers),
     .initial = "0",
     .range = "[0, 1024]",
     .help = "Threads that load."},
    {.key = "data.threads",
     .type = RUNGI_OPTION_INT,
     RUNGI_AT(sample_data, threads),
     .initial = "auto",
     .range = ">= 1",
     .words = sample_threads,
     .help = "Threads that compute."},
    {.key = "data.timeout",
     .type = RUNGI_OPTION_DURATION,
     RUNGI_AT(sample_data, timeout),
     .initial = "300s",
     .range = "[1ms, 24h]",
     .words = sample_none,
     .help = "Longest wait."},
    {.key = "data.memory",
     .type = RUNGI_OPTION_BYTES,
     RUNGI_AT(sample_data, memory),
     .initial = "64MiB",
     .range = ">= 1KiB",
     .help = "Cap."},
    {.key = "data.quick",
     .type = RUNGI_OPTION_BOOL,
     RUNGI_AT(sample_data, quick),
     .initial = "false",
     .flag = "--fast-check",
     .help = "Quickly."},
    {.key = "data.hidden",
     .type = RUNGI_OPTION_INTS,
     RUNGI_AT(sample_data, hidden),
     .initial = "[]",
     .range = ">= 1",
     .help = "Sizes."},
    {.key = "data.names",
     .type = RUNGI_OPTION_TEXTS,
     RUNGI_AT(sample_data, names),
     .initial = "['cpu:0']",
     .help = "Names."},
    {.key = "data.colors",
     .type = RUNGI_OPTION_TEXTS,
     RUNGI_AT(sample_data, colors),
     .initial = "[red]",
     .choices = sample_colors,
     .help = "Colors."},
    {.key = "data.inner.mean",
     .type = RUNGI_OPTION_REAL,
     RUNGI_AT(sample_data, inner_mean),
     .initial = "0",
     .help = "Nested."},
    {.key = "data.inner.deep.size",
     .type = RUNGI_OPTION_INT,
     RUNGI_AT(sample_data, inner_deep_size),
     .initial = "0",
     .help = "Nested deeper."},
    {0},
};

static inline rung_status sample_check(const rungi_options *options, const void *values,
                                       rung_context *context)
{
    const sample_values *v = values;
    if (v->data.workers == 0 && v->data.timeout != 300000000000)
        rungi_options_note(options, context, "data.timeout", "ignored without workers");
    if (v->optim.mode == MODE_SLOW && strcmp(v->optim.name, "adam") == 0)
        return rungi_options_fail(options, "optim.mode", "%s cannot be slow", v->optim.name);
    return RUNG_OK;
}

static const rungi_option_table sample_tables[] = {
    {sample_top_options, 0, sample_check},
    {sample_optim_options, offsetof(sample_values, optim), NULL},
    {sample_data_options, offsetof(sample_values, data), NULL},
};

typedef struct sample {
    rungi_options o;
    sample_values v;
} sample;

static inline void sample_init(sample *s)
{
    memset(&s->v, 0xA5, sizeof s->v);
    assert_ok(rungi_options_init(&s->o, sample_tables, RUNGI_COUNT(sample_tables), &s->v));
}

static inline void sample_fini(sample *s)
{
    rungi_options_fini(&s->o);
    rungi_options_fini(&s->o);
}

static inline int sample_set_up(void **state)
{
    *state = malloc(sizeof(sample));
    sample_init(*state);
    return 0;
}

static inline int sample_tear_down(void **state)
{
    sample_fini(*state);
    free(*state);
    return 0;
}

#define WITH_SAMPLE(test) cmocka_unit_test_setup_teardown(test, sample_set_up, sample_tear_down)

static inline void check_source(const sample *s, const char *key, const char *expected)
{
    size_t index;
    char source[320];
    assert_ok(rungi_options_find(&s->o, key, &index));
    rungi_options_source(&s->o, index, source, sizeof source);
    assert_string_equal(source, expected);
}

// Both hold the same values, to the bit.
static inline void check_same(const sample *a, const sample *b)
{
    rungi_string one = {0}, two = {0};
    rungi_options_dump(&a->o, 0, &one);
    rungi_options_dump(&b->o, 0, &two);
    assert_false(one.failed || two.failed);
    assert_string_equal(one.data, two.data);
    assert_memory_equal(&a->v.optim.lr, &b->v.optim.lr, sizeof(double));
    assert_int_equal(a->v.data.names.count, b->v.data.names.count);
    for (size_t i = 0; i < a->v.data.names.count; i++)
        assert_string_equal(a->v.data.names.data[i], b->v.data.names.data[i]);
    assert_string_equal(a->v.data.path, b->v.data.path);
    rungi_string_fini(&one);
    rungi_string_fini(&two);
}

#endif
