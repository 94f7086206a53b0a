// SPDX-License-Identifier: Apache-2.0
// The command line: one table of verbs, each in a file of its own (verb_NAME.c). The CLI sees only
// rung's public headers, and is the only part of rung that prints.
#ifndef RUNGI_CLI_CLI_H
#define RUNGI_CLI_CLI_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "rung/config.h"
#include "rung/context.h"
#include "rung/train.h"

// One option of a verb. Tables end with {0}.
typedef struct cli_option {
    const char *name;  // "--run"
    const char *value; // what its value is called, "DIR"; NULL: a switch
    const char *help;
} cli_option;

// The option of verbs that make a run folder or read one.
#define CLI_RUN_OPTION                       \
    {                                        \
        "--run", "DIR", "Folder of the run." \
    }

typedef struct cli_arguments cli_arguments;

// What a verb does. `context` logs to stderr. Mistakes that the verb finds itself it records by
// rung_error_set: main prints the record and turns the status into the exit status.
typedef rung_status (*cli_run_fn)(rung_context *context, const cli_arguments *arguments);

typedef struct cli_verb {
    const char *name;
    const char *summary;       // for the list of verbs
    const char *arguments;     // "CONFIG [KEY=VALUE ...]", for the line of usage
    const char *text;          // a paragraph
    const cli_option *options; // besides the common ones; may be NULL
    int min_arguments;         // those that are neither options nor KEY=VALUE
    int max_arguments;         // -1: any number
    bool config;               // takes KEY=VALUE, --KEY=VALUE and the flags of keys
    cli_run_fn run;
} cli_verb;

// All verbs, from verbs.def, ended by NULL.
extern const cli_verb *const cli_verbs[];

// Options that every verb takes, ended by {0}.
extern const cli_option cli_common_options[];

struct cli_arguments {
    const cli_verb *verb;
    char **words; // neither options nor KEY=VALUE
    int word_count;
    char **overrides; // "KEY=VALUE", for rung_config_override
    int override_count;
    char **options; // the verb's, as "--name=value" or "--name"
    int option_count;
    bool help, version, verbose, quiet;
};

// Takes apart what follows the program's name. Errors: RUNG_INVALID. The caller ends with
// cli_arguments_fini in any case.
rung_status cli_arguments_parse(cli_arguments *arguments, int count, char **list);
void cli_arguments_fini(cli_arguments *arguments);

// The value of the verb's option `name`: NULL when it was not given, "" for a switch that was. The
// last one wins.
const char *cli_value(const cli_arguments *arguments, const char *name);

// The whole number that the verb's option `name` has, `otherwise` when it was not given.
// Errors: RUNG_INVALID when it is none, or is below `least`.
rung_status cli_number(const cli_arguments *arguments, const char *name, int64_t least,
                       int64_t otherwise, int64_t *out);

// Makes the configuration of a verb: the file `path` (NULL: none), then the overrides. It is not
// checked yet. The caller owns it.
rung_status cli_load_config(rung_context *context, const cli_arguments *arguments, const char *path,
                            rung_config **config_out);

// The path of this program, to start it again. Errors: RUNG_IO.
rung_status cli_own_path(char *out, size_t size);

// A line on a terminal's standard output that says what is going on, and is overwritten.
typedef struct cli_line {
    bool terminal;
    bool shown;
} cli_line;

cli_line cli_line_init(bool quiet);
// Before anything else is printed, and at the end.
void cli_line_clear(cli_line *line);
// Shows a text in it; nothing where standard output is no terminal. `line` is a cli_line: this fits
// as a progress callback.
void cli_line_show(void *line, const char *text);

// rung train --procs: starts the ranks as processes and waits for them; when one dies, again, as
// often as --max-restarts says. *status_out: the exit status of the last job.
rung_status cli_train_procs(const cli_arguments *arguments, const char *run, int *status_out);

// guard.c: a child that ends the job of a launcher when this process is killed (SIGKILL included),
// and removes the folder `scratch` then. `end` sends it away, when the job has ended.
typedef struct cli_guard {
    pid_t pid;
    int pipe; // -1: there is none
} cli_guard;
cli_guard cli_guard_start(pid_t job, const char *scratch);
void cli_guard_end(cli_guard *guard);
// Processes of a job on this machine: the launcher's children that have not ended; -1: that cannot
// be told. `number`: a signal for each; 0: none.
int cli_job_processes(pid_t launcher, int number);
// Removes a folder and what is in it, as far as that goes; "" is none.
void cli_remove_tree(const char *path);

// The exit status that main gives instead of that of rung_status (for a job's); -1: none.
extern int cli_exit_status;

// Makes a context that logs to stderr like main's, with the cap on instruction sets of a
// configuration (known only after it was read). The caller owns it.
rung_status cli_context_create(const cli_arguments *arguments, rung_isa isa,
                               rung_context **context_out);

// The environment variable in which rung train --procs tells its ranks its process number.
#define CLI_SUPERVISOR "RUNG_SUPERVISOR"
// For a process that mpirun or srun started as one of several (does nothing in others). The SIGTERM
// that launchers send when another process has died must leave time to say which it was: it is held
// until training begins. And a rank that rung train --procs started must not outlive it: when the
// launcher dies it is killed, and when the launcher ends it because the supervisor is gone it ends
// at once, without a checkpoint.
void cli_ranks_begin(void);

// From now on SIGINT, SIGTERM and SIGUSR1 ask `trainer` to stop; a second one ends the process at
// once. NULL ends this.
void cli_stop_watch(rung_trainer *trainer);
// The signal that asked to stop; 0: none. And whether that was what ended training.
int cli_stop_signal(void);
bool cli_stop_obeyed(void);

// Shows training: a line that is redrawn where `out` is a terminal; else a line per validation, and
// one of a step after a long silence.
typedef struct cli_progress {
    FILE *out;
    bool terminal, quiet;
    bool shown;     // a line stands there that is to be redrawn
    double printed; // seconds of the last line
    int64_t first_step;
    double start_seconds; // until the first step
    int64_t best_step;    // 0: none
    double best_accuracy, best_loss;
    bool ended;
    rung_train_event end;
    char *devices, *workers; // texts of the end, which do not outlive the event
} cli_progress;

void cli_progress_init(cli_progress *progress, FILE *out, bool quiet);
void cli_progress_event(void *progress, const rung_train_event *event);
// The closing summary: where the time went.
void cli_progress_close(cli_progress *progress);

// Prints the help of a verb, or, when it is NULL, of rung.
void cli_print_help(FILE *out, const cli_verb *verb);

#endif
