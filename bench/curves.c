// SPDX-License-Identifier: Apache-2.0
// Draws curves: curves TITLE X_LABEL Y_LABEL <points >drawing.svg
//
// Each line of points is "NAME<tab>X<tab>Y"; successive lines of one name are a curve, in which a Y
// of nan leaves a gap.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "formats/svg_chart.h"

enum { LINE = 256, SERIES = 8 };

typedef struct points {
    char name[LINE];
    RUNGI_ARRAY(double) x;
    RUNGI_ARRAY(double) y;
} points;

// Reads one line into the last of the curves, or a new one; false at the end or when it is wrong.
static bool read_point(FILE *file, points *curves, size_t *count)
{
    char line[LINE], *end;
    if (!fgets(line, sizeof line, file))
        return false;
    char *x = strchr(line, '\t'), *y = x ? strchr(x + 1, '\t') : NULL;
    if (!y)
        return false;
    *x = *y = '\0';
    if (*count == 0 || strcmp(curves[*count - 1].name, line) != 0) {
        if (*count == SERIES)
            return false;
        strcpy(curves[(*count)++].name, line);
    }
    points *to = &curves[*count - 1];
    return rungi_array_push(&to->x, strtod(x + 1, &end)) &&
           rungi_array_push(&to->y, strtod(y + 1, &end));
}

int main(int argc, char **argv)
{
    static points curves[SERIES];
    rungi_svg_series series[SERIES];
    rungi_string svg = {0};
    size_t count = 0;
    if (argc != 4)
        return 2;
    while (read_point(stdin, curves, &count))
        ;
    for (size_t i = 0; i < count; i++)
        series[i] = (rungi_svg_series){.name = curves[i].name,
                                       .x = curves[i].x.data,
                                       .y = curves[i].y.data,
                                       .count = curves[i].y.count};
    bool done = feof(stdin) &&
                rungi_svg_line_chart(&(rungi_svg_lines){.title = argv[1],
                                                        .x_label = argv[2],
                                                        .y_label = argv[3],
                                                        .series = series,
                                                        .count = count},
                                     &svg) == RUNG_OK &&
                fwrite(svg.data, 1, svg.size, stdout) == svg.size && fflush(stdout) == 0;
    rungi_string_fini(&svg);
    for (size_t i = 0; i < count; i++) {
        rungi_array_fini(&curves[i].x);
        rungi_array_fini(&curves[i].y);
    }
    return done ? 0 : 1;
}
