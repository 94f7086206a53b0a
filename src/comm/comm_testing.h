// SPDX-License-Identifier: Apache-2.0
// Checks that every transport must pass, written for one rank: all ranks of a communicator call
// them. The ranks' data is a function of rank and index, so that each rank knows what all have.
// Failures are RUNG_GATE.
#ifndef RUNGI_COMM_COMM_TESTING_H
#define RUNGI_COMM_COMM_TESTING_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/comm.h"
#include "ops/element.h"

enum { CHECK_RANKS = 16 };

static const rung_dtype check_dtypes[] = {RUNG_F32, RUNG_F64, RUNG_I64, RUNG_BF16, RUNG_F16};
enum { CHECK_DTYPES = 5 };
static const char *const check_op_names[] = {"sum", "min", "max"};

static inline uint64_t check_hash(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

// What rank `rank` has at index i: numbers of many sizes, so that sums depend on their order.
static inline double check_number(int seed, int rank, int64_t i)
{
    uint64_t h = check_hash((uint64_t)seed << 40 ^ (uint64_t)rank << 32 ^ (uint64_t)i);
    double value = (double)(int64_t)h * 0x1p-63;
    return ldexp(value, (int)(h & 7));
}

static inline void check_store(rung_dtype dtype, void *data, int64_t i, double value)
{
    rungi_set(dtype, data, i, dtype == RUNG_I64 ? ldexp(value, 55) : value);
}

static inline void check_fill(rung_dtype dtype, void *data, int seed, int rank, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        check_store(dtype, data, i, check_number(seed, rank, i));
}

static inline float check_half(rung_dtype dtype, uint16_t bits)
{
    return dtype == RUNG_BF16 ? rung_bf16_to_f32(bits) : rung_f16_to_f32(bits);
}

// a[i] = a[i] op b[i], rounded to the dtype.
static inline void check_combine(rung_dtype dtype, rungi_comm_op op, void *a, const void *b,
                                 int64_t i)
{
    if (dtype == RUNG_I64) {
        int64_t *x = (int64_t *)a + i, y = ((const int64_t *)b)[i];
        *x = op == RUNGI_COMM_SUM   ? (int64_t)((uint64_t)*x + (uint64_t)y)
             : op == RUNGI_COMM_MIN ? (*x < y ? *x : y)
                                    : (*x > y ? *x : y);
        return;
    }
    double x, y;
    if (dtype == RUNG_F32) {
        x = ((float *)a)[i];
        y = ((const float *)b)[i];
    } else if (dtype == RUNG_F64) {
        x = ((double *)a)[i];
        y = ((const double *)b)[i];
    } else {
        x = check_half(dtype, ((uint16_t *)a)[i]);
        y = check_half(dtype, ((const uint16_t *)b)[i]);
    }
    double result = op == RUNGI_COMM_SUM ? x + y : op == RUNGI_COMM_MIN ? fmin(x, y) : fmax(x, y);
    if (op == RUNGI_COMM_SUM && dtype != RUNG_F64)
        result = (float)x + (float)y; // one rounding to float32
    check_store(dtype, a, i, result);
}

// The loops of rungi_tree_add (src/train/shards.c): what sums must equal, bit for bit. `own` (or
// NULL) gets what `rank` has before.
static inline void *check_tree(rung_dtype dtype, rungi_comm_op op, int seed, int size,
                               int64_t count, int rank, void *own)
{
    size_t bytes = (size_t)(count + 1) * 8;
    char *all = malloc((size_t)size * bytes);
    for (int r = 0; all && r < size; r++)
        check_fill(dtype, all + (size_t)r * bytes, seed, r, count);
    if (all && own)
        memcpy(own, all + (size_t)rank * bytes, (size_t)count * rung_dtype_size(dtype));
    for (int stride = 1; all && stride < size; stride *= 2)
        for (int r = 0; r + stride < size; r += 2 * stride)
            for (int64_t i = 0; i < count; i++)
                check_combine(dtype, op, all + (size_t)r * bytes,
                              all + (size_t)(r + stride) * bytes, i);
    return all;
}

#define CHECK_SAME(a, b, bytes, ...) \
    RUNG_CHECK((bytes) == 0 || memcmp(a, b, bytes) == 0, RUNG_GATE, __VA_ARGS__)

// All-reduce, reduce-scatter and reduce of one count: `own` is this rank's data, `expected` the
// result, `data` where the calls work.
static inline rung_status check_reduce_in(rungi_comm *comm, void *data, const void *own,
                                          const char *expected, rung_dtype dtype, rungi_comm_op op,
                                          int64_t count)
{
    int rank = rungi_comm_rank(comm), size = rungi_comm_size(comm), root = (int)(count + op) % size;
    size_t element = rung_dtype_size(dtype), bytes = (size_t)count * element;
    rungi_comm_part part = rungi_comm_part_of(count, size, rank);
    size_t begin = (size_t)part.begin * element;
    memcpy(data, own, bytes);
    RUNG_TRY(rungi_comm_all_reduce(comm, data, count, dtype, op, "all-reduce"));
    CHECK_SAME(data, expected, bytes, "all-reduce of %lld %s, %s: other bits", (long long)count,
               rung_dtype_name(dtype), check_op_names[op]);
    memcpy(data, own, bytes);
    RUNG_TRY(rungi_comm_reduce_scatter(comm, data, count, dtype, op, "scatter"));
    CHECK_SAME((char *)data + begin, expected + begin, (size_t)part.count * element,
               "reduce-scatter of %lld %s, %s: other bits", (long long)count,
               rung_dtype_name(dtype), check_op_names[op]);
    memcpy(data, own, bytes);
    RUNG_TRY(rungi_comm_reduce(comm, data, count, dtype, op, root, "reduce"));
    CHECK_SAME(data, expected, rank == root ? bytes : 0, "reduce of %lld %s, %s: other bits",
               (long long)count, rung_dtype_name(dtype), check_op_names[op]);
    return RUNG_OK;
}

// That in each of `places`.
static inline rung_status check_reduce_one(rungi_comm *comm, void *const *places, int n_places,
                                           rung_dtype dtype, rungi_comm_op op, int64_t count)
{
    int rank = rungi_comm_rank(comm), size = rungi_comm_size(comm);
    char *own = malloc((size_t)(count + 1) * 8);
    char *expected = own ? check_tree(dtype, op, (int)(count + op), size, count, rank, own) : NULL;
    rung_status status = expected ? RUNG_OK : RUNG_FAIL(RUNG_NO_MEMORY, "no memory");
    for (int k = 0; k < n_places && status == RUNG_OK; k++)
        status = check_reduce_in(comm, places[k], own, expected, dtype, op, count);
    free(expected);
    free(own);
    return status;
}

// Sums, minima and maxima of all dtypes and many counts, in places of at least 8 * most bytes.
// Without `all` minima and maxima of fewer counts: which rank has what does not depend on it.
static inline rung_status check_reduce(rungi_comm *comm, void *const *places, int n_places,
                                       int64_t most, bool all)
{
    static const int64_t counts[] = {0, 1, 2, 15, 16, 17, 33, 100, 1000, 4097, 40001, 300007};
    for (int d = 0; d < CHECK_DTYPES; d++)
        for (int op = 0; op < 3; op++)
            for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
                if (counts[k] <= most && (all || op == RUNGI_COMM_SUM || k % 4 == 1))
                    RUNG_TRY(check_reduce_one(comm, places, n_places, check_dtypes[d],
                                              (rungi_comm_op)op, counts[k]));
    return RUNG_OK;
}

// Broadcast from every root and all-gather, in `data` of at least `most` bytes.
static inline rung_status check_moves(rungi_comm *comm, uint8_t *data, int64_t most)
{
    int rank = rungi_comm_rank(comm), size = rungi_comm_size(comm);
    for (int root = 0; root < size; root++)
        for (int64_t bytes = 0; bytes <= most; bytes = bytes * 7 + 1) {
            for (int64_t i = 0; i < bytes; i++)
                data[i] = rank == root ? (uint8_t)check_hash((uint64_t)(i + root)) : 0;
            RUNG_TRY(rungi_comm_broadcast(comm, data, (uint64_t)bytes, root, "broadcast"));
            for (int64_t i = 0; i < bytes; i++)
                RUNG_CHECK(data[i] == (uint8_t)check_hash((uint64_t)(i + root)), RUNG_GATE,
                           "broadcast of %lld bytes from %d: byte %lld", (long long)bytes, root,
                           (long long)i);
        }
    for (int64_t count = 0; count <= most / 2; count = count * 3 + 5) {
        rungi_comm_part part = rungi_comm_part_of(count, size, rank);
        uint16_t *wide = (uint16_t *)data;
        for (int64_t i = 0; i < count; i++)
            wide[i] = i >= part.begin && i < part.begin + part.count ? (uint16_t)(i * 31) : 7;
        RUNG_TRY(rungi_comm_all_gather(comm, data, count, RUNG_BF16, "all-gather"));
        for (int64_t i = 0; i < count; i++)
            RUNG_CHECK(wide[i] == (uint16_t)(i * 31), RUNG_GATE, "all-gather of %lld: element %lld",
                       (long long)count, (long long)i);
    }
    return RUNG_OK;
}

// Objects of different sizes, `unit` bytes and more.
static inline rung_status check_objects(rungi_comm *comm, uint64_t unit)
{
    int rank = rungi_comm_rank(comm), size = rungi_comm_size(comm);
    uint64_t offsets[CHECK_RANKS + 1], bytes = (uint64_t)rank * unit;
    uint8_t *mine = malloc(bytes + 1);
    RUNG_CHECK(mine, RUNG_NO_MEMORY, "no memory");
    memset(mine, 'a' + rank, bytes);
    void *all = NULL;
    rung_status status = rungi_comm_gather_objects(comm, mine, bytes, "objects", &all, offsets);
    free(mine);
    RUNG_TRY(status);
    uint64_t at = 0;
    for (int r = 0; r < size && status == RUNG_OK; r++) {
        if (offsets[r] != at)
            status = RUNG_FAIL(RUNG_GATE, "object of rank %d begins elsewhere", r);
        for (uint64_t i = 0; i < (uint64_t)r * unit && status == RUNG_OK; i++, at++)
            if (((uint8_t *)all)[at] != 'a' + r)
                status =
                    RUNG_FAIL(RUNG_GATE, "object of rank %d, byte %llu", r, (unsigned long long)i);
    }
    if (status == RUNG_OK && offsets[size] != at)
        status = RUNG_FAIL(RUNG_GATE, "objects end elsewhere");
    free(all);
    return status;
}

// A ring: each rank sends to the next one. Even ranks send first, odd ones receive first.
static inline rung_status check_ring(rungi_comm *comm, uint64_t bytes)
{
    int rank = rungi_comm_rank(comm), size = rungi_comm_size(comm);
    if (size == 1)
        return RUNG_OK;
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    uint8_t *out = malloc(bytes + 1), *in = calloc(bytes + 1, 1);
    rung_status status = RUNG_OK;
    if (!out || !in)
        RUNG_TRY_GOTO(done, RUNG_FAIL(RUNG_NO_MEMORY, "no memory"));
    for (int repeat = 0; repeat < 3; repeat++) {
        for (uint64_t i = 0; i < bytes; i++)
            out[i] = (uint8_t)check_hash(i + (uint64_t)rank * 1000003 + (uint64_t)repeat);
        rungi_comm_call *call;
        if (repeat == 2) { // all at once
            RUNG_TRY_GOTO(done, rungi_comm_start_send(comm, out, bytes, next, "ring", &call));
            RUNG_TRY_GOTO(done, rungi_comm_receive(comm, in, bytes, before, "ring"));
            RUNG_TRY_GOTO(done, rungi_comm_finish(comm, &call, NULL));
        } else if (rank % 2 == 0 && rank != size - 1) {
            RUNG_TRY_GOTO(done, rungi_comm_send(comm, out, bytes, next, "ring"));
            RUNG_TRY_GOTO(done, rungi_comm_receive(comm, in, bytes, before, "ring"));
        } else {
            RUNG_TRY_GOTO(done, rungi_comm_receive(comm, in, bytes, before, "ring"));
            RUNG_TRY_GOTO(done, rungi_comm_send(comm, out, bytes, next, "ring"));
        }
        for (uint64_t i = 0; i < bytes; i++)
            if (in[i] != (uint8_t)check_hash(i + (uint64_t)before * 1000003 + (uint64_t)repeat))
                RUNG_TRY_GOTO(done, RUNG_FAIL(RUNG_GATE, "ring of %llu bytes: byte %llu",
                                              (unsigned long long)bytes, (unsigned long long)i));
    }
done:
    free(out);
    free(in);
    return status;
}

// Started calls of different sizes, finished in an order of each rank's own, with other calls in
// between. data: 12 * each floats.
static inline rung_status check_started(rungi_comm *comm, float *data, int64_t each, int seed)
{
    enum { CALLS = 12 };
    int rank = rungi_comm_rank(comm), size = rungi_comm_size(comm);
    rungi_comm_call *calls[CALLS];
    float extra = (float)rank;
    for (int k = 0; k < CALLS; k++) {
        int64_t count = each - k * (each / CALLS);
        check_fill(RUNG_F32, data + k * each, seed + k, rank, count);
        RUNG_TRY(rungi_comm_start_all_reduce(comm, data + k * each, count, RUNG_F32, RUNGI_COMM_SUM,
                                             "started", &calls[k]));
        if (k == 5)
            RUNG_TRY(rungi_comm_all_reduce(comm, &extra, 1, RUNG_F32, RUNGI_COMM_SUM, "between"));
        RUNG_TRY(rungi_comm_progress(comm));
    }
    RUNG_CHECK(extra == (float)(size * (size - 1) / 2), RUNG_GATE, "the call in between");
    uint64_t order = check_hash((uint64_t)(seed * 100 + rank));
    for (int n = 0; n < CALLS; n++) {
        int k = (int)(order % CALLS);
        while (!calls[k])
            k = (k + 1) % CALLS;
        order = check_hash(order);
        rungi_comm_times times;
        RUNG_TRY(rungi_comm_finish(comm, &calls[k], &times));
        int64_t count = each - k * (each / CALLS);
        RUNG_CHECK(times.ended >= times.started && times.bytes == (uint64_t)count * 4, RUNG_GATE,
                   "times of a started call");
        float *expected = check_tree(RUNG_F32, RUNGI_COMM_SUM, seed + k, size, count, 0, NULL);
        bool same = expected && memcmp(data + k * each, expected, (size_t)count * 4) == 0;
        free(expected);
        RUNG_CHECK(same, RUNG_GATE, "started call %d of %lld: other bits", k, (long long)count);
    }
    return RUNG_OK;
}

// A sum in place, in `shared` memory of rungi_comm_alloc; nothing where ranks are on other
// machines.
static inline rung_status check_reach(rungi_comm *comm, float *shared, int64_t count)
{
    int rank = rungi_comm_rank(comm), size = rungi_comm_size(comm);
    rungi_comm_part part = rungi_comm_part_of(count, size, rank);
    void *at[CHECK_RANKS];
    float *of[CHECK_RANKS];
    RUNG_TRY(rungi_comm_reach(comm, shared, (uint64_t)count * sizeof *shared, "places", at));
    RUNG_CHECK(at[rank] == shared, RUNG_GATE, "own memory is somewhere else");
    for (int r = 0; r < size; r++) {
        of[r] = at[r];
        if (!at[r])
            return RUNG_OK;
    }
    float *expected = check_tree(RUNG_F32, RUNGI_COMM_SUM, 9, size, count, 0, NULL);
    RUNG_CHECK(expected, RUNG_NO_MEMORY, "no memory");
    rung_status status = RUNG_OK;
    check_fill(RUNG_F32, shared, 9, rank, count);
    RUNG_TRY_GOTO(done, rungi_comm_barrier(comm, "filled"));
    if (!rungi_comm_touch_begin(comm))
        RUNG_TRY_GOTO(done, RUNG_FAIL(RUNG_GATE, "others' memory is out of bounds"));
    rungi_comm_sum_reached(comm, of, part.begin, part.count, shared + part.begin);
    rungi_comm_give_reached(comm, of, part.begin, part.count);
    rungi_comm_touch_end(comm);
    RUNG_TRY_GOTO(done, rungi_comm_barrier(comm, "summed"));
    if (memcmp(shared, expected, (size_t)count * sizeof *shared) != 0)
        status = RUNG_FAIL(RUNG_GATE, "%lld reached numbers: other bits", (long long)count);
done:
    free(expected);
    return status;
}

// Everything, in plain memory and in memory of rungi_comm_alloc, `most` elements in all-reduces.
// Without `all` fewer calls of each kind, for ranks that share few cores and wait long for each.
static inline rung_status check_everything(rungi_comm *comm, int64_t most, bool all)
{
    size_t bytes = (size_t)most * 8 < 12 * 3000 * 4 ? 12 * 3000 * 4 : (size_t)most * 8;
    void *shared = NULL, *plain = malloc(bytes);
    RUNG_CHECK(plain, RUNG_NO_MEMORY, "no memory");
    rung_status status = RUNG_OK;
    RUNG_TRY_GOTO(done, rungi_comm_alloc(comm, bytes, "memory", &shared));
    for (size_t i = 0; i < bytes; i++)
        if (((uint8_t *)shared)[i])
            RUNG_TRY_GOTO(done, RUNG_FAIL(RUNG_GATE, "memory that is not zero"));
    // Some ranks use one kind of memory, some the other.
    void *kinds[] = {plain, shared, rungi_comm_rank(comm) % 2 ? plain : shared};
    RUNG_TRY_GOTO(done, check_reduce(comm, kinds, 3, most, all));
    for (int k = 0; k < 3; k++) {
        RUNG_TRY_GOTO(done, check_moves(comm, kinds[k], most * 2));
        for (int seed = 0; seed < 10; seed += all ? 1 : 3)
            RUNG_TRY_GOTO(done, check_started(comm, kinds[k], seed < 8 ? 100 : 3000, seed));
    }
    for (uint64_t unit = 0; unit < (uint64_t)most; unit = unit * 9 + 1) {
        RUNG_TRY_GOTO(done, check_objects(comm, unit));
        RUNG_TRY_GOTO(done, check_ring(comm, unit));
    }
    for (int64_t count = 1; count <= most; count = count * 5 + 2)
        RUNG_TRY_GOTO(done, check_reach(comm, shared, count));
    for (int i = 0; i < (all ? 300 : 100); i++)
        RUNG_TRY_GOTO(done, rungi_comm_barrier(comm, "barrier"));
done:
    if (status == RUNG_OK)
        rungi_comm_free(comm, shared);
    free(plain);
    return status;
}

#endif
