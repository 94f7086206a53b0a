// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "formats/svg_chart.h"
#include "formats/svg_draw.h"

enum {
    WIDTH = 1040,
    HEIGHT = 600,
    PAD = 16,
    TITLE_SIZE = 16,
    TEXT_SIZE = 12,
    ROW = 21,
    TABLE_MOST = 20, // rows
    GAP = 12,
    DOT = 5, // radius in the legend
};

// Where the axis of operations per byte begins at most.
static const double LEFT = 0.125;
// Radius of the whole: that of a share grows with its square root.
static const double RADIUS = 40, LEAST_RADIUS = 2.5;

typedef struct group {
    const char *name;
    double seconds;
} group;

typedef struct box {
    double left, top, right, bottom;
} box;

typedef struct layout {
    const rungi_svg_roofline *chart;
    rungi_string *out;
    int width, height;
    double top, bottom, left, right; // of the plot
    double table_x, table_top;
    size_t table_rows;
    rungi_svg_axis x, y;
    const rungi_svg_point **order; // longest first
    group groups[RUNGI_SVG_COLORS];
    int group_count;
    box placed[TABLE_MOST]; // of numbers in the plot
    int placed_count;
} layout;

static double per_second(const rungi_svg_point *p, double amount)
{
    return p->seconds > 0 ? amount / p->seconds : 0;
}

static bool is_drawn(const rungi_svg_point *p)
{
    return p->seconds > 0 && p->bytes > 0 && isfinite(p->flops) && isfinite(p->bytes);
}

static double intensity(const rungi_svg_point *p)
{
    return fmax(p->flops / p->bytes, LEFT);
}

// Operations a second, at least as many as the bytes are worth at the axis' left end.
static double height_of(const rungi_svg_point *p)
{
    return fmax(per_second(p, p->flops), per_second(p, p->bytes) * LEFT);
}

// ---- order and groups ---------------------------------------------------------------------------

static int longest_first(const void *a, const void *b)
{
    const rungi_svg_point *x = *(const rungi_svg_point *const *)a;
    const rungi_svg_point *y = *(const rungi_svg_point *const *)b;
    if (x->seconds != y->seconds)
        return x->seconds < y->seconds ? 1 : -1;
    return (x > y) - (x < y);
}

static int by_seconds(const void *a, const void *b)
{
    const group *x = a, *y = b;
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

// Groups, the longest first; what has no colour left is "other".
static bool find_groups(layout *l)
{
    size_t n = l->chart->count, count = 0;
    group *all = calloc(n + 1, sizeof *all);
    if (!all)
        return false;
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (k < count && strcmp(all[k].name, l->chart->points[i].group) != 0)
            k++;
        all[k].name = l->chart->points[i].group;
        all[k].seconds += l->chart->points[i].seconds;
        count += k == count;
    }
    qsort(all, count, sizeof *all, by_seconds);
    for (size_t k = 0; k < count; k++) {
        if (k < RUNGI_SVG_COLORS) {
            l->groups[l->group_count++] = all[k];
            continue;
        }
        l->groups[RUNGI_SVG_COLORS - 1].name = "other";
        l->groups[RUNGI_SVG_COLORS - 1].seconds += all[k].seconds;
    }
    free(all);
    return true;
}

static int color_of(const layout *l, const rungi_svg_point *p)
{
    for (int i = 0; i < l->group_count; i++)
        if (strcmp(l->groups[i].name, p->group) == 0)
            return i;
    return RUNGI_SVG_COLORS - 1;
}

// ---- axes and roofs -----------------------------------------------------------------------------

static void find_ranges(layout *l)
{
    const rungi_svg_roofline *c = l->chart;
    double right = c->flops / c->bytes * 4, low = c->bytes * LEFT / 4, high = c->flops * 1.5;
    for (size_t i = 0; i < c->count; i++) {
        if (!is_drawn(&c->points[i]))
            continue;
        right = fmax(right, intensity(&c->points[i]) * 1.6);
        low = fmin(low, height_of(&c->points[i]) / 1.6);
        high = fmax(high, height_of(&c->points[i]) * 1.6);
    }
    low = fmax(low, high * 1e-6);
    l->x = (rungi_svg_axis){
        .log = true, .low = LEFT * 0.8, .high = right, .from = l->left, .to = l->right};
    // in units of 1e9
    l->y = (rungi_svg_axis){
        .log = true, .low = low * 1e-9, .high = high * 1e-9, .from = l->bottom, .to = l->top};
}

static void draw_axes(layout *l)
{
    rungi_svg_ticks(&l->x, 9, false);
    rungi_svg_ticks(&l->y, 8, false);
    for (int i = 0; i < l->x.count; i++) {
        double x = rungi_svg_place(&l->x, l->x.tick[i]);
        rungi_svg_line(l->out, "rg-grid", x, l->top, x, l->bottom);
        rungi_svg_text(l->out, "rg-muted", "middle", TEXT_SIZE, x, l->bottom + 16, 60,
                       l->x.label[i]);
    }
    for (int i = 0; i < l->y.count; i++) {
        double y = rungi_svg_place(&l->y, l->y.tick[i]);
        rungi_svg_line(l->out, "rg-grid", l->left, y, l->right, y);
        rungi_svg_text(l->out, "rg-muted", "end", TEXT_SIZE, l->left - 6, y + 4, l->left - 6 - PAD,
                       l->y.label[i]);
    }
    rungi_svg_text(l->out, "rg-muted", "middle", TEXT_SIZE, (l->left + l->right) / 2,
                   l->bottom + 34, l->right - l->left, "operations per byte");
    rungi_svg_text(l->out, "rg-muted", "start", TEXT_SIZE, PAD, l->top - 10, l->left, "GF/s");
}

static void draw_roof(layout *l, const char *classes, double flops, double bytes)
{
    double ridge = flops / bytes, from = l->x.low, to = l->x.high;
    // The memory's roof enters from the left or from below.
    from = fmax(from, l->y.low * 1e9 / bytes);
    double x = rungi_svg_place(&l->x, fmin(fmax(ridge, from), to));
    double y = rungi_svg_place(&l->y, fmin(flops, bytes * to) * 1e-9);
    rungi_svg_line(l->out, classes, rungi_svg_place(&l->x, from),
                   rungi_svg_place(&l->y, from * bytes * 1e-9), x, y);
    rungi_svg_line(l->out, classes, x, y, l->right, y);
}

static void describe_roofs(const layout *l, char *out, size_t size)
{
    const rungi_svg_roofline *c = l->chart;
    int used =
        snprintf(out, size, "Roof: %.4g GF/s of multiply-adds, %.3g GB/s of triad, %d thread%s",
                 c->flops * 1e-9, c->bytes * 1e-9, c->threads, c->threads == 1 ? "" : "s");
    if (c->threads > 1 && used > 0 && (size_t)used < size)
        snprintf(out + used, size - (size_t)used, "; dashed: %.4g GF/s, %.3g GB/s, one",
                 c->flops_one * 1e-9, c->bytes_one * 1e-9);
}

// ---- points -------------------------------------------------------------------------------------

static void circle(layout *l, int color, double x, double y, double r, double opacity)
{
    rungi_string_add(l->out, "<circle class=\"rg-f%d rg-s%d\" fill-opacity=\"%s\"", color, color,
                     opacity < 1 ? "0.45" : "1");
    rungi_svg_attribute(l->out, "cx", x);
    rungi_svg_attribute(l->out, "cy", y);
    rungi_svg_attribute(l->out, "r", r);
}

static double radius_of(const layout *l, const rungi_svg_point *p)
{
    double share = l->chart->total > 0 ? p->seconds / l->chart->total : 0;
    return fmax(RADIUS * sqrt(fmin(share, 1)), LEAST_RADIUS);
}

static void draw_point(layout *l, const rungi_svg_point *p)
{
    char text[256];
    circle(l, color_of(l, p), rungi_svg_place(&l->x, intensity(p)),
           rungi_svg_place(&l->y, height_of(p) * 1e-9), radius_of(l, p), 0.45);
    snprintf(text, sizeof text, "%.160s: %.4g ms, %.4g GF/s, %.4g GB/s", p->label, p->seconds * 1e3,
             per_second(p, p->flops) * 1e-9, per_second(p, p->bytes) * 1e-9);
    rungi_string_add(l->out, ">");
    rungi_svg_tooltip(l->out, text);
    rungi_string_add(l->out, "</circle>");
}

static bool is_free(const layout *l, const box *b)
{
    if (b->left < l->left || b->right > l->right || b->top < l->top || b->bottom > l->bottom)
        return false;
    for (int i = 0; i < l->placed_count; i++) {
        const box *o = &l->placed[i];
        if (b->left < o->right && o->left < b->right && b->top < o->bottom && o->top < b->bottom)
            return false;
    }
    return true;
}

// The number of a row of the table, in its circle or beside it; left out where there is no room.
static void draw_number(layout *l, const rungi_svg_point *p, size_t number)
{
    char text[16];
    snprintf(text, sizeof text, "%zu", number);
    double x = rungi_svg_place(&l->x, intensity(p)), r = radius_of(l, p);
    double y = rungi_svg_place(&l->y, height_of(p) * 1e-9);
    double half = rungi_svg_text_width(text, TEXT_SIZE) / 2 + 1, away = r + half + 1;
    const double places[][2] = {{0, 0},      {away, 0},    {-away, 0}, {0, -r - 8}, {0, r + 8},
                                {away, -10}, {-away, -10}, {away, 10}, {-away, 10}};
    for (size_t i = r < 8; i < sizeof places / sizeof *places; i++) {
        double cx = x + places[i][0], cy = y + places[i][1];
        box b = {cx - half, cy - 7, cx + half, cy + 7};
        if (!is_free(l, &b))
            continue;
        l->placed[l->placed_count++] = b;
        rungi_svg_text(l->out, "rg-text", "middle", TEXT_SIZE, cx, cy + 4, 40, text);
        return;
    }
}

// ---- table and legend ---------------------------------------------------------------------------

static void table_head(layout *l, double room)
{
    double right = l->width - PAD;
    rungi_svg_text(l->out, "rg-muted", "start", TEXT_SIZE, l->table_x, l->table_top, room,
                   "the longest");
    rungi_svg_text(l->out, "rg-muted", "end", TEXT_SIZE, right - 92, l->table_top, 60, "ms");
    rungi_svg_text(l->out, "rg-muted", "end", TEXT_SIZE, right, l->table_top, 88, "of the roof");
}

static void table_row(layout *l, size_t index, double room)
{
    char text[64];
    const rungi_svg_point *p = l->order[index];
    double y = l->table_top + ((double)index + 1) * ROW, right = l->width - PAD;
    double flops = per_second(p, p->flops) / l->chart->flops;
    double bytes = per_second(p, p->bytes) / l->chart->bytes;
    snprintf(text, sizeof text, "%zu", index + 1);
    rungi_svg_text(l->out, "rg-text", "end", TEXT_SIZE, l->table_x + 18, y, 20, text);
    circle(l, color_of(l, p), l->table_x + 30, y - 4, DOT, 1);
    rungi_string_add(l->out, "/>");
    rungi_svg_text(l->out, "rg-text", "start", TEXT_SIZE, l->table_x + 42, y, room - 42, p->label);
    snprintf(text, sizeof text, "%.3g", p->seconds * 1e3);
    rungi_svg_text(l->out, "rg-text", "end", TEXT_SIZE, right - 92, y, 60, text);
    snprintf(text, sizeof text, "%.0f %% %s", fmax(flops, bytes) * 100,
             flops > bytes ? "GF/s" : "GB/s");
    rungi_svg_text(l->out, "rg-text", "end", TEXT_SIZE, right, y, 88, text);
}

static void draw_legend(layout *l)
{
    double x = l->left, y = l->height - PAD;
    for (int i = 0; i < l->group_count; i++) {
        char text[96];
        double share = l->chart->total > 0 ? l->groups[i].seconds / l->chart->total : 0;
        snprintf(text, sizeof text, "%.40s %.1f %%", l->groups[i].name, share * 100);
        double width = rungi_svg_text_width(text, TEXT_SIZE) + 2 * DOT + 6;
        if (x + width > l->width - PAD)
            break;
        circle(l, i, x + DOT, y - 4, DOT, 1);
        rungi_string_add(l->out, "/>");
        rungi_svg_text(l->out, "rg-text", "start", TEXT_SIZE, x + 2 * DOT + 6, y, width, text);
        x += width + 2 * GAP;
    }
}

// ---- all ----------------------------------------------------------------------------------------

static void measure(layout *l)
{
    const rungi_svg_roofline *c = l->chart;
    l->width = c->width > 0 ? c->width : WIDTH;
    l->height = c->height > 0 ? c->height : HEIGHT;
    l->left = PAD + 40;
    l->right = PAD + (l->width - 2 * PAD) * 0.55;
    l->top = PAD + TITLE_SIZE + 12 + ROW + 18;
    l->bottom = l->height - PAD - 20 - 44;
    l->table_x = l->right + 2 * GAP;
    l->table_top = l->top - 10;
    l->table_rows = (size_t)fmax(0, (l->bottom - l->table_top) / ROW);
    l->table_rows = l->table_rows < TABLE_MOST ? l->table_rows : TABLE_MOST;
    l->table_rows = l->table_rows < c->count ? l->table_rows : c->count;
    find_ranges(l);
}

static void draw(layout *l)
{
    char roofs[200];
    const rungi_svg_roofline *c = l->chart;
    double inner = l->width - 2 * PAD, room = l->width - PAD - 92 - 50 - l->table_x;
    rungi_svg_begin(l->out, l->width, l->height, c->title);
    if (c->title)
        rungi_svg_text(l->out, "rg-text rg-title", "start", TITLE_SIZE, PAD, PAD + TITLE_SIZE - 2,
                       inner, c->title);
    describe_roofs(l, roofs, sizeof roofs);
    rungi_svg_text(l->out, "rg-muted", "start", TEXT_SIZE, PAD, PAD + TITLE_SIZE + ROW - 2, inner,
                   roofs);
    draw_axes(l);
    draw_roof(l, "rg-whisker", c->flops, c->bytes);
    if (c->threads > 1)
        draw_roof(l, "rg-ref", c->flops_one, c->bytes_one);
    for (size_t i = 0; i < c->count; i++)
        if (is_drawn(l->order[i]))
            draw_point(l, l->order[i]);
    table_head(l, room);
    for (size_t i = 0; i < l->table_rows; i++) {
        table_row(l, i, room);
        if (is_drawn(l->order[i]))
            draw_number(l, l->order[i], i + 1);
    }
    draw_legend(l);
    rungi_string_add(l->out, "</svg>\n");
}

rung_status rungi_svg_roofline_chart(const rungi_svg_roofline *chart, rungi_string *out)
{
    layout l = {.chart = chart, .out = out};
    l.order = calloc(chart->count + 1, sizeof *l.order);
    if (!l.order || !find_groups(&l)) {
        free(l.order);
        return RUNG_FAIL(RUNG_NO_MEMORY, "no memory to draw a chart");
    }
    for (size_t i = 0; i < chart->count; i++)
        l.order[i] = &chart->points[i];
    qsort(l.order, chart->count, sizeof *l.order, longest_first);
    measure(&l);
    draw(&l);
    free(l.order);
    RUNG_CHECK(!out->failed, RUNG_NO_MEMORY, "no memory to draw a chart");
    return RUNG_OK;
}
