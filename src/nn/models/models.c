// SPDX-License-Identifier: Apache-2.0
#include "nn/models/models.h"

#include <string.h>

#include "base/error.h"
#include "base/text.h"

typedef struct model {
    const char *name, *about;
    rungi_model_fn build;
} model;

static const model models[] = {
    {"mlp", "fully connected layers with ReLU", rungi_model_mlp},
    {"lenet5", "LeNet-5 with ReLU and max pooling (LeCun et al. 1998)", rungi_model_lenet5},
    {"fashion_cnn", "two 3x3 convolutions and two linear layers, for 28x28 images",
     rungi_model_fashion_cnn},
    {"dlf_cnn", "VGG-style network of DeepLearningFrameworks, for 3x32x32 images",
     rungi_model_dlf_cnn},
    {"resnet18", "ResNet-18 as in torchvision, with an ImageNet or a CIFAR stem",
     rungi_model_resnet18},
};

enum { MODELS = (int)(sizeof models / sizeof *models) };

const char *rung_model_name(int index)
{
    return index >= 0 && index < MODELS ? models[index].name : NULL;
}

const char *rung_model_about(int index)
{
    return index >= 0 && index < MODELS ? models[index].about : NULL;
}

rung_status rung_model_build(rung_graph *graph, const char *name, const rung_model_options *options,
                             rung_value image, rung_value *logits_out)
{
    const char *names[MODELS];
    for (int i = 0; i < MODELS; i++) {
        names[i] = models[i].name;
        if (strcmp(models[i].name, name) == 0) {
            *logits_out = models[i].build(graph, image, options);
            return RUNG_OK;
        }
    }
    const char *nearest = rungi_text_nearest(name, names, MODELS);
    return RUNG_FAIL(RUNG_NOT_FOUND, "there is no model '%s'%s%s%s", name,
                     nearest ? " (did you mean '" : "", nearest ? nearest : "",
                     nearest ? "'?)" : "");
}
