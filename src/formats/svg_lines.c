// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "formats/svg_chart.h"
#include "formats/svg_draw.h"

enum {
    WIDTH = 760,
    HEIGHT = 400,
    PAD = 16,
    TITLE_SIZE = 16,
    TEXT_SIZE = 12,
    LEGEND_ROW = 20,
    SWATCH = 18,
    POINTS_MAX = 80, // of a series, to be marked one by one
    HEIGHT_MIN = 120 // of the plot
};

typedef struct plot {
    const rungi_svg_lines *chart;
    rungi_string *out;
    rungi_svg_axis x, y;
    int width, height;
    double top; // what lies above is taken
} plot;

static double x_of(const rungi_svg_series *s, size_t i)
{
    return s->x ? s->x[i] : (double)i;
}

// Can the point be drawn?
static bool usable(const rungi_svg_lines *chart, const rungi_svg_series *s, size_t i)
{
    return isfinite(s->y[i]) && isfinite(x_of(s, i)) && (!chart->log_y || s->y[i] > 0);
}

// Widens a range so that low < high in every case.
static void widen(double *low, double *high, bool log)
{
    if (log && *low == *high) {
        *low /= 2;
        *high *= 2;
    }
    double least = fmax(fabs(*low), fabs(*high)) * 1e-9;
    if (!log && *high - *low <= least) {
        double half = *low == 0 ? 1 : fabs(*low) * 0.1;
        *low -= half;
        *high += half;
    }
}

// Ranges of the data; false when nothing can be drawn.
static bool find_ranges(plot *p, bool *integers_out)
{
    const rungi_svg_lines *chart = p->chart;
    double low_x = INFINITY, high_x = -INFINITY, low_y = INFINITY, high_y = -INFINITY;
    *integers_out = true;
    for (size_t k = 0; k < chart->count; k++) {
        const rungi_svg_series *s = &chart->series[k];
        for (size_t i = 0; i < s->count; i++) {
            if (!usable(chart, s, i))
                continue;
            double x = x_of(s, i);
            *integers_out = *integers_out && x == floor(x);
            low_x = fmin(low_x, x);
            high_x = fmax(high_x, x);
            low_y = fmin(low_y, s->y[i]);
            high_y = fmax(high_y, s->y[i]);
        }
    }
    bool any = low_x <= high_x;
    if (!any) {
        low_x = 0, high_x = 1;
        low_y = chart->log_y ? 1 : 0, high_y = chart->log_y ? 10 : 1;
    }
    // Differences and sums of larger numbers would overflow.
    low_x = fmax(low_x, -1e300), high_x = fmin(high_x, 1e300);
    low_y = fmax(low_y, -1e300), high_y = fmin(high_y, 1e300);
    widen(&low_x, &high_x, false);
    widen(&low_y, &high_y, chart->log_y);
    if (!chart->log_y && low_y > 0 && (chart->from_zero || low_y < 0.3 * high_y))
        low_y = 0; // or near enough to show where zero is
    p->x = (rungi_svg_axis){.low = low_x, .high = high_x};
    p->y = (rungi_svg_axis){.log = chart->log_y, .low = low_y, .high = high_y};
    return any;
}

// One number would tell no scale: then there are more of them. Returns how many were asked for.
static int value_ticks(rungi_svg_axis *axis, int wanted)
{
    const int most = 2 * wanted;
    rungi_svg_ticks(axis, wanted, false);
    while (axis->count < 2 && wanted < most)
        rungi_svg_ticks(axis, ++wanted, false);
    return wanted;
}

// Ends the value axis at round numbers, or a little beyond the data.
static void round_range(rungi_svg_axis *axis, int wanted)
{
    wanted = value_ticks(axis, wanted);
    if (axis->log) {
        double margin = pow(axis->high / axis->low, 0.04);
        axis->low = fmax(axis->low / margin, 1e-307);
        axis->high *= margin;
    } else if (axis->count >= 2) {
        double step = axis->tick[1] - axis->tick[0];
        axis->low = floor(axis->low / step + 1e-6) * step;
        axis->high = ceil(axis->high / step - 1e-6) * step;
    }
    value_ticks(axis, wanted);
}

// The legend wraps into rows; y is moved below it.
static void draw_legend(plot *p, double *y)
{
    double x = PAD, right = p->width - PAD;
    bool any = false;
    for (size_t k = 0; k < p->chart->count; k++) {
        const char *name = p->chart->series[k].name;
        if (!name || !*name)
            continue;
        double wanted = SWATCH + 6 + rungi_svg_text_width(name, TEXT_SIZE);
        if (any && x + wanted > right) {
            x = PAD;
            *y += LEGEND_ROW;
        }
        any = true;
        int color = (int)(k % RUNGI_SVG_COLORS);
        rungi_string_add(p->out, "<path class=\"rg-line rg-s%d\" stroke-width=\"3\"%s d=\"M", color,
                         k >= RUNGI_SVG_COLORS ? " stroke-dasharray=\"5 4\"" : "");
        rungi_svg_number(p->out, x + 1.5);
        rungi_string_add(p->out, " ");
        rungi_svg_number(p->out, *y + 8);
        rungi_string_add(p->out, "h%d\"/>", SWATCH - 3);
        x += SWATCH + 6;
        x += rungi_svg_text(p->out, "rg-text", "start", TEXT_SIZE, x, *y + 12, right - x, name);
        x += 20;
    }
    if (any)
        *y += LEGEND_ROW + 6;
}

static void draw_head(plot *p)
{
    double y = PAD;
    const rungi_svg_lines *chart = p->chart;
    if (chart->title && *chart->title) {
        rungi_svg_text(p->out, "rg-text rg-title", "start", TITLE_SIZE, PAD, y + TITLE_SIZE - 2,
                       p->width - 2 * PAD, chart->title);
        y += TITLE_SIZE + 12;
    }
    draw_legend(p, &y);
    if (chart->y_label && *chart->y_label) {
        rungi_svg_text(p->out, "rg-muted", "start", TEXT_SIZE, PAD, y + 10, p->width - 2 * PAD,
                       chart->y_label);
        y += 22;
    }
    p->top = y + 4;
}

static void draw_axes(plot *p, bool integers)
{
    const rungi_svg_lines *chart = p->chart;
    double bottom = p->height - PAD - (chart->x_label && *chart->x_label ? 20 : 0) - 18;
    round_range(&p->y, (int)((bottom - p->top) / 52));
    p->y.from = bottom;
    p->y.to = p->top;
    p->x.from = PAD + rungi_svg_label_width(&p->y, TEXT_SIZE) + 8;
    p->x.to = p->width - PAD - 8;
    // As many labels as fit without touching, each with room for its neighbour.
    for (int wanted = 10; wanted >= 1; wanted--) {
        rungi_svg_ticks(&p->x, wanted, integers);
        double widest = rungi_svg_label_width(&p->x, TEXT_SIZE);
        if (p->x.count * (widest + 24) <= p->x.to - p->x.from)
            break;
    }
    for (int i = 0; i < p->y.count; i++) {
        double y = rungi_svg_place(&p->y, p->y.tick[i]);
        rungi_svg_line(p->out, "rg-grid", p->x.from, y, p->x.to, y);
        rungi_svg_text(p->out, "rg-muted", "end", TEXT_SIZE, p->x.from - 8, y + 4, 1e6,
                       p->y.label[i]);
    }
    rungi_svg_line(p->out, "rg-axis", p->x.from, bottom, p->x.to, bottom);
    for (int i = 0; i < p->x.count; i++) {
        double x = rungi_svg_place(&p->x, p->x.tick[i]);
        double half = rungi_svg_text_width(p->x.label[i], TEXT_SIZE) / 2;
        rungi_svg_line(p->out, "rg-axis", x, bottom, x, bottom + 4);
        // The last label may stand at the edge of the drawing.
        double at = fmin(x, p->width - 4 - half);
        rungi_svg_text(p->out, "rg-muted", "middle", TEXT_SIZE, at, bottom + 18, 1e6,
                       p->x.label[i]);
    }
    if (chart->x_label && *chart->x_label)
        rungi_svg_text(p->out, "rg-muted", "middle", TEXT_SIZE, (p->x.from + p->x.to) / 2,
                       bottom + 36, p->x.to - p->x.from, chart->x_label);
}

typedef struct pen {
    rungi_string *out;
    bool down; // inside a run of points
} pen;

static void move_pen(pen *to, double x, double y)
{
    rungi_string_append(to->out, to->down ? "L" : "M", 1);
    rungi_svg_number(to->out, x);
    rungi_string_append(to->out, " ", 1);
    rungi_svg_number(to->out, y);
    to->down = true;
}

// What falls into one column of pixels is drawn as its first, lowest, highest and last point.
typedef struct bucket {
    long column;
    int count;
    double first[2], low[2], high[2], last[2];
} bucket;

static void empty_bucket(bucket *b, pen *to)
{
    if (b->count) {
        move_pen(to, b->first[0], b->first[1]);
        bool low_first = b->low[0] <= b->high[0];
        const double *middle[2] = {low_first ? b->low : b->high, low_first ? b->high : b->low};
        for (int i = 0; i < 2 && b->count > 2; i++)
            move_pen(to, middle[i][0], middle[i][1]);
        if (b->count > 1)
            move_pen(to, b->last[0], b->last[1]);
    }
    b->count = 0;
}

static void fill_bucket(bucket *b, pen *to, double x, double y, bool thin)
{
    long column = lround(x);
    if (b->count && (!thin || column != b->column))
        empty_bucket(b, to);
    double point[2] = {x, y};
    b->column = column;
    for (int i = 0; i < 2; i++) {
        b->last[i] = point[i];
        if (!b->count)
            b->first[i] = point[i];
        if (!b->count || y < b->low[1] || (y == b->low[1] && i && x == b->low[0]))
            b->low[i] = point[i];
        if (!b->count || y > b->high[1] || (y == b->high[1] && i && x == b->high[0]))
            b->high[i] = point[i];
    }
    b->count++;
}

// Is point i alone between gaps?
static bool is_lone(const plot *p, const rungi_svg_series *s, size_t i)
{
    return (i == 0 || !usable(p->chart, s, i - 1)) &&
           (i + 1 == s->count || !usable(p->chart, s, i + 1));
}

// The series as a line, smoothed when `smooth` is not zero.
static void draw_path(plot *p, size_t index, double smooth, const char *style)
{
    const rungi_svg_series *s = &p->chart->series[index];
    rungi_string_add(p->out, "<path class=\"rg-line rg-s%d\" %s%s d=\"",
                     (int)(index % RUNGI_SVG_COLORS), style,
                     index >= RUNGI_SVG_COLORS ? " stroke-dasharray=\"5 4\"" : "");
    pen to = {p->out, false};
    bucket b = {0};
    bool thin = (double)s->count > 2 * (p->x.to - p->x.from);
    double sum = 0, weight = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (!usable(p->chart, s, i)) {
            empty_bucket(&b, &to);
            to.down = false;
            continue;
        }
        // As TensorBoard does: the average of what came so far, without the pull of its start at 0.
        sum = smooth * sum + (1 - smooth) * s->y[i];
        weight = smooth * weight + (1 - smooth);
        fill_bucket(&b, &to, rungi_svg_place(&p->x, x_of(s, i)),
                    rungi_svg_place(&p->y, smooth > 0 ? sum / weight : s->y[i]), thin);
    }
    empty_bucket(&b, &to);
    rungi_string_add(p->out, "\"/>");
}

static void draw_series(plot *p, size_t index)
{
    const rungi_svg_series *s = &p->chart->series[index];
    double smooth = s->smooth > 0 && s->smooth < 1 ? s->smooth : 0;
    if (smooth > 0)
        draw_path(p, index, 0, "stroke-width=\"1\" opacity=\"0.3\"");
    draw_path(p, index, smooth, "stroke-width=\"1.75\"");
    bool all = s->points && s->count <= POINTS_MAX;
    for (size_t i = 0; i < s->count; i++) {
        if (!usable(p->chart, s, i) || (!all && !is_lone(p, s, i)))
            continue;
        rungi_string_add(p->out, "<circle class=\"rg-f%d\" r=\"3\"",
                         (int)(index % RUNGI_SVG_COLORS));
        rungi_svg_attribute(p->out, "cx", rungi_svg_place(&p->x, x_of(s, i)));
        rungi_svg_attribute(p->out, "cy", rungi_svg_place(&p->y, s->y[i]));
        rungi_string_add(p->out, "/>");
    }
}

rung_status rungi_svg_line_chart(const rungi_svg_lines *chart, rungi_string *out)
{
    plot p = {.chart = chart,
              .out = out,
              .width = chart->width > 0 ? chart->width : WIDTH,
              .height = chart->height > 0 ? chart->height : HEIGHT};
    bool integers = false;
    bool any = find_ranges(&p, &integers);
    // The head is drawn first to know its height: many long names need a taller drawing.
    rungi_string head = {0};
    p.out = &head;
    draw_head(&p);
    p.out = out;
    if (p.height < p.top + HEIGHT_MIN + 60)
        p.height = (int)p.top + HEIGHT_MIN + 60;
    rungi_svg_begin(out, p.width, p.height, chart->title);
    rungi_string_append(out, rungi_string_text(&head), head.size);
    bool failed = head.failed;
    rungi_string_fini(&head);
    draw_axes(&p, integers);
    for (size_t k = 0; k < chart->count && any; k++)
        draw_series(&p, k);
    if (!any)
        rungi_svg_text(out, "rg-muted", "middle", TEXT_SIZE, (p.x.from + p.x.to) / 2,
                       (p.y.from + p.y.to) / 2, p.x.to - p.x.from, "no data");
    rungi_string_add(out, "</svg>\n");
    RUNG_CHECK(!failed && !out->failed, RUNG_NO_MEMORY, "no memory to draw a chart");
    return RUNG_OK;
}
