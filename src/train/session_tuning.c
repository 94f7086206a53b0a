// SPDX-License-Identifier: Apache-2.0
// Measured choices of kernels: a run keeps its own (tuning.json in its folder), each machine has a
// file of what was measured on it.
//
// Of several ranks one measures at a time, while the others wait, so that the cores are quiet: rank
// 0, which has read the files, first; the others what is not known then (they may have other layers
// or other sizes). What was chosen is given to all, so that replicas run the same kernels, and
// nothing is measured afterwards. The plans that will occur are known before the first step
// (engine_memory.h).
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/error.h"
#include "base/fs.h"
#include "graph/tune.h"
#include "train/fit.h"

// $XDG_CACHE_HOME/rung/tuning.json or ~/.cache/rung/tuning.json; NULL when there is no home.
static char *cache_path(void)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && *cache)
        return rungi_text_format("%s/rung/tuning.json", cache);
    return home && *home ? rungi_text_format("%s/.cache/rung/tuning.json", home) : NULL;
}

rung_status rungi_session_open_tuning(rungi_session *s, const char *run_file)
{
    RUNG_TRY(rung_tuning_create(&s->tuning));
    if (s->rank) // rank 0 reads, keeps and tells
        return RUNG_OK;
    if (run_file)
        RUNG_TRY(rung_tuning_load(s->tuning, run_file, false));
    s->tuning_path = cache_path();
    // A damaged cache is no reason not to train: what it held is measured again.
    if (s->tuning_path && rung_tuning_load(s->tuning, s->tuning_path, true) != RUNG_OK)
        rungi_log(s->context, RUNG_LOG_WARNING, "%s; kernels are measured anew",
                  rung_error_last()->message);
    return RUNG_OK;
}

void rungi_session_keep_tuning(rungi_session *s)
{
    if (!s->tuning || !s->tuning_path || !rungi_tuning_grew(s->tuning))
        return;
    char *folder = rungi_path_folder(s->tuning_path);
    if (!folder || rungi_fs_make_folders(folder) != RUNG_OK ||
        rung_tuning_save(s->tuning, s->tuning_path) != RUNG_OK)
        rungi_log(s->context, RUNG_LOG_NOTICE, "measured kernels are not kept: %s",
                  rung_error_last()->message);
    free(folder);
}

// ---- several ranks ----------------------------------------------------------------------------

// What rank `root` has to say, `text`, comes to all the others and into their tables.
static rung_status share(rungi_session *s, int root, bool used, const char *label)
{
    rungi_string text = {0};
    uint64_t bytes = 0;
    if (s->rank == root) {
        rungi_tuning_give(s->tuning, used, &text);
        rungi_string_add(&text, "%s", "");
        bytes = text.size + 1;
    }
    char *data = NULL;
    rung_status status = text.failed ? RUNG_FAIL(RUNG_NO_MEMORY, "no memory for tuning") : RUNG_OK;
    if (status == RUNG_OK)
        status = rungi_comm_broadcast(s->comm, &bytes, sizeof bytes, root, label);
    if (status == RUNG_OK) {
        data = calloc(1, bytes);
        if (!data)
            status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for tuning");
    }
    if (status == RUNG_OK && s->rank == root)
        memcpy(data, rungi_string_text(&text), bytes);
    if (status == RUNG_OK)
        status = rungi_comm_broadcast(s->comm, data, bytes, root, label);
    if (status == RUNG_OK && s->rank != root)
        status = rungi_tuning_take(s->tuning, data, used);
    free(data);
    rungi_string_fini(&text);
    return status;
}

// Looks at all plans that will occur, which chooses their kernels.
static rung_status choose_own(rungi_session *s)
{
    rungi_fit_what what = rungi_fit_configured(s, RUNG_FIT_KEEP);
    rungi_fit_prediction unused;
    rungi_comm_busy(s->comm, "measuring kernels");
    rung_status status = rungi_fit_predict_fullest(s, rungi_session_batch(s), &what, &unused, NULL);
    rungi_comm_busy(s->comm, NULL);
    return status;
}

rung_status rungi_session_share_tuning(rungi_session *s)
{
    if (!s->tuning || !s->comm)
        return RUNG_OK;
    RUNG_TRY(share(s, 0, false, "kernels chosen before"));
    for (int r = 0; r < s->ranks; r++) {
        if (r == s->rank)
            RUNG_TRY(choose_own(s));
        RUNG_TRY(share(s, r, true, "chosen kernels"));
    }
    rungi_tuning_freeze(s->tuning);
    return RUNG_OK;
}
