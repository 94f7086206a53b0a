// SPDX-License-Identifier: Apache-2.0
// What train.strategy pipeline needs, and what does not go with it.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "train/train_config.h"

bool rungi_config_splits(const rungi_train_config *v)
{
    const rungi_texts *list = &v->pipeline.split_points;
    return list->count != 1 || strcmp(list->data[0], "auto") != 0;
}

// A stage by its number, or by its device.
static int stage_of(const rungi_train_config *v, const char *text)
{
    const rungi_texts *list = &v->device.list;
    char *end;
    for (size_t i = 0; list->count > 1 && i < list->count; i++)
        if (strcmp(list->data[i], text) == 0)
            return (int)i;
    if (list->count <= 1 && strncmp(text, "cpu:", 4) == 0) // a rank's own, where none are named
        text += 4;
    long stage = strtol(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && stage < RUNGI_PIPELINE_STAGES ? (int)stage : -1;
}

int rungi_config_placed(const rungi_train_config *v, size_t index, char *pattern, size_t size)
{
    const char *text = v->pipeline.placement.data[index], *colon = strchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : strlen(text);
    while (length && text[length - 1] == ' ')
        length--;
    snprintf(pattern, size, "%.*s", (int)length, text);
    return colon && length ? stage_of(v, colon + 1 + strspn(colon + 1, " ")) : -1;
}

int64_t rungi_config_micro_batches(const rungi_train_config *v, int64_t ranks, int64_t batch)
{
    enum { EACH = 4 };
    int64_t micro = v->pipeline.micro_batches ? v->pipeline.micro_batches : EACH * ranks;
    if (v->pipeline.schedule == RUNGI_PIPELINE_NONE)
        return 1;
    micro = micro < RUNGI_PIPELINE_MICRO ? micro : RUNGI_PIPELINE_MICRO;
    return micro < batch ? micro : batch;
}

// Keys that would have no effect are refused.
static rung_status check_others(const rungi_options *o, const rungi_train_config *v)
{
    if (v->exact)
        return rungi_options_fail(o, "exact",
                                  "cannot be combined with train.strategy pipeline, whose stages "
                                  "have no shards of a batch: switch it off");
    const struct {
        const char *key;
        bool on;
    } of_replicas[] = {{"ddp.overlap", v->ddp.overlap},
                       {"ddp.shard_optimizer", v->ddp.shard_optimizer},
                       {"ddp.fuse_update", v->ddp.fuse_update},
                       {"ddp.sync_batch_norm", v->ddp.sync_batch_norm},
                       {"ddp.compress", v->ddp.compress != RUNG_F32},
                       {"ddp.bucket_size", v->ddp.bucket_size != RUNGI_DDP_BUCKET}};
    for (size_t i = 0; i < sizeof of_replicas / sizeof *of_replicas; i++)
        if (of_replicas[i].on)
            return rungi_options_fail(o, of_replicas[i].key,
                                      "is for replicas that add their gradients; with "
                                      "train.strategy pipeline each rank has its own layers: leave "
                                      "it out");
    if (v->data.batch_per_device)
        return rungi_options_fail(o, "data.batch_per_device",
                                  "cannot be combined with train.strategy pipeline, whose devices "
                                  "all work on every sample: say data.batch_size");
    return RUNG_OK;
}

static rung_status check_placement(const rungi_options *o, const rungi_train_config *v,
                                   int64_t ranks)
{
    char pattern[128];
    if (v->pipeline.placement.count && rungi_config_splits(v))
        return rungi_options_fail(o, "pipeline.placement",
                                  "cannot be combined with pipeline.split_points: set one of them");
    for (size_t i = 0; i < v->pipeline.placement.count; i++) {
        int stage = rungi_config_placed(v, i, pattern, sizeof pattern);
        if (stage < 0)
            return rungi_options_fail(o, "pipeline.placement",
                                      "has '%s': write a pattern of layers and a stage or device, "
                                      "as in 'conv*: 0'",
                                      v->pipeline.placement.data[i]);
        if (ranks > 1 && stage >= ranks)
            return rungi_options_fail(o, "pipeline.placement",
                                      "places '%s' on stage %d; of %" PRId64
                                      " ranks the last is %" PRId64,
                                      pattern, stage, ranks, ranks - 1);
    }
    return RUNG_OK;
}

rung_status rungi_train_config_check_pipeline(const rungi_options *o, const rungi_train_config *v,
                                              int64_t ranks)
{
    size_t points = v->pipeline.split_points.count;
    if (v->train.strategy != RUNGI_STRATEGY_PIPELINE)
        return RUNG_OK;
    RUNG_TRY(check_others(o, v));
    RUNG_TRY(check_placement(o, v, ranks));
    for (size_t i = 0; i < points && rungi_config_splits(v); i++)
        if (strcmp(v->pipeline.split_points.data[i], "auto") == 0)
            return rungi_options_fail(o, "pipeline.split_points",
                                      "has 'auto' among layers: it stands alone");
    if (ranks > 1 && rungi_config_splits(v) && (int64_t)points != ranks - 1)
        return rungi_options_fail(o, "pipeline.split_points",
                                  "names %zu layers for %" PRId64 " ranks: each but the first "
                                  "begins with one",
                                  points, ranks);
    return RUNG_OK;
}

void rungi_train_config_note_pipeline(const rungi_options *o, const rungi_train_config *v,
                                      rung_context *context)
{
    const struct {
        const char *key;
        bool on;
    } keys[] = {{"pipeline.schedule", v->pipeline.schedule != RUNGI_PIPELINE_NONE},
                {"pipeline.micro_batches", v->pipeline.micro_batches != 0},
                {"pipeline.split_points", rungi_config_splits(v)},
                {"pipeline.placement", v->pipeline.placement.count > 0}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (v->train.strategy != RUNGI_STRATEGY_PIPELINE && keys[i].on)
            rungi_options_note(o, context, keys[i].key,
                               "ignored, because train.strategy is not pipeline");
    if (v->train.strategy == RUNGI_STRATEGY_PIPELINE &&
        v->pipeline.schedule == RUNGI_PIPELINE_NONE && v->pipeline.micro_batches > 1)
        rungi_options_note(o, context, "pipeline.micro_batches",
                           "ignored, because pipeline.schedule none takes a batch as a whole");
}
