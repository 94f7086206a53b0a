// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "formats/svg_chart.h"
#include "formats/svg_draw.h"

enum {
    WIDTH = 760,
    PAD = 16,
    TITLE_SIZE = 16,
    TEXT_SIZE = 12,
    ROW = 30,
    BAR = 14,
    GAP = 12, // between the columns
};

typedef struct layout {
    const rungi_svg_bars *chart;
    rungi_string *out;
    int width, height;
    double top;                 // of the first row
    double label_room;          // column on the left
    double value_x, value_room; // column of numbers
    double note_x, note_room;
    bool intervals; // printed: left out where the drawing is too narrow
    rungi_svg_axis axis;
} layout;

static const char *const tones[] = {"good", "neutral", "worse", "wrong", "neutral"};

static bool has_interval(const rungi_svg_bar *bar)
{
    return isfinite(bar->low) && isfinite(bar->high) && bar->low <= bar->high;
}

// "1.42 [1.38, 1.46]", three significant digits or more where numbers are large.
static void value_text(const layout *l, const rungi_svg_bar *bar, char *out, size_t size)
{
    const rungi_svg_bars *chart = l->chart;
    const char *unit = chart->unit ? chart->unit : "";
    double numbers[3] = {bar->value, bar->low, bar->high};
    char texts[3][RUNGI_SVG_LABEL_MAX];
    for (int i = 0; i < 3; i++) {
        double magnitude = isfinite(bar->value) ? fabs(bar->value) : 1;
        if (isfinite(chart->reference)) // around it all bars have the same digits
            magnitude = fmax(magnitude, fabs(chart->reference));
        double step = magnitude > 0 ? pow(10, floor(log10(magnitude)) - 2) : 0.01;
        if (isfinite(numbers[i]))
            rungi_svg_format(texts[i], numbers[i], step, magnitude);
    }
    if (!isfinite(bar->value))
        out[0] = 0;
    else if (l->intervals && has_interval(bar))
        snprintf(out, size, "%s%s [%s, %s]", texts[0], unit, texts[1], texts[2]);
    else
        snprintf(out, size, "%s%s", texts[0], unit);
}

// Width of the column of numbers.
static double measure_values(const layout *l)
{
    double widest = 0;
    for (size_t i = 0; i < l->chart->count; i++) {
        char text[128] = "";
        if (l->chart->bars[i].tone != RUNGI_SVG_ABSENT)
            value_text(l, &l->chart->bars[i], text, sizeof text);
        widest = fmax(widest, rungi_svg_text_width(text, TEXT_SIZE));
    }
    return widest;
}

static void find_range(layout *l)
{
    double high = 0, low = 0;
    const rungi_svg_bars *chart = l->chart;
    for (size_t i = 0; i < chart->count; i++) {
        const rungi_svg_bar *bar = &chart->bars[i];
        double ends[3] = {bar->value, has_interval(bar) ? bar->low : 0,
                          has_interval(bar) ? bar->high : 0};
        for (int k = 0; k < 3; k++)
            if (bar->tone != RUNGI_SVG_ABSENT && isfinite(ends[k])) {
                high = fmax(high, fmin(ends[k], 1e300));
                low = fmin(low, fmax(ends[k], -1e300));
            }
    }
    if (isfinite(chart->reference)) {
        high = fmax(high, chart->reference);
        low = fmin(low, chart->reference);
    }
    l->axis.low = low;
    l->axis.high = high > low ? low + (high - low) * 1.04 : low + 1;
}

static void measure(layout *l)
{
    double label = 0, note = 0, inner = l->width - 2 * PAD;
    for (size_t i = 0; i < l->chart->count; i++) {
        const rungi_svg_bar *bar = &l->chart->bars[i];
        label = fmax(label, rungi_svg_text_width(bar->label ? bar->label : "", TEXT_SIZE));
        if (bar->tone != RUNGI_SVG_ABSENT)
            note = fmax(note, rungi_svg_text_width(bar->note ? bar->note : "", TEXT_SIZE));
    }
    l->intervals = true;
    double value = measure_values(l);
    if (value > inner * 0.28) {
        l->intervals = false;
        value = measure_values(l);
    }
    l->label_room = fmin(label, inner * 0.3);
    l->note_room = fmin(note, inner * 0.25);
    l->value_room = fmin(value, inner * 0.28);
    l->note_x = l->width - PAD - l->note_room;
    l->value_x = l->note_x - (note > 0 ? GAP : 0) - l->value_room;
    find_range(l);
    l->axis.from = PAD + l->label_room + GAP;
    l->axis.to = l->value_x - GAP;
}

static void draw_scale(layout *l, double bottom)
{
    rungi_svg_axis *axis = &l->axis;
    for (int wanted = 6; wanted >= 1; wanted--) {
        rungi_svg_ticks(axis, wanted, false);
        if (axis->count * (rungi_svg_label_width(axis, TEXT_SIZE) + 20) <= axis->to - axis->from)
            break;
    }
    for (int i = 0; i < axis->count; i++) {
        double x = rungi_svg_place(axis, axis->tick[i]);
        rungi_svg_line(l->out, "rg-grid", x, l->top, x, bottom);
        rungi_svg_text(l->out, "rg-muted", "middle", TEXT_SIZE, x, bottom + 16, 1e6,
                       axis->label[i]);
    }
    const char *name = l->chart->x_label;
    if (name && *name)
        rungi_svg_text(l->out, "rg-muted", "middle", TEXT_SIZE, (axis->from + axis->to) / 2,
                       bottom + 34,
                       2 * fmin((axis->from + axis->to) / 2 - PAD,
                                l->width - PAD - (axis->from + axis->to) / 2),
                       name);
}

static void draw_interval(layout *l, const rungi_svg_bar *bar, double middle)
{
    double from = rungi_svg_place(&l->axis, bar->low), to = rungi_svg_place(&l->axis, bar->high);
    rungi_svg_line(l->out, "rg-whisker", from, middle, to, middle);
    rungi_svg_line(l->out, "rg-whisker", from, middle - 4, from, middle + 4);
    rungi_svg_line(l->out, "rg-whisker", to, middle - 4, to, middle + 4);
}

static bool has_bar(const rungi_svg_bar *bar)
{
    return bar->tone != RUNGI_SVG_ABSENT && isfinite(bar->value);
}

// The note of a row without a bar, on a ground of its own: lines end before it.
static void draw_absent(layout *l, const rungi_svg_bar *bar, double middle)
{
    double room = l->width - PAD - l->axis.from - 4;
    const char *note = bar->note ? bar->note : "";
    rungi_string_add(l->out, "<rect class=\"rg-bg\" height=\"20\"");
    rungi_svg_attribute(l->out, "x", l->axis.from + 1);
    rungi_svg_attribute(l->out, "y", middle - 10);
    rungi_svg_attribute(l->out, "width", fmin(room, rungi_svg_text_width(note, TEXT_SIZE)) + 6);
    rungi_string_add(l->out, "/>");
    rungi_svg_text(l->out, "rg-muted", "start", TEXT_SIZE, l->axis.from + 4, middle + 4, room,
                   note);
}

static void draw_bar(layout *l, const rungi_svg_bar *bar, double middle)
{
    char text[128], classes[32];
    double base = middle + 4; // of the text
    rungi_svg_text(l->out, bar->tone == RUNGI_SVG_ABSENT ? "rg-muted" : "rg-text", "end", TEXT_SIZE,
                   PAD + l->label_room, base, l->label_room, bar->label ? bar->label : "");
    if (!has_bar(bar))
        return;
    const char *note = bar->note ? bar->note : "";
    double zero = rungi_svg_place(&l->axis, 0), end = rungi_svg_place(&l->axis, bar->value);
    rungi_string_add(l->out, "<rect class=\"rg-%s\" rx=\"2\" height=\"%d\"", tones[bar->tone], BAR);
    rungi_svg_attribute(l->out, "x", fmin(zero, end));
    rungi_svg_attribute(l->out, "y", middle - BAR / 2.0);
    rungi_svg_attribute(l->out, "width", fmax(fabs(end - zero), 0.5));
    rungi_string_add(l->out, "/>");
    if (has_interval(bar))
        draw_interval(l, bar, middle);
    value_text(l, bar, text, sizeof text);
    rungi_svg_text(l->out, "rg-text", "start", TEXT_SIZE, l->value_x, base, l->value_room + 1,
                   text);
    snprintf(classes, sizeof classes, "rg-%s-text", tones[bar->tone]);
    if (*note)
        rungi_svg_text(l->out, classes, "start", TEXT_SIZE, l->note_x, base, l->note_room + 1,
                       note);
}

static void draw_reference(layout *l, double bottom)
{
    if (!isfinite(l->chart->reference))
        return;
    double x = rungi_svg_place(&l->axis, l->chart->reference);
    rungi_svg_line(l->out, "rg-ref", x, l->top - 2, x, bottom);
    const char *label = l->chart->reference_label;
    if (!label || !*label)
        return;
    double half = rungi_svg_text_width(label, TEXT_SIZE) / 2;
    double at = fmin(fmax(x, PAD + half), l->width - PAD - half);
    rungi_svg_text(l->out, "rg-muted", "middle", TEXT_SIZE, at, l->top - 7, l->width - 2 * PAD,
                   label);
}

rung_status rungi_svg_bar_chart(const rungi_svg_bars *chart, rungi_string *out)
{
    layout l = {.chart = chart, .out = out, .width = chart->width > 0 ? chart->width : WIDTH};
    bool title = chart->title && *chart->title;
    bool reference =
        isfinite(chart->reference) && chart->reference_label && *chart->reference_label;
    bool name = chart->x_label && *chart->x_label;
    l.top = PAD + (title ? TITLE_SIZE + 12 : 0) + (reference ? 20 : 0);
    double bottom = l.top + (double)(chart->count ? chart->count : 1) * ROW;
    l.height = (int)bottom + 22 + (name ? 18 : 0) + PAD / 2;
    measure(&l);
    rungi_svg_begin(out, l.width, l.height, chart->title);
    if (title)
        rungi_svg_text(out, "rg-text rg-title", "start", TITLE_SIZE, PAD, PAD + TITLE_SIZE - 2,
                       l.width - 2 * PAD, chart->title);
    draw_scale(&l, bottom);
    for (size_t i = 0; i < chart->count; i++)
        draw_bar(&l, &chart->bars[i], l.top + ((double)i + 0.5) * ROW);
    if (!chart->count)
        rungi_svg_text(out, "rg-muted", "middle", TEXT_SIZE, l.width / 2.0, l.top + ROW / 2.0 + 4,
                       l.width, "no data");
    draw_reference(&l, bottom);
    for (size_t i = 0; i < chart->count; i++)
        if (!has_bar(&chart->bars[i]) && chart->bars[i].note)
            draw_absent(&l, &chart->bars[i], l.top + ((double)i + 0.5) * ROW);
    rungi_string_add(out, "</svg>\n");
    RUNG_CHECK(!out->failed, RUNG_NO_MEMORY, "no memory to draw a chart");
    return RUNG_OK;
}
