// SPDX-License-Identifier: Apache-2.0
// Public options to operator attributes, shared by the functional and the layer forms.
#ifndef RUNGI_NN_ATTR_H
#define RUNGI_NN_ATTR_H

#include "ops/batch_norm/batch_norm.h"
#include "ops/conv2d/conv2d.h"
#include "ops/pool_window.h"
#include "rung/ops.h"

rungi_conv2d_attr rungi_conv2d_attr_of(const rung_conv2d_options *options);
rungi_pool_attr rungi_pool_attr_of(const rung_pool2d_options *options);
rungi_batch_norm_attr rungi_batch_norm_attr_of(const rung_batch_norm_options *options);

#endif
