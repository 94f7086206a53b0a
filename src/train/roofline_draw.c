// SPDX-License-Identifier: Apache-2.0
// The picture of a roofline.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "formats/svg_chart.h"
#include "rung/roofline.h"

rung_status rung_roofline_draw(const rung_roofline *r, char **svg_out)
{
    char title[160];
    rungi_string out = {0};
    rungi_svg_point *points = calloc((size_t)r->count + 1, sizeof *points);
    char(*labels)[128] = calloc((size_t)r->count + 1, sizeof *labels);
    rung_status status = RUNG_OK;
    if (!points || !labels)
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a drawing");
    for (int64_t i = 0; i < r->count && status == RUNG_OK; i++) {
        const rung_roofline_row *row = &r->rows[i];
        snprintf(labels[i], sizeof labels[i], "%s%s%s%s%s",
                 r->device_count > 1 ? r->devices[row->device].name : "",
                 r->device_count > 1 ? " " : "", row->layer, row->layer[0] ? " " : "",
                 row->layer[0] ? row->pass : row->op);
        points[i] = (rungi_svg_point){.label = labels[i],
                                      .group = row->op,
                                      .flops = row->flops,
                                      .bytes = row->bytes,
                                      .seconds = row->seconds};
    }
    snprintf(title, sizeof title, "%s, batch %lld: a training step of %.4g ms", r->model,
             (long long)r->batch, r->step_seconds * 1e3);
    if (r->device_count > 1) {
        size_t used = strlen(title);
        snprintf(title + used, sizeof title - used, " on %d devices at once", r->device_count);
    }
    int top = r->machine.threads > 1;
    rungi_svg_roofline chart = {.title = title,
                                .flops = r->machine.flops[top],
                                .bytes = r->machine.bytes[top],
                                .flops_one = r->machine.flops[0],
                                .bytes_one = r->machine.bytes[0],
                                .threads = r->machine.threads,
                                .total = r->step_seconds * r->device_count,
                                .points = points,
                                .count = (size_t)r->count};
    if (status == RUNG_OK)
        status = rungi_svg_roofline_chart(&chart, &out);
    free(points);
    free(labels);
    if (status == RUNG_OK)
        *svg_out = out.data;
    else
        rungi_string_fini(&out);
    return status;
}
