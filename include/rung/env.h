// SPDX-License-Identifier: Apache-2.0
// What a report of a bug or of a measurement must say about where it happened.
#ifndef RUNG_ENV_H
#define RUNG_ENV_H

#include "rung/context.h"

#ifdef __cplusplus
extern "C" {
#endif

// Lines of "name: value", which are YAML: rung's version and commit, compiler, system, processor,
// cores that this process may use, instruction set in force, memory, huge pages, versions of the
// libraries, and variables of the environment that change how they run. What cannot be found out is
// left out. The caller frees *text_out with free(). Errors: RUNG_NO_MEMORY.
RUNG_API rung_status rung_env_text(const rung_context *context, char **text_out);

#ifdef __cplusplus
}
#endif

#endif
