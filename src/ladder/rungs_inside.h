// SPDX-License-Identifier: Apache-2.0
// Shared by rungs*.c: the table (rungs.c) and, by theme, what each rung switches and when it cannot
// work.
#ifndef RUNGI_LADDER_RUNGS_INSIDE_H
#define RUNGI_LADDER_RUNGS_INSIDE_H

#include "ladder/rungs.h"

// A rung cannot work here: writes the reason and gives false.
bool rungi_rung_cannot(char *why, size_t size, const char *reason);
// Has the network batch normalization, which sees no more than what is computed at once?
bool rungi_rung_normalizes(const rungi_train_config *c);

extern const char *const rungi_rung_one_rank; // a reason that several rungs have

// See rungi_rung: setting, and effect_in.
typedef bool rungi_setting_fn(const rungi_train_config *c, char *setting, size_t size, char *why,
                              size_t why_size);
typedef rungi_effect rungi_effect_fn(const rungi_train_config *c);

// rungs_plan.c
rungi_setting_fn rungi_rung_channels_last, rungi_rung_blocked, rungi_rung_winograd,
    rungi_rung_fuse_optimizer, rungi_rung_autotune, rungi_rung_huge_pages, rungi_rung_recompute,
    rungi_rung_bf16, rungi_rung_winograd_f4, rungi_rung_fp16, rungi_rung_accumulate,
    rungi_rung_large_batch, rungi_rung_threads;
rungi_effect_fn rungi_rung_accumulate_effect;
// rungs_data.c
rungi_setting_fn rungi_rung_workers, rungi_rung_prefetch, rungi_rung_worker_nice, rungi_rung_pinned,
    rungi_rung_non_blocking, rungi_rung_augment_device, rungi_rung_pack, rungi_rung_pack_rows,
    rungi_rung_pack_raw, rungi_rung_preloaded;
// rungs_ranks.c
rungi_setting_fn rungi_rung_ddp, rungi_rung_ddp_overlap, rungi_rung_ddp_bucket,
    rungi_rung_ddp_shard, rungi_rung_ddp_fuse, rungi_rung_ddp_sync_norm, rungi_rung_ddp_compress,
    rungi_rung_parameter_server, rungi_rung_ps_async;
rungi_effect_fn rungi_rung_ddp_effect, rungi_rung_parameter_server_effect;
// rungs_devices.c
rungi_setting_fn rungi_rung_data_parallel, rungi_rung_dp_output_device,
    rungi_rung_dp_parallel_criterion, rungi_rung_pipeline, rungi_rung_pipeline_gpipe,
    rungi_rung_pipeline_1f1b;
rungi_effect_fn rungi_rung_data_parallel_effect, rungi_rung_dp_parallel_criterion_effect,
    rungi_rung_pipeline_effect, rungi_rung_micro_effect;

#endif
