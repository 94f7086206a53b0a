// SPDX-License-Identifier: Apache-2.0
// Rungs about the supply of data.
#include "ladder/rungs_inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cores.h"

bool rungi_rung_workers(const rungi_train_config *c, char *setting, size_t size, char *why,
                        size_t why_size)
{
    if (c->data.source == RUNGI_DATA_PRELOADED)
        return rungi_rung_cannot(why, why_size, "preloaded data need no workers");
    int64_t wanted = rungi_core_count() > 1 ? 2 : 1;
    if (c->data.num_workers >= wanted)
        return rungi_rung_cannot(why, why_size, "the base has it already");
    snprintf(setting, size, "data.num_workers=%" PRId64, wanted);
    return true;
}

bool rungi_rung_prefetch(const rungi_train_config *c, char *setting, size_t size, char *why,
                         size_t why_size)
{
    if (c->data.num_workers <= 0)
        return rungi_rung_cannot(why, why_size, "needs workers, which were not kept");
    snprintf(setting, size, "data.prefetch_factor=%" PRId64, c->data.prefetch_factor * 2);
    return true;
}

bool rungi_rung_worker_nice(const rungi_train_config *c, char *setting, size_t size, char *why,
                            size_t why_size)
{
    if (c->data.num_workers <= 0)
        return rungi_rung_cannot(why, why_size, "needs workers, which were not kept");
    snprintf(setting, size, "data.worker_nice=10");
    return true;
}

static const char *const no_copies = "CPU device reads the slot";

bool rungi_rung_pinned(const rungi_train_config *c, char *setting, size_t size, char *why,
                       size_t why_size)
{
    if (c->device.copy == RUNGI_COPY_DIRECT)
        return rungi_rung_cannot(why, why_size, no_copies);
    snprintf(setting, size, "data.pin_memory=true");
    return true;
}

bool rungi_rung_non_blocking(const rungi_train_config *c, char *setting, size_t size, char *why,
                             size_t why_size)
{
    if (c->device.copy == RUNGI_COPY_DIRECT)
        return rungi_rung_cannot(why, why_size, no_copies);
    // Only copies from pinned memory go on by themselves.
    snprintf(setting, size, "%sdata.non_blocking=true",
             c->data.pin_memory ? "" : "data.pin_memory=true ");
    return true;
}

bool rungi_rung_augment_device(const rungi_train_config *c, char *setting, size_t size, char *why,
                               size_t why_size)
{
    if (c->data.mixup > 0 || c->data.cutmix > 0)
        return rungi_rung_cannot(why, why_size,
                                 "the workers mix batches (data.mixup, data.cutmix)");
    snprintf(setting, size, "data.augment_on=device");
    return true;
}

// Data sets whose samples are files, or parts of archives.
static bool of_files(const rungi_train_config *c, char *why, size_t why_size)
{
    static const char *const formats[] = {"image_folder", "list", "tar"};
    if (c->data.source != RUNGI_DATA_REAL)
        return rungi_rung_cannot(why, why_size, "the data are not read from a data set");
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(c->data.format, formats[i]) == 0)
            return true;
    return rungi_rung_cannot(why, why_size, "the data set is not of pictures as files");
}

bool rungi_rung_pack(const rungi_train_config *c, char *setting, size_t size, char *why,
                     size_t why_size)
{
    if (strcmp(c->data.format, "pack") == 0)
        return rungi_rung_cannot(why, why_size, "the base has it already");
    if (!of_files(c, why, why_size))
        return false;
    snprintf(setting, size, "data.format=pack");
    return true;
}

bool rungi_rung_pack_rows(const rungi_train_config *c, char *setting, size_t size, char *why,
                          size_t why_size)
{
    const rungi_data_config *d = &c->data;
    if (strcmp(d->format, "pack") != 0 && !of_files(c, why, why_size))
        return false;
    if (!d->random_resized_size.count && !d->random_crop_size.count && !d->center_crop.count)
        return rungi_rung_cannot(why, why_size, "nothing is cut out of the pictures");
    snprintf(setting, size, "data.format=pack");
    return true;
}

bool rungi_rung_pack_raw(const rungi_train_config *c, char *setting, size_t size, char *why,
                         size_t why_size)
{
    if (strcmp(c->data.format, "pack") != 0 && !of_files(c, why, why_size))
        return false;
    if (!rungi_pack_raw_possible(c))
        return rungi_rung_cannot(why, why_size,
                                 "nothing says to which size pictures are to be resized first");
    snprintf(setting, size, "data.format=pack");
    return true;
}

bool rungi_rung_preloaded(const rungi_train_config *c, char *setting, size_t size, char *why,
                          size_t why_size)
{
    if (c->data.source != RUNGI_DATA_REAL)
        return rungi_rung_cannot(why, why_size, "the data are not read from a data set");
    snprintf(setting, size, "data.source=preloaded");
    return true;
}
