// SPDX-License-Identifier: Apache-2.0
// Shared by exchange*.c only: exchange.c makes an exchange and cuts gradients into buckets,
// exchange_numbers.c has what is small, exchange_gradients.c the buckets at work, exchange_update.c
// sums that are made while parameters are updated.
#ifndef RUNGI_TRAIN_EXCHANGE_INSIDE_H
#define RUNGI_TRAIN_EXCHANGE_INSIDE_H

#include "base/array.h"
#include "train/exchange.h"

typedef struct rungi_bucket {
    int64_t begin, end; // floats of the flat buffer
    int last;           // the last of its parameters: index in the order of the flat buffer
    int owner;          // the rank that gets the sums, where they are `owned`
    rungi_comm_call *call;
    bool started;
    int64_t ready; // clock
} rungi_bucket;

struct rungi_exchange {
    rung_state *state;
    rungi_exchange_options o;
    float *grads; // shared; lent to the state
    void *packed; // of 16 bits, shared; NULL where nothing is compressed
    // Where updates are fused, else NULL: parameters, shared and lent to the state; where all ranks
    // have gradients and parameters.
    float *params, **grads_of, **params_of;
    RUNGI_ARRAY(rungi_bucket) buckets;
    char *room; // of statistics, shared
    uint64_t room_bytes;
    double *meeting; // of rungi_exchange_meet, shared
    int64_t meeting_count;
    double *numbers; // of the ranks
    int64_t count;
    rungi_bucket_log *log;
    int64_t waiting; // clock: since when the rank waits for buckets; INT64_MAX: it computes
    int64_t step;
};

// The rank waits for others from now on; until now.
void rungi_exchange_begin(const rungi_exchange *x, int64_t step);
void rungi_exchange_end(const rungi_exchange *x);

// Memory that the ranks share, in the account of the state's device; and away with it (NULL is
// accepted).
rung_status rungi_exchange_alloc(rungi_exchange *x, uint64_t bytes, const char *what,
                                 void **data_out);
void rungi_exchange_free(rungi_exchange *x, void *data);

// exchange_update.c, of fused updates. Collective: the state's parameters go to shared memory;
// then, once there are gradients, each rank learns where the others have both.
rung_status rungi_exchange_share_params(rungi_exchange *x);
rung_status rungi_exchange_reach(rungi_exchange *x);

#endif
