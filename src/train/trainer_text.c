// SPDX-License-Identifier: Apache-2.0
// What a trainer tells people before it runs: banner, plan, table of layers.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/shard.h"
#include "data/survey.h"
#include "train/session_stages.h"
#include "train/trainer.h"

static rung_status give(rungi_string *text, char **text_out)
{
    if (text->failed) {
        rungi_string_fini(text);
        return RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a text");
    }
    *text_out = text->data;
    return RUNG_OK;
}

static const char *on_off(bool value)
{
    return value ? "on" : "off";
}

// Of pictures as files: their kinds, and what becomes of them.
static rung_status add_pictures(const rungi_session *s, rungi_string *out)
{
    enum { LOOKED_AT = 1000 };
    rungi_survey survey;
    if (s->train_source->fields[0].pixels != RUNG_PIXELS_FILE)
        return RUNG_OK;
    RUNG_TRY(rungi_survey_run(s->train_source, LOOKED_AT, &survey));
    rungi_string_add(out, "pictures   ");
    rungi_survey_text(&survey, s->train_source->count, out);
    rungi_string_add(out, "; to %" PRId64 " channel%s, exif rotation %s\n", s->c->data.channels,
                     s->c->data.channels == 1 ? "" : "s", on_off(s->c->data.exif_rotation));
    return RUNG_OK;
}

// Parts of a batch that does not divide: "13 or 12".
static void add_batch(const rungi_session *s, rungi_string *out)
{
    int64_t batch = rungi_session_batch(s), rounds = s->c->gradients.accumulate;
    if (s->stages) {
        int micro = s->stages->micro;
        rungi_string_add(out, "batch      %" PRId64 " samples = %d x %" PRId64, batch, micro,
                         rungi_shard_of(batch, s->stages->total, 0).count);
        if (rounds > 1)
            rungi_string_add(out, " x %" PRId64 " accumulated", rounds);
        rungi_string_add(out, " through %d stages\n", s->ranks);
        return;
    }
    int shards = rungi_session_cut(s, true), own = shards / s->ranks / (int)rounds;
    int devices = rungi_train_devices(s->c), parts = s->ranks > 1 ? s->ranks : devices;
    int64_t most = rungi_shards_of(batch, shards, 0, own).count;
    int64_t least = rungi_shards_of(batch, shards, shards - own, own).count;
    for (int d = 0; d < devices && devices > 1; d++) {
        int64_t count = rungi_engine_part_of(s->engine, batch, d).count; // of all rounds
        int64_t some = (count + rounds - 1) / rounds, few = count / rounds;
        most = d == 0 || some > most ? some : most;
        least = d == 0 || few < least ? few : least;
    }
    rungi_string_add(out, "batch      %" PRId64 " samples = %d %s x %" PRId64, batch, parts,
                     s->ranks > 1  ? "ranks"
                     : devices > 1 ? "devices"
                                   : "device",
                     most);
    if (least != most)
        rungi_string_add(out, " to %" PRId64, least);
    if (rounds > 1)
        rungi_string_add(out, " x %" PRId64 " accumulated", rounds);
    rungi_string_add(out,
                     parts > 1 || rounds > 1 ? "; the learning rate is not scaled by it\n" : "\n");
}

static void add_servers(const rungi_session *s, rungi_string *out)
{
    const rungi_train_config *c = s->c;
    int servers = rungi_config_servers(c, s->ranks);
    rungi_string_add(out, "; %d parameter server%s, %s", servers, servers == 1 ? "" : "s",
                     c->ps.mode == RUNGI_PS_SYNC ? "sync" : "async");
    if (c->ps.mode == RUNGI_PS_ASYNC && c->ps.staleness < 0)
        rungi_string_add(out, ", no bound of staleness");
    else if (c->ps.mode == RUNGI_PS_ASYNC)
        rungi_string_add(out, ", at most %" PRId64 " step%s ahead", c->ps.staleness,
                         c->ps.staleness == 1 ? "" : "s");
    rungi_string_add(out, "\n");
}

static void add_ranks(const rungi_session *s, rungi_string *out)
{
    const rungi_train_config *c = s->c;
    int processes = s->ranks / (int)c->train.ranks, local = rungi_comm_local_size(s->comm);
    char bucket[32];
    rungi_string_add(out, s->stages ? "stages     " : "ranks      ");
    if (processes == 1)
        rungi_string_add(out, "%d threads of this process", s->ranks);
    else if (c->train.ranks == 1)
        rungi_string_add(out, "%d processes", processes);
    else
        rungi_string_add(out, "%d processes of %" PRId64 " threads", processes, c->train.ranks);
    if (local < s->ranks)
        rungi_string_add(out, ", %d on this machine", local);
    if (s->stages) {
        rungi_string_add(out, "\n");
        rungi_session_stages_text(s, out);
        return;
    }
    if (rungi_config_has_servers(c, s->ranks)) {
        add_servers(s, out);
        return;
    }
    rungi_string_add(out, "; gradients added %s%s in buckets of %s%s%s\n",
                     rungi_session_fuses_update(s) ? "as weights are updated, in steps that log "
                                                   : "",
                     c->ddp.overlap ? "during backward" : "after backward",
                     rungi_text_bytes((uint64_t)c->ddp.bucket_size, bucket, sizeof bucket),
                     c->ddp.compress == RUNG_BF16  ? ", as bf16"
                     : c->ddp.compress == RUNG_F16 ? ", as fp16"
                                                   : "",
                     c->ddp.shard_optimizer ? ", optimizer cut over the ranks" : "");
}

static void add_norm(const rungi_session *s, rungi_string *out)
{
    if (s->c->ddp.sync_batch_norm)
        rungi_string_add(out,
                         "norm       batch normalization by the statistics of the whole batch, "
                         "synchronized over %d rank%s\n",
                         s->ranks, s->ranks == 1 ? "" : "s");
}

static void add_recompute(const rungi_train_config *c, rungi_string *out)
{
    const rungi_texts *list = &c->memory.recompute;
    char budget[32];
    bool off = !list->count || strcmp(list->data[0], "none") == 0;
    if (off && !c->memory.budget)
        return;
    rungi_string_add(out, "memory     recompute");
    for (size_t i = 0; i < list->count; i++)
        rungi_string_add(out, " %s", list->data[i]);
    rungi_string_add(out, "%s, budget %s\n", list->count ? "" : " none",
                     c->memory.budget
                         ? rungi_text_bytes((uint64_t)c->memory.budget, budget, sizeof budget)
                         : "none");
}

static void add_precision(const rungi_session *s, rungi_string *out)
{
    const rungi_precision_config *p = &s->c->precision;
    const rungi_plan_config *plan = &s->c->plan;
    char why[96];
    if (p->dtype == RUNG_F32)
        return;
    bool native = rung_compute_native(s->context, p->dtype, why, sizeof why);
    rungi_string_add(out, "precision  %s, compute ", p->dtype == RUNG_BF16 ? "bf16" : "fp16");
    if (native && p->compute != RUNG_COMPUTE_STORAGE)
        rungi_string_add(out, "native%s",
                         !plan->winograd                           ? ""
                         : plan->winograd_bf16 == RUNG_WINOGRAD_F4 ? ", Winograd F(4x4)"
                                                                   : ", Winograd F(2x2)");
    else
        rungi_string_add(out, "storage: kept in 16 bits, computed with in float32%s%s",
                         p->compute == RUNG_COMPUTE_AUTO ? "; native is not available: " : "",
                         p->compute == RUNG_COMPUTE_AUTO ? why : "");
    if (s->scales_loss)
        rungi_string_add(out, "; loss scale %g", s->loss_scale.scale);
    rungi_string_add(out, "\n");
}

rung_status rung_trainer_banner(rung_trainer *t, char **text_out)
{
    static const char *const layouts[] = {"plain", "channels_last", "blocked"};
    static const char *const kernels[] = {"own", "library", "reference"};
    const rungi_session *s = t->s;
    const rungi_train_config *c = s->c;
    rung_loader_info info;
    rung_loader_describe(s->train_loader, &info);
    int threads = rung_device_threads(s->device);
    rungi_string out = {0};
    rung_status status;
    rungi_string_add(&out, "model      %s, %" PRId64 " parameters, %" PRId64 " classes\n",
                     c->model.name, rungi_session_param_count(s), s->classes);
    rungi_string_add(&out,
                     "data       %s, %" PRId64 " samples an epoch, %" PRId64
                     " steps an epoch, last batch %" PRId64 "%s\n",
                     s->train_source->name, info.samples_per_epoch, info.batches_per_epoch,
                     info.last_batch, c->data.drop_last ? " (drop_last)" : "");
    RUNG_TRY_GOTO(fail, add_pictures(s, &out));
    add_batch(s, &out);
    rungi_string_add(&out, "loader     %d workers, %d batches ahead\n", info.workers, info.slots);
    if (s->ranks > 1)
        add_ranks(s, &out);
    else if (c->train.strategy == RUNGI_STRATEGY_PARAMETER_SERVER)
        rungi_string_add(&out, "ranks      1, worker and server at once\n");
    if (rungi_train_devices(c) > 1)
        rungi_session_replicas_text(s, &out);
    add_norm(s, &out);
    rungi_string_add(&out, "device     %s%s, %d thread%s, %s, huge pages %s\n",
                     s->ranks > 1 || rungi_train_devices(c) > 1 ? "each: " : "",
                     rung_device_name(s->device), threads, threads == 1 ? "" : "s",
                     rung_isa_name(rung_context_isa(t->context)), on_off(c->memory.huge_pages));
    if (s->ranks > 1 && s->places)
        rungi_string_add(&out, "places     %s\n", s->places);
    rungi_string_add(&out, "plan       layout %s, kernels %s, fuse %s, winograd %s\n",
                     layouts[c->plan.layout], kernels[c->plan.kernels], on_off(c->plan.fuse),
                     on_off(c->plan.winograd));
    add_precision(s, &out);
    add_recompute(c, &out);
    if (c->exact)
        rungi_string_add(&out, "exact      yes, %" PRId64 " shards\n", c->train.shards);
    else
        rungi_string_add(&out, "exact      no\n");
    rungi_string_add(&out, "optimizer  %s, lr %g, schedule %s\n",
                     rung_optimizer_name(c->optim.name), c->optim.lr,
                     rung_schedule_name(s->schedule.kind));
    rungi_string_add(&out, "run        %" PRId64 " steps, seed %" PRId64 "%s%s\n", s->total_steps,
                     c->seed, t->run ? ", in " : "", t->run ? t->run : "");
    if (t->at.step)
        rungi_string_add(&out, "resumed    after step %" PRId64 "\n", t->at.step);
    return give(&out, text_out);
fail:
    rungi_string_fini(&out);
    return status;
}

static rung_status add_plan(rungi_string *out, const rung_plan *plan)
{
    char *text;
    rung_status status = rung_plan_explain(plan, &text);
    if (status != RUNG_OK) {
        rungi_string_fini(out);
        return status;
    }
    rungi_string_add(out, "%s", text);
    free(text);
    return RUNG_OK;
}

// What becomes of the gradients of several ranks.
static void add_update(const rungi_session *s, rungi_string *out)
{
    const char *why = s->comm ? rungi_config_unfused(s->c) : "there is one rank";
    if (!s->c->ddp.fuse_update)
        return;
    rungi_string_add(out, "fuse_update: %s%s\n", why ? "off, because " : "on, ",
                     why ? why
                         : "but for steps that log: each rank adds the gradients of its part, "
                           "updates it and writes it to all ranks in one pass");
}

// Of accumulation: the plan of the first round, and that of the others.
static rung_status explain_rounds(rung_trainer *t, char **text_out)
{
    rungi_engine *engine = t->s->engine;
    const rung_plan *plan, *adding;
    rungi_string out = {0};
    RUNG_TRY(rungi_engine_plan(engine, true, rungi_session_batch(t->s), &plan));
    rungi_string_add(
        &out, "a step is %d rounds, whose gradients are added%s: this plan for the first\n",
        rungi_engine_rounds(engine), t->s->c->exact ? " in the tree of the shards" : "");
    if (t->s->c->plan.fuse_optimizer)
        rungi_string_add(&out,
                         "fuse_optimizer: off, because train.accumulate adds gradients before "
                         "weights are updated\n");
    RUNG_TRY(add_plan(&out, plan));
    adding = rungi_engine_adding_plan(engine);
    if (adding) {
        rungi_string_add(&out, "\nand this one for the others\n");
        RUNG_TRY(add_plan(&out, adding));
    }
    add_update(t->s, &out);
    return give(&out, text_out);
}

rung_status rung_trainer_explain(rung_trainer *t, char **text_out)
{
    const rung_plan *plan;
    if (rungi_train_devices(t->s->c) > 1) {
        rungi_string out = {0};
        rung_status status = rungi_session_explain_replicas(t->s, &out);
        if (status == RUNG_OK)
            return give(&out, text_out);
        rungi_string_fini(&out);
        return status;
    }
    if (rungi_engine_rounds(t->s->engine) > 1)
        return explain_rounds(t, text_out);
    RUNG_TRY(rungi_engine_plan(t->s->engine, true, rungi_session_batch(t->s), &plan));
    RUNG_TRY(rung_plan_explain(plan, text_out));
    rungi_string out = {0};
    if (t->s->stages) {
        rungi_session_stages_text(t->s, &out);
        rungi_string_add(&out, "\nstage %d:\n", t->s->rank);
    }
    rungi_string_add(&out, "%s", *text_out);
    add_update(t->s, &out);
    free(*text_out);
    return give(&out, text_out);
}

// ---- summary ----------------------------------------------------------------------------------

typedef struct row {
    int64_t params;
    double flops, bytes;
} row;

static row row_of(const rung_graph *g, const rungi_type *types, const rungi_node *node)
{
    row r = {0};
    rungi_operand in[16] = {0}, out[8] = {0};
    int n = node->n_in < 16 ? node->n_in : 16;
    for (int i = 0; i < n; i++) {
        in[i] =
            (rungi_operand){.dtype = types[node->in[i]].dtype, .shape = types[node->in[i]].shape};
        if (node->in[i] && g->values.data[node->in[i]].kind == RUNGI_VALUE_PARAM)
            r.params += rungi_shape_size(&types[node->in[i]].shape);
    }
    for (int i = 0; i < node->n_out && i < 8; i++) {
        out[i] =
            (rungi_operand){.dtype = types[node->out[i]].dtype, .shape = types[node->out[i]].shape};
        if (!node->op->view)
            r.bytes += (double)rungi_operand_bytes(&out[i]);
    }
    rungi_query q = {.op = node->op,
                     .attr = node->attr,
                     .pass = RUNGI_FORWARD,
                     .in = in,
                     .out = out,
                     .n_in = n,
                     .n_out = node->n_out};
    r.flops = node->op->view ? 0 : rungi_query_cost(&q).flops;
    return r;
}

static void add_memory(const rung_trainer *t, const rung_plan *plan, rungi_string *out)
{
    const rung_plan *adding = rungi_engine_adding_plan(t->s->engine);
    rung_plan_memory m = rung_plan_memory_use(plan);
    uint64_t optimizer = 0;
    if (adding && rung_plan_memory_use(adding).arena > m.arena)
        m = rung_plan_memory_use(adding);
    uint64_t arena = m.arena;
    m.grads *= (uint64_t)rungi_engine_gradient_buffers(t->s->engine);
    for (int i = 0; i < RUNG_OPTIMIZER_STATES; i++)
        optimizer += t->s->optimizer_state[i] ? m.params : 0;
    char a[32], b[32], c[32], d[32], e[32], f[32];
    if (t->s->stages) { // of this rank's, with all micro-batches that it holds
        m.arena *= (uint64_t)rungi_engine_width(t->s->engine);
        m.grads *= t->s->stages->total > 1 ? 2 : 1;
        rungi_string_add(out, "stage %d: ", t->s->rank);
    }
    rungi_string_add(
        out,
        "planned peak at batch %" PRId64 ": %s = parameters %s + gradients %s + "
        "buffers %s + optimizer %s + activations and workspace %s\n",
        rungi_session_micro_batch(t->s),
        rungi_text_bytes(m.params + m.grads + m.buffers + optimizer + m.arena, a, sizeof a),
        rungi_text_bytes(m.params, b, sizeof b), rungi_text_bytes(m.grads, c, sizeof c),
        rungi_text_bytes(m.buffers, d, sizeof d), rungi_text_bytes(optimizer, e, sizeof e),
        rungi_text_bytes(m.arena, f, sizeof f));
    rungi_string_add(out,
                     "activations and workspace: %.2f %% above the largest live set, %s = "
                     "activations %s + their gradients %s + workspace %s\n",
                     m.lower_bound ? ((double)arena / (double)m.lower_bound - 1) * 100 : 0,
                     rungi_text_bytes(m.lower_bound, a, sizeof a),
                     rungi_text_bytes(m.peak_activations, b, sizeof b),
                     rungi_text_bytes(m.peak_gradients, c, sizeof c),
                     rungi_text_bytes(m.peak_workspace, d, sizeof d));
    int again;
    double extra;
    rung_plan_recomputed(plan, &again, &extra);
    if (again)
        rungi_string_add(out, "recompute: %d steps are done again, about %.1f %% more time\n",
                         again, extra * 100);
}

rung_status rung_trainer_summary(rung_trainer *t, char **text_out)
{
    const rung_graph *g = rungi_session_whole(t->s);
    bool training = t->s->train_loader != NULL;
    int64_t batch = training ? rungi_session_batch(t->s) : rungi_session_micro_batch(t->s);
    int64_t symbols[RUNGI_MAX_SYMBOLS] = {1};
    rungi_type *types = calloc(g->values.count, sizeof *types);
    RUNG_CHECK(types, RUNG_NO_MEMORY, "no memory for a summary");
    rung_status status = rungi_graph_infer(g, symbols, types);
    const rung_plan *plan = NULL;
    if (status == RUNG_OK)
        status = rungi_engine_plan(t->s->engine, training, batch, &plan);
    if (status != RUNG_OK) {
        free(types);
        return status;
    }
    rungi_string out = {0};
    row total = {0};
    rungi_string_add(&out, "%-24s %-14s %-22s %12s %14s %12s\n", "layer", "operator",
                     "output shape", "parameters", "Mflop/sample", "KB/sample");
    for (size_t k = 0; k < g->nodes.count; k++) {
        const rungi_node *node = &g->nodes.data[k];
        char shape[RUNG_SHAPE_TEXT];
        row r = row_of(g, types, node);
        rung_shape_text(&g->values.data[node->out[0]].shape, shape, sizeof shape);
        rungi_string_add(&out, "%-24s %-14s %-22s %12" PRId64 " %14.3f %12.1f\n", node->name,
                         node->op->name, shape, r.params, r.flops * 1e-6, r.bytes / 1024);
        total.params += r.params;
        total.flops += r.flops;
        total.bytes += r.bytes;
    }
    rungi_string_add(&out, "%-24s %-14s %-22s %12" PRId64 " %14.3f %12.1f\n", "total", "", "",
                     total.params, total.flops * 1e-6, total.bytes / 1024);
    if (t->s->stages)
        rungi_session_stages_text(t->s, &out);
    add_memory(t, plan, &out);
    free(types);
    return give(&out, text_out);
}
