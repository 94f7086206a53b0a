// SPDX-License-Identifier: Apache-2.0
// Charts as SVG: lines (loss curves) and horizontal bars with intervals (the ladder).
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

#endif
