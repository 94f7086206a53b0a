// SPDX-License-Identifier: Apache-2.0
// The layout of packs (docs/pack-format.md), and reading them.
#ifndef RUNGI_DATA_PACK_FILE_H
#define RUNGI_DATA_PACK_FILE_H

#include <stdatomic.h>

#include "base/fs.h"
#include "base/text.h"
#include "rung/pack.h"

enum {
    RUNGI_PACK_VERSION = 1,
    RUNGI_PACK_ALIGN = 64,         // of samples and of fields within a sample
    RUNGI_PACK_SLACK = 64,         // zeros between the last sample and the tail
    RUNGI_PACK_META_MAX = 1 << 22, // bytes of the description
    RUNGI_PACK_CLASSES_MAX = 1 << 20,
};

// At byte 0. Little-endian, as all numbers of a pack.
typedef struct rungi_pack_header {
    char magic[8];
    uint32_t version, flags;
    uint64_t count;      // samples
    uint64_t tail;       // where the tail begins: index, names, description
    uint64_t names_size; // bytes
    uint64_t meta_size;  // bytes
    uint64_t file_size;
    uint32_t tail_crc;   // CRC-32C of the tail
    uint32_t header_crc; // of the 60 bytes before
} rungi_pack_header;

// One of the index.
typedef struct rungi_pack_entry {
    uint64_t offset; // of the sample in the file
    uint64_t size;   // bytes
    int64_t label;   // -1: none
    uint32_t name;   // where its name begins among the names
    uint32_t crc;    // CRC-32C of the sample
} rungi_pack_entry;

_Static_assert(sizeof(rungi_pack_header) == 64, "layout of packs");
_Static_assert(sizeof(rungi_pack_entry) == 32, "layout of packs");

extern const char rungi_pack_magic[8];

static inline uint64_t rungi_pack_round(uint64_t n)
{
    return (n + RUNGI_PACK_ALIGN - 1) / RUNGI_PACK_ALIGN * RUNGI_PACK_ALIGN;
}

// Where the fields of a sample lie in it.
typedef struct rungi_pack_layout {
    int field_count;
    rung_field fields[RUNG_MAX_FIELDS]; // names are the layout's
    char *names[RUNG_MAX_FIELDS];       // on the heap
    uint64_t offset[RUNG_MAX_FIELDS];   // in a sample
    uint64_t bytes[RUNG_MAX_FIELDS];    // of fields of one shape
    int label;                          // the field that is the index's label; -1: none
    int file;                           // the field that is a picture's file; -1: none
    uint64_t fixed;                     // bytes of a sample, or before its picture's file
    int class_count;
    char **class_names; // class_count of them, or NULL
    char *note;         // or NULL
} rungi_pack_layout;

// Works out places of `fields`, and copies all. Errors: RUNG_INVALID for fields that a pack cannot
// hold, RUNG_NO_MEMORY. The caller ends with _fini, after a failure too.
rung_status rungi_pack_layout_init(rungi_pack_layout *layout, const char *path,
                                   const rung_field *fields, int field_count, int class_count,
                                   const char *const *class_names, const char *note);
void rungi_pack_layout_fini(rungi_pack_layout *layout);

// The description as text, and back. Errors: RUNG_FORMAT naming `path`, RUNG_NO_MEMORY.
rung_status rungi_pack_meta_write(const rungi_pack_layout *layout, rungi_string *out);
rung_status rungi_pack_meta_read(const char *path, const char *text, size_t size,
                                 rungi_pack_layout *layout_out);

// An open pack.
typedef struct rungi_pack {
    char *path;
    rungi_pack_header header;
    rungi_pack_layout layout;
    rungi_mapping mapping; // of the whole file, or empty
    int fd;
    uint8_t *tail; // of a pack that is read; owned
    const rungi_pack_entry *index;
    const char *names;
} rungi_pack;

// Opens and checks everything but the samples' checksums. `read`: without a mapping.
// Errors: those of rung_source_pack. After a failure there is nothing to close.
rung_status rungi_pack_open(const char *path, bool read, rungi_pack *pack);
void rungi_pack_close(rungi_pack *pack);

// Fails as a sample that does not have its checksum.
rung_status rungi_pack_fail_sum(const rungi_pack *pack, int64_t index);

#endif
