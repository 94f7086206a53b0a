// SPDX-License-Identifier: Apache-2.0
// What linear_packed_*.c share, and the plain loops.
#include "ops/linear/linear_packed.h"

#include <stdlib.h>

#include "base/error.h"
#include "ops/linear/linear_tiles_loops.h"

const rungi_linear_tile_loops rungi_linear_tile_loops_plain = LINEAR_TILE_TABLE;

static const rungi_linear_tile_loops *tile_loops(rung_isa isa)
{
#if defined(__x86_64__)
    if (isa >= RUNG_ISA_AVX512)
        return &rungi_linear_tile_loops_avx512;
    if (isa >= RUNG_ISA_AVX2)
        return &rungi_linear_tile_loops_avx2;
#endif
    (void)isa;
    return &rungi_linear_tile_loops_plain;
}

rung_status rungi_packed_plan_create(const rungi_query *q, rungi_packed_plan **plan_out)
{
    rungi_packed_plan *p = calloc(1, sizeof *p);
    RUNG_CHECK(p, RUNG_NO_MEMORY, "no memory for a linear layer");
    p->tiles = tile_loops(q->isa);
    p->s = rungi_linear_sizes_of(q);
    p->threads = p->s.rows * p->s.in * p->s.out < RUNGI_PACKED_SMALL ? 1 : q->threads;
    int64_t columns = q->pass == RUNGI_FORWARD ? p->s.rows : p->s.in;
    p->width = rungi_wino_least(rungi_packed_parts(columns, p->tiles->lanes) * p->tiles->lanes,
                                RUNGI_PACKED_COLUMNS);
    *plan_out = p;
    return RUNG_OK;
}

bool rungi_packed_prefers(const rungi_query *q, rungi_packed_rows most)
{
    if (q->isa < RUNG_ISA_AVX2 || rungi_linear_is_small(q))
        return false;
    return rungi_linear_sizes_of(q).rows <= (q->isa == RUNG_ISA_AVX2 ? most.avx2 : most.avx512);
}

bool rungi_packed_can_run(const rungi_query *q, rungi_reason *why)
{
    rungi_linear_sizes s = rungi_linear_sizes_of(q);
    if (s.rows < RUNGI_PACKED_LEAST_ROWS)
        return rungi_refuse(why, "for %d rows and more", RUNGI_PACKED_LEAST_ROWS);
    if (s.in == 0 || s.out == 0)
        return rungi_refuse(why, "there is nothing to compute");
    return rungi_f32_only(q, why);
}
