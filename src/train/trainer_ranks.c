// SPDX-License-Identifier: Apache-2.0
// What the trainers of several ranks do together.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file_io.h"
#include "base/fs.h"
#include "base/json.h"
#include "comm/comm_mpi.h"
#include "comm/launch.h"
#include "comm/recorder.h"
#include "train/trainer.h"

bool rung_ranks_launched(void)
{
    return rungi_comm_mpi_launched();
}

int rung_ranks_process(void)
{
    rungi_launch launch;
    rung_error kept = *rung_error_last();
    int rank = rungi_launch_read(&launch) == RUNG_OK ? launch.rank : 0;
    rungi_fail_adopt(&kept);
    return rank;
}

void rung_ranks_end(bool failed)
{
    rungi_comm_mpi_end(failed);
}

// Whom a failed rank's note names: "rank 2 has died ...", which all ranks are told alike; -1:
// nobody.
static int named_in(const char *note)
{
    int rank = -1, end = 0;
    return sscanf(note, "rank %d %n", &rank, &end) == 1 && end ? rank : -1;
}

// The rank at fault: the one that others name, or else the first of those that ended without a
// word, by their heartbeats. -1: all ended in order.
static int at_fault(const char *folder, rungi_record *record)
{
    int size = 1, first = -1;
    int64_t beat = INT64_MAX;
    for (int rank = 0; rank < size; rank++) {
        if (rungi_recorder_read(folder, rank, record) != RUNG_OK)
            continue;
        size = record->size;
        bool failed = record->state == RUNGI_RANK_FAILED;
        if (failed && named_in(record->note) >= 0)
            return named_in(record->note);
        if (!failed && record->state != RUNGI_RANK_LEFT && record->heartbeat < beat) {
            beat = record->heartbeat;
            first = rank;
        }
    }
    return first;
}

static const char *state_text(const rungi_record *r, bool fault)
{
    switch (r->state) {
    case RUNGI_RANK_FAILED:
        return fault ? "failed" : "ended because of that";
    case RUNGI_RANK_LEFT:
        return "ended";
    default: // it would have said so
        return fault ? "has died" : "was ended after that";
    }
}

static void add_rank(const rungi_record *r, bool fault, rungi_string *out)
{
    char line[RUNGI_COMM_TEXT * 2];
    rungi_string_add(out, "rank %d on %s (process %" PRId64 ") %s%s%s", r->rank, r->host, r->pid,
                     state_text(r, fault), *r->note ? ": " : "", r->note);
    if (r->count)
        rungi_string_add(out, "; its last call: %s",
                         rungi_recorder_line(&r->calls[r->count - 1], line, sizeof line));
    rungi_string_add(out, "\n");
}

rung_status rung_ranks_text(const char *run, char **text_out)
{
    rungi_string out = {0};
    rungi_record *record = malloc(sizeof *record);
    char *folder = rungi_path_join(run, "ranks");
    rung_status status = RUNG_OK;
    if (!record || !folder)
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a text");
    int fault = status == RUNG_OK ? at_fault(folder, record) : -1, size = 1;
    if (fault >= 0 && rungi_recorder_read(folder, fault, record) == RUNG_OK)
        add_rank(record, true, &out); // first
    for (int rank = 0; status == RUNG_OK && rank < size; rank++) {
        if (rank == fault)
            continue;
        rung_status read = rungi_recorder_read(folder, rank, record);
        if (read != RUNG_OK && rank == 0)
            status = read;
        if (read != RUNG_OK)
            continue;
        size = record->size;
        add_rank(record, false, &out);
    }
    free(record);
    free(folder);
    if (status == RUNG_OK && out.failed)
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a text");
    if (status == RUNG_OK)
        *text_out = out.data;
    else
        rungi_string_fini(&out);
    return status;
}

bool rung_trainer_stopped(const rung_trainer *trainer)
{
    return trainer->stopped;
}

bool rungi_trainer_writes(const rung_trainer *t)
{
    return t->run && t->s->rank == 0;
}

void rungi_trainer_watch_balance(rung_trainer *t)
{
    static const char *const causes[] = {"waiting for data", "computing", "its link"};
    const rungi_straggler *balance = rungi_engine_balance(t->s->engine);
    rungi_straggler_verdict v;
    // Each window of steps is looked at once.
    if (!balance || t->s->rank || balance->steps % RUNGI_STRAGGLER_STEPS)
        return;
    int rank = rungi_straggler_find(balance, &v) ? v.rank : -1;
    if (rank >= 0 && rank != t->straggler)
        rungi_log(t->context, RUNG_LOG_WARNING,
                  "step %" PRId64 ": rank %d takes %.0f %% longer than the others, which wait for "
                  "it: %.2f ms a step for %s, theirs %.2f ms",
                  t->at.step + 1, rank, (v.slowness - 1) * 100, v.own * 1e3, causes[v.cause],
                  v.others * 1e3);
    t->straggler = rank;
}

rung_status rungi_trainer_same_step(rung_trainer *t)
{
    int64_t least = t->at.step, most = t->at.step;
    if (!t->s->comm)
        return RUNG_OK;
    RUNG_TRY(rungi_comm_all_reduce(t->s->comm, &least, 1, RUNG_I64, RUNGI_COMM_MIN, "step"));
    RUNG_TRY(rungi_comm_all_reduce(t->s->comm, &most, 1, RUNG_I64, RUNGI_COMM_MAX, "step"));
    RUNG_CHECK(least == most, RUNG_IO,
               "ranks read different checkpoints, of step %" PRId64 " and %" PRId64
               ": do all of them see %s?",
               least, most, t->run);
    return RUNG_OK;
}

rung_status rungi_trainer_sum(rung_trainer *t, int64_t *values, int64_t count, const char *label)
{
    return t->s->comm
               ? rungi_comm_all_reduce(t->s->comm, values, count, RUNG_I64, RUNGI_COMM_SUM, label)
               : RUNG_OK;
}

rung_status rungi_trainer_agree(rung_trainer *t, rung_status status)
{
    int64_t first = status == RUNG_OK ? INT64_MAX : t->s->rank;
    rung_error own = *rung_error_last();
    RUNG_TRY(rungi_comm_all_reduce(t->s->comm, &first, 1, RUNG_I64, RUNGI_COMM_MIN,
                                   "how the update went"));
    if (first == INT64_MAX)
        return RUNG_OK;
    if (status != RUNG_OK)
        rungi_fail_adopt(&own);
    return rungi_trainer_share_failure(t, (int)first);
}

rung_status rungi_trainer_share_failure(rung_trainer *t, int rank)
{
    struct {
        int status;
        char message[sizeof rung_error_last()->message];
    } told = {0};
    if (t->s->rank == rank) {
        told.status = rung_error_last()->status;
        memcpy(told.message, rung_error_last()->message, sizeof told.message);
    }
    RUNG_TRY(rungi_comm_broadcast(t->s->comm, &told, sizeof told, rank, "why a rank fails"));
    return RUNG_FAIL((rung_status)told.status, "rank %d: %s", rank, told.message);
}
