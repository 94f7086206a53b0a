// SPDX-License-Identifier: Apache-2.0
// rung_data_check: the inspection of both sets, in words and as JSON.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "data/inspect.h"
#include "data/reader.h"
#include "data/source.h"
#include "rung/data_tools.h"
#include "train/session.h"

enum {
    LISTED = 20,       // of each kind of problem in the text; the JSON has all
    CLASSES_MAX = 50,  // with more, only some classes are listed
    CLASSES_SHOWN = 5, // at either end then
    BAR = 40
};

typedef struct check {
    rungi_session *s;
    rungi_inspection sets[2];
    int count;       // sets inspected
    int number[2];   // of a set: 0 training, 1 validation
    char *broken[2]; // why a set could not be opened at all
    rungi_duplicates duplicates;
    RUNGI_ARRAY(int64_t) empty; // classes without training samples
    int64_t problems;
} check;

static const char *const set_names[] = {"train", "validation"};

void rung_data_report_fini(rung_data_report *report)
{
    free(report->text);
    free(report->json);
    free(report->svg);
    *report = (rung_data_report){0};
}

// ---- looking

static bool damaged_as_a_whole(rung_status status)
{
    return status == RUNG_CORRUPT || status == RUNG_FORMAT || status == RUNG_DATA;
}

static rung_status open_set(check *c, bool validation, bool optional)
{
    rung_source **source = validation ? &c->s->val_source : &c->s->train_source;
    rung_status status = rungi_session_open_source(c->s, validation, source);
    if (status == RUNG_NOT_FOUND && optional)
        return RUNG_OK;
    if (status != RUNG_OK && damaged_as_a_whole(status)) {
        c->broken[validation] = strdup(rung_error_last()->message);
        c->problems++;
        return c->broken[validation] ? RUNG_OK : RUNG_FAIL(RUNG_NO_MEMORY, "no memory");
    }
    return status;
}

static rung_status look(check *c, const rung_data_check_options *o)
{
    const bool split = c->s->c->data.val_split > 0;
    RUNG_TRY(open_set(c, false, false));
    if (!split)
        RUNG_TRY(open_set(c, true, o->optional_validation));
    rung_source *const sources[] = {c->s->train_source, c->s->val_source};
    for (int i = 0; i < 2; i++) {
        rungi_inspect_options options = {.threads = o->threads,
                                         .rotate = c->s->c->data.exif_rotation,
                                         .progress = o->progress,
                                         .user = o->progress_user,
                                         .what = set_names[i]};
        if (!sources[i])
            continue;
        RUNG_TRY(rungi_inspect(c->s->context, sources[i], &options, &c->sets[c->count]));
        c->number[c->count++] = i;
    }
    return rungi_inspect_duplicates(c->sets, c->count, &c->duplicates);
}

static rung_status count_problems(check *c)
{
    for (int i = 0; i < c->count; i++) {
        const rungi_inspection *set = &c->sets[i];
        c->problems += (int64_t)set->damaged.count + (int64_t)set->bad_labels.count;
        if (c->number[i] != 0 || rungi_source_label_field(set->source) < 0)
            continue;
        for (int64_t k = 0; k < set->class_count; k++)
            if (set->classes[k] == 0)
                RUNG_CHECK(rungi_array_push(&c->empty, k), RUNG_NO_MEMORY, "no memory");
    }
    c->problems += (int64_t)c->duplicates.count + (int64_t)c->empty.count;
    return RUNG_OK;
}

// ---- text

static void name_class(const rung_source *source, int64_t k, char *out, size_t size)
{
    if (source->class_names && k < source->class_count)
        snprintf(out, size, "%" PRId64 " %s", k, source->class_names[k]);
    else
        snprintf(out, size, "%" PRId64, k);
}

static void text_class(const rungi_inspection *set, int64_t k, int64_t most, rungi_string *out)
{
    char name[64];
    int bar = most > 0 ? (int)(set->classes[k] * BAR / most) : 0;
    name_class(set->source, k, name, sizeof name);
    rungi_string_add(out, "  %-28s %8" PRId64 " ", name, set->classes[k]);
    for (int i = 0; i < bar; i++)
        rungi_string_append(out, "#", 1);
    rungi_string_append(out, "\n", 1);
}

static void text_classes(const rungi_inspection *set, rungi_string *out)
{
    int64_t least = INT64_MAX, most = 0, n = set->class_count;
    if (n == 0 || rungi_source_label_field(set->source) < 0)
        return;
    for (int64_t k = 0; k < n; k++) {
        least = set->classes[k] < least ? set->classes[k] : least;
        most = set->classes[k] > most ? set->classes[k] : most;
    }
    rungi_string_add(out, "  %" PRId64 " classes of %" PRId64 " to %" PRId64 " samples\n", n, least,
                     most);
    for (int64_t k = 0; k < n; k++) {
        if (n <= CLASSES_MAX || k < CLASSES_SHOWN || k >= n - CLASSES_SHOWN)
            text_class(set, k, most, out);
        else if (k == CLASSES_SHOWN)
            rungi_string_add(out, "  ...\n");
    }
}

static void text_pictures(const rungi_inspection *set, rungi_string *out)
{
    static const char *const kinds[RUNGI_PICTURE_KINDS] = {"JPEG", "PNG", "WebP", "PNM"};
    if (!set->pictures.seen)
        return;
    rungi_string_add(out, "  ");
    rungi_survey_text(&set->pictures, set->source->count, out);
    for (int i = 0; i < RUNGI_PICTURE_KINDS; i++)
        if (set->kinds[i])
            rungi_string_add(out, "; %" PRId64 " %s", set->kinds[i], kinds[i]);
    rungi_string_add(out, "\n  %d to %d wide, %d to %d high, %.3f Mpixel on average\n",
                     set->width[0], set->width[1], set->height[0], set->height[1],
                     set->pixels * 1e-6 / (double)set->pictures.seen);
}

static void text_findings(const char *set, const char *what, const rungi_finding *list,
                          size_t count, rungi_string *out)
{
    if (count)
        rungi_string_add(out, "%s: %zu of %s\n", what, count, set);
    for (size_t i = 0; i < count && i < LISTED; i++)
        rungi_string_add(out, "  %s\n", list[i].message);
    if (count > LISTED)
        rungi_string_add(out, "  ... and %zu more (--json lists all)\n", count - LISTED);
}

static void describe_of(const check *c, int set, int64_t sample, char *out, size_t size)
{
    rungi_source_describe(c->sets[set].source, sample, out, size);
}

static void text_duplicates(const check *c, rungi_string *out)
{
    int64_t between = 0, differ = 0;
    for (size_t i = 0; i < c->duplicates.count; i++) {
        between += c->duplicates.data[i].set[0] != c->duplicates.data[i].set[1];
        differ += c->duplicates.data[i].labels_differ;
    }
    if (!c->duplicates.count)
        return;
    rungi_string_add(out,
                     "duplicates: %zu, %" PRId64 " of them between train and validation, %" PRId64
                     " with different labels\n",
                     c->duplicates.count, between, differ);
    for (size_t i = 0; i < c->duplicates.count && i < LISTED; i++) {
        const rungi_duplicate *d = &c->duplicates.data[i];
        char a[640], b[640];
        describe_of(c, d->set[0], d->sample[0], a, sizeof a);
        describe_of(c, d->set[1], d->sample[1], b, sizeof b);
        rungi_string_add(out, "  %s %s = %s %s", set_names[c->number[d->set[0]]], a,
                         set_names[c->number[d->set[1]]], b);
        if (d->labels_differ)
            rungi_string_add(out, ", labels %" PRId64 " and %" PRId64,
                             c->sets[d->set[0]].marks[d->sample[0]].label,
                             c->sets[d->set[1]].marks[d->sample[1]].label);
        rungi_string_append(out, "\n", 1);
    }
    if (c->duplicates.count > LISTED)
        rungi_string_add(out, "  ... and %zu more (--json lists all)\n",
                         c->duplicates.count - LISTED);
}

static void text_of(const check *c, rungi_string *out)
{
    char bytes[32], name[64];
    for (int i = 0; i < c->count; i++) {
        const rungi_inspection *set = &c->sets[i];
        rungi_string_add(out, "%s: %" PRId64 " samples of %s, %s\n", set_names[c->number[i]],
                         set->source->count, set->source->name,
                         rungi_text_bytes((uint64_t)set->bytes, bytes, sizeof bytes));
        text_pictures(set, out);
        text_classes(set, out);
    }
    if (c->s->c->data.val_split > 0)
        rungi_string_add(out, "validation: %g of the training samples (data.val.split)\n",
                         c->s->c->data.val_split);
    for (int i = 0; i < 2; i++)
        if (c->broken[i])
            rungi_string_add(out, "%s: cannot be used: %s\n", set_names[i], c->broken[i]);
    for (int i = 0; i < c->count; i++) {
        const rungi_inspection *set = &c->sets[i];
        const char *of = set_names[c->number[i]];
        text_findings(of, "damaged", set->damaged.data, set->damaged.count, out);
        text_findings(of, "bad labels", set->bad_labels.data, set->bad_labels.count, out);
    }
    for (size_t i = 0; i < c->empty.count && i < LISTED; i++) {
        name_class(c->sets[0].source, c->empty.data[i], name, sizeof name);
        rungi_string_add(out, "class %s has no training samples\n", name);
    }
    if (c->empty.count > LISTED)
        rungi_string_add(out, "  ... and %zu more (--json lists all)\n", c->empty.count - LISTED);
    text_duplicates(c, out);
    if (c->problems == 0)
        rungi_string_add(out, "nothing is wrong\n");
}

// ---- JSON

static json_t *findings_json(const check *c, int set, const rungi_finding *list, size_t count)
{
    json_t *array = json_array();
    char what[640];
    for (size_t i = 0; i < count; i++) {
        json_t *o = json_object();
        describe_of(c, set, list[i].sample, what, sizeof what);
        json_object_set_new(o, "sample", json_integer(list[i].sample));
        json_object_set_new(o, "name", rungi_json_string(what));
        json_object_set_new(o, "message", rungi_json_string(list[i].message));
        json_array_append_new(array, o);
    }
    return array;
}

static json_t *set_json(const check *c, int i)
{
    static const char *const colours[RUNGI_COLOUR_COUNT] = {"rgb",  "grey",    "grey_alpha",
                                                            "rgba", "palette", "cmyk"};
    static const char *const kinds[RUNGI_PICTURE_KINDS] = {"jpeg", "png", "webp", "pnm"};
    const rungi_inspection *set = &c->sets[i];
    json_t *o = json_object(), *pictures = json_object(), *classes = json_array();
    json_object_set_new(o, "source", rungi_json_string(set->source->name));
    json_object_set_new(o, "samples", json_integer(set->source->count));
    json_object_set_new(o, "bytes", json_integer(set->bytes));
    json_object_set_new(pictures, "seen", json_integer(set->pictures.seen));
    for (int k = 0; k < RUNGI_COLOUR_COUNT; k++)
        json_object_set_new(pictures, colours[k], json_integer(set->pictures.colours[k]));
    for (int k = 0; k < RUNGI_PICTURE_KINDS; k++)
        json_object_set_new(pictures, kinds[k], json_integer(set->kinds[k]));
    json_object_set_new(pictures, "deep", json_integer(set->pictures.deep));
    json_object_set_new(pictures, "turned", json_integer(set->pictures.turned));
    json_object_set_new(pictures, "bad_orientation", json_integer(set->pictures.bad_orientation));
    json_object_set_new(pictures, "width", json_pack("[i, i]", set->width[0], set->width[1]));
    json_object_set_new(pictures, "height", json_pack("[i, i]", set->height[0], set->height[1]));
    json_object_set_new(o, "pictures", pictures);
    for (int64_t k = 0; k < set->class_count; k++) {
        json_t *row = json_object();
        const char *const *names = set->source->class_names;
        json_object_set_new(row, "name", names ? rungi_json_string(names[k]) : json_null());
        json_object_set_new(row, "samples", json_integer(set->classes[k]));
        json_array_append_new(classes, row);
    }
    json_object_set_new(o, "classes", classes);
    json_object_set_new(o, "damaged", findings_json(c, i, set->damaged.data, set->damaged.count));
    json_object_set_new(o, "bad_labels",
                        findings_json(c, i, set->bad_labels.data, set->bad_labels.count));
    return o;
}

static json_t *duplicates_json(const check *c)
{
    json_t *array = json_array();
    char what[640];
    for (size_t i = 0; i < c->duplicates.count; i++) {
        const rungi_duplicate *d = &c->duplicates.data[i];
        json_t *pair = json_array(), *o = json_object();
        for (int k = 0; k < 2; k++) {
            json_t *side = json_object();
            describe_of(c, d->set[k], d->sample[k], what, sizeof what);
            json_object_set_new(side, "set", json_string(set_names[c->number[d->set[k]]]));
            json_object_set_new(side, "sample", json_integer(d->sample[k]));
            json_object_set_new(side, "name", rungi_json_string(what));
            json_object_set_new(side, "label",
                                json_integer(c->sets[d->set[k]].marks[d->sample[k]].label));
            json_array_append_new(pair, side);
        }
        json_object_set_new(o, "samples", pair);
        json_object_set_new(o, "labels_differ", json_boolean(d->labels_differ));
        json_array_append_new(array, o);
    }
    return array;
}

static json_t *json_of(const check *c)
{
    json_t *o = json_object(), *empty = json_array(), *broken = json_object();
    for (int i = 0; i < c->count; i++)
        json_object_set_new(o, set_names[c->number[i]], set_json(c, i));
    for (int i = 0; i < 2; i++)
        if (c->broken[i])
            json_object_set_new(broken, set_names[i], rungi_json_string(c->broken[i]));
    for (size_t i = 0; i < c->empty.count; i++)
        json_array_append_new(empty, json_integer(c->empty.data[i]));
    json_object_set_new(o, "unusable", broken);
    json_object_set_new(o, "empty_classes", empty);
    json_object_set_new(o, "duplicates", duplicates_json(c));
    json_object_set_new(o, "problems", json_integer(c->problems));
    return o;
}

static void check_fini(check *c)
{
    for (int i = 0; i < c->count; i++)
        rungi_inspection_fini(&c->sets[i]);
    for (int i = 0; i < 2; i++)
        free(c->broken[i]);
    rungi_array_fini(&c->duplicates);
    rungi_array_fini(&c->empty);
    rungi_session_destroy(&c->s);
}

rung_status rung_data_check(rung_context *context, const rung_config *config,
                            const rung_data_check_options *options, rung_data_report *report_out)
{
    check c = {0};
    rungi_string text = {0}, json = {0};
    RUNG_TRY(rungi_session_of_data(context, config, 0, &c.s));
    rung_status status = look(&c, options);
    if (status == RUNG_OK)
        status = count_problems(&c);
    if (status == RUNG_OK) {
        json_t *o = json_of(&c);
        text_of(&c, &text);
        rungi_json_print(o, false, &json);
        json_decref(o);
        if (text.failed || json.failed)
            status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a report");
    }
    rung_error error = *rung_error_last();
    int64_t problems = c.problems;
    check_fini(&c);
    if (status != RUNG_OK) {
        rungi_string_fini(&text);
        rungi_string_fini(&json);
        return rungi_fail_adopt(&error);
    }
    *report_out = (rung_data_report){problems == 0, problems, text.data, json.data, NULL};
    return RUNG_OK;
}
