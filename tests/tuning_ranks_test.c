// SPDX-License-Identifier: Apache-2.0
// plan.autotune with several ranks: one measures, all choose alike, and nothing is measured later.
#include "training.h"

#include <stdlib.h>

#include "graph/tune.h"
#include "train/session_crew.h"

// 21 pictures in batches of 8: the last one has 5.
#define DATA                                                                         \
    "device: {threads: 1}\n"                                                         \
    "data: {source: synthetic, batch_size: 8, synthetic: {shape: [3, 8, 8], count: " \
    "21, classes: 4}}\n"                                                             \
    "plan: {layout: channels_last, kernels: own, autotune: true}\n"                  \
    "model: {name: dlf_cnn}\n"                                                       \
    "train: {epochs: 2, log_every: 1}\n"

static void set_cache(test_folder *folder)
{
    setenv("XDG_CACHE_HOME", test_path(folder, "cache"), 1);
}

static char *table_of(const rungi_session *s, bool used)
{
    rungi_string text = {0};
    rungi_tuning_give(s->tuning, used, &text);
    assert_false(text.failed);
    assert_true(text.size > 0);
    return text.data;
}

typedef struct group {
    rung_context *context;
    rung_config *config;
    rungi_session_crew crew;
} group;

static void make(group *g, training_log *log, const char *const *overrides)
{
    g->context = training_context(log);
    g->config = training_config(g->context, DATA, overrides);
    assert_ok(rungi_session_crew_create(g->context, g->config, RUNGI_SESSION_ALL, &g->crew));
}

static void drop(group *g)
{
    rungi_session_crew_fini(&g->crew);
    rung_config_destroy(&g->config);
    rung_context_destroy(&g->context);
}

// All ranks have chosen, and have, the same; what nobody asked for so far is not measured any more.
static void check_alike(group *g)
{
    char *first = table_of(g->crew.of[0], true);
    for (int r = 1; r < g->crew.ranks; r++) {
        char *other = table_of(g->crew.of[r], true);
        assert_string_equal(first, other);
        free(other);
    }
    free(first);
    int before, after;
    rung_tuning *tuning = g->crew.of[0]->tuning;
    rung_tuning_count(tuning, &before);
    rung_plan *plan;
    rung_compile_options o = rungi_engine_plan_options(g->crew.of[0]->engine, false, 17);
    o.plan_only = true;
    o.arena = NULL;
    assert_ok(rung_compile(g->crew.of[0]->graph, g->crew.of[0]->state, &o, &plan));
    rung_plan_destroy(&plan);
    rung_tuning_count(tuning, &after);
    assert_int_equal(before, after);
}

static void ranks_choose_alike(void **state)
{
    test_folder *folder = *state;
    training_log log;
    group g;
    int measured;
    set_cache(folder);
    // Parts of 3, 3 and 2 samples: only the last rank has the small one.
    make(&g, &log, (const char *const[]){"train.ranks=3", NULL});
    check_alike(&g);
    rung_tuning_count(g.crew.of[0]->tuning, &measured);
    assert_true(measured > 0);
    rung_tuning_count(g.crew.of[1]->tuning, &measured);
    assert_int_equal(measured, 0); // rank 0 has the same plans
    drop(&g);
    assert_true(rungi_fs_exists(test_path(folder, "cache/rung/tuning.json")));
    // What this machine's file has is not measured again.
    make(&g, &log, (const char *const[]){"train.ranks=3", NULL});
    check_alike(&g);
    for (int r = 0; r < 3; r++) {
        rung_tuning_count(g.crew.of[r]->tuning, &measured);
        assert_int_equal(measured, 0);
    }
    drop(&g);
}

static void stages_measure_their_own(void **state)
{
    test_folder *folder = *state;
    training_log log;
    group g;
    int measured;
    set_cache(folder);
    make(&g, &log,
         (const char *const[]){"train.ranks=2", "train.strategy=pipeline", "pipeline.schedule=1f1b",
                               "pipeline.micro_batches=2", NULL});
    check_alike(&g);
    for (int r = 0; r < 2; r++) {
        rung_tuning_count(g.crew.of[r]->tuning, &measured);
        assert_true(measured > 0);
    }
    drop(&g);
}

// A run that goes on has its own choices, also when this machine's file is gone: the same bits.
static void a_run_goes_on_with_its_choices(void **state)
{
    test_folder *folder = *state;
    training_log log;
    const char *const whole[] = {"train.ranks=2", "train.steps=6", NULL};
    const char *const half[] = {"train.ranks=2", "train.steps=3", NULL};
    const char *const rest[] = {"train.steps=6", NULL};
    set_cache(folder);
    rung_context *context = training_context(&log);
    assert_ok(training_run(context, DATA, half, test_path(folder, "half"), NULL));
    setenv("XDG_CACHE_HOME", test_path(folder, "other"), 1);
    assert_ok(training_resume(context, test_path(folder, "half"), rest, NULL));
    assert_false(rungi_fs_exists(test_path(folder, "other"))); // nothing was measured anew
    setenv("XDG_CACHE_HOME", test_path(folder, "cache"), 1);
    assert_ok(training_run(context, DATA, whole, test_path(folder, "whole"), NULL));
    assert_same_bits(test_path(folder, "half"), test_path(folder, "whole"));
    rung_context_destroy(&context);
}

// Replicas of one process share one table.
static void replicas_share_a_table(void **state)
{
    test_folder *folder = *state;
    training_log log;
    set_cache(folder);
    rung_context *context = training_context(&log);
    const char *const replicas[] = {"train.strategy=data_parallel", "device.list=[cpu:0,cpu:1]",
                                    NULL};
    assert_ok(training_run(context, DATA, replicas, test_path(folder, "a"), NULL));
    assert_ok(training_run(context, DATA, replicas, test_path(folder, "b"), NULL));
    assert_same_bits(test_path(folder, "a"), test_path(folder, "b"));
    rung_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(ranks_choose_alike),
        IN_FOLDER(stages_measure_their_own),
        IN_FOLDER(a_run_goes_on_with_its_choices),
        IN_FOLDER(replicas_share_a_table),
    };
    return RUN_TESTS(tests);
}
