// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/error.h"
#include "base/options_inside.h"

bool rungi_options_index(const rungi_options *options, const char *key, size_t *index_out)
{
    for (size_t i = 0; i < options->count; i++) {
        if (strcmp(rungi_options_at(options, i)->key, key) == 0) {
            *index_out = i;
            return true;
        }
    }
    return false;
}

static bool in_section(const char *key, const char *section, size_t length)
{
    return strncmp(key, section, length) == 0 && key[length] == '.';
}

const char *rungi_options_in_section(const rungi_options *options, const char *name)
{
    for (size_t i = 0; i < options->count; i++)
        if (in_section(rungi_options_at(options, i)->key, name, strlen(name)))
            return rungi_options_at(options, i)->key;
    return NULL;
}

static const char *last_part(const char *key)
{
    const char *dot = strrchr(key, '.');
    return dot ? dot + 1 : key;
}

// All keys, and behind them all sections. False when out of memory.
static bool add_candidates(const rungi_options *options, rungi_raw *names)
{
    bool ok = true;
    for (size_t i = 0; i < options->count && ok; i++) {
        const char *key = rungi_options_at(options, i)->key;
        ok = rungi_raw_add(names, key, strlen(key));
    }
    for (size_t i = 0; i < options->count; i++) {
        const char *key = rungi_options_at(options, i)->key;
        for (const char *dot = key; ok && (dot = strchr(dot, '.')); dot++)
            ok = rungi_raw_add(names, key, (size_t)(dot - key));
    }
    return ok;
}

// The nearest key or section; else a key whose last part is the one that was given, as `lr` alone
// or under another section. Borrowed from `names`.
static const char *nearest_name(const rungi_raw *names, const char *key)
{
    const char *nearest = rungi_text_nearest(key, (const char *const *)names->data, names->count);
    for (size_t i = 0; !nearest && i < names->count; i++)
        if (strcmp(last_part(names->data[i]), last_part(key)) == 0)
            nearest = names->data[i];
    return nearest;
}

// Lists what could have been meant: the keys of the section, or the sections and keys at the top.
static void add_names(const rungi_options *options, const char *key, rungi_string *out)
{
    const char *dot = strchr(key, '.');
    size_t length = dot ? (size_t)(dot - key) : 0;
    bool known = false;
    for (size_t i = 0; i < options->count && dot; i++)
        known |= in_section(rungi_options_at(options, i)->key, key, length);
    const char *before = "";
    rungi_string_add(out, known ? " (keys of '%.*s': " : " (keys and sections: ", (int)length, key);
    for (size_t i = 0, count = 0; i < options->count; i++) {
        const char *name = rungi_options_at(options, i)->key;
        size_t shown = known ? strlen(name) : strcspn(name, ".");
        if (known ? !in_section(name, key, length)
                  : strncmp(before, name, shown) == 0 && before[shown] == '.')
            continue;
        before = name;
        rungi_string_add(out, "%s", count++ ? ", " : "");
        rungi_string_append(out, name + (known ? length + 1 : 0), shown - (known ? length + 1 : 0));
    }
    rungi_string_append(out, ")", 1);
}

rung_status rungi_options_look_up(const rungi_options *options, const char *where, const char *key,
                                  size_t *index_out)
{
    if (rungi_options_index(options, key, index_out))
        return RUNG_OK;
    const char *inner = rungi_options_in_section(options, key);
    RUNG_CHECK(!inner, RUNG_CONFIG, "%s'%s' is a section: set its keys, such as '%s'", where, key,
               inner);
    rungi_raw names = {0};
    if (!add_candidates(options, &names)) {
        rungi_raw_fini(&names);
        return RUNG_FAIL(RUNG_NO_MEMORY, "%sout of memory", where);
    }
    const char *nearest = nearest_name(&names, key);
    rungi_string hint = {0};
    if (nearest)
        rungi_string_add(&hint, " (did you mean '%s'?)", nearest);
    else
        add_names(options, key, &hint);
    rung_status status =
        RUNG_FAIL(RUNG_CONFIG, "%sunknown key '%.80s'%s", where, key, rungi_string_text(&hint));
    rungi_string_fini(&hint);
    rungi_raw_fini(&names);
    return status;
}

rung_status rungi_options_find(const rungi_options *options, const char *key, size_t *index_out)
{
    return rungi_options_look_up(options, "", key, index_out);
}
