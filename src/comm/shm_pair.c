// SPDX-License-Identifier: Apache-2.0
// Send and receive over memory that both ranks see. The sender posts an odd step when a round of
// data is ready, the receiver the even one behind it when it has copied that.
#include <string.h>

#include "base/error.h"
#include "comm/shm.h"

// Both ranks' calls must fit.
static rung_status check_pair(rungi_comm *comm, const rungi_comm_call *call,
                              const rungi_shm_line *other)
{
    char label[RUNGI_SHM_LABEL], mine[RUNGI_COMM_TEXT], theirs[RUNGI_COMM_TEXT];
    rungi_comm_what what;
    rungi_shm_describe(other, 1, &what, label);
    if (what.bytes == call->what.bytes &&
        strncmp(label, call->what.label, RUNGI_SHM_LABEL - 1) == 0)
        return RUNG_OK;
    // A receiver that has taken a round found that they do, and may be at its next call by now.
    if (call->what.kind == RUNGI_COMM_SEND &&
        rungi_shm_reached(other, rungi_shm_flag(call->what.sequence, 2)))
        return RUNG_OK;
    return rungi_comm_break(comm, RUNG_MISMATCH, "rank %d calls %s, but rank %d calls %s",
                            comm->rank, rungi_comm_text(&call->what, mine, sizeof mine),
                            call->what.peer, rungi_comm_text(&what, theirs, sizeof theirs));
}

// The bytes of a round.
static uint64_t round_bytes(const rungi_shm *shm, const rungi_comm_call *call, uint64_t *at_out)
{
    uint64_t size = call->staged ? shm->pair_bytes : call->what.bytes;
    *at_out = (uint64_t)call->round * size;
    uint64_t left = call->what.bytes - *at_out;
    return left < size ? left : size;
}

static int64_t rounds_of(const rungi_shm *shm, const rungi_comm_call *call)
{
    if (!call->staged || call->what.bytes <= shm->pair_bytes)
        return 1;
    return (int64_t)((call->what.bytes + shm->pair_bytes - 1) / shm->pair_bytes);
}

static uint8_t *stage_of(const rungi_shm *shm, int from, int to)
{
    return shm->pair_stages + ((size_t)from * (size_t)shm->size + (size_t)to) * shm->pair_bytes;
}

static rung_status advance_send(rungi_comm *comm, rungi_shm *shm, rungi_comm_call *call)
{
    int to = rungi_shm_index_of(shm, call->what.peer);
    rungi_shm_pair *pair = rungi_shm_pair_of(shm, shm->index, to);
    uint64_t sequence = call->what.sequence, address = 0;
    if (!call->entered) {
        if (shm->sends[to] + 1 != sequence)
            return RUNG_OK; // an earlier one has the line
        address = rungi_shm_address(shm, call->data, call->what.bytes);
        call->staged = !shm->direct && !address;
        call->rounds = rounds_of(shm, call);
    }
    for (;;) {
        if (call->step % 2 == 0) {
            uint64_t at, bytes = round_bytes(shm, call, &at);
            if (call->staged && bytes)
                memcpy(stage_of(shm, shm->index, to), (const uint8_t *)call->data + at, bytes);
            call->step++;
            uint64_t flag = rungi_shm_flag(sequence, call->step);
            if (!call->entered)
                rungi_shm_post(&pair->sender, &call->what, address, flag);
            else
                atomic_store_explicit(&pair->sender.flag, flag, memory_order_release);
            call->entered = true;
        }
        if (!rungi_shm_reached(&pair->receiver, rungi_shm_flag(sequence, call->step + 1))) {
            // It has posted its call: do they fit? (Once a round: it is soon told anyway.)
            if (call->seen == 0 &&
                rungi_shm_reached(&pair->receiver, rungi_shm_flag(sequence, 1))) {
                call->seen = 1;
                return check_pair(comm, call, &pair->receiver);
            }
            return RUNG_OK;
        }
        call->step++;
        if (++call->round == call->rounds)
            break;
    }
    shm->sends[to]++;
    call->state = RUNGI_COMM_LANDED;
    return RUNG_OK;
}

static rung_status advance_receive(rungi_comm *comm, rungi_shm *shm, rungi_comm_call *call)
{
    int from = rungi_shm_index_of(shm, call->what.peer);
    rungi_shm_pair *pair = rungi_shm_pair_of(shm, from, shm->index);
    uint64_t sequence = call->what.sequence;
    if (!call->entered) {
        if (shm->receives[from] + 1 != sequence)
            return RUNG_OK;
        call->entered = true;
        call->step = 1;
        rungi_shm_post(&pair->receiver, &call->what, 0, rungi_shm_flag(sequence, 1));
    }
    while (rungi_shm_reached(&pair->sender, rungi_shm_flag(sequence, call->step))) {
        uint64_t address = atomic_load_explicit(&pair->sender.address, memory_order_relaxed);
        if (call->round == 0) {
            RUNG_TRY(check_pair(comm, call, &pair->sender));
            call->staged = !shm->direct && !address;
            call->rounds = rounds_of(shm, call);
        }
        uint64_t at, bytes = round_bytes(shm, call, &at);
        const uint8_t *source =
            call->staged ? stage_of(shm, from, shm->index) : rungi_shm_at(shm, from, address) + at;
        if (!rungi_shm_work_begin(shm))
            return rungi_comm_adopt(comm);
        if (bytes)
            memcpy((uint8_t *)call->data + at, source, bytes);
        rungi_shm_work_end(shm);
        comm->moved += bytes;
        call->step++;
        atomic_store_explicit(&pair->receiver.flag, rungi_shm_flag(sequence, call->step),
                              memory_order_release);
        call->step++;
        if (++call->round == call->rounds) {
            shm->receives[from]++;
            call->state = RUNGI_COMM_LANDED;
            break;
        }
    }
    return RUNG_OK;
}

rung_status rungi_shm_advance_pair(rungi_comm *comm, rungi_shm *shm, rungi_comm_call *call)
{
    if (call->what.kind == RUNGI_COMM_SEND)
        return advance_send(comm, shm, call);
    return advance_receive(comm, shm, call);
}
