// SPDX-License-Identifier: Apache-2.0
// Child processes of the ladder: rung started again with other settings.
#ifndef RUNGI_LADDER_CHILD_H
#define RUNGI_LADDER_CHILD_H

#include <jansson.h>

#include "base/text.h"

enum { RUNGI_CHILD_WORDS = 64 };

// A command under construction.
typedef struct rungi_command {
    char *words[RUNGI_CHILD_WORDS + 1]; // ended by NULL
    int count;
    bool failed;
    bool launches; // by a launcher: its processes are other children's
} rungi_command;

void rungi_command_add(rungi_command *c, const char *fmt, ...) RUNG_PRINTF(2, 3);
// Takes the next word of a text that blanks separate, and moves *words behind it: false at its end.
// A blank within a word stands as "\ ", a backslash as "\\".
bool rungi_next_word(const char **words, char *out, size_t size);
// Adds each word of such a text.
void rungi_command_add_words(rungi_command *c, const char *words);
// Begins a command that runs `program` as several processes: the words of `launcher`, with `ranks`
// for {ranks}, and the program.
void rungi_command_launch(rungi_command *c, const char *launcher, int64_t ranks,
                          const char *program);
void rungi_command_fini(rungi_command *c);

// Runs it to its end, at most `limit` seconds of the system's clock. Standard output comes back as
// text (the caller fini's it); standard error goes to the child's end of a pipe, and its last line
// (of rung's, where there are some) becomes the error message. *exit_out (may be NULL) receives the
// exit status; without it a status other than 0 fails with the child's last line.
rung_status rungi_command_run(rungi_command *c, double limit, rungi_string *output, int *exit_out);

// How a block is run.
typedef struct rungi_child {
    const char *program, *config;
    const char *launcher; // ladder.launcher; "": ranks are threads of one process
    int64_t ranks;        // of the block, with its settings
} rungi_child;

// Runs `program block config` with settings and arguments (words) to its end, at most `limit`
// seconds. *out is what it tells; the caller decref's it.
rung_status rungi_child_block(const rungi_child *child, const char *settings, const char *arguments,
                              double limit, json_t **out);

#endif
