// SPDX-License-Identifier: Apache-2.0
// An archive in memory, written by tests.
#ifndef RUNGI_DATA_TAR_TESTING_H
#define RUNGI_DATA_TAR_TESTING_H

#include "formats/tar_write.h"
#include "testing.h"

typedef struct tape {
    uint8_t bytes[1 << 20];
    size_t size;
} tape;

static inline rung_status tape_put(void *user, const void *data, size_t size)
{
    tape *t = user;
    assert_true(size <= sizeof t->bytes - t->size);
    memcpy(t->bytes + t->size, data, size);
    t->size += size;
    return RUNG_OK;
}

#endif
