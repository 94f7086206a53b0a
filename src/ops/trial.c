// SPDX-License-Identifier: Apache-2.0
#include "ops/trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/error.h"
#include "base/philox.h"
#include "ops/element.h"
#include "ops/threads.h"

enum { GUARD = 64, PATTERN = 0xA5 };

// ---- memory -----------------------------------------------------------------------------------

static int add_block(rungi_trial *t, const rungi_operand *o)
{
    size_t bytes = rungi_operand_bytes(o);
    size_t size = (bytes + 2 * GUARD + 63) / 64 * 64;
    char *block = aligned_alloc(64, size);
    if (!block)
        return -1;
    memset(block, PATTERN, size);
    t->blocks[t->n_ptr] = block;
    t->ptr[t->n_ptr] = block + GUARD;
    return t->n_ptr++;
}

static bool place(rungi_trial *t, rungi_operand *o)
{
    o->buffer = add_block(t, o);
    return o->buffer >= 0;
}

static bool guard_intact(const char *block, size_t bytes)
{
    for (int i = 0; i < GUARD; i++)
        if ((unsigned char)block[i] != PATTERN ||
            (unsigned char)block[GUARD + bytes + i] != PATTERN)
            return false;
    return true;
}

static bool guards_of(const rungi_trial *t, const rungi_operand *list, int n)
{
    for (int i = 0; i < n; i++)
        if (list[i].buffer >= 0 &&
            !guard_intact(t->blocks[list[i].buffer], rungi_operand_bytes(&list[i])))
            return false;
    return true;
}

bool rungi_trial_guards(const rungi_trial *t)
{
    return guards_of(t, t->in, t->n_in) && guards_of(t, t->out, t->n_out) &&
           guards_of(t, t->gout, t->op->n_out) && guards_of(t, t->gin, t->n_in);
}

// ---- elements ---------------------------------------------------------------------------------

static int64_t place_of(const rungi_operand *o, int64_t i)
{
    if (o->layout == RUNGI_PLAIN)
        return i;
    const int64_t *d = o->shape.dim;
    rungi_strides s = rungi_strides_of(o->layout, &o->shape);
    return rungi_at(&s, i / (d[1] * d[2] * d[3]), i / (d[2] * d[3]) % d[1], i / d[3] % d[2],
                    i % d[3]);
}

double rungi_trial_get(const rungi_trial *t, const rungi_operand *o, int64_t i)
{
    return rungi_get(o->dtype, t->ptr[o->buffer], place_of(o, i));
}

void rungi_trial_set(const rungi_trial *t, const rungi_operand *o, int64_t i, double value)
{
    rungi_set(o->dtype, t->ptr[o->buffer], place_of(o, i), value);
}

static double fill_value(rungi_fill fill, int limit, const rungi_random *random, int64_t i,
                         int64_t count)
{
    double unit = rungi_unit_f64(rungi_random_u64(random, (uint64_t)i));
    double normal = rungi_random_normal(random, (uint64_t)i);
    switch (fill) {
    case RUNGI_FILL_POSITIVE:
        return 0.5 + unit;
    case RUNGI_FILL_UNIT:
        return unit;
    case RUNGI_FILL_AWAY:
        return normal + (normal < 0 ? -0.1 : 0.1);
    case RUNGI_FILL_DISTINCT: {
        // i * step mod count runs through all values when step and count share no factor.
        int64_t step = count / 2 + 1;
        while (step > 1) {
            int64_t a = step, b = count;
            while (b) {
                int64_t r = a % b;
                a = b;
                b = r;
            }
            if (a == 1)
                break;
            step++;
        }
        return (double)((i * (step % count)) % count) / (double)count * 4 - 2;
    }
    case RUNGI_FILL_LABELS:
    case RUNGI_FILL_IGNORED:
        if (fill == RUNGI_FILL_IGNORED && i % 3 == 1)
            return -100;
        return floor(unit * limit);
    default:
        return normal;
    }
}

static void fill(const rungi_trial *t, const rungi_operand *o, rungi_fill how, int limit, int id)
{
    rungi_random random = rungi_random_make(1, RUNGI_PURPOSE_TEST, (uint64_t)id, 0, 0);
    int64_t count = rungi_operand_count(o);
    for (int64_t i = 0; i < count; i++)
        rungi_trial_set(t, o, i, (float)fill_value(how, limit, &random, i, count));
}

// ---- set-up -----------------------------------------------------------------------------------

static rungi_layout layout_for(const rungi_trial *t, int input, const rung_shape *shape)
{
    bool takes = t->op->layouts == RUNGI_LAYOUTS_SAME || t->op->layouts == RUNGI_LAYOUTS_EACH ||
                 (t->op->layouts == RUNGI_LAYOUTS_IMAGE && input <= 0);
    return takes && shape->rank == 4 ? t->layout : RUNGI_PLAIN;
}

static rung_status init_inputs(rungi_trial *t)
{
    for (int i = 0; i < t->n_in; i++) {
        const rungi_case_input *in = &t->which->in[i];
        rungi_operand *o = &t->in[i];
        *o = (rungi_operand){.dtype = in->dtype, .shape = in->shape, .buffer = -1};
        if (in->dtype == RUNG_F32)
            o->dtype = t->dtype;
        if (in->shape.rank < 0)
            continue;
        o->layout = layout_for(t, i, &in->shape);
        RUNG_CHECK(place(t, o), RUNG_NO_MEMORY, "no memory for a case");
        fill(t, o, in->fill, in->limit, i);
    }
    return RUNG_OK;
}

static rung_status init_outputs(rungi_trial *t)
{
    rungi_type in[RUNGI_CASE_INPUTS], out[RUNGI_TRIAL_OUTPUTS];
    for (int i = 0; i < t->n_in; i++)
        in[i] = (rungi_type){t->in[i].dtype, t->in[i].shape};
    RUNG_TRY(t->op->infer(&(rungi_infer){t->which->attr, in, t->n_in, out}));
    t->n_out = t->op->n_out + t->op->n_hidden;
    for (int i = 0; i < t->n_out; i++) {
        rungi_operand *o = &t->out[i];
        *o = (rungi_operand){.dtype = out[i].dtype, .shape = out[i].shape};
        o->layout = layout_for(t, -1, &out[i].shape);
        RUNG_CHECK(place(t, o), RUNG_NO_MEMORY, "no memory for a case");
        if (i >= t->op->n_out)
            continue;
        t->gout[i] = *o;
        t->gout[i].buffer = -1;
        if (!rung_dtype_is_float(o->dtype))
            continue;
        RUNG_CHECK(place(t, &t->gout[i]), RUNG_NO_MEMORY, "no memory for a case");
        fill(t, &t->gout[i], RUNGI_FILL_NORMAL, 0, 100 + i);
    }
    return RUNG_OK;
}

static rung_status init_gradients(rungi_trial *t)
{
    for (int i = 0; i < t->n_in; i++) {
        t->gin[i] = t->in[i];
        if (t->in[i].buffer >= 0 && rung_dtype_is_float(t->in[i].dtype))
            RUNG_CHECK(place(t, &t->gin[i]), RUNG_NO_MEMORY, "no memory for a case");
        else
            t->gin[i].buffer = -1;
    }
    return RUNG_OK;
}

rung_status rungi_trial_init(rungi_trial *t, const rungi_op *op, const rungi_case *which,
                             rung_dtype dtype, rungi_layout layout, int threads)
{
    *t = (rungi_trial){.op = op,
                       .which = which,
                       .dtype = dtype,
                       .layout = layout,
                       .threads = threads,
                       .n_in = which->n_in,
                       .rt = {.seed = 1, .step = 3, .sample_offset = 5}};
    t->rt.samples = which->in[0].shape.rank > 0 ? which->in[0].shape.dim[0] : 1;
    rung_status status = init_inputs(t);
    if (status == RUNG_OK)
        status = init_outputs(t);
    if (status == RUNG_OK)
        status = init_gradients(t);
    if (status != RUNG_OK) {
        rungi_trial_fini(t);
        return rungi_fail_prefix("%s, case '%s'", op->name, which->name);
    }
    return RUNG_OK;
}

void rungi_trial_fini(rungi_trial *t)
{
    for (int i = 0; i < t->n_ptr; i++)
        free(t->blocks[i]);
    t->n_ptr = 0;
}

// ---- running ----------------------------------------------------------------------------------

rungi_query rungi_trial_query(const rungi_trial *t, int pass, uint32_t wanted,
                              rungi_operand gin[RUNGI_CASE_INPUTS])
{
    rungi_query q = {.op = t->op,
                     .attr = t->which->attr,
                     .pass = pass,
                     .in = t->in,
                     .out = t->out,
                     .n_in = t->n_in,
                     .n_out = t->n_out,
                     .training = !t->which->evaluation,
                     .gradients = true,
                     .threads = t->threads,
                     .isa = rungi_cpu_isa(),
                     .winograd = true};
    if (pass == RUNGI_FORWARD)
        return q;
    for (int i = 0; i < t->n_in; i++) {
        gin[i] = t->gin[i];
        if (!(t->op->backward[pass].gives & wanted & rungi_bit(i)))
            gin[i].buffer = -1;
    }
    q.gout = t->gout;
    q.gin = gin;
    return q;
}

// A kernel made ready for a query.
typedef struct prepared {
    const rungi_kernel *kernel;
    rungi_setup setup;
    rungi_call call;
} prepared;

static void finish(prepared *p)
{
    if (p->kernel->destroy)
        p->kernel->destroy(p->setup.state);
    free(p->call.workspace);
}

static rung_status prepare(const rungi_trial *t, const rungi_query *q, const rungi_kernel *kernel,
                           prepared *p)
{
    *p = (prepared){.kernel = kernel};
    rungi_threads_use(t->threads);
    if (kernel->create)
        RUNG_TRY(kernel->create(q, &p->setup));
    p->call = (rungi_call){q, p->setup.state, t->ptr, NULL, &t->rt};
    if (p->setup.workspace) {
        p->call.workspace = aligned_alloc(64, (p->setup.workspace + 63) / 64 * 64);
        if (!p->call.workspace) {
            finish(p);
            return RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a case");
        }
    }
    return RUNG_OK;
}

rung_status rungi_trial_run(const rungi_trial *t, const rungi_query *q, const rungi_kernel *kernel,
                            int times)
{
    prepared p;
    RUNG_TRY(prepare(t, q, kernel, &p));
    rung_status status = RUNG_OK;
    for (int i = 0; i < times && status == RUNG_OK; i++)
        status = kernel->run(&p.call);
    finish(&p);
    return status;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Runs for about `seconds` in all, in up to SAMPLES groups of equally many runs.
static rung_status time_runs(const prepared *p, rung_context *context, double seconds,
                             double *seconds_out)
{
    enum { SAMPLES = 9, LEAST = 3, MOST = 1 << 24 };
    double samples[SAMPLES], spent = 0;
    int64_t group = 1;
    int count = 0;
    while (count < SAMPLES && (count < LEAST || spent < seconds)) {
        int64_t begin = rungi_now(context);
        for (int64_t i = 0; i < group; i++)
            RUNG_TRY(p->kernel->run(&p->call));
        double took = (double)(rungi_now(context) - begin) * 1e-9;
        spent += took;
        // A group that is too short to be timed: longer ones, and begin anew.
        if (took < seconds / (4 * SAMPLES) && group < MOST) {
            group *= took * 4 < seconds / SAMPLES / 4 ? 4 : 2;
            count = 0;
            continue;
        }
        samples[count++] = took / (double)group;
    }
    qsort(samples, (size_t)count, sizeof *samples, by_size);
    *seconds_out = samples[count / 2];
    return RUNG_OK;
}

rung_status rungi_trial_time(const rungi_trial *t, const rungi_query *q, const rungi_kernel *kernel,
                             rung_context *context, double seconds, double *seconds_out)
{
    prepared p;
    RUNG_TRY(prepare(t, q, kernel, &p));
    int64_t begin = rungi_now(context);
    rung_status status = kernel->run(&p.call);
    double first = (double)(rungi_now(context) - begin) * 1e-9;
    if (status == RUNG_OK && first > 4 * seconds)
        *seconds_out = first;
    else if (status == RUNG_OK)
        status = time_runs(&p, context, seconds, seconds_out);
    finish(&p);
    return status;
}

// ---- layouts ----------------------------------------------------------------------------------

bool rungi_trial_fits(const rungi_op *op, const rungi_case *c, rungi_layout layout)
{
    if (layout == RUNGI_PLAIN)
        return true;
    if (op->layouts == RUNGI_LAYOUTS_PLAIN || c->in[0].shape.rank != 4)
        return false;
    int block = layout == RUNGI_BLOCKED8 ? 8 : layout == RUNGI_BLOCKED16 ? 16 : 1;
    rungi_type in[RUNGI_CASE_INPUTS], out[RUNGI_TRIAL_OUTPUTS];
    for (int i = 0; i < c->n_in; i++) {
        bool image = i == 0 || op->layouts != RUNGI_LAYOUTS_IMAGE;
        if (image && (c->in[i].shape.rank != 4 || c->in[i].shape.dim[1] % block))
            return false;
        if (op->layouts == RUNGI_LAYOUTS_SAME &&
            !rung_shape_equal(&c->in[i].shape, &c->in[0].shape))
            return false;
        in[i] = (rungi_type){c->in[i].dtype, c->in[i].shape};
    }
    // The output's channels must divide too.
    return op->infer(&(rungi_infer){c->attr, in, c->n_in, out}) == RUNG_OK &&
           (out[0].shape.rank != 4 || out[0].shape.dim[1] % block == 0);
}
