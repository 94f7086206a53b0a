// SPDX-License-Identifier: Apache-2.0
// Prediction with a trained network, from its run folder alone: the data set need not be there.
//
//   rung_predictor *predictor;
//   rung_image image;
//   float probabilities[10];
//   rung_predictor_open(context, "runs/first", "best", &predictor);
//   rung_image_read("boot.png", 1, &image);
//   rung_predictor_run(predictor, &image, 1, probabilities);
//
// Pictures go through the transforms of validation (data.pad, data.repeat_channels,
// data.normalize), so that probabilities are those that validation would have computed.
#ifndef RUNG_PREDICT_H
#define RUNG_PREDICT_H

#include <stdint.h>

#include "rung/context.h"
#include "rung/image.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rung_predictor rung_predictor;

// Opens a run folder and the weights of its `checkpoint` ("latest", "best", a name). The caller
// owns the predictor and destroys it before the context, which should have the instruction set of
// the run (rung_run_config, rung_config_isa).
// Errors: RUNG_NOT_FOUND; RUNG_CORRUPT, RUNG_FORMAT for a damaged checkpoint; RUNG_UNSUPPORTED when
// the network was not trained on pictures of bytes.
RUNG_API rung_status rung_predictor_open(rung_context *context, const char *run,
                                         const char *checkpoint, rung_predictor **predictor_out);
RUNG_API void rung_predictor_destroy(rung_predictor **predictor);

// What a predictor takes and gives. `class_names` (of the first `named` classes) is NULL when the
// data set had none; borrowed.
typedef struct rung_predictor_info {
    int channels, height, width; // of a picture, as the data set had them; height and width 0: any
    int64_t classes;
    int64_t named;
    const char *const *class_names;
} rung_predictor_info;

RUNG_API rung_predictor_info rung_predictor_describe(const rung_predictor *predictor);

// Predicts `count` pictures of that size: probabilities_out[i * classes + k] is the probability of
// class k for picture i (softmax of the network's output).
// Errors: RUNG_MISMATCH with both sizes for a picture of another size; RUNG_NO_MEMORY.
RUNG_API rung_status rung_predictor_run(rung_predictor *predictor, const rung_image *images,
                                        int count, float *probabilities_out);

#ifdef __cplusplus
}
#endif

#endif
