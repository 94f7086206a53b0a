// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <string.h>

#include "cli.h"
#include "rung/compare.h"

enum { SHOWN = 5 };

static void print_differences(const rung_comparison *c)
{
    printf("%" PRId64 " of %" PRId64 " tensors and step counts differ\n", c->count, c->tensors);
    for (int64_t i = 0; i < c->count && i < SHOWN; i++) {
        const rung_difference *d = &c->differences[i];
        if (d->what)
            printf("  %-32s %s\n", d->name, d->what);
        else
            printf("  %-32s %" PRId64 " of %" PRId64 " elements, by at most %.3g\n", d->name,
                   d->differing, d->count, d->max_abs);
    }
    if (c->count > SHOWN)
        printf("  and %" PRId64 " more\n", c->count - SHOWN);
}

static void print_pair(const char *name, const char *format, const bool given[2],
                       const double values[2])
{
    char texts[2][32] = {"-", "-"};
    for (int i = 0; i < 2; i++)
        if (given[i])
            snprintf(texts[i], sizeof texts[i], format, values[i]);
    printf("%-14s %14s %14s\n", name, texts[0], texts[1]);
}

static void print_sides(const rung_comparison *c)
{
    const rung_compared *a = &c->sides[0], *b = &c->sides[1];
    const bool both[2] = {true, true}, evaluated[2] = {a->evaluated, b->evaluated};
    const bool measured[2] = {a->measured, b->measured};
    double step[2] = {0};
    printf("A = %s\nB = %s\n%-14s %14s %14s\n", a->checkpoint, b->checkpoint, "", "A", "B");
    print_pair("step", "%.0f", both, (double[2]){(double)a->step, (double)b->step});
    print_pair("val loss", "%.6f", evaluated, (double[2]){a->loss, b->loss});
    print_pair("accuracy", "%.4f", evaluated, (double[2]){a->accuracy, b->accuracy});
    print_pair("top-5", "%.4f", evaluated, (double[2]){a->top5, b->top5});
    print_pair("train loss", "%.6f", measured, (double[2]){a->train_loss, b->train_loss});
    print_pair("samples/s", "%.0f", measured, (double[2]){a->samples_per_s, b->samples_per_s});
    for (int i = 0; i < RUNG_TIME_PARTS; i++) {
        step[0] += a->ms[i];
        step[1] += b->ms[i];
    }
    print_pair("ms a step", "%.3f", measured, step);
    for (int i = 0; i < RUNG_TIME_PARTS; i++) {
        char name[32];
        snprintf(name, sizeof name, "  %s", rung_time_part(i));
        if (a->ms[i] > 0 || b->ms[i] > 0)
            print_pair(name, "%.3f", measured, (double[2]){a->ms[i], b->ms[i]});
    }
}

static rung_status run(rung_context *context, const cli_arguments *arguments)
{
    (void)context;
    rung_comparison c;
    char *const *words = arguments->words;
    rung_status status = rung_compare(words[0], words[1], &c);
    if (status != RUNG_OK)
        return status;
    if (c.count == 0) {
        printf("same bits\n");
    } else {
        print_differences(&c);
        print_sides(&c);
        status = rung_error_set(RUNG_GATE, "%s and %s are not the same", words[0], words[1]);
    }
    rung_comparison_fini(&c);
    return status;
}

const cli_verb cli_verb_compare = {
    .name = "compare",
    .summary = "tell whether two runs became the same, bit for bit",
    .arguments = "A B",
    .text = "Compares the newest checkpoints of two run folders (or two checkpoint folders): "
            "weights, buffers and optimizer state, not configuration or history. Prints 'same "
            "bits', with status 0; else what differs, then metrics and step times side by side, "
            "with status 3.",
    .min_arguments = 2,
    .max_arguments = 2,
    .run = run,
};
