// SPDX-License-Identifier: Apache-2.0
// Options as tables: one entry per key gives type, place in a struct, default, range and help. From
// it come the YAML reader, the overrides of the command line, the dump of what was resolved, help,
// man page and completion.
//
// Each subsystem owns a struct and a table for it. Several tables are joined for one configuration:
//
//   typedef struct optim_config { double lr; char *name; } optim_config;
//   static const rungi_option optim_options[] = {
//       {.key = "optim.lr", .type = RUNGI_OPTION_REAL, RUNGI_AT(optim_config, lr),
//        .initial = "1e-3", .range = ">= 0", .help = "Learning rate."},
//       ...
//       {0},
//   };
//   static const rungi_option_table tables[] = {
//       {optim_options, offsetof(config, optim), optim_check}, ...
//   };
//   config values;
//   rungi_options options;
//   RUNG_TRY(rungi_options_init(&options, tables, RUNGI_COUNT(tables), &values));
//   RUNG_TRY(rungi_options_load(&options, "config.yaml"));
//   RUNG_TRY(rungi_options_assign(&options, "optim.lr=0.1"));
//   RUNG_TRY(rungi_options_check(&options, context));
//
// All mistakes of the user are RUNG_CONFIG and say where: "config.yaml:12: optim.lr: expected a
// number, got 'fast'", or "command line: ...".
#ifndef RUNGI_BASE_OPTIONS_H
#define RUNGI_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "rung/context.h"

// Lists as options hold them. Owned by the options that they belong to.
typedef struct rungi_texts {
    char **data;
    size_t count;
} rungi_texts;

typedef struct rungi_ints {
    int64_t *data;
    size_t count;
} rungi_ints;

typedef struct rungi_reals {
    double *data;
    size_t count;
} rungi_reals;

// Type of a value, and of the struct's field that holds it.
typedef enum rungi_option_type {
    RUNGI_OPTION_BOOL,     // bool: true, false, yes, no, on, off
    RUNGI_OPTION_INT,      // int64_t
    RUNGI_OPTION_REAL,     // double, always finite
    RUNGI_OPTION_BYTES,    // int64_t: 64MiB
    RUNGI_OPTION_DURATION, // int64_t nanoseconds: 60s
    RUNGI_OPTION_CHOICE,   // an enum: index into the choices
    RUNGI_OPTION_TEXT,     // char *, never NULL; with choices only those (and "" when the default)
    RUNGI_OPTION_TEXTS,    // rungi_texts; with choices only those
    RUNGI_OPTION_INTS,     // rungi_ints
    RUNGI_OPTION_REALS,    // rungi_reals
} rungi_option_type;

typedef enum rungi_option_field {
    RUNGI_FIELD_ENUM,
    RUNGI_FIELD_BOOL,
    RUNGI_FIELD_I64,
    RUNGI_FIELD_F64,
    RUNGI_FIELD_TEXT,
    RUNGI_FIELD_TEXTS,
    RUNGI_FIELD_INTS,
    RUNGI_FIELD_REALS,
} rungi_option_field;

// A word that stands for a number: {"auto", 0}, {"none", -1}. Outside of the range is fine.
typedef struct rungi_option_word {
    const char *word;
    int64_t value;
} rungi_option_word;

// One option. All texts are constants of the program.
typedef struct rungi_option {
    const char *key; // dotted
    rungi_option_type type;
    size_t offset; // in the table's struct; set by RUNGI_AT
    rungi_option_field field;
    const char *initial;            // default, as on the command line
    const char *range;              // ">= 0", "> 0", "[0, 1]", "[0, 1)"; of each member of a list
    const char *const *choices;     // ended by NULL
    const rungi_option_word *words; // ended by {0}; null in YAML stands for the first
    size_t length;                  // members a list must have; 0: any number
    const char *unit;               // of a bare number, for help: "steps"
    const char *flag;               // another spelling on the command line: "--quick"
    const char *help;               // a sentence or two
} rungi_option;

// The place of `member` in struct `type`, for an initializer.
#define RUNGI_AT(type, member) \
    .offset = offsetof(type, member),       \
    .field = _Generic(((type *)0)->member,  \
        bool: RUNGI_FIELD_BOOL,             \
        int64_t: RUNGI_FIELD_I64,           \
        double: RUNGI_FIELD_F64,            \
        char *: RUNGI_FIELD_TEXT,           \
        rungi_texts: RUNGI_FIELD_TEXTS,     \
        rungi_ints: RUNGI_FIELD_INTS,       \
        rungi_reals: RUNGI_FIELD_REALS,     \
        default: RUNGI_FIELD_ENUM)

#define RUNGI_COUNT(array) (sizeof(array) / sizeof *(array))

typedef struct rungi_options rungi_options;

// Checks what single ranges cannot say. `values` is the table's struct. Fails by
// rungi_options_fail; rungi_options_note tells of what is legal but has no effect.
typedef rung_status (*rungi_options_check_fn)(const rungi_options *options, const void *values,
                                              rung_context *context);

typedef struct rungi_option_table {
    const rungi_option *options;  // ended by {0}
    size_t base;                  // where the table's struct begins in the joined one
    rungi_options_check_fn check; // may be NULL
} rungi_option_table;

// Where a value came from.
typedef enum rungi_source_kind {
    RUNGI_SOURCE_DEFAULT,
    RUNGI_SOURCE_FILE,         // `file` and `line`
    RUNGI_SOURCE_COMMAND_LINE, // an override
    RUNGI_SOURCE_PROGRAM,      // set by the program
} rungi_source_kind;

typedef struct rungi_source {
    rungi_source_kind kind;
    const char *file; // owned by the options
    int line;         // from 1
} rungi_source;

typedef struct rungi_option_entry {
    const rungi_option *option;
    size_t offset; // in the joined struct
    rungi_source source;
} rungi_option_entry;

struct rungi_options {
    const rungi_option_table *tables; // borrowed
    size_t table_count;
    rungi_option_entry *entries; // of all tables
    size_t count;
    void *values; // the joined struct, borrowed; its texts and lists are owned by the options
    char **files; // names that sources refer to
    size_t file_count;
};

// Sets every option of `values` to its default. `tables` and `values` must outlive the options.
// Errors: RUNG_NO_MEMORY; RUNG_INTERNAL for a table that contradicts itself.
rung_status rungi_options_init(rungi_options *options, const rungi_option_table *tables,
                               size_t table_count, void *values);
// Frees texts and lists of the values and sets them to zero. Fine on {0}.
void rungi_options_fini(rungi_options *options);
// A second set of options with equal values and sources, held by `values`.
rung_status rungi_options_copy(rungi_options *copy, void *values, const rungi_options *options);

// Reads a YAML file. Sections nest (optim: {lr: 0.1}) or are spelled out (optim.lr: 0.1). Refused,
// with file and line: unknown and duplicate keys, wrong types, values out of range, an empty file,
// several documents, anchors, aliases, merge keys, tags. After a failure the keys before the
// mistake are set. Errors: RUNG_CONFIG; and those of rungi_fs_read.
rung_status rungi_options_load(rungi_options *options, const char *path);
// The same for text in memory; `name` stands for the file in messages.
rung_status rungi_options_load_text(rungi_options *options, const char *name, const char *text,
                                    size_t size);

// Takes an argument of the command line: "key=value", "--key=value", "--flag" and "--flag=value".
// A list is [a, b], or a, b; members may be quoted.
rung_status rungi_options_assign(rungi_options *options, const char *argument);
// Sets one key from text, as on the command line.
rung_status rungi_options_set(rungi_options *options, const char *key, const char *text,
                              rungi_source_kind source);

// Runs the check of each table.
rung_status rungi_options_check(const rungi_options *options, rung_context *context);
// For checks: fails with RUNG_CONFIG, the message led by where `key` was set and by the key.
rung_status rungi_options_fail(const rungi_options *options, const char *key, const char *fmt, ...)
    RUNG_PRINTF(3, 4);
// For checks: logs a notice about `key`. No context: nothing happens.
void rungi_options_note(const rungi_options *options, rung_context *context, const char *key,
                        const char *fmt, ...) RUNG_PRINTF(4, 5);

// Option number `index` (from 0, in table order), NULL past the end; for help, man page,
// completion.
const rungi_option *rungi_options_at(const rungi_options *options, size_t index);
// Finds a key. Errors: RUNG_CONFIG with the nearest key.
rung_status rungi_options_find(const rungi_options *options, const char *key, size_t *index_out);
// The value's place in the struct.
void *rungi_options_field(const rungi_options *options, size_t index);
// Where the value came from: "default", "config.yaml:12", "command line", "program".
void rungi_options_source(const rungi_options *options, size_t index, char *out, size_t size);

// Adds the value as text that rungi_options_set takes back.
void rungi_options_text(const rungi_options *options, size_t index, rungi_string *out);
// The value as a number: of an integer, real, size (bytes), duration (seconds) or boolean (0, 1).
// Errors: RUNG_INVALID for other types.
rung_status rungi_options_number(const rungi_options *options, size_t index, double *out);

enum {
    RUNGI_DUMP_HELP = 1,    // a comment with the help above each key
    RUNGI_DUMP_SOURCES = 2, // a comment with the source behind each value
};

// Adds all values as YAML that reads back as exactly the same.
void rungi_options_dump(const rungi_options *options, unsigned flags, rungi_string *out);

#endif
