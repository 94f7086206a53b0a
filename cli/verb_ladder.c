// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "rung/ladder.h"

enum { LEAST_WIDTH = 14 }; // of the first column

typedef struct display {
    cli_line line;
    bool quiet;
    int width; // of the names of rungs
} display;

static void on_progress(void *user, const char *line)
{
    display *d = user;
    cli_line_show(&d->line, line);
}

static void print_memory(uint64_t bytes)
{
    printf(" %6.0f MB", (double)bytes / 1e6);
}

static void on_rung(void *user, const rung_rung *r)
{
    display *d = user;
    if (d->quiet)
        return;
    cli_line_clear(&d->line);
    printf("%-*s %-8s", d->width, r->name, r->effect);
    if (r->measured) {
        printf(" %9.2f %9.0f %6.2fx %6.2fx %5.2f-%-5.2f %5.1f%%", r->step_ms, r->samples_per_s,
               r->gain_base, r->gain_prev, r->ci_low, r->ci_high, r->wait_share * 100);
        print_memory(r->peak_bytes);
    } else {
        printf(" %65s", "");
    }
    printf("  %s", rung_verdict_name(r->verdict));
    if (*r->reason)
        printf(": %s", r->reason);
    printf("\n");
    if (*r->gate_detail && r->gate_passed)
        printf("%*s %s\n", d->width + 9, "", r->gate_detail);
    fflush(stdout);
}

static void on_notice(void *user, const char *line)
{
    display *d = user;
    cli_line_clear(&d->line);
    printf("note: %s\n", line);
    fflush(stdout);
}

static void print_head(int width)
{
    printf("%-*s %-8s %9s %9s %7s %7s %11s %6s %9s  %s\n", width, "rung", "class", "ms/step",
           "samples/s", "base", "before", "95 %", "wait", "memory", "verdict");
    fflush(stdout);
}

static const char *comparison(const rung_confirm *c)
{
    if (c->equal)
        return "equal";
    return c->best_metric >= c->base_metric - c->margin ? "equal, but below ladder.min_accuracy"
                                                        : "NOT EQUAL";
}

static void print_end(const rung_ladder_result *r, const char *run, const char *config)
{
    const rung_confirm *c = &r->confirm;
    if (*r->best_set)
        printf("\nbest: %s\n      %.2f times as fast as the base (95 %% interval from %.2f)\n",
               r->best_set, r->best_gain, r->best_ci_low);
    else
        printf("\nbest: the base itself; no rung made training faster here\n");
    if (c->done) {
        printf("confirmed by training %" PRId64 " epoch(s) each: accuracy %.4f, base %.4f, margin "
               "%.4f: %s\n",
               c->epochs, c->best_metric, c->base_metric, c->margin, comparison(c));
        printf("epoch: %.1f s, base %.1f s (%.2fx); checkpoint reloads to the same counts: %s; "
               "%s: %s\n",
               c->best_seconds, c->base_seconds, c->base_seconds / c->best_seconds,
               c->reload_equal ? "yes" : "NO",
               c->weighted ? "as many samples drawn" : "each sample once an epoch",
               c->coverage_ok ? "yes" : "NO");
    } else if (*c->detail) {
        printf("confirmation %s\n", c->detail);
    }
    printf("took %.0f s; report: %s/report.html\n", r->seconds, run);
    printf("\nnext: rung train %s/best.yaml\n      rung train %s --explain\n", run, config);
}

// The first of runs/ladder-1, runs/ladder-2, ... that is not there.
static void choose_run(char *out, size_t size)
{
    for (int i = 1;; i++) {
        snprintf(out, size, "runs/ladder-%d", i);
        if (access(out, F_OK) != 0)
            return;
    }
}

static rung_status run(rung_context *context, const cli_arguments *arguments)
{
    rung_config *config = NULL;
    static rung_ladder_result result;
    char chosen[4096], program[4096];
    const char *folder = cli_value(arguments, "--run");
    display d = {.line = cli_line_init(arguments->quiet), .quiet = arguments->quiet};
    rung_ladder_observer observer = {&d, on_progress, on_notice, on_rung};
    if (!folder) {
        choose_run(chosen, sizeof chosen);
        folder = chosen;
    }
    rung_status status = cli_own_path(program, sizeof program);
    if (status == RUNG_OK)
        status = cli_load_config(context, arguments, arguments->words[0], &config);
    if (status == RUNG_OK)
        status = rung_config_check(config);
    if (status == RUNG_OK) {
        int width = rung_ladder_name_width(config);
        d.width = width > LEAST_WIDTH ? width : LEAST_WIDTH;
        if (!d.quiet)
            print_head(d.width);
        status = rung_ladder_run(context, config,
                                 &(rung_ladder_options){program, folder, &observer}, &result);
        cli_line_clear(&d.line);
        if (status == RUNG_OK || status == RUNG_GATE)
            print_end(&result, folder, arguments->words[0]);
    }
    rung_config_destroy(&config);
    return status;
}

static const cli_option options[] = {CLI_RUN_OPTION, {0}};

const cli_verb cli_verb_ladder = {
    .name = "ladder",
    .summary = "switch on one optimization after the other and keep what helps",
    .arguments = "CONFIG [KEY=VALUE ...]",
    .text = "Measures the configuration as it is, then switches on one optimization at a time. One "
            "is kept only if training got faster, beyond what chance explains, and its result "
            "stayed right. At the end base and best train the same samples and their validation "
            "accuracy is compared. Writes ladder.json, best.yaml and report.html. Exit status 3 "
            "when the confirmation fails.",
    .options = options,
    .min_arguments = 1,
    .max_arguments = 1,
    .config = true,
    .run = run,
};
