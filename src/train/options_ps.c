// SPDX-License-Identifier: Apache-2.0
// The keys of ps: strategy parameter_server.
#include "train/options_tables.h"

static const char *const modes[] = {
    [RUNGI_PS_SYNC] = "sync",
    [RUNGI_PS_ASYNC] = "async",
    NULL,
};

static const rungi_option_word auto_words[] = {{"auto", 0}, {0}};
static const rungi_option_word none_words[] = {{"none", -1}, {0}};

const rungi_option rungi_ps_options[] = {
    {.key = "ps.mode",
     .type = RUNGI_OPTION_CHOICE,
     RUNGI_AT(rungi_ps_config, mode),
     .initial = "sync",
     .choices = modes,
     .help = "sync: in each step servers add the gradients of all workers and update once, with "
             "the result of ddp. async: each worker's gradient updates the weights as soon as it "
             "is there, and it goes on with the newest; not reproducible, and not with exact."},
    {.key = "ps.servers",
     .type = RUNGI_OPTION_INT,
     RUNGI_AT(rungi_ps_config, servers),
     .initial = "auto",
     .range = "[1, 64]",
     .words = auto_words,
     .help = "Servers, each with a range of the parameters and their optimizer state. A server "
             "lives with a rank, so there are at most as many; auto: one with each."},
    {.key = "ps.staleness",
     .type = RUNGI_OPTION_INT,
     RUNGI_AT(rungi_ps_config, staleness),
     .initial = "none",
     .range = ">= 0",
     .words = none_words,
     .unit = "steps",
     .help = "Of ps.mode async: steps that a worker may be ahead of the slowest (stale synchronous "
             "parallel); 0: all go in step."},
    {0},
};
