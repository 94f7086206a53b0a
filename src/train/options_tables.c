// SPDX-License-Identifier: Apache-2.0
#include "train/options_tables.h"

#define TABLE(section)                                                         \
    {                                                                          \
        rungi_##section##_options, offsetof(rungi_train_config, section), NULL \
    }

const rungi_option_table rungi_train_tables[] = {
    {rungi_top_options, 0, rungi_train_config_check},
    TABLE(device),
    TABLE(data),
    TABLE(model),
    TABLE(optim),
    TABLE(schedule),
    TABLE(train),
    TABLE(gradients),
    TABLE(precision),
    TABLE(ddp),
    TABLE(data_parallel),
    {rungi_pipeline_options_table, offsetof(rungi_train_config, pipeline), NULL},
    TABLE(ps),
    TABLE(checkpoint),
    TABLE(plan),
    TABLE(memory),
    TABLE(ladder),
};
const size_t rungi_train_table_count = RUNGI_COUNT(rungi_train_tables);
