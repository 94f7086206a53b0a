// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdio.h>

#include "base/checked.h"
#include "base/error.h"
#include "rung/tensor.h"

bool rung_shape_equal(const rung_shape *a, const rung_shape *b)
{
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

rung_status rung_shape_count(const rung_shape *shape, int64_t *count_out)
{
    int64_t count = 1;
    bool zero = false;
    for (int i = 0; i < shape->rank; i++) {
        char text[RUNG_SHAPE_TEXT];
        RUNG_CHECK(shape->dim[i] >= 0, RUNG_INVALID, "shape %s has a negative dimension",
                   rung_shape_text(shape, text, sizeof text));
        if (shape->dim[i] == 0)
            zero = true;
        else
            RUNG_CHECK(rungi_i64_mul(count, shape->dim[i], &count), RUNG_INVALID,
                       "shape %s has more elements than can be counted",
                       rung_shape_text(shape, text, sizeof text));
    }
    *count_out = zero ? 0 : count;
    return RUNG_OK;
}

char *rung_shape_text(const rung_shape *shape, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "[");
    for (int i = 0; i < shape->rank && n < size; i++) {
        const char *comma = i ? ", " : "";
        if (shape->dim[i] == RUNG_BATCH)
            n += (size_t)snprintf(out + n, size - n, "%sN", comma);
        else
            n += (size_t)snprintf(out + n, size - n, "%s%" PRId64, comma, shape->dim[i]);
    }
    if (n < size)
        snprintf(out + n, size - n, "]");
    return out;
}
