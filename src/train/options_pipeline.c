// SPDX-License-Identifier: Apache-2.0
// The keys of pipeline.
#include "train/options_tables.h"

static const char *const schedules[] = {
    [RUNGI_PIPELINE_NONE] = "none",
    [RUNGI_PIPELINE_GPIPE] = "gpipe",
    [RUNGI_PIPELINE_1F1B] = "1f1b",
    NULL,
};

static const rungi_option_word auto_words[] = {{"auto", 0}, {0}};

const rungi_option rungi_pipeline_options_table[] = {
    {.key = "pipeline.schedule",
     .type = RUNGI_OPTION_CHOICE,
     RUNGI_AT(rungi_pipeline_config, schedule),
     .initial = "none",
     .choices = schedules,
     .help = "Order in which the stages of train.strategy pipeline work. none: the batch goes "
             "through as a whole, one stage works at a time; gpipe: micro-batches, all forward and "
             "then all backward; 1f1b: micro-batches, one forward and one backward in turn, so "
             "that fewer are held at a time. All give the same bits for as many micro-batches."},
    {.key = "pipeline.micro_batches",
     .type = RUNGI_OPTION_INT,
     RUNGI_AT(rungi_pipeline_config, micro_batches),
     .initial = "auto",
     .range = "[1, 64]",
     .words = auto_words,
     .help = "Micro-batches that gpipe and 1f1b cut a batch into. Batch normalization uses the "
             "statistics of each of them. auto: four for each stage; none has one."},
    {.key = "pipeline.split_points",
     .type = RUNGI_OPTION_TEXTS,
     RUNGI_AT(rungi_pipeline_config, split_points),
     .initial = "[auto]",
     .words = auto_words,
     .help = "Layers or modules, by name or pattern, that begin a stage: one less than there are "
             "ranks, in the network's order. auto: stages of equal predicted time."},
    {.key = "pipeline.placement",
     .type = RUNGI_OPTION_TEXTS,
     RUNGI_AT(rungi_pipeline_config, placement),
     .initial = "[]",
     .help = "Which stage has which layers, as ['conv*: 0', 'fc*: 1']: patterns of the names of "
             "layers or modules, and a stage, by number or by the device that it has. The first "
             "pattern that a layer matches counts; layers that match none go with the layer before "
             "them. Stages are consecutive: none may be gone back to. []: as pipeline.split_points "
             "says."},
    {0},
};
