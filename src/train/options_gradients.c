// SPDX-License-Identifier: Apache-2.0
// The keys of train that are about gradients, but for clipping.
#include "train/options_tables.h"

const rungi_option rungi_gradients_options[] = {
    {.key = "train.accumulate",
     .type = RUNGI_OPTION_INT,
     RUNGI_AT(rungi_gradients_config, accumulate),
     .initial = "1",
     .range = "[1, 1024]",
     .unit = "batches",
     .help =
         "Batches of data.batch_size whose gradients are added before the weights are updated, "
         "as Lightning's accumulate_grad_batches: a step is on that many times more samples, "
         "with the memory for activations of one batch. The result is that of one large batch, "
         "but for batch normalization, whose statistics are those of each small one. A last "
         "group that is not full makes a smaller step; data.drop_last leaves it out. With "
         "train.strategy pipeline as many times more micro-batches. With exact a power of two."},
    {.key = "train.log_layers",
     .type = RUNGI_OPTION_BOOL,
     RUNGI_AT(rungi_gradients_config, log_layers),
     .initial = "false",
     .help =
         "Logs, every train.log_every steps, each parameter's gradient norm and the norm of its "
         "update over its own: in metrics.jsonl, and as layers.svg."},
    {.key = "train.allow_unused",
     .type = RUNGI_OPTION_BOOL,
     RUNGI_AT(rungi_gradients_config, allow_unused),
     .initial = "false",
     .help =
         "Trains although a parameter takes no part in the loss: it is left as it is. Else that "
         "is a warning with one rank and refused with several."},
    {0},
};
