// SPDX-License-Identifier: Apache-2.0
// The values that a run begins with.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fs.h"
#include "base/text.h"
#include "formats/checkpoint_folder.h"
#include "train/session_stages.h"

// Where the weights are read from: a file of its own, or one of a checkpoint's.
typedef struct weights {
    rung_safetensors *file;
    rung_safetensors *own;        // closed by close_weights; NULL for a checkpoint's
    rungi_checkpoint *checkpoint; // or NULL
} weights;

static rung_status open_checkpoint(const char *path, weights *w)
{
    char *in_run = rungi_path_join(path, "checkpoints/" RUNGI_CHECKPOINT_LATEST);
    RUNG_CHECK(in_run, RUNG_NO_MEMORY, "no memory for a path");
    rung_status status =
        rungi_checkpoint_open(rungi_fs_exists(in_run) ? in_run : path, true, &w->checkpoint);
    free(in_run);
    RUNG_TRY(status);
    w->file = rungi_checkpoint_tensors(w->checkpoint, RUNGI_CHECKPOINT_MODEL);
    RUNG_CHECK(w->file, RUNG_FORMAT, "%s has no " RUNGI_CHECKPOINT_MODEL,
               rungi_checkpoint_path(w->checkpoint));
    return RUNG_OK;
}

static bool is_mark(const char *path)
{
    const char *name = rungi_path_name(path);
    return strcmp(name, RUNGI_CHECKPOINT_LATEST) == 0 || strcmp(name, RUNGI_CHECKPOINT_BEST) == 0;
}

static rung_status open_weights(const char *path, weights *w)
{
    if (rungi_fs_is_folder(path) || is_mark(path))
        return open_checkpoint(path, w);
    RUNG_TRY(rung_safetensors_open(path, &w->own));
    w->file = w->own;
    return RUNG_OK;
}

static void close_weights(weights *w)
{
    rung_safetensors_close(&w->own);
    rungi_checkpoint_close(&w->checkpoint);
}

static bool excepted(const rungi_session *s, const char *name)
{
    const rungi_texts *patterns = &s->c->model.weights_except;
    for (size_t i = 0; i < patterns->count; i++)
        if (rungi_text_match(patterns->data[i], name))
            return true;
    return false;
}

static rung_status load(rungi_session *s, weights *w)
{
    size_t used = 0, kept = 0;
    for (int i = 0; i < rung_state_count(s->state); i++) {
        rung_state_entry e = rung_state_at(s->state, i);
        rung_view view = {e.dtype, e.shape, e.data};
        int64_t lost = 0;
        if (excepted(s, e.name)) {
            kept++;
            continue;
        }
        rung_status status = rung_safetensors_load(w->file, e.name, &view, &lost);
        if (status == RUNG_NOT_FOUND || status == RUNG_MISMATCH)
            return RUNG_FAIL(status,
                             "model.weights: %s; leave it out with model.weights_except=[%s]",
                             rung_error_last()->message, e.name);
        RUNG_TRY(status);
        if (lost)
            rungi_log(s->context, RUNG_LOG_WARNING,
                      "model.weights: %s: %lld values do not fit into float32", e.name,
                      (long long)lost);
        used++;
    }
    rungi_log(
        s->context, RUNG_LOG_NOTICE,
        "%zu tensors start from %s; %zu keep their initial values, %zu of the file are not used",
        used, s->c->model.weights, kept, rung_safetensors_count(w->file) - used);
    return RUNG_OK;
}

static rung_status check_patterns(const rungi_session *s)
{
    const rungi_texts *patterns = &s->c->model.weights_except;
    for (size_t k = 0; k < patterns->count; k++) {
        bool matches = false;
        const rung_graph *g = rungi_session_whole(s);
        for (size_t i = 1; i < g->values.count && !matches; i++)
            matches = (g->values.data[i].kind == RUNGI_VALUE_PARAM ||
                       g->values.data[i].kind == RUNGI_VALUE_BUFFER) &&
                      rungi_text_match(patterns->data[k], g->values.data[i].name);
        RUNG_CHECK(matches, RUNG_CONFIG, "model.weights_except: no tensor of %s matches '%s'",
                   s->c->model.name, patterns->data[k]);
    }
    return RUNG_OK;
}

rung_status rungi_session_begin(rungi_session *s)
{
    weights w = {0};
    RUNG_TRY(rung_state_init(s->state, (uint64_t)s->c->seed));
    if (!*s->c->model.weights)
        return RUNG_OK;
    RUNG_TRY(check_patterns(s));
    rung_status status = open_weights(s->c->model.weights, &w);
    if (status == RUNG_OK)
        status = load(s, &w);
    close_weights(&w);
    return status;
}
