// SPDX-License-Identifier: Apache-2.0
// The stages of a session (train.strategy pipeline): which layers each rank has, and what the ranks
// bring together. The session's graph, state, optimizer and engine are those of its own stage;
// parameters, buffers and optimizer state have the names of the whole network, so that checkpoints
// are those of any other strategy.
#ifndef RUNGI_TRAIN_SESSION_STAGES_H
#define RUNGI_TRAIN_SESSION_STAGES_H

#include "base/json.h"
#include "graph/state.h"
#include "train/pipeline_stages.h"
#include "train/session.h"
#include "train/session_state.h"

struct rungi_session_stages {
    rung_graph *whole;
    int count, micro, total; // micro-batches of a batch, and of all that train.accumulate adds up
    rungi_stage_info info[RUNGI_PIPELINE_STAGES];
    rungi_part part; // this rank's; its graph is the session's
    // Batches come from rank 0: what the others get of one.
    char *shared;
    uint64_t shared_bytes;
    // On rank 0, while a checkpoint is written: what each stage has.
    struct rungi_stage_tensors *tensors;
};

// Cuts the session's graph: s->graph becomes that of this rank's stage. Collective.
// Errors: those of rungi_stages_choose; RUNG_UNSUPPORTED when a later stage reads pictures.
rung_status rungi_session_make_stages(rungi_session *s);
void rungi_session_drop_stages(rungi_session *s);

// The network as a whole: s->graph where there are no stages.
const rung_graph *rungi_session_whole(const rungi_session *s);
int64_t rungi_session_param_count(const rungi_session *s);
// Does this rank make the network's logits?
bool rungi_session_has_logits(const rungi_session *s);

// Gives the batch that rank 0 has to all ranks, without the pictures, and with memory that is
// theirs until the next one. Collective.
rung_status rungi_session_share_batch(rungi_session *s, rung_batch *batch);

// The optimizer's step of all stages: as rungi_session_update_params, with the norm of all
// gradients, in the order of one device. Every rank takes the step, or none. Collective.
rung_status rungi_session_update_stages(rungi_session *s, const rung_optimizer_update *update,
                                        rung_optimizer_report *report_out);

// Brings parameters, buffers, optimizer state and its step counts to rank 0, with `gradients` these
// too; and lets them go. Collective.
rung_status rungi_session_join_stages(rungi_session *s, bool gradients);
void rungi_session_part_stages(rungi_session *s);
// On rank 0 between the two: the tensors of all stages, for a checkpoint, in the order of one
// device; and the steps of the optimizer on each parameter, added to `steps` (a JSON object).
rung_status rungi_session_stages_model(const rungi_session *s, rungi_sources *out);
rung_status rungi_session_stages_optimizer(const rungi_session *s, rungi_sources *out);
// A parameter or buffer, with its gradient where that was joined; false: there is none.
bool rungi_session_stages_find(const rungi_session *s, const char *name, rung_state_entry *out);
void rungi_session_stages_steps(const rungi_session *s, json_t *steps);

// Adds a table of the stages: layers, share of the time, bytes.
void rungi_session_stages_text(const rungi_session *s, rungi_string *out);

#endif
