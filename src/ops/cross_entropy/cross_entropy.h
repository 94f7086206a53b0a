// SPDX-License-Identifier: Apache-2.0
#ifndef RUNGI_OPS_CROSS_ENTROPY_H
#define RUNGI_OPS_CROSS_ENTROPY_H

#include "ops/class_loss.h"

extern const rungi_kernel *const rungi_cross_entropy_forward_cpu[];
extern const rungi_kernel *const rungi_cross_entropy_backward_cpu[];

#endif
