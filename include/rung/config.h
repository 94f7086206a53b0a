// SPDX-License-Identifier: Apache-2.0
// The configuration of a run: keys such as optim.lr with values from defaults, YAML files and the
// command line. `rung train --help` lists all keys; so do the functions at the end of this page.
//
//   rung_config *config;
//   rung_config_create(context, &config);
//   rung_config_load(config, "fashion-mnist.yaml");
//   rung_config_override(config, "optim.lr=0.1");
//   rung_config_check(config);
//
// Mistakes are RUNG_CONFIG, with a message that says where: "fashion-mnist.yaml:12: unknown key
// 'optim.lrr' (did you mean 'optim.lr'?)", "command line: optim.lr: expected a number, got 'fast'".
#ifndef RUNG_CONFIG_H
#define RUNG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "rung/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rung_config rung_config;

// Makes a configuration that holds every key's default. The caller owns it and destroys it before
// the context, which receives notices about settings without effect and may be NULL.
// Errors: RUNG_NO_MEMORY.
RUNG_API rung_status rung_config_create(rung_context *context, rung_config **config_out);
// Frees *config and sets it to NULL. NULL and pointers to NULL are accepted.
RUNG_API void rung_config_destroy(rung_config **config);
// A second configuration with equal values and sources; the caller owns it.
RUNG_API rung_status rung_config_copy(const rung_config *config, rung_config **copy_out);

// Reads a YAML file of at most 1 MiB over what is set. Sections nest (optim: {lr: 0.1}) or are
// spelled out (optim.lr: 0.1). Booleans are true, false, yes, no, on, off; sizes 64MiB, durations
// 60s; null stands for a key's own word for nothing ("none", "auto"). Refused: unknown keys, keys
// given twice, other types, values out of range, empty files, several documents, anchors, aliases,
// merge keys and tags. After a failure the keys before the mistake are set.
// Errors: RUNG_CONFIG; RUNG_NOT_FOUND, RUNG_IO; RUNG_FORMAT when it is larger.
RUNG_API rung_status rung_config_load(rung_config *config, const char *path);
// The same for `size` bytes in memory; `name` stands for the file in messages. All are copied.
RUNG_API rung_status rung_config_load_text(rung_config *config, const char *name, const char *text,
                                           size_t size);

// Takes an argument of a command line: "key=value", "--key=value", "--flag". Lists are [a, b].
RUNG_API rung_status rung_config_override(rung_config *config, const char *argument);
// Sets one key from text, written as on the command line.
RUNG_API rung_status rung_config_set(rung_config *config, const char *key, const char *text);

// Checks what single keys cannot say (nesterov needs momentum). The first mistake fails; settings
// without effect are told to the context's log as notices.
RUNG_API rung_status rung_config_check(const rung_config *config);

// The value of a key as text that rung_config_set takes back. Freed with free().
RUNG_API rung_status rung_config_text(const rung_config *config, const char *key, char **text_out);
// The value of an integer, number, size (in bytes), duration (in seconds) or boolean (0 or 1).
// Errors: RUNG_INVALID for other types.
RUNG_API rung_status rung_config_number(const rung_config *config, const char *key,
                                        double *number_out);
// Where the value came from: "default", "config.yaml:12", "command line", "program". Freed with
// free().
RUNG_API rung_status rung_config_source(const rung_config *config, const char *key,
                                        char **source_out);

// The cap on instruction sets (device.isa), for the options of the context that the run is made in.
RUNG_API rung_isa rung_config_isa(const rung_config *config);

enum {
    RUNG_CONFIG_HELP = 1,    // a comment with the help above each key
    RUNG_CONFIG_SOURCES = 2, // a comment with the source behind each value
};

// All keys as YAML that reads back as exactly the same values. `flags` is a sum of the constants
// above. Freed with free().
RUNG_API rung_status rung_config_dump(const rung_config *config, unsigned flags, char **yaml_out);
// Writes the same to a file, whole or not at all. Errors: RUNG_NOT_FOUND, RUNG_IO.
RUNG_API rung_status rung_config_save(const rung_config *config, unsigned flags, const char *path);

// What is known of a key, for help, manual pages and completion. All texts are constants.
typedef struct rung_config_key {
    const char *key;            // "optim.lr"
    const char *type;           // "number", "list of integers", "one of", ...
    const char *initial;        // default, as on the command line
    const char *range;          // ">= 0", "[0, 1)"; NULL: any
    const char *unit;           // of a bare number: "steps"; NULL: none
    const char *flag;           // another spelling on the command line: "--quick"; NULL: none
    const char *help;           // a sentence or two
    const char *const *choices; // ended by NULL; NULL: any
    bool boolean;               // "--key" alone means true
} rung_config_key;

// Describes key number `index` (from 0, in the order of a dump). False past the last.
RUNG_API bool rung_config_describe(size_t index, rung_config_key *key_out);
// The words that key number `index` takes besides numbers ("auto"): word number `word`, NULL past
// the last.
RUNG_API const char *rung_config_word(size_t index, size_t word);

// The name nearest to `wanted` of `count` names; NULL when none is near enough to propose. For
// messages: "did you mean ...?". Borrowed from `names`.
RUNG_API const char *rung_nearest_name(const char *wanted, const char *const *names, size_t count);

#ifdef __cplusplus
}
#endif

#endif
