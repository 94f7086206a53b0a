// SPDX-License-Identifier: Apache-2.0
// All of rung's public headers, for programs that use it.
#ifndef RUNG_RUNG_H
#define RUNG_RUNG_H

#include "rung/checkpoint.h"
#include "rung/compare.h"
#include "rung/config.h"
#include "rung/context.h"
#include "rung/convert.h"
#include "rung/data.h"
#include "rung/data_tools.h"
#include "rung/device.h"
#include "rung/env.h"
#include "rung/graph.h"
#include "rung/image.h"
#include "rung/ladder.h"
#include "rung/loss_scale.h"
#include "rung/models.h"
#include "rung/nn.h"
#include "rung/npy.h"
#include "rung/opbench.h"
#include "rung/ops.h"
#include "rung/optim.h"
#include "rung/pack.h"
#include "rung/plan.h"
#include "rung/predict.h"
#include "rung/roofline.h"
#include "rung/safetensors.h"
#include "rung/scale.h"
#include "rung/schedule.h"
#include "rung/state.h"
#include "rung/status.h"
#include "rung/tensor.h"
#include "rung/text.h"
#include "rung/train.h"
#include "rung/tuning.h"

#endif
