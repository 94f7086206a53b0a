// SPDX-License-Identifier: Apache-2.0
// The keys of model.
#include "train/options_tables.h"

static const char *const models[] = {"mlp", "lenet5", "fashion_cnn", "dlf_cnn", "resnet18", NULL};
static const char *const stems[] = {
    [RUNG_STEM_IMAGENET] = "imagenet",
    [RUNG_STEM_CIFAR] = "cifar",
    NULL,
};
static const char *const norms[] = {
    [RUNGI_FROZEN_NORM_TRAIN] = "train",
    [RUNGI_FROZEN_NORM_EVAL] = "eval",
    NULL,
};

static const rungi_option_word auto_words[] = {{"auto", 0}, {0}};
static const rungi_option_word default_words[] = {{"default", -1}, {0}};

const rungi_option rungi_model_options[] = {
    {.key = "model.name",
     .type = RUNGI_OPTION_TEXT,
     RUNGI_AT(rungi_model_config, name),
     .initial = "",
     .choices = models,
     .help = "Network to train."},
    {.key = "model.classes",
     .type = RUNGI_OPTION_INT,
     RUNGI_AT(rungi_model_config, classes),
     .initial = "auto",
     .range = "[1, 16777216]",
     .words = auto_words,
     .help = "Classes that it tells apart. auto: those of the data set."},
    {.key = "model.hidden",
     .type = RUNGI_OPTION_INTS,
     RUNGI_AT(rungi_model_config, hidden),
     .initial = "[512]",
     .range = "[1, 16777216]",
     .unit = "units",
     .help = "mlp: sizes of the hidden layers."},
    {.key = "model.dropout",
     .type = RUNGI_OPTION_REAL,
     RUNGI_AT(rungi_model_config, dropout),
     .initial = "default",
     .range = "[0, 1]",
     .words = default_words,
     .help = "Probability of dropping in the model's dropout layers. default: what the model was "
             "published with."},
    {.key = "model.stem",
     .type = RUNGI_OPTION_CHOICE,
     RUNGI_AT(rungi_model_config, stem),
     .initial = "imagenet",
     .choices = stems,
     .help = "resnet18: imagenet begins with a 7x7 convolution of stride 2 and a pool, cifar with "
             "a 3x3 convolution."},
    {.key = "model.weights",
     .type = RUNGI_OPTION_TEXT,
     RUNGI_AT(rungi_model_config, weights),
     .initial = "",
     .help = "Weights and buffers to start from: a safetensors file, a checkpoint, or a run folder "
             "(its latest checkpoint). Empty: the seed's initial values."},
    {.key = "model.weights_except",
     .type = RUNGI_OPTION_TEXTS,
     RUNGI_AT(rungi_model_config, weights_except),
     .initial = "[]",
     .help = "Tensors that keep their initial values all the same, by patterns of their names with "
             "* and ?: [fc.*] gives a pretrained network a new last layer."},
    {.key = "model.freeze",
     .type = RUNGI_OPTION_TEXTS,
     RUNGI_AT(rungi_model_config, freeze),
     .initial = "[]",
     .help = "Parameters that are not trained, by patterns of their names with * and ?."},
    {.key = "model.frozen_batch_norm",
     .type = RUNGI_OPTION_CHOICE,
     RUNGI_AT(rungi_model_config, frozen_batch_norm),
     .initial = "train",
     .choices = norms,
     .help = "Batch normalization whose parameters are frozen: train uses and updates batch "
             "statistics (as PyTorch does), eval uses the running ones."},
    {0},
};
