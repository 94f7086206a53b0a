// SPDX-License-Identifier: Apache-2.0
#ifndef RUNGI_OPS_LINEAR_H
#define RUNGI_OPS_LINEAR_H

#include "ops/op.h"

extern const rungi_kernel *const rungi_linear_forward_cpu[];
extern const rungi_kernel *const rungi_linear_weight_cpu[];
extern const rungi_kernel *const rungi_linear_data_cpu[];

#endif
