// SPDX-License-Identifier: Apache-2.0
// The resolved configuration of a run as structs. The tables that fill them are in
// options_*.c: help, default and range of every key.
#ifndef RUNGI_TRAIN_TRAIN_CONFIG_H
#define RUNGI_TRAIN_TRAIN_CONFIG_H

#include "base/options.h"
#include "rung/config.h"
#include "rung/data.h"
#include "rung/models.h"
#include "rung/optim.h"
#include "rung/plan.h"
#include "train/pipeline_schedule.h"

// In comments: the words of a key and how they are stored.

typedef enum rungi_copy {
    RUNGI_COPY_DIRECT,
    RUNGI_COPY_EMULATE,
} rungi_copy;

typedef struct rungi_device_config {
    rung_isa isa;
    int64_t threads; // auto: 0
    rungi_texts list;
    rungi_copy copy;
    int64_t copy_delay;   // nanoseconds
    double copy_rate;     // GB/s; 0: as fast as memory
    double op_rate;       // GFLOP/s; 0: as fast as it is
    rungi_reals slowdown; // of each rank, or device of data_parallel; none: all as fast
} rungi_device_config;

typedef enum rungi_data_origin {
    RUNGI_DATA_REAL,
    RUNGI_DATA_SYNTHETIC,
    RUNGI_DATA_PRELOADED,
} rungi_data_origin;

typedef enum rungi_bad_sample {
    RUNGI_BAD_SAMPLE_STOP,
    RUNGI_BAD_SAMPLE_SKIP,
} rungi_bad_sample;

typedef enum rungi_augment_on {
    RUNGI_AUGMENT_WORKER,
    RUNGI_AUGMENT_DEVICE,
} rungi_augment_on;

typedef enum rungi_shuffle_by {
    RUNGI_SHUFFLE_SAMPLE,
    RUNGI_SHUFFLE_GROUP,
} rungi_shuffle_by;

typedef enum rungi_sampler_kind {
    RUNGI_SAMPLER_AUTO,
    RUNGI_SAMPLER_WEIGHTED,
    RUNGI_SAMPLER_BY_LENGTH,
} rungi_sampler_kind;

typedef enum rungi_split_by {
    RUNGI_SPLIT_RANDOM,
    RUNGI_SPLIT_NAME,
} rungi_split_by;

typedef struct rungi_data_config {
    rungi_data_origin source;
    char *format;
    char *path;
    int64_t batch_size;
    int64_t batch_per_device; // none: 0
    bool shuffle;
    bool drop_last;
    int64_t num_workers; // auto: -1
    int64_t prefetch_factor;
    int64_t worker_nice;
    bool pin_memory, non_blocking;
    int64_t pin_limit; // bytes
    rungi_augment_on augment_on;
    int64_t timeout;  // nanoseconds; none: 0
    int64_t channels; // of pictures as files
    bool exif_rotation;
    rung_filter interpolation;
    rungi_ints resize;              // the shorter side; height, width; or none
    rungi_ints center_crop;         // side; height, width; or none
    rungi_ints random_resized_size; // the same
    rungi_reals random_resized_scale, random_resized_ratio;
    rungi_ints random_crop_size; // the same
    rung_crop_padding random_crop_mode;
    double jitter_brightness, jitter_contrast, jitter_saturation, jitter_hue;
    double random_grayscale, random_erasing;
    double mixup, cutmix; // alphas; 0: off
    rungi_bad_sample on_bad_sample;
    double bad_sample_limit;
    rungi_ints pad;              // height, width; or none
    int64_t repeat_channels;     // none: 0
    int64_t random_crop_padding; // none: 0
    double random_flip;
    rungi_reals mean, std; // one a channel, or none
    char *val_path;        // "": the test files of `path`
    double val_split;
    rungi_split_by val_split_by;
    rungi_shuffle_by shuffle_by;
    rungi_sampler_kind sampler;
    char *weights; // "class", or a file
    bool replacement;
    int64_t draws; // auto: 0
    bool stream;
    int64_t shuffle_buffer;
    rungi_ints synthetic_shape;
    int64_t synthetic_classes;
    int64_t synthetic_count;
} rungi_data_config;

typedef enum rungi_frozen_norm {
    RUNGI_FROZEN_NORM_TRAIN,
    RUNGI_FROZEN_NORM_EVAL,
} rungi_frozen_norm;

typedef struct rungi_model_config {
    char *name;
    int64_t classes; // auto: 0
    rungi_ints hidden;
    double dropout; // default: -1
    rung_stem stem;
    char *weights;
    rungi_texts weights_except;
    rungi_texts freeze;
    rungi_frozen_norm frozen_batch_norm;
} rungi_model_config;

typedef struct rungi_optim_config {
    rung_optimizer_kind name;
    double lr;
    double momentum;
    double dampening;
    bool nesterov;
    double weight_decay; // auto: -1
    rungi_reals betas;
    double eps;
} rungi_optim_config;

typedef struct rungi_schedule_config {
    rung_schedule_kind name;
    rung_schedule_unit unit;
    int64_t warmup;
    double start_factor;
    int64_t step_size; // none: 0
    rungi_ints milestones;
    double gamma;        // auto: 0
    int64_t total_iters; // auto: 0
    double power;
    int64_t T_max; // auto: 0
    double eta_min;
    int64_t total_steps; // auto: 0
    double max_lr;       // auto: 0
    double pct_start;
    rung_anneal anneal_strategy;
    double div_factor, final_div_factor;
    bool cycle_momentum;
    double base_momentum, max_momentum;
    rung_plateau_mode mode;
    double factor;
    int64_t patience;
    double threshold;
    rung_threshold_mode threshold_mode;
    int64_t cooldown;
    double min_lr;
    double eps;
} rungi_schedule_config;

typedef enum rungi_nan_policy {
    RUNGI_NAN_STOP,
    RUNGI_NAN_CONTINUE,
} rungi_nan_policy;

typedef enum rungi_strategy {
    RUNGI_STRATEGY_AUTO, // ddp with several ranks, else single
    RUNGI_STRATEGY_SINGLE,
    RUNGI_STRATEGY_DDP,
    RUNGI_STRATEGY_DATA_PARALLEL,
    RUNGI_STRATEGY_PIPELINE,
    RUNGI_STRATEGY_PARAMETER_SERVER,
} rungi_strategy;

// What validation measures.
typedef enum rungi_metric {
    RUNGI_METRIC_LOSS,
    RUNGI_METRIC_ACCURACY,
} rungi_metric;

enum { RUNGI_EVERY_EPOCH = 0, RUNGI_NEVER = -1 }; // of the *_every keys

enum { RUNGI_MAX_RANKS = 64 }; // of a process

typedef struct rungi_loop_config {
    int64_t steps; // none: 0
    int64_t epochs;
    rungi_strategy strategy;
    int64_t ranks; // of this process
    int64_t shards;
    double max_grad_norm;  // none: 0
    double max_grad_value; // none: 0
    int64_t log_every;
    int64_t eval_every;          // epoch: RUNGI_EVERY_EPOCH, never: RUNGI_NEVER
    int64_t early_stop_patience; // none: 0
    double early_stop_min_delta;
    rungi_metric early_stop_metric;
    rungi_nan_policy on_nan;
    bool overfit_one_batch;
} rungi_loop_config;

// Keys of train, too.
typedef struct rungi_gradients_config {
    int64_t accumulate;
    bool log_layers;
    bool allow_unused;
} rungi_gradients_config;
enum { RUNGI_ALL_RANKS = -1 };
typedef struct rungi_precision_config { // keys of train, too
    rung_dtype dtype;
    rung_compute compute;
    double loss_scale;
    int64_t growth; // of it: good steps
} rungi_precision_config;

typedef struct rungi_ddp_config {
    bool overlap;
    bool sync_batch_norm;
    bool shard_optimizer;
    bool fuse_update;
    int64_t bucket_size; // bytes
    rung_dtype compress; // none: RUNG_F32
    int64_t timeout;     // nanoseconds
    int64_t link_delay;  // nanoseconds
    double link_rate;    // GB/s; 0: as fast as memory
    int64_t link_rank;   // the rank that has such a link; all: RUNGI_ALL_RANKS
} rungi_ddp_config;

typedef enum rungi_replica_norm {
    RUNGI_REPLICA_NORM_AVERAGE,
    RUNGI_REPLICA_NORM_FIRST,
} rungi_replica_norm;

enum { RUNGI_MAX_DEVICES = 64 }; // of data_parallel

typedef struct rungi_data_parallel_config {
    int64_t output_device; // index in device.list
    bool parallel_criterion;
    rungi_reals device_weights; // one a device, or none
    rungi_replica_norm batch_norm;
} rungi_data_parallel_config;
enum { RUNGI_DDP_BUCKET = 25 << 20 }; // the default of ddp.bucket_size

typedef struct rungi_pipeline_config {
    rungi_pipeline_schedule schedule;
    int64_t micro_batches;    // auto: 0
    rungi_texts split_points; // or "auto"
    rungi_texts placement;    // "PATTERN: STAGE", none: []
} rungi_pipeline_config;
typedef enum rungi_ps_mode {
    RUNGI_PS_SYNC,
    RUNGI_PS_ASYNC,
} rungi_ps_mode;

// Of strategy parameter_server.
typedef struct rungi_ps_config {
    rungi_ps_mode mode;
    int64_t servers;   // auto: 0
    int64_t staleness; // none: -1
} rungi_ps_config;

typedef struct rungi_checkpoint_config {
    int64_t every; // epoch: RUNGI_EVERY_EPOCH, never: RUNGI_NEVER
    int64_t keep;  // all: 0
    rungi_metric best;
} rungi_checkpoint_config;

typedef struct rungi_plan_config {
    bool fuse;
    bool fuse_optimizer;
    rung_layout layout;
    rung_kernels kernels;
    bool winograd;
    rung_winograd_bf16 winograd_bf16;
    bool autotune;
} rungi_plan_config;

typedef struct rungi_memory_config {
    bool huge_pages;
    rungi_texts recompute; // "none", "auto" or patterns of layers
    int64_t budget;        // bytes of a device; none: 0
} rungi_memory_config;

typedef struct rungi_ladder_config {
    rungi_texts rungs; // none: all
    char *launcher;    // "": none
    int64_t budget;    // nanoseconds; none: 0
    int64_t repeats;
    int64_t block_steps; // auto: 0
    int64_t gate_steps;
    int64_t baselines;
    int64_t confirm_epochs; // auto: 0
    double min_accuracy;    // none: -1
    int64_t pack_limit;     // bytes
    bool quick;
} rungi_ladder_config;

typedef struct rungi_train_config {
    int64_t seed;
    bool exact;
    rungi_device_config device;
    rungi_data_config data;
    rungi_model_config model;
    rungi_optim_config optim;
    rungi_schedule_config schedule;
    rungi_loop_config train;
    rungi_precision_config precision;
    rungi_gradients_config gradients;
    rungi_ddp_config ddp;
    rungi_data_parallel_config data_parallel;
    rungi_pipeline_config pipeline;
    rungi_ps_config ps;
    rungi_checkpoint_config checkpoint;
    rungi_plan_config plan;
    rungi_memory_config memory;
    rungi_ladder_config ladder;
} rungi_train_config;

// The tables of all keys, for rungi_options_init with a rungi_train_config.
extern const rungi_option_table rungi_train_tables[];
extern const size_t rungi_train_table_count;

// Checks what concerns several keys. Messages name the key and where it was set.
rung_status rungi_train_config_check(const rungi_options *options, const void *values,
                                     rung_context *context);

// Checks what several ranks need, `local` of which are on this machine: those of one process are
// known from the configuration, those of several only when they have met.
rung_status rungi_train_config_check_ranks(const rungi_options *options,
                                           const rungi_train_config *values, int64_t ranks,
                                           int64_t local);

// Checks what train.strategy data_parallel needs, and that its keys are left alone without it.
rung_status rungi_train_config_check_replicas(const rungi_options *options,
                                              const rungi_train_config *values,
                                              rung_context *context);

// train.strategy by its word; auto is what it stands for.
const char *rungi_config_strategy_name(const rungi_train_config *values, int64_t ranks);

// Does plan.winograd compute in bf16 here, so that plan.winograd_bf16 has an effect? On false `why`
// says what is in the way. Context NULL: what the processor has counts, whatever device.isa is.
bool rungi_config_winograd_bf16(const rungi_train_config *values, const rung_context *context,
                                char *why, size_t size);

// Devices that share each batch within a rank: those of data_parallel, else one.
static inline int rungi_train_devices(const rungi_train_config *values)
{
    return values->train.strategy == RUNGI_STRATEGY_DATA_PARALLEL ? (int)values->device.list.count
                                                                  : 1;
}
// config_pipeline.c: the same for train.strategy pipeline; and a notice for keys of pipeline.*
// without it.
rung_status rungi_train_config_check_pipeline(const rungi_options *options,
                                              const rungi_train_config *values, int64_t ranks);
void rungi_train_config_note_pipeline(const rungi_options *options,
                                      const rungi_train_config *values, rung_context *context);
// Does pipeline.split_points name layers?
bool rungi_config_splits(const rungi_train_config *values);
// Entry `index` of pipeline.placement taken apart: its pattern, cut to `size`, and its stage, -1
// where it has none.
int rungi_config_placed(const rungi_train_config *values, size_t index, char *pattern, size_t size);
// Micro-batches of a batch.
int64_t rungi_config_micro_batches(const rungi_train_config *values, int64_t ranks, int64_t batch);
// config_ddp.c: checks ddp.fuse_update. Why no step can be fused; NULL: steps that do not log can.
rung_status rungi_train_config_check_ddp(const rungi_options *options,
                                         const rungi_train_config *values, rung_context *context);
const char *rungi_config_unfused(const rungi_train_config *values);
// config_ps.c: checks strategy parameter_server; and what there must be one of for each rank, once
// it is known how many there are.
rung_status rungi_train_config_check_ps(const rungi_options *options,
                                        const rungi_train_config *values, rung_context *context);
rung_status rungi_train_config_check_counts(const rungi_options *options,
                                            const rungi_train_config *values, int64_t ranks);
// Does such a configuration train with parameter servers, and without steps in common?
bool rungi_config_has_servers(const rungi_train_config *values, int64_t ranks);
bool rungi_config_is_async(const rungi_train_config *values, int64_t ranks);
// Servers: ps.servers, or one with each rank.
int rungi_config_servers(const rungi_train_config *values, int64_t ranks);

// The values of a configuration, borrowed; they change with it.
const rungi_train_config *rungi_config_values(const rung_config *config);
// A copy whose notices go to the log of another context.
rung_status rungi_config_copy_for(rung_context *context, const rung_config *config,
                                  rung_config **copy_out);
// The options behind them, for rungi_options_fail and rungi_options_note.
const rungi_options *rungi_config_options(const rung_config *config);

// The optimizer and the schedule that a configuration describes. The schedule is not resolved yet.
rung_optimizer_options rungi_config_optimizer(const rungi_train_config *values);
rung_schedule rungi_config_schedule(const rungi_train_config *values);

#endif
