// SPDX-License-Identifier: Apache-2.0
#include "ladder/child.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/context.h"
#include "base/error.h"
#include "base/json.h"

extern char **environ;

void rungi_command_add(rungi_command *c, const char *fmt, ...)
{
    char text[4096];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    char *copy = strdup(text);
    if (!copy || c->count == RUNGI_CHILD_WORDS) {
        free(copy);
        c->failed = true;
        return;
    }
    c->words[c->count++] = copy;
}

bool rungi_next_word(const char **words, char *out, size_t size)
{
    const char *at = *words + strspn(*words, " ");
    size_t used = 0;
    bool found = *at != '\0';
    for (; *at && *at != ' '; at++) {
        at += *at == '\\' && at[1];
        if (used + 1 < size)
            out[used++] = *at;
    }
    out[used] = '\0';
    *words = at;
    return found;
}

void rungi_command_add_words(rungi_command *c, const char *words)
{
    char word[4096];
    while (rungi_next_word(&words, word, sizeof word))
        rungi_command_add(c, "%s", word);
}

void rungi_command_launch(rungi_command *c, const char *launcher, int64_t ranks,
                          const char *program)
{
    static const char here[] = "{ranks}";
    char word[4096];
    c->launches = true;
    while (rungi_next_word(&launcher, word, sizeof word)) {
        const char *at = strstr(word, here);
        if (at)
            rungi_command_add(c, "%.*s%" PRId64 "%s", (int)(at - word), word, ranks,
                              at + sizeof here - 1);
        else
            rungi_command_add(c, "%s", word);
    }
    rungi_command_add(c, "%s", program);
}

void rungi_command_fini(rungi_command *c)
{
    for (int i = 0; i < c->count; i++)
        free(c->words[i]);
    *c = (rungi_command){0};
}

// What Open MPI needs to be told in containers and on small machines; others do not look. Variables
// that are set already stay. Freed with free().
static char **launcher_environment(void)
{
    static const char *const more[] = {
        "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
        "OMPI_MCA_rmaps_base_oversubscribe=1", "OMPI_MCA_hwloc_base_binding_policy=none"};
    const size_t added = sizeof more / sizeof *more;
    size_t count = 0;
    while (environ[count])
        count++;
    char **out = calloc(count + added + 1, sizeof *out);
    if (!out)
        return NULL;
    memcpy(out, environ, count * sizeof *out);
    for (size_t i = 0; i < added; i++) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(more[i], "="), more[i]);
        if (!getenv(name))
            out[count++] = (char *)more[i];
    }
    return out;
}

static rung_status start(const rungi_command *c, int out[2], int err[2], pid_t *pid_out)
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_adddup2(&actions, err[1], 2);
    char **own = c->launches ? launcher_environment() : environ;
    int error = own ? posix_spawnp(pid_out, c->words[0], &actions, NULL, c->words, own) : ENOMEM;
    if (own != environ)
        free(own);
    posix_spawn_file_actions_destroy(&actions);
    RUNG_CHECK(error == 0, RUNG_IO, "%s: cannot be started: %s", c->words[0], strerror(error));
    return RUNG_OK;
}

// Reads both pipes to their ends; false when the time is up.
static bool collect(const int pipes[2], int64_t deadline, rungi_string *out, rungi_string *err)
{
    struct pollfd polled[2] = {{pipes[0], POLLIN, 0}, {pipes[1], POLLIN, 0}};
    const rung_clock *clock = rungi_clock_monotonic();
    while (polled[0].fd >= 0 || polled[1].fd >= 0) {
        int64_t left = (deadline - clock->now(clock->user)) / 1000000;
        if (left <= 0)
            return false;
        if (poll(polled, 2, left > 1000 ? 1000 : (int)left) <= 0)
            continue;
        for (int i = 0; i < 2; i++) {
            char buffer[4096];
            if (polled[i].fd < 0 || !polled[i].revents)
                continue;
            ssize_t n = read(polled[i].fd, buffer, sizeof buffer);
            if (n > 0)
                rungi_string_append(i ? err : out, buffer, (size_t)n);
            else if (n == 0 || errno != EINTR)
                polled[i].fd = -1;
        }
    }
    return true;
}

// The last line of a text, without the program's name before it; of those of rung, where there are
// any: launchers have more to say.
static const char *last_line(rungi_string *text)
{
    static const char own[] = "\nrung: ";
    const char *found = NULL;
    while (text->size && text->data[text->size - 1] == '\n')
        text->data[--text->size] = 0;
    const char *all = rungi_string_text(text), *line = strrchr(all, '\n');
    for (const char *at = all; (at = strstr(at, own)); at++)
        found = at + 1;
    if (!found && strncmp(all, own + 1, sizeof own - 2) == 0)
        found = all;
    if (!found)
        return line ? line + 1 : all;
    if (line > found) // what follows is not rung's
        text->data[found - all + (ptrdiff_t)strcspn(found, "\n")] = 0;
    return found + sizeof own - 2;
}

// A launcher ends its processes when it is told to, but not when it is killed.
static void end_child(const rungi_command *c, pid_t pid)
{
    enum { TICK_MS = 20, PATIENCE = 5000 / TICK_MS };
    siginfo_t info = {0};
    if (c->launches)
        kill(pid, SIGTERM);
    for (int i = 0; c->launches && i < PATIENCE && !info.si_pid; i++) {
        usleep(TICK_MS * 1000);
        if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0)
            break;
    }
    kill(pid, SIGKILL);
}

static rung_status judge(const rungi_command *c, int state, rungi_string *err, int *exit_out)
{
    if (WIFSIGNALED(state))
        return RUNG_FAIL(RUNG_INTERNAL, "%s %s was ended by signal %d (%s)", c->words[0],
                         c->words[1], WTERMSIG(state), last_line(err));
    int code = WEXITSTATUS(state);
    if (exit_out)
        *exit_out = code;
    else if (code != 0)
        return RUNG_FAIL(code == 4 ? RUNG_DIVERGED : RUNG_INTERNAL, "%s", last_line(err));
    return RUNG_OK;
}

rung_status rungi_command_run(rungi_command *c, double limit, rungi_string *output, int *exit_out)
{
    int out[2], err[2], state = 0;
    pid_t pid;
    rungi_string errors = {0};
    RUNG_CHECK(!c->failed, RUNG_NO_MEMORY, "no memory for a command");
    RUNG_CHECK(pipe2(out, O_CLOEXEC) == 0, RUNG_IO, "no pipe: %s", strerror(errno));
    if (pipe2(err, O_CLOEXEC) != 0) {
        close(out[0]);
        close(out[1]);
        return RUNG_FAIL(RUNG_IO, "no pipe: %s", strerror(errno));
    }
    rung_status status = start(c, out, err, &pid);
    close(out[1]);
    close(err[1]);
    if (status == RUNG_OK) {
        const rung_clock *clock = rungi_clock_monotonic();
        int64_t deadline = clock->now(clock->user) + (int64_t)(limit * 1e9);
        bool ended = collect((int[]){out[0], err[0]}, deadline, output, &errors);
        if (!ended)
            end_child(c, pid);
        while (waitpid(pid, &state, 0) < 0 && errno == EINTR) {
        }
        status = ended ? judge(c, state, &errors, exit_out)
                       : RUNG_FAIL(RUNG_TIMEOUT, "%s %s did not end within %.0f s", c->words[0],
                                   c->words[1], limit);
    }
    close(out[0]);
    close(err[0]);
    rungi_string_fini(&errors);
    return status;
}

rung_status rungi_child_block(const rungi_child *child, const char *settings, const char *arguments,
                              double limit, json_t **out)
{
    rungi_command c = {0};
    rungi_string text = {0};
    bool launched = *child->launcher && child->ranks > 1;
    if (launched)
        rungi_command_launch(&c, child->launcher, child->ranks, child->program);
    else
        rungi_command_add(&c, "%s", child->program);
    rungi_command_add(&c, "block");
    rungi_command_add(&c, "%s", child->config);
    rungi_command_add_words(&c, settings);
    if (launched)
        rungi_command_add(&c, "train.ranks=1");
    rungi_command_add_words(&c, arguments);
    rung_status status = rungi_command_run(&c, limit, &text, NULL);
    if (status == RUNG_OK)
        status = rungi_json_parse(rungi_string_text(&text), text.size, "a block", out);
    rungi_string_fini(&text);
    rungi_command_fini(&c);
    return status;
}
