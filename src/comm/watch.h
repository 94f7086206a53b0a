// SPDX-License-Identifier: Apache-2.0
// The thread of a process that renews its ranks' heartbeats and looks after the other processes of
// the machine: one that has ended without leaving, or is stopped, breaks the communicator. A
// process that is merely slow, or starved of its cores, is left alone: the deadline of a call is
// what tells of it.
#ifndef RUNGI_COMM_WATCH_H
#define RUNGI_COMM_WATCH_H

#include "comm/shm.h"

typedef struct rungi_watch rungi_watch;

// `recorders` are those of the machine's ranks, in order of their index; `own` of them from index
// `first` are this process's. Borrowed, as is `shm`, any rank's view.
rung_status rungi_watch_start(const rungi_shm *shm, rungi_recorder *recorders, int first, int own,
                              int64_t stall, rungi_watch **watch_out);
// NULL and pointers to NULL are accepted.
void rungi_watch_stop(rungi_watch **watch);

#endif
