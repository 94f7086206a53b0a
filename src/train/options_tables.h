// SPDX-License-Identifier: Apache-2.0
// The tables of a run's keys, one a section, each ended by {0}.
#ifndef RUNGI_TRAIN_OPTIONS_TABLES_H
#define RUNGI_TRAIN_OPTIONS_TABLES_H

#include "train/train_config.h"

extern const rungi_option rungi_top_options[];
extern const rungi_option rungi_device_options[];
extern const rungi_option rungi_data_options[];
extern const rungi_option rungi_model_options[];
extern const rungi_option rungi_optim_options[];
extern const rungi_option rungi_schedule_options[];
extern const rungi_option rungi_train_options[];
extern const rungi_option rungi_gradients_options[];
extern const rungi_option rungi_precision_options[];
extern const rungi_option rungi_ddp_options[];
extern const rungi_option rungi_data_parallel_options[];
extern const rungi_option rungi_pipeline_options_table[];
extern const rungi_option rungi_ps_options[];
extern const rungi_option rungi_checkpoint_options[];
extern const rungi_option rungi_plan_options[];
extern const rungi_option rungi_memory_options[];
extern const rungi_option rungi_ladder_options[];

#endif
