// SPDX-License-Identifier: Apache-2.0
// Loss scaling for training in float16, as PyTorch's GradScaler does it (Micikevicius et al., Mixed
// Precision Training, 2018): the loss is multiplied by a scale, so that small gradients do not
// vanish; gradients are divided by it before anything else looks at them. A step whose gradients
// overflowed is left out, and the scale halved; after a number of good steps it is doubled.
// bfloat16 has float32's range and needs none of this.
//
//   rung_loss_scale scale = rung_loss_scale_defaults();
//   ...
//   rung_plan_set_loss_scale(plan, (float)scale.scale);
//   rung_plan_forward(plan), rung_plan_backward(plan)
//   rung_loss_scale_step(&scale, optimizer, params, grads, &update, &report);
//
// The last call is the whole of unscaling, clipping, updating and finding the next scale, in this
// order: there is no other order to get wrong. No further pass over the gradients is made for it:
// whether they are finite is found in that of the norm, dividing is part of the update.
#ifndef RUNG_LOSS_SCALE_H
#define RUNG_LOSS_SCALE_H

#include "rung/optim.h"

#ifdef __cplusplus
extern "C" {
#endif

// The scale never goes below 1. When so many steps in a row have been left out at 1, it is the
// model or the data that is broken, and rung_loss_scale_step fails.
enum { RUNG_LOSS_SCALE_PATIENCE = 10 };

typedef struct rung_loss_scale {
    double scale;            // default 65536
    int64_t growth_interval; // good steps after which it is doubled; default 2000
    // Progress; goes into checkpoints with the scale.
    int64_t good;     // steps since the scale was last changed
    int64_t skipped;  // steps left out, in all
    int64_t at_floor; // left out in a row while the scale was 1
} rung_loss_scale;

RUNG_API rung_loss_scale rung_loss_scale_defaults(void);

// A step of the optimizer with gradients that are `scale` times the true ones (update->loss_scale
// is not looked at): as rung_optimizer_step, but that gradients which are not finite lead to
// RUNG_OK with report.applied = false and a smaller scale. `report_out` may be NULL.
// Errors: those of rung_optimizer_step; RUNG_DIVERGED naming the first parameter whose gradient is
// not finite, after RUNG_LOSS_SCALE_PATIENCE steps in a row left out at scale 1.
RUNG_API rung_status rung_loss_scale_step(rung_loss_scale *scale, rung_optimizer *optimizer,
                                          float *params, const float *grads,
                                          const rung_optimizer_update *update,
                                          rung_optimizer_report *report_out);

#ifdef __cplusplus
}
#endif

#endif
