// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "cli.h"
#include "rung/ladder.h"

static double number(const cli_arguments *arguments, const char *name, double otherwise)
{
    const char *value = cli_value(arguments, name);
    return value ? strtod(value, NULL) : otherwise;
}

static rung_status run(rung_context *context, const cli_arguments *arguments)
{
    rung_config *config = NULL;
    rung_context *own = NULL;
    char *json = NULL;
    rung_block_options options = {.warmup = (int64_t)number(arguments, "--warmup", 3),
                                  .steps = (int64_t)number(arguments, "--steps", 20),
                                  .seconds = number(arguments, "--seconds", 0),
                                  .gate = cli_value(arguments, "--gate") != NULL,
                                  .disturb = number(arguments, "--disturb", 0),
                                  .disturb_seed = (uint64_t)number(arguments, "--disturb-seed", 1),
                                  .disturb_gradient =
                                      cli_value(arguments, "--disturb-gradient") != NULL};
    cli_ranks_begin();
    rung_status status = cli_load_config(context, arguments, arguments->words[0], &config);
    if (status == RUNG_OK)
        status = cli_context_create(arguments, rung_config_isa(config), &own);
    if (status == RUNG_OK)
        status = rung_block_run(own, config, &options, &json);
    if (status == RUNG_OK && json)
        printf("%s\n", json);
    free(json);
    rung_context_destroy(&own);
    rung_config_destroy(&config);
    return status;
}

static const cli_option options[] = {
    {"--steps", "N", "Steps to measure (20)."},
    {"--seconds", "S", "Measure for about this long instead."},
    {"--warmup", "N", "Steps before that are not measured (3)."},
    {"--gate", NULL, "Also tell every loss and a checksum of weights and optimizer state."},
    {"--disturb", "E", "Move each initial weight by a random relative amount of up to E."},
    {"--disturb-seed", "N", "Seed of that."},
    {"--disturb-gradient", NULL, "Also tell how far that moves the gradient."},
    {0},
};

const cli_verb cli_verb_block = {
    .name = "block",
    .summary = "measure some training steps, as the ladder does",
    .arguments = "CONFIG [KEY=VALUE ...]",
    .text = "Trains a few steps and prints what was measured as one JSON object: step time and its "
            "parts, samples/s, share of waiting for data, peak memory. The ladder runs its blocks "
            "this way, each in a process of its own, or in several that ladder.launcher starts: of "
            "processes of mpirun rank 0 prints.",
    .options = options,
    .min_arguments = 1,
    .max_arguments = 1,
    .config = true,
    .run = run,
};
