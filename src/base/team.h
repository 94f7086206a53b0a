// SPDX-License-Identifier: Apache-2.0
// A team of threads that wait for work together: the caller is member 0, the others are threads of
// their own that live as long as the team. A call costs about a microsecond while members are still
// spinning from the last one, some ten when they sleep.
#ifndef RUNGI_BASE_TEAM_H
#define RUNGI_BASE_TEAM_H

#include "rung/status.h"

typedef struct rungi_team rungi_team;

// What each member does: `member` is 0 .. size - 1.
typedef rung_status (*rungi_team_fn)(void *arg, int member);

// Makes a team of `size` members (1 or more, the caller included).
rung_status rungi_team_create(int size, rungi_team **team_out);
// Ends its threads. NULL and pointers to NULL are accepted.
void rungi_team_destroy(rungi_team **team);
int rungi_team_size(const rungi_team *team);

// Runs fn on all members and waits for them. Returns the failure of the lowest member that failed,
// with its error record. One thread at a time may call.
rung_status rungi_team_run(rungi_team *team, rungi_team_fn fn, void *arg);

#endif
