// SPDX-License-Identifier: Apache-2.0
// Inside of the MPI communicator.
#ifndef RUNGI_COMM_COMM_MPI_INSIDE_H
#define RUNGI_COMM_COMM_MPI_INSIDE_H

#if defined(RUNG_MPI)

#    include <mpi.h>

#    include "base/thread.h"
#    include "comm/comm_mpi.h"
#    include "comm/shm.h"
#    include "comm/watch.h"

// What the ranks of a process share. The last one that leaves frees it.
typedef struct rungi_mpi_process {
    rungi_word here; // ranks of this process that have not left
    int threads, processes, process;
    MPI_Comm all;      // between machines: calls
    MPI_Comm pairs;    // send and receive
    MPI_Comm failures; // what broke
    rungi_mutex mutex; // one thread at a time talks to MPI
    int *node_of;      // machine of each process
    int nodes, node;
    int local;        // ranks of this machine
    int *local_ranks; // their numbers, increasing
    bool even;        // all machines have the same power of two of ranks, in order
    int *leaders;     // lowest process of each machine
    rungi_word told;  // the failure was told to other machines, or came from one
    // One mapping: control, stages, stages of pairs, flight recorders.
    uint8_t *memory;
    uint64_t memory_bytes;
    rungi_recorder *recorders; // of the ranks of this machine, read
    rungi_watch *watch;
    rungi_comm *comms; // of this process
} rungi_mpi_process;

enum { RUNGI_MPI_SPARE = 4 };

// A rank's end.
typedef struct rungi_mpi_link {
    rungi_shm shm; // first
    rungi_mpi_process *process;
    int thread;
    uint32_t polls;
    uint64_t *received; // calls with each rank that are over
    // The call that has this rank's stage, in all its parts: calls must take it in their order.
    const rungi_comm_call *holder;
    struct rungi_mpi_between *spare[RUNGI_MPI_SPARE]; // for the next calls
    int spares;
} rungi_mpi_link;

static inline rungi_mpi_link *rungi_mpi_link_of(const rungi_comm *comm)
{
    return comm->link;
}

rung_status rungi_mpi_fail(int error, const char *what);

static const int64_t RUNGI_MPI_STALL = 2000000000; // after which a stopped process is named
enum {
    RUNGI_MPI_THREADS = 64
}; // ranks of a process; as many fit into MPI's smallest range of tags

// Starts MPI, and makes this process's part of a communicator. Waits for the others, without limit.
rung_status rungi_mpi_process_create(const rungi_comm_mpi_options *options, int threads,
                                     rungi_mpi_process **process_out);

// ---- messages (comm_mpi_post.c) ---------------------------------------------------------------

// What a rank tells of its call before its data.
typedef struct rungi_mpi_header {
    uint64_t what, bytes, sequence;
    int64_t rank;
    char label[RUNGI_SHM_LABEL];
} rungi_mpi_header;

typedef struct rungi_mpi_message {
    MPI_Request request;
    int rank; // that it comes from or goes to
    bool receives, done;
} rungi_mpi_message;

// Messages that are under way, all at once.
typedef struct rungi_mpi_messages {
    rungi_mpi_message *data;
    size_t count, capacity;
    size_t done; // so many, from the first on, are known to be over
} rungi_mpi_messages;

// Tags of different messages of a call.
typedef enum rungi_mpi_stream {
    RUNGI_MPI_HEADER,
    RUNGI_MPI_SIZES,
    RUNGI_MPI_PIECES,
    RUNGI_MPI_RESULTS,
} rungi_mpi_stream;

void rungi_mpi_header_fill(const rungi_comm *comm, const rungi_comm_call *call,
                           rungi_mpi_header *out);
// Is the other rank's call the same? `sizes`: its bytes, too.
rung_status rungi_mpi_header_check(rungi_comm *comm, const rungi_comm_call *call,
                                   const rungi_mpi_header *other, bool sizes);

// Starts a message of a call to or from another rank. `data` stays in place until it is done.
rung_status rungi_mpi_post(rungi_comm *comm, const rungi_comm_call *call,
                           rungi_mpi_messages *messages, rungi_mpi_stream stream, bool receives,
                           int rank, void *data, uint64_t bytes);
// Are all messages over? Then there are none left. One that is not makes MPI go on once.
rung_status rungi_mpi_test(rungi_comm *comm, rungi_mpi_messages *messages, bool *over_out);
// The ranks of those that are not over are missing.
void rungi_mpi_missing(rungi_comm *comm, const rungi_mpi_messages *messages,
                       rungi_comm_presence *out);
// After a failure: what has not come yet shall not come.
void rungi_mpi_drop(rungi_comm *comm, rungi_mpi_messages *messages);
// Tells the other machines of a failure; takes over what they tell. Never wait.
void rungi_mpi_tell(rungi_comm *comm, const rung_error *error);
void rungi_mpi_listen(rungi_comm *comm);

// ---- calls of ranks on several machines (comm_mpi_nodes.c) ------------------------------------

rung_status rungi_mpi_advance(rungi_comm *comm, rungi_comm_call *call);
void rungi_mpi_settle(rungi_comm *comm);
void rungi_mpi_presence(rungi_comm *comm, const rungi_comm_call *call, rungi_comm_presence *out);

// A reduction in rounds: of each machine's piece a chunk at a time, several rounds under way.
enum { RUNGI_MPI_DEPTH = 4 };
typedef struct rungi_mpi_rounds {
    int64_t chunk, count;                 // elements of a chunk; rounds
    int64_t sent, received, summed, over; // rounds that have come so far
    rungi_mpi_messages messages[RUNGI_MPI_DEPTH];
    uint8_t *scratch; // what comes from other machines
    uint64_t scratch_bytes;
} rungi_mpi_rounds;

// What a call holds while it is under way.
typedef struct rungi_mpi_between {
    int phase;
    rungi_comm_call sub; // its part on this machine
    bool in_sub;
    rungi_mpi_messages messages;
    rungi_mpi_header header;
    uint8_t *headers; // of each machine, with room for what ranks with other calls may send
    rungi_mpi_rounds rounds;
    // Gathers: the objects of this machine, of the machines, of all; where each begins; sizes by
    // machine.
    uint8_t *local, *blocks, *block;
    uint64_t *offsets, *sizes;
} rungi_mpi_between;

enum {
    RUNGI_MPI_SMALL = 1 << 14, // bytes that are not worth cutting: sent behind the header
    RUNGI_MPI_ROOM = sizeof(rungi_mpi_header) + RUNGI_MPI_SMALL,
    // Of header and data so much is a message, the rest another one: small ones are sent at once,
    // without asking the receiver (Open MPI does so below 4,096 bytes on one machine).
    RUNGI_MPI_FIRST = sizeof(rungi_mpi_header) + 2048,
};

static inline rungi_mpi_header *rungi_mpi_header_of(const rungi_mpi_between *b, int node)
{
    return (rungi_mpi_header *)(b->headers + (size_t)node * RUNGI_MPI_ROOM);
}

// Is MPI still reading or writing what the call holds?
bool rungi_mpi_between_moves(const rungi_mpi_between *b);
void rungi_mpi_between_free(rungi_mpi_between *b);

// The rank of machine `node` that has this one's local number, where all machines are alike.
int rungi_mpi_counterpart(const rungi_comm *comm, int node);
// The rank that speaks for machine `node`, and whether this one does for its own.
int rungi_mpi_leader(const rungi_comm *comm, int node);
bool rungi_mpi_leads(const rungi_comm *comm);
// Begins part `part` of a call, on this machine.
void rungi_mpi_sub(const rungi_comm *comm, rungi_comm_call *call, int part, rungi_comm_kind act);
// Sends this rank's header, with `bytes` of data behind it, to a rank of each other machine, which
// sends its own: the leaders, or with `counterparts` those of the same local number.
rung_status rungi_mpi_post_headers(rungi_comm *comm, rungi_comm_call *call, bool counterparts,
                                   const void *data, uint64_t bytes);
rung_status rungi_mpi_check_headers(rungi_comm *comm, rungi_comm_call *call, bool sizes);
// One step of a reduction over machines that are alike (comm_mpi_reduce.c).
rung_status rungi_mpi_reduce_step(rungi_comm *comm, rungi_comm_call *call);
// One step of a gather of objects, of an all-gather, of a reduction over unlike machines
// (comm_mpi_gather.c).
rung_status rungi_mpi_gather_step(rungi_comm *comm, rungi_comm_call *call);

#endif
#endif
