// SPDX-License-Identifier: Apache-2.0
#include "train/session_stages.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/shard.h"
#include "optim/optimizer.h"

// ---- which layers -----------------------------------------------------------------------------

static rung_status choose_here(const rungi_session *s, rungi_session_stages *g,
                               rungi_stages_options *o)
{
    size_t count = s->c->pipeline.placement.count;
    rungi_placed *placed = calloc(count + 1, sizeof *placed);
    RUNG_CHECK(placed, RUNG_NO_MEMORY, "no memory to choose stages");
    for (size_t i = 0; i < count; i++)
        placed[i].stage = rungi_config_placed(s->c, i, placed[i].pattern, sizeof placed[i].pattern);
    o->placed = count ? placed : NULL;
    o->n_placed = (int)count;
    rung_status status = rungi_stages_choose(g->whole, s->device, o, g->info);
    free(placed);
    return status;
}

// Rank 0 chooses, so that machines of different kinds do as they are told.
static rung_status choose(rungi_session *s, rungi_session_stages *g)
{
    const rungi_train_config *c = s->c;
    rung_optimizer_options optimizer = rungi_config_optimizer(c);
    rungi_stages_options o = {
        .stages = g->count,
        .micro = g->micro,
        .rounds = (int)c->gradients.accumulate,
        .schedule = c->pipeline.schedule,
        .split = rungi_config_splits(c) ? (const char *const *)c->pipeline.split_points.data : NULL,
        .plan = {.batch = rungi_shard_of(rungi_session_micro_batch(s), g->micro, 0).count,
                 .training = true,
                 .gradients = true,
                 .threads = rung_device_threads(s->device),
                 .fuse = c->plan.fuse,
                 .layout = c->plan.layout,
                 .kernels = c->plan.kernels,
                 .winograd = c->plan.winograd,
                 .winograd_bf16 = c->plan.winograd_bf16,
                 .precision = c->precision.dtype,
                 .compute = c->precision.compute},
        .optimizer_states = rungi_optimizer_states(&optimizer),
        .budget = (uint64_t)c->memory.budget,
        .op_rate = c->device.op_rate};
    if (s->rank == 0)
        RUNG_TRY(choose_here(s, g, &o));
    return rungi_comm_broadcast(s->comm, g->info, sizeof *g->info * (uint64_t)g->count, 0,
                                "layers of each stage");
}

static rung_status check_inputs(const rungi_session *s, const rung_graph *g)
{
    for (size_t i = 1; s->rank && i < g->values.count; i++)
        RUNG_CHECK(g->values.data[i].kind != RUNGI_VALUE_INPUT ||
                       strcmp(g->values.data[i].name, "image") != 0,
                   RUNG_UNSUPPORTED,
                   "stage %d reads the pictures, which only the first stage has: cut the network "
                   "behind their last reader",
                   s->rank);
    return RUNG_OK;
}

rung_status rungi_session_make_stages(rungi_session *s)
{
    rungi_session_stages *g = calloc(1, sizeof *g);
    RUNG_CHECK(g, RUNG_NO_MEMORY, "no memory for stages");
    s->stages = g;
    g->whole = s->graph;
    s->graph = NULL;
    g->count = s->ranks;
    g->micro = (int)rungi_config_micro_batches(s->c, s->ranks, rungi_session_micro_batch(s));
    g->total = g->micro * (int)s->c->gradients.accumulate;
    RUNG_TRY(choose(s, g));
    const rungi_stage_info *own = &g->info[s->rank];
    RUNG_TRY(rungi_part_create(g->whole, own->begin, own->end, true, &g->part));
    s->graph = g->part.graph;
    return check_inputs(s, s->graph);
}

void rungi_session_drop_stages(rungi_session *s)
{
    if (!s->stages)
        return;
    rungi_session_part_stages(s);
    rung_graph_destroy(&s->stages->whole);
    free(s->stages->shared);
    free(s->stages);
    s->stages = NULL;
}

const rung_graph *rungi_session_whole(const rungi_session *s)
{
    return s->stages ? s->stages->whole : s->graph;
}

int64_t rungi_session_param_count(const rungi_session *s)
{
    int64_t sum = 0;
    for (int r = 0; s->stages && r < s->stages->count; r++)
        sum += s->stages->info[r].params;
    return s->stages ? sum : rung_state_param_count(s->state);
}

bool rungi_session_has_logits(const rungi_session *s)
{
    for (size_t i = 0; i < s->graph->outputs.count; i++)
        if (strcmp(s->graph->outputs.data[i].name, "logits") == 0)
            return true;
    return false;
}

// ---- batches ----------------------------------------------------------------------------------

// What is told of a batch before its values.
typedef struct header {
    rung_batch batch; // without what it points to
    uint64_t bytes;   // of the samples' numbers and all fields but the first
} header;

static uint64_t field_bytes(const rung_view *field)
{
    return (uint64_t)rungi_shape_size(&field->shape) * rung_dtype_size(field->dtype);
}

static rung_status reserve(rungi_session_stages *g, uint64_t bytes)
{
    if (g->shared_bytes >= bytes)
        return RUNG_OK;
    char *data = realloc(g->shared, bytes);
    RUNG_CHECK(data, RUNG_NO_MEMORY, "no memory for labels");
    g->shared = data;
    g->shared_bytes = bytes;
    return RUNG_OK;
}

// Copies between a batch and the block that is sent; `set`: makes the batch's pointers from it.
static void pack(rungi_session_stages *g, rung_batch *batch, bool set)
{
    char *at = g->shared;
    uint64_t bytes = (uint64_t)batch->count * sizeof *batch->samples;
    if (set)
        batch->samples = (const int64_t *)at;
    else
        memcpy(at, batch->samples, bytes);
    at += bytes;
    for (int f = 1; f < batch->field_count; f++) {
        bytes = field_bytes(&batch->fields[f]);
        if (set)
            batch->fields[f].data = at;
        else
            memcpy(at, batch->fields[f].data, bytes);
        at += (bytes + 7) / 8 * 8;
    }
}

rung_status rungi_session_share_batch(rungi_session *s, rung_batch *batch)
{
    rungi_session_stages *g = s->stages;
    header h = {.batch = *batch};
    if (s->rank == 0) {
        h.bytes = (uint64_t)batch->count * sizeof *batch->samples;
        for (int f = 1; f < batch->field_count; f++)
            h.bytes += (field_bytes(&batch->fields[f]) + 7) / 8 * 8;
    }
    RUNG_TRY(rungi_comm_broadcast(s->comm, &h, sizeof h, 0, "a batch's place"));
    RUNG_TRY(reserve(g, h.bytes));
    if (s->rank == 0)
        pack(g, batch, false);
    RUNG_TRY(rungi_comm_broadcast(s->comm, g->shared, h.bytes, 0, "a batch's labels"));
    if (s->rank == 0)
        return RUNG_OK;
    *batch = h.batch;
    batch->slot = NULL;
    batch->draws = NULL;
    batch->fields[0] = (rung_view){.dtype = RUNG_U8}; // the pictures are the first stage's
    pack(g, batch, true);
    return RUNG_OK;
}

// ---- updates ----------------------------------------------------------------------------------

// The squares of all stages' gradients are added as one device adds them: from the last parameter
// to the first.
static rung_status share_norm(void *user, const double *sums, int64_t count, double *total_out)
{
    rungi_session *s = user;
    uint64_t offsets[RUNGI_PIPELINE_STAGES + 1];
    void *all = NULL;
    double total = 0;
    RUNG_TRY(rungi_comm_gather_objects(s->comm, sums, (uint64_t)count * sizeof *sums,
                                       "squares of the gradients", &all, offsets));
    for (int r = s->ranks - 1; r >= 0; r--)
        for (uint64_t at = offsets[r]; at < offsets[r + 1]; at += sizeof total) {
            double sum;
            memcpy(&sum, (char *)all + at, sizeof sum);
            total += sum;
        }
    free(all);
    *total_out = total;
    return RUNG_OK;
}

rung_status rungi_session_update_stages(rungi_session *s, const rung_optimizer_update *update,
                                        rung_optimizer_report *report_out)
{
    const rungi_optimizer_peers peers = {share_norm, s};
    return s->scales_loss
               ? rungi_loss_scale_step_with(&s->loss_scale, s->optimizer, s->state->params,
                                            s->state->grads, update, &peers, report_out)
               : rungi_optimizer_step_with(s->optimizer, s->state->params, s->state->grads, update,
                                           &peers, report_out);
}

// ---- text -------------------------------------------------------------------------------------

static const char *layer_name(const rung_graph *g, int node)
{
    return g->nodes.data[node].name;
}

void rungi_session_stages_text(const rungi_session *s, rungi_string *out)
{
    const rungi_session_stages *g = s->stages;
    double forward[RUNGI_PIPELINE_STAGES], backward[RUNGI_PIPELINE_STAGES], all = 0, work = 0;
    char a[32], b[32], c[32];
    for (int r = 0; r < g->count; r++) {
        forward[r] = g->info[r].forward;
        backward[r] = g->info[r].backward;
        all += forward[r] + backward[r];
    }
    for (int r = 0; r < g->count; r++) {
        const rungi_stage_info *i = &g->info[r];
        rungi_string_add(out,
                         "stage %-5d%s to %s: %.0f %% of the time, %s of parameters, %d x %s kept "
                         "for backward",
                         r, layer_name(g->whole, i->begin), layer_name(g->whole, i->end - 1),
                         100 * (forward[r] + backward[r]) / all,
                         rungi_text_bytes((uint64_t)i->params * sizeof(float), a, sizeof a),
                         i->in_flight, rungi_text_bytes(i->kept_bytes, b, sizeof b));
        if (r + 1 < g->count)
            rungi_string_add(out, ", %s to the next", rungi_text_bytes(i->cut_bytes, c, sizeof c));
        rungi_string_add(out, "\n");
    }
    rungi_pipeline_schedule schedule = s->c->pipeline.schedule;
    int total = g->total < RUNGI_PIPELINE_MICRO ? g->total : RUNGI_PIPELINE_MICRO; // looked at
    double time = rungi_pipeline_makespan(schedule, g->count, g->micro, total, forward, backward);
    work = all * total;
    rungi_string_add(out,
                     "pipeline   %s, %d micro-batch%s; stages idle %.0f %% of a step as predicted, "
                     "equal ones %.0f %%\n",
                     rungi_pipeline_schedule_name(schedule), g->total, g->total == 1 ? "" : "es",
                     100 * (1 - work / (time * g->count)),
                     100 * rungi_pipeline_bubble(schedule, g->count, g->micro, g->total));
}
