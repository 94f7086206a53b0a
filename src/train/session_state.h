// SPDX-License-Identifier: Apache-2.0
// Tensors of a session to a checkpoint and back: weights and buffers under their names, optimizer
// state as "conv1.weight.momentum_buffer".
#ifndef RUNGI_TRAIN_SESSION_STATE_H
#define RUNGI_TRAIN_SESSION_STATE_H

#include "base/array.h"
#include "formats/checkpoint_folder.h"
#include "train/session.h"

typedef struct rungi_sources {
    RUNGI_ARRAY(rungi_safetensors_source) list;
    RUNGI_ARRAY(char *) names; // those that were made for it
} rungi_sources;

// Add the tensors of the model and of its optimizer, borrowed from the session. The caller ends
// with rungi_sources_fini, after a failure too. An optimizer that is cut over ranks must have been
// joined (rungi_session_join_optimizer).
rung_status rungi_session_model(const rungi_session *s, rungi_sources *out);
rung_status rungi_session_optimizer(const rungi_session *s, rungi_sources *out);
void rungi_sources_fini(rungi_sources *sources);
// Add one tensor, borrowed; the second an optimizer's state of a parameter, under both names.
rung_status rungi_sources_add(rungi_sources *s, const char *name, rung_dtype dtype,
                              const rung_shape *shape, const void *data);
rung_status rungi_sources_add_state(rungi_sources *s, const char *parameter, const char *state,
                                    const rung_shape *shape, const float *data);

// Read them. Errors name the checkpoint and what is missing; some tensors may have been read then.
rung_status rungi_session_load_model(rungi_session *s, rungi_checkpoint *checkpoint);
rung_status rungi_session_load_optimizer(rungi_session *s, rungi_checkpoint *checkpoint);

#endif
