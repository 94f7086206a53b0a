// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"
#include "formats/json_scan.h"
#include "formats/safetensors.h"

enum { LENGTH_BYTES = 8, PIECE = 1024 * 1024 };

// A JSON string as the format's library writes it (serde_json).
static void add_json_string(rungi_string *out, const char *text)
{
    static const char shorts[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    rungi_string_append(out, "\"", 1);
    for (const char *c = text; *c; c++) {
        const char *found = strchr(shorts, *c);
        if (found)
            rungi_string_add(out, "\\%c", letters[found - shorts]);
        else if ((unsigned char)*c < 0x20)
            rungi_string_add(out, "\\u%04x", (unsigned)*c);
        else
            rungi_string_append(out, c, 1);
    }
    rungi_string_append(out, "\"", 1);
}

static int order_of(const rungi_safetensors_source *a, const rungi_safetensors_source *b)
{
    const rungi_safetensors_type *x = rungi_safetensors_type_of(a->dtype);
    const rungi_safetensors_type *y = rungi_safetensors_type_of(b->dtype);
    if (x != y) // both lie in one table, in ascending order of alignment
        return x > y ? -1 : 1;
    return strcmp(a->name, b->name);
}

static int compare_sources(const void *a, const void *b, void *user)
{
    const rungi_safetensors_source *sources = user;
    return order_of(&sources[*(const size_t *)a], &sources[*(const size_t *)b]);
}

static int compare_names(const void *a, const void *b, void *user)
{
    const rungi_safetensors_source *sources = user;
    return strcmp(sources[*(const size_t *)a].name, sources[*(const size_t *)b].name);
}

static int compare_pairs(const void *a, const void *b, void *user)
{
    const rung_safetensors_pair *pairs = user;
    return strcmp(pairs[*(const size_t *)a].key, pairs[*(const size_t *)b].key);
}

static rung_status check_source(const rungi_safetensors_source *source, uint64_t *bytes_out)
{
    const char *name = source->name;
    RUNG_CHECK(name && rungi_utf8_valid(name, strlen(name)), RUNG_INVALID,
               "tensor name %.200s is not UTF-8", name ? name : "(none)");
    RUNG_CHECK(strcmp(name, "__metadata__") != 0, RUNG_INVALID,
               "a tensor cannot be named __metadata__");
    RUNG_CHECK((unsigned)source->dtype < RUNG_DTYPE_COUNT, RUNG_INVALID,
               "tensor %.200s has no valid type", name);
    RUNG_CHECK(source->shape.rank >= 0 && source->shape.rank <= RUNG_MAX_RANK, RUNG_INVALID,
               "tensor %.200s has rank %d", name, source->shape.rank);
    int64_t count, bytes;
    if (rung_shape_count(&source->shape, &count) != RUNG_OK)
        return rungi_fail_prefix("tensor %.200s", name);
    RUNG_CHECK(rungi_i64_mul(count, (int64_t)rung_dtype_size(source->dtype), &bytes), RUNG_INVALID,
               "tensor %.200s has more bytes than can be counted", name);
    RUNG_CHECK(bytes == 0 || source->data || source->read, RUNG_INVALID,
               "tensor %.200s has no data", name);
    *bytes_out = (uint64_t)bytes;
    return RUNG_OK;
}

static rung_status add_metadata(rungi_string *out, const rung_safetensors_pair *pairs, size_t count)
{
    if (!count)
        return RUNG_OK;
    size_t *order = malloc(count * sizeof *order);
    RUNG_CHECK(order, RUNG_NO_MEMORY, "no memory for metadata");
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    qsort_r(order, count, sizeof *order, compare_pairs, (void *)pairs);
    rungi_string_add(out, "\"__metadata__\":{");
    rung_status status = RUNG_OK;
    for (size_t i = 0; i < count && status == RUNG_OK; i++) {
        const rung_safetensors_pair *pair = &pairs[order[i]];
        if (i && strcmp(pairs[order[i - 1]].key, pair->key) == 0)
            status = RUNG_FAIL(RUNG_INVALID, "metadata key %.200s is given twice", pair->key);
        else if (!rungi_utf8_valid(pair->key, strlen(pair->key)) ||
                 !rungi_utf8_valid(pair->value, strlen(pair->value)))
            status = RUNG_FAIL(RUNG_INVALID, "metadata %.200s is not UTF-8", pair->key);
        if (i)
            rungi_string_append(out, ",", 1);
        add_json_string(out, pair->key);
        rungi_string_append(out, ":", 1);
        add_json_string(out, pair->value);
    }
    rungi_string_append(out, "}", 1);
    free(order);
    return status;
}

// Fills order, bytes and file_size; the header is counted later.
static rung_status order_sources(rungi_safetensors_plan *plan)
{
    size_t count = plan->count;
    plan->order = malloc((count + 1) * sizeof *plan->order);
    plan->bytes = malloc((count + 1) * sizeof *plan->bytes);
    RUNG_CHECK(plan->order && plan->bytes, RUNG_NO_MEMORY, "no memory to write %zu tensors", count);
    for (size_t i = 0; i < count; i++) {
        plan->order[i] = i;
        RUNG_TRY(check_source(&plan->sources[i], &plan->bytes[i]));
        RUNG_CHECK(!__builtin_add_overflow(plan->file_size, plan->bytes[i], &plan->file_size) &&
                       plan->file_size <= INT64_MAX,
                   RUNG_INVALID, "tensors have more bytes than can be counted");
    }
    qsort_r(plan->order, count, sizeof *plan->order, compare_names, (void *)plan->sources);
    for (size_t i = 1; i < count; i++)
        RUNG_CHECK(compare_names(&plan->order[i - 1], &plan->order[i], (void *)plan->sources) != 0,
                   RUNG_INVALID, "two tensors are named %.200s",
                   plan->sources[plan->order[i]].name);
    qsort_r(plan->order, count, sizeof *plan->order, compare_sources, (void *)plan->sources);
    return RUNG_OK;
}

static rung_status build_header(rungi_safetensors_plan *plan, const rung_safetensors_pair *metadata,
                                size_t metadata_count)
{
    rungi_string text = {0};
    uint64_t at = 0, length = 0;
    rungi_string_append(&text, (const char *)&length, LENGTH_BYTES); // filled in below
    rungi_string_append(&text, "{", 1);
    rung_status status;
    RUNG_TRY_GOTO(fini, add_metadata(&text, metadata, metadata_count));
    for (size_t i = 0; i < plan->count; i++) {
        const rungi_safetensors_source *source = &plan->sources[plan->order[i]];
        if (i || metadata_count)
            rungi_string_append(&text, ",", 1);
        add_json_string(&text, source->name);
        rungi_string_add(&text, ":{\"dtype\":\"%s\",\"shape\":[",
                         rungi_safetensors_type_of(source->dtype)->name);
        for (int d = 0; d < source->shape.rank; d++)
            rungi_string_add(&text, "%s%" PRId64, d ? "," : "", source->shape.dim[d]);
        uint64_t end = at + plan->bytes[plan->order[i]];
        rungi_string_add(&text, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, end);
        at = end;
    }
    rungi_string_append(&text, "}", 1);
    while (text.size % 8 && !text.failed)
        rungi_string_append(&text, " ", 1);
    if (text.failed) {
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for the header of a tensor file");
        goto fini;
    }
    length = text.size - LENGTH_BYTES;
    if (length > RUNGI_SAFETENSORS_HEADER_MAX) {
        status =
            RUNG_FAIL(RUNG_INVALID,
                      "names and metadata make a header of %" PRIu64 " bytes; the format allows %d",
                      length, RUNGI_SAFETENSORS_HEADER_MAX);
        goto fini;
    }
    memcpy(text.data, &length, LENGTH_BYTES);
    plan->header = text.data;
    plan->header_size = text.size;
    plan->file_size += text.size;
    return RUNG_OK;
fini:
    rungi_string_fini(&text);
    return status;
}

rung_status rungi_safetensors_plan_init(rungi_safetensors_plan *plan,
                                        const rungi_safetensors_source *sources, size_t count,
                                        const rung_safetensors_pair *metadata,
                                        size_t metadata_count)
{
    *plan = (rungi_safetensors_plan){.sources = sources, .count = count};
    rung_status status = order_sources(plan);
    if (status == RUNG_OK)
        status = build_header(plan, metadata, metadata_count);
    if (status != RUNG_OK)
        rungi_safetensors_plan_fini(plan);
    return status;
}

void rungi_safetensors_plan_fini(rungi_safetensors_plan *plan)
{
    free(plan->order);
    free(plan->bytes);
    free(plan->header);
    *plan = (rungi_safetensors_plan){0};
}

// Writes one source, adding its bytes to `state`. `piece` is PIECE bytes of scratch.
static rung_status emit_source(const rungi_safetensors_source *source, uint64_t bytes,
                               rungi_file *file, XXH3_state_t *state, char *piece)
{
    for (uint64_t done = 0; done < bytes;) {
        size_t size = bytes - done < PIECE ? (size_t)(bytes - done) : PIECE;
        const char *from = piece;
        if (source->data)
            from = (const char *)source->data + done;
        else
            RUNG_TRY(source->read(source->user, done, piece, size));
        RUNG_TRY(rungi_file_write(file, from, size));
        if (state)
            XXH3_128bits_update(state, from, size);
        done += size;
    }
    return RUNG_OK;
}

rung_status rungi_safetensors_emit(const rungi_safetensors_plan *plan, rungi_file *file,
                                   rungi_sum *header_sum_out, rungi_sum *sums_out)
{
    RUNG_TRY(rungi_file_write(file, plan->header, plan->header_size));
    if (header_sum_out)
        *header_sum_out = rungi_sum_of(plan->header, plan->header_size);
    XXH3_state_t *state = sums_out ? XXH3_createState() : NULL;
    char *piece = malloc(PIECE);
    rung_status status = RUNG_OK;
    if (!piece || (sums_out && !state))
        status = RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory to write it", file->path);
    for (size_t i = 0; i < plan->count && status == RUNG_OK; i++) {
        size_t index = plan->order[i];
        if (state)
            XXH3_128bits_reset(state);
        status = emit_source(&plan->sources[index], plan->bytes[index], file, state, piece);
        if (state && status == RUNG_OK) {
            XXH128_hash_t hash = XXH3_128bits_digest(state);
            sums_out[index] = (rungi_sum){hash.high64, hash.low64};
        }
    }
    XXH3_freeState(state);
    free(piece);
    return status;
}

rung_status rung_safetensors_write(const char *path, const rung_safetensors_item *items,
                                   size_t count, const rung_safetensors_pair *metadata,
                                   size_t metadata_count)
{
    RUNG_CHECK(path && (items || !count) && (metadata || !metadata_count), RUNG_INVALID,
               "rung_safetensors_write: no path, items or metadata");
    rungi_safetensors_source *sources = calloc(count + 1, sizeof *sources);
    RUNG_CHECK(sources, RUNG_NO_MEMORY, "%s: no memory to write it", path);
    for (size_t i = 0; i < count; i++)
        sources[i] = (rungi_safetensors_source){.name = items[i].name,
                                                .dtype = items[i].view.dtype,
                                                .shape = items[i].view.shape,
                                                .data = items[i].view.data};
    rungi_safetensors_plan plan;
    rungi_file file;
    rung_status status;
    RUNG_TRY_GOTO(free_sources,
                  rungi_safetensors_plan_init(&plan, sources, count, metadata, metadata_count));
    RUNG_TRY_GOTO(fini_plan, rungi_file_create_beside(&file, path, plan.file_size, NULL));
    status = rungi_safetensors_emit(&plan, &file, NULL, NULL);
    if (status == RUNG_OK)
        status = rungi_file_publish(&file, path);
    else
        rungi_file_abandon(&file);
fini_plan:
    rungi_safetensors_plan_fini(&plan);
free_sources:
    free(sources);
    return status;
}
