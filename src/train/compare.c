// SPDX-License-Identifier: Apache-2.0
#include "rung/compare.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/json.h"
#include "formats/checkpoint_folder.h"
#include "train/run_metrics.h"

typedef struct work {
    rungi_checkpoint *sides[2];
    RUNGI_ARRAY(rung_difference) found;
    int64_t tensors;
} work;

static void difference_fini(rung_difference *d)
{
    free(d->name);
    free(d->what);
}

// Adds a difference; takes `what`, which may be NULL.
static rung_status add(work *w, rung_difference d, const char *name, char *what)
{
    d.name = rungi_text_copy(name);
    d.what = what;
    if (d.name && rungi_array_push(&w->found, d))
        return RUNG_OK;
    difference_fini(&d);
    return RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a comparison");
}

static rung_status add_text(work *w, const char *name, char *what)
{
    RUNG_CHECK(what, RUNG_NO_MEMORY, "no memory for a comparison");
    return add(w, (rung_difference){0}, name, what);
}

// ---- values -----------------------------------------------------------------------------------

static rung_status read_doubles(rung_safetensors *file, const rung_safetensors_tensor *tensor,
                                int64_t count, double **out)
{
    double *values = malloc((size_t)(count + 1) * sizeof *values);
    RUNG_CHECK(values, RUNG_NO_MEMORY, "no memory to compare %s", tensor->name);
    rung_status status = rung_safetensors_read(file, tensor, RUNG_F64, values, NULL);
    if (status != RUNG_OK)
        free(values);
    else
        *out = values;
    return status;
}

static double largest_gap(const double *a, const double *b, int64_t count)
{
    double largest = 0;
    for (int64_t i = 0; i < count; i++) {
        double gap = fabs(a[i] - b[i]);
        if (isnan(gap)) // infinite or not a number in one of them; equal infinities have no gap
            gap = a[i] == b[i] || (isnan(a[i]) && isnan(b[i])) ? 0 : INFINITY;
        largest = gap > largest ? gap : largest;
    }
    return largest;
}

static rung_status read_bits(rung_safetensors *file, const rung_safetensors_tensor *tensor,
                             unsigned char **out)
{
    unsigned char *bits = malloc(tensor->bytes + 1);
    RUNG_CHECK(bits, RUNG_NO_MEMORY, "no memory to compare %s", tensor->name);
    rung_status status = rung_safetensors_read(file, tensor, tensor->dtype, bits, NULL);
    if (status != RUNG_OK)
        free(bits);
    else
        *out = bits;
    return status;
}

static rung_status compare_values(work *w, rung_safetensors *const files[2],
                                  const rung_safetensors_tensor *const tensors[2])
{
    unsigned char *bits[2] = {0};
    double *values[2] = {0};
    rung_status status = RUNG_OK;
    size_t size = rung_dtype_size(tensors[0]->dtype);
    rung_difference d = {.count = (int64_t)(tensors[0]->bytes / size)};
    for (int i = 0; i < 2; i++)
        RUNG_TRY_GOTO(done, read_bits(files[i], tensors[i], &bits[i]));
    for (int64_t i = 0; i < d.count; i++)
        d.differing += memcmp(bits[0] + (size_t)i * size, bits[1] + (size_t)i * size, size) != 0;
    if (!d.differing)
        goto done;
    for (int i = 0; i < 2; i++)
        RUNG_TRY_GOTO(done, read_doubles(files[i], tensors[i], d.count, &values[i]));
    d.max_abs = largest_gap(values[0], values[1], d.count);
    status = add(w, d, tensors[0]->name, NULL);
done:
    for (int i = 0; i < 2; i++) {
        free(bits[i]);
        free(values[i]);
    }
    return status;
}

// ---- files ------------------------------------------------------------------------------------

static rung_shape shape_of(const rung_safetensors_tensor *tensor)
{
    rung_shape shape = {.rank = tensor->rank};
    memcpy(shape.dim, tensor->dim, (size_t)tensor->rank * sizeof *tensor->dim);
    return shape;
}

static rung_status compare_tensor(work *w, rung_safetensors *const files[2],
                                  const rung_safetensors_tensor *const tensors[2])
{
    w->tensors++;
    const rung_safetensors_tensor *a = tensors[0], *b = tensors[1];
    if (!b)
        return add_text(w, a->name, rungi_text_copy("only in A"));
    for (int i = 0; i < 2; i++)
        RUNG_CHECK(tensors[i]->rank <= RUNG_MAX_RANK && tensors[i]->dtype != RUNG_DTYPE_COUNT,
                   RUNG_UNSUPPORTED, "%s: %s has a type or rank that rung lacks",
                   rungi_checkpoint_path(w->sides[i]), tensors[i]->name);
    rung_shape shapes[2] = {shape_of(a), shape_of(b)};
    char texts[2][RUNG_SHAPE_TEXT];
    if (a->dtype != b->dtype)
        return add_text(w, a->name, rungi_text_format("type %s and %s", a->type, b->type));
    if (!rung_shape_equal(&shapes[0], &shapes[1]))
        return add_text(w, a->name,
                        rungi_text_format("shape %s and %s",
                                          rung_shape_text(&shapes[0], texts[0], 160),
                                          rung_shape_text(&shapes[1], texts[1], 160)));
    return compare_values(w, files, tensors);
}

// Tensors of one file of both checkpoints, in the order of A's; a file that is missing has none.
static rung_status compare_file(work *w, const char *name)
{
    rung_safetensors *files[2];
    for (int i = 0; i < 2; i++)
        files[i] = rungi_checkpoint_tensors(w->sides[i], name);
    for (size_t k = 0; files[0] && k < rung_safetensors_count(files[0]); k++) {
        const rung_safetensors_tensor *a = rung_safetensors_get(files[0], k);
        const rung_safetensors_tensor *pair[2] = {
            a, files[1] ? rung_safetensors_find(files[1], a->name) : NULL};
        RUNG_TRY(compare_tensor(w, files, pair));
    }
    for (size_t k = 0; files[1] && k < rung_safetensors_count(files[1]); k++) {
        const char *tensor = rung_safetensors_get(files[1], k)->name;
        if (files[0] && rung_safetensors_find(files[0], tensor))
            continue;
        w->tensors++;
        RUNG_TRY(add_text(w, tensor, rungi_text_copy("only in B")));
    }
    return RUNG_OK;
}

// How often the optimizer has updated each parameter: Adam's bias correction depends on it.
static rung_status compare_steps(work *w)
{
    json_t *steps[2], *value;
    const char *name;
    for (int i = 0; i < 2; i++)
        steps[i] = json_object_get(rungi_checkpoint_state(w->sides[i]), "optimizer_steps");
    json_object_foreach(steps[0], name, value)
    {
        const json_t *other = json_object_get(steps[1], name);
        w->tensors++;
        if (other && json_equal(value, other))
            continue;
        char *full = rungi_text_format("%s.step", name);
        RUNG_CHECK(full, RUNG_NO_MEMORY, "no memory for a comparison");
        char *what = other ? rungi_text_format("%lld and %lld", json_integer_value(value),
                                               json_integer_value(other))
                           : rungi_text_copy("only in A");
        rung_status status = add_text(w, full, what);
        free(full);
        RUNG_TRY(status);
    }
    return RUNG_OK;
}

// ---- sides ------------------------------------------------------------------------------------

static rung_status open_side(const char *path, rungi_checkpoint **checkpoint_out,
                             rung_compared *side)
{
    char *config = rungi_path_join(path, "config.yaml");
    char *latest = rungi_path_join(path, "checkpoints/" RUNGI_CHECKPOINT_LATEST);
    rung_status status;
    if (!config || !latest) {
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a path");
        goto done;
    }
    bool run = rungi_fs_exists(config);
    RUNG_TRY_GOTO(done, rungi_checkpoint_open(run ? latest : path, true, checkpoint_out));
    side->checkpoint = rungi_text_copy(rungi_checkpoint_path(*checkpoint_out));
    if (!side->checkpoint) {
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a path");
        goto done;
    }
    RUNG_TRY_GOTO(done, rungi_json_i64(rungi_checkpoint_state(*checkpoint_out), side->checkpoint,
                                       "step", 0, INT64_MAX, &side->step));
    if (run)
        status = rungi_run_metrics(path, side);
done:
    free(config);
    free(latest);
    return status;
}

rung_status rung_compare(const char *a, const char *b, rung_comparison *comparison_out)
{
    work w = {0};
    rung_comparison c = {0};
    rung_status status;
    RUNG_TRY_GOTO(done, open_side(a, &w.sides[0], &c.sides[0]));
    RUNG_TRY_GOTO(done, open_side(b, &w.sides[1], &c.sides[1]));
    RUNG_TRY_GOTO(done, compare_file(&w, RUNGI_CHECKPOINT_MODEL));
    RUNG_TRY_GOTO(done, compare_file(&w, RUNGI_CHECKPOINT_OPTIMIZER));
    RUNG_TRY_GOTO(done, compare_steps(&w));
done:
    c.tensors = w.tensors;
    c.differences = w.found.data;
    c.count = (int64_t)w.found.count;
    for (int i = 0; i < 2; i++)
        rungi_checkpoint_close(&w.sides[i]);
    if (status == RUNG_OK)
        *comparison_out = c;
    else
        rung_comparison_fini(&c);
    return status;
}

void rung_comparison_fini(rung_comparison *c)
{
    for (int64_t i = 0; i < c->count; i++)
        difference_fini(&c->differences[i]);
    free(c->differences);
    for (int i = 0; i < 2; i++)
        free(c->sides[i].checkpoint);
    *c = (rung_comparison){0};
}
