// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "rung/roofline.h"

static rung_status list(void)
{
    const char *name;
    int cases;
    for (int i = 0; (name = rung_opbench_name(i, &cases)) != NULL; i++)
        printf("%-22s %d case%s for benchmarks\n", name, cases, cases == 1 ? "" : "s");
    return RUNG_OK;
}

// ---- progress on a terminal ---------------------------------------------------------------------

static void clear_progress(void)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
}

static void show_progress(void *user, int64_t done, int64_t total, const char *what)
{
    (void)user;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K%" PRId64 "/%" PRId64 "  %.60s", done, total, what);
}

// ---- the table --------------------------------------------------------------------------------

static void print_machine(const rung_machine *m)
{
    printf("machine  %s, multiply-add %.1f GF/s with 1 thread, %.1f with %d; triad %.1f GB/s, "
           "%.1f\n",
           rung_isa_name(m->isa), m->flops[0] * 1e-9, m->flops[1] * 1e-9, m->threads,
           m->bytes[0] * 1e-9, m->bytes[1] * 1e-9);
    if (m->round_trip[0] > 0)
        printf("cores    a flag goes to another core and back in %.0f ns, %.0f ns at the end\n",
               m->round_trip[0] * 1e9, m->round_trip[1] * 1e9);
}

// The share of the ceiling that is nearer.
static void print_speed(const rung_opbench_row *r, int place)
{
    double s = r->seconds[place];
    bool arithmetic = r->flops_share[place] > r->bytes_share[place];
    if (s < 1e-3)
        printf("  %8.2f us", s * 1e6);
    else
        printf("  %8.3f ms", s * 1e3);
    if (arithmetic)
        printf(" %7.1f GF/s %4.0f%%", r->executed / s * 1e-9, r->flops_share[place] * 100);
    else
        printf(" %7.1f GB/s %4.0f%%", r->bytes / s * 1e-9, r->bytes_share[place] * 100);
    printf(" %c", r->best[place] ? '*' : ' ');
}

// The fastest of the pass, and the best of the other kernels.
static void print_best(const rung_opbench *b, int64_t begin, int64_t end)
{
    int place = b->machine.threads > 1;
    for (int64_t i = begin; i < end; i++) {
        const rung_opbench_row *r = &b->rows[i];
        if (!r->best[place])
            continue;
        printf("  fastest with %d thread%s: %s in %s", b->machine.threads,
               b->machine.threads == 1 ? "" : "s", r->kernel, r->layout);
        if (r->rival[place])
            printf("; next %s, %.2f times as long", r->rival[place],
                   r->rival_seconds[place] / r->seconds[place]);
        printf("\n");
        return;
    }
}

static void print_rows(const char *op, const rung_opbench *b)
{
    int64_t first = 0; // row of this case and pass
    char column[24];
    snprintf(column, sizeof column, "%d threads", b->machine.threads);
    for (int64_t i = 0; i < b->count; i++) {
        const rung_opbench_row *r = &b->rows[i], *last = &b->rows[first];
        if (i == 0 || strcmp(last->case_name, r->case_name) != 0 ||
            strcmp(last->pass, r->pass) != 0) {
            print_best(b, first, i);
            first = i;
            printf("\n%s %s  '%s'  %s  %.4g Mflop, %.4g MB\n", op, r->pass, r->case_name, r->shape,
                   r->flops * 1e-6, r->bytes * 1e-6);
            printf("  %-16s %-13s  %-30s  %s\n", "kernel", "layout", "1 thread", column);
        }
        printf("%c %-16s %-13s", r->chosen ? '>' : ' ', r->kernel, r->layout);
        print_speed(r, 0);
        print_speed(r, 1);
        printf("\n");
    }
    print_best(b, first, b->count);
    printf("\n> the planner's choice in this layout   * the shortest of all\n"
           "GF/s and their share count the operations that a kernel executes.\n");
}

// ---- the roofline of a step ---------------------------------------------------------------------

static void print_device(const rung_roofline_device *d)
{
    printf("%s, %s: computes for %.4g ms of a step, waits for others for %.4g\n", d->name, d->what,
           d->computing * 1e3, d->exchange * 1e3);
}

static void print_roofline(const rung_roofline *r)
{
    printf("%s, batch %" PRId64 ": %.4g ms a step\n\n", r->model, r->batch, r->step_seconds * 1e3);
    printf("%10s %6s  %-10s %9s %9s  %s\n", "ms", "share", "of roof", "GF/s", "GB/s", "step");
    for (int64_t i = 0; i < r->count; i++) {
        const rung_roofline_row *row = &r->rows[i];
        if (r->device_count > 1 && (i == 0 || row->device != row[-1].device))
            print_device(&r->devices[row->device]);
        double s = row->seconds > 0 ? row->seconds : 1e-9;
        printf("%10.4f %5.1f%%  %4.0f%% %-5s %9.1f %9.1f  %s%s%s.%s%s, %s\n", row->seconds * 1e3,
               row->share * 100, row->ceiling * 100, row->arithmetic ? "GF/s" : "GB/s",
               row->flops / s * 1e-9, row->bytes / s * 1e-9, row->layer, row->layer[0] ? "  " : "",
               row->op, row->pass, row->fused, row->kernel);
    }
}

static rung_status write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    bool written = file && fputs(text, file) >= 0;
    if (file && fclose(file) != 0)
        written = false;
    return written ? RUNG_OK
                   : rung_error_set(RUNG_IO, "%s: cannot write: %s", path, strerror(errno));
}

static rung_status run_roofline(rung_context *context, const cli_arguments *arguments,
                                const char *path)
{
    rung_config *config = NULL;
    rung_context *own = NULL;
    rung_roofline r = {0};
    char *svg = NULL;
    const char *output = cli_value(arguments, "-o");
    const rung_roofline_options options = {.progress = arguments->quiet ? NULL : show_progress};
    rung_status status = cli_load_config(context, arguments, path, &config);
    if (status == RUNG_OK)
        status = cli_context_create(arguments, rung_config_isa(config), &own);
    if (status == RUNG_OK)
        status = rung_roofline_run(own, config, &options, &r);
    clear_progress();
    if (status == RUNG_OK) {
        print_machine(&r.machine);
        print_roofline(&r);
    }
    if (status == RUNG_OK && output)
        status = rung_roofline_draw(&r, &svg);
    if (status == RUNG_OK && output)
        status = write_text(output, svg);
    free(svg);
    rung_roofline_fini(&r);
    rung_context_destroy(&own);
    rung_config_destroy(&config);
    return status;
}

static rung_status run(rung_context *context, const cli_arguments *arguments)
{
    const char *roofline = cli_value(arguments, "--roofline");
    if (cli_value(arguments, "--list"))
        return list();
    if (roofline && !arguments->word_count)
        return run_roofline(context, arguments, roofline);
    if (roofline || arguments->override_count)
        return rung_error_set(RUNG_INVALID, "bench: --roofline CONFIG takes KEY=VALUE and no "
                                            "operator; an operator takes no KEY=VALUE");
    if (!arguments->word_count)
        return rung_error_set(RUNG_INVALID, "bench: an operator is missing: rung bench OP, or "
                                            "rung bench --list");
    const char *threads = cli_value(arguments, "--threads");
    const char *seconds = cli_value(arguments, "--seconds");
    rung_opbench_options options = {.pattern =
                                        arguments->word_count > 1 ? arguments->words[1] : NULL,
                                    .threads = threads ? atoi(threads) : 0,
                                    .seconds = seconds ? strtod(seconds, NULL) : 0,
                                    .progress = arguments->quiet ? NULL : show_progress};
    if ((threads && options.threads < 1) || (seconds && !(options.seconds > 0)))
        return rung_error_set(RUNG_INVALID, "bench: --threads and --seconds are above 0");
    rung_opbench b;
    rung_status status = rung_opbench_run(context, arguments->words[0], &options, &b);
    clear_progress();
    if (status != RUNG_OK)
        return status;
    print_machine(&b.machine);
    print_rows(arguments->words[0], &b);
    rung_opbench_fini(&b);
    return status;
}

static const cli_option options[] = {
    {"--list", NULL, "List the operators."},
    {"--roofline", "CONFIG", "Time a training step of this configuration, operator by operator."},
    {"-o", "FILE", "Draw that as SVG."},
    {"--threads", "N", "Threads of the second column; the cores there are by default."},
    {"--seconds", "S", "Time for each measurement (0.05)."},
    {0},
};

const cli_verb cli_verb_bench = {
    .name = "bench",
    .summary = "measure an operator's kernels against the machine's ceilings",
    .arguments = "OP [CASE] | --list | --roofline CONFIG [-o FILE.svg] [KEY=VALUE ...]",
    .text =
        "Runs the benchmark cases of an operator (or those whose names match CASE, with * and "
        "?) with every kernel in every layout, with one thread and with all. Prints the time, "
        "and GF/s or GB/s with their share of what multiply-adds in registers or a triad over "
        "large arrays reach on this machine, which is measured first. --roofline does the same "
        "for each step of a plan, on the first batch of the data; with several ranks or devices "
        "for each replica or stage.",
    .options = options,
    .min_arguments = 0,
    .max_arguments = 2,
    .config = true,
    .run = run,
};
