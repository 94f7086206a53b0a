// SPDX-License-Identifier: Apache-2.0
// The keys of ddp.
#include "train/options_tables.h"

static const char *const compressions[] = {
    [RUNG_F32] = "none",
    [RUNG_F16] = "fp16",
    [RUNG_BF16] = "bf16",
    NULL,
};

static const rungi_option_word link_ranks[] = {{"all", RUNGI_ALL_RANKS}, {0}};

const rungi_option rungi_ddp_options[] = {
    {.key = "ddp.overlap",
     .type = RUNGI_OPTION_BOOL,
     RUNGI_AT(rungi_ddp_config, overlap),
     .initial = "false",
     .help = "Adds a bucket of gradients over the ranks as soon as backward has completed it, "
             "while backward goes on; else all buckets after backward. Without effect where a rank "
             "has several shards (exact), whose gradients are added first."},
    {.key = "ddp.bucket_size",
     .type = RUNGI_OPTION_BYTES,
     RUNGI_AT(rungi_ddp_config, bucket_size),
     .initial = "25MiB",
     .range = "[1KiB, 1TiB]",
     .help = "Gradients that are added over the ranks by one call."},
    {.key = "ddp.shard_optimizer",
     .type = RUNGI_OPTION_BOOL,
     RUNGI_AT(rungi_ddp_config, shard_optimizer),
     .initial = "false",
     .help = "Each rank holds the optimizer's state of its part of the parameters alone, updates "
             "these, and gives them to the others (ZeRO stage 1). Same bits."},
    {.key = "ddp.fuse_update",
     .type = RUNGI_OPTION_BOOL,
     RUNGI_AT(rungi_ddp_config, fuse_update),
     .initial = "false",
     .help = "With ddp.shard_optimizer, ranks of one machine: each adds the gradients of its part "
             "of the parameters over the ranks while it updates these, and writes them to all, in "
             "one pass over shared memory. Steps that log take the norm of all gradients before, "
             "and are not fused. Same bits."},
    {.key = "ddp.sync_batch_norm",
     .type = RUNGI_OPTION_BOOL,
     RUNGI_AT(rungi_ddp_config, sync_batch_norm),
     .initial = "false",
     .help = "Batch normalization takes the statistics of all ranks' samples in training, as one "
             "rank with the whole batch would; else each rank's own. Under exact train.shards must "
             "be the number of ranks."},
    {.key = "ddp.compress",
     .type = RUNGI_OPTION_CHOICE,
     RUNGI_AT(rungi_ddp_config, compress),
     .initial = "none",
     .choices = compressions,
     .help = "Rounds gradients to 16 bits before they are added over the ranks. Not with exact."},
    {.key = "ddp.timeout",
     .type = RUNGI_OPTION_DURATION,
     RUNGI_AT(rungi_ddp_config, timeout),
     .initial = "60s",
     .range = "[1ms, 365d]",
     .help = "Time that a rank waits for the others in one call."},
    {.key = "ddp.link_delay",
     .type = RUNGI_OPTION_DURATION,
     RUNGI_AT(rungi_ddp_config, link_delay),
     .initial = "0s",
     .range = "[0s, 10s]",
     .help = "Emulates a network between ranks, for tests and studies: how much longer each call "
             "takes."},
    {.key = "ddp.link_rank",
     .type = RUNGI_OPTION_INT,
     RUNGI_AT(rungi_ddp_config, link_rank),
     .initial = "all",
     .range = "[0, 1023]",
     .words = link_ranks,
     .help = "The rank whose link is emulated; the others' are as they are."},
    {.key = "ddp.link_rate",
     .type = RUNGI_OPTION_REAL,
     RUNGI_AT(rungi_ddp_config, link_rate),
     .initial = "0",
     .range = ">= 0",
     .unit = "GB/s",
     .help = "The same for each byte of a call's data. 0: no limit."},
    {0},
};
