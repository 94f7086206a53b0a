// SPDX-License-Identifier: Apache-2.0
// What both charts draw with: text of known width, scales, ticks.
#ifndef RUNGI_FORMATS_SVG_DRAW_H
#define RUNGI_FORMATS_SVG_DRAW_H

#include <stdbool.h>

#include "base/text.h"

enum { RUNGI_SVG_TICKS_MAX = 16, RUNGI_SVG_LABEL_MAX = 32, RUNGI_SVG_COLORS = 8 };

// Opens the drawing: size, styles, background. Closed by "</svg>\n".
void rungi_svg_begin(rungi_string *out, int width, int height, const char *title);

// Adds a coordinate with one decimal, whatever the locale.
void rungi_svg_number(rungi_string *out, double value);
// Adds ` name="value"`.
void rungi_svg_attribute(rungi_string *out, const char *name, double value);
void rungi_svg_line(rungi_string *out, const char *classes, double x1, double y1, double x2,
                    double y2);

// Adds a <title> with the text: what is shown while the pointer rests on the element around it.
void rungi_svg_tooltip(rungi_string *out, const char *text);

// Width of a text in pixels at a font size.
double rungi_svg_text_width(const char *text, double size);

// Draws text of at most `room` pixels; a longer one is cut and whole in its tooltip. `anchor` is
// "start", "middle" or "end". Returns the width it takes.
double rungi_svg_text(rungi_string *out, const char *classes, const char *anchor, double size,
                      double x, double y, double room, const char *text);

// An axis: from data to pixels.
typedef struct rungi_svg_axis {
    bool log;
    double low, high; // in data
    double from, to;  // in pixels
    int count;        // of ticks
    double tick[RUNGI_SVG_TICKS_MAX];
    char label[RUNGI_SVG_TICKS_MAX][RUNGI_SVG_LABEL_MAX];
} rungi_svg_axis;

double rungi_svg_place(const rungi_svg_axis *axis, double value);

// Fills the ticks between low and high (low < high), about `wanted` of them. `integers` allows
// whole numbers only.
void rungi_svg_ticks(rungi_svg_axis *axis, int wanted, bool integers);

// Width of the widest label.
double rungi_svg_label_width(const rungi_svg_axis *axis, double size);

// A number as ticks of that distance show it: "0.25", "1.5k", "2e-5".
void rungi_svg_format(char out[RUNGI_SVG_LABEL_MAX], double value, double step, double largest);

#endif
