// SPDX-License-Identifier: Apache-2.0
#include "optim/step_loops.h"

const rungi_step_kernels rungi_step_kernels_cpu = {
    .sgd_scaled = step_sgd_scaled,
    .sgd = step_sgd,
    .sgd_momentum = step_sgd_momentum,
    .sgd_nesterov = step_sgd_nesterov,
    .adam = step_adam,
    .sum_squares = step_sum_squares,
    .to_bf16 = step_to_bf16,
};

const rungi_step_kernels *rungi_step_kernels_for(rung_isa isa)
{
#if defined(__x86_64__)
    if (isa >= RUNG_ISA_AVX2)
        return &rungi_step_kernels_avx2;
#endif
    (void)isa;
    return &rungi_step_kernels_cpu;
}
