// SPDX-License-Identifier: Apache-2.0
#include "train/session_crew.h"

#include <stdlib.h>

#include "base/error.h"

typedef struct making {
    const rung_config *config;
    rungi_session **of;
    unsigned parts;
} making;

static rung_status make_member(void *arg, rungi_member *m)
{
    making *all = arg;
    rung_config *config = NULL;
    RUNG_TRY(rungi_config_copy_for(m->context, all->config, &config));
    rung_status status = rungi_session_create(
        m->context, config, &(rungi_session_options){.parts = all->parts, .comm = m->comm},
        &all->of[m->index]);
    rung_config_destroy(&config);
    return status;
}

rung_status rungi_session_crew_create(rung_context *context, const rung_config *config,
                                      unsigned parts, rungi_session_crew *c)
{
    const rungi_train_config *values = rungi_config_values(config);
    *c = (rungi_session_crew){.ranks = (int)values->train.ranks};
    c->of = calloc((size_t)c->ranks, sizeof(rungi_session *));
    RUNG_CHECK(c->of, RUNG_NO_MEMORY, "no memory for sessions");
    if (c->ranks == 1)
        return rungi_session_create(context, config, &(rungi_session_options){.parts = parts},
                                    &c->of[0]);
    RUNG_TRY(rungi_crew_for(context, values, NULL, &c->crew));
    return rungi_crew_run(c->crew, make_member, &(making){config, c->of, parts});
}

void rungi_session_crew_fini(rungi_session_crew *c)
{
    for (int r = 0; c->of && r < c->ranks; r++)
        rungi_session_destroy(&c->of[r]);
    free(c->of);
    rungi_crew_destroy(&c->crew);
    *c = (rungi_session_crew){0};
}

typedef struct running {
    rungi_session_crew *c;
    rungi_session_fn fn;
    void *user;
} running;

static rung_status run_member(void *arg, rungi_member *m)
{
    const running *all = arg;
    return all->fn(all->user, all->c->of[m->index], m->index);
}

rung_status rungi_session_crew_run(rungi_session_crew *c, rungi_session_fn fn, void *user)
{
    return c->crew ? rungi_crew_run(c->crew, run_member, &(running){c, fn, user})
                   : fn(user, c->of[0], 0);
}
