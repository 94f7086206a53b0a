// SPDX-License-Identifier: Apache-2.0
// The norm of all gradients, which also finds those that are not finite: sums of squares of fixed
// blocks, added in order. Blocks are summed from the first one on: by rungi_optimizer_sum while
// their gradients lie in the caches, and those that are left by the norm itself.
#include <math.h>

#include "optim/optimizer.h"

typedef struct sum_pass {
    rung_optimizer *opt;
    const float *grads;
    int64_t begin, end;
    int64_t first; // block
} sum_pass;

static void sum_block(void *arg, int64_t i)
{
    const sum_pass *s = arg;
    const rungi_optim_block *block = &s->opt->blocks[s->first + i];
    bool own = block->begin >= s->begin && block->begin < s->end;
    s->opt->block_sums[s->first + i] =
        own ? s->opt->sum_squares(s->grads + block->begin, block->end - block->begin) : 0;
}

// Sums of the blocks before `last` that are not there yet: of those that begin in [begin, end),
// zeros for the others.
static void sum_blocks(rung_optimizer *opt, const float *grads, int threads, int64_t last,
                       int64_t begin, int64_t end)
{
    sum_pass s = {opt, grads, begin, end, opt->summed};
    rungi_optimizer_spread(opt, threads, last - opt->summed, sum_block, &s);
    opt->summed = last;
}

void rungi_optimizer_begin_sums(rung_optimizer *opt)
{
    rungi_optimizer_plan(opt);
    opt->summed = 0;
}

void rungi_optimizer_sum(rung_optimizer *opt, const float *grads, int64_t end, int threads)
{
    int64_t last = opt->summed;
    while (last < opt->block_count && opt->blocks[last].end <= end)
        last++;
    bool few = (last - opt->summed) * RUNGI_OPTIM_BLOCK < RUNGI_OPTIM_PARALLEL;
    sum_blocks(opt, grads, few ? 1 : threads, last, 0, opt->size);
}

void rungi_optimizer_part_sums(rung_optimizer *opt, const float *grads, int threads,
                               double **sums_out, int64_t *count_out)
{
    rungi_optimizer_begin_sums(opt);
    sum_blocks(opt, grads, threads, opt->block_count, opt->part_begin, opt->part_end);
    *sums_out = opt->block_sums;
    *count_out = opt->block_count;
}

double rungi_optimizer_norm(rung_optimizer *opt, const float *grads, double scale, int threads,
                            int64_t *nonfinite_out)
{
    rungi_optimizer_plan(opt);
    sum_blocks(opt, grads, threads, opt->block_count, 0, opt->size);
    opt->summed = 0;
    double total = 0;
    int64_t nonfinite = -1;
    for (int64_t i = 0; i < opt->segment_count; i++) {
        rungi_optim_segment *segment = &opt->segments[i];
        double sum = 0;
        for (int64_t b = 0; b < segment->block_count; b++)
            sum += opt->block_sums[segment->first_block + b];
        if (!isfinite(sum) && nonfinite < 0)
            nonfinite = i;
        segment->norm = sqrt(sum) * fabs(scale);
        total += sum;
    }
    *nonfinite_out = nonfinite;
    return sqrt(total) * fabs(scale);
}

double rungi_clip_coefficient(double norm, double max_norm)
{
    double coefficient = max_norm / (norm + 1e-6);
    return coefficient < 1 ? coefficient : 1;
}
