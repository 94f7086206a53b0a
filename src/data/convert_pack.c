// SPDX-License-Identifier: Apache-2.0
// Converting to a pack.
#include <stdlib.h>
#include <sys/stat.h>

#include "base/error.h"
#include "data/convert.h"
#include "rung/pack.h"

typedef struct pack_sink {
    rungi_sink sink; // first
    rungi_conversion *c;
    rung_pack_writer *writer;
} pack_sink;

static rung_status add(rungi_sink *sink, const rungi_convert_sample *sample)
{
    pack_sink *s = (pack_sink *)sink;
    return rung_pack_writer_add(s->writer, sample->name, sample->fields);
}

static bool tell(void *user, int64_t done, int64_t total)
{
    return rungi_convert_tell(user, "checking", done, total) == RUNG_OK;
}

static rung_status finish(rungi_sink *sink, uint64_t *bytes_out)
{
    pack_sink *s = (pack_sink *)sink;
    struct stat info = {0};
    RUNG_TRY(rung_pack_writer_finish(&s->writer, tell, s->c));
    if (stat(s->c->options->to, &info) == 0)
        *bytes_out = (uint64_t)info.st_size;
    return RUNG_OK;
}

static void destroy(rungi_sink *sink)
{
    pack_sink *s = (pack_sink *)sink;
    rung_pack_writer_destroy(&s->writer, false);
    free(s);
}

rung_status rungi_sink_pack(rungi_conversion *c, rungi_sink **sink_out)
{
    pack_sink *s = calloc(1, sizeof *s);
    RUNG_CHECK(s, RUNG_NO_MEMORY, "%s: no memory to write it", c->options->to);
    s->c = c;
    s->sink = (rungi_sink){.add = add, .finish = finish, .destroy = destroy};
    rung_status status =
        rung_pack_writer_create(c->context, c->options->to,
                                &(rung_pack_writer_options){.fields = c->fields,
                                                            .field_count = c->field_count,
                                                            .class_count = c->source->class_count,
                                                            .class_names = c->source->class_names,
                                                            .note = c->note,
                                                            .stamp = c->stamp,
                                                            .restart = c->options->restart},
                                &s->writer);
    if (status != RUNG_OK) {
        destroy(&s->sink);
        return status;
    }
    s->sink.standing = rung_pack_writer_count(s->writer);
    *sink_out = &s->sink;
    return RUNG_OK;
}
