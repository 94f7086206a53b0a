// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "cli.h"
#include "rung/env.h"

static rung_status run(rung_context *context, const cli_arguments *arguments)
{
    (void)arguments;
    char *text = NULL;
    rung_status status = rung_env_text(context, &text);
    if (status == RUNG_OK)
        fputs(text, stdout);
    free(text);
    return status;
}

const cli_verb cli_verb_env = {
    .name = "env",
    .summary = "tell what a report of a bug or of a measurement needs",
    .arguments = "",
    .text =
        "Prints rung's version and commit, compiler, system, processor, cores that may be used, "
        "instruction set, memory, versions of the libraries, and variables of the environment "
        "that change how they run.",
    .run = run,
};
