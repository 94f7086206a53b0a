// SPDX-License-Identifier: Apache-2.0
// Kernels of one source that are compiled once per instruction set.
//
// The loops of a family stand in NAME_loops.h as plain C. NAME.c includes it, and so does the
// overlay NAME_avx2.c, which the build compiles for AVX2; each fills a table of functions. All
// instruction sets compute the same bits: contraction is off, and sums have a fixed shape.
#ifndef RUNGI_OPS_SIMD_H
#define RUNGI_OPS_SIMD_H

#include "ops/op.h"

// Put before a loop: no iteration reads what another one writes, although pointers may be equal
// (outputs written over inputs).
#if defined(__clang__)
#    define RUNGI_VECTORIZE _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#    define RUNGI_VECTORIZE _Pragma("GCC ivdep")
#else
#    define RUNGI_VECTORIZE
#endif

// Put before a loop of few iterations that index an array of vectors: with constant indexes these
// stay in registers.
#define RUNGI_UNROLL _Pragma("GCC unroll 16")

// Picks the table of the instruction set: RUNGI_LOOPS_FOR(isa, rungi_unary_loops).
#if defined(__x86_64__)
#    define RUNGI_LOOPS_FOR(isa, table) ((isa) >= RUNG_ISA_AVX2 ? &table##_avx2 : &table##_plain)
#else
#    define RUNGI_LOOPS_FOR(isa, table) ((void)(isa), &table##_plain)
#endif

// RUNGI_ISA_KERNELS(name, accepts, create, body) defines a kernel for each instruction set out of
//     bool accepts(const rungi_query *q, rungi_reason *why);
//     rung_status create(const rungi_query *q, rungi_setup *setup);     may be NULL; no state
//     rung_status body(const rungi_call *c, rung_isa isa);
// and RUNGI_ISA_LIST(name) lists them, best first.
#define RUNGI_ISA_KERNEL_(name_, isa_, level_, accepts_, create_, body_)           \
    static bool name_##_can_run_##isa_(const rungi_query *q, rungi_reason *why)    \
    {                                                                              \
        if (q->n_fused)                                                            \
            return rungi_refuse(why, "applies nothing to its output");             \
        if (level_ > RUNG_ISA_SCALAR && q->isa < level_)                           \
            return rungi_refuse(why, "needs %s", rung_isa_name(level_));           \
        return accepts_(q, why);                                                   \
    }                                                                              \
    static rung_status name_##_run_##isa_(const rungi_call *c)                     \
    {                                                                              \
        return body_(c, level_);                                                   \
    }                                                                              \
    static const rungi_kernel name_##_##isa_ = {.name = #isa_,                     \
                                                .kind = RUNGI_OWN,                 \
                                                .can_run = name_##_can_run_##isa_, \
                                                .create = create_,                 \
                                                .run = name_##_run_##isa_};

#if defined(__x86_64__)
#    define RUNGI_ISA_KERNELS(name_, accepts_, create_, body_)                  \
        RUNGI_ISA_KERNEL_(name_, avx2, RUNG_ISA_AVX2, accepts_, create_, body_) \
        RUNGI_ISA_KERNEL_(name_, plain, RUNG_ISA_SCALAR, accepts_, create_, body_)
#    define RUNGI_ISA_LIST(name_) &name_##_avx2, &name_##_plain
#else
#    define RUNGI_ISA_KERNELS(name_, accepts_, create_, body_) \
        RUNGI_ISA_KERNEL_(name_, plain, RUNG_ISA_SCALAR, accepts_, create_, body_)
#    define RUNGI_ISA_LIST(name_) &name_##_plain
#endif

#endif
