// SPDX-License-Identifier: Apache-2.0
// What a fused update of ranks needs of a configuration.
#include "train/train_config.h"

const char *rungi_config_unfused(const rungi_train_config *v)
{
    if (v->train.max_grad_norm > 0)
        return "train.max_grad_norm needs all gradients before any weight is updated";
    if (v->precision.dtype == RUNG_F16)
        return "fp16 looks at all gradients before it updates";
    if (v->train.on_nan == RUNGI_NAN_CONTINUE)
        return "train.on_nan continue looks at all gradients before it updates";
    if (v->train.log_every == 1)
        return "train.log_every is 1: each step takes the norm of all gradients before";
    return NULL;
}

rung_status rungi_train_config_check_ddp(const rungi_options *o, const rungi_train_config *v,
                                         rung_context *context)
{
    static const char key[] = "ddp.fuse_update";
    const rungi_ddp_config *d = &v->ddp;
    const char *why = rungi_config_unfused(v);
    if (!d->fuse_update)
        return RUNG_OK;
    if (!d->shard_optimizer)
        return rungi_options_fail(o, key,
                                  "needs ddp.shard_optimizer, with which a rank updates its part "
                                  "of the weights");
    if (d->compress != RUNG_F32)
        return rungi_options_fail(o, key,
                                  "cannot be combined with ddp.compress: gradients are read where "
                                  "they lie, and not sent");
    if (d->link_delay > 0 || d->link_rate > 0)
        return rungi_options_fail(o, key,
                                  "cannot be combined with %s: memory that ranks share is no "
                                  "network",
                                  d->link_delay > 0 ? "ddp.link_delay" : "ddp.link_rate");
    if (why)
        rungi_options_note(o, context, key, "ignored, because %s", why);
    else if (d->overlap)
        rungi_options_note(o, context, "ddp.overlap",
                           "without effect but in steps that log, because ddp.fuse_update adds "
                           "gradients when weights are updated");
    return RUNG_OK;
}
