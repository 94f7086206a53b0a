// SPDX-License-Identifier: Apache-2.0
// What samplers ask of a source that is a pack.
#ifndef RUNGI_DATA_SOURCE_PACK_H
#define RUNGI_DATA_SOURCE_PACK_H

#include "rung/data.h"

bool rungi_source_is_pack(const rung_source *source);

// What a sample was called where it comes from ("" where that is not known); NULL when the source
// is no pack.
const char *rungi_source_pack_sample(const rung_source *source, int64_t index);

// Its label; NULL too when the pack has none.
const int64_t *rungi_source_pack_label(const rung_source *source, int64_t index);

// Mean bytes of a sample.
uint64_t rungi_source_pack_bytes(const rung_source *source);

#endif
