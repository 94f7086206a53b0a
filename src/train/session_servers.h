// SPDX-License-Identifier: Apache-2.0
// A session's part in strategy parameter_server (comm/param_server.h).
//
// ps.mode sync: a step is that of ddp; gradients go to the servers (exchange.h), each of which
// updates its range, and all ranks pull. async: each worker computes for itself, with the divisors
// of its own part of the batch, pushes and pulls; it meets the others for what concerns all
// (validation, checkpoints, the ends of epochs). Running statistics of batch normalization are then
// each worker's own, and become the mean over the workers where they meet.
#ifndef RUNGI_TRAIN_SESSION_SERVERS_H
#define RUNGI_TRAIN_SESSION_SERVERS_H

#include "comm/param_server.h"
#include "train/session.h"

// Servers of the session, async; else NULL. Borrowed.
const rungi_ps *rungi_session_servers_of(const rungi_session *s);

// Makes them and the optimizer: the state of a hosted range lies in the server's memory.
// Collective.
rung_status rungi_session_make_servers(rungi_session *s, const rung_optimizer_options *o);
void rungi_session_destroy_servers(rungi_session *s);

// Gives the gradient of the last step to the servers. As rung_optimizer_step: what is clipped by
// norm is this worker's gradient, whose norm is computed in any case: one that is not finite would
// spoil what all have.
rung_status rungi_session_push(rungi_session *s, const rung_optimizer_update *update, int64_t step,
                               rung_optimizer_report *report_out);

#endif
