// SPDX-License-Identifier: Apache-2.0
// Memory that processes of one machine share. It has no name anywhere: it is gone with the last
// process that maps it, however that ended.
#ifndef RUNGI_COMM_NODE_MEMORY_H
#define RUNGI_COMM_NODE_MEMORY_H

#include <stdint.h>

#include "rung/status.h"

// `bytes`, rounded up to whole pages: huge ones from 2 MiB on.
uint64_t rungi_node_memory_round(uint64_t bytes);
// Makes zeroed memory and maps it, in huge pages where `bytes` is a multiple of theirs and the
// system has them. `*file_out` is what others open it by; closed by the caller once
// they have. Errors: RUNG_NO_MEMORY.
rung_status rungi_node_memory_create(uint64_t bytes, int *file_out, void **data_out);
// Maps memory that process `pid`, of the same user, made as `file`. Errors: RUNG_LIBRARY.
rung_status rungi_node_memory_open(int64_t pid, int file, uint64_t bytes, void **data_out);
// Ends this process's view.
void rungi_node_memory_close(void *data, uint64_t bytes);

#endif
