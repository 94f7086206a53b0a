// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include <xxhash.h>

#include "formats/safetensors.h"

static const rungi_safetensors_type types[] = {
#define SAFETENSORS_TYPE(name, bits, dtype) {name, bits, RUNG_##dtype},
    RUNGI_SAFETENSORS_TYPE_MAP(SAFETENSORS_TYPE)
#undef SAFETENSORS_TYPE
};

enum { TYPE_COUNT = sizeof types / sizeof *types };

const rungi_safetensors_type *rungi_safetensors_type_find(const char *name)
{
    for (size_t i = 0; i < TYPE_COUNT; i++)
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    return NULL;
}

const rungi_safetensors_type *rungi_safetensors_type_of(rung_dtype dtype)
{
    for (size_t i = 0; i < TYPE_COUNT; i++)
        if (types[i].dtype == dtype)
            return &types[i];
    return NULL;
}

char *rungi_sum_text(rungi_sum sum, char out[RUNGI_SUM_TEXT])
{
    snprintf(out, RUNGI_SUM_TEXT, "%016llx%016llx", (unsigned long long)sum.high,
             (unsigned long long)sum.low);
    return out;
}

rungi_sum rungi_sum_of(const void *data, size_t size)
{
    XXH128_hash_t hash = XXH3_128bits(data, size);
    return (rungi_sum){hash.high64, hash.low64};
}
