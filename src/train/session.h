// SPDX-License-Identifier: Apache-2.0
// A session: everything that a configuration describes, made and wired together. Training,
// evaluation, prediction, summaries and the ladder's blocks all start from one.
#ifndef RUNGI_TRAIN_SESSION_H
#define RUNGI_TRAIN_SESSION_H

#include "base/array.h"
#include "measure/timeline.h"
#include "rung/data.h"
#include "rung/optim.h"
#include "train/engine.h"
#include "train/train_config.h"

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
    rung_config *config; // own copy
    const rungi_train_config *c;

    rung_device *device;
    rung_source *train_source, *val_source;
    rung_sampler *train_sampler, *val_sampler; // of a split; else NULL
    rung_loader *train_loader, *val_loader;
    RUNGI_ARRAY(rungi_bad_entry) bad; // in the order in which they were met
    int64_t classes;
    char **class_names; // classes of them, or NULL

    rung_graph *graph;
    rung_state *state;
    rungi_timeline *timeline;
    rungi_engine *engine;
    rung_tuning *tuning; // plan.autotune; else NULL
    char *tuning_path;   // this CPU's file, or NULL

    rung_segment *segments; // parameters in the order of the flat buffer
    int64_t n_segments;
    rung_optimizer *optimizer;
    rung_schedule schedule; // resolved
    int64_t batches_per_epoch, total_steps;
} rungi_session;

typedef struct rungi_session_options {
    unsigned parts;
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

// session_weights.c: gives parameters and buffers the values that a run begins with: the seed's
// initial ones, or those of model.weights.
// Errors: those of reading that file; RUNG_NOT_FOUND, RUNG_MISMATCH naming a tensor that it lacks
// or has in another shape.
rung_status rungi_session_begin(rungi_session *s);

// session_data.c: sources, samplers, loaders.
rung_status rungi_session_open_data(rungi_session *s, unsigned parts);
// Keeps the number of classes and a copy of their names (which may be NULL).
rung_status rungi_session_set_classes(rungi_session *s, int64_t classes, const char *const *names);
// Shape of an image after the transforms.
rung_status rungi_session_image(const rungi_session *s, rung_shape *shape_out);

// tuning.c: the table of measured kernels, from the run's file and this CPU's; and back to the
// latter when something was measured.
rung_status rungi_session_open_tuning(rungi_session *s, const char *run_file);
void rungi_session_keep_tuning(rungi_session *s);

// Shape [C, H, W] of a picture before the transforms, [C, 0, 0] where pictures are files and differ
// in size; false when samples are no pictures of bytes.
bool rungi_session_picture(const rungi_session *s, rung_shape *shape_out);
// session_transforms.c: writes the transforms of training or validation for a source whose images
// are `image`. Errors: RUNG_CONFIG when nothing makes pictures of different sizes equal.
enum { RUNGI_SESSION_TRANSFORMS = 16 };
rung_status rungi_session_transforms(const rungi_session *s, bool training, const rung_field *image,
                                     rung_transform *steps, int *count_out);

// Classes that the network tells apart: the width of its logits.
int64_t rungi_session_logits(const rungi_session *s);

// session_step.c: what the optimizer is to do in step `step` (from 0).
rung_optimizer_update rungi_session_update(const rungi_session *s, int64_t step);

// session_step.c: forward and backward of a batch as step `step` (from 0), for rung_optimizer_step
// with `update` to follow; and a whole step, as training without a trainer's checks takes it.
rung_status rungi_session_gradients(rungi_session *s, const rung_batch *batch, int64_t step,
                                    const rung_optimizer_update *update, double *loss_out);
rung_status rungi_session_step(rungi_session *s, const rung_batch *batch, int64_t step,
                               double *loss_out);

// Feeds of a batch, by the names of its fields. `feeds` has room for RUNG_MAX_FIELDS.
int rungi_session_feeds(const rungi_session *s, const rung_batch *batch, rungi_feed *feeds);

#endif
