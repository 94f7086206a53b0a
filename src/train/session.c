// SPDX-License-Identifier: Apache-2.0
#include "train/session_servers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cores.h"
#include "base/error.h"
#include "device/device.h"
#include "optim/optimizer.h"
#include "rung/models.h"
#include "train/session_stages.h"

enum { TIMELINE_SPANS = 1 << 16 };

// How many ranks share the cores that this process sees: those of its threads where the launcher
// has given each process cores of its own, else all of the machine.
static int sharing(const rungi_session *s)
{
    cpu_set_t set;
    rungi_cores_allowed(&set);
    return CPU_COUNT(&set) < sysconf(_SC_NPROCESSORS_ONLN) ? (int)s->c->train.ranks
                                                           : rungi_comm_local_size(s->comm);
}

// How many times slower than device.op_rate this rank's device is.
static double slowdown(const rungi_session *s)
{
    const rungi_reals *list = &s->c->device.slowdown;
    return (size_t)s->rank < list->count ? list->data[s->rank] : 1;
}

static rung_status make_device(rungi_session *s)
{
    const rungi_train_config *c = s->c;
    int rank = s->comm ? rungi_comm_local_rank(s->comm) : 0;
    int threads = (int)c->device.threads, cores = rungi_core_count();
    char own[32];
    snprintf(own, sizeof own, "cpu:%d", rank);
    if (s->comm) {
        RUNG_TRY(rungi_train_config_check_ranks(rungi_config_options(s->config), c, s->ranks,
                                                rungi_comm_local_size(s->comm)));
        RUNG_TRY(rungi_train_config_check_counts(rungi_config_options(s->config), c, s->ranks));
        if (!threads)
            threads = cores > sharing(s) ? cores / sharing(s) : 1;
    }
    rung_device_options o = {
        .threads = threads, .huge_pages = c->memory.huge_pages, .op_rate = c->device.op_rate};
    if (rungi_train_devices(c) > 1)
        return rungi_session_make_devices(s, &o);
    bool named = !s->comm || c->device.list.count > 1;
    o.op_rate /= slowdown(s);
    RUNG_TRY(
        rung_device_create(s->context, named ? c->device.list.data[rank] : own, &o, &s->device));
    s->devices[0] = s->device;
    return RUNG_OK;
}

static rung_status build_graph(rungi_session *s, const rung_shape *image)
{
    const rungi_model_config *m = &s->c->model;
    int64_t classes = m->classes ? m->classes : s->classes;
    RUNG_CHECK(classes >= 1, RUNG_CONFIG,
               "model.classes is not set and the data set does not tell its classes");
    RUNG_CHECK(classes >= s->classes, RUNG_CONFIG,
               "model.classes is %" PRId64 " but the data set has %" PRId64
               " classes: raise it, or set it to auto",
               classes, s->classes);
    RUNG_TRY(rung_graph_create(s->context, &s->graph));
    rung_shape batch = {image->rank + 1, {RUNG_BATCH}};
    memcpy(batch.dim + 1, image->dim, sizeof(int64_t) * (size_t)image->rank);
    rung_value x = rung_input(s->graph, "image", RUNG_F32, batch);
    rung_value logits,
        y = rungi_session_mixes(s)
                ? rung_input(s->graph, "target", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, classes))
                : rung_input(s->graph, "label", RUNG_I64, RUNG_SHAPE(RUNG_BATCH));
    rung_model_options o = {.classes = classes,
                            .hidden = m->hidden.data,
                            .n_hidden = (int)m->hidden.count,
                            .set_dropout = m->dropout >= 0,
                            .dropout = m->dropout,
                            .stem = m->stem};
    RUNG_TRY(rung_model_build(s->graph, m->name, &o, x, &logits));
    rung_graph_output(s->graph, "logits", logits);
    rung_graph_loss(s->graph, rung_cross_entropy(s->graph, logits, y, 0));
    return rung_graph_check(s->graph);
}

// model.freeze; and with frozen_batch_norm: eval the mode of normalization whose weight it froze.
static rung_status freeze(rungi_session *s)
{
    const rungi_model_config *m = &s->c->model;
    for (size_t i = 0; i < m->freeze.count; i++)
        RUNG_CHECK(rung_graph_freeze(s->graph, m->freeze.data[i]) > 0, RUNG_CONFIG,
                   "model.freeze: no parameter of %s matches '%s'", m->name, m->freeze.data[i]);
    for (size_t k = 0; k < s->graph->nodes.count; k++) {
        rungi_node *node = &s->graph->nodes.data[k];
        if (m->frozen_batch_norm == RUNGI_FROZEN_NORM_EVAL &&
            strcmp(node->op->name, "batch_norm") == 0 && node->n_in > 1 && node->in[1] &&
            s->graph->values.data[node->in[1]].frozen)
            node->eval = true;
    }
    return RUNG_OK;
}

// Servers that gradients of all ranks go to; 0: none.
static int sync_servers(const rungi_session *s)
{
    return s->comm && rungi_config_has_servers(s->c, s->ranks) && s->c->ps.mode == RUNGI_PS_SYNC
               ? rungi_config_servers(s->c, s->ranks)
               : 0;
}

static rung_status make_engine(rungi_session *s, bool timeline_off)
{
    const rungi_train_config *c = s->c;
    RUNG_TRY(rungi_timeline_create(s->context, TIMELINE_SPANS, timeline_off, &s->timeline));
    rungi_engine_options o = {.exact = c->exact,
                              .shards = (int)c->train.shards,
                              .fuse = c->plan.fuse,
                              .fuse_optimizer = c->plan.fuse_optimizer,
                              .allow_unused = c->gradients.allow_unused,
                              .accumulate = (int)c->gradients.accumulate,
                              .layout = c->plan.layout,
                              .kernels = c->plan.kernels,
                              .winograd = c->plan.winograd,
                              .winograd_bf16 = c->plan.winograd_bf16,
                              .precision = c->precision.dtype,
                              .compute = c->precision.compute,
                              .tuning = s->tuning,
                              .timeline = s->timeline,
                              .exchange = {.comm = s->comm,
                                           .overlap = c->ddp.overlap,
                                           .bucket_bytes = c->ddp.bucket_size,
                                           .compress = c->ddp.compress,
                                           .owned = rungi_session_owns_gradients(s),
                                           .fuse = rungi_session_fuses_update(s),
                                           .servers = sync_servers(s)},
                              .replicas = rungi_session_replicas(s)};
    if (s->stages) {
        o.exchange.comm = NULL;
        o.pipeline = (rungi_pipeline_options){.comm = s->comm,
                                              .part = &s->stages->part,
                                              .micro = s->stages->micro,
                                              .schedule = c->pipeline.schedule};
    }
    RUNG_TRY(rungi_session_synchronize(s, &o.synchronize));
    RUNG_TRY(rungi_session_memory_options(s, &o));
    return rungi_engine_create(s->graph, s->state, &o, &s->engine);
}

static rung_status make_optimizer(rungi_session *s)
{
    s->scales_loss = s->c->precision.dtype == RUNG_F16;
    s->loss_scale = rung_loss_scale_defaults();
    s->loss_scale.scale = s->c->precision.loss_scale;
    s->loss_scale.growth_interval = s->c->precision.growth;
    s->segments = calloc((size_t)s->state->n_params + 1, sizeof *s->segments);
    RUNG_CHECK(s->segments, RUNG_NO_MEMORY, "no memory for the optimizer");
    bool *reached; // others have no gradient: they are left alone
    RUNG_TRY(rungi_graph_gradients(s->graph, &reached));
    for (int i = 0; i < s->state->n_params; i++) {
        const rungi_entry *e = &s->state->entries[s->state->flat_order[i]];
        const rungi_value *v = &s->graph->values.data[e->value];
        s->segments[s->n_segments++] = (rung_segment){.name = v->name,
                                                      .begin = e->offset,
                                                      .end = e->offset + e->count,
                                                      .group = v->param.no_decay,
                                                      .frozen = v->frozen || !reached[e->value]};
    }
    free(reached);
    rung_optimizer_options o = rungi_config_optimizer(s->c);
    const rung_param_group no_decay = {.lr_multiplier = 1, .weight_decay = 0};
    o.groups = &no_decay;
    o.group_count = 1;
    return rungi_session_make_optimizer(s, &o);
}

static rung_status make_schedule(rungi_session *s)
{
    rung_loader_info info;
    rung_loader_describe(s->train_loader, &info);
    s->batches_per_epoch = info.batches_per_epoch;
    s->total_steps = s->c->train.steps;
    if (!s->total_steps &&
        __builtin_mul_overflow(s->c->train.epochs, info.batches_per_epoch, &s->total_steps))
        return RUNG_FAIL(RUNG_CONFIG, "train.epochs gives more steps than can be counted");
    rung_schedule described = rungi_config_schedule(s->c);
    return rung_schedule_resolve(&described, s->total_steps, info.batches_per_epoch, &s->schedule);
}

static rung_status create(rungi_session *s, const rung_config *config,
                          const rungi_session_options *o)
{
    rung_shape image;
    RUNG_TRY(rung_config_copy(config, &s->config));
    s->c = rungi_config_values(s->config);
    RUNG_TRY(make_device(s));
    if (o->image) {
        RUNG_TRY(rungi_session_set_classes(s, o->classes, o->class_names));
        image = *o->image;
    } else {
        RUNG_TRY(rungi_session_open_data(s, o->parts));
        RUNG_TRY(rungi_session_check_fields(s));
        RUNG_TRY(rungi_session_image(s, &image));
    }
    RUNG_TRY(build_graph(s, &image));
    RUNG_TRY(freeze(s));
    if (s->c->train.strategy == RUNGI_STRATEGY_PIPELINE && s->comm)
        RUNG_TRY(rungi_session_make_stages(s));
    else if (s->c->train.strategy == RUNGI_STRATEGY_PIPELINE && (o->parts & RUNGI_SESSION_TRAIN))
        return rungi_options_fail(rungi_config_options(s->config), "train.strategy",
                                  "is pipeline, but there is one rank: give as many as stages, "
                                  "--ranks N or processes of mpirun");
    RUNG_TRY(rung_state_create(s->graph, s->device, &s->state));
    RUNG_TRY(o->loaded ? rung_state_init(s->state, (uint64_t)s->c->seed) : rungi_session_begin(s));
    if (s->comm)
        RUNG_TRY(rungi_session_agree(s));
    if (s->c->plan.autotune)
        RUNG_TRY(rungi_session_open_tuning(s, o->tuning));
    RUNG_TRY(make_engine(s, o->timeline_off));
    if (o->parts & RUNGI_SESSION_TRAIN) {
        RUNG_TRY(make_optimizer(s));
        if (s->train_loader)
            RUNG_TRY(make_schedule(s));
    }
    return rungi_session_share_tuning(s);
}

rung_status rungi_session_create(rung_context *context, const rung_config *config,
                                 const rungi_session_options *options, rungi_session **session_out)
{
    RUNG_TRY(rung_config_check(config));
    rungi_session *s = calloc(1, sizeof *s);
    RUNG_CHECK(s, RUNG_NO_MEMORY, "no memory for a session");
    s->context = context;
    s->comm = options->comm;
    s->rank = s->comm ? rungi_comm_rank(s->comm) : 0;
    s->ranks = s->comm ? rungi_comm_size(s->comm) : 1;
    rung_status status = create(s, config, options);
    if (status != RUNG_OK) {
        rung_error error = *rung_error_last();
        rungi_session_destroy(&s);
        return rungi_fail_adopt(&error);
    }
    *session_out = s;
    return RUNG_OK;
}

rung_status rungi_session_of_data(rung_context *context, const rung_config *config, unsigned parts,
                                  rungi_session **session_out)
{
    rungi_session *s = calloc(1, sizeof *s);
    RUNG_CHECK(s, RUNG_NO_MEMORY, "no memory for a session");
    s->context = context;
    s->ranks = 1;
    rung_status status = rung_config_copy(config, &s->config);
    if (status == RUNG_OK)
        s->c = rungi_config_values(s->config);
    if (status == RUNG_OK && parts)
        status = rungi_session_open_data(s, parts);
    if (status != RUNG_OK) {
        rung_error error = *rung_error_last();
        rungi_session_destroy(&s);
        return rungi_fail_adopt(&error);
    }
    *session_out = s;
    return RUNG_OK;
}

int64_t rungi_session_logits(const rungi_session *s)
{
    const rung_graph *g = rungi_session_whole(s);
    for (size_t i = 0; i < g->outputs.count; i++)
        if (strcmp(g->outputs.data[i].name, "logits") == 0)
            return g->values.data[g->outputs.data[i].value].shape.dim[1];
    return 0;
}

void rungi_session_destroy(rungi_session **session)
{
    if (!session || !*session)
        return;
    rungi_session *s = *session;
    rungi_feeder_destroy(&s->feeder);
    rungi_feeder_destroy(&s->val_feeder);
    rung_loader_destroy(&s->train_loader);
    rung_loader_destroy(&s->val_loader);
    if (s->pinned)
        rungi_pinned_fini(s->pinned);
    free(s->pinned);
    rung_sampler_destroy(&s->train_sampler);
    rung_sampler_destroy(&s->val_sampler);
    rung_source_destroy(&s->train_source);
    rung_source_destroy(&s->val_source);
    rungi_session_part_optimizer(s, false);
    rungi_session_destroy_servers(s);
    if (s->heads) {
        rungi_device_disown(s->device, s->heads);
        rungi_comm_free(s->comm, s->heads);
    }
    rung_optimizer_destroy(&s->optimizer);
    for (int i = 0; i < RUNG_OPTIMIZER_STATES; i++)
        rung_device_free(s->device, s->optimizer_state[i]);
    rungi_session_keep_tuning(s);
    rungi_engine_destroy(&s->engine);
    rung_tuning_destroy(&s->tuning);
    free(s->tuning_path);
    rungi_timeline_destroy(&s->timeline);
    rungi_session_drop_stages(s);
    rung_state_destroy(&s->state);
    rung_graph_destroy(&s->graph);
    s->device = NULL;
    for (int d = 0; d < RUNGI_MAX_DEVICES; d++)
        rung_device_destroy(&s->devices[d]);
    for (int64_t i = 0; s->class_names && i < s->classes; i++)
        free(s->class_names[i]);
    free(s->class_names);
    for (size_t i = 0; i < s->bad.count; i++)
        free(s->bad.data[i].message);
    rungi_array_fini(&s->bad);
    free(s->segments);
    free(s->places);
    rung_config_destroy(&s->config);
    free(s);
    *session = NULL;
}
