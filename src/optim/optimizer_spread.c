// SPDX-License-Identifier: Apache-2.0
// Pieces of a pass over threads.
#include "base/shard.h"
#include "optim/optimizer.h"

typedef struct spread {
    int64_t pieces;
    rungi_optim_piece_fn fn;
    void *arg;
    int members;
} spread;

void rungi_optimizer_use_team(rung_optimizer *opt, rungi_team *team)
{
    opt->team = team;
}

static rung_status run_member(void *arg, int member)
{
    const spread *s = arg;
    rungi_shard part = rungi_shard_of(s->pieces, s->members, member);
    for (int64_t i = part.begin; i < part.begin + part.count; i++)
        s->fn(s->arg, i);
    return RUNG_OK;
}

void rungi_optimizer_spread(const rung_optimizer *opt, int threads, int64_t pieces,
                            rungi_optim_piece_fn fn, void *arg)
{
    int team = rungi_optimizer_threads(opt, threads);
    if (opt->team && team > 1 && rungi_team_size(opt->team) >= team) {
        spread s = {pieces, fn, arg, rungi_team_size(opt->team)};
        (void)rungi_team_run(opt->team, run_member, &s); // its members do not fail
        return;
    }
#pragma omp parallel for schedule(static) num_threads(team)
    for (int64_t i = 0; i < pieces; i++)
        fn(arg, i);
}
