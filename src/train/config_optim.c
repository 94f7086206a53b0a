// SPDX-License-Identifier: Apache-2.0
// From the configuration to the structs of the optimizer and the schedule.
#include "train/train_config.h"

rung_optimizer_options rungi_config_optimizer(const rungi_train_config *values)
{
    const rungi_optim_config *c = &values->optim;
    rung_optimizer_options o = rung_optimizer_defaults(c->name);
    o.lr = c->lr;
    if (c->weight_decay >= 0)
        o.weight_decay = c->weight_decay;
    if (c->name == RUNG_OPTIMIZER_SGD) {
        o.momentum = c->momentum;
        o.dampening = c->dampening;
        o.nesterov = c->nesterov;
    } else {
        o.betas[0] = c->betas.data[0];
        o.betas[1] = c->betas.data[1];
        o.eps = c->eps;
    }
    return o;
}

rung_schedule rungi_config_schedule(const rungi_train_config *values)
{
    const rungi_schedule_config *c = &values->schedule;
    rung_schedule s = rung_schedule_defaults(c->name);
    s.unit = c->unit;
    s.lr = values->optim.lr;
    s.warmup = c->warmup;
    s.start_factor = c->start_factor;
    s.step_size = c->step_size;
    if (c->gamma > 0)
        s.gamma = c->gamma;
    s.milestone_count = (int)c->milestones.count;
    for (size_t i = 0; i < c->milestones.count && i < RUNG_SCHEDULE_MILESTONES; i++)
        s.milestones[i] = c->milestones.data[i];
    s.total_iters = c->total_iters;
    s.power = c->power;
    s.T_max = c->T_max;
    s.eta_min = c->eta_min;
    s.total_steps = c->total_steps;
    s.max_lr = c->max_lr;
    s.pct_start = c->pct_start;
    s.anneal_strategy = c->anneal_strategy;
    s.div_factor = c->div_factor;
    s.final_div_factor = c->final_div_factor;
    s.cycle_momentum = c->cycle_momentum;
    s.base_momentum = c->base_momentum;
    s.max_momentum = c->max_momentum;
    s.mode = c->mode;
    s.factor = c->factor;
    s.patience = c->patience;
    s.threshold = c->threshold;
    s.threshold_mode = c->threshold_mode;
    s.cooldown = c->cooldown;
    s.min_lr = c->min_lr;
    s.eps = c->eps;
    return s;
}
