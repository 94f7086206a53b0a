// SPDX-License-Identifier: Apache-2.0
#include "train/crew.h"

#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/team.h"
#include "comm/comm_mpi.h"

typedef struct result {
    rung_status status;
    rung_error error;
} result;

// Where what a member says goes.
typedef struct logger {
    rung_context *to;
    int rank;
} logger;

struct rungi_crew {
    rung_context *context;
    int size;
    rungi_team *team;
    rungi_member *members;
    logger *loggers;
    rungi_comm **comms;
    result *results;
    // of the run under way
    rungi_member_fn fn;
    void *arg;
};

static void pass_on(void *user, rung_log_level level, const char *line)
{
    const logger *l = user;
    if (level >= RUNG_LOG_WARNING)
        rungi_log(l->to, level, "rank %d: %s", l->rank, line);
}

static rung_status make_member(rungi_crew *crew, int i)
{
    rungi_member *m = &crew->members[i];
    m->index = i;
    m->comm = crew->comms[i];
    if (rungi_comm_rank(m->comm) == 0) {
        m->context = crew->context;
        return RUNG_OK;
    }
    crew->loggers[i] = (logger){crew->context, rungi_comm_rank(m->comm)};
    return rung_context_create(&(rung_context_options){.log = pass_on,
                                                       .log_user = &crew->loggers[i],
                                                       .clock = rungi_clock(crew->context),
                                                       .isa = rung_context_isa(crew->context)},
                               &m->context);
}

// `mpi`: the members are ranks among those of several processes.
static rung_status create(rung_context *context, int size, const rungi_comm_options *options,
                          bool mpi, rungi_crew **crew_out)
{
    rungi_crew *crew = calloc(1, sizeof *crew);
    RUNG_CHECK(crew, RUNG_NO_MEMORY, "no memory for ranks");
    rung_status status;
    crew->context = context;
    crew->size = size;
    crew->members = calloc((size_t)size, sizeof *crew->members);
    crew->loggers = calloc((size_t)size, sizeof *crew->loggers);
    crew->comms = calloc((size_t)size, sizeof(rungi_comm *));
    crew->results = calloc((size_t)size, sizeof *crew->results);
    if (!crew->members || !crew->loggers || !crew->comms || !crew->results) {
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for ranks");
        goto undo;
    }
    RUNG_TRY_GOTO(
        undo, mpi ? rungi_comm_mpi_create(
                        &(rungi_comm_mpi_options){.common = *options, .threads = size}, crew->comms)
                  : rungi_comm_local_create(size, options, crew->comms));
    for (int i = 0; i < size; i++)
        RUNG_TRY_GOTO(undo, make_member(crew, i));
    RUNG_TRY_GOTO(undo, rungi_team_create(size, &crew->team));
    *crew_out = crew;
    return RUNG_OK;
undo:
    rungi_crew_destroy(&crew);
    return status;
}

rung_status rungi_crew_create(rung_context *context, int size, const rungi_comm_options *options,
                              rungi_crew **crew_out)
{
    return create(context, size, options, false, crew_out);
}

bool rungi_crew_wanted(const rungi_train_config *config)
{
    return config->train.ranks > 1 || rungi_comm_mpi_launched();
}

rung_status rungi_crew_for(rung_context *context, const rungi_train_config *config, const char *run,
                           rungi_crew **crew_out)
{
    const rungi_ddp_config *d = &config->ddp;
    char *folder = run ? rungi_path_join(run, "ranks") : NULL;
    RUNG_CHECK(!run || folder, RUNG_NO_MEMORY, "no memory for a path");
    const rungi_comm_options o = {.context = context,
                                  .timeout = d->timeout,
                                  .delay = d->link_delay,
                                  .delay_byte = d->link_rate > 0 ? 1 / d->link_rate : 0,
                                  .delay_one = d->link_rank != RUNGI_ALL_RANKS,
                                  .delay_rank = (int)d->link_rank,
                                  .recorder = folder};
    rung_status status = folder ? rungi_fs_make_folders(folder) : RUNG_OK;
    if (status == RUNG_OK)
        status = create(context, (int)config->train.ranks, &o, rungi_comm_mpi_launched(), crew_out);
    free(folder);
    return status;
}

void rungi_crew_destroy(rungi_crew **crew)
{
    if (!crew || !*crew)
        return;
    rungi_crew *c = *crew;
    rungi_team_destroy(&c->team);
    for (int i = 0; i < c->size; i++) {
        if (c->comms)
            rungi_comm_destroy(&c->comms[i]);
        if (c->members && c->members[i].context != c->context)
            rung_context_destroy(&c->members[i].context);
    }
    free(c->members);
    free(c->loggers);
    free(c->comms);
    free(c->results);
    free(c);
    *crew = NULL;
}

rungi_member *rungi_crew_member(rungi_crew *crew, int index)
{
    return &crew->members[index];
}

static rung_status run_member(void *arg, int index)
{
    rungi_crew *crew = arg;
    rungi_member *m = &crew->members[index];
    result *r = &crew->results[index];
    r->status = crew->fn(crew->arg, m);
    if (r->status != RUNG_OK)
        r->error = *rung_error_last();
    if (r->status != RUNG_OK && r->status != RUNG_CANCELLED)
        rungi_comm_fail(m->comm);
    return RUNG_OK;
}

// The failure that the others follow from: theirs are RUNG_CANCELLED.
static int first_cause(const rungi_crew *crew)
{
    int found = -1;
    for (int i = 0; i < crew->size; i++) {
        rung_status status = crew->results[i].status;
        if (status == RUNG_OK)
            continue;
        if (found < 0 ||
            (crew->results[found].status == RUNG_CANCELLED && status != RUNG_CANCELLED))
            found = i;
    }
    return found;
}

rung_status rungi_crew_run(rungi_crew *crew, rungi_member_fn fn, void *arg)
{
    crew->fn = fn;
    crew->arg = arg;
    RUNG_TRY(rungi_team_run(crew->team, run_member, crew));
    int cause = first_cause(crew);
    if (cause < 0)
        return RUNG_OK;
    const rung_error *error = &crew->results[cause].error;
    int rank = rungi_comm_rank(crew->members[cause].comm);
    rungi_fail_adopt(error);
    return rank && strncmp(error->message, "rank ", 5) != 0 ? rungi_fail_prefix("rank %d", rank)
                                                            : error->status;
}
