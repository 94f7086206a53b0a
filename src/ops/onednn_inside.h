// SPDX-License-Identifier: Apache-2.0
// Shared by onednn.c and onednn_*.c only.
#ifndef RUNGI_OPS_ONEDNN_INSIDE_H
#define RUNGI_OPS_ONEDNN_INSIDE_H

#include <oneapi/dnnl/dnnl.h>

#include "base/error.h"
#include "ops/onednn.h"

// Memory descriptors are values in version 2 and owned pointers in version 3.
#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t rungi_md;
typedef const_dnnl_memory_desc_t rungi_md_ref;
#    define RUNGI_MD(md) (md)
#else
typedef dnnl_memory_desc_t rungi_md;
typedef const dnnl_memory_desc_t *rungi_md_ref;
#    define RUNGI_MD(md) (&(md))
#endif

#define RUNGI_DNN_TRY(call)                                                                     \
    do {                                                                                        \
        dnnl_status_t dnn_status_ = (call);                                                     \
        if (dnn_status_ != dnnl_success)                                                        \
            return RUNG_FAIL(dnn_status_ == dnnl_out_of_memory ? RUNG_NO_MEMORY : RUNG_LIBRARY, \
                             "oneDNN: %s gave status %d", #call, (int)dnn_status_);             \
    } while (0)

enum { RUNGI_DNN_ARGS = 12 };

// An argument of the primitive: the caller's memory, and where the primitive wants another format,
// a copy of it in the workspace with the reorder between the two.
typedef struct rungi_dnn_arg {
    int arg;                      // DNNL_ARG_...
    const rungi_operand *operand; // whose pointer it takes at run time
    bool output;
    rungi_md user; // format of the operand
    dnnl_memory_t user_memory, memory;
    dnnl_primitive_t reorder; // NULL: memory is user_memory
    size_t offset;            // of the copy in the workspace
    void *bound;              // pointer set last
} rungi_dnn_arg;

typedef struct rungi_dnn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t primitive;
    rungi_dnn_arg args[RUNGI_DNN_ARGS];
    int n_args;
    dnnl_memory_t scratch;
    size_t scratch_offset, workspace;
    void *bound_workspace;
    dnnl_exec_arg_t exec[RUNGI_DNN_ARGS + 1];
    int n_exec;
} rungi_dnn;

rung_status rungi_dnn_begin(rungi_dnn **dnn_out);

// Format of an operand as it lies in memory: dimensions and strides from its layout.
rung_status rungi_md_of(const rungi_operand *operand, rungi_md *md_out);
// A format of these dimensions and strides; strides NULL leaves the choice to the primitive.
rung_status rungi_md_make(int rank, const int64_t *dims, const int64_t *strides, rung_dtype dtype,
                          rungi_md *md_out);
void rungi_md_free(rungi_md *md);

// Adds an argument whose memory has the format `user` (taken over).
rung_status rungi_dnn_add(rungi_dnn *d, int arg, const rungi_operand *operand, rungi_md user,
                          bool output);

// After d->desc is made: makes the primitive, its memories, reorders and scratch. On failure *d is
// freed. Ownership of d goes to `setup`.
rung_status rungi_dnn_finish(rungi_dnn *d, rungi_setup *setup);

// Attributes: user scratchpad and the query's fused operators.
rung_status rungi_dnn_attr(const rungi_query *q, dnnl_primitive_attr_t *attr_out);

#endif
