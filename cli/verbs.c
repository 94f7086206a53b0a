// SPDX-License-Identifier: Apache-2.0
#include "cli.h"

#define CLI_VERB(name) extern const cli_verb cli_verb_##name;
#include "verbs.def"
#undef CLI_VERB

const cli_verb *const cli_verbs[] = {
#define CLI_VERB(name) &cli_verb_##name,
#include "verbs.def"
#undef CLI_VERB
    NULL,
};
