// SPDX-License-Identifier: Apache-2.0
#ifndef RUNGI_NN_MODELS_H
#define RUNGI_NN_MODELS_H

#include "rung/models.h"

typedef rung_value (*rungi_model_fn)(rung_graph *g, rung_value x, const rung_model_options *o);

rung_value rungi_model_mlp(rung_graph *g, rung_value x, const rung_model_options *o);
rung_value rungi_model_lenet5(rung_graph *g, rung_value x, const rung_model_options *o);
rung_value rungi_model_dlf_cnn(rung_graph *g, rung_value x, const rung_model_options *o);
rung_value rungi_model_resnet18(rung_graph *g, rung_value x, const rung_model_options *o);
rung_value rungi_model_fashion_cnn(rung_graph *g, rung_value x, const rung_model_options *o);

#endif
