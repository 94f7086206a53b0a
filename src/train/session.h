// SPDX-License-Identifier: Apache-2.0
// A session: everything that a configuration describes, made and wired together. Training,
// evaluation, prediction, summaries and the ladder's blocks all start from one.
#ifndef RUNGI_TRAIN_SESSION_H
#define RUNGI_TRAIN_SESSION_H

#include "base/array.h"
#include "measure/timeline.h"
#include "rung/data.h"
#include "rung/loss_scale.h"
#include "rung/optim.h"
#include "train/engine.h"
#include "train/feeder.h"
#include "train/train_config.h"

typedef struct rungi_session_stages rungi_session_stages; // session_stages.h

// What of a session is wanted.
enum {
    RUNGI_SESSION_TRAIN = 1, // training data, optimizer, schedule
    RUNGI_SESSION_EVAL = 2,  // validation data
    RUNGI_SESSION_ALL = 3,
};

// A sample that was left out (data.on_bad_sample skip).
typedef struct rungi_bad_entry {
    bool training;
    int64_t sample;
    char *message;
} rungi_bad_entry;

typedef struct rungi_session {
    rung_context *context;
    rungi_comm *comm; // with the other ranks; borrowed; NULL: there are none
    int rank, ranks;
    char *places;        // several ranks: "rank 0 cpu:0, 1 cpu:1 on HOST; ..."; else NULL
    bool want_stop;      // this rank wants to end: see rungi_engine_stop
    int64_t waited;      // nanoseconds that it waited for its last batch
    int64_t batch_count; // samples of its last batch
    bool stopped;        // by rungi_session_step: see rungi_session_begin_step
    rung_config *config; // own copy
    const rungi_train_config *c;

    rung_device *device;
    rung_device *devices[RUNGI_MAX_DEVICES]; // of data_parallel: [0] is `device`; else that alone
    rung_source *train_source, *val_source;
    rung_sampler *train_sampler, *val_sampler; // of a split; else NULL
    rung_loader *train_loader, *val_loader;
    rung_mix mixes[2];        // of validation and training
    rungi_feeder *feeder;     // of training, where batches are copied or finished on the device
    rungi_feeder *val_feeder; // of validation, where they are copied
    rungi_pinned *pinned;     // what the training loader's batches lie in, or NULL
    RUNGI_ARRAY(rungi_bad_entry) bad; // in the order in which they were met
    int64_t classes;
    char **class_names; // classes of them, or NULL

    rung_graph *graph; // of strategy pipeline: this rank's layers, and so of all that follows
    rungi_session_stages *stages; // of strategy pipeline; else NULL
    rung_state *state;
    rungi_timeline *timeline;
    rungi_engine *engine;
    rung_tuning *tuning; // plan.autotune; else NULL
    char *tuning_path;   // this CPU's file, or NULL

    rung_segment *segments; // parameters in the order of the flat buffer
    int64_t n_segments;
    // Where it is cut over the ranks (rungi_session_shards_optimizer): this rank's part.
    rung_optimizer *optimizer;
    struct rungi_session_servers *servers;         // of ps.mode async; else NULL
    float *optimizer_state[RUNG_OPTIMIZER_STATES]; // of the device
    // The optimizer's state of all ranks, while a checkpoint is written or read; else NULL.
    float *whole_state[RUNG_OPTIMIZER_STATES];
    float *heads; // of ddp.shard_optimizer: first gradients of each rank's part, shared; or NULL
    bool scales_loss;           // fp16
    rung_loss_scale loss_scale; // with it
    rung_schedule schedule;     // resolved
    int64_t batches_per_epoch, total_steps;
} rungi_session;

typedef struct rungi_session_options {
    unsigned parts;
    rungi_comm *comm;        // borrowed; NULL: one rank
    bool timeline_off;       // no attribution, to measure what it costs
    const rung_shape *image; // after the transforms, [C, H, W]: use it and what follows instead of
    int64_t classes;         // opening data sets (prediction from a run folder)
    const char *const *class_names; // copied; NULL: none
    bool loaded; // parameters and buffers will be read from a checkpoint: leave model.weights
    const char *tuning; // choices of the run that goes on, a file; NULL: none
} rungi_session_options;

// Makes a session. `config` is checked and copied; the context is borrowed. Parameters have the
// values that a run begins with. The caller owns the session.
rung_status rungi_session_create(rung_context *context, const rung_config *config,
                                 const rungi_session_options *options, rungi_session **session_out);
void rungi_session_destroy(rungi_session **session);
// A session with nothing but the configuration and the data of `parts` (0: none yet), for tools.
// Only the keys data.* and seed need to make sense.
rung_status rungi_session_of_data(rung_context *context, const rung_config *config, unsigned parts,
                                  rungi_session **session_out);

// session_weights.c: gives parameters and buffers the values that a run begins with: the seed's
// initial ones, or those of model.weights.
// Errors: those of reading that file; RUNG_NOT_FOUND, RUNG_MISMATCH naming a tensor that it lacks
// or has in another shape.
rung_status rungi_session_begin(rungi_session *s);

// session_sampler.c: the split, and the order of the training samples (data.sampler). Called once
// the sources are open.
rung_status rungi_session_samplers(rungi_session *s, unsigned parts);

// session_data.c: sources, loaders.
rung_status rungi_session_open_data(rungi_session *s, unsigned parts);
// Are samples pictures with one label? No built-in network takes anything else. Errors:
// RUNG_UNSUPPORTED.
rung_status rungi_session_check_fields(const rungi_session *s);
// Opens the source of training or validation data. The caller owns it.
rung_status rungi_session_open_source(const rungi_session *s, bool validation,
                                      rung_source **source_out);
// What the training or validation loader is made with; `steps` has room for
// RUNGI_SESSION_TRANSFORMS, and the source that belongs to it.
rung_status rungi_session_loader_options(rungi_session *s, bool training, rung_transform *steps,
                                         rung_loader_options *options_out,
                                         rung_source **source_out);
// session_feed.c: the feeder that belongs to a loader made with `options`; NULL when batches are
// used as they come. With `timed` the session's timeline tells what is waited for. The caller owns
// it.
rung_status rungi_session_make_feeder(rungi_session *s, rung_loader *loader,
                                      const rung_source *source, const rung_loader_options *options,
                                      bool timed, rungi_feeder **feeder_out);
// Makes where the loaders' batches lie, if that is pinned memory; `memory` is filled then.
rung_status rungi_session_pin(rungi_session *s, bool *pinned_out, rung_loader_memory *memory);
// Training batches, on the device: as rung_loader_next, _release and _seek. One at a time.
rung_status rungi_session_next(rungi_session *s, int64_t step, rung_batch *batch_out);
void rungi_session_release(rungi_session *s, rung_batch *batch);
rung_status rungi_session_seek(rungi_session *s, int64_t epoch, int64_t position);
// The same of validation batches.
rung_status rungi_session_val_next(rungi_session *s, rung_batch *batch_out);
void rungi_session_val_release(rungi_session *s, rung_batch *batch);
rung_status rungi_session_val_seek(rungi_session *s, int64_t epoch, int64_t position);
// Keeps the number of classes and a copy of their names (which may be NULL).
rung_status rungi_session_set_classes(rungi_session *s, int64_t classes, const char *const *names);
// Sets data.num_workers, so that a run that goes on has as many, and makes the loaders anew.
rung_status rungi_session_set_workers(rungi_session *s, int workers);
// Shape of an image after the transforms.
rung_status rungi_session_image(const rungi_session *s, rung_shape *shape_out);

// tuning.c: the table of measured kernels, from the run's file and this CPU's; and back to the
// latter when something was measured.
rung_status rungi_session_open_tuning(rungi_session *s, const char *run_file);
void rungi_session_keep_tuning(rungi_session *s);
// Of several ranks: chooses the kernels of all plans that will occur. Collective.
rung_status rungi_session_share_tuning(rungi_session *s);

// Shape [C, H, W] of a picture before the transforms, [C, 0, 0] where pictures are files and differ
// in size; false when samples are no pictures of bytes.
bool rungi_session_picture(const rungi_session *s, rung_shape *shape_out);
// session_transforms.c: writes the transforms of training or validation for a source whose images
// are `image`. Errors: RUNG_CONFIG when nothing makes pictures of different sizes equal.
enum { RUNGI_SESSION_TRANSFORMS = 16 };
rung_status rungi_session_transforms(const rungi_session *s, bool training, const rung_field *image,
                                     rung_transform *steps, int *count_out);

// session_replicas.c: makes the devices of data_parallel, which divide the threads; says what the
// engine does with them.
rung_status rungi_session_make_devices(rungi_session *s, const rung_device_options *options);
rungi_replicas_options rungi_session_replicas(const rungi_session *s);
// Shards of this rank's first device, and how many of them have an arena at once.
int rungi_session_own_shards(const rungi_session *s);
int rungi_session_arenas(const rungi_session *s);
// Bytes that training takes of the first one for the others' sake, beside arenas.
uint64_t rungi_session_replica_bytes(const rungi_session *s);
// What the banner says of them; what they do in a step, with plans; and, after training, what each
// one held and how busy it was.
void rungi_session_replicas_text(const rungi_session *s, rungi_string *out);
rung_status rungi_session_explain_replicas(const rungi_session *s, rungi_string *out);
void rungi_session_balance_text(const rungi_session *s, rungi_string *out);

// session_ranks.c: refuses, on all ranks and with both values, when a rank has another seed, data
// set, network or batch than rank 0; then gives all of them rank 0's parameters and buffers.
rung_status rungi_session_agree(rungi_session *s);

// ddp.sync_batch_norm. Refuses what it cannot be combined with.
rung_status rungi_session_synchronize(const rungi_session *session, bool *synchronize_out);
// The optimizer's step: as rung_optimizer_step, with fp16 as rung_loss_scale_step (all ranks leave
// a step out together, as they have the same gradients), which is followed by giving this rank's
// parameters to the others where the optimizer is cut over the ranks. Of ps.mode async: a push
// (grad_norm is that of this rank's gradient).
rung_status rungi_session_update_params(rungi_session *s, const rung_optimizer_update *update,
                                        int64_t step, rung_optimizer_report *report_out);
// session_servers.c, ps.mode async; else nothing happens, and *go_out is true. Before a step: waits
// until this rank may take it (collective at the first one), with the newest weights. *go_out
// false: all ranks end here, as one of them wanted (want_stop).
bool rungi_session_is_async(const rungi_session *s);
rung_status rungi_session_begin_step(rungi_session *s, int64_t step, bool *go_out);
// Collective, after as many steps on all ranks: all have the servers' parameters then, and the same
// running statistics.
rung_status rungi_session_meet(rungi_session *s, int64_t step);

// Samples that all ranks of ps.mode async have trained on. For rank 0.
int64_t rungi_session_samples_of_all(const rungi_session *s);

// Is the optimizer's state cut over the ranks (ddp.shard_optimizer, parameter servers)? And this
// rank's part of it, or all.
bool rungi_session_shards_optimizer(const rungi_session *s);
// Are gradients summed for their owners alone (ddp.shard_optimizer)?
bool rungi_session_owns_gradients(const rungi_session *s);
// Are they added where parameters are updated, in steps that do not look at their sums before?
bool rungi_session_fuses_update(const rungi_session *s);
rungi_comm_part rungi_session_optimizer_part(const rungi_session *s);
// Brings the optimizer's state of all ranks together (`gather`), or makes room for it; and takes it
// apart again (`keep`: this rank's part is taken from it). Collective; nothing happens where it is
// not cut.
rung_status rungi_session_join_optimizer(rungi_session *s, bool gather);
// State number `index` of the optimizer, whole: of all ranks where it has been joined.
float *rungi_session_optimizer_state(const rungi_session *s, int index);
void rungi_session_part_optimizer(rungi_session *s, bool keep);

// Parts that a batch is cut into over the ranks: the stages of a pipeline all have the whole.
static inline int rungi_session_parts(const rungi_session *s)
{
    return s->stages || s->c->train.strategy == RUNGI_STRATEGY_PIPELINE ? 1 : s->ranks;
}

// Samples of all ranks and devices together: in a batch of those that train.accumulate adds up,
// which is also what validation takes; and in what a step is on, as the training loader gives it.
static inline int64_t rungi_session_micro_batch(const rungi_session *s)
{
    int64_t part = s->c->data.batch_per_device;
    return part ? part * s->ranks * rungi_train_devices(s->c) : s->c->data.batch_size;
}
static inline int64_t rungi_session_batch(const rungi_session *s)
{
    return rungi_session_micro_batch(s) * s->c->gradients.accumulate;
}

// Shards that a batch is cut into, of all ranks and devices.
static inline int rungi_session_shards(const rungi_session *s)
{
    return s->c->exact ? (int)s->c->train.shards
                       : (s->ranks > 1 ? s->ranks : rungi_train_devices(s->c));
}
// Shards of exact in what a step is on (part of what is trained), or train.shards.
static inline int64_t rungi_session_trained_shards(const rungi_session *s)
{
    return s->c->train.shards * (s->c->exact ? s->c->gradients.accumulate : 1);
}
// Parts that a batch is cut into for the ranks to share, the rounds of training among them.
static inline int rungi_session_cut(const rungi_session *s, bool training)
{
    int parts = s->c->exact ? (int)s->c->train.shards : rungi_session_parts(s);
    return training ? parts * (int)s->c->gradients.accumulate : parts;
}

// Classes that the network tells apart: the width of its logits.
int64_t rungi_session_logits(const rungi_session *s);

// session_oom.c: after a call about batches of `batch` returned `status`: when that is
// RUNG_NO_MEMORY, adds to the message what holds the memory and what would help. Returns `status`.
rung_status rungi_session_no_memory(const rungi_session *s, int64_t batch, rung_status status);

// session_memory.c: fills what memory.recompute and memory.budget say about plans.
// Errors: RUNG_NO_MEMORY when weights, gradients and optimizer alone take the budget.
rung_status rungi_session_memory_options(const rungi_session *s, rungi_engine_options *o);
// Makes s->optimizer with its state in the device's memory.
rung_status rungi_session_make_optimizer(rungi_session *s, const rung_optimizer_options *o);

// session_step.c: what the optimizer is to do in step `step` (from 0).
rung_optimizer_update rungi_session_update(const rungi_session *s, int64_t step);

// session_step.c: forward and backward of a batch as step `step` (from 0), for rung_optimizer_step
// with `update` to follow; and a whole step, as training without a trainer's checks takes it.
rung_status rungi_session_gradients(rungi_session *s, const rung_batch *batch, int64_t step,
                                    const rung_optimizer_update *update, double *loss_out);
rung_status rungi_session_step(rungi_session *s, const rung_batch *batch, int64_t step,
                               double *loss_out);

// Are batches mixed (data.mixup, data.cutmix)? The network's loss is of class probabilities then.
bool rungi_session_mixes(const rungi_session *s);
// Labels of a batch; NULL when it has none.
const int64_t *rungi_session_labels(const rungi_session *s, const rung_batch *batch);

// Feeds of a batch, by the names of its fields. `feeds` has room for RUNG_MAX_FIELDS.
int rungi_session_feeds(const rungi_session *s, const rung_batch *batch, rungi_feed *feeds);

#endif
