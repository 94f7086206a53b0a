// SPDX-License-Identifier: Apache-2.0
// The ranks of a run that are threads of this process: member 0 is the caller's thread, the others
// have threads of their own that live as long as the crew. What is run is run by all members at
// once, each with its communicator, as the collective calls in it need. Where mpirun or srun
// started several processes, each has a crew, and the ranks are those of all of them.
#ifndef RUNGI_TRAIN_CREW_H
#define RUNGI_TRAIN_CREW_H

#include "comm/comm.h"
#include "train/train_config.h"

typedef struct rungi_crew rungi_crew;

typedef struct rungi_member {
    int index;             // among the threads
    rungi_comm *comm;      // its end
    rung_context *context; // rank 0: the caller's; others: one of their own, whose warnings go to
                           // the caller's log behind "rank R: "
    void *user;            // what the functions make of it
} rungi_member;

typedef rung_status (*rungi_member_fn)(void *arg, rungi_member *member);

// Makes a crew of `size` members. The context is borrowed.
rung_status rungi_crew_create(rung_context *context, int size, const rungi_comm_options *options,
                              rungi_crew **crew_out);
// Ends the threads; what members' `user` points to must be gone. NULL is accepted.
void rungi_crew_destroy(rungi_crew **crew);

// Has the run that a configuration describes several ranks, in this process or in several?
bool rungi_crew_wanted(const rungi_train_config *config);
// Makes the crew that it says: train.ranks and ddp. In the run folder `run` (NULL: none) each rank
// keeps its last calls, ranks/rank-N.calls.
rung_status rungi_crew_for(rung_context *context, const rungi_train_config *config, const char *run,
                           rungi_crew **crew_out);

rungi_member *rungi_crew_member(rungi_crew *crew, int index);

// Runs fn on all members and waits for them. When members fail, their peers' calls fail too: what
// is returned, with its record, is the failure that was the first cause, with the rank before it
// where that is not rank 0. A crew that has failed can only run functions that do without
// collective calls.
rung_status rungi_crew_run(rungi_crew *crew, rungi_member_fn fn, void *arg);

#endif
