// SPDX-License-Identifier: Apache-2.0
// A pull scanner for JSON (RFC 8259) that holds one token at a time, for texts that are hostile or
// too large for a tree: tensor file headers, traces. Whoever wants a tree takes jansson.
//
// Strict: UTF-8 checked, no trailing commas, no control characters in strings, no lone surrogates,
// nothing but white space after the value. Names of members may repeat: the caller decides.
//
//   rungi_json_scan scan = {.read = ..., .user = ..., .what = path};
//   for (;;) {
//       rungi_json_token token;
//       RUNG_TRY_GOTO(done, rungi_json_next(&scan, &token));
//       if (token == RUNGI_JSON_END) break;
//       ...
//   }
//   done: rungi_json_scan_fini(&scan);
#ifndef RUNGI_FORMATS_JSON_SCAN_H
#define RUNGI_FORMATS_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rung/status.h"

typedef enum rungi_json_token {
    RUNGI_JSON_END, // the value is complete and only white space followed it
    RUNGI_JSON_OBJECT_BEGIN,
    RUNGI_JSON_OBJECT_END,
    RUNGI_JSON_ARRAY_BEGIN,
    RUNGI_JSON_ARRAY_END,
    RUNGI_JSON_KEY, // `text` is the member's name; its value is the next token
    RUNGI_JSON_STRING,
    RUNGI_JSON_NUMBER, // `text` is the number as written
    RUNGI_JSON_TRUE,
    RUNGI_JSON_FALSE,
    RUNGI_JSON_NULL,
} rungi_json_token;

// Fills `buffer` with up to `size` bytes; *got_out = 0 means the end of the text.
typedef rung_status (*rungi_json_read_fn)(void *user, char *buffer, size_t size, size_t *got_out);

enum { RUNGI_JSON_DEPTH_MAX = 64, RUNGI_JSON_WINDOW = 16384 };

typedef struct rungi_json_scan {
    // Set by the caller.
    rungi_json_read_fn read;
    void *user;
    const char *what; // begins every message; borrowed
    int max_depth;    // of nested arrays and objects; 0: RUNGI_JSON_DEPTH_MAX, the most
    size_t max_text;  // bytes of one string; 0: 1 MiB
    // Text of the last KEY, STRING or NUMBER: decoded, ended by a NUL that text_size leaves out.
    // Strings may hold NULs of their own. Valid until the next call.
    char *text;
    size_t text_size;
    // Private.
    size_t text_capacity;
    uint64_t consumed; // bytes before the window
    size_t at, end;    // in the window
    int depth;
    int state;
    bool finished; // read has told the end
    bool in_array[RUNGI_JSON_DEPTH_MAX];
    char window[RUNGI_JSON_WINDOW];
} rungi_json_scan;

// The next token. Errors: RUNG_FORMAT with the byte's number, RUNG_NO_MEMORY, those of `read`.
rung_status rungi_json_next(rungi_json_scan *scan, rungi_json_token *token_out);

// Skips one whole value (the next one).
rung_status rungi_json_skip(rungi_json_scan *scan);

void rungi_json_scan_fini(rungi_json_scan *scan);

// Reads from memory: `user` is a rungi_json_memory.
typedef struct rungi_json_memory {
    const char *data;
    size_t size;
} rungi_json_memory;
rung_status rungi_json_read_memory(void *user, char *buffer, size_t size, size_t *got_out);

// Are these bytes valid UTF-8 (RFC 3629)?
bool rungi_utf8_valid(const char *data, size_t size);

#endif
