// SPDX-License-Identifier: Apache-2.0
#include "comm/clock_offset.h"

#include "base/error.h"

static int64_t now_of(const rungi_comm *comm, const rung_clock *clock)
{
    return clock ? clock->now(clock->user) : rungi_comm_now(comm);
}

static rung_status answer(rungi_comm *comm, const rung_clock *clock, int rank, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        int64_t now;
        RUNG_TRY(rungi_comm_receive(comm, &now, sizeof now, rank, "what time is it"));
        now = now_of(comm, clock);
        RUNG_TRY(rungi_comm_send(comm, &now, sizeof now, rank, "the time"));
    }
    return RUNG_OK;
}

static rung_status ask(rungi_comm *comm, const rung_clock *clock, int rounds,
                       rungi_clock_offset *out)
{
    *out = (rungi_clock_offset){.error = INT64_MAX};
    for (int i = 0; i < rounds; i++) {
        int64_t theirs, before = now_of(comm, clock);
        RUNG_TRY(rungi_comm_send(comm, &before, sizeof before, 0, "what time is it"));
        RUNG_TRY(rungi_comm_receive(comm, &theirs, sizeof theirs, 0, "the time"));
        int64_t after = now_of(comm, clock), error = (after - before + 1) / 2;
        if (error < out->error)
            *out = (rungi_clock_offset){theirs - (before + (after - before) / 2), error};
    }
    return RUNG_OK;
}

rung_status rungi_comm_clock_offset(rungi_comm *comm, const rung_clock *clock, int rounds,
                                    rungi_clock_offset *out)
{
    rungi_clock_offset own = {0};
    for (int rank = 1; rank < rungi_comm_size(comm); rank++) {
        if (rungi_comm_rank(comm) == 0)
            RUNG_TRY(answer(comm, clock, rank, rounds));
        else if (rungi_comm_rank(comm) == rank)
            RUNG_TRY(ask(comm, clock, rounds, &own));
        RUNG_TRY(rungi_comm_barrier(comm, "clocks"));
    }
    *out = own;
    return RUNG_OK;
}
