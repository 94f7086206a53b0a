// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "cli.h"

static rung_status run(rung_context *context, const cli_arguments *arguments)
{
    rung_config *config = NULL;
    rung_context *own = NULL;
    rung_trainer *trainer = NULL;
    char *text = NULL;
    rung_status status = cli_load_config(context, arguments, arguments->words[0], &config);
    if (status == RUNG_OK)
        status = cli_context_create(arguments, rung_config_isa(config), &own);
    if (status == RUNG_OK)
        status = rung_trainer_create(own, config, NULL, &trainer);
    if (status == RUNG_OK)
        status = rung_trainer_summary(trainer, &text);
    if (status == RUNG_OK)
        fputs(text, stdout);
    free(text);
    rung_trainer_destroy(&trainer);
    rung_context_destroy(&own);
    rung_config_destroy(&config);
    return status;
}

const cli_verb cli_verb_summary = {
    .name = "summary",
    .summary = "tell a network's layers, parameters, cost and memory",
    .arguments = "CONFIG [KEY=VALUE ...]",
    .text = "Prints a table of the layers with output shape, parameters, floating-point operations "
            "and bytes of activations a sample, and the memory that training will need. Nothing "
            "is trained.",
    .min_arguments = 1,
    .max_arguments = 1,
    .config = true,
    .run = run,
};
