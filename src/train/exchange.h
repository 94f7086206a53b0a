// SPDX-License-Identifier: Apache-2.0
// What the engines of several ranks tell each other in a step: divisors of losses before forward,
// losses and batch statistics after it, and gradients, which become the sums over all ranks.
//
// Gradients lie in memory that all ranks of a machine see and are exchanged in buckets: ranges of
// the flat buffer, which is in reverse order of use, so that backward completes them from the first
// one on. With `overlap` a bucket is on its way while backward goes on (Li et al. 2020, PyTorch
// Distributed, section 3.2.3); without, all go after it.
//
// Where each rank updates a part of the parameters (`owned`, ZeRO stage 1), a bucket lies within
// one rank's part (rungi_comm_part_of the flat buffer), and its sums come to that rank alone: half
// of what an all-reduce moves. All buckets together are a reduce-scatter of the gradients. With
// `fuse` (ranks of one machine) the optimizer can make them itself, piece by piece, and give the
// updated parameters to the others: nothing is exchanged before, and nothing afterwards.
#ifndef RUNGI_TRAIN_EXCHANGE_H
#define RUNGI_TRAIN_EXCHANGE_H

#include "comm/comm.h"
#include "graph/plan.h"
#include "measure/bucket_log.h"
#include "measure/timeline.h"
#include "rung/optim.h"

typedef struct rungi_exchange rungi_exchange;

typedef struct rungi_exchange_options {
    rungi_comm *comm;     // borrowed
    bool overlap;         // start each bucket when backward has completed it
    int64_t bucket_bytes; // a bucket is closed when it has as many
    rung_dtype compress;  // f32: as they are; bf16, f16: rounded before they are sent
    bool owned;           // sums come to the ranks that own them; other gradients are undefined
    bool fuse;            // with `owned`: for rungi_exchange_update
    // Parameter servers that gradients are pushed to, after backward: each rank that hosts one has
    // the sums of its range (param_server.h). 0: all ranks have all sums.
    int servers;
    rungi_timeline *timeline; // borrowed; may be NULL
} rungi_exchange_options;

// Collective: gradients of the state (with `fuse` parameters, too) move to memory that the ranks
// share, which is entered in the device's account, and go with it. The state is borrowed and must
// outlive the exchange. Errors: RUNG_UNSUPPORTED (`fuse`, and a rank is on another machine).
rung_status rungi_exchange_create(rung_state *state, const rungi_exchange_options *options,
                                  rungi_exchange **exchange_out);
void rungi_exchange_destroy(rungi_exchange **exchange);

int rungi_exchange_rank(const rungi_exchange *x);
int rungi_exchange_ranks(const rungi_exchange *x);
int rungi_exchange_buckets(const rungi_exchange *x);
// The last parameter of a bucket, in the order of the flat buffer.
int rungi_exchange_last(const rungi_exchange *x, int bucket);
bool rungi_exchange_overlaps(const rungi_exchange *x);

// values[count] become the sums over the ranks. `label` is for messages.
rung_status rungi_exchange_sum(rungi_exchange *x, double *values, int64_t count, int64_t step,
                               const char *label);
// Each rank's `count` numbers (at most RUNGI_EXCHANGE_NUMBERS): all_out[ranks][count].
enum { RUNGI_EXCHANGE_NUMBERS = 4 };
rung_status rungi_exchange_numbers(rungi_exchange *x, const double *own, int count, double *all_out,
                                   int64_t step, const char *label);

// Room for `bytes` of statistics of each of `shards` shards (a multiple of the ranks): of all
// ranks, in order. Collective when it has to grow, with equal arguments.
rung_status rungi_exchange_room(rungi_exchange *x, int shards, size_t bytes, char **room_out);
// Each rank has filled the room of its shards: the rest is filled with that of the others.
rung_status rungi_exchange_gather(rungi_exchange *x, int shards, size_t bytes, int64_t step);

// Within a step: each rank's `count` numbers, rank r's at *all_out + r * *stride_out until the next
// call. Collective, with equal counts.
rung_status rungi_exchange_meet(rungi_exchange *x, const double *own, int64_t count, int64_t step,
                                const double **all_out, int64_t *stride_out);

// A step's computing begins, at that time of the clock.
void rungi_exchange_step(rungi_exchange *x, int64_t step, int64_t began);
// Starts the exchange of a bucket; carries started ones on, without waiting; starts those that were
// not, and waits for all. With servers: pushes; `whole`: the sums come to all ranks after all.
rung_status rungi_exchange_start(rungi_exchange *x, int bucket);
rung_status rungi_exchange_progress(rungi_exchange *x);
rung_status rungi_exchange_finish(rungi_exchange *x, int64_t step, bool whole);
// In place of rungi_exchange_finish and a step of the optimizer, which updates this rank's part of
// the parameters: with each rank's own gradients complete, they are added, used, and the parameters
// given to all in one pass. Collective; between two barriers, in which ranks that fail are named.
// The update is one that rungi_optimizer_takes_replicas. *took_out: nanoseconds between the two.
bool rungi_exchange_fuses(const rungi_exchange *x); // is it there?
rung_status rungi_exchange_update(rungi_exchange *x, rung_optimizer *optimizer,
                                  const rung_optimizer_update *update, int64_t step,
                                  rung_optimizer_report *report_out, int64_t *took_out);
// Gives each server's range of data[the state's size] to all ranks. Collective.
rung_status rungi_exchange_pull(rungi_comm *comm, int servers, float *data, int64_t count,
                                const char *label);

// See rungi_comm_link_time.
int64_t rungi_exchange_link_time(const rungi_exchange *x);
// What became of them; borrowed.
const rungi_bucket_log *rungi_exchange_log(const rungi_exchange *x);

// Bytes beside gradients and statistics that the exchange has of the device.
uint64_t rungi_exchange_bytes(const rungi_exchange *x);

// Exchanges of buckets since creation: one a bucket and step of the optimizer.
int64_t rungi_exchange_count(const rungi_exchange *x);

#endif
