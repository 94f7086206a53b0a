// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "rung/scale.h"

// "1,2,4" into numbers.
static rung_status read_devices(const char *text, int *devices, int *count_out)
{
    int count = 0;
    for (const char *at = text; *at; count++) {
        char *end;
        long number = strtol(at, &end, 10);
        if (end == at || (*end && *end != ',') || number < 1 || number > 64 ||
            count == RUNG_SCALE_DEVICES)
            return rung_error_set(RUNG_INVALID,
                                  "--devices takes up to %d numbers from 1 to 64 such as 1,2,4, "
                                  "not '%s'",
                                  RUNG_SCALE_DEVICES, text);
        devices[count] = (int)number;
        at = *end ? end + 1 : end;
    }
    if (!count)
        return rung_error_set(RUNG_INVALID, "--devices is empty: give numbers such as 1,2,4");
    *count_out = count;
    return RUNG_OK;
}

static void print_row(const rung_scale_row *r)
{
    printf("%7d %8" PRId64, r->devices, r->batch);
    if (r->measured)
        printf(" %9.2f %10.0f %8.2fx %9.0f%% %11.2f %5.1f%% %8.1f MB  %.4f\n", r->step_ms,
               r->samples_per_s, r->speed_up, r->efficiency * 100, r->exchange_ms,
               r->wait_share * 100, (double)r->peak_bytes / 1e6, r->loss);
    else
        printf("  not available: %s\n", r->reason);
}

static void print_result(const rung_scale_result *r)
{
    for (int i = 0; i < r->count; i++) {
        bool weak = r->rows[i].weak;
        if (i == 0 || weak != r->rows[i - 1].weak) {
            if (weak)
                printf("\nweak scaling: the batch of each device stays\n");
            else
                printf("strong scaling: the whole batch stays\n");
            printf("%7s %8s %9s %10s %9s %10s %11s %6s %11s  %s\n", "devices", "batch", "ms/step",
                   "samples/s", "speed-up", "efficiency", "exchange ms", "wait", "memory", "loss");
        }
        print_row(&r->rows[i]);
    }
    printf("\n%" PRId64 " steps a block after 3 of warm-up, each device with %d thread%s; without "
           "validation and checkpoints\n",
           r->steps, r->threads, r->threads == 1 ? "" : "s");
    printf(
        "exchange: what a step spends on it while nothing else goes on; memory: of one device\n");
    if (*r->notice)
        printf("note: %s\n", r->notice);
}

static rung_status run(rung_context *context, const cli_arguments *arguments)
{
    static rung_scale_result result;
    rung_config *config = NULL;
    char program[4096];
    int devices[RUNG_SCALE_DEVICES];
    const char *list = cli_value(arguments, "--devices");
    cli_line line = cli_line_init(arguments->quiet);
    rung_scale_options o = {.program = program,
                            .run = cli_value(arguments, "--run"),
                            .devices = devices,
                            .user = &line,
                            .progress = cli_line_show};
    rung_status status = read_devices(list ? list : "1,2,4", devices, &o.n_devices);
    if (status == RUNG_OK)
        status = cli_number(arguments, "--steps", 1, 0, &o.steps);
    if (status == RUNG_OK)
        status = cli_number(arguments, "--repeats", 1, 0, &o.repeats);
    if (status == RUNG_OK)
        status = cli_own_path(program, sizeof program);
    if (status == RUNG_OK)
        status = cli_load_config(context, arguments, arguments->words[0], &config);
    if (status == RUNG_OK)
        status = rung_scale_run(context, config, &o, &result);
    cli_line_clear(&line);
    if (status == RUNG_OK)
        print_result(&result);
    if (status == RUNG_OK && o.run)
        printf("files: %s/scale.json, %s/scale.svg\n", o.run, o.run);
    rung_config_destroy(&config);
    return status;
}

static const cli_option options[] = {
    {"--devices", "LIST", "Numbers of devices, rising (1,2,4)."},
    {"--steps", "N", "Steps that a block measures (20)."},
    {"--repeats", "N", "Blocks of each row, taken in turn; their median counts (3)."},
    {"--run", "DIR", "Folder for scale.json and scale.svg."},
    {0},
};

const cli_verb cli_verb_scale = {
    .name = "scale",
    .summary = "measure how training gets faster with more devices",
    .arguments = "CONFIG [KEY=VALUE ...]",
    .text = "Trains the same steps with each number of devices, a rank on each: once with the "
            "whole batch kept (strong scaling), once with the batch of each device kept (weak "
            "scaling). Prints step time, samples/s, speed-up, efficiency, exposed exchange, memory "
            "and loss.",
    .options = options,
    .min_arguments = 1,
    .max_arguments = 1,
    .config = true,
    .run = run,
};
