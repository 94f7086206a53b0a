// SPDX-License-Identifier: Apache-2.0
#include "ops/onednn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/onednn_inside.h"

static dnnl_data_type_t data_type(rung_dtype dtype)
{
    switch (dtype) {
    case RUNG_F16:
        return dnnl_f16;
    case RUNG_BF16:
        return dnnl_bf16;
    case RUNG_I32:
        return dnnl_s32;
    case RUNG_U8:
        return dnnl_u8;
    default:
        return dnnl_f32;
    }
}

static bool only_bf16(const rungi_operand *list, int n)
{
    for (int i = 0; list && i < n; i++)
        if (list[i].buffer >= 0 && list[i].dtype != RUNG_F32 && list[i].dtype != RUNG_BF16)
            return false;
    return true;
}

bool rungi_dnn_takes(const rungi_query *q, rungi_reason *why)
{
    if (!rungi_query_has_halves(q))
        return rungi_f32_only(q, why);
    bool good = q->native && only_bf16(q->in, q->n_in) && only_bf16(q->out, q->n_out) &&
                only_bf16(q->gout, q->op->n_out) && only_bf16(q->gin, q->n_in);
    return good || rungi_refuse(why, "no instructions for these 16 bits");
}

const char *rungi_dnn_version(char *out, size_t size)
{
    const dnnl_version_t *v = dnnl_version();
    snprintf(out, size, "%d.%d.%d", v->major, v->minor, v->patch);
    return out;
}

rung_status rungi_md_make(int rank, const int64_t *dims, const int64_t *strides, rung_dtype dtype,
                          rungi_md *md_out)
{
    dnnl_dims_t d, s;
    for (int i = 0; i < rank; i++) {
        d[i] = dims[i];
        s[i] = strides ? strides[i] : 0;
    }
    dnnl_data_type_t type = data_type(dtype);
#if DNNL_VERSION_MAJOR >= 3
    if (strides)
        RUNGI_DNN_TRY(dnnl_memory_desc_create_with_strides(md_out, rank, d, type, s));
    else
        RUNGI_DNN_TRY(dnnl_memory_desc_create_with_tag(md_out, rank, d, type, dnnl_format_tag_any));
#else
    if (strides)
        RUNGI_DNN_TRY(dnnl_memory_desc_init_by_strides(md_out, rank, d, type, s));
    else
        RUNGI_DNN_TRY(dnnl_memory_desc_init_by_tag(md_out, rank, d, type, dnnl_format_tag_any));
#endif
    return RUNG_OK;
}

void rungi_md_free(rungi_md *md)
{
#if DNNL_VERSION_MAJOR >= 3
    if (*md)
        dnnl_memory_desc_destroy(*md);
    *md = NULL;
#else
    (void)md;
#endif
}

static rung_status blocked_md(const rungi_operand *o, rungi_md *md_out)
{
    dnnl_dims_t dims;
    for (int i = 0; i < 4; i++)
        dims[i] = o->shape.dim[i];
    dnnl_format_tag_t tag = o->layout == RUNGI_BLOCKED8 ? dnnl_aBcd8b : dnnl_aBcd16b;
#if DNNL_VERSION_MAJOR >= 3
    RUNGI_DNN_TRY(dnnl_memory_desc_create_with_tag(md_out, 4, dims, data_type(o->dtype), tag));
#else
    RUNGI_DNN_TRY(dnnl_memory_desc_init_by_tag(md_out, 4, dims, data_type(o->dtype), tag));
#endif
    return RUNG_OK;
}

rung_status rungi_md_of(const rungi_operand *o, rungi_md *md_out)
{
    int rank = o->shape.rank;
    int64_t strides[RUNG_MAX_RANK];
    if (rank == 0)
        return rungi_md_make(1, (int64_t[]){1}, (int64_t[]){1}, o->dtype, md_out);
    if (o->layout == RUNGI_BLOCKED8 || o->layout == RUNGI_BLOCKED16)
        return blocked_md(o, md_out);
    int64_t step = 1;
    for (int i = rank - 1; i >= 0; i--) {
        strides[i] = step;
        step *= o->shape.dim[i];
    }
    if (o->layout == RUNGI_CHANNELS_LAST) {
        rungi_strides s = rungi_strides_of(o->layout, &o->shape);
        memcpy(strides, (int64_t[]){s.n, s.c, s.h, s.w}, 4 * sizeof *strides);
    }
    return rungi_md_make(rank, o->shape.dim, strides, o->dtype, md_out);
}

rung_status rungi_dnn_begin(rungi_dnn **dnn_out)
{
    rungi_dnn *d = calloc(1, sizeof *d);
    RUNG_CHECK(d, RUNG_NO_MEMORY, "no memory for a oneDNN primitive");
    // It would tell VTune of each kernel, for whose library it looks in all folders each time.
    dnnl_set_jit_profiling_flags(DNNL_JIT_PROFILE_NONE);
    if (dnnl_engine_create(&d->engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&d->stream, d->engine, dnnl_stream_default_flags) != dnnl_success) {
        rungi_dnn_destroy(d);
        return RUNG_FAIL(RUNG_LIBRARY, "oneDNN: no CPU engine");
    }
    *dnn_out = d;
    return RUNG_OK;
}

rung_status rungi_dnn_add(rungi_dnn *d, int arg, const rungi_operand *operand, rungi_md user,
                          bool output)
{
    RUNG_CHECK(d->n_args < RUNGI_DNN_ARGS, RUNG_INTERNAL, "oneDNN: too many arguments");
    d->args[d->n_args++] =
        (rungi_dnn_arg){.arg = arg, .operand = operand, .output = output, .user = user};
    return RUNG_OK;
}

static size_t take_workspace(rungi_dnn *d, size_t bytes)
{
    size_t offset = d->workspace;
    d->workspace += (bytes + 63) / 64 * 64;
    return offset;
}

static rung_status make_reorder(rungi_dnn *d, rungi_dnn_arg *a, rungi_md_ref wanted)
{
    rungi_md_ref from = a->output ? wanted : (rungi_md_ref)RUNGI_MD(a->user);
    rungi_md_ref to = a->output ? (rungi_md_ref)RUNGI_MD(a->user) : wanted;
    dnnl_primitive_desc_t desc;
    RUNGI_DNN_TRY(dnnl_reorder_primitive_desc_create(&desc, from, d->engine, to, d->engine, NULL));
    dnnl_status_t made = dnnl_primitive_create(&a->reorder, desc);
    dnnl_primitive_desc_destroy(desc);
    RUNGI_DNN_TRY(made);
    RUNGI_DNN_TRY(dnnl_memory_create(&a->memory, wanted, d->engine, DNNL_MEMORY_NONE));
    a->offset = take_workspace(d, dnnl_memory_desc_get_size(wanted));
    return RUNG_OK;
}

static rung_status make_argument(rungi_dnn *d, rungi_dnn_arg *a)
{
    rungi_md_ref wanted = dnnl_primitive_desc_query_md(d->desc, dnnl_query_exec_arg_md, a->arg);
    RUNGI_DNN_TRY(
        dnnl_memory_create(&a->user_memory, RUNGI_MD(a->user), d->engine, DNNL_MEMORY_NONE));
    a->memory = a->user_memory;
    // A format that the primitive does not know of is an argument of a reorder.
    if (wanted && dnnl_memory_desc_get_size(wanted) > 0 &&
        !dnnl_memory_desc_equal(wanted, RUNGI_MD(a->user)))
        RUNG_TRY(make_reorder(d, a, wanted));
    d->exec[d->n_exec].arg = a->arg;
    d->exec[d->n_exec++].memory = a->memory;
    return RUNG_OK;
}

static rung_status finish(rungi_dnn *d)
{
    RUNGI_DNN_TRY(dnnl_primitive_create(&d->primitive, d->desc));
    for (int i = 0; i < d->n_args; i++)
        RUNG_TRY(make_argument(d, &d->args[i]));
    rungi_md_ref scratch = dnnl_primitive_desc_query_md(d->desc, dnnl_query_scratchpad_md, 0);
    size_t bytes = scratch ? dnnl_memory_desc_get_size(scratch) : 0;
    if (bytes) {
        RUNGI_DNN_TRY(dnnl_memory_create(&d->scratch, scratch, d->engine, DNNL_MEMORY_NONE));
        d->scratch_offset = take_workspace(d, bytes);
        d->exec[d->n_exec].arg = DNNL_ARG_SCRATCHPAD;
        d->exec[d->n_exec++].memory = d->scratch;
    }
    return RUNG_OK;
}

rung_status rungi_dnn_finish(rungi_dnn *d, rungi_setup *setup)
{
    rung_status status = finish(d);
    if (status != RUNG_OK) {
        rungi_dnn_destroy(d);
        return status;
    }
    setup->state = d;
    setup->workspace = d->workspace;
    return RUNG_OK;
}

void rungi_dnn_destroy(void *state)
{
    rungi_dnn *d = state;
    if (!d)
        return;
    for (int i = 0; i < d->n_args; i++) {
        rungi_dnn_arg *a = &d->args[i];
        if (a->memory && a->memory != a->user_memory)
            dnnl_memory_destroy(a->memory);
        if (a->user_memory)
            dnnl_memory_destroy(a->user_memory);
        if (a->reorder)
            dnnl_primitive_destroy(a->reorder);
        rungi_md_free(&a->user);
    }
    if (d->scratch)
        dnnl_memory_destroy(d->scratch);
    if (d->primitive)
        dnnl_primitive_destroy(d->primitive);
    if (d->desc)
        dnnl_primitive_desc_destroy(d->desc);
    if (d->stream)
        dnnl_stream_destroy(d->stream);
    if (d->engine)
        dnnl_engine_destroy(d->engine);
    free(d);
}

// Setting a handle without a stream leaves padding alone; memory that the primitive itself wrote
// has its padding right.
static dnnl_status_t set_handle(dnnl_memory_t memory, void *data)
{
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_memory_set_data_handle(memory, data);
#else
    return dnnl_memory_set_data_handle_v2(memory, data, NULL);
#endif
}

static rung_status bind(rungi_dnn *d, const rungi_call *c)
{
    for (int i = 0; i < d->n_args; i++) {
        rungi_dnn_arg *a = &d->args[i];
        void *data = rungi_ptr(c, a->operand);
        if (data != a->bound) {
            RUNGI_DNN_TRY(set_handle(a->user_memory, data));
            a->bound = data;
        }
        if (a->reorder && d->bound_workspace != c->workspace)
            RUNGI_DNN_TRY(set_handle(a->memory, (char *)c->workspace + a->offset));
    }
    if (d->scratch && d->bound_workspace != c->workspace)
        RUNGI_DNN_TRY(set_handle(d->scratch, (char *)c->workspace + d->scratch_offset));
    d->bound_workspace = c->workspace;
    return RUNG_OK;
}

static rung_status reorder(const rungi_dnn *d, const rungi_dnn_arg *a)
{
    dnnl_exec_arg_t args[2] = {
        {DNNL_ARG_FROM, a->output ? a->memory : a->user_memory},
        {DNNL_ARG_TO, a->output ? a->user_memory : a->memory},
    };
    RUNGI_DNN_TRY(dnnl_primitive_execute(a->reorder, d->stream, 2, args));
    return RUNG_OK;
}

rung_status rungi_dnn_run(const rungi_call *c)
{
    rungi_dnn *d = c->state;
    RUNG_TRY(bind(d, c));
    for (int i = 0; i < d->n_args; i++)
        if (d->args[i].reorder && !d->args[i].output)
            RUNG_TRY(reorder(d, &d->args[i]));
    RUNGI_DNN_TRY(dnnl_primitive_execute(d->primitive, d->stream, d->n_exec, d->exec));
    for (int i = 0; i < d->n_args; i++)
        if (d->args[i].reorder && d->args[i].output)
            RUNG_TRY(reorder(d, &d->args[i]));
    return RUNG_OK;
}
