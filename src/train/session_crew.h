// SPDX-License-Identifier: Apache-2.0
// The sessions of all ranks of a configuration that are threads of this process (train.ranks): for
// tools that look at more than one of them.
#ifndef RUNGI_TRAIN_SESSION_CREW_H
#define RUNGI_TRAIN_SESSION_CREW_H

#include "train/crew.h"
#include "train/session.h"

typedef struct rungi_session_crew {
    rungi_crew *crew;   // NULL: there is one rank
    rungi_session **of; // by rank
    int ranks;
} rungi_session_crew;

// Makes them, each with the data of `parts`. What was made in part is to be ended, too.
rung_status rungi_session_crew_create(rung_context *context, const rung_config *config,
                                      unsigned parts, rungi_session_crew *out);
void rungi_session_crew_fini(rungi_session_crew *c);

// Runs fn(user, session, rank) of all of them at once, on their threads.
typedef rung_status (*rungi_session_fn)(void *user, rungi_session *s, int rank);
rung_status rungi_session_crew_run(rungi_session_crew *c, rungi_session_fn fn, void *user);

#endif
