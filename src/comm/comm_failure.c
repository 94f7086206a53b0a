// SPDX-License-Identifier: Apache-2.0
// Failures: the first one breaks the communicator for all ranks.
#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "base/text.h"
#include "comm/comm_inside.h"

rung_status rungi_comm_adopt(rungi_comm *comm)
{
    if (!comm->broken) {
        comm->transport->failure(comm, &comm->error);
        comm->broken = true;
        // Callers free their data now.
        comm->transport->settle(comm);
        for (int i = 0; i < comm->active_count; i++)
            rungi_recorder_change(&comm->recorder, comm->calls[comm->active[i]].number,
                                  RUNGI_CALL_FAILED, comm->clock->now(comm->clock->user));
        comm->active_count = 0;
        rungi_recorder_state(&comm->recorder, RUNGI_RANK_FAILED, comm->error.message);
    }
    return rungi_fail_adopt(&comm->error);
}

rung_status rungi_comm_break(rungi_comm *comm, rung_status status, const char *fmt, ...)
{
    rung_error error = {.status = status};
    va_list args;
    va_start(args, fmt);
    vsnprintf(error.message, sizeof error.message, fmt, args);
    va_end(args);
    comm->transport->publish(comm, &error);
    return rungi_comm_adopt(comm);
}

void rungi_comm_fail(rungi_comm *comm)
{
    rung_error kept = *rung_error_last();
    if (!comm->broken) {
        rungi_comm_break(comm, RUNG_CANCELLED, "rank %d failed: %s", comm->rank,
                         kept.status ? kept.message : "it did not say why");
        rungi_fail_adopt(&kept);
    }
}

// "0-2, 5" of the ranks of which missing[rank] is `missing`, but at most as fits.
static void list_ranks(rungi_string *text, const rungi_comm_presence *presence, int size,
                       bool missing)
{
    const char *between = "";
    for (int first = 0; first < size; first++) {
        if (presence->missing[first] != missing)
            continue;
        int last = first;
        while (last + 1 < size && presence->missing[last + 1] == missing)
            last++;
        if (last > first)
            rungi_string_add(text, "%s%d-%d", between, first, last);
        else
            rungi_string_add(text, "%s%d", between, first);
        between = ", ";
        first = last;
    }
}

rung_status rungi_comm_time_out(rungi_comm *comm, const rungi_comm_call *call,
                                const rungi_comm_presence *presence, int64_t waited)
{
    char what[RUNGI_COMM_TEXT], last[RUNGI_COMM_TEXT + 64];
    rungi_string text = {0};
    bool pair = call->what.kind == RUNGI_COMM_SEND || call->what.kind == RUNGI_COMM_RECEIVE;
    rungi_string_add(&text, "%s: rank %d waited %.3g s; ",
                     rungi_comm_text(&call->what, what, sizeof what), comm->rank,
                     (double)waited / 1e9);
    if (!pair) {
        rungi_string_add(&text, "present: ");
        list_ranks(&text, presence, comm->size, false);
        rungi_string_add(&text, "; ");
    }
    rungi_string_add(&text, "missing: ");
    list_ranks(&text, presence, comm->size, true);
    for (int rank = 0; rank < comm->size; rank++) {
        if (!presence->missing[rank])
            continue;
        const rungi_word *words = comm->transport->recorder(comm, rank);
        if (words)
            rungi_string_add(&text, "; rank %d's last call: %s", rank,
                             rungi_recorder_last(words, last, sizeof last));
    }
    rung_status status = rungi_comm_break(comm, RUNG_TIMEOUT, "%s", rungi_string_text(&text));
    rungi_string_fini(&text);
    return status;
}
