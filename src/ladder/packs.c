// SPDX-License-Identifier: Apache-2.0
// The rungs pack, pack_rows and pack_raw. The data set is converted once, into a folder of the run,
// and its pack is then measured as any other setting.
//
// A pack of pictures holds the files as they are: each sample keeps its number, its bytes and its
// name, so training gives the same bits; so it does with JPEGs that are rewritten with restart
// markers, which hold the same coefficients. A pack of raw pixels holds pictures that were decoded
// and resized before. Where training begins with the same resizing (data.resize [H, W], or [S] with
// data.center_crop [S]) that too gives the same bits. Where it cuts at random parts of the pictures
// as they are (data.random_resized_crop), the pack has them as validation sees them, the shorter
// side 8/7 of the crop and the middle cut out: other pixels, finer detail lost, the sides gone.
// Rounding is not what differs, so the rung is semantic: shown, never kept.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/context.h"
#include "base/cores.h"
#include "base/error.h"
#include "base/file_io.h"
#include "base/fs.h"
#include "ladder/climb.h"
#include "rung/convert.h"

// ---- raw pixels

typedef struct raw_size {
    int height, width;
    bool crop; // the middle, of pictures whose aspect is kept
} raw_size;

static bool is_square(const rungi_ints *size, int64_t side)
{
    return size->count && size->data[0] == side && size->data[size->count - 1] == side;
}

static bool find_size(const rungi_data_config *d, raw_size *out, rungi_effect *effect)
{
    *effect = RUNGI_EXACT;
    if (d->random_resized_size.count) {
        const rungi_ints *size = &d->random_resized_size;
        int64_t first = size->data[0], last = size->data[size->count - 1];
        int side = (int)lround((double)(first > last ? first : last) * 8 / 7);
        *out = (raw_size){side, side, true};
        *effect = RUNGI_SEMANTIC;
        return true;
    }
    if (d->resize.count == 2) {
        *out = (raw_size){(int)d->resize.data[0], (int)d->resize.data[1], false};
        return true;
    }
    if (d->resize.count == 1 && is_square(&d->center_crop, d->resize.data[0]) &&
        !d->random_crop_size.count) {
        int side = (int)d->resize.data[0];
        *out = (raw_size){side, side, true};
        return true;
    }
    return false;
}

rungi_effect rungi_pack_raw_effect(const rungi_train_config *c)
{
    raw_size size;
    rungi_effect effect;
    return find_size(&c->data, &size, &effect) ? effect : RUNGI_SEMANTIC;
}

bool rungi_pack_raw_possible(const rungi_train_config *c)
{
    raw_size size;
    rungi_effect effect;
    return find_size(&c->data, &size, &effect);
}

// ---- converting

typedef struct work {
    rungi_climb *k;
    const char *name; // of the rung
    char to[RUNGI_PATH_MAX];
    uint64_t spent, limit; // bytes
    bool too_large;
} work;

static uint64_t size_of(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (uint64_t)info.st_size : 0;
}

// Stops what will become larger than is allowed: judged by what the first samples took.
static bool on_progress(void *user, const char *stage, int64_t done, int64_t total)
{
    work *w = user;
    char partial[RUNGI_PATH_MAX + 8];
    rungi_climb_tell(w->k, "%s: %s %s: %" PRId64 " of %" PRId64, w->name, stage, w->to, done,
                     total);
    if (done <= 0 || strcmp(stage, "writing") != 0)
        return true;
    snprintf(partial, sizeof partial, "%s.partial", w->to);
    double seen = (double)size_of(partial), whole = seen * (double)total / (double)done;
    w->too_large = (double)w->spent + (done * 20 < total ? seen : whole) > (double)w->limit;
    return !w->too_large;
}

static rung_status convert_part(work *w, const char *folder, const char *part, const char *from,
                                const char *split, rungi_packing packing)
{
    const rungi_data_config *d = &w->k->c->data;
    rung_convert_report report;
    int cores = rungi_core_count();
    RUNG_TRY(rungi_path_format(w->to, "%s/%s.pack", folder, part));
    rung_convert_options o = {.from = from,
                              .format = d->format,
                              .split = split,
                              .to = w->to,
                              .kind = RUNG_CONVERT_PACK,
                              .num_workers = cores > 1 ? cores : 0,
                              .jpeg_rows = packing == RUNGI_PACKING_ROWS,
                              .progress = on_progress,
                              .progress_user = w};
    if (packing == RUNGI_PACKING_RAW) {
        raw_size size;
        rungi_effect effect;
        find_size(d, &size, &effect);
        o.height = size.height;
        o.width = size.width;
        o.crop = size.crop;
        o.channels = (int)d->channels;
        o.filter = d->interpolation;
        o.keep_orientation = !d->exif_rotation;
    }
    rung_status status = rung_convert_data(w->k->context, &o, &report);
    w->spent += status == RUNG_OK ? report.bytes : 0;
    if (!w->too_large && w->spent <= w->limit)
        return status;
    char limit[32];
    return RUNG_FAIL(RUNG_UNSUPPORTED, "the pack would be larger than ladder.pack_limit (%s)",
                     rungi_text_bytes(w->limit, limit, sizeof limit));
}

// Adds `text` to a setting as (a part of) one word.
static void add_word_text(char *setting, size_t size, const char *text)
{
    size_t used = strlen(setting);
    for (; *text && used + 3 < size; text++) {
        if (*text == ' ' || *text == '\\')
            setting[used++] = '\\';
        setting[used++] = *text;
    }
    setting[used] = '\0';
}

// Validation is converted too where the best configuration may come to need it.
static rung_status convert(work *w, const char *folder, rungi_packing packing, char *setting,
                           size_t size)
{
    const rungi_data_config *d = &w->k->c->data;
    bool own = *d->val_path != '\0';
    bool kept = packing != RUNGI_PACKING_RAW || rungi_pack_raw_effect(w->k->c) != RUNGI_SEMANTIC;
    RUNG_CHECK(4 * strlen(folder) + 128 < size, RUNG_INVALID,
               "%s: the name of the run folder is too long", folder);
    RUNG_TRY(rungi_fs_make_folders(folder));
    RUNG_TRY(convert_part(w, folder, "train", d->path, "train", packing));
    snprintf(setting, size, "data.format=pack data.path=");
    add_word_text(setting, size, folder);
    if (d->val_split > 0 || !kept)
        return RUNG_OK;
    RUNG_TRY(
        convert_part(w, folder, "val", own ? d->val_path : d->path, own ? "all" : "test", packing));
    if (!own)
        return RUNG_OK;
    snprintf(setting + strlen(setting), size - strlen(setting), " data.val.path=");
    add_word_text(setting, size, w->to);
    return RUNG_OK;
}

static void folder_of(const rungi_climb *k, const rungi_rung *rung, char out[4200])
{
    snprintf(out, 4200, "%s/%s", k->o->run, rung->name);
}

rung_status rungi_climb_pack(rungi_climb *k, const rungi_rung *rung, char *setting, size_t size)
{
    char folder[4200], bytes[32], line[RUNG_LADDER_TEXT];
    work w = {.k = k, .name = rung->name, .limit = (uint64_t)k->c->ladder.pack_limit};
    folder_of(k, rung, folder);
    int64_t began = rungi_now(k->context);
    RUNG_TRY(convert(&w, folder, rung->packing, setting, size));
    snprintf(line, sizeof line, "%s: %s converted in %.1f s", rung->name,
             rungi_text_bytes(w.spent, bytes, sizeof bytes),
             (double)(rungi_now(k->context) - began) * 1e-9);
    if (k->o->observer && k->o->observer->notice)
        k->o->observer->notice(k->o->observer->user, line);
    return RUNG_OK;
}

void rungi_climb_unpack(const rungi_climb *k, const rungi_rung *rung)
{
    char folder[4200];
    folder_of(k, rung, folder);
    if (rungi_fs_remove_tree(folder) != RUNG_OK)
        rungi_log(k->context, RUNG_LOG_WARNING, "%s", rung_error_last()->message);
}
