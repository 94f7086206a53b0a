// SPDX-License-Identifier: Apache-2.0
// Prepares a training run as `rung train` does and takes its first step.
//
//   startup RUN KEY=VALUE...
//
// Prints two readings of CLOCK_MONOTONIC in nanoseconds: when the first step began (its batch
// loaded), and when it had ended.
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "rung/train.h"

typedef struct readings {
    int64_t prepared, ended;
    double wait_ms; // of the first step, for its batch
} readings;

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void on_event(void *user, const rung_train_event *event)
{
    readings *r = user;
    if (event->kind == RUNG_EVENT_START)
        r->prepared = now();
    if (event->kind == RUNG_EVENT_STEP) {
        r->ended = now();
        for (int i = 0; i < RUNG_TIME_PARTS; i++)
            if (strcmp(rung_time_part(i), "wait") == 0)
                r->wait_ms = event->ms[i];
    }
}

int main(int argc, char **argv)
{
    rung_config *config = NULL;
    rung_context *context = NULL;
    rung_trainer *trainer = NULL;
    readings r = {0};
    if (argc < 2) {
        fprintf(stderr, "usage: startup RUN KEY=VALUE...\n");
        return 2;
    }
    rung_status status = rung_config_create(NULL, &config);
    for (int i = 2; i < argc && status == RUNG_OK; i++)
        status = rung_config_override(config, argv[i]);
    if (status == RUNG_OK)
        status =
            rung_context_create(&(rung_context_options){.isa = rung_config_isa(config)}, &context);
    if (status == RUNG_OK)
        status = rung_trainer_create(context, config, argv[1], &trainer);
    if (status == RUNG_OK)
        status = rung_trainer_fit(trainer, &(rung_observer){&r, on_event});
    if (status == RUNG_OK)
        printf("%lld %lld\n", (long long)r.prepared + (long long)(r.wait_ms * 1e6),
               (long long)r.ended);
    else
        fprintf(stderr, "startup: %s\n", rung_error_last()->message);
    rung_trainer_destroy(&trainer);
    rung_config_destroy(&config);
    rung_context_destroy(&context);
    return status == RUNG_OK ? 0 : 1;
}
