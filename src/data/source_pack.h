// SPDX-License-Identifier: Apache-2.0
// What samplers ask of a source that is a pack.
#ifndef RUNGI_DATA_SOURCE_PACK_H
#define RUNGI_DATA_SOURCE_PACK_H

#include "rung/data.h"

bool rungi_source_is_pack(const rung_source *source);

// Mean bytes of a sample.
uint64_t rungi_source_pack_bytes(const rung_source *source);

#endif
