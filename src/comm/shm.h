// SPDX-License-Identifier: Apache-2.0
// Calls between the ranks of one machine, over memory that all of them see.
//
// Each rank has a line of 64 bytes for each of its last calls: a flag and what is called. The flag
// is the call's sequence number and a step within it; it only grows, and what a rank wrote before a
// step is seen by those that have seen the step. An all-reduce has two steps: "my data is ready",
// after which each rank reduces its own part of everybody's data in place and writes the sums to
// everybody, and "my part is done". Data is used where it lies if all ranks see it (threads of a
// process; memory of rungi_comm_alloc); else it goes through each rank's stage, in rounds of two
// steps.
#ifndef RUNGI_COMM_SHM_H
#define RUNGI_COMM_SHM_H

#include "comm/comm_inside.h"

enum {
    RUNGI_SHM_PARTS = 4, // most parts of a call
    // A line is free again when all have passed its call.
    RUNGI_SHM_LINES = RUNGI_COMM_AHEAD * RUNGI_SHM_PARTS,
    RUNGI_SHM_LABEL = 32, // bytes of the label that are compared
    RUNGI_SHM_STEPS = 24, // bits of a flag that count steps
};

typedef struct rungi_shm_line {
    _Alignas(64) rungi_word flag;
    rungi_word what;    // rungi_comm_pack
    rungi_word bytes;   // of this rank's data
    rungi_word address; // see rungi_shm_address
    rungi_word label[RUNGI_SHM_LABEL / 8];
} rungi_shm_line;

typedef struct rungi_shm_rank {
    rungi_shm_line lines[RUNGI_SHM_LINES];
    _Alignas(128) rungi_word working; // touches others' data right now
    _Alignas(128) rungi_word left;    // will not call again
} rungi_shm_rank;

// Lines of a pair: the sender's and the receiver's.
typedef struct rungi_shm_pair {
    _Alignas(128) rungi_shm_line sender;
    rungi_shm_line receiver;
} rungi_shm_pair;

// The first failure.
typedef struct rungi_shm_failure {
    _Alignas(128) rungi_word state; // 0, 1 while it is written, 2
    rung_error error;
} rungi_shm_failure;

// Seen by all ranks of the machine; starts as zeros.
typedef struct rungi_shm_control {
    rungi_shm_failure failure;
    rungi_shm_rank ranks[]; // then size * size pairs: [from * size + to]
} rungi_shm_control;

size_t rungi_shm_control_bytes(int size);

// One rank's view.
typedef struct rungi_shm {
    rungi_shm_control *control;
    int index, size;  // among the ranks of the machine
    const int *ranks; // of index; NULL: the same number
    int parts;        // that calls are made of: their sequence numbers are multiplied by it
    bool direct;      // every address means the same to all: threads of one process
    uint8_t *stages;  // stage of rank r at r * stage_bytes; NULL when direct
    uint64_t stage_bytes;
    uint8_t *pair_stages; // stage of pair [from * size + to]
    uint64_t pair_bytes;
    const rungi_comm_call *stage_owner; // the call that has this rank's stage
    // Memory of rungi_comm_alloc: segments[k * size + index], k counts calls. Not used when direct.
    uint8_t **segments;
    uint64_t *segment_bytes;    // of call k
    int segment_count;          // calls
    uint64_t *sends, *receives; // calls with each rank (index) that are over
} rungi_shm;

// Rank of an index on this machine, and back (-1: a rank of another machine).
int rungi_shm_rank_of(const rungi_shm *shm, int index);
int rungi_shm_index_of(const rungi_shm *shm, int rank);

static inline uint64_t rungi_shm_flag(uint64_t sequence, uint32_t step)
{
    return sequence << RUNGI_SHM_STEPS | step;
}

static inline bool rungi_shm_reached(const rungi_shm_line *line, uint64_t flag)
{
    return atomic_load_explicit(&line->flag, memory_order_acquire) >= flag;
}

static inline uint64_t rungi_shm_sequence(const rungi_shm *shm, const rungi_comm_call *call)
{
    return call->what.sequence * (uint64_t)shm->parts + (uint64_t)call->part;
}

static inline rungi_shm_line *rungi_shm_line_of(const rungi_shm *shm, int index,
                                                const rungi_comm_call *call)
{
    return &shm->control->ranks[index].lines[rungi_shm_sequence(shm, call) % RUNGI_SHM_LINES];
}

// Where data lies, for others: 0 is this rank's stage.
uint64_t rungi_shm_address(const rungi_shm *shm, const void *data, uint64_t bytes);
// What an address of rank `index` is here.
uint8_t *rungi_shm_at(const rungi_shm *shm, int index, uint64_t address);

// Writes down a call in a line of this rank; `flag` is set last.
void rungi_shm_post(rungi_shm_line *line, const rungi_comm_what *what, uint64_t address,
                    uint64_t flag);
// What stands in a line, its sequence number divided by `parts`; the label goes to `label`.
void rungi_shm_describe(const rungi_shm_line *line, int parts, rungi_comm_what *what_out,
                        char label[RUNGI_SHM_LABEL]);

// Around every access to data of others. False when the communicator is broken: keep off.
bool rungi_shm_work_begin(rungi_shm *shm);
void rungi_shm_work_end(rungi_shm *shm);

rung_status rungi_shm_advance_pair(rungi_comm *comm, rungi_shm *shm, rungi_comm_call *call);

rungi_shm_pair *rungi_shm_pair_of(const rungi_shm *shm, int from, int to);

// The parts of a transport (comm_inside.h), of a rank whose peers are all on this machine.
rung_status rungi_shm_advance(rungi_comm *comm, rungi_shm *shm, rungi_comm_call *call);
void rungi_shm_presence(const rungi_shm *shm, const rungi_comm_call *call,
                        rungi_comm_presence *out);
bool rungi_shm_left(const rungi_shm *shm, int index);
// The same with words for it; `words` is that rank's flight recorder.
bool rungi_shm_gone(const rungi_shm *shm, int index, const rungi_word *words, char *why,
                    size_t size);
void rungi_shm_publish(rungi_shm *shm, const rung_error *error);
bool rungi_shm_broken(const rungi_shm *shm);
void rungi_shm_failure_get(const rungi_shm *shm, rung_error *error_out);
void rungi_shm_settle(rungi_shm *shm);

#endif
