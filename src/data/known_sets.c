// SPDX-License-Identifier: Apache-2.0
#include "data/known_sets.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/context.h"
#include "base/error.h"
#include "base/text.h"

static const rungi_known_set sets[] = {
    // Files of Debian's dataset-fashion-mnist 0.0~git20200523.55506a9-1, which are those of
    // github.com/zalandoresearch/fashion-mnist (class names: its README).
    {.name = "fashion-mnist",
     .train = {0xca72265d7c26283b, 0x775518db990ebf87, 60000},
     .test = {0xa60baf710224b311, 0x20515cb4512a5b03, 10000},
     .class_names = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt",
                     "Sneaker", "Bag", "Ankle boot"}},
};
enum { SETS = sizeof sets / sizeof *sets };

// Does `path` contain `name`, letters and digits only, small or capital?
static bool path_names(const char *path, const char *name)
{
    for (; *path; path++) {
        const char *p = path, *n = name;
        for (;;) {
            while (*n && !isalnum((unsigned char)*n))
                n++;
            while (n != name && *p && *p != '/' && !isalnum((unsigned char)*p))
                p++;
            if (!*n)
                return true;
            if (tolower((unsigned char)*p) != tolower((unsigned char)*n))
                break;
            p++;
            n++;
        }
    }
    return false;
}

static void compare(rung_context *context, const char *set, const char *path, uint64_t expected,
                    uint64_t found)
{
    if (expected != found)
        rungi_log(context, RUNG_LOG_WARNING,
                  "%s: is not the file of %s: expected XXH3 checksum %016" PRIx64
                  ", found %016" PRIx64 " (changed or damaged?)",
                  path, set, expected, found);
}

rung_status rungi_known_set_find(const char *name, const rungi_known_files *files,
                                 const rungi_known_set **set_out)
{
    const char *names[SETS];
    *set_out = NULL;
    for (int i = 0; i < SETS; i++) {
        names[i] = sets[i].name;
        if (name ? strcmp(name, names[i]) == 0
                 : sets[i].train.labels == files->labels || sets[i].test.labels == files->labels ||
                       path_names(files->images_path, names[i]))
            *set_out = &sets[i];
    }
    if (!name || *set_out)
        return RUNG_OK;
    const char *nearest = rungi_text_nearest(name, names, SETS);
    return RUNG_FAIL(RUNG_CONFIG, "no known data set is called %s%s%s", name,
                     nearest ? ", did you mean " : "", nearest ? nearest : "");
}

bool rungi_known_set_count(int64_t count)
{
    for (int i = 0; i < SETS; i++)
        if (count == sets[i].train.count || count == sets[i].test.count)
            return true;
    return false;
}

static bool fits(const rungi_known_split *split, const rungi_known_files *files)
{
    return split->images == files->images || split->labels == files->labels;
}

static void verify(rung_context *context, const rungi_known_set *set,
                   const rungi_known_files *files)
{
    for (int i = 0; i < SETS && !set; i++)
        if (sets[i].train.images == files->images || sets[i].test.images == files->images)
            set = &sets[i];
    if (!set)
        return;
    bool test =
        fits(&set->test, files) || (!fits(&set->train, files) && files->count == set->test.count);
    const rungi_known_split *split = test ? &set->test : &set->train;
    compare(context, set->name, files->images_path, split->images, files->images);
    compare(context, set->name, files->labels_path, split->labels, files->labels);
}

// ---- beside what follows ----------------------------------------------------------------------

typedef struct verifying {
    rung_context *context;
    const rungi_known_set *set;
    rungi_known_files files; // whose paths are these
    char images_path[PATH_MAX], labels_path[PATH_MAX];
    const void *images;
    size_t size;
} verifying;

static rung_status run(void *arg)
{
    verifying *v = arg;
    v->files.images_path = v->images_path;
    v->files.labels_path = v->labels_path;
    v->files.images = XXH3_64bits(v->images, v->size);
    verify(v->context, v->set, &v->files);
    return RUNG_OK;
}

rung_status rungi_known_set_later(rung_context *context, const rungi_known_set *set,
                                  const rungi_known_files *files, const void *images, size_t size,
                                  rungi_memory_source *memory)
{
    verifying *v = malloc(sizeof *v);
    RUNG_CHECK(v, RUNG_NO_MEMORY, "%s: no memory to verify it", files->images_path);
    *v = (verifying){
        .context = context, .set = set, .files = *files, .images = images, .size = size};
    snprintf(v->images_path, sizeof v->images_path, "%s", files->images_path);
    snprintf(v->labels_path, sizeof v->labels_path, "%s", files->labels_path);
    rungi_memory_source_later(memory, run, v);
    return RUNG_OK;
}
