// SPDX-License-Identifier: Apache-2.0
#include "data/inspect.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/context.h"
#include "base/cores.h"
#include "base/error.h"
#include "base/team.h"
#include "data/reader.h"
#include "data/source.h"

enum { AT_ONCE = 16, PROGRESS_NS = 100000000 };

typedef struct inspector {
    rung_context *context;
    rung_source *source;
    const rungi_inspect_options *options;
    rungi_inspection *result;
    int label; // field, or -1
    atomic_llong next, done;
    pthread_mutex_t lock; // guards `result` but for the marks
    bool no_memory;
} inspector;

// What one thread has counted.
typedef struct tally {
    rungi_inspection sum;
    XXH3_state_t *hash;
    int64_t shown; // clock
} tally;

static void range(int at[2], int value)
{
    at[0] = at[0] == 0 || value < at[0] ? value : at[0];
    at[1] = value > at[1] ? value : at[1];
}

static void count_picture(rungi_inspection *sum, const rungi_image_info *info, bool file)
{
    sum->pictures.seen++;
    sum->pictures.colours[info->colour]++;
    sum->pictures.deep += info->deep;
    sum->pictures.turned += info->orientation > 1;
    sum->pictures.bad_orientation += info->bad_orientation;
    sum->kinds[info->kind] += file;
    range(sum->width, info->width);
    range(sum->height, info->height);
    sum->pixels += (double)info->width * info->height;
}

static void set_hash(rungi_mark *mark, XXH128_hash_t hash)
{
    mark->hash[0] = hash.low64;
    mark->hash[1] = hash.high64;
}

static void hash_pixels(XXH3_state_t *state, rungi_mark *mark, const rungi_pixels *pixels)
{
    const int size[3] = {pixels->width, pixels->height, pixels->channels};
    size_t row = (size_t)pixels->width * (size_t)pixels->channels;
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, size, sizeof size);
    for (int y = 0; y < pixels->height; y++)
        XXH3_128bits_update(state, pixels->at + (size_t)y * pixels->stride, row);
    set_hash(mark, XXH3_128bits_digest(state));
}

static bool is_image(const rung_field *field)
{
    int channels =
        field->pixels == RUNG_PIXELS_HWC ? (int)field->shape.dim[2] : (int)field->shape.dim[0];
    return field->pixels == RUNG_PIXELS_FILE ||
           (field->pixels != RUNG_PIXELS_NONE && field->dtype == RUNG_U8 &&
            field->shape.rank == 3 && (channels == 1 || channels == 3));
}

// Adds a finding about this thread's error, or about `reason`.
static void find(inspector *in, bool damaged, int64_t sample, const char *reason)
{
    char what[640];
    rungi_source_describe(in->source, sample, what, sizeof what);
    rungi_string text = {0};
    rungi_string_add(&text, "%s: %s", what, reason);
    pthread_mutex_lock(&in->lock);
    rungi_finding finding = {sample, text.failed ? NULL : text.data};
    bool kept = finding.message && (damaged ? rungi_array_push(&in->result->damaged, finding)
                                            : rungi_array_push(&in->result->bad_labels, finding));
    in->no_memory |= !kept;
    pthread_mutex_unlock(&in->lock);
    if (!kept)
        rungi_string_fini(&text);
}

static void look_at_label(inspector *in, const rungi_reader *reader, int64_t sample,
                          rungi_mark *mark, rungi_inspection *sum)
{
    const rung_field *field = in->label >= 0 ? &in->source->fields[in->label] : NULL;
    char reason[96];
    if (field && field->dtype == RUNG_I64 && field->shape.rank == 0) {
        int64_t label = *(const int64_t *)reader->fields[in->label].data;
        mark->label = label;
        if (label >= 0 && label < sum->class_count) {
            sum->classes[label]++;
        } else if (sum->class_count) {
            snprintf(reason, sizeof reason, "label %" PRId64 " is not in 0 ... %" PRId64, label,
                     sum->class_count - 1);
            find(in, false, sample, reason);
        }
    } else if (field && field->dtype == RUNG_F32 && field->shape.rank == 1) {
        const float *values = reader->fields[in->label].data;
        for (int64_t k = 0; k < field->shape.dim[0]; k++)
            if (values[k] != 0 && values[k] != 1) {
                snprintf(reason, sizeof reason, "label of class %" PRId64 " is %g, not 0 or 1", k,
                         (double)values[k]);
                find(in, false, sample, reason);
                return;
            } else if (k < sum->class_count) {
                sum->classes[k] += values[k] == 1;
            }
    }
}

static void inspect_sample(inspector *in, rungi_reader *reader, int64_t sample, tally *t)
{
    rungi_inspection *sum = &t->sum;
    rungi_mark *mark = &in->result->marks[sample];
    const rung_field *first = &in->source->fields[0];
    bool file = first->pixels == RUNG_PIXELS_FILE;
    *mark = (rungi_mark){.label = -1};
    rung_status status = rungi_reader_read(reader, sample);
    if (status == RUNG_OK) {
        look_at_label(in, reader, sample, mark, sum);
        sum->bytes += file ? reader->fields[0].shape.dim[0] : (int64_t)rungi_field_bytes(first);
    }
    if (status == RUNG_OK && is_image(first)) {
        rungi_image_info info;
        rungi_pixels pixels;
        status = rungi_reader_picture(reader, "picture", in->options->rotate, &info, &pixels);
        if (status == RUNG_OK) {
            count_picture(sum, &info, file);
            hash_pixels(t->hash, mark, &pixels);
        }
    } else if (status == RUNG_OK) {
        set_hash(mark, XXH3_128bits(reader->fields[0].data, rungi_field_bytes(first)));
    }
    mark->good = status == RUNG_OK;
    if (status == RUNG_OK)
        return;
    const rung_error *error = rung_error_last();
    find(in, true, sample,
         error->status == status && *error->message ? error->message : rung_status_text(status));
}

static void show(inspector *in, tally *t)
{
    const rungi_inspect_options *o = in->options;
    int64_t now = rungi_now(in->context);
    if (!o->progress || now - t->shown < PROGRESS_NS)
        return;
    t->shown = now;
    o->progress(o->user, atomic_load(&in->done), in->source->count, o->what);
}

static void join(rungi_inspection *into, const rungi_inspection *from)
{
    into->pictures.seen += from->pictures.seen;
    into->pictures.deep += from->pictures.deep;
    into->pictures.turned += from->pictures.turned;
    into->pictures.bad_orientation += from->pictures.bad_orientation;
    for (int i = 0; i < RUNGI_COLOUR_COUNT; i++)
        into->pictures.colours[i] += from->pictures.colours[i];
    for (int i = 0; i < RUNGI_PICTURE_KINDS; i++)
        into->kinds[i] += from->kinds[i];
    for (int i = 0; i < 2 && from->width[0]; i++) {
        range(into->width, from->width[i]);
        range(into->height, from->height[i]);
    }
    into->bytes += from->bytes;
    into->pixels += from->pixels; // whole numbers: exact in any order
    for (int64_t k = 0; k < into->class_count; k++)
        into->classes[k] += from->classes[k];
}

static rung_status inspect_some(void *in_, int member)
{
    inspector *in = in_;
    int64_t count = in->source->count;
    tally t = {.sum.class_count = in->result->class_count, .hash = XXH3_createState()};
    rungi_reader reader = {0};
    rung_status status = rungi_reader_open(in->source, member, &reader);
    t.sum.classes = calloc((size_t)t.sum.class_count + 1, sizeof *t.sum.classes);
    if (status == RUNG_OK && (!t.sum.classes || !t.hash))
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for %" PRId64 " classes", t.sum.class_count);
    for (int64_t begin;
         status == RUNG_OK && (begin = atomic_fetch_add(&in->next, AT_ONCE)) < count;) {
        int64_t end = begin + AT_ONCE < count ? begin + AT_ONCE : count;
        for (int64_t i = begin; i < end; i++) {
            inspect_sample(in, &reader, i, &t);
            atomic_fetch_add(&in->done, 1);
            if (member == 0)
                show(in, &t);
        }
    }
    pthread_mutex_lock(&in->lock);
    if (status == RUNG_OK)
        join(in->result, &t.sum);
    pthread_mutex_unlock(&in->lock);
    free(t.sum.classes);
    XXH3_freeState(t.hash);
    rungi_reader_close(&reader);
    return status;
}

static int by_sample(const void *a, const void *b)
{
    const rungi_finding *x = a, *y = b;
    return x->sample < y->sample ? -1 : x->sample > y->sample;
}

rung_status rungi_inspect(rung_context *context, rung_source *source,
                          const rungi_inspect_options *options, rungi_inspection *inspection_out)
{
    rungi_inspection result = {.source = source, .class_count = source->class_count};
    inspector in = {.context = context,
                    .source = source,
                    .options = options,
                    .result = &result,
                    .label = rungi_source_label_field(source)};
    int threads = options->threads ? options->threads : rungi_core_count();
    rungi_team *team = NULL;
    RUNG_TRY(rungi_source_check(source));
    pthread_mutex_init(&in.lock, NULL);
    result.marks = calloc((size_t)source->count, sizeof *result.marks);
    result.classes = calloc((size_t)result.class_count + 1, sizeof *result.classes);
    rung_status status =
        result.marks && result.classes
            ? rungi_team_create(threads, &team)
            : RUNG_FAIL(RUNG_NO_MEMORY, "no memory to inspect %" PRId64 " samples", source->count);
    if (status == RUNG_OK)
        status = rungi_team_run(team, inspect_some, &in);
    if (status == RUNG_OK && in.no_memory)
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for what is wrong with the data");
    rungi_team_destroy(&team);
    pthread_mutex_destroy(&in.lock);
    if (status != RUNG_OK) {
        rungi_inspection_fini(&result);
        return status;
    }
    if (result.damaged.count)
        qsort(result.damaged.data, result.damaged.count, sizeof(rungi_finding), by_sample);
    if (result.bad_labels.count)
        qsort(result.bad_labels.data, result.bad_labels.count, sizeof(rungi_finding), by_sample);
    *inspection_out = result;
    return RUNG_OK;
}

void rungi_inspection_fini(rungi_inspection *inspection)
{
    for (size_t i = 0; i < inspection->damaged.count; i++)
        free(inspection->damaged.data[i].message);
    for (size_t i = 0; i < inspection->bad_labels.count; i++)
        free(inspection->bad_labels.data[i].message);
    rungi_array_fini(&inspection->damaged);
    rungi_array_fini(&inspection->bad_labels);
    free(inspection->classes);
    free(inspection->marks);
    *inspection = (rungi_inspection){0};
}

// ---- duplicates

typedef struct place {
    const rungi_mark *mark;
    int set;
    int64_t sample;
} place;

static int by_hash(const void *a, const void *b)
{
    const place *x = a, *y = b;
    for (int i = 0; i < 2; i++)
        if (x->mark->hash[i] != y->mark->hash[i])
            return x->mark->hash[i] < y->mark->hash[i] ? -1 : 1;
    if (x->set != y->set)
        return x->set - y->set;
    return x->sample < y->sample ? -1 : x->sample > y->sample;
}

static int by_first(const void *a, const void *b)
{
    const rungi_duplicate *x = a, *y = b;
    for (int i = 0; i < 2; i++) {
        if (x->set[i] != y->set[i])
            return x->set[i] - y->set[i];
        if (x->sample[i] != y->sample[i])
            return x->sample[i] < y->sample[i] ? -1 : 1;
    }
    return 0;
}

static bool same_hash(const place *a, const place *b)
{
    return memcmp(a->mark->hash, b->mark->hash, sizeof a->mark->hash) == 0;
}

rung_status rungi_inspect_duplicates(const rungi_inspection *inspections, int count,
                                     rungi_duplicates *duplicates_out)
{
    rungi_duplicates found = {0};
    size_t all = 0, n = 0;
    for (int s = 0; s < count; s++)
        all += (size_t)inspections[s].source->count;
    place *places = malloc((all + 1) * sizeof *places);
    RUNG_CHECK(places, RUNG_NO_MEMORY, "no memory to compare %zu samples", all);
    for (int s = 0; s < count; s++)
        for (int64_t i = 0; i < inspections[s].source->count; i++)
            if (inspections[s].marks[i].good)
                places[n++] = (place){&inspections[s].marks[i], s, i};
    qsort(places, n, sizeof *places, by_hash);
    bool full = false;
    for (size_t i = 1, first = 0; i < n && !full; i++) {
        if (!same_hash(&places[i], &places[first])) {
            first = i;
            continue;
        }
        const place *a = &places[first], *b = &places[i];
        rungi_duplicate pair = {
            {a->set, b->set}, {a->sample, b->sample}, a->mark->label != b->mark->label};
        full = !rungi_array_push(&found, pair);
    }
    free(places);
    if (full) {
        rungi_array_fini(&found);
        return RUNG_FAIL(RUNG_NO_MEMORY, "no memory for the list of duplicates");
    }
    if (found.count)
        qsort(found.data, found.count, sizeof *found.data, by_first);
    *duplicates_out = found;
    return RUNG_OK;
}
