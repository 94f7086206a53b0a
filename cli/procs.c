// SPDX-License-Identifier: Apache-2.0
// rung train --procs: starts the ranks as processes by mpirun, and starts them again from the last
// checkpoint when one of them dies.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"

enum { WORDS = 512 };

typedef struct command {
    char *words[WORDS + 1];
    int count;
    bool failed;
} command;

static void add(command *c, const char *word)
{
    char *copy = c->count < WORDS ? strdup(word) : NULL;
    if (copy)
        c->words[c->count++] = copy;
    else
        c->failed = true;
}

static void fini(command *c)
{
    for (int i = 0; i < c->count; i++)
        free(c->words[i]);
}

static bool exists(const char *folder, const char *name)
{
    char path[4200];
    struct stat found;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return stat(path, &found) == 0;
}

// mpirun and this program with the same arguments; with `resume` from the run's last checkpoint.
static rung_status build(const cli_arguments *arguments, const char *program, const char *run,
                         int64_t procs, bool resume, command *c)
{
    const char *launcher = cli_value(arguments, "--launcher");
    char words[4096], number[32], *rest = words;
    snprintf(number, sizeof number, "%" PRId64, procs);
    snprintf(words, sizeof words, "%s", launcher ? launcher : "mpirun -n {procs}");
    for (char *word; (word = strtok_r(rest, " ", &rest));)
        add(c, strcmp(word, "{procs}") == 0 ? number : word);
    add(c, program);
    add(c, "train");
    if (!resume)
        for (int i = 0; i < arguments->word_count; i++)
            add(c, arguments->words[i]);
    for (int i = 0; i < arguments->override_count; i++)
        add(c, arguments->overrides[i]);
    if (arguments->quiet)
        add(c, "--quiet");
    if (arguments->verbose)
        add(c, "--verbose");
    add(c, resume ? "--resume" : "--run");
    add(c, run);
    return c->failed ? rung_error_set(RUNG_INVALID, "train: too many arguments for --procs")
                     : RUNG_OK;
}

// What Open MPI needs to be told in containers and on small machines; other MPIs do not look.
static char scratch[] = "/tmp/rung-job-XXXXXX"; // Open MPI's files

static void prepare_environment(void)
{
    char own[32];
    if (mkdtemp(scratch))
        setenv("OMPI_MCA_orte_tmpdir_base", scratch, 0);
    else
        *scratch = 0;
    snprintf(own, sizeof own, "%ld", (long)getpid());
    setenv(CLI_SUPERVISOR, own, 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
    setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 0);
}

static volatile sig_atomic_t received;
static volatile pid_t job;

// The job has a process group of its own, so that a terminal's signal reaches it from here alone.
// The first becomes SIGUSR1, which launchers pass on, so that ranks end with a checkpoint; after a
// second one the launcher ends them.
static void on_signal(int number)
{
    if (job > 0)
        kill(job, received ? SIGTERM : SIGUSR1);
    received = number;
}

static void watch_signals(bool on)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGUSR1};
    struct sigaction action = {.sa_handler = on ? on_signal : SIG_DFL};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaction(numbers[i], &action, NULL);
}

// Waits for the launcher's end. Open MPI's may hang when a process dies while it starts: once all
// its processes are gone it has some seconds, then it is ended.
static void wait_job(int *status)
{
    enum { TICK_MS = 50, PATIENCE = 3000 / TICK_MS, LAST = 1000 / TICK_MS };
    bool seen = false;
    for (int alone = 0;; alone++) {
        pid_t ended = waitpid(job, status, WNOHANG);
        if (ended == job || (ended < 0 && errno != EINTR))
            return;
        int processes = cli_job_processes(job, 0);
        seen |= processes > 0;
        if (!seen || processes != 0)
            alone = -1;
        else if (alone == PATIENCE || alone == PATIENCE + LAST)
            kill(job, alone == PATIENCE ? SIGTERM : SIGKILL);
        usleep(TICK_MS * 1000);
    }
}

// Runs the command to its end. *status_out: its exit status, 128 + n for a signal.
static rung_status run_job(const command *c, int *status_out)
{
    int status = 0;
    pid_t parent = getpid();
    job = fork();
    if (job < 0)
        return rung_error_set(RUNG_IO, "cannot start %s: %s", c->words[0], strerror(errno));
    if (job == 0) {
        int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (nothing >= 0) // of a terminal its group could not read
            dup2(nothing, STDIN_FILENO);
        setpgid(0, 0);
        // When this program is killed, the job must not stay behind.
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() == parent)
            execvp(c->words[0], c->words);
        fprintf(stderr, "rung: cannot start %s: %s\n", c->words[0], strerror(errno));
        _exit(127);
    }
    cli_guard guard = cli_guard_start(job, scratch);
    wait_job(&status);
    cli_guard_end(&guard);
    job = 0;
    *status_out = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return RUNG_OK;
}

// Statuses after which the same would happen again: usage, a gate, divergence, no memory, no
// launcher.
static bool is_final(int status)
{
    return status == 0 || (status >= 2 && status <= 5) || status == 127;
}

static rung_status supervise(const cli_arguments *arguments, const char *program, const char *run,
                             int64_t procs, int64_t restarts, int *status_out)
{
    bool resume = cli_value(arguments, "--resume") != NULL;
    for (int64_t restart = 0;; restart++) {
        command c = {0};
        char *text = NULL;
        rung_status status = build(arguments, program, run, procs, resume, &c);
        if (status == RUNG_OK)
            status = run_job(&c, status_out);
        fini(&c);
        if (status != RUNG_OK || received || is_final(*status_out))
            return status;
        if (rung_ranks_text(run, &text) == RUNG_OK)
            fputs(text, stderr);
        free(text);
        if (restart >= restarts)
            return RUNG_OK;
        resume = exists(run, "config.yaml");
        fprintf(stderr,
                "rung: the job ended with status %d; restart %" PRId64 " of %" PRId64 " %s\n",
                *status_out, restart + 1, restarts,
                resume ? "from the last checkpoint" : "from the beginning");
    }
}

rung_status cli_train_procs(const cli_arguments *arguments, const char *run, int *status_out)
{
    char program[4096];
    int64_t procs, restarts;
    rung_status status = cli_number(arguments, "--procs", 1, 1, &procs);
    if (status == RUNG_OK)
        status = cli_number(arguments, "--max-restarts", 0, 0, &restarts);
    if (status == RUNG_OK)
        status = cli_own_path(program, sizeof program);
    if (status != RUNG_OK)
        return status;
    prepare_environment();
    watch_signals(true);
    status = supervise(arguments, program, run, procs, restarts, status_out);
    watch_signals(false);
    cli_remove_tree(scratch);
    if (status == RUNG_OK && received)
        *status_out = 128 + received;
    return status;
}
