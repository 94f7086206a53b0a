// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "rung/fit.h"

static void print_mib(uint64_t bytes)
{
    printf(" %10.1f", (double)bytes / (1 << 20));
}

// As train.precision names it.
static const char *precision_name(rung_dtype dtype)
{
    return dtype == RUNG_F32 ? "fp32" : dtype == RUNG_F16 ? "fp16" : "bf16";
}

static void print_row(const rung_fit_row *r)
{
    printf("%7" PRId64 " %-9s %-14s", r->batch, precision_name(r->precision),
           rung_fit_way_name(r->way));
    print_mib(r->weights + r->buffers);
    print_mib(r->gradients);
    print_mib(r->optimizer);
    print_mib(r->activations + r->statistics);
    print_mib(r->workspace);
    print_mib(r->peak);
    print_mib(r->loader);
    print_mib(r->resident);
    if (r->seconds >= 0)
        printf(" %10.2f %10.0f", r->seconds * 1e3, (double)r->batch / r->seconds);
    if (r->fits)
        printf("\n");
    else if (r->accumulate)
        printf("  does not fit; would with train.accumulate=%" PRId64 " data.batch_size=%" PRId64
               "\n",
               r->accumulate, r->batch / r->accumulate);
    else
        printf("  does not fit\n");
}

static void print_fit(const rung_fit *f)
{
    bool small = f->memory < 1 << 30;
    printf("%s on %s with %d thread%s, %.2f %s of memory; sizes in MiB\n\n", f->model, f->device,
           f->threads, f->threads == 1 ? "" : "s", (double)f->memory / (small ? 1 << 20 : 1 << 30),
           small ? "MiB" : "GiB");
    printf("%7s %-9s %-14s %10s %10s %10s %10s %10s %10s %10s %10s %10s %10s\n", "batch",
           "precision", "way", "weights", "gradients", "optimizer", "activation", "workspace",
           "peak", "loader", "process", "ms/step", "samples/s");
    for (int64_t i = 0; i < f->count; i++)
        print_row(&f->rows[i]);
    printf("\n");
    for (int p = 0; p < RUNG_FIT_PRECISIONS; p++)
        for (int way = 0; way < RUNG_FIT_WAYS; way++)
            printf("largest batch, %s, %-14s %8" PRId64 "\n", precision_name(f->precisions[p]),
                   rung_fit_way_name((rung_fit_way)way), f->largest[p][way]);
    printf(
        "\npeak is the device's; process adds what is resident already and the loader. Times are "
        "of operators\nthat were measured one by one (%.1f s), scaled to each batch.\n",
        f->measured_seconds);
}

static rung_status read_memory(const cli_arguments *arguments, rung_fit_options *o)
{
    const char *text = cli_value(arguments, "--memory");
    char *end;
    if (!text)
        return RUNG_OK;
    double number = strtod(text, &end);
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"", 1},         {"B", 1},    {"KiB", 1024}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
                 {"TiB", 0x1p40}, {"kB", 1e3}, {"MB", 1e6},   {"GB", 1e9},     {"TB", 1e12}};
    for (size_t i = 0; end != text && number > 0 && i < sizeof units / sizeof *units; i++)
        if (strcmp(end, units[i].name) == 0 && number * units[i].bytes < 0x1p62) {
            o->memory = (uint64_t)(number * units[i].bytes);
            return RUNG_OK;
        }
    return rung_error_set(RUNG_CONFIG, "fit: --memory is '%s': give a size such as 8GiB", text);
}

static rung_status run(rung_context *context, const cli_arguments *arguments)
{
    rung_config *config = NULL;
    rung_context *own = NULL;
    rung_fit fit = {0};
    rung_fit_options o = {.no_times = cli_value(arguments, "--no-times") != NULL};
    rung_status status = read_memory(arguments, &o);
    if (status == RUNG_OK)
        status = cli_load_config(context, arguments, arguments->words[0], &config);
    if (status == RUNG_OK)
        status = cli_context_create(arguments, rung_config_isa(config), &own);
    if (status == RUNG_OK)
        status = rung_fit_run(own, config, &o, &fit);
    if (status == RUNG_OK)
        print_fit(&fit);
    rung_fit_fini(&fit);
    rung_context_destroy(&own);
    rung_config_destroy(&config);
    return status;
}

static const cli_option options[] = {
    {"--memory", "SIZE", "Memory of a device, as 8GiB (memory.budget, else what is available)."},
    {"--no-times", NULL, "Leave out the estimates of time, for which operators are measured."},
    {0},
};

const cli_verb cli_verb_fit = {
    .name = "fit",
    .summary = "tell the memory and time of several batch sizes before training",
    .arguments = "CONFIG [KEY=VALUE ...]",
    .text = "Prints, without running a step, what training takes at several batch sizes, in "
            "float32 and in 16 bits, with everything kept and with recomputation: weights, "
            "gradients, optimizer, activations "
            "and workspace of the device, batches loaded ahead, the estimated time of a step, and "
            "the largest batch that fits; of one that does not, the accumulation with which it "
            "would.",
    .options = options,
    .min_arguments = 1,
    .max_arguments = 1,
    .config = true,
    .run = run,
};
