// SPDX-License-Identifier: Apache-2.0
// Workers and servers on different machines: messages between them.
//
// Two ranks of different machines, of which one at least hosts a server, have a channel. A message
// is a header, and behind it a payload that the header tells of: requests (of a worker to a host)
// and answers go the same way, so the receiver takes one header at a time and then what belongs to
// it. A worker has one request under way; a host answers one of each worker. A host takes requests
// when it is inside of rungi_ps_serve, which every wait calls, too.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "comm/param_server_inside.h"

enum {
    MOST_PEERS = 24,  // each may need two of the communicator's started calls
    POLL_NS = 200000, // between two questions to the scheduler
};

typedef enum message_kind { PUSH, PULL, COUNT, BEGIN, ALL_AT, ANSWER, CLOSE } message_kind;

typedef struct message {
    int64_t kind;
    int64_t number; // PUSH, PULL: server; COUNT: samples; ALL_AT: clock; ANSWER: rungi_ps_answer
    int64_t flag;   // COUNT: pushed; BEGIN: stop; ANSWER: weights follow
    rungi_ps_terms terms; // PUSH
} message;

// A message on its way out.
typedef struct outgoing {
    message header;
    rungi_comm_call *calls[2]; // header, payload
} outgoing;

typedef struct peer {
    int rank;
    bool closed; // it has said so: only answers come from it then
    // in
    message header;
    rungi_comm_call *call;
    bool payload;  // `call` receives what belongs to the header
    bool complete; // a request is here and waits to be done
    float *grads;  // room for those of a push; NULL: this rank hosts no server
    // out
    outgoing request, answer;
    float *weights;       // of an answer
    float *wanted;        // where the weights of the answer to this rank's request go
    int64_t wanted_count; // floats
    bool answered;        // no request of this rank is under way
    int64_t said;         // by the answer
} peer;

struct rungi_ps_remote {
    int count;
    peer peers[];
};

static peer *peer_of(rungi_ps *ps, int rank)
{
    for (int i = 0; i < ps->remote->count; i++)
        if (ps->remote->peers[i].rank == rank)
            return &ps->remote->peers[i];
    return NULL;
}

// ---- life -------------------------------------------------------------------------------------

rung_status rungi_ps_remote_create(rungi_ps *ps)
{
    int own = rungi_ps_hosted(ps->ranks, ps->o.servers, ps->rank), count = 0;
    for (int r = 0; r < ps->ranks; r++)
        count += !ps->blocks[r];
    RUNG_CHECK(count <= MOST_PEERS, RUNG_UNSUPPORTED,
               "asynchronous parameter servers with %d ranks on other machines; at most %d work",
               count, MOST_PEERS);
    ps->remote = calloc(1, sizeof *ps->remote + (size_t)count * sizeof(peer));
    RUNG_CHECK(ps->remote, RUNG_NO_MEMORY, "no memory for channels to other machines");
    for (int r = 0; r < ps->ranks; r++) {
        if (ps->blocks[r] || (own < 0 && rungi_ps_hosted(ps->ranks, ps->o.servers, r) < 0))
            continue;
        peer *p = &ps->remote->peers[ps->remote->count++];
        p->rank = r;
        p->closed = p->answered = true;
        if (own < 0)
            continue;
        p->grads = malloc((size_t)ps->room * 2 * sizeof(float));
        RUNG_CHECK(p->grads, RUNG_NO_MEMORY, "no memory for channels to other machines");
        p->weights = p->grads + ps->room;
    }
    return RUNG_OK;
}

static void finish(const rungi_ps *ps, rungi_comm_call **call)
{
    if (*call)
        rungi_comm_finish(ps->o.comm, call, NULL);
}

void rungi_ps_remote_destroy(rungi_ps *ps)
{
    for (int i = 0; i < ps->remote->count; i++) {
        peer *p = &ps->remote->peers[i];
        finish(ps, &p->call); // there are calls only after a failure
        for (int k = 0; k < 2; k++) {
            finish(ps, &p->request.calls[k]);
            finish(ps, &p->answer.calls[k]);
        }
        free(p->grads);
    }
    free(ps->remote);
    ps->remote = NULL;
}

// ---- messages ---------------------------------------------------------------------------------

static rung_status settle(const rungi_ps *ps, outgoing *out)
{
    for (int k = 0; k < 2; k++)
        if (out->calls[k])
            RUNG_TRY(rungi_comm_finish(ps->o.comm, &out->calls[k], NULL));
    return RUNG_OK;
}

// The payload stays in place until the message is settled.
static rung_status send(const rungi_ps *ps, int to, outgoing *out, const message *header,
                        const float *payload, int64_t floats)
{
    RUNG_TRY(settle(ps, out));
    out->header = *header;
    RUNG_TRY(rungi_comm_start_send(ps->o.comm, &out->header, sizeof out->header, to,
                                   "parameter server", &out->calls[0]));
    return payload ? rungi_comm_start_send(ps->o.comm, payload, (uint64_t)floats * sizeof(float),
                                           to, "parameter server, data", &out->calls[1])
                   : RUNG_OK;
}

static rung_status expect(const rungi_ps *ps, peer *p)
{
    p->payload = false;
    return rungi_comm_start_receive(ps->o.comm, &p->header, sizeof p->header, p->rank,
                                    "parameter server", &p->call);
}

static rung_status expect_payload(const rungi_ps *ps, peer *p, float *to, int64_t floats)
{
    p->payload = true;
    return rungi_comm_start_receive(ps->o.comm, to, (uint64_t)floats * sizeof(float), p->rank,
                                    "parameter server, data", &p->call);
}

static rung_status answer(const rungi_ps *ps, peer *p, int64_t said, int64_t floats)
{
    const message m = {.kind = ANSWER, .number = said, .flag = floats > 0};
    p->complete = false;
    RUNG_TRY(send(ps, p->rank, &p->answer, &m, floats > 0 ? p->weights : NULL, floats));
    return expect(ps, p);
}

// ---- a host -----------------------------------------------------------------------------------

// Does a request that needs the lock of this rank's server.
static rung_status do_at_server(rungi_ps *ps, peer *p)
{
    int server = (int)p->header.number;
    int64_t floats = 0;
    if (!rungi_ps_try(ps, &ps->own->server.lock))
        return RUNG_OK;
    rung_status status = RUNG_OK;
    if (p->header.kind == PUSH) {
        status = rungi_ps_apply(ps, server, p->grads, &p->header.terms);
    } else {
        rungi_ps_copy(ps, server, p->weights);
        floats = rungi_ps_range_of(ps, server).count;
    }
    rungi_ps_release(&ps->own->server.lock);
    return status == RUNG_OK ? answer(ps, p, RUNGI_PS_GO, floats) : status;
}

static rung_status do_at_scheduler(rungi_ps *ps, peer *p)
{
    rungi_ps_scheduler *s = &ps->own->scheduler;
    rungi_ps_answer said = RUNGI_PS_GO;
    if (!rungi_ps_try(ps, &s->lock))
        return RUNG_OK;
    if (p->header.kind == COUNT)
        rungi_ps_count(s, p->rank, p->header.flag, p->header.number);
    else if (p->header.kind == BEGIN)
        said = rungi_ps_schedule(s, &ps->o, ps->ranks, p->rank, p->header.flag);
    else if (!rungi_ps_all_at(s, ps->ranks, p->header.number))
        said = RUNGI_PS_WAIT;
    rungi_ps_release(&s->lock);
    return answer(ps, p, said, 0);
}

static rung_status do_request(rungi_ps *ps, peer *p)
{
    return p->header.kind == PUSH || p->header.kind == PULL ? do_at_server(ps, p)
                                                            : do_at_scheduler(ps, p);
}

// A header is here, or a payload.
static rung_status take(rungi_ps *ps, peer *p)
{
    if (p->header.kind == CLOSE) {
        p->closed = true;
        return p->answered ? RUNG_OK : expect(ps, p);
    }
    if (p->header.kind == ANSWER) {
        if (p->header.flag && !p->payload)
            return expect_payload(ps, p, p->wanted, p->wanted_count);
        p->answered = true;
        p->said = p->header.number;
        return p->closed ? RUNG_OK : expect(ps, p);
    }
    if (p->header.kind == PUSH && !p->payload)
        return expect_payload(ps, p, p->grads, rungi_ps_range_of(ps, (int)p->header.number).count);
    p->complete = true;
    return RUNG_OK;
}

rung_status rungi_ps_remote_serve(rungi_ps *ps)
{
    RUNG_TRY(rungi_comm_progress(ps->o.comm));
    for (int i = 0; i < ps->remote->count; i++) {
        peer *p = &ps->remote->peers[i];
        while (p->call && rungi_comm_done(ps->o.comm, p->call)) {
            RUNG_TRY(rungi_comm_finish(ps->o.comm, &p->call, NULL));
            RUNG_TRY(take(ps, p));
            if (p->complete)
                RUNG_TRY(do_request(ps, p));
        }
        if (p->complete)
            RUNG_TRY(do_request(ps, p));
    }
    return RUNG_OK;
}

// ---- a worker ---------------------------------------------------------------------------------

typedef struct question {
    rungi_ps *ps;
    peer *p;
} question;

static rung_status is_answered(void *user, bool *met_out)
{
    question *q = user;
    RUNG_TRY(rungi_ps_remote_serve(q->ps));
    *met_out = q->p->answered;
    return RUNG_OK;
}

static int64_t host_missing(void *user, bool *missing)
{
    const question *q = user;
    missing[q->p->rank] = true;
    return 0;
}

// Asks a host, and waits for what it says.
static rung_status ask(rungi_ps *ps, int host, const message *m, const float *payload,
                       int64_t floats, rungi_ps_answer *said_out)
{
    question q = {ps, peer_of(ps, host)};
    q.p->answered = false;
    if (q.p->closed)
        RUNG_TRY(expect(ps, q.p));
    RUNG_TRY(send(ps, host, &q.p->request, m, payload, floats));
    RUNG_TRY(rungi_comm_await(ps->o.comm, "answer of a server",
                              &(rungi_comm_condition){&q, is_answered, host_missing}));
    if (said_out)
        *said_out = (rungi_ps_answer)q.p->said;
    return settle(ps, &q.p->request);
}

rung_status rungi_ps_remote_push(rungi_ps *ps, int server, const float *grads,
                                 const rungi_ps_terms *terms)
{
    return ask(ps, rungi_ps_host(ps->ranks, ps->o.servers, server),
               &(message){.kind = PUSH, .number = server, .terms = *terms}, grads,
               rungi_ps_range_of(ps, server).count, NULL);
}

rung_status rungi_ps_remote_pull(rungi_ps *ps, int server, float *weights_out)
{
    int host = rungi_ps_host(ps->ranks, ps->o.servers, server);
    peer *p = peer_of(ps, host);
    p->wanted = weights_out;
    p->wanted_count = rungi_ps_range_of(ps, server).count;
    return ask(ps, host, &(message){.kind = PULL, .number = server}, NULL, 0, NULL);
}

rung_status rungi_ps_remote_count(rungi_ps *ps, bool pushed, int64_t samples)
{
    return ask(ps, 0, &(message){.kind = COUNT, .number = samples, .flag = pushed}, NULL, 0, NULL);
}

// Asks the scheduler until it does not say "wait".
static rung_status ask_scheduler(rungi_ps *ps, const message *m, rungi_ps_answer *said_out)
{
    for (;;) {
        RUNG_TRY(ask(ps, 0, m, NULL, 0, said_out));
        if (*said_out != RUNGI_PS_WAIT)
            return RUNG_OK;
        nanosleep(&(struct timespec){0, POLL_NS}, NULL);
    }
}

rung_status rungi_ps_remote_begin(rungi_ps *ps, bool stop, bool *go_out)
{
    rungi_ps_answer said;
    RUNG_TRY(ask_scheduler(ps, &(message){.kind = BEGIN, .flag = stop}, &said));
    *go_out = said == RUNGI_PS_GO;
    return RUNG_OK;
}

// ---- phases -----------------------------------------------------------------------------------

rung_status rungi_ps_remote_open(rungi_ps *ps)
{
    for (int i = 0; i < ps->remote->count; i++) {
        ps->remote->peers[i].closed = false;
        RUNG_TRY(expect(ps, &ps->remote->peers[i]));
    }
    return RUNG_OK;
}

rung_status rungi_ps_remote_wait(rungi_ps *ps)
{
    rungi_ps_answer said;
    return ask_scheduler(ps, &(message){.kind = ALL_AT, .number = ps->clock}, &said);
}

static rung_status are_closed(void *user, bool *met_out)
{
    rungi_ps *ps = user;
    RUNG_TRY(rungi_ps_remote_serve(ps));
    *met_out = true;
    for (int i = 0; i < ps->remote->count; i++)
        *met_out &= ps->remote->peers[i].closed;
    return RUNG_OK;
}

static int64_t not_closed(void *user, bool *missing)
{
    const rungi_ps *ps = user;
    int64_t closed = 0;
    for (int i = 0; i < ps->remote->count; i++) {
        missing[ps->remote->peers[i].rank] = !ps->remote->peers[i].closed;
        closed += ps->remote->peers[i].closed;
    }
    return closed;
}

rung_status rungi_ps_remote_close(rungi_ps *ps)
{
    for (int i = 0; i < ps->remote->count; i++) {
        peer *p = &ps->remote->peers[i];
        RUNG_TRY(send(ps, p->rank, &p->request, &(message){.kind = CLOSE}, NULL, 0));
    }
    RUNG_TRY(rungi_comm_await(ps->o.comm, "workers of other machines",
                              &(rungi_comm_condition){ps, are_closed, not_closed}));
    for (int i = 0; i < ps->remote->count; i++) {
        RUNG_TRY(settle(ps, &ps->remote->peers[i].request));
        RUNG_TRY(settle(ps, &ps->remote->peers[i].answer));
    }
    return RUNG_OK;
}
