// SPDX-License-Identifier: Apache-2.0
// Vectors of float32 for loops that are compiled once per instruction set (NAME_loops.h, included
// by NAME_cpu.c and NAME_avx2.c). Each lane computes on its own, so the width never shows in
// results as long as sums are kept per element of a fixed number of lanes.
#ifndef RUNGI_OPS_LANES_H
#define RUNGI_OPS_LANES_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
enum { RUNGI_LANES = 8 };
#else
enum { RUNGI_LANES = 4 };
#endif

// GCC's vector extension; clang has it too.
typedef float rungi_vf __attribute__((vector_size(4 * RUNGI_LANES)));
typedef int32_t rungi_vi __attribute__((vector_size(4 * RUNGI_LANES)));
typedef float rungi_vf_any __attribute__((vector_size(4 * RUNGI_LANES), aligned(4), may_alias));

static inline rungi_vf rungi_load(const float *from)
{
    return *(const rungi_vf_any *)from;
}

// The first n values; the other lanes are 0.
static inline rungi_vf rungi_load_part(const float *from, int64_t n)
{
    float part[RUNGI_LANES] = {0};
    for (int64_t i = 0; i < n; i++)
        part[i] = from[i];
    return rungi_load(part);
}

static inline void rungi_store(float *to, rungi_vf v)
{
    *(rungi_vf_any *)to = v;
}

static inline rungi_vf rungi_splat(float x)
{
    return x - (rungi_vf){0};
}

// a where the mask (all bits or none of each lane, as comparisons give it) is set, else b.
static inline rungi_vf rungi_select(rungi_vi mask, rungi_vf a, rungi_vf b)
{
    return (rungi_vf)((mask & (rungi_vi)a) | (~mask & (rungi_vi)b));
}

// max(v, 0) as relu has it: NaN stays.
static inline rungi_vf rungi_relu(rungi_vf v)
{
    return (rungi_vf)((rungi_vi)v & ~(v < (rungi_vf){0}));
}

// Adds the first n lanes to doubles.
static inline void rungi_add_to(double *sums, rungi_vf v, int64_t n)
{
    float lane[RUNGI_LANES];
    memcpy(lane, &v, sizeof lane);
    for (int64_t i = 0; i < n; i++)
        sums[i] += lane[i];
}

#endif
