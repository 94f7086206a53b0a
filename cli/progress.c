// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

void cli_progress_init(cli_progress *p, FILE *out, bool quiet)
{
    *p = (cli_progress){.out = out, .terminal = isatty(fileno(out)), .quiet = quiet};
}

static void clear_line(cli_progress *p)
{
    if (p->terminal && p->width)
        fputs("\r\033[K", p->out);
    p->width = 0;
}

static void print_duration(FILE *out, double seconds)
{
    long s = lround(seconds);
    if (s >= 3600)
        fprintf(out, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        fprintf(out, "%ld:%02ld", s / 60, s % 60);
}

static void print_bar(FILE *out, double share)
{
    enum { CELLS = 20 };
    int full = (int)(share * CELLS);
    fputc('[', out);
    for (int i = 0; i < CELLS; i++)
        fputc(i < full ? '#' : '.', out);
    fputc(']', out);
}

static void show_line(cli_progress *p, const rung_train_event *e)
{
    clear_line(p);
    print_bar(p->out, (double)e->step / (double)e->steps);
    fprintf(p->out, " step %" PRId64 "/%" PRId64 "  epoch %" PRId64 "/%" PRId64, e->step, e->steps,
            e->epoch, e->epochs);
    fprintf(p->out, "  loss %.4f  lr %.3g  %.0f samples/s  wait %.0f %%  left ", e->loss, e->lr,
            e->samples_per_s, e->wait_share * 100);
    print_duration(p->out, e->remaining);
    fflush(p->out);
    p->width = 1;
}

static void add_step(cli_progress *p, const rung_train_event *e)
{
    double steps = (double)(e->step - p->last_step);
    for (int i = 0; i < RUNG_TIME_PARTS; i++)
        p->ms[i] += e->ms[i] * steps;
    p->steps += steps;
    p->last_step = e->step;
    p->last_loss = e->loss;
}

static void show_eval(cli_progress *p, const rung_train_event *e)
{
    clear_line(p);
    fprintf(p->out,
            "epoch %" PRId64 "/%" PRId64 "  step %" PRId64
            "  loss %.4f  val loss %.4f  accuracy %.4f (%" PRId64 " of %" PRId64
            ")  top-5 %.4f%s\n",
            e->epoch, e->epochs, e->step, p->last_loss, e->loss, e->accuracy, e->correct,
            e->evaluated, e->top5, e->best ? "  best" : "");
    fflush(p->out);
}

void cli_progress_event(void *user, const rung_train_event *e)
{
    cli_progress *p = user;
    p->seconds = e->seconds;
    p->samples = e->samples;
    if (e->kind == RUNG_EVENT_START)
        p->last_step = e->step;
    if (e->kind == RUNG_EVENT_STEP)
        add_step(p, e);
    if (p->quiet)
        return;
    if (p->terminal && (e->kind == RUNG_EVENT_STEP || e->kind == RUNG_EVENT_PROGRESS))
        show_line(p, e);
    else if (e->kind == RUNG_EVENT_EVAL)
        show_eval(p, e);
    else if (e->kind == RUNG_EVENT_END) {
        clear_line(p);
        if (e->note && e->status == RUNG_OK)
            fprintf(p->out, "%s after step %" PRId64 "\n", e->note, e->step);
    }
}

void cli_progress_close(cli_progress *p)
{
    clear_line(p);
    if (p->quiet || p->steps <= 0)
        return;
    double total = 0;
    for (int i = 0; i < RUNG_TIME_PARTS; i++)
        total += p->ms[i];
    fprintf(p->out, "%.0f steps in ", p->steps);
    print_duration(p->out, p->seconds);
    fprintf(p->out, ", %.3f ms a step:", total / p->steps);
    for (int i = 0; i < RUNG_TIME_PARTS; i++)
        if (p->ms[i] > 0.001 * total)
            fprintf(p->out, " %s %.1f %%", rung_time_part(i), 100 * p->ms[i] / total);
    fputc('\n', p->out);
}
