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

// The parts of a device's memory.
static void print_bytes(const rung_fit_bytes *b)
{
    print_mib(b->weights + b->buffers);
    print_mib(b->gradients);
    print_mib(b->optimizer);
    print_mib(b->activations + b->statistics);
    print_mib(b->workspace);
    print_mib(b->communication);
    print_mib(b->total);
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
    if (r->refused) {
        printf("  training refuses this batch (*)\n");
        return;
    }
    print_bytes(&r->most);
    print_mib(r->loader);
    print_mib(r->resident);
    if (r->seconds >= 0)
        printf(" %10.2f %10.0f", r->seconds * 1e3, (double)r->batch / r->seconds);
    if (r->left_out)
        printf("  without an epoch's last batch, of %" PRId64 " (*)", r->left_out);
    if (r->fits)
        printf("\n");
    else if (r->accumulate)
        printf("  does not fit; would with train.accumulate=%" PRId64 " data.batch_size=%" PRId64
               "\n",
               r->accumulate, r->batch / r->accumulate);
    else
        printf("  does not fit\n");
}

static void print_head(const rung_fit *f)
{
    bool small = f->memory<1 << 30, several = f->device_count> 1;
    if (several)
        printf("%s, %s on %d devices, each", f->model, f->strategy, f->device_count);
    else
        printf("%s on %s", f->model, f->device);
    printf(" with %d thread%s, %.2f %s of memory; sizes in MiB\n\n", f->threads,
           f->threads == 1 ? "" : "s", (double)f->memory / (small ? 1 << 20 : 1 << 30),
           small ? "MiB" : "GiB");
    printf("%7s %-9s %-14s %10s %10s %10s %10s %10s %10s %10s %10s %10s %10s %10s\n", "batch",
           "precision", "way", "weights", "gradients", "optimizer", "activation", "workspace",
           "exchange", "peak", "loader", "process", "ms/step", "samples/s");
}

// Each device at the configuration's batch, or the first that was looked at.
static void print_devices(const rung_fit *f)
{
    int64_t row = 0;
    for (int64_t i = f->count - 1; i >= 0; i--)
        if (f->rows[i].batch == f->batch && f->rows[i].way == RUNG_FIT_KEEP &&
            f->rows[i].precision == f->precisions[0])
            row = i;
    const rung_fit_row *r = &f->rows[row];
    printf("\neach device, batch %" PRId64 ", %s, %s:\n%10s %10s %10s %10s %10s %10s %10s %10s  "
           "device\n",
           r->batch, precision_name(r->precision), rung_fit_way_name(r->way), "weights",
           "gradients", "optimizer", "activation", "workspace", "exchange", "peak", "loader");
    for (int d = 0; d < f->device_count; d++) {
        const rung_fit_bytes *b = &f->bytes[row * f->device_count + d];
        print_bytes(b);
        print_mib(b->loader);
        printf("  %s: %s%s\n", f->devices[d].name, f->devices[d].what,
               d == r->device ? " (fullest)" : "");
    }
}

static void print_fit(const rung_fit *f)
{
    bool several = f->device_count > 1;
    print_head(f);
    for (int64_t i = 0; i < f->count; i++)
        print_row(&f->rows[i]);
    if (several)
        print_devices(f);
    printf("\n");
    for (int p = 0; p < RUNG_FIT_PRECISIONS; p++)
        for (int way = 0; way < RUNG_FIT_WAYS; way++)
            printf("largest batch, %s, %-14s %8" PRId64 "\n", precision_name(f->precisions[p]),
                   rung_fit_way_name((rung_fit_way)way), f->largest[p][way]);
    printf("\npeak is %s; process adds what is resident already and the loader. Times are "
           "of operators\nthat were measured one by one (%.1f s), scaled to each batch%s.\n",
           several ? "that of the fullest device" : "the device's", f->measured_seconds,
           several ? "; what devices exchange is not in them" : "");
    if (*f->refusal)
        printf("* %s (data.drop_last=true leaves out an epoch's last batch)\n", f->refusal);
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
    .text =
        "Prints, without running a step, what training takes at several batch sizes, in "
        "float32 and in 16 bits, with everything kept and with recomputation: weights, "
        "gradients, optimizer, activations and workspace of the device, batches loaded ahead, the "
        "estimated time of a step, and "
        "the largest batch that fits; of one that does not, the accumulation with which it would. "
        "With several ranks or devices the table is of the fullest one, and a second table has "
        "each replica, stage or server.",
    .options = options,
    .min_arguments = 1,
    .max_arguments = 1,
    .config = true,
    .run = run,
};
