// SPDX-License-Identifier: Apache-2.0
// Samples that cannot be read and are left out.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/error.h"
#include "data/ring.h"
#include "data/source.h"

bool rungi_ring_may_skip(const rungi_ring *ring, rung_status status)
{
    bool of_sample = status == RUNG_NOT_FOUND || status == RUNG_IO || status == RUNG_FORMAT ||
                     status == RUNG_CORRUPT || status == RUNG_DATA || status == RUNG_UNSUPPORTED;
    return ring->options.skip_bad && of_sample && !atomic_load(&ring->cancelled);
}

void rungi_slot_forget_bad(rungi_slot *slot)
{
    for (int64_t i = 0; i < slot->bad_count; i++) {
        free(slot->bad[i]);
        slot->bad[i] = NULL;
    }
    slot->bad_count = 0;
}

rung_status rungi_slot_leave_out(rungi_ring *ring, rungi_slot *slot)
{
    rung_batch *batch = &slot->batch;
    int64_t *samples = (int64_t *)(uintptr_t)batch->samples, good = 0, bad = 0;
    for (int64_t i = 0; i < batch->count; i++) {
        if (slot->bad[i]) {
            slot->bad_samples[bad] = samples[i];
            char *why = slot->bad[i];
            slot->bad[i] = NULL;
            slot->bad[bad++] = why;
            continue;
        }
        samples[good] = samples[i];
        slot->draws[good] = slot->draws[i];
        for (int f = 0; f < batch->field_count && good < i; f++) {
            size_t bytes = ring->field_bytes[f];
            char *data = slot->data[f];
            memcpy(data + (size_t)good * bytes, data + (size_t)i * bytes, bytes);
        }
        good++;
    }
    slot->bad_count = bad;
    RUNG_CHECK(good > 0, RUNG_DATA, "all %" PRId64 " samples of a batch are bad: %s", bad,
               slot->bad[0]);
    batch->count = batch->global_count = good;
    batch->left_out = bad;
    for (int f = 0; f < batch->field_count; f++)
        batch->fields[f].shape.dim[0] = good;
    return RUNG_OK;
}

// Adds a sample to those known to be bad. False when it is one of them already (or no memory).
static bool add_bad(rungi_ring *ring, int64_t sample)
{
    size_t at = 0;
    while (at < ring->bad.count && ring->bad.data[at] < sample)
        at++;
    if (at < ring->bad.count && ring->bad.data[at] == sample)
        return false;
    if (!rungi_array_push(&ring->bad, sample))
        return false;
    memmove(ring->bad.data + at + 1, ring->bad.data + at,
            (ring->bad.count - 1 - at) * sizeof *ring->bad.data);
    ring->bad.data[at] = sample;
    return true;
}

rung_status rungi_ring_tell_bad(rungi_ring *ring, rung_batch *batch)
{
    const rung_loader_options *o = &ring->options;
    const rungi_slot *slot = batch->slot;
    rung_status status = RUNG_OK;
    for (int64_t i = 0; i < slot->bad_count && status == RUNG_OK; i++) {
        if (!add_bad(ring, slot->bad_samples[i]))
            continue;
        rungi_log(ring->context, RUNG_LOG_WARNING, "%zu of %" PRId64 " samples left out: %s",
                  ring->bad.count, ring->source->count, slot->bad[i]);
        if (o->on_bad)
            o->on_bad(o->on_bad_user, slot->bad_samples[i], slot->bad[i]);
        if ((double)ring->bad.count > o->bad_limit * (double)ring->source->count)
            status =
                RUNG_FAIL(RUNG_DATA,
                          "%zu of %" PRId64 " samples are bad, more than data.bad_sample_limit "
                          "(%g) allows; the last: %s",
                          ring->bad.count, ring->source->count, o->bad_limit, slot->bad[i]);
    }
    pthread_mutex_lock(&ring->lock);
    ring->statistics.bad_samples = (int64_t)ring->bad.count;
    if (status != RUNG_OK) {
        ring->failure_count = 1;
        ring->failures[0] = (rungi_failure){-1, *rung_error_last()};
        atomic_store(&ring->failed_order, -1);
    }
    pthread_mutex_unlock(&ring->lock);
    if (status != RUNG_OK) {
        rungi_ring_release(ring, batch);
        return rungi_fail_adopt(&ring->failures[0].error);
    }
    return RUNG_OK;
}
