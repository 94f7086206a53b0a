// SPDX-License-Identifier: Apache-2.0
// Converting to tar archives in WebDataset's layout: 00000000.jpg, 00000000.cls (a number), and so
// on. __classes__, which WebDataset passes over, keeps the classes' names.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fs.h"
#include "data/convert.h"
#include "data/regrow.h"
#include "formats/tar_write.h"

typedef struct tar_sink {
    rungi_sink sink; // first
    rungi_conversion *c;
    char folder[RUNGI_PATH_MAX]; // of several archives; "" for one
    char path[RUNGI_PATH_MAX];   // of the archive under way
    rungi_regrow grow;
    bool open;
    int64_t in_shard, shards;
    uint64_t bytes;
    rungi_string png;
} tar_sink;

static rung_status put(void *user, const void *data, size_t size)
{
    return rungi_regrow_write(user, data, size);
}

static rung_status put_classes(tar_sink *s)
{
    const rung_source *source = s->c->source;
    rungi_string text = {0};
    if (!source->class_names)
        return RUNG_OK;
    for (int i = 0; i < source->class_count; i++)
        rungi_string_add(&text, "%s\n", source->class_names[i]);
    rung_status status =
        text.failed
            ? RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory for the names of its classes", s->path)
            : rungi_tar_put(put, &s->grow, "__classes__", text.data, text.size);
    rungi_string_fini(&text);
    return status;
}

static rung_status begin_shard(tar_sink *s)
{
    const rung_convert_options *o = s->c->options;
    if (*s->folder)
        RUNG_TRY(rungi_path_format(s->path, "%s/shard-%06" PRId64 ".tar", s->folder, s->shards));
    else
        RUNG_TRY(rungi_path_format(s->path, "%s.partial", o->to));
    RUNG_TRY(rungi_regrow_open(&s->grow, s->path, o->restart));
    s->open = true;
    s->in_shard = 0;
    s->shards++;
    return put_classes(s);
}

static rung_status end_shard(tar_sink *s)
{
    RUNG_TRY(rungi_tar_end(put, &s->grow));
    s->bytes += s->grow.at;
    s->open = false;
    return rungi_regrow_finish(&s->grow);
}

static rung_status add(rungi_sink *sink, const rungi_convert_sample *sample)
{
    tar_sink *s = (tar_sink *)sink;
    const void *data;
    size_t size;
    const char *end;
    char name[64], label[32];
    RUNG_TRY(rungi_convert_picture(s->c, sample, &s->png, &data, &size, &end));
    if (s->open && s->c->options->shard && s->in_shard == s->c->options->shard)
        RUNG_TRY(end_shard(s));
    if (!s->open)
        RUNG_TRY(begin_shard(s));
    snprintf(name, sizeof name, "%08" PRId64 "%s", sample->number, end);
    RUNG_TRY(rungi_tar_put(put, &s->grow, name, data, size));
    snprintf(name, sizeof name, "%08" PRId64 ".cls", sample->number);
    snprintf(label, sizeof label, "%" PRId64, rungi_convert_label(s->c, sample));
    s->in_shard++;
    return rungi_tar_put(put, &s->grow, name, label, strlen(label));
}

// Archives that an earlier call has made, but not this one.
static rung_status remove_others(const tar_sink *s)
{
    rungi_names names = {0};
    rung_status status = rungi_fs_list(s->folder, &names);
    for (size_t i = 0; i < names.count && status == RUNG_OK; i++) {
        char path[RUNGI_PATH_MAX];
        int64_t number;
        if (sscanf(names.data[i], "shard-%" SCNd64 ".tar", &number) != 1 || number < s->shards)
            continue;
        status = rungi_path_format(path, "%s/%s", s->folder, names.data[i]);
        if (status == RUNG_OK)
            status = rungi_fs_remove_tree(path);
    }
    rungi_names_fini(&names);
    return status;
}

static rung_status finish(rungi_sink *sink, uint64_t *bytes_out)
{
    tar_sink *s = (tar_sink *)sink;
    const char *to = s->c->options->to;
    RUNG_TRY(rungi_convert_tell(s->c, "checking", 0, 1));
    RUNG_TRY(end_shard(s));
    *bytes_out = s->bytes;
    if (*s->folder) {
        RUNG_TRY(remove_others(s));
        return rungi_convert_end_folder(s->c, s->folder);
    }
    RUNG_TRY(rungi_io_rename(s->path, to, NULL));
    char *folder = rungi_path_folder(to);
    RUNG_CHECK(folder, RUNG_NO_MEMORY, "%s: no memory for a path", to);
    rung_status status = rungi_io_sync_folder(folder, NULL);
    free(folder);
    return status;
}

static void destroy(rungi_sink *sink)
{
    tar_sink *s = (tar_sink *)sink;
    if (s->open)
        rungi_regrow_close(&s->grow);
    rungi_string_fini(&s->png);
    free(s);
}

rung_status rungi_sink_tar(rungi_conversion *c, rungi_sink **sink_out)
{
    RUNG_TRY(rungi_convert_check_pictures(c, "a tar archive"));
    tar_sink *s = calloc(1, sizeof *s);
    RUNG_CHECK(s, RUNG_NO_MEMORY, "%s: no memory to write it", c->options->to);
    s->c = c;
    s->sink = (rungi_sink){.add = add, .finish = finish, .destroy = destroy};
    rung_status status = c->options->shard ? rungi_convert_begin_folder(c, s->folder) : RUNG_OK;
    if (status != RUNG_OK) {
        destroy(&s->sink);
        return status;
    }
    *sink_out = &s->sink;
    return RUNG_OK;
}
