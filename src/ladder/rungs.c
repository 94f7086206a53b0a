// SPDX-License-Identifier: Apache-2.0
// The table of rungs.
#include "ladder/rungs_inside.h"

#include <stdio.h>
#include <string.h>

#include "rung/ladder.h"

bool rungi_rung_cannot(char *why, size_t size, const char *reason)
{
    snprintf(why, size, "%s", reason);
    return false;
}

// Has the network batch normalization, which sees no more than what is computed at once?
bool rungi_rung_normalizes(const rungi_train_config *c)
{
    return strcmp(c->model.name, "resnet18") == 0;
}

const char *const rungi_rung_one_rank = "there is one rank: the rung ddp was not kept";

const rungi_rung rungi_rungs[] = {
    {RUNGI_RUNG_CEILING, "data from memory: the ceiling of supply", RUNGI_SEMANTIC,
     rungi_rung_preloaded,
     .not_kept = "a ceiling, not kept: the same order and augmentation in each epoch"},
    {"channels_last", "images as NHWC", RUNGI_NUMERIC, rungi_rung_channels_last},
    {"blocked", "images in blocks of 8 or 16 channels", RUNGI_NUMERIC, rungi_rung_blocked},
    {"fuse", "bias and activation inside of convolution and linear", RUNGI_NUMERIC,
     .switches = "plan.fuse=true"},
    {"own_kernels", "rung's own kernels where they are better", RUNGI_NUMERIC,
     .switches = "plan.kernels=own"},
    {"winograd", "3x3 convolutions by Winograd's method", RUNGI_NUMERIC, rungi_rung_winograd},
    {"fuse_optimizer", "weights updated where their gradient is computed", RUNGI_EXACT,
     rungi_rung_fuse_optimizer},
    {"autotune", "the fastest of several kernels, measured", RUNGI_NUMERIC, rungi_rung_autotune},
    {"workers", "threads that load while the network trains", RUNGI_EXACT, rungi_rung_workers},
    {"worker_nice", "threads that load leave the cores to those that compute", RUNGI_EXACT,
     rungi_rung_worker_nice},
    {"prefetch", "more batches ahead", RUNGI_EXACT, rungi_rung_prefetch},
    {"pinned", "copies to the device from pinned memory", RUNGI_EXACT, rungi_rung_pinned},
    {"non_blocking", "copies to the device while it computes", RUNGI_EXACT,
     rungi_rung_non_blocking},
    {"augment_device", "batches travel as bytes, the device augments them", RUNGI_EXACT,
     rungi_rung_augment_device},
    {"pack", "the pictures' files in one pack", RUNGI_EXACT, rungi_rung_pack,
     .packing = RUNGI_PACKING_FILES},
    {"pack_rows", "JPEGs in a pack whose rows above a crop are passed over", RUNGI_EXACT,
     rungi_rung_pack_rows, .packing = RUNGI_PACKING_ROWS},
    {"pack_raw", "a pack of pixels, decoded and resized before", RUNGI_EXACT, rungi_rung_pack_raw,
     .effect_in = rungi_pack_raw_effect,
     .not_kept = "not kept: random parts are cut from pictures that were resized before",
     .packing = RUNGI_PACKING_RAW},
    {"huge_pages", "large buffers in huge pages", RUNGI_EXACT, rungi_rung_huge_pages},
    {"recompute", "less memory: backward computes again what is cheap", RUNGI_EXACT,
     rungi_rung_recompute},
    {"bf16", "half the memory of activations: bfloat16", RUNGI_NUMERIC, rungi_rung_bf16},
    {"winograd_f4", "bf16's Winograd in larger tiles, which round more", RUNGI_NUMERIC,
     rungi_rung_winograd_f4},
    {"fp16", "the same in float16, with a loss scale", RUNGI_NUMERIC, rungi_rung_fp16},
    {"accumulate", "less memory: halves of the batch, their gradients added", RUNGI_NUMERIC,
     rungi_rung_accumulate, .effect_in = rungi_rung_accumulate_effect,
     .not_kept = "not kept: batch normalization would see halves of the batch"},
    {"large_batch", "twice the batch, where memory has room for it", RUNGI_SEMANTIC,
     rungi_rung_large_batch,
     .not_kept = "not kept: steps of another batch are another training, judge it by its accuracy"},
    {"threads", "another number of threads", RUNGI_NUMERIC, rungi_rung_threads},
    {"ddp", "a rank on each core, each with a part of the batch", RUNGI_NUMERIC, rungi_rung_ddp,
     .effect_in = rungi_rung_ddp_effect,
     .not_kept = "not kept: batch normalization, or mixing, would see a rank's part of the batch"},
    {"ddp_overlap", "gradients added over the ranks during backward", RUNGI_EXACT,
     rungi_rung_ddp_overlap},
    {"ddp_bucket", "smaller buckets of gradients", RUNGI_EXACT, rungi_rung_ddp_bucket},
    {"ddp_shard", "each rank updates its part of the parameters", RUNGI_EXACT,
     rungi_rung_ddp_shard},
    {"ddp_fuse", "the same, gradients added and weights given in one pass", RUNGI_EXACT,
     rungi_rung_ddp_fuse},
    {"ddp_sync_norm", "batch normalization by the whole batch's statistics", RUNGI_SEMANTIC,
     rungi_rung_ddp_sync_norm, .not_kept = "not kept: it changes what is trained"},
    {"ddp_compress", "gradients exchanged as bf16", RUNGI_NUMERIC, rungi_rung_ddp_compress},
    {"data_parallel", "all devices of device.list, each with a part of the batch", RUNGI_NUMERIC,
     rungi_rung_data_parallel, .effect_in = rungi_rung_data_parallel_effect,
     .not_kept = "not kept: batch normalization would see a device's part of the batch"},
    {"dp_output_device", "outputs and loss on the second device", RUNGI_EXACT,
     rungi_rung_dp_output_device},
    {"dp_parallel_criterion", "the loss on each device instead of a gather", RUNGI_NUMERIC,
     rungi_rung_dp_parallel_criterion, .effect_in = rungi_rung_dp_parallel_criterion_effect},
    {"pipeline", "each rank has some of the layers, one works at a time", RUNGI_NUMERIC,
     rungi_rung_pipeline, .effect_in = rungi_rung_pipeline_effect,
     .not_kept = "not kept: batch normalization, or mixing, would see the whole batch"},
    {"pipeline_gpipe", "micro-batches through the stages, forward and then backward", RUNGI_NUMERIC,
     rungi_rung_pipeline_gpipe, .effect_in = rungi_rung_micro_effect,
     .not_kept = "not kept: batch normalization would see a micro-batch"},
    {"pipeline_1f1b", "micro-batches in turn forward and backward: fewer are held", RUNGI_NUMERIC,
     rungi_rung_pipeline_1f1b, .effect_in = rungi_rung_micro_effect,
     .not_kept = "not kept: batch normalization would see a micro-batch"},
    {"parameter_server", "servers add gradients and update the weights", RUNGI_EXACT,
     rungi_rung_parameter_server, .effect_in = rungi_rung_parameter_server_effect},
    {"ps_async", "each worker updates the weights at its own pace", RUNGI_SEMANTIC,
     rungi_rung_ps_async, .not_kept = "not kept: the weights depend on who comes first"},
    {0},
};

const char *rung_ladder_rung_name(int index)
{
    return index >= 0 && index < RUNG_LADDER_RUNGS ? rungi_rungs[index].name : NULL;
}

const char *rung_ladder_rung_about(int index)
{
    return index >= 0 && index < RUNG_LADDER_RUNGS ? rungi_rungs[index].about : NULL;
}

const char *rung_verdict_name(rung_verdict verdict)
{
    static const char *const names[] = {"kept", "no clear change", "slower", "wrong",
                                        "not available"};
    return names[verdict];
}
