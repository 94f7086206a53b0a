// SPDX-License-Identifier: Apache-2.0
#include "data/known_sets.h"

#include <ctype.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

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

static bool fits(const rungi_known_split *split, const rungi_known_files *files)
{
    return split->images == files->images || split->labels == files->labels;
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

rung_status rungi_known_set_check(rung_context *context, const char *name,
                                  const rungi_known_files *files, const rungi_known_set **set_out)
{
    const rungi_known_set *set = NULL;
    const char *names[SETS];
    for (int i = 0; i < SETS; i++) {
        names[i] = sets[i].name;
        if (name ? strcmp(name, names[i]) == 0
                 : fits(&sets[i].train, files) || fits(&sets[i].test, files) ||
                       path_names(files->images_path, names[i]))
            set = &sets[i];
    }
    if (name && !set) {
        const char *nearest = rungi_text_nearest(name, names, SETS);
        return RUNG_FAIL(RUNG_CONFIG, "no known data set is called %s%s%s", name,
                         nearest ? ", did you mean " : "", nearest ? nearest : "");
    }
    if (set) {
        bool test = fits(&set->test, files) ||
                    (!fits(&set->train, files) && files->count == set->test.count);
        const rungi_known_split *split = test ? &set->test : &set->train;
        compare(context, set->name, files->images_path, split->images, files->images);
        compare(context, set->name, files->labels_path, split->labels, files->labels);
    }
    *set_out = set;
    return RUNG_OK;
}
