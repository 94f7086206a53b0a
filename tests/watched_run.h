// SPDX-License-Identifier: Apache-2.0
// Training runs of which tests look at what the trainer told.
#ifndef RUNGI_TESTS_WATCHED_RUN_H
#define RUNGI_TESTS_WATCHED_RUN_H

#include "training.h"

#ifdef RUNG_OPENMP
#    define OWN "own"
#    define LIBRARY "library"
#else // the build for ThreadSanitizer
#    define OWN "reference"
#    define LIBRARY "reference"
#endif

// How a configuration begins: one thread, `count` made pictures of 4 classes. More keys of data may
// follow.
#define PICTURES(kernels, count)     \
    "device: {threads: 1}\n"         \
    "plan: {kernels: " kernels "}\n" \
    "data:\n"                        \
    "  source: synthetic\n"          \
    "  synthetic: {shape: [1, 8, 8], count: " #count ", classes: 4}\n"

enum { WATCHED_STEPS = 64 };

typedef struct seen {
    rung_trainer *trainer;
    int64_t stop_at; // the step after which to stop; 0: not
    int64_t evaluated, correct, seen_once, seen_again, steps, samples;
    double first_loss, last_loss, val_loss;
    // By step, from 1 on; those that are not logged, and from WATCHED_STEPS on, stay 0.
    double losses[WATCHED_STEPS], norms[WATCHED_STEPS], rates[WATCHED_STEPS];
    char devices[512]; // of the end
} seen;

static inline void watch_step(seen *s, const rung_train_event *e)
{
    if (!s->steps)
        s->first_loss = e->loss;
    s->last_loss = e->loss;
    s->steps = e->step;
    s->samples = e->samples;
    if (e->step < WATCHED_STEPS) {
        s->losses[e->step] = e->loss;
        s->norms[e->step] = e->grad_norm;
        s->rates[e->step] = e->lr;
    }
    if (s->stop_at && e->step >= s->stop_at)
        rung_trainer_stop(s->trainer);
}

static inline void watch(void *user, const rung_train_event *e)
{
    seen *s = user;
    if (e->kind == RUNG_EVENT_EVAL) {
        s->evaluated = e->evaluated;
        s->correct = e->correct;
        s->val_loss = e->loss;
    }
    if (e->kind == RUNG_EVENT_EPOCH) {
        s->seen_once = e->seen_once;
        s->seen_again = e->seen_again;
    }
    if (e->kind == RUNG_EVENT_END) {
        s->samples = e->samples;
        snprintf(s->devices, sizeof s->devices, "%s", e->devices ? e->devices : "");
    }
    if (e->kind == RUNG_EVENT_STEP)
        watch_step(s, e);
}

// Trains from the start, in the folder `run` (NULL: none). Returns what create or fit returned.
static inline rung_status train(rung_context *context, const char *yaml,
                                const char *const *overrides, const char *run, seen *s)
{
    rung_config *config = training_config(context, yaml, overrides);
    rung_status status = rung_trainer_create(context, config, run, &s->trainer);
    if (status == RUNG_OK)
        status = rung_trainer_fit(s->trainer, &(rung_observer){s, watch});
    rung_trainer_destroy(&s->trainer);
    rung_config_destroy(&config);
    return status;
}

#endif
