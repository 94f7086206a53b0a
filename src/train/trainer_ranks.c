// SPDX-License-Identifier: Apache-2.0
// What the trainers of several ranks do together.
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "comm/comm_mpi.h"
#include "train/trainer.h"

bool rung_ranks_launched(void)
{
    return rungi_comm_mpi_launched();
}

void rung_ranks_end(bool failed)
{
    rungi_comm_mpi_end(failed);
}

bool rungi_trainer_writes(const rung_trainer *t)
{
    return t->run && t->s->rank == 0;
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
