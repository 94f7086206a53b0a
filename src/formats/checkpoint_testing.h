// SPDX-License-Identifier: Apache-2.0
// A small checkpoint whose contents follow from its step, for the tests of checkpoints.
#ifndef RUNGI_FORMATS_CHECKPOINT_TESTING_H
#define RUNGI_FORMATS_CHECKPOINT_TESTING_H

#include "scratch.h"

#include "formats/checkpoint_folder.h"

enum { DEMO_COUNT = 3000 }; // elements of the large tensors

static inline float demo_value(int step, int i)
{
    return (float)((step * 31 + i) % 997);
}

static inline rung_status demo_save(rungi_checkpoints *checkpoints, const char *name, int step)
{
    static float weight[DEMO_COUNT], moment[DEMO_COUNT];
    static uint16_t half[8];
    int64_t steps = step;
    for (int i = 0; i < DEMO_COUNT; i++) {
        weight[i] = demo_value(step, i);
        moment[i] = -weight[i];
    }
    for (int i = 0; i < 8; i++)
        half[i] = (uint16_t)(step + i);
    rungi_safetensors_source model[] = {
        {.name = "conv1.weight",
         .dtype = RUNG_F32,
         .shape = RUNG_SHAPE(DEMO_COUNT),
         .data = weight},
        {.name = "conv1.bias", .dtype = RUNG_BF16, .shape = RUNG_SHAPE(8), .data = half},
    };
    rungi_safetensors_source optimizer[] = {
        {.name = "step", .dtype = RUNG_I64, .shape = RUNG_SCALAR, .data = &steps},
        {.name = "conv1.weight.exp_avg",
         .dtype = RUNG_F32,
         .shape = RUNG_SHAPE(DEMO_COUNT),
         .data = moment},
    };
    rungi_checkpoint_file files[] = {
        {RUNGI_CHECKPOINT_MODEL, model, 2},
        {RUNGI_CHECKPOINT_OPTIMIZER, optimizer, 2},
    };
    json_t *state = json_pack("{s:i, s:f, s:s}", "step", step, "loss", 1.0 / (step + 1), "seed",
                              "18446744073709551615");
    rung_status status = rungi_checkpoints_save(checkpoints, name, files, 2, state);
    json_decref(state);
    return status;
}

static inline rung_status demo_save_step(rungi_checkpoints *checkpoints, int step)
{
    char name[32];
    snprintf(name, sizeof name, "step-%08d", step);
    return demo_save(checkpoints, name, step);
}

// The step of an open checkpoint, after comparing its tensors with it.
static inline int demo_check(rungi_checkpoint *checkpoint)
{
    static float weight[DEMO_COUNT];
    int step = (int)json_integer_value(json_object_get(rungi_checkpoint_state(checkpoint), "step"));
    rung_safetensors *model = rungi_checkpoint_tensors(checkpoint, RUNGI_CHECKPOINT_MODEL);
    assert_non_null(model);
    rung_view view = {RUNG_F32, RUNG_SHAPE(DEMO_COUNT), weight};
    assert_ok(rung_safetensors_load(model, "conv1.weight", &view, NULL));
    for (int i = 0; i < DEMO_COUNT; i++)
        assert_true(weight[i] == demo_value(step, i));
    return step;
}

// The step of the newest good checkpoint of a folder, -1 when it has none.
static inline int demo_newest(const char *root)
{
    rungi_checkpoint *checkpoint = NULL;
    rung_status status = rungi_checkpoint_open_newest(root, NULL, NULL, &checkpoint);
    if (status == RUNG_NOT_FOUND)
        return -1;
    assert_ok(status);
    int step = demo_check(checkpoint);
    rungi_checkpoint_close(&checkpoint);
    return step;
}

#endif
