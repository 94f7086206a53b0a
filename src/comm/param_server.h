// SPDX-License-Identifier: Apache-2.0
// A parameter server (Li et al. 2014, Scaling Distributed Machine Learning with the Parameter
// Server), asynchronous: each worker pushes its gradient when it has one, servers update the
// weights with it at once, and the worker pulls the newest weights.
//
// Workers are the ranks. A server holds a range of keys, here of the elements of a flat buffer:
// weights and optimizer state. It lives in the memory of a rank (its host) and has no thread of its
// own. On one machine a worker that pushes does the server's work itself, in place, while it holds
// the server's lock, and reads weights the same way. Workers of other machines send their gradients
// to the host, which serves them between the steps of its plan (rungi_ps_serve) and whenever it
// waits. Rank 0 also hosts the scheduler, which knows each worker's clock (steps whose gradient the
// servers have) and holds back those that are too far ahead.
//
// Staleness bound (stale synchronous parallel, Ho et al. 2013): a worker begins a step only while
// it is at most `staleness` steps ahead of the slowest; 0 is lockstep. What a gradient's weights
// had missed when it arrived (pushes of others since its worker pulled) is counted.
//
// A phase lies between rungi_ps_open and rungi_ps_meet, both collective: outside of it all ranks
// have the servers' weights, nobody pushes, and other collective calls can be made. Within it each
// worker repeats begin, pull, (compute,) push, on its own.
//
// Errors are those of the communicator (comm.h): a worker that dies, or does not get on before the
// deadline, is named. One that is slow gets on.
#ifndef RUNGI_COMM_PARAM_SERVER_H
#define RUNGI_COMM_PARAM_SERVER_H

#include "comm/comm.h"
#include "rung/schedule.h"

typedef struct rungi_ps rungi_ps;

enum {
    RUNGI_PS_WORKERS = 64, // most
    RUNGI_PS_STATES = 2,   // most buffers of optimizer state
    RUNGI_PS_COUNTS = 32,  // of a distribution; the last one counts what is larger, too
};

// What a push says about its gradient.
typedef struct rungi_ps_terms {
    rung_rates rates;
    double scale; // to multiply it by
    double limit; // of each element, afterwards
} rungi_ps_terms;

// Updates a server's weights, and its state: those of its range alone, as is `grads`. `updates`:
// how many came before. Called under the server's lock, on the pushing rank's thread or the host's.
typedef rung_status (*rungi_ps_update_fn)(void *user, int server, float *weights,
                                          const float *grads, const rungi_ps_terms *terms,
                                          int64_t updates);

typedef struct rungi_ps_setup {
    rungi_comm *comm;  // borrowed
    int64_t size;      // floats of the flat buffer
    int servers;       // 1 to the number of ranks
    int states;        // buffers of optimizer state, as large as the weights
    int64_t staleness; // steps; -1: no bound
    rungi_ps_update_fn update;
    void *user;
} rungi_ps_setup;

// The range of a server: rungi_comm_part_of among the servers; and the rank that it lives with:
// servers are spread over the ranks.
rungi_comm_part rungi_ps_range(int64_t size, int servers, int server);
int rungi_ps_host(int ranks, int servers, int server);
// The server that lives with a rank; -1: none.
int rungi_ps_hosted(int ranks, int servers, int rank);

// Collective. The caller owns it. Errors: RUNG_INVALID; RUNG_NO_MEMORY.
rung_status rungi_ps_create(const rungi_ps_setup *options, rungi_ps **ps_out);
// Not collective; after rungi_ps_meet, or a failure.
void rungi_ps_destroy(rungi_ps **ps);

// Is the server's memory seen by this rank? (Its host is on the same machine.)
bool rungi_ps_is_near(const rungi_ps *ps, int server);
// State buffer `index` of a server, of its range, in memory that all of its machine see: zeros at
// first. NULL where the server is not near.
float *rungi_ps_state(const rungi_ps *ps, int server, int index);
// What a parameter server of such a setup has of each rank's memory (as much for all of them): room
// for the largest range and its states, and what is beside these. And where it lies.
typedef struct rungi_ps_memory {
    uint64_t weights, states, rest;
} rungi_ps_memory;
rungi_ps_memory rungi_ps_memory_of(int64_t size, int servers, int states);
void *rungi_ps_own(rungi_ps *ps);

// Begins a phase: hosts take their ranges from `params`, all workers' clocks become `clock`.
rung_status rungi_ps_open(rungi_ps *ps, const float *params, int64_t clock);
bool rungi_ps_is_open(const rungi_ps *ps);

// Waits until this worker may begin its next step. *go_out false: all end together here, because
// one of them called this with `stop`: that one does one more step, and no worker less than the one
// that is furthest ahead.
rung_status rungi_ps_begin(rungi_ps *ps, bool stop, bool *go_out);
// The newest weights of all servers, into params[size].
rung_status rungi_ps_pull(rungi_ps *ps, float *params);
// Gives grads[size] to all servers, and this worker's clock a step. NULL: there is nothing to push
// this time.
rung_status rungi_ps_push(rungi_ps *ps, const float *grads, const rungi_ps_terms *terms,
                          int64_t samples);
// Ends the phase: waits for all workers to have come as far as this one, and pulls.
rung_status rungi_ps_meet(rungi_ps *ps, float *params);

// Does what others want of this rank's server, without waiting. Quick where nobody can want any.
rung_status rungi_ps_serve(rungi_ps *ps);

// Pushes that every server has had, when the last phase ended; -1: no server is near.
int64_t rungi_ps_updates(const rungi_ps *ps);

// What the scheduler knows of a worker, since creation. For rank 0.
typedef struct rungi_ps_worker {
    int64_t clock, samples, pushes;
    // Updates that its weights had missed when its gradient arrived; steps that it was ahead of the
    // slowest when it began one.
    struct rungi_ps_distribution {
        int64_t count, sum, most;
        int64_t counts[RUNGI_PS_COUNTS]; // of 0, 1, ...
    } staleness, ahead;
} rungi_ps_worker;
void rungi_ps_report(const rungi_ps *ps, int worker, rungi_ps_worker *out);

#endif
