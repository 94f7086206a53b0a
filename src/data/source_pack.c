// SPDX-License-Identifier: Apache-2.0
// Packs as sources: samples are borrowed from the mapping, or read with one call each.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "data/pack_file.h"
#include "data/source_pack.h"
#include "formats/crc32c.h"
#include "formats/image_file.h"

typedef struct pack_source {
    rung_source source; // first: a rung_source * is a pack_source *
    rungi_pack pack;
    atomic_uchar *checked; // a bit for each sample whose checksum was right
} pack_source;

// A checksum is compared once: what is in memory does not change, and epochs are many.
static rung_status check_sum(pack_source *s, int64_t index, const uint8_t *data)
{
    const rungi_pack_entry *e = &s->pack.index[index];
    unsigned char bit = (unsigned char)(1u << (index % 8));
    atomic_uchar *bits = &s->checked[index / 8];
    if (atomic_load_explicit(bits, memory_order_relaxed) & bit)
        return RUNG_OK;
    if (rungi_crc32c(0, data, e->size) != e->crc)
        return rungi_pack_fail_sum(&s->pack, index);
    atomic_fetch_or_explicit(bits, bit, memory_order_relaxed);
    return RUNG_OK;
}

static rung_status fail_changed(const pack_source *s, uint64_t size)
{
    return RUNG_FAIL(RUNG_CORRUPT,
                     "%s: cut: expected %" PRIu64 " bytes, found %" PRIu64
                     ": the file has changed since it was opened",
                     s->pack.path, s->pack.header.file_size, size);
}

static rung_status read_bytes(pack_source *s, int64_t index, rungi_block *block)
{
    const rungi_pack_entry *e = &s->pack.index[index];
    RUNG_CHECK(rungi_block_reserve(block, e->size + RUNGI_PACK_SLACK), RUNG_NO_MEMORY,
               "%s: no memory to read %" PRIu64 " bytes", s->pack.path, e->size);
    for (uint64_t done = 0; done < e->size;) {
        ssize_t got =
            pread(s->pack.fd, block->data + done, e->size - done, (off_t)(e->offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        RUNG_CHECK(got >= 0, RUNG_IO, "%s: cannot read it: %s", s->pack.path, strerror(errno));
        if (got == 0)
            return fail_changed(s, e->offset + done);
        done += (uint64_t)got;
    }
    memset(block->data + e->size, 0, RUNGI_PACK_SLACK);
    return RUNG_OK;
}

// Pages behind the end of a file that was cut would end the process: looked at first.
static rung_status look_at(const pack_source *s, int64_t index, const uint8_t **data_out)
{
    struct stat info;
    RUNG_CHECK(fstat(s->pack.fd, &info) == 0, RUNG_IO, "%s: cannot read it: %s", s->pack.path,
               strerror(errno));
    if ((uint64_t)info.st_size < s->pack.header.file_size)
        return fail_changed(s, (uint64_t)info.st_size);
    *data_out = s->pack.mapping.data + s->pack.index[index].offset;
    return RUNG_OK;
}

static rung_status read_sample(void *self, void *state, const rung_sample *sample,
                               rung_view *fields)
{
    pack_source *s = self;
    const rungi_pack_layout *l = &s->pack.layout;
    const rungi_pack_entry *e = &s->pack.index[sample->index];
    const uint8_t *data = NULL;
    if (s->pack.tail) {
        RUNG_TRY(read_bytes(s, sample->index, state));
        data = ((rungi_block *)state)->data;
    } else {
        RUNG_TRY(look_at(s, sample->index, &data));
    }
    RUNG_TRY(check_sum(s, sample->index, data));
    for (int f = 0; f < l->field_count; f++) {
        void *at = (void *)(uintptr_t)(data + l->offset[f]); // only ever read from
        if (f == l->label) {
            *(int64_t *)fields[f].data = e->label;
        } else if (f == l->file) {
            fields[f].data = at;
            fields[f].shape.dim[0] = (int64_t)(e->size - l->fixed);
        } else if (sample->may_borrow >> f & 1) {
            fields[f].data = at;
        } else {
            memcpy(fields[f].data, at, l->bytes[f]);
        }
    }
    return RUNG_OK;
}

static void describe(void *self, int64_t index, char *out, size_t size)
{
    const pack_source *s = self;
    const char *name = s->pack.names + s->pack.index[index].name;
    if (*name)
        snprintf(out, size, "%s, %s", s->pack.path, name);
    else
        snprintf(out, size, "%s, record %" PRId64, s->pack.path, index);
}

static rung_status open_worker(void *self, int worker, void **state_out)
{
    (void)self;
    (void)worker;
    *state_out = calloc(1, sizeof(rungi_block));
    RUNG_CHECK(*state_out, RUNG_NO_MEMORY, "no memory to read a pack");
    return RUNG_OK;
}

static void close_worker(void *self, void *state)
{
    (void)self;
    free(((rungi_block *)state)->data);
    free(state);
}

static void destroy(rung_source *source)
{
    pack_source *s = (pack_source *)source;
    rungi_pack_close(&s->pack);
    free((void *)s->checked);
    free(s);
}

static void fill_source(pack_source *s, bool read)
{
    const rungi_pack_layout *l = &s->pack.layout;
    s->source = (rung_source){.name = "pack",
                              .count = (int64_t)s->pack.header.count,
                              .field_count = l->field_count,
                              .class_count = l->class_count,
                              .class_names = (const char *const *)l->class_names,
                              .self = s,
                              .read = read_sample,
                              .describe = describe,
                              .destroy = destroy};
    memcpy(s->source.fields, l->fields, sizeof l->fields);
    if (read) {
        s->source.open = open_worker;
        s->source.close = close_worker;
    }
}

rung_status rung_source_pack(rung_context *context, const char *path,
                             const rung_pack_options *options, rung_source **source_out)
{
    (void)context;
    bool read = options && options->read;
    pack_source *s = calloc(1, sizeof *s);
    RUNG_CHECK(s, RUNG_NO_MEMORY, "no memory for a data source");
    rung_status status = rungi_pack_open(path, read, &s->pack);
    if (status != RUNG_OK) {
        free(s);
        return status;
    }
    s->checked = calloc(s->pack.header.count / 8 + 1, sizeof *s->checked);
    fill_source(s, read);
    if (!s->checked) {
        status = RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory for its index", path);
        destroy(&s->source);
        return status;
    }
    *source_out = &s->source;
    return RUNG_OK;
}

bool rungi_source_is_pack(const rung_source *source)
{
    return source && source->destroy == destroy;
}

const char *rungi_source_pack_sample(const rung_source *source, int64_t index)
{
    const rungi_pack *pack = &((const pack_source *)source)->pack;
    return rungi_source_is_pack(source) ? pack->names + pack->index[index].name : NULL;
}

const int64_t *rungi_source_pack_label(const rung_source *source, int64_t index)
{
    const rungi_pack *pack = &((const pack_source *)source)->pack;
    return rungi_source_is_pack(source) && pack->layout.label >= 0 ? &pack->index[index].label
                                                                   : NULL;
}

uint64_t rungi_source_pack_bytes(const rung_source *source)
{
    const rungi_pack *pack = &((const pack_source *)source)->pack;
    uint64_t bytes = pack->header.tail / pack->header.count;
    return bytes ? bytes : 1; // samples may share bytes
}
