// SPDX-License-Identifier: Apache-2.0
#include "rung/loss_scale.h"

#include "base/error.h"
#include "optim/optimizer.h"

#define LARGEST 0x1p126 // so that 1 / scale stays a normal float32

rung_loss_scale rung_loss_scale_defaults(void)
{
    return (rung_loss_scale){.scale = 65536, .growth_interval = 2000};
}

static void grow(rung_loss_scale *s)
{
    s->at_floor = 0;
    if (++s->good < s->growth_interval)
        return;
    s->good = 0;
    if (s->scale <= LARGEST / 2)
        s->scale *= 2;
}

static void back_off(rung_loss_scale *s)
{
    s->at_floor = s->scale <= 1 ? s->at_floor + 1 : 0;
    s->scale = s->scale / 2 < 1 ? 1 : s->scale / 2;
    s->good = 0;
    s->skipped++;
}

rung_status rungi_loss_scale_note(rung_loss_scale *s, const rung_optimizer *optimizer,
                                  const rung_optimizer_report *report)
{
    if (report->applied)
        grow(s);
    else
        back_off(s);
    RUNG_CHECK(s->at_floor < RUNG_LOSS_SCALE_PATIENCE || report->nonfinite < 0, RUNG_DIVERGED,
               "the gradient of %s is not finite, in %d steps in a row at a loss scale of 1",
               optimizer->segments[report->nonfinite].name, RUNG_LOSS_SCALE_PATIENCE);
    return RUNG_OK;
}

rung_status rungi_loss_scale_step_with(rung_loss_scale *s, rung_optimizer *optimizer, float *params,
                                       const float *grads, const rung_optimizer_update *update,
                                       const rungi_optimizer_peers *peers,
                                       rung_optimizer_report *report_out)
{
    rung_optimizer_update u = *update;
    rung_optimizer_report report;
    u.loss_scale = s->scale;
    u.skip_nonfinite = true;
    RUNG_TRY(rungi_optimizer_step_with(optimizer, params, grads, &u, peers, &report));
    if (report_out)
        *report_out = report;
    return rungi_loss_scale_note(s, optimizer, &report);
}

rung_status rung_loss_scale_step(rung_loss_scale *s, rung_optimizer *optimizer, float *params,
                                 const float *grads, const rung_optimizer_update *update,
                                 rung_optimizer_report *report_out)
{
    return rungi_loss_scale_step_with(s, optimizer, params, grads, update, NULL, report_out);
}
