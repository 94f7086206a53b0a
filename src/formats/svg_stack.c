// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "formats/svg_chart.h"
#include "formats/svg_draw.h"

enum {
    WIDTH = 760,
    HEIGHT = 420,
    PAD = 16,
    TITLE_SIZE = 16,
    TEXT_SIZE = 12,
    LEGEND_ROW = 20,
    SWATCH = 12,
    HEIGHT_MIN = 160, // of the plot
};

typedef struct stack {
    const rungi_svg_stack *chart;
    rungi_string *out;
    rungi_svg_axis x, y;
    int width, height;
    double top;
    size_t peak; // place of the largest sum
    double peak_sum;
} stack;

static double value_of(const rungi_svg_layer *layer, size_t i)
{
    double y = layer->y[i];
    return isfinite(y) && y > 0 ? fmin(y, 1e300) : 0;
}

static double sum_of(const stack *s, size_t i, size_t layers)
{
    double sum = 0;
    for (size_t k = 0; k < layers; k++)
        sum += value_of(&s->chart->layers[k], i);
    return sum;
}

static void find_peak(stack *s)
{
    for (size_t i = 0; i < s->chart->points; i++) {
        double sum = sum_of(s, i, s->chart->count);
        if (sum > s->peak_sum) {
            s->peak_sum = sum;
            s->peak = i;
        }
    }
}

// The legend, topmost layer first, as the drawing has them.
static void draw_legend(stack *s, double *y)
{
    double x = PAD, right = s->width - PAD;
    for (size_t k = s->chart->count; k-- > 0;) {
        const char *name = s->chart->layers[k].name;
        double wanted = SWATCH + 6 + rungi_svg_text_width(name, TEXT_SIZE);
        if (x > PAD && x + wanted > right) {
            x = PAD;
            *y += LEGEND_ROW;
        }
        rungi_string_add(s->out, "<rect class=\"rg-f%d\" width=\"%d\" height=\"%d\"",
                         (int)(k % RUNGI_SVG_COLORS), SWATCH, SWATCH);
        rungi_svg_attribute(s->out, "x", x);
        rungi_svg_attribute(s->out, "y", *y + 2);
        rungi_string_add(s->out, "/>");
        x += SWATCH + 6;
        x += rungi_svg_text(s->out, "rg-text", "start", TEXT_SIZE, x, *y + 12, right - x, name);
        x += 18;
    }
    *y += LEGEND_ROW + 6;
}

static void draw_head(stack *s)
{
    double y = PAD;
    const rungi_svg_stack *chart = s->chart;
    if (chart->title && *chart->title) {
        rungi_svg_text(s->out, "rg-text rg-title", "start", TITLE_SIZE, PAD, y + TITLE_SIZE - 2,
                       s->width - 2 * PAD, chart->title);
        y += TITLE_SIZE + 12;
    }
    draw_legend(s, &y);
    if (chart->y_label && *chart->y_label) {
        rungi_svg_text(s->out, "rg-muted", "start", TEXT_SIZE, PAD, y + 10, s->width - 2 * PAD,
                       chart->y_label);
        y += 22;
    }
    // Room for the mark above the peak.
    s->top = y + (chart->peak_label && *chart->peak_label ? 24 : 4);
}

static void draw_axes(stack *s)
{
    double bottom = s->height - PAD - 38;
    // To the peak and no further: rounded up, a third of the plot may be empty.
    s->y = (rungi_svg_axis){.low = 0, .high = s->peak_sum > 0 ? 1.02 * s->peak_sum : 1};
    rungi_svg_ticks(&s->y, (int)((bottom - s->top) / 52), false);
    s->y.from = bottom;
    s->y.to = s->top;
    s->x = (rungi_svg_axis){.low = 0, .high = (double)s->chart->points};
    s->x.from = PAD + rungi_svg_label_width(&s->y, TEXT_SIZE) + 8;
    s->x.to = s->width - PAD - 8;
    for (int wanted = 10; wanted >= 1; wanted--) {
        rungi_svg_ticks(&s->x, wanted, true);
        if (s->x.count * (rungi_svg_label_width(&s->x, TEXT_SIZE) + 24) <= s->x.to - s->x.from)
            break;
    }
    for (int i = 0; i < s->y.count; i++) {
        double y = rungi_svg_place(&s->y, s->y.tick[i]);
        rungi_svg_line(s->out, "rg-grid", s->x.from, y, s->x.to, y);
        rungi_svg_text(s->out, "rg-muted", "end", TEXT_SIZE, s->x.from - 8, y + 4, 1e6,
                       s->y.label[i]);
    }
}

// Top edge of the first `layers` layers from left to right, or back.
static void add_edge(stack *s, size_t layers, bool back)
{
    size_t n = s->chart->points;
    for (size_t k = 0; k < n; k++) {
        size_t i = back ? n - 1 - k : k;
        double y = rungi_svg_place(&s->y, sum_of(s, i, layers));
        for (int end = 0; end < 2; end++) {
            double x = rungi_svg_place(&s->x, (double)i + (back ? 1 - end : end));
            rungi_string_add(s->out, back || k || end ? "L" : "M");
            rungi_svg_number(s->out, x);
            rungi_string_add(s->out, " ");
            rungi_svg_number(s->out, y);
        }
    }
}

static void draw_layers(stack *s)
{
    for (size_t k = 0; k < s->chart->count; k++) {
        rungi_string_add(s->out, "<path class=\"rg-f%d\" d=\"", (int)(k % RUNGI_SVG_COLORS));
        add_edge(s, k + 1, false);
        add_edge(s, k, true);
        rungi_string_add(s->out, "Z\">");
        rungi_svg_tooltip(s->out, s->chart->layers[k].name);
        rungi_string_add(s->out, "</path>");
    }
}

// Ticks below, and the names of the parts that are wide enough in a row of their own.
static void draw_bottom(stack *s)
{
    const rungi_svg_stack *chart = s->chart;
    double bottom = s->y.from;
    rungi_svg_line(s->out, "rg-axis", s->x.from, bottom, s->x.to, bottom);
    for (int i = 0; i < s->x.count; i++) {
        double x = rungi_svg_place(&s->x, s->x.tick[i]);
        double half = rungi_svg_text_width(s->x.label[i], TEXT_SIZE) / 2;
        rungi_svg_line(s->out, "rg-axis", x, bottom, x, bottom + 4);
        rungi_svg_text(s->out, "rg-muted", "middle", TEXT_SIZE, fmin(x, s->width - 4 - half),
                       bottom + 18, 1e6, s->x.label[i]);
    }
    for (size_t i = 0; i < chart->n_parts; i++) {
        double from = rungi_svg_place(&s->x, (double)chart->parts[i].begin);
        double to = rungi_svg_place(
            &s->x, (double)(i + 1 < chart->n_parts ? chart->parts[i + 1].begin : chart->points));
        if (i > 0) { // not through the numbers
            rungi_svg_line(s->out, "rg-ref", from, s->y.to, from, bottom);
            rungi_svg_line(s->out, "rg-ref", from, bottom + 24, from, bottom + 38);
        }
        if (rungi_svg_text_width(chart->parts[i].name, TEXT_SIZE) <= to - from - 8)
            rungi_svg_text(s->out, "rg-text", "middle", TEXT_SIZE, (from + to) / 2, bottom + 35,
                           to - from, chart->parts[i].name);
    }
}

static void draw_peak(stack *s)
{
    const char *label = s->chart->peak_label;
    if (!label || !*label || !(s->peak_sum > 0))
        return;
    double x = rungi_svg_place(&s->x, (double)s->peak + 0.5);
    double y = rungi_svg_place(&s->y, s->peak_sum);
    double room = s->x.to - s->x.from;
    double half = fmin(rungi_svg_text_width(label, TEXT_SIZE), room) / 2;
    double at = fmin(fmax(x, s->x.from + half), s->x.to - half);
    rungi_svg_line(s->out, "rg-whisker", x, s->top - 6, x, y);
    rungi_string_add(s->out, "<circle class=\"rg-text\" r=\"3\"");
    rungi_svg_attribute(s->out, "cx", x);
    rungi_svg_attribute(s->out, "cy", y);
    rungi_string_add(s->out, "/>");
    rungi_svg_text(s->out, "rg-text", "middle", TEXT_SIZE, at, s->top - 10, room, label);
}

rung_status rungi_svg_stack_chart(const rungi_svg_stack *chart, rungi_string *out)
{
    stack s = {.chart = chart,
               .out = out,
               .width = chart->width > 0 ? chart->width : WIDTH,
               .height = chart->height > 0 ? chart->height : HEIGHT};
    rungi_string head = {0};
    find_peak(&s);
    s.out = &head;
    draw_head(&s);
    s.out = out;
    if (s.height < s.top + HEIGHT_MIN + 60)
        s.height = (int)s.top + HEIGHT_MIN + 60;
    rungi_svg_begin(out, s.width, s.height, chart->title);
    rungi_string_append(out, rungi_string_text(&head), head.size);
    bool failed = head.failed;
    rungi_string_fini(&head);
    draw_axes(&s);
    if (chart->points > 0)
        draw_layers(&s);
    draw_bottom(&s);
    draw_peak(&s);
    rungi_string_add(out, "</svg>\n");
    RUNG_CHECK(!failed && !out->failed, RUNG_NO_MEMORY, "no memory to draw a chart");
    return RUNG_OK;
}
