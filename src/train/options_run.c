// SPDX-License-Identifier: Apache-2.0
// The keys at the top, and of train and checkpoint.
#include "train/options_tables.h"

static const char *const metrics[] = {
    [RUNGI_METRIC_LOSS] = "loss",
    [RUNGI_METRIC_ACCURACY] = "accuracy",
    NULL,
};
static const char *const strategies[] = {
    [RUNGI_STRATEGY_AUTO] = "auto",
    [RUNGI_STRATEGY_SINGLE] = "single",
    [RUNGI_STRATEGY_DDP] = "ddp",
    [RUNGI_STRATEGY_DATA_PARALLEL] = "data_parallel",
    [RUNGI_STRATEGY_PIPELINE] = "pipeline",
    [RUNGI_STRATEGY_PARAMETER_SERVER] = "parameter_server",
    NULL,
};
const char *rungi_config_strategy_name(const rungi_train_config *v, int64_t ranks)
{
    rungi_strategy strategy = v->train.strategy;
    if (strategy == RUNGI_STRATEGY_AUTO || strategy == RUNGI_STRATEGY_SINGLE)
        strategy = ranks > 1 ? RUNGI_STRATEGY_DDP : RUNGI_STRATEGY_SINGLE;
    return strategies[strategy];
}

static const char *const nans[] = {
    [RUNGI_NAN_STOP] = "stop",
    [RUNGI_NAN_CONTINUE] = "continue",
    NULL,
};

static const rungi_option_word none_words[] = {{"none", 0}, {0}};
static const rungi_option_word every_words[] = {
    {"epoch", RUNGI_EVERY_EPOCH},
    {"never", RUNGI_NEVER},
    {0},
};
static const rungi_option_word all_words[] = {{"all", 0}, {0}};

const rungi_option rungi_top_options[] = {
    {.key = "seed",
     .type = RUNGI_OPTION_INT,
     RUNGI_AT(rungi_train_config, seed),
     .initial = "0",
     .range = ">= 0",
     .help =
         "Seed of all random numbers: initial weights, order of samples, augmentation, dropout."},
    {.key = "exact",
     .type = RUNGI_OPTION_BOOL,
     RUNGI_AT(rungi_train_config, exact),
     .initial = "false",
     .help = "Same bits for any number of threads and workers, and after a resume: the batch is "
             "cut into train.shards shards, each computed by one thread."},
    {0},
};

const rungi_option rungi_train_options[] = {
    {.key = "train.steps",
     .type = RUNGI_OPTION_INT,
     RUNGI_AT(rungi_loop_config, steps),
     .initial = "none",
     .range = ">= 1",
     .words = none_words,
     .unit = "steps",
     .help = "Steps to train; wins over train.epochs."},
    {.key = "train.epochs",
     .type = RUNGI_OPTION_INT,
     RUNGI_AT(rungi_loop_config, epochs),
     .initial = "10",
     .range = ">= 1",
     .unit = "epochs",
     .help = "Epochs to train."},
    {.key = "train.strategy",
     .type = RUNGI_OPTION_CHOICE,
     RUNGI_AT(rungi_loop_config, strategy),
     .initial = "auto",
     .choices = strategies,
     .help = "How devices share the work. single: there is one; ddp: each rank has a device, a "
             "replica of the network and a part of each batch, and gradients are added over the "
             "ranks; parameter_server: the same, but servers add the gradients and update the "
             "weights (ps.*); data_parallel: one rank, whose batches the devices of device.list "
             "share; pipeline: each rank has some of the network's layers (pipeline.*); auto: ddp "
             "with several ranks, else single."},
    {.key = "train.ranks",
     .type = RUNGI_OPTION_INT,
     RUNGI_AT(rungi_loop_config, ranks),
     .initial = "1",
     .range = "[1, 64]",
     .flag = "--ranks",
     .help = "Ranks, as threads of this process. Under exact the result is the same for 1, 2, 4, "
             "..., at most train.shards."},
    {.key = "train.shards",
     .type = RUNGI_OPTION_INT,
     RUNGI_AT(rungi_loop_config, shards),
     .initial = "4",
     .range = "[1, 1024]",
     .help = "Shards that exact cuts a batch into, a power of two. Part of what is trained: kept "
             "in the checkpoint."},
    {.key = "train.max_grad_norm",
     .type = RUNGI_OPTION_REAL,
     RUNGI_AT(rungi_loop_config, max_grad_norm),
     .initial = "none",
     .range = "> 0",
     .words = none_words,
     .help = "Clips gradients to this global L2 norm, as torch.nn.utils.clip_grad_norm_."},
    {.key = "train.max_grad_value",
     .type = RUNGI_OPTION_REAL,
     RUNGI_AT(rungi_loop_config, max_grad_value),
     .initial = "none",
     .range = "> 0",
     .words = none_words,
     .help =
         "Clips each element of the gradients to this, as torch.nn.utils.clip_grad_value_. With "
         "train.max_grad_norm too, the norm is clipped first."},
    {.key = "train.log_every",
     .type = RUNGI_OPTION_INT,
     RUNGI_AT(rungi_loop_config, log_every),
     .initial = "50",
     .range = ">= 1",
     .unit = "steps",
     .help = "Steps between two readings of loss and metrics."},
    {.key = "train.eval_every",
     .type = RUNGI_OPTION_INT,
     RUNGI_AT(rungi_loop_config, eval_every),
     .initial = "epoch",
     .range = ">= 1",
     .words = every_words,
     .unit = "steps",
     .help = "Steps between two validations. epoch: at the end of each."},
    {.key = "train.early_stopping.patience",
     .type = RUNGI_OPTION_INT,
     RUNGI_AT(rungi_loop_config, early_stop_patience),
     .initial = "none",
     .range = ">= 1",
     .words = none_words,
     .unit = "validations",
     .help = "Stops after this many validations without progress."},
    {.key = "train.early_stopping.min_delta",
     .type = RUNGI_OPTION_REAL,
     RUNGI_AT(rungi_loop_config, early_stop_min_delta),
     .initial = "0",
     .range = ">= 0",
     .help = "Smallest change that counts as progress."},
    {.key = "train.early_stopping.metric",
     .type = RUNGI_OPTION_CHOICE,
     RUNGI_AT(rungi_loop_config, early_stop_metric),
     .initial = "loss",
     .choices = metrics,
     .help = "Validation metric that early stopping follows."},
    {.key = "train.on_nan",
     .type = RUNGI_OPTION_CHOICE,
     RUNGI_AT(rungi_loop_config, on_nan),
     .initial = "stop",
     .choices = nans,
     .help = "What a loss or gradient that is NaN or infinite does. stop: the run ends with exit "
             "status 4, and the last good checkpoint is kept."},
    {.key = "train.overfit_one_batch",
     .type = RUNGI_OPTION_BOOL,
     RUNGI_AT(rungi_loop_config, overfit_one_batch),
     .initial = "false",
     .flag = "--overfit-one-batch",
     .help = "Trains on the first batch again and again: a loss that does not go to zero shows a "
             "mistake in the wiring."},
    {0},
};

const rungi_option rungi_checkpoint_options[] = {
    {.key = "checkpoint.every",
     .type = RUNGI_OPTION_INT,
     RUNGI_AT(rungi_checkpoint_config, every),
     .initial = "epoch",
     .range = ">= 1",
     .words = every_words,
     .unit = "steps",
     .help = "Steps between two checkpoints. epoch: at the end of each; never: only at the end of "
             "training, which always writes one."},
    {.key = "checkpoint.keep",
     .type = RUNGI_OPTION_INT,
     RUNGI_AT(rungi_checkpoint_config, keep),
     .initial = "3",
     .range = ">= 1",
     .words = all_words,
     .help = "Newest checkpoints to keep; the best one is kept besides."},
    {.key = "checkpoint.best",
     .type = RUNGI_OPTION_CHOICE,
     RUNGI_AT(rungi_checkpoint_config, best),
     .initial = "accuracy",
     .choices = metrics,
     .help = "Validation metric by which a checkpoint is the best."},
    {0},
};
