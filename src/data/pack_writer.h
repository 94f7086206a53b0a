// SPDX-License-Identifier: Apache-2.0
// The inside of a pack's writer. PATH.partial holds the samples; PATH.partial-index, the journal,
// says which of them stand: a head, then for each sample its index entry, its name and a checksum.
// A sample's bytes are written before its record, so what the journal says has been written unless
// the machine lost power; that the checksums tell.
#ifndef RUNGI_DATA_PACK_WRITER_H
#define RUNGI_DATA_PACK_WRITER_H

#include "base/array.h"
#include "base/file_io.h"
#include "data/pack_file.h"

enum { RUNGI_PACK_NAME_MAX = 4096 };

struct rung_pack_writer {
    char *path;
    rungi_pack_layout layout;
    rungi_string meta;
    rungi_file data, journal;               // fd -1: not open
    rungi_string data_ahead, journal_ahead; // not written yet
    uint64_t end;                           // of the samples, with what is not written yet
    RUNGI_ARRAY(rungi_pack_entry) index;
    rungi_string names;
    bool failed;
};

// Head and records of the journal.
typedef struct rungi_pack_journal_head {
    char magic[8];
    uint64_t stamp;
    uint32_t meta_crc; // CRC-32C of the description
    uint32_t crc;      // of the 20 bytes before
} rungi_pack_journal_head;

typedef struct rungi_pack_record {
    rungi_pack_entry entry; // `name` is where it will lie among the names
    uint32_t name_size;     // bytes of the name that follows
    uint32_t crc;           // of the 36 bytes before, then of the name
} rungi_pack_record;

// Opens both files, and takes up what stands in them.
rung_status rungi_pack_resume(rung_pack_writer *writer, uint64_t stamp, bool restart);

#endif
