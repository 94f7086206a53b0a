// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli.h"

enum {
    WIDTH = 80,     // of a terminal that does not tell
    CELLS = 20,     // of the bar
    SILENCE_S = 30, // a pipe gets a line of a step after so long without one
    PART_TEXT = 48,
    NORMAL_SKIPS = 3, // of fp16 at the start
};

void cli_progress_init(cli_progress *p, FILE *out, bool quiet)
{
    // What mpirun gives its processes looks like a terminal, and ends in a log.
    bool terminal = isatty(fileno(out)) && !rung_ranks_launched();
    *p = (cli_progress){.out = out, .terminal = terminal, .quiet = quiet};
}

// "-nan" is no better a number than "nan".
static double plain(double x)
{
    return isnan(x) ? (double)NAN : x;
}

static void format_duration(char *out, size_t size, double seconds)
{
    long s = lround(seconds);
    if (seconds < 9.95)
        snprintf(out, size, "%.1f s", seconds);
    else if (s >= 3600)
        snprintf(out, size, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, size, "%ld:%02ld", s / 60, s % 60);
}

// ---- the line of a terminal -------------------------------------------------------------------

static void clear_line(cli_progress *p)
{
    if (p->terminal && p->shown)
        fputs("\r\033[K", p->out);
    p->shown = false;
}

static int columns_of(FILE *out)
{
    struct winsize size;
    if (ioctl(fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return WIDTH;
    return size.ws_col;
}

// What a line is made of, in order.
enum { BAR, STEP, EPOCH, LOSS, RATE, SKIPPED, SPEED, WAIT, LEFT, PARTS };

static void format_parts(const rung_train_event *e, char parts[PARTS][PART_TEXT])
{
    int full = e->steps ? (int)(CELLS * e->step / e->steps) : 0;
    for (int i = 0; i < CELLS; i++)
        parts[BAR][i] = i < full ? '#' : '.';
    parts[BAR][CELLS] = '\0';
    snprintf(parts[STEP], PART_TEXT, "step %" PRId64 "/%" PRId64, e->step, e->steps);
    snprintf(parts[EPOCH], PART_TEXT, "epoch %" PRId64 "/%" PRId64, e->epoch, e->epochs);
    snprintf(parts[LOSS], PART_TEXT, "loss %.4f", plain(e->loss));
    snprintf(parts[RATE], PART_TEXT, "lr %.3g", e->lr);
    parts[SKIPPED][0] = '\0';
    if (e->skipped)
        snprintf(parts[SKIPPED], PART_TEXT, "skipped %" PRId64, e->skipped);
    snprintf(parts[SPEED], PART_TEXT, "%.0f samples/s", e->samples_per_s);
    snprintf(parts[WAIT], PART_TEXT, "wait %.0f%%", e->wait_share * 100);
    char left[24];
    format_duration(left, sizeof left, e->remaining);
    snprintf(parts[LEFT], PART_TEXT, "%s left", left);
}

// A line that does not fit would wrap, and the next one would not overwrite it: parts are left out,
// the least wanted first.
static void show_line(cli_progress *p, const rung_train_event *e)
{
    static const int spare[] = {BAR, EPOCH, RATE, WAIT, SPEED, LEFT};
    char parts[PARTS][PART_TEXT];
    format_parts(e, parts);
    int room = p->terminal ? columns_of(p->out) - 1 : INT32_MAX, length = -2;
    for (int i = 0; i < PARTS; i++)
        length += parts[i][0] ? (int)strlen(parts[i]) + 2 : 0;
    for (size_t i = 0; length > room && i < sizeof spare / sizeof *spare; i++) {
        length -= (int)strlen(parts[spare[i]]) + 2;
        parts[spare[i]][0] = '\0';
    }
    if (!p->terminal)
        parts[BAR][0] = '\0';
    clear_line(p);
    const char *gap = "";
    for (int i = 0; i < PARTS; i++)
        if (parts[i][0]) {
            fprintf(p->out, "%s%s", gap, parts[i]);
            gap = "  ";
        }
    if (!p->terminal)
        fputc('\n', p->out);
    fflush(p->out);
    p->shown = true;
    p->printed = e->seconds;
}

static void show_eval(cli_progress *p, const rung_train_event *e)
{
    clear_line(p);
    fprintf(p->out, "epoch %" PRId64 "/%" PRId64 "  step %" PRId64, e->epoch, e->epochs, e->step);
    if (!isnan(e->train_loss))
        fprintf(p->out, "  loss %.4f", e->train_loss);
    fprintf(p->out, "  val loss %.4f  accuracy %.4f  top-5 %.4f%s\n", plain(e->loss), e->accuracy,
            e->top5, e->best ? "  best" : "");
    fflush(p->out);
    p->printed = e->seconds;
    if (e->best) {
        p->best_step = e->step;
        p->best_accuracy = e->accuracy;
        p->best_loss = e->loss;
    }
}

void cli_progress_event(void *user, const rung_train_event *e)
{
    cli_progress *p = user;
    if (e->kind == RUNG_EVENT_START) {
        p->first_step = e->step;
        p->start_seconds = e->seconds;
    }
    if (e->kind == RUNG_EVENT_END) {
        p->end = *e;
        p->ended = true;
        free(p->devices);
        free(p->workers);
        p->devices = e->devices ? strdup(e->devices) : NULL;
        p->workers = e->workers ? strdup(e->workers) : NULL;
    }
    if (p->quiet)
        return;
    bool step = e->kind == RUNG_EVENT_STEP || e->kind == RUNG_EVENT_PROGRESS;
    if (step && (p->terminal || e->seconds - p->printed >= SILENCE_S))
        show_line(p, e);
    else if (e->kind == RUNG_EVENT_EVAL)
        show_eval(p, e);
    else if (e->kind == RUNG_EVENT_END) {
        clear_line(p);
        if (e->note && e->status == RUNG_OK)
            fprintf(p->out, "%s after step %" PRId64 "\n", e->note, e->step);
    }
}

// ---- the closing summary ----------------------------------------------------------------------

static bool is_named(int part, const char *name)
{
    return strcmp(rung_time_part(part), name) == 0;
}

// Where the workers' time went; nothing of data from memory.
static void show_loader(const cli_progress *p)
{
    double total = 0;
    for (int i = 0; i < RUNG_STAGE_COPY; i++)
        total += p->end.loader_ms[i];
    if (!(total > 0))
        return;
    fprintf(p->out, "loader ");
    for (int i = 0; i < RUNG_STAGE_COPY; i++)
        if (p->end.loader_ms[i] >= 0.0005 * total)
            fprintf(p->out, " %s %.1f%%", rung_loader_stage_name(i),
                    100 * p->end.loader_ms[i] / total);
    fprintf(p->out, "  of the workers' time; %.1f batches were ready\n", p->end.queue_depth);
}

static void summarize(const cli_progress *p)
{
    int64_t steps = p->end.step - p->first_step;
    if (p->quiet || !p->ended || steps <= 0)
        return;
    char duration[24];
    double total = 0, stepping = -1e3 * p->start_seconds;
    for (int i = 0; i < RUNG_TIME_PARTS; i++) {
        total += p->end.ms[i];
        if (!is_named(i, "eval") && !is_named(i, "checkpoint"))
            stepping += p->end.ms[i];
    }
    format_duration(duration, sizeof duration, p->end.seconds);
    fprintf(p->out, "%" PRId64 " steps in %s, %.3f ms a step\n", steps, duration,
            stepping / (double)steps);
    fprintf(p->out, "time  ");
    for (int i = 0; i < RUNG_TIME_PARTS; i++)
        if (p->end.ms[i] >= 0.0005 * total)
            fprintf(p->out, "  %s %.1f%%", rung_time_part(i), 100 * p->end.ms[i] / total);
    fputc('\n', p->out);
    show_loader(p);
    if (p->end.loss_scale > 0) // fp16
        fprintf(p->out, "skipped  %" PRId64 " of %" PRId64 " steps%s; loss scale %g\n",
                p->end.skipped, p->end.step,
                p->end.skipped && p->end.skipped <= NORMAL_SKIPS
                    ? ", as is normal while the scale is found"
                    : "",
                p->end.loss_scale);
    fprintf(p->out, "memory   peak %.1f MiB of the device (%.1f MiB reserved), process %.1f MiB\n",
            (double)p->end.peak_live / (1 << 20), (double)p->end.peak_reserved / (1 << 20),
            (double)p->end.peak_resident / (1 << 20));
    if (p->devices && *p->devices)
        fprintf(p->out, "devices  %s\n", p->devices);
    if (p->best_step > 0)
        fprintf(p->out, "best     accuracy %.4f, loss %.4f at step %" PRId64 "\n", p->best_accuracy,
                plain(p->best_loss), p->best_step);
    if (p->workers)
        fputs(p->workers, p->out);
}

void cli_progress_close(cli_progress *p)
{
    clear_line(p);
    summarize(p);
    free(p->devices);
    free(p->workers);
    p->devices = p->workers = NULL;
}
