// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

int cli_exit_status = -1;

static void log_line(void *user, rung_log_level level, const char *line)
{
    static const char *const leads[] = {"debug: ", "", "note: ", "warning: ", "error: "};
    (void)user;
    fprintf(stderr, "rung: %s%s\n", leads[level], line);
}

rung_status cli_context_create(const cli_arguments *arguments, rung_isa isa,
                               rung_context **context_out)
{
    rung_context_options options = {
        .log = log_line,
        .log_level = arguments->quiet     ? RUNG_LOG_WARNING
                     : arguments->verbose ? RUNG_LOG_DEBUG
                                          : RUNG_LOG_NOTICE,
        .isa = isa,
    };
    return rung_context_create(&options, context_out);
}

rung_status cli_own_path(char *out, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", out, size - 1);
    if (length < 0)
        return rung_error_set(RUNG_IO, "the path of this program is not known");
    out[length] = 0;
    return RUNG_OK;
}

static rung_status run_verb(const cli_arguments *arguments)
{
    rung_context *context = NULL;
    rung_status status = cli_context_create(arguments, RUNG_ISA_AUTO, &context);
    if (status == RUNG_OK)
        status = arguments->verb->run(context, arguments);
    rung_context_destroy(&context);
    return status;
}

// Writes what is left of the output. A full disk or a closed pipe must not pass for success.
static rung_status flush_output(void)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return RUNG_OK;
    return rung_error_set(RUNG_IO, "standard output: cannot write: %s",
                          errno ? strerror(errno) : "an earlier write failed");
}

// The one place that tells of failures. What each process ran out of by itself says which one it
// was.
static void tell_failure(rung_status status)
{
    const char *message = rung_error_last()->message;
    if (status == RUNG_NO_MEMORY && rung_ranks_launched() && strncmp(message, "rank ", 5) != 0)
        fprintf(stderr, "rung: process %d: %s\n", rung_ranks_process(), message);
    else
        fprintf(stderr, "rung: %s\n", message);
}

int main(int count, char **list)
{
    cli_arguments arguments;
    rung_status status = cli_arguments_parse(&arguments, count - 1, list + 1);
    if (status == RUNG_OK && arguments.version)
        printf("rung %s\n", rung_version());
    else if (status == RUNG_OK && arguments.help)
        cli_print_help(stdout, arguments.verb);
    else if (status == RUNG_OK && !arguments.verb)
        status = rung_error_set(RUNG_INVALID, "a verb is missing (see 'rung --help')");
    else if (status == RUNG_OK)
        status = run_verb(&arguments);
    if (status == RUNG_OK)
        status = flush_output();
    if (status != RUNG_OK)
        tell_failure(status);
    cli_arguments_fini(&arguments);
    if (cli_exit_status >= 0)
        return cli_exit_status;
    fflush(stderr);
    rung_ranks_end(status != RUNG_OK && !cli_stop_obeyed());
    if (status == RUNG_CANCELLED && cli_stop_obeyed())
        return 128 + cli_stop_signal();
    return rung_status_exit(status);
}
