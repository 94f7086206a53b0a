// SPDX-License-Identifier: Apache-2.0
// Collective calls over memory that all ranks of the machine see (shm.h has the protocol).
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/shm.h"

static uint64_t word_of(const rungi_word *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static uint64_t address_of(const rungi_shm *shm, int index, const rungi_comm_call *call)
{
    return word_of(&rungi_shm_line_of(shm, index, call)->address);
}

static uint64_t bytes_of(const rungi_shm *shm, int index, const rungi_comm_call *call)
{
    return word_of(&rungi_shm_line_of(shm, index, call)->bytes);
}

static uint8_t *stage_of(const rungi_shm *shm, int index)
{
    return shm->stages + (uint64_t)index * shm->stage_bytes;
}

// ---- pieces -----------------------------------------------------------------------------------

// Reductions and gathers cut the data into a part for each rank; a round takes a piece of each.
static bool is_parted(const rungi_comm_call *call)
{
    rungi_comm_kind kind = call->act;
    return kind == RUNGI_COMM_ALL_REDUCE || kind == RUNGI_COMM_REDUCE_SCATTER ||
           kind == RUNGI_COMM_ALL_GATHER;
}

// Elements of a piece: where somebody's data is staged what fits into a stage for each rank, a
// multiple of 16; else everything.
static int64_t piece_elements(const rungi_shm *shm, const rungi_comm_call *call)
{
    if (!call->chunked)
        return rungi_comm_part_of(call->count, shm->size, 0).count;
    int64_t room = (int64_t)shm->stage_bytes / shm->size / rungi_comm_element(call);
    return room / 16 * 16;
}

// The piece of part `part` in the round that the call is in.
static rungi_comm_part piece_of(const rungi_shm *shm, const rungi_comm_call *call, int part)
{
    rungi_comm_part whole = rungi_comm_part_of(call->count, shm->size, part);
    int64_t elements = piece_elements(shm, call), at = call->round * elements;
    if (at >= whole.count)
        return (rungi_comm_part){whole.begin + whole.count, 0};
    int64_t left = whole.count - at;
    return (rungi_comm_part){whole.begin + at, left < elements ? left : elements};
}

// Where rank `index` has that piece for others to read and write.
static uint8_t *place_of(const rungi_shm *shm, const rungi_comm_call *call, int index, int part)
{
    int64_t size = rungi_comm_element(call);
    uint64_t address = address_of(shm, index, call);
    if (!shm->direct && address == 0)
        return stage_of(shm, index) + part * piece_elements(shm, call) * size;
    return rungi_shm_at(shm, index, address) + piece_of(shm, call, part).begin * size;
}

static uint8_t *own_place(const rungi_comm_call *call, rungi_comm_part piece)
{
    return (uint8_t *)call->data + piece.begin * rungi_comm_element(call);
}

// Bytes [*at_out, + result) of `bytes` belong to this round (broadcast, gather).
static uint64_t round_bytes(const rungi_shm *shm, const rungi_comm_call *call, uint64_t bytes,
                            uint64_t *at_out)
{
    uint64_t size = call->chunked ? shm->stage_bytes : bytes;
    uint64_t at = (uint64_t)call->round * size;
    *at_out = at < bytes ? at : bytes;
    return bytes - *at_out < size ? bytes - *at_out : size;
}

// ---- staging ----------------------------------------------------------------------------------

static void copy(void *to, const void *from, uint64_t bytes)
{
    if (bytes)
        memcpy(to, from, bytes);
}

// This rank's data of the round goes into its stage.
static void stage_in(const rungi_comm *comm, const rungi_shm *shm, const rungi_comm_call *call)
{
    uint8_t *stage = stage_of(shm, shm->index);
    if (is_parted(call)) {
        bool own_only = call->act == RUNGI_COMM_ALL_GATHER;
        int64_t size = rungi_comm_element(call), step = piece_elements(shm, call) * size;
        for (int part = 0; part < shm->size; part++) {
            rungi_comm_part piece = piece_of(shm, call, part);
            if (!own_only || part == shm->index)
                copy(stage + part * step, own_place(call, piece), (uint64_t)(piece.count * size));
        }
        return;
    }
    bool gives = call->act == RUNGI_COMM_GATHER ||
                 (call->act == RUNGI_COMM_BROADCAST && call->root == comm->rank) ||
                 (call->act == RUNGI_COMM_REDUCE && call->root != comm->rank);
    uint64_t at, bytes = round_bytes(shm, call, call->what.bytes, &at);
    if (gives)
        copy(stage, (const uint8_t *)call->data + at, bytes);
}

static void stage_out(const rungi_shm *shm, const rungi_comm_call *call)
{
    if (call->act != RUNGI_COMM_ALL_REDUCE)
        return; // the others went straight to where they belong
    const uint8_t *stage = stage_of(shm, shm->index);
    int64_t size = rungi_comm_element(call), step = piece_elements(shm, call) * size;
    for (int part = 0; part < shm->size; part++) {
        rungi_comm_part piece = piece_of(shm, call, part);
        copy(own_place(call, piece), stage + part * step, (uint64_t)(piece.count * size));
    }
}

// ---- the work of a round ----------------------------------------------------------------------

static void reduce(rungi_comm *comm, const rungi_shm *shm, const rungi_comm_call *call)
{
    const void *in[RUNGI_COMBINE_RANKS];
    void *out[RUNGI_COMBINE_RANKS];
    rungi_comm_part piece = piece_of(shm, call, shm->index);
    if (piece.count == 0)
        return;
    for (int i = 0; i < shm->size; i++)
        in[i] = out[i] = place_of(shm, call, i, shm->index);
    int outs = shm->size;
    if (call->act == RUNGI_COMM_REDUCE_SCATTER) {
        out[0] = own_place(call, piece);
        outs = 1;
    }
    // Reads from the others, and writes to them.
    comm->moved +=
        (uint64_t)(piece.count * rungi_comm_element(call) * (shm->size - 1)) * (outs > 1 ? 2 : 1);
    rungi_combine_tree(comm->loops, call->what.dtype, call->what.op, in, shm->size, out, outs,
                       piece.count);
}

static void gather_parts(rungi_comm *comm, const rungi_shm *shm, const rungi_comm_call *call)
{
    for (int i = 0; i < shm->size; i++) {
        rungi_comm_part piece = piece_of(shm, call, i);
        uint64_t bytes = (uint64_t)(piece.count * rungi_comm_element(call));
        if (i == shm->index)
            continue;
        copy(own_place(call, piece), place_of(shm, call, i, i), bytes);
        comm->moved += bytes;
    }
}

// Where rank `index` has the data of this round, from byte `at` on (calls that are not parted).
static const uint8_t *round_place(const rungi_shm *shm, const rungi_comm_call *call, int index,
                                  uint64_t at)
{
    uint64_t address = address_of(shm, index, call);
    return !shm->direct && address == 0 ? stage_of(shm, index)
                                        : rungi_shm_at(shm, index, address) + at;
}

static void take_broadcast(rungi_comm *comm, const rungi_shm *shm, const rungi_comm_call *call)
{
    if (call->root == comm->rank)
        return;
    int root = rungi_shm_index_of(shm, call->root);
    uint64_t at, bytes = round_bytes(shm, call, call->what.bytes, &at);
    copy((uint8_t *)call->data + at, round_place(shm, call, root, at), bytes);
    comm->moved += bytes;
}

static void gather_objects(rungi_comm *comm, const rungi_shm *shm, const rungi_comm_call *call)
{
    for (int i = 0; i < shm->size; i++) {
        uint64_t at, bytes = round_bytes(shm, call, bytes_of(shm, i, call), &at);
        copy(*call->all_out + call->offsets[rungi_shm_rank_of(shm, i)] + at,
             round_place(shm, call, i, at), bytes);
        comm->moved += i == shm->index ? 0 : bytes;
    }
}

// The root sums all ranks' data of the round.
static void reduce_to_root(rungi_comm *comm, const rungi_shm *shm, const rungi_comm_call *call)
{
    const void *in[RUNGI_COMBINE_RANKS];
    uint64_t at, bytes = round_bytes(shm, call, call->what.bytes, &at);
    void *own = (uint8_t *)call->data + at;
    if (call->root != comm->rank || bytes == 0)
        return;
    for (int i = 0; i < shm->size; i++)
        in[i] = i == shm->index ? own : round_place(shm, call, i, at);
    rungi_combine_tree(comm->loops, call->what.dtype, call->what.op, in, shm->size, &own, 1,
                       (int64_t)bytes / rungi_comm_element(call));
    comm->moved += bytes * (uint64_t)(shm->size - 1);
}

static void work(rungi_comm *comm, const rungi_shm *shm, const rungi_comm_call *call)
{
    switch (call->act) {
    case RUNGI_COMM_ALL_REDUCE:
    case RUNGI_COMM_REDUCE_SCATTER:
        reduce(comm, shm, call);
        break;
    case RUNGI_COMM_ALL_GATHER:
        gather_parts(comm, shm, call);
        break;
    case RUNGI_COMM_REDUCE:
        reduce_to_root(comm, shm, call);
        break;
    case RUNGI_COMM_BROADCAST:
        take_broadcast(comm, shm, call);
        break;
    case RUNGI_COMM_GATHER:
        gather_objects(comm, shm, call);
        break;
    default: // nothing but being there
        break;
    }
}

// ---- the way of a call ------------------------------------------------------------------------

// All ranks must have made the same call.
static rung_status check_calls(rungi_comm *comm, const rungi_shm *shm, const rungi_comm_call *call)
{
    const rungi_shm_line *mine = rungi_shm_line_of(shm, shm->index, call);
    bool sizes = call->act != RUNGI_COMM_GATHER;
    for (int i = 0; i < shm->size; i++) {
        const rungi_shm_line *line = rungi_shm_line_of(shm, i, call);
        uint64_t differs = word_of(&line->what) ^ word_of(&mine->what);
        if (sizes)
            differs |= word_of(&line->bytes) ^ word_of(&mine->bytes);
        for (int k = 0; k < RUNGI_SHM_LABEL / 8; k++)
            differs |= word_of(&line->label[k]) ^ word_of(&mine->label[k]);
        if (!differs)
            continue;
        char label[RUNGI_SHM_LABEL], text[RUNGI_COMM_TEXT], other[RUNGI_COMM_TEXT];
        rungi_comm_what what;
        rungi_shm_describe(line, shm->parts, &what, label);
        return rungi_comm_break(comm, RUNG_MISMATCH, "rank %d calls %s, but rank %d calls %s",
                                comm->rank, rungi_comm_text(&call->what, text, sizeof text),
                                rungi_shm_rank_of(shm, i),
                                rungi_comm_text(&what, other, sizeof other));
    }
    return RUNG_OK;
}

// With all calls known: how many rounds, and where objects go.
static rung_status plan_rounds(rungi_comm *comm, const rungi_shm *shm, rungi_comm_call *call)
{
    uint64_t largest = 0, total = 0;
    for (int i = 0; i < shm->size; i++) {
        uint64_t bytes = bytes_of(shm, i, call);
        call->chunked |= !shm->direct && address_of(shm, i, call) == 0;
        largest = bytes > largest ? bytes : largest;
        if (call->act == RUNGI_COMM_GATHER) {
            call->offsets[rungi_shm_rank_of(shm, i)] = total;
            total += bytes;
            call->offsets[rungi_shm_rank_of(shm, i) + 1] = total;
        }
    }
    if (call->act == RUNGI_COMM_GATHER) {
        *call->all_out = malloc(total ? total : 1);
        if (!*call->all_out)
            return rungi_comm_break(comm, RUNG_NO_MEMORY, "rank %d: no memory for %llu bytes",
                                    comm->rank, (unsigned long long)total);
    }
    call->rounds = 1;
    if (!call->chunked)
        return RUNG_OK;
    int64_t elements = is_parted(call) ? piece_elements(shm, call) : (int64_t)shm->stage_bytes;
    int64_t whole =
        is_parted(call) ? rungi_comm_part_of(call->count, shm->size, 0).count : (int64_t)largest;
    call->rounds = whole > elements ? (whole + elements - 1) / elements : 1;
    return RUNG_OK;
}

// Tells the others that this rank has reached `step`.
static void reach(const rungi_shm *shm, rungi_comm_call *call, uint32_t step)
{
    call->step = step;
    call->seen = 0;
    atomic_store_explicit(&rungi_shm_line_of(shm, shm->index, call)->flag,
                          rungi_shm_flag(rungi_shm_sequence(shm, call), step),
                          memory_order_release);
}

static void enter(rungi_comm *comm, rungi_shm *shm, rungi_comm_call *call)
{
    bool data = call->act != RUNGI_COMM_BARRIER && call->act != RUNGI_COMM_ALLOC;
    uint64_t address = data ? rungi_shm_address(shm, call->data, call->what.bytes) : 0;
    call->staged = data && !shm->direct && address == 0;
    call->chunked = call->staged;
    if (call->staged) {
        if (shm->stage_owner)
            return; // an earlier call has the stage
        shm->stage_owner = call;
        stage_in(comm, shm, call);
    }
    call->entered = true;
    call->step = 1;
    rungi_shm_post(rungi_shm_line_of(shm, shm->index, call), &call->what, address,
                   rungi_shm_flag(rungi_shm_sequence(shm, call), 1));
}

static bool all_reached(const rungi_shm *shm, rungi_comm_call *call)
{
    uint64_t flag = rungi_shm_flag(rungi_shm_sequence(shm, call), call->step);
    for (; call->seen < shm->size; call->seen++)
        if (call->seen != shm->index &&
            !rungi_shm_reached(rungi_shm_line_of(shm, call->seen, call), flag))
            return false;
    return true;
}

// All are there for a round: do this rank's share of it.
static rung_status do_round(rungi_comm *comm, rungi_shm *shm, rungi_comm_call *call)
{
    if (call->round == 0) {
        rungi_comm_met(comm, call);
        RUNG_TRY(check_calls(comm, shm, call));
        if (call->act == RUNGI_COMM_BARRIER || call->act == RUNGI_COMM_ALLOC) {
            call->state = RUNGI_COMM_LANDED;
            return RUNG_OK;
        }
        RUNG_TRY(plan_rounds(comm, shm, call));
    }
    if (!rungi_shm_work_begin(shm))
        return rungi_comm_adopt(comm);
    work(comm, shm, call);
    rungi_comm_worked(comm, call);
    rungi_shm_work_end(shm);
    reach(shm, call, call->step + 1);
    return RUNG_OK;
}

// All have done a round: the next one, or the end.
static void end_round(const rungi_comm *comm, rungi_shm *shm, rungi_comm_call *call)
{
    if (call->staged)
        stage_out(shm, call);
    if (++call->round < call->rounds) {
        if (call->staged)
            stage_in(comm, shm, call);
        reach(shm, call, call->step + 1);
        return;
    }
    if (call->staged)
        shm->stage_owner = NULL;
    call->state = RUNGI_COMM_LANDED;
}

rung_status rungi_shm_advance(rungi_comm *comm, rungi_shm *shm, rungi_comm_call *call)
{
    if (call->act == RUNGI_COMM_SEND || call->act == RUNGI_COMM_RECEIVE)
        return rungi_shm_advance_pair(comm, shm, call);
    if (!call->entered)
        enter(comm, shm, call);
    if (!call->entered)
        return RUNG_OK;
    while (call->state == RUNGI_COMM_MOVING && all_reached(shm, call)) {
        if (call->step % 2)
            RUNG_TRY(do_round(comm, shm, call));
        else
            end_round(comm, shm, call);
    }
    return RUNG_OK;
}
