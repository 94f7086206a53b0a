// SPDX-License-Identifier: Apache-2.0
#include "comm/shm.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

enum { SEGMENT_SHIFT = 48 }; // an address: (segment + 1) << 48 | offset

size_t rungi_shm_control_bytes(int size)
{
    size_t ranks = (size_t)size;
    return sizeof(rungi_shm_control) + ranks * sizeof(rungi_shm_rank) +
           ranks * ranks * sizeof(rungi_shm_pair);
}

rungi_shm_pair *rungi_shm_pair_of(const rungi_shm *shm, int from, int to)
{
    rungi_shm_pair *pairs = (void *)(shm->control->ranks + shm->size);
    return pairs + (size_t)from * (size_t)shm->size + to;
}

int rungi_shm_rank_of(const rungi_shm *shm, int index)
{
    return shm->ranks ? shm->ranks[index] : index;
}

int rungi_shm_index_of(const rungi_shm *shm, int rank)
{
    if (!shm->ranks)
        return rank;
    for (int i = 0; i < shm->size; i++)
        if (shm->ranks[i] == rank)
            return i;
    return -1;
}

// ---- addresses --------------------------------------------------------------------------------

uint64_t rungi_shm_address(const rungi_shm *shm, const void *data, uint64_t bytes)
{
    if (shm->direct)
        return (uint64_t)(uintptr_t)data;
    const uint8_t *at = data;
    for (int k = 0; k < shm->segment_count; k++) {
        const uint8_t *base = shm->segments[(size_t)k * (size_t)shm->size + (size_t)shm->index];
        if (base && at >= base && bytes <= shm->segment_bytes[k] &&
            (uint64_t)(at - base) <= shm->segment_bytes[k] - bytes)
            return (uint64_t)(k + 1) << SEGMENT_SHIFT | (uint64_t)(at - base);
    }
    return 0;
}

uint8_t *rungi_shm_at(const rungi_shm *shm, int index, uint64_t address)
{
    if (shm->direct)
        return (uint8_t *)(uintptr_t)address;
    uint64_t offset = address & (((uint64_t)1 << SEGMENT_SHIFT) - 1);
    size_t k = (size_t)(address >> SEGMENT_SHIFT) - 1;
    return shm->segments[k * (size_t)shm->size + (size_t)index] + offset;
}

uint64_t rungi_comm_address(const rungi_comm *comm, const void *data, uint64_t bytes)
{
    return rungi_shm_address(comm->link, data, bytes);
}

void *rungi_comm_at(const rungi_comm *comm, int rank, uint64_t address)
{
    int index = rungi_shm_index_of(comm->link, rank);
    return index < 0 ? NULL : rungi_shm_at(comm->link, index, address);
}

bool rungi_comm_touch_begin(rungi_comm *comm)
{
    return rungi_shm_work_begin(comm->link);
}

void rungi_comm_touch_end(rungi_comm *comm)
{
    rungi_shm_work_end(comm->link);
}

// ---- lines ------------------------------------------------------------------------------------

void rungi_shm_post(rungi_shm_line *line, const rungi_comm_what *what, uint64_t address,
                    uint64_t flag)
{
    uint64_t label[RUNGI_SHM_LABEL / 8] = {0};
    memcpy(label, what->label, strnlen(what->label, RUNGI_SHM_LABEL - 1));
    // Released one by one: who sees a part of this call also sees the flag of the one before.
    atomic_store_explicit(&line->what, rungi_comm_pack(what), memory_order_release);
    atomic_store_explicit(&line->bytes, what->bytes, memory_order_release);
    atomic_store_explicit(&line->address, address, memory_order_release);
    for (int i = 0; i < RUNGI_SHM_LABEL / 8; i++)
        atomic_store_explicit(&line->label[i], label[i], memory_order_release);
    atomic_store_explicit(&line->flag, flag, memory_order_release);
}

void rungi_shm_describe(const rungi_shm_line *line, int parts, rungi_comm_what *what_out,
                        char label[RUNGI_SHM_LABEL])
{
    uint64_t flag = atomic_load_explicit(&line->flag, memory_order_acquire);
    rungi_comm_unpack(atomic_load_explicit(&line->what, memory_order_acquire), what_out);
    what_out->bytes = atomic_load_explicit(&line->bytes, memory_order_acquire);
    what_out->sequence = (flag >> RUNGI_SHM_STEPS) / (uint64_t)parts;
    for (int i = 0; i < RUNGI_SHM_LABEL / 8; i++) {
        uint64_t word = atomic_load_explicit(&line->label[i], memory_order_acquire);
        memcpy(label + 8 * i, &word, sizeof word);
    }
    what_out->label = label;
}

// ---- failures ---------------------------------------------------------------------------------

bool rungi_shm_work_begin(rungi_shm *shm)
{
    if (!shm->direct) // what others see stays mapped
        return true;
    // Either this rank sees the failure, or the rank that failed sees that it works: both words are
    // sequentially consistent.
    atomic_exchange(&shm->control->ranks[shm->index].working, 1);
    if (atomic_load(&shm->control->failure.state) == 0)
        return true;
    rungi_shm_work_end(shm);
    return false;
}

void rungi_shm_work_end(rungi_shm *shm)
{
    if (shm->direct)
        atomic_store_explicit(&shm->control->ranks[shm->index].working, 0, memory_order_release);
}

void rungi_shm_settle(rungi_shm *shm)
{
    if (!shm->direct)
        return;
    for (int i = 0; i < shm->size; i++)
        while (i != shm->index && atomic_load(&shm->control->ranks[i].working))
            sched_yield(); // the work ends by itself, it waits for nobody
}

void rungi_shm_publish(rungi_shm *shm, const rung_error *error)
{
    rungi_shm_failure *failure = &shm->control->failure;
    uint64_t nothing = 0;
    if (!atomic_compare_exchange_strong(&failure->state, &nothing, 1))
        return;
    failure->error = *error;
    failure->error.file = NULL; // an address of this process
    failure->error.line = 0;
    atomic_store(&failure->state, 2);
}

bool rungi_shm_broken(const rungi_shm *shm)
{
    return atomic_load_explicit(&shm->control->failure.state, memory_order_acquire) != 0;
}

void rungi_shm_failure_get(const rungi_shm *shm, rung_error *error_out)
{
    const rungi_shm_failure *failure = &shm->control->failure;
    // The writer may have been killed halfway.
    for (int i = 0; i < 10000; i++) {
        if (atomic_load_explicit(&failure->state, memory_order_acquire) == 2) {
            *error_out = failure->error;
            return;
        }
        sched_yield();
    }
    *error_out = (rung_error){.status = RUNG_CANCELLED,
                              .message = "another rank failed and could not say why"};
}

bool rungi_shm_left(const rungi_shm *shm, int index)
{
    return atomic_load_explicit(&shm->control->ranks[index].left, memory_order_acquire) != 0;
}

bool rungi_shm_gone(const rungi_shm *shm, int index, const rungi_word *words, char *why,
                    size_t size)
{
    char last[RUNGI_COMM_TEXT + 64];
    if (!rungi_shm_left(shm, index))
        return false;
    snprintf(why, size, "has left (its last call: %s)",
             rungi_recorder_last(words, last, sizeof last));
    return true;
}

void rungi_shm_presence(const rungi_shm *shm, const rungi_comm_call *call, rungi_comm_presence *out)
{
    if (!call->entered && call->staged && shm->stage_owner)
        call = shm->stage_owner; // it waits for that one
    bool send = call->what.kind == RUNGI_COMM_SEND;
    if (send || call->what.kind == RUNGI_COMM_RECEIVE) {
        out->missing[call->what.peer] = true;
        out->count = 1;
        return;
    }
    uint64_t flag = rungi_shm_flag(rungi_shm_sequence(shm, call), call->step);
    for (int i = 0; i < shm->size; i++) {
        if (i == shm->index || rungi_shm_reached(rungi_shm_line_of(shm, i, call), flag))
            continue;
        out->missing[rungi_shm_rank_of(shm, i)] = true;
        out->count++;
    }
}
