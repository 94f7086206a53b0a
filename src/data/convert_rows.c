// SPDX-License-Identifier: Apache-2.0
// Reading what is converted and rewriting its JPEGs with restart markers: some samples at a time,
// by several threads, and written in their order.
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/error.h"
#include "base/team.h"
#include "data/convert.h"
#include "data/reader.h"
#include "data/source.h"
#include "formats/jpeg_rows.h"

enum { CHUNK = 64, PLACE = 600 };

// A sample that is ready to be written.
typedef struct made {
    rung_status status;
    rung_error error;
    rungi_string picture;
    uint8_t *rest[RUNG_MAX_FIELDS]; // the other fields
} made;

typedef struct work {
    rungi_conversion *c;
    rungi_reader *readers; // of each member
    made made[CHUNK];
    int64_t first, count; // of the chunk
    atomic_llong next;
} work;

static rung_status make(work *w, rungi_reader *reader, int64_t index, made *m)
{
    const rungi_conversion *c = w->c;
    RUNG_TRY(rungi_reader_read(reader, index));
    const rung_view *picture = &reader->fields[c->image];
    RUNG_TRY(rungi_jpeg_write_rows(picture->data, (size_t)picture->shape.dim[0], "picture",
                                   &m->picture));
    for (int f = 0; f < c->field_count; f++)
        if (f != c->image)
            memcpy(m->rest[f], reader->fields[f].data, rungi_field_bytes(&c->fields[f]));
    return RUNG_OK;
}

static rung_status make_some(void *w_, int member)
{
    work *w = w_;
    for (;;) {
        int64_t i = atomic_fetch_add(&w->next, 1);
        if (i >= w->count)
            return RUNG_OK;
        made *m = &w->made[i];
        m->status = make(w, &w->readers[member], w->first + i, m);
        if (m->status != RUNG_OK)
            m->error = *rung_error_last();
    }
}

// Writes what is ready; a bad sample is left out or an error.
static rung_status give_chunk(work *w, rungi_convert_progress *p)
{
    rungi_conversion *c = w->c;
    for (int64_t i = 0; i < w->count; i++) {
        made *m = &w->made[i];
        rung_status status = m->status;
        char place[PLACE];
        if (status == RUNG_OK) {
            rung_view views[RUNG_MAX_FIELDS];
            for (int f = 0; f < c->field_count; f++)
                views[f] = (rung_view){c->fields[f].dtype, c->fields[f].shape, m->rest[f]};
            views[c->image].data = m->picture.data;
            views[c->image].shape = RUNG_SHAPE((int64_t)m->picture.size);
            RUNG_TRY(rungi_convert_give(c, p, w->first + i, views));
            continue;
        }
        rungi_fail_adopt(&m->error);
        rungi_source_describe(c->source, w->first + i, place, sizeof place);
        rungi_fail_prefix("%s", place);
        if (!c->options->skip_bad || !rungi_convert_is_bad(status))
            return status;
        c->report.left_out++;
        rungi_log(c->context, RUNG_LOG_WARNING, "left out: %s", rung_error_last()->message);
    }
    return RUNG_OK;
}

static rung_status run(work *w, rungi_team *team, rungi_convert_progress *p)
{
    int64_t count = w->c->source->count;
    for (w->first = p->drop ? 0 : p->written; w->first < count; w->first += w->count) {
        w->count = count - w->first < CHUNK ? count - w->first : CHUNK;
        atomic_store(&w->next, 0);
        RUNG_TRY(rungi_team_run(team, make_some, w));
        RUNG_TRY(give_chunk(w, p));
        RUNG_TRY(rungi_convert_tell(w->c, "writing", w->first + w->count, count));
    }
    return RUNG_OK;
}

static rung_status make_room(work *w, int members)
{
    const rungi_conversion *c = w->c;
    w->readers = calloc((size_t)members, sizeof *w->readers);
    RUNG_CHECK(w->readers, RUNG_NO_MEMORY, "no memory to convert pictures");
    for (int i = 0; i < CHUNK; i++)
        for (int f = 0; f < c->field_count; f++)
            if (f != c->image) {
                w->made[i].rest[f] = malloc(rungi_field_bytes(&c->fields[f]) + 1);
                RUNG_CHECK(w->made[i].rest[f], RUNG_NO_MEMORY, "no memory to convert pictures");
            }
    for (int i = 0; i < members; i++)
        RUNG_TRY(rungi_reader_open(c->source, i, &w->readers[i]));
    return RUNG_OK;
}

rung_status rungi_convert_rows(rungi_conversion *c, rungi_convert_progress *p)
{
    int members = c->options->num_workers > 0 ? c->options->num_workers : 1;
    rungi_team *team = NULL;
    work *w = calloc(1, sizeof *w);
    RUNG_CHECK(w, RUNG_NO_MEMORY, "no memory to convert pictures");
    w->c = c;
    rung_status status = make_room(w, members);
    if (status == RUNG_OK)
        status = rungi_team_create(members, &team);
    if (status == RUNG_OK)
        status = run(w, team, p);
    rung_error error = *rung_error_last();
    rungi_team_destroy(&team);
    for (int i = 0; w->readers && i < members; i++)
        if (w->readers[i].source)
            rungi_reader_close(&w->readers[i]);
    for (int i = 0; i < CHUNK; i++) {
        rungi_string_fini(&w->made[i].picture);
        for (int f = 0; f < RUNG_MAX_FIELDS; f++)
            free(w->made[i].rest[f]);
    }
    free(w->readers);
    free(w);
    return status == RUNG_OK ? RUNG_OK : rungi_fail_adopt(&error);
}
