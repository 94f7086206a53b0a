// SPDX-License-Identifier: Apache-2.0
// The keys of data_parallel, and what the strategy needs.
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "comm/comm_mpi.h"
#include "train/options_tables.h"

static const char *const norms[] = {
    [RUNGI_REPLICA_NORM_AVERAGE] = "average",
    [RUNGI_REPLICA_NORM_FIRST] = "first",
    NULL,
};

const rungi_option rungi_data_parallel_options[] = {
    {.key = "data_parallel.output_device",
     .type = RUNGI_OPTION_INT,
     RUNGI_AT(rungi_data_parallel_config, output_device),
     .initial = "0",
     .range = ">= 0",
     .help = "Place in device.list of the device that outputs are gathered on, and that computes "
             "the loss. The first one has the most to do already: another one evens memory and "
             "time."},
    {.key = "data_parallel.parallel_criterion",
     .type = RUNGI_OPTION_BOOL,
     RUNGI_AT(rungi_data_parallel_config, parallel_criterion),
     .initial = "false",
     .help = "Computes the loss on each device, of its part of the batch, instead of gathering the "
             "outputs. Divisors are those of the whole batch all the same."},
    {.key = "data_parallel.device_weights",
     .type = RUNGI_OPTION_REALS,
     RUNGI_AT(rungi_data_parallel_config, device_weights),
     .initial = "[]",
     .range = "> 0",
     .help = "Shares of the batch, one for each of device.list, for devices of unequal speed: [2, "
             "1]. []: equal parts, which differ by at most one sample."},
    {.key = "data_parallel.batch_norm",
     .type = RUNGI_OPTION_CHOICE,
     RUNGI_AT(rungi_data_parallel_config, batch_norm),
     .initial = "average",
     .choices = norms,
     .help = "Whose statistics move the running ones of batch normalization. average: those of all "
             "devices together; first: those of the first device, as PyTorch's DataParallel. All "
             "copies are equal after every step. A device normalizes by its own part."},
    {0},
};

static bool is_set(const rungi_options *o, const char *key)
{
    size_t index;
    return rungi_options_find(o, key, &index) == RUNG_OK &&
           o->entries[index].source.kind != RUNGI_SOURCE_DEFAULT;
}

// The first key of section `prefix` ("ddp.") whose value is not the default; NULL: there is none.
static rung_status find_changed(const rungi_options *o, const char *prefix, const char **key_out)
{
    rungi_train_config values;
    rungi_options initial = {0};
    *key_out = NULL;
    rung_status status =
        rungi_options_init(&initial, rungi_train_tables, rungi_train_table_count, &values);
    for (size_t i = 0; status == RUNG_OK && i < o->count && !*key_out; i++) {
        const char *key = rungi_options_at(o, i)->key;
        rungi_string now = {0}, before = {0};
        if (strncmp(key, prefix, strlen(prefix)) != 0)
            continue;
        rungi_options_text(o, i, &now);
        rungi_options_text(&initial, i, &before);
        if (strcmp(rungi_string_text(&now), rungi_string_text(&before)) != 0)
            *key_out = key;
        rungi_string_fini(&now);
        rungi_string_fini(&before);
    }
    rungi_options_fini(&initial);
    return status;
}

static rung_status check_weights(const rungi_options *o, const rungi_train_config *v)
{
    size_t devices = v->device.list.count, weights = v->data_parallel.device_weights.count;
    if (weights && weights != devices)
        return rungi_options_fail(o, "data_parallel.device_weights",
                                  "has %zu number%s for %zu devices: give one for each", weights,
                                  weights == 1 ? "" : "s", devices);
    if (weights && v->data.batch_per_device)
        return rungi_options_fail(o, "data_parallel.device_weights",
                                  "cannot be combined with data.batch_per_device, which gives each "
                                  "device as many: say data.batch_size");
    return RUNG_OK;
}

static rung_status check_devices(const rungi_options *o, const rungi_train_config *v)
{
    const rungi_texts *list = &v->device.list;
    if (list->count > RUNGI_MAX_DEVICES)
        return rungi_options_fail(o, "device.list", "names %zu devices; at most %d work",
                                  list->count, RUNGI_MAX_DEVICES);
    for (size_t i = 0; i < list->count; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(list->data[i], list->data[k]) == 0)
                return rungi_options_fail(o, "device.list", "names %s twice", list->data[i]);
    if (v->data_parallel.output_device >= (int64_t)list->count)
        return rungi_options_fail(o, "data_parallel.output_device",
                                  "is %" PRId64 ", but there %s %zu device%s: allowed are 0..%zu",
                                  v->data_parallel.output_device, list->count == 1 ? "is" : "are",
                                  list->count, list->count == 1 ? "" : "s", list->count - 1);
    if (v->exact && (int64_t)list->count > v->train.shards)
        return rungi_options_fail(o, "device.list",
                                  "names %zu devices, of which exact can use at most train.shards, "
                                  "which is %" PRId64,
                                  list->count, v->train.shards);
    return RUNG_OK;
}

rung_status rungi_train_config_check_replicas(const rungi_options *o, const rungi_train_config *v,
                                              rung_context *context)
{
    if (v->train.strategy == RUNGI_STRATEGY_SINGLE && v->device.list.count > 1)
        rungi_options_note(o, context, "device.list",
                           "names %zu devices, of which train.strategy single uses the first",
                           v->device.list.count);
    const char *changed;
    if (v->train.strategy != RUNGI_STRATEGY_DATA_PARALLEL) {
        RUNG_TRY(find_changed(o, "data_parallel.", &changed));
        if (changed)
            rungi_options_note(o, context, changed,
                               "ignored, because train.strategy is not data_parallel");
        return RUNG_OK;
    }
    if (v->train.ranks > 1 || rungi_comm_mpi_launched())
        return rungi_options_fail(o, "train.strategy",
                                  "is data_parallel, which is one rank of one process with several "
                                  "devices: set it to ddp for several ranks");
    RUNG_TRY(find_changed(o, "ddp.", &changed));
    if (changed)
        return rungi_options_fail(o, changed,
                                  "is for ranks: train.strategy data_parallel has one, with "
                                  "several devices");
    RUNG_TRY(check_devices(o, v));
    RUNG_TRY(check_weights(o, v));
    bool whole = is_set(o, "data.batch_size"), part = v->data.batch_per_device > 0;
    if (v->device.list.count > 1 && !whole && !part)
        return rungi_options_fail(o, "data.batch_size",
                                  "is not set: with several devices say data.batch_size, for all "
                                  "of them together, or data.batch_per_device");
    if (v->plan.fuse_optimizer)
        return rungi_options_fail(o, "plan.fuse_optimizer",
                                  "cannot be combined with several devices, whose gradients are "
                                  "added first: switch it off");
    if (v->exact && v->data_parallel.batch_norm == RUNGI_REPLICA_NORM_FIRST)
        return rungi_options_fail(o, "data_parallel.batch_norm",
                                  "is first, which depends on the number of devices: exact needs "
                                  "average");
    if (v->data_parallel.parallel_criterion && v->data_parallel.output_device)
        rungi_options_note(o, context, "data_parallel.output_device",
                           "has an effect on validation only: data_parallel.parallel_criterion "
                           "leaves the outputs of training on their devices");
    if (v->device.list.count == 1)
        rungi_options_note(o, context, "train.strategy",
                           "is data_parallel, but device.list names one device: the same as "
                           "single");
    return RUNG_OK;
}
