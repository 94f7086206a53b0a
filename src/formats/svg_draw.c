// SPDX-License-Identifier: Apache-2.0
#include "formats/svg_draw.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/decimal.h"

// Light first; the same names again for dark.
static const char styles[] =
    "<style>"
    ".rg-bg{fill:#fff}.rg-text{fill:#1f2328}.rg-muted{fill:#59636e}"
    ".rg-grid{stroke:#e4e8ec}.rg-axis{stroke:#8c959f}.rg-ref{stroke:#59636e;stroke-dasharray:4 3}"
    ".rg-whisker{stroke:#1f2328}.rg-title{font-weight:600}"
    ".rg-line{fill:none;stroke-linejoin:round;stroke-linecap:round}"
    ".rg-s0{stroke:#1f6feb}.rg-s1{stroke:#d9480f}.rg-s2{stroke:#1a7f37}.rg-s3{stroke:#9c36b5}"
    ".rg-s4{stroke:#c2255c}.rg-s5{stroke:#0b7285}.rg-s6{stroke:#9a6700}.rg-s7{stroke:#5c6370}"
    ".rg-f0{fill:#1f6feb}.rg-f1{fill:#d9480f}.rg-f2{fill:#1a7f37}.rg-f3{fill:#9c36b5}"
    ".rg-f4{fill:#c2255c}.rg-f5{fill:#0b7285}.rg-f6{fill:#9a6700}.rg-f7{fill:#5c6370}"
    ".rg-good{fill:#2da44e}.rg-neutral{fill:#8c959f}.rg-worse{fill:#d4772c}.rg-wrong{fill:#cf222e}"
    ".rg-good-text{fill:#1a7f37}.rg-neutral-text{fill:#59636e}.rg-worse-text{fill:#9a4a00}"
    ".rg-wrong-text{fill:#c11a26}"
    "@media (prefers-color-scheme:dark){"
    ".rg-bg{fill:#0d1117}.rg-text{fill:#e6edf3}.rg-muted{fill:#9198a1}"
    ".rg-grid{stroke:#21262d}.rg-axis{stroke:#656c76}.rg-ref{stroke:#9198a1}"
    ".rg-whisker{stroke:#e6edf3}"
    ".rg-s0{stroke:#58a6ff}.rg-s1{stroke:#ff922b}.rg-s2{stroke:#3fb950}.rg-s3{stroke:#da77f2}"
    ".rg-s4{stroke:#f783ac}.rg-s5{stroke:#3bc9db}.rg-s6{stroke:#e3b341}.rg-s7{stroke:#a5adb8}"
    ".rg-f0{fill:#58a6ff}.rg-f1{fill:#ff922b}.rg-f2{fill:#3fb950}.rg-f3{fill:#da77f2}"
    ".rg-f4{fill:#f783ac}.rg-f5{fill:#3bc9db}.rg-f6{fill:#e3b341}.rg-f7{fill:#a5adb8}"
    ".rg-good{fill:#2ea043}.rg-neutral{fill:#656c76}.rg-worse{fill:#bd6a20}.rg-wrong{fill:#da3633}"
    ".rg-good-text{fill:#3fb950}.rg-neutral-text{fill:#9198a1}.rg-worse-text{fill:#f0883e}"
    ".rg-wrong-text{fill:#ff7b72}"
    "}</style>";

static void escape(rungi_string *out, const char *text)
{
    for (const char *c = text; *c; c++) {
        if (*c == '<')
            rungi_string_append(out, "&lt;", 4);
        else if (*c == '&')
            rungi_string_append(out, "&amp;", 5);
        else if (*c == '"')
            rungi_string_append(out, "&quot;", 6);
        else
            rungi_string_append(out, c, 1);
    }
}

// Valid UTF-8 without control characters, on the heap.
static char *clean(const char *text)
{
    size_t room = strlen(text) * 4 + 1;
    char *copy = malloc(room);
    if (copy)
        rungi_text_escape(text, copy, room);
    return copy;
}

void rungi_svg_tooltip(rungi_string *out, const char *text)
{
    char *whole = clean(text);
    rungi_string_add(out, "<title>");
    escape(out, whole ? whole : "");
    rungi_string_add(out, "</title>");
    free(whole);
}

void rungi_svg_begin(rungi_string *out, int width, int height, const char *title)
{
    rungi_string_add(out,
                     "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                     "width=\"%d\" height=\"%d\" role=\"img\" font-family=\"system-ui,"
                     "-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif\">",
                     width, height, width, height);
    if (title && *title)
        rungi_svg_tooltip(out, title);
    rungi_string_append(out, styles, sizeof styles - 1);
    rungi_string_add(out, "<rect class=\"rg-bg\" width=\"%d\" height=\"%d\"/>", width, height);
}

void rungi_svg_number(rungi_string *out, double value)
{
    if (!isfinite(value) || fabs(value) > 1e9)
        value = 0;
    long tenths = lround(value * 10);
    if (tenths % 10 == 0)
        rungi_string_add(out, "%ld", tenths / 10);
    else
        rungi_string_add(out, "%s%ld.%ld", tenths < 0 ? "-" : "", labs(tenths) / 10,
                         labs(tenths) % 10);
}

void rungi_svg_attribute(rungi_string *out, const char *name, double value)
{
    rungi_string_add(out, " %s=\"", name);
    rungi_svg_number(out, value);
    rungi_string_append(out, "\"", 1);
}

void rungi_svg_line(rungi_string *out, const char *classes, double x1, double y1, double x2,
                    double y2)
{
    rungi_string_add(out, "<line class=\"%s\"", classes);
    rungi_svg_attribute(out, "x1", x1);
    rungi_svg_attribute(out, "y1", y1);
    rungi_svg_attribute(out, "x2", x2);
    rungi_svg_attribute(out, "y2", y2);
    rungi_string_add(out, "/>");
}

// Advance widths of DejaVu Sans in 1/1000 of the size, rounded up; the widest font in common use.
static int advance(unsigned char c)
{
    static const unsigned short widths[96] = {
        // clang-format off
        318, 401, 460, 838, 637, 951, 780, 275, 391, 391, 500, 838, 318, 361, 318, 337, // space to /
        637, 637, 637, 637, 637, 637, 637, 637, 637, 637, 337, 337, 838, 838, 838, 531, // 0 to ?
        1000, 685, 687, 699, 771, 632, 576, 775, 752, 295, 295, 656, 558, 863, 749, 788, // @ to O
        604, 788, 695, 635, 611, 732, 685, 989, 686, 611, 686, 391, 337, 391, 838, 500, // P to _
        500, 613, 635, 550, 635, 616, 353, 635, 634, 278, 278, 580, 278, 975, 634, 612, // ` to o
        635, 635, 412, 521, 393, 634, 592, 818, 592, 592, 525, 637, 337, 637, 838, 600, // p to ~, other
        // clang-format on
    };
    return c >= 0x20 && c < 0x80 ? widths[c - 0x20] : 600;
}

// How much wider the bold face is on average.
static const double BOLD = 1.15;

// Length in bytes and width in 1/1000 of the character at `c` (valid UTF-8).
static int character(const char *c, int *width_out)
{
    unsigned char first = (unsigned char)*c;
    int length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    *width_out = length == 1 ? advance(first) : length == 2 ? 800 : 1050;
    return length;
}

static double clean_width(const char *text, double size)
{
    long total = 0;
    while (*text) {
        int width, length = character(text, &width);
        total += width;
        text += length;
    }
    return (double)total * size / 1000;
}

double rungi_svg_text_width(const char *text, double size)
{
    char *whole = clean(text);
    double width = whole ? clean_width(whole, size) : 0;
    free(whole);
    return width;
}

double rungi_svg_text(rungi_string *out, const char *classes, const char *anchor, double size,
                      double x, double y, double room, const char *text)
{
    char *whole = clean(text);
    if (!whole) {
        out->failed = true;
        return 0;
    }
    double bold = strstr(classes, "rg-title") ? BOLD : 1;
    double width = clean_width(whole, size) * bold;
    bool fits = width <= room;
    size_t keep = strlen(whole);
    if (!fits) {
        width = size; // of the ellipsis
        for (keep = 0; whole[keep];) {
            int w, length = character(whole + keep, &w);
            if (width + w * bold * size / 1000 > room)
                break;
            width += w * bold * size / 1000;
            keep += (size_t)length;
        }
    }
    rungi_string_add(out, "<text class=\"%s\" font-size=\"%d\"", classes, (int)size);
    if (strcmp(anchor, "start") != 0)
        rungi_string_add(out, " text-anchor=\"%s\"", anchor);
    rungi_svg_attribute(out, "x", x);
    rungi_svg_attribute(out, "y", y);
    rungi_string_add(out, ">");
    if (!fits) {
        rungi_string_add(out, "<title>");
        escape(out, whole);
        rungi_string_add(out, "</title>");
        whole[keep] = 0;
    }
    escape(out, whole);
    rungi_string_add(out, "%s</text>", fits ? "" : "\u2026");
    free(whole);
    return width;
}

double rungi_svg_place(const rungi_svg_axis *axis, double value)
{
    double part = axis->log
                      ? (log10(value) - log10(axis->low)) / (log10(axis->high) - log10(axis->low))
                      : (value - axis->low) / (axis->high - axis->low);
    return axis->from + part * (axis->to - axis->from);
}

void rungi_svg_format(char out[RUNGI_SVG_LABEL_MAX], double value, double step, double largest)
{
    static const char units[] = {0, 'k', 'M', 'G', 'T'};
    double size = fmax(fabs(largest), fabs(value));
    if (value == 0) {
        snprintf(out, RUNGI_SVG_LABEL_MAX, "0");
        return;
    }
    if (size >= 1e15 || size < 1e-4) {
        int digits = (int)fmax(0, floor(log10(fabs(value))) - floor(log10(step) + 1e-9));
        snprintf(out, RUNGI_SVG_LABEL_MAX, "%.*e", digits < 12 ? digits : 12, value);
        rungi_decimal_fix(out);
        // 2e-05 is 2e-5, 1e+20 is 1e20.
        char *e = strchr(out, 'e');
        int exponent = e ? atoi(e + 1) : 0;
        if (e)
            snprintf(e, RUNGI_SVG_LABEL_MAX - (size_t)(e - out), "e%d", exponent);
        return;
    }
    int unit = 0;
    if (size >= 10000)
        for (; unit < 4 && size >= 1000; unit++) {
            size /= 1000;
            value /= 1000;
            step /= 1000;
        }
    int decimals = (int)fmax(0, -floor(log10(step) + 1e-9));
    snprintf(out, RUNGI_SVG_LABEL_MAX, "%.*f", decimals < 12 ? decimals : 12, value);
    rungi_decimal_fix(out);
    size_t length = strlen(out);
    if (unit && length + 1 < RUNGI_SVG_LABEL_MAX) {
        out[length] = units[unit];
        out[length + 1] = 0;
    }
}

static void linear_ticks(rungi_svg_axis *axis, int wanted, bool integers)
{
    double span = axis->high - axis->low;
    double raw = span / (wanted > 1 ? wanted : 1), power = pow(10, floor(log10(raw)));
    double step = power;
    static const double factors[] = {1, 2, 5, 10};
    for (int i = 0; i < 4; i++) {
        step = power * factors[i];
        if (step >= raw * 0.999)
            break;
    }
    if (integers && step < 1)
        step = 1;
    double largest = fmax(fabs(axis->low), fabs(axis->high));
    double first = ceil(axis->low / step - 1e-6);
    axis->count = 0;
    for (int i = 0; i < RUNGI_SVG_TICKS_MAX; i++) {
        double value = (first + i) * step;
        if (value > axis->high + step * 1e-6)
            break;
        axis->tick[axis->count] = value;
        rungi_svg_format(axis->label[axis->count++], value, step, largest);
    }
}

// Ticks at factors (1; 1 and 3; 1, 2 and 5) of powers of ten. Returns their number; fills up to the
// most that fit.
static int log_ticks(rungi_svg_axis *axis, const double *factors, int factor_count, int power_step)
{
    int count = 0;
    int first = (int)floor(log10(axis->low)), last = (int)ceil(log10(axis->high));
    for (int p = first; p <= last; p++) {
        for (int f = 0; f < factor_count; f++) {
            double value = factors[f] * pow(10, p);
            if (p % power_step || value < axis->low * 0.9999 || value > axis->high * 1.0001)
                continue;
            if (count < RUNGI_SVG_TICKS_MAX) {
                axis->tick[count] = value;
                rungi_svg_format(axis->label[count], value, pow(10, p), value);
            }
            count++;
        }
    }
    axis->count = count < RUNGI_SVG_TICKS_MAX ? count : RUNGI_SVG_TICKS_MAX;
    return count;
}

void rungi_svg_ticks(rungi_svg_axis *axis, int wanted, bool integers)
{
    static const double factors[] = {1, 2, 5, 1, 3};
    if (!axis->log) {
        linear_ticks(axis, wanted, integers);
        return;
    }
    // The densest choice that is not too dense; a short range has nice numbers of a linear axis.
    if (log_ticks(axis, factors, 3, 1) <= wanted + 2 && axis->count >= 3)
        return;
    if (axis->count >= 3 && log_ticks(axis, factors + 3, 2, 1) <= wanted + 2 && axis->count >= 3)
        return;
    for (int step = 1; step < 400; step++)
        if (log_ticks(axis, factors, 1, step) <= wanted + 1)
            break;
    if (axis->count < 2)
        linear_ticks(axis, wanted, integers);
}

double rungi_svg_label_width(const rungi_svg_axis *axis, double size)
{
    double widest = 0;
    for (int i = 0; i < axis->count; i++)
        widest = fmax(widest, rungi_svg_text_width(axis->label[i], size));
    return widest;
}
