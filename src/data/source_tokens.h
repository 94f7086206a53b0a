// SPDX-License-Identifier: Apache-2.0
#ifndef RUNGI_DATA_SOURCE_TOKENS_H
#define RUNGI_DATA_SOURCE_TOKENS_H

#include "rung/text.h"

// rung_source_tokens of those files of a folder whose names hold one of `words` (ended by NULL;
// NULL: all).
rung_status rungi_source_tokens(rung_context *context, const rung_tokens_options *options,
                                const char *const *words, rung_source **source_out);

#endif
