// SPDX-License-Identifier: Apache-2.0
// Charts as SVG: lines (loss curves), horizontal bars with intervals (the ladder), layers that add
// up (memory), and a roofline.
//
// The drawing stands alone: no script, no font, no other file. Colours follow prefers-color-scheme.
// It can be a file or part of an HTML page; its class names begin with rg-. Text is measured with
// the widths of a wide font (DejaVu Sans), so that it does not overlap in the reader's; names that
// do not fit end in an ellipsis and are whole in the tooltip.
#ifndef RUNGI_FORMATS_SVG_CHART_H
#define RUNGI_FORMATS_SVG_CHART_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

// All pointers of these structs are borrowed for the call.
typedef struct rungi_svg_series {
    const char *name;
    const double *x; // NULL: 0, 1, 2, ...
    const double *y; // not finite: a gap
    size_t count;
    bool points;   // marks each point, for series of few
    double smooth; // weight of an exponential moving average (0.9); the data stay as a pale line.
                   // 0: off
} rungi_svg_series;

typedef struct rungi_svg_lines {
    const char *title, *x_label, *y_label; // NULL: none
    bool log_y;                            // values of zero and less become gaps
    int width, height;                     // 0: 760 x 400
    const rungi_svg_series *series;
    size_t count;
    bool from_zero; // the axis of values begins there, unless log_y
} rungi_svg_lines;

// Adds the drawing to `out`. Errors: RUNG_NO_MEMORY.
rung_status rungi_svg_line_chart(const rungi_svg_lines *chart, rungi_string *out);

// Colours of bars.
typedef enum rungi_svg_tone {
    RUNGI_SVG_GOOD,    // kept
    RUNGI_SVG_NEUTRAL, // no clear change
    RUNGI_SVG_WORSE,   // slower
    RUNGI_SVG_WRONG,   // wrong
    RUNGI_SVG_ABSENT,  // not available: no bar, the note takes its place
} rungi_svg_tone;

typedef struct rungi_svg_bar {
    const char *label;
    double value;
    double low, high; // interval; drawn when both are finite
    rungi_svg_tone tone;
    const char *note; // such as the verdict; NULL: none
} rungi_svg_bar;

typedef struct rungi_svg_bars {
    const char *title, *x_label;
    const char *unit; // after each number ("x"); NULL: none
    double reference; // a line at this value; NAN: none
    const char *reference_label;
    int width; // 0: 760; the height follows from the number of bars
    const rungi_svg_bar *bars;
    size_t count;
} rungi_svg_bars;

// Adds the drawing to `out`; bars begin at zero. Errors: RUNG_NO_MEMORY.
rung_status rungi_svg_bar_chart(const rungi_svg_bars *chart, rungi_string *out);

// Layers that add up: one value a step, from the lowest layer to the highest.
typedef struct rungi_svg_layer {
    const char *name;
    const double *y; // one for each point; what is not above zero counts as zero
} rungi_svg_layer;

// A stretch of the points, up to the next part.
typedef struct rungi_svg_part {
    const char *name;
    size_t begin;
} rungi_svg_part;

typedef struct rungi_svg_stack {
    const char *title, *y_label; // NULL: none
    const char *peak_label;      // beside a mark of the largest sum; NULL: no mark
    int width, height;           // 0: 760 x 420
    const rungi_svg_layer *layers;
    size_t count, points;
    const rungi_svg_part *parts;
    size_t n_parts;
} rungi_svg_stack;

// Adds the drawing to `out`: a staircase, each point as wide as the others. Errors: RUNG_NO_MEMORY.
rung_status rungi_svg_stack_chart(const rungi_svg_stack *chart, rungi_string *out);

// A piece of work: a circle whose area is its time.
typedef struct rungi_svg_point {
    const char *label; // for the table of the longest
    const char *group; // decides the colour
    double flops, bytes, seconds;
} rungi_svg_point;

typedef struct rungi_svg_roofline {
    const char *title;
    double flops, bytes;         // ceilings a second, of `threads` threads
    double flops_one, bytes_one; // the same of one thread
    int threads;
    double total;      // seconds that shares are taken of
    int width, height; // 0: 1040 x 600
    const rungi_svg_point *points;
    size_t count;
} rungi_svg_roofline;

// Adds the drawing to `out`: operations a second over operations per byte, both logarithmic, under
// the roof of what memory and arithmetic allow; a table of the longest pieces beside it. Work of
// fewer operations per byte than the axis begins with stands at its left end, as far below the roof
// as its bytes a second are. Errors: RUNG_NO_MEMORY.
rung_status rungi_svg_roofline_chart(const rungi_svg_roofline *chart, rungi_string *out);

#endif
