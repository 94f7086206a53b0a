// SPDX-License-Identifier: Apache-2.0
// The keys of plan, memory and ladder.
#include "train/options_tables.h"

static const char *const layouts[] = {
    [RUNG_LAYOUT_PLAIN] = "plain",
    [RUNG_LAYOUT_CHANNELS_LAST] = "channels_last",
    [RUNG_LAYOUT_BLOCKED] = "blocked",
    NULL,
};
static const char *const kernels[] = {
    [RUNG_KERNELS_OWN] = "own",
    [RUNG_KERNELS_LIBRARY] = "library",
    [RUNG_KERNELS_REFERENCE] = "reference",
    NULL,
};

static const char *const tiles[] = {
    [RUNG_WINOGRAD_F2] = "f2",
    [RUNG_WINOGRAD_F4] = "f4",
    NULL,
};

static const rungi_option_word auto_words[] = {{"auto", 0}, {0}};
static const rungi_option_word recompute_words[] = {{"none", 0}, {"auto", 0}, {0}};
static const rungi_option_word none_words[] = {{"none", 0}, {0}};
static const rungi_option_word no_limit_words[] = {{"none", -1}, {0}};

const rungi_option rungi_plan_options[] = {
    {.key = "plan.fuse",
     .type = RUNGI_OPTION_BOOL,
     RUNGI_AT(rungi_plan_config, fuse),
     .initial = "false",
     .help =
         "Computes bias, activation and pooling inside of the convolution or linear layer before "
         "them, and sums for batch normalization where an own kernel of the convolution can."},
    {.key = "plan.fuse_optimizer",
     .type = RUNGI_OPTION_BOOL,
     RUNGI_AT(rungi_plan_config, fuse_optimizer),
     .initial = "false",
     .help =
         "Updates a weight where its gradient is computed, without storing that, in kernels that "
         "can do it. Steps in which the gradient is needed (clipping by norm, logging its norm) "
         "store it all the same. Not with exact."},
    {.key = "plan.layout",
     .type = RUNGI_OPTION_CHOICE,
     RUNGI_AT(rungi_plan_config, layout),
     .initial = "plain",
     .choices = layouts,
     .help = "Order of images in memory: plain is NCHW, channels_last NHWC, blocked groups of 8 or "
             "16 channels."},
    {.key = "plan.kernels",
     .type = RUNGI_OPTION_CHOICE,
     RUNGI_AT(rungi_plan_config, kernels),
     .initial = "library",
     .choices = kernels,
     .help = "library: the library's where it has one; own: the best of own and library; "
             "reference: plain loops."},
    {.key = "plan.winograd",
     .type = RUNGI_OPTION_BOOL,
     RUNGI_AT(rungi_plan_config, winograd),
     .initial = "false",
     .help = "Computes 3x3 convolutions of stride 1 by Winograd's method where that is faster: a "
             "quarter of the multiplications, other rounding. Needs plan.kernels own and "
             "plan.layout channels_last; with AVX-512 plan.autotune measures oneDNN's for "
             "plan.layout blocked."},
    {.key = "plan.winograd_bf16",
     .type = RUNGI_OPTION_CHOICE,
     RUNGI_AT(rungi_plan_config, winograd_bf16),
     .initial = "f2",
     .choices = tiles,
     .help = "Tiles of plan.winograd where it computes natively in bf16. f2: 2x2, an error of "
             "4.2e-3 (l2) where a direct convolution has 1.7e-3; f4: 4x4, about half the "
             "multiplications, 1.1e-2."},
    {.key = "plan.autotune",
     .type = RUNGI_OPTION_BOOL,
     RUNGI_AT(rungi_plan_config, autotune),
     .initial = "false",
     .help = "Measures the candidates of each operator once and keeps the fastest, per CPU and "
             "with the run. Of several ranks one measures at a time, and all run what was chosen. "
             "Not with exact."},
    {0},
};

const rungi_option rungi_memory_options[] = {
    {.key = "memory.huge_pages",
     .type = RUNGI_OPTION_BOOL,
     RUNGI_AT(rungi_memory_config, huge_pages),
     .initial = "false",
     .help = "Asks for huge pages for large buffers, where the system allows them."},
    {.key = "memory.recompute",
     .type = RUNGI_OPTION_TEXTS,
     RUNGI_AT(rungi_memory_config, recompute),
     .initial = "[none]",
     .words = recompute_words,
     .help = "What backward computes again instead of keeping it, for less memory and more time, "
             "with the same bits: auto plans it (as much as memory.budget asks for; without one, "
             "what adds a fifth to the time at most), [layer1.*] names layers by patterns with * "
             "and ?."},
    {.key = "memory.budget",
     .type = RUNGI_OPTION_BYTES,
     RUNGI_AT(rungi_memory_config, budget),
     .initial = "none",
     .range = "> 0",
     .words = none_words,
     .help = "Bytes that training may take of a device: weights, gradients, optimizer, activations "
             "and workspace. A network that needs more is refused before the first step, or "
             "computes more again with memory.recompute auto."},
    {0},
};

const rungi_option rungi_ladder_options[] = {
    {.key = "ladder.rungs",
     .type = RUNGI_OPTION_TEXTS,
     RUNGI_AT(rungi_ladder_config, rungs),
     .initial = "[]",
     .help = "Optimizations to try, in this order. []: all that there are."},
    {.key = "ladder.launcher",
     .type = RUNGI_OPTION_TEXT,
     RUNGI_AT(rungi_ladder_config, launcher),
     .initial = "",
     .help = "Command that starts the ranks of a measured block, of the confirmation and of rung "
             "scale as processes, with {ranks} for their number, as 'mpirun -n {ranks}'. Without "
             "one they are threads."},
    {.key = "ladder.budget",
     .type = RUNGI_OPTION_DURATION,
     RUNGI_AT(rungi_ladder_config, budget),
     .initial = "none",
     .range = "[1s, 365d]",
     .words = none_words,
     .flag = "--budget",
     .help = "Time that the whole ladder may take."},
    {.key = "ladder.repeats",
     .type = RUNGI_OPTION_INT,
     RUNGI_AT(rungi_ladder_config, repeats),
     .initial = "5",
     .range = "[5, 1000]",
     .help = "Pairs of blocks, base and candidate in turn, that are measured for a rung."},
    {.key = "ladder.block_steps",
     .type = RUNGI_OPTION_INT,
     RUNGI_AT(rungi_ladder_config, block_steps),
     .initial = "auto",
     .range = ">= 1",
     .words = auto_words,
     .unit = "steps",
     .help = "Steps in a measured block. auto: about a second's worth."},
    {.key = "ladder.gate_steps",
     .type = RUNGI_OPTION_INT,
     RUNGI_AT(rungi_ladder_config, gate_steps),
     .initial = "20",
     .range = ">= 1",
     .unit = "steps",
     .help = "First steps over which an exact rung must give the base's bits."},
    {.key = "ladder.baselines",
     .type = RUNGI_OPTION_INT,
     RUNGI_AT(rungi_ladder_config, baselines),
     .initial = "3",
     .range = "[2, 100]",
     .help = "Trainings of the base whose spread gives the margin of the confirmation."},
    {.key = "ladder.confirm_epochs",
     .type = RUNGI_OPTION_INT,
     RUNGI_AT(rungi_ladder_config, confirm_epochs),
     .initial = "auto",
     .range = ">= 1",
     .words = auto_words,
     .unit = "epochs",
     .help = "Epochs that base and best train for the confirmation. auto: train.epochs."},
    {.key = "ladder.min_accuracy",
     .type = RUNGI_OPTION_REAL,
     RUNGI_AT(rungi_ladder_config, min_accuracy),
     .initial = "none",
     .range = "[0, 1]",
     .words = no_limit_words,
     .help = "Validation accuracy that base and best must reach in the confirmation."},
    {.key = "ladder.pack_limit",
     .type = RUNGI_OPTION_BYTES,
     RUNGI_AT(rungi_ladder_config, pack_limit),
     .initial = "8GiB",
     .range = ">= 0",
     .help = "The largest pack that the rungs pack and pack_raw may make of the data set, in the "
             "run folder. It stays there if it is kept."},
    {.key = "ladder.quick",
     .type = RUNGI_OPTION_BOOL,
     RUNGI_AT(rungi_ladder_config, quick),
     .initial = "false",
     .flag = "--quick",
     .help = "Fewer steps and shorter training: minutes instead of hours, with wider intervals."},
    {0},
};
