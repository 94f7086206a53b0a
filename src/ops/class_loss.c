// SPDX-License-Identifier: Apache-2.0
#include "ops/class_loss.h"

#include <inttypes.h>
#include <math.h>

#include "base/error.h"
#include "ops/element.h"

// Are these the scores' dimensions without that of the classes?
static bool labels_fit(const rung_shape *x, const rung_shape *y)
{
    bool fits = x->rank >= 2 && y->rank == x->rank - 1;
    for (int d = 0; fits && d < y->rank; d++)
        fits = y->dim[d] == x->dim[d < 1 ? d : d + 1];
    return fits;
}

rung_status rungi_class_loss_infer(rungi_infer *i)
{
    const rungi_class_loss_attr *a = i->attr;
    const rung_shape *x = &i->in[0].shape, *y = &i->in[1].shape;
    char xt[RUNG_SHAPE_TEXT], yt[RUNG_SHAPE_TEXT];
    rung_shape_text(x, xt, sizeof xt);
    rung_shape_text(y, yt, sizeof yt);
    RUNG_CHECK(rung_dtype_is_float(i->in[0].dtype), RUNG_MISMATCH, "scores must be floats, not %s",
               rung_dtype_name(i->in[0].dtype));
    RUNG_CHECK(labels_fit(x, y), RUNG_MISMATCH,
               "takes scores [N, C] or [N, C, ...] and labels [N] or [N, ...]; got %s and %s", xt,
               yt);
    RUNG_CHECK(i->in[1].dtype == RUNG_I64 || i->in[1].dtype == RUNG_I32, RUNG_MISMATCH,
               "labels must be i64 or i32, not %s", rung_dtype_name(i->in[1].dtype));
    RUNG_CHECK(i->n_in < 3 || i->in[2].shape.rank < 0 ||
                   (i->in[2].shape.rank == 1 && i->in[2].shape.dim[0] == x->dim[1]),
               RUNG_MISMATCH, "the class weights do not fit the scores %s", xt);
    RUNG_CHECK(a->label_smoothing >= 0 && a->label_smoothing <= 1, RUNG_INVALID,
               "label_smoothing is %g; it must be in [0, 1]", a->label_smoothing);
    i->out[0] = (rungi_type){i->in[0].dtype, RUNG_SCALAR};
    return RUNG_OK;
}

void rungi_class_loss_describe(const void *attr, rungi_string *out)
{
    const rungi_class_loss_attr *a = attr;
    rungi_string_add(out, a->sum ? "sum" : "mean");
    if (a->label_smoothing > 0)
        rungi_string_add(out, ", label smoothing %g", a->label_smoothing);
}

const void *rungi_class_loss_weights(const rungi_query *q, void *const *ptr)
{
    return q->n_in > 2 && q->in[2].buffer >= 0 ? ptr[q->in[2].buffer] : NULL;
}

double rungi_class_weight(const rungi_query *q, const void *weights, int64_t class_index)
{
    return weights ? rungi_get(q->in[2].dtype, weights, class_index) : 1;
}

double rungi_class_loss_normalizer(const rungi_query *q, void *const *ptr)
{
    const rungi_class_loss_attr *a = q->attr;
    if (a->sum)
        return 0;
    const void *labels = ptr[q->in[1].buffer], *weights = rungi_class_loss_weights(q, ptr);
    int64_t rows = rungi_class_loss_row_count(q), classes = q->in[0].shape.dim[1];
    double total = 0;
    for (int64_t n = 0; n < rows; n++) {
        int64_t label = rungi_get_index(q->in[1].dtype, labels, n);
        if (label != a->ignore_index && label >= 0 && label < classes)
            total += rungi_class_weight(q, weights, label);
    }
    return total;
}

double rungi_class_loss_divisor(const rungi_call *c)
{
    const rungi_class_loss_attr *a = c->q->attr;
    double total = 1;
    if (!a->sum)
        total = c->rt && c->rt->normalizer ? c->rt->normalizer[c->q->node]
                                           : rungi_class_loss_normalizer(c->q, c->ptr);
    return total > 0 ? total : INFINITY;
}

int64_t rungi_class_loss_label(const rungi_call *c, int64_t row, bool *counts_out)
{
    const rungi_query *q = c->q;
    int64_t label = rungi_get_index(q->in[1].dtype, rungi_ptr(c, &q->in[1]), row);
    *counts_out = label != ((const rungi_class_loss_attr *)q->attr)->ignore_index;
    return label;
}

rung_status rungi_class_loss_check(const rungi_call *c)
{
    int64_t rows = rungi_class_loss_row_count(c->q), classes = c->q->in[0].shape.dim[1];
    int64_t samples = c->q->in[0].shape.dim[0];
    for (int64_t n = 0; n < rows; n++) {
        bool counts;
        int64_t label = rungi_class_loss_label(c, n, &counts);
        RUNG_CHECK(!counts || (label >= 0 && label < classes), RUNG_DATA,
                   "label %" PRId64 " of sample %" PRId64
                   " in the batch is out of range for %" PRId64 " classes",
                   label, (c->rt ? c->rt->sample_offset : 0) + n / (rows / samples), classes);
    }
    return RUNG_OK;
}
