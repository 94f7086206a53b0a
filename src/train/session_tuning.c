// SPDX-License-Identifier: Apache-2.0
// Measured choices of kernels: a run keeps its own (tuning.json in its folder), each machine has a
// file of what was measured on it.
#include <stdlib.h>

#include "base/context.h"
#include "base/error.h"
#include "base/fs.h"
#include "train/session.h"

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
    int measured;
    if (!s->tuning || !s->tuning_path || rung_tuning_count(s->tuning, &measured) == 0 || !measured)
        return;
    char *folder = rungi_path_folder(s->tuning_path);
    if (!folder || rungi_fs_make_folders(folder) != RUNG_OK ||
        rung_tuning_save(s->tuning, s->tuning_path) != RUNG_OK)
        rungi_log(s->context, RUNG_LOG_NOTICE, "measured kernels are not kept: %s",
                  rung_error_last()->message);
    free(folder);
}
