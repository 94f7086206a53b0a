// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

// The first of runs/NAME-1, runs/NAME-2, ... that is not there; NAME is the configuration's.
static void choose_run(const char *config, char *out, size_t size)
{
    const char *name = strrchr(config, '/');
    name = name ? name + 1 : config;
    const char *dot = strrchr(name, '.');
    int length = dot && dot > name ? (int)(dot - name) : (int)strlen(name);
    struct stat found;
    for (int i = 1;; i++) {
        snprintf(out, size, "runs/%.*s-%d", length, name, i);
        if (stat(out, &found) != 0)
            return;
    }
}

static rung_status print_text(rung_status status, char *text)
{
    if (status == RUNG_OK && text)
        fputs(text, stdout);
    free(text);
    return status;
}

static void print_exchange(const rung_trainer *trainer)
{
    char *text = NULL;
    if (rung_trainer_exchange_text(trainer, &text) == RUNG_OK && text)
        fputs(text, stdout);
    free(text);
}

static rung_status fit(rung_trainer *trainer, const cli_arguments *arguments, const char *run)
{
    cli_progress progress;
    bool quiet = arguments->quiet || rung_trainer_rank(trainer) > 0;
    cli_progress_init(&progress, stdout, quiet);
    char *banner = NULL;
    rung_status status = rung_trainer_banner(trainer, &banner);
    if (quiet)
        free(banner);
    else
        status = print_text(status, banner);
    fflush(stdout);
    if (status != RUNG_OK)
        return status;
    cli_stop_watch(trainer);
    status = rung_trainer_fit(trainer, &(rung_observer){&progress, cli_progress_event});
    cli_stop_watch(NULL);
    cli_progress_close(&progress);
    if (!quiet && (status == RUNG_OK || status == RUNG_CANCELLED))
        print_exchange(trainer);
    if (run && !quiet && (status == RUNG_OK || status == RUNG_CANCELLED))
        printf("run      %s (loss.svg, metrics.csv, checkpoints)\n", run);
    if (run && !quiet && status == RUNG_CANCELLED)
        printf("go on    rung train --resume %s\n", run);
    return status;
}

static void print_finished(const char *run, const rung_trainer *trainer)
{
    rung_train_place at = rung_trainer_place(trainer);
    printf("%s: already at step %" PRId64 " of %" PRId64, run, at.step, at.steps);
    if (at.stopped_early && at.step < at.steps)
        printf(", where early stopping ended it: raise train.early_stopping.patience to go on\n");
    else
        printf(": raise train.steps or train.epochs to go on\n");
}

static rung_status resume(rung_context *outer, const cli_arguments *arguments, const char *run)
{
    rung_config *config = NULL;
    rung_context *context = NULL;
    rung_trainer *trainer = NULL;
    const char *const *overrides = (const char *const *)arguments->overrides;
    bool finished = false;
    rung_status status = rung_run_config(outer, run, overrides, arguments->override_count, &config);
    if (status == RUNG_OK)
        status = cli_context_create(arguments, rung_config_isa(config), &context);
    if (status == RUNG_OK)
        status = rung_trainer_resume(context, run, overrides, arguments->override_count, &finished,
                                     &trainer);
    if (status == RUNG_OK && finished && rung_trainer_rank(trainer) == 0)
        print_finished(run, trainer);
    else if (status == RUNG_OK && !finished)
        status = fit(trainer, arguments, run);
    rung_trainer_destroy(&trainer);
    rung_context_destroy(&context);
    rung_config_destroy(&config);
    return status;
}

static rung_status train(const cli_arguments *arguments, const rung_config *config)
{
    rung_context *context = NULL;
    rung_trainer *trainer = NULL;
    char chosen[4096], *text = NULL;
    const char *run = cli_value(arguments, "--run");
    bool explain = cli_value(arguments, "--explain") != NULL;
    if (!run && !explain && rung_ranks_launched())
        return rung_error_set(RUNG_INVALID, "--run is missing: processes that were started "
                                            "together need to be told the same folder");
    if (!run) {
        choose_run(arguments->words[0], chosen, sizeof chosen);
        run = chosen;
    }
    rung_status status = cli_context_create(arguments, rung_config_isa(config), &context);
    if (status == RUNG_OK)
        status = rung_trainer_create(context, config, explain ? NULL : run, &trainer);
    if (status == RUNG_OK && !explain)
        status = fit(trainer, arguments, run);
    else if (status == RUNG_OK && rung_trainer_rank(trainer) == 0) {
        status = rung_trainer_explain(trainer, &text);
        status = print_text(status, text);
    }
    rung_trainer_destroy(&trainer);
    rung_context_destroy(&context);
    return status;
}

// With --procs: other processes train.
static rung_status start_procs(const cli_arguments *arguments)
{
    char chosen[4096];
    const char *run = cli_value(arguments, "--resume");
    if (rung_ranks_launched())
        return rung_error_set(RUNG_INVALID, "--procs starts processes itself: leave out mpirun");
    if (cli_value(arguments, "--explain"))
        return rung_error_set(RUNG_INVALID, "--explain starts nothing: leave out --procs");
    if (!run)
        run = cli_value(arguments, "--run");
    if (!run) {
        choose_run(arguments->words[0], chosen, sizeof chosen);
        run = chosen;
    }
    return cli_train_procs(arguments, run, &cli_exit_status);
}

static rung_status check_options(const cli_arguments *arguments)
{
    static const char *const of_procs[] = {"--max-restarts", "--launcher"};
    bool old = cli_value(arguments, "--resume") != NULL;
    for (int i = 0; i < 2; i++)
        if (cli_value(arguments, of_procs[i]) && !cli_value(arguments, "--procs"))
            return rung_error_set(RUNG_INVALID, "%s needs --procs", of_procs[i]);
    if (old && arguments->word_count)
        return rung_error_set(RUNG_INVALID,
                              "--resume takes the configuration from its run folder: leave out %s",
                              arguments->words[0]);
    if (!old && !arguments->word_count)
        return rung_error_set(RUNG_INVALID,
                              "a configuration is missing: rung train CONFIG, or --resume RUN");
    return RUNG_OK;
}

static rung_status run(rung_context *context, const cli_arguments *arguments)
{
    const char *old = cli_value(arguments, "--resume");
    bool procs = cli_value(arguments, "--procs") != NULL;
    rung_config *config = NULL;
    rung_status status = check_options(arguments);
    if (status != RUNG_OK)
        return status;
    cli_ranks_begin();
    if (old)
        return procs ? start_procs(arguments) : resume(context, arguments, old);
    status = cli_load_config(context, arguments, arguments->words[0], &config);
    if (status == RUNG_OK)
        status = rung_config_check(config);
    if (status == RUNG_OK && cli_value(arguments, "--print-config")) {
        char *yaml = NULL;
        status = rung_config_dump(config, RUNG_CONFIG_SOURCES, &yaml);
        status = print_text(status, yaml);
    } else if (status == RUNG_OK) {
        status = procs ? start_procs(arguments) : train(arguments, config);
    }
    rung_config_destroy(&config);
    return status;
}

static const cli_option options[] = {
    CLI_RUN_OPTION,
    {"--resume", "RUN", "Go on with the run in this folder, bit for bit where it stopped."},
    {"--procs", "N", "Start N processes by mpirun, each with train.ranks ranks."},
    {"--max-restarts", "K",
     "With --procs: start again up to K times, from the last checkpoint, when "
     "a process dies (0)."},
    {"--launcher", "CMD", "With --procs: instead of 'mpirun -n {procs}'."},
    {"--print-config", NULL, "Print the resolved configuration, with where each value came from."},
    {"--explain", NULL, "Print the plan: each step's operator, shapes, kernel and cost."},
    {0},
};

const cli_verb cli_verb_train = {
    .name = "train",
    .summary = "train a network as a configuration says",
    .arguments = "CONFIG [KEY=VALUE ...] | --resume RUN",
    .text = "Trains, validates and writes a run folder: resolved configuration, metrics, "
            "checkpoints, loss curve. SIGINT or SIGTERM end it with a checkpoint; a second one "
            "ends it at once.",
    .options = options,
    .min_arguments = 0,
    .max_arguments = 1,
    .config = true,
    .run = run,
};
