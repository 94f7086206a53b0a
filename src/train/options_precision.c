// SPDX-License-Identifier: Apache-2.0
// The keys of train that are about precision.
#include "train/options_tables.h"

static const char *const precisions[] = {
    [RUNG_F32] = "fp32",
    [RUNG_F16] = "fp16",
    [RUNG_BF16] = "bf16",
    NULL,
};
static const char *const computes[] = {
    [RUNG_COMPUTE_AUTO] = "auto",
    [RUNG_COMPUTE_NATIVE] = "native",
    [RUNG_COMPUTE_STORAGE] = "storage",
    NULL,
};

const rungi_option rungi_precision_options[] = {
    {.key = "train.precision",
     .type = RUNGI_OPTION_CHOICE,
     RUNGI_AT(rungi_precision_config, dtype),
     .initial = "fp32",
     .choices = precisions,
     .help = "bf16, fp16: what lies between layers is kept in 16 bits, as PyTorch's autocast does "
             "it: half the memory of activations. Weights, their gradients, optimizer state, "
             "losses and statistics stay float32. fp16 scales the loss."},
    {.key = "train.compute",
     .type = RUNGI_OPTION_CHOICE,
     RUNGI_AT(rungi_precision_config, compute),
     .initial = "auto",
     .choices = computes,
     .help = "How 16 bits are computed with. native: by the processor's instructions for them, "
             "refused where it has none; storage: in float32, 16 bits are for keeping only; auto: "
             "native where there is one, else storage. The banner says which."},
    {.key = "train.loss_scale",
     .type = RUNGI_OPTION_REAL,
     RUNGI_AT(rungi_precision_config, loss_scale),
     .initial = "65536",
     .range = ">= 1",
     .help = "fp16: what the loss is multiplied by at first, so that small gradients do not "
             "vanish. Halved, and the step left out, when a gradient overflows; never below 1."},
    {.key = "train.loss_scale_growth",
     .type = RUNGI_OPTION_INT,
     RUNGI_AT(rungi_precision_config, growth),
     .initial = "2000",
     .range = ">= 1",
     .unit = "steps",
     .help = "Steps in a row without overflow after which the scale is doubled."},
    {0},
};
