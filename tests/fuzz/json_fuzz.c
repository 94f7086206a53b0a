// SPDX-License-Identifier: Apache-2.0
// Any bytes: tokens that nest properly, or a refusal. The verdict does not depend on how the text
// is cut into reads.
#include "formats/json_scan.h"
#include "fuzz.h"

static rung_status read_bytes(void *user, char *buffer, size_t size, size_t *got_out)
{
    return rungi_json_read_memory(user, buffer, size < 3 ? size : 3, got_out);
}

static rung_status scan_all(rungi_json_read_fn read, const uint8_t *data, size_t size)
{
    static rungi_json_scan scan;
    rungi_json_memory memory = {(const char *)data, size};
    scan = (rungi_json_scan){.read = read, .user = &memory, .what = "fuzz", .max_text = 1 << 16};
    int depth = 0;
    rungi_json_token token = RUNGI_JSON_NULL;
    rung_status status = RUNG_OK;
    while (token != RUNGI_JSON_END && (status = rungi_json_next(&scan, &token)) == RUNG_OK) {
        depth += token == RUNGI_JSON_OBJECT_BEGIN || token == RUNGI_JSON_ARRAY_BEGIN;
        depth -= token == RUNGI_JSON_OBJECT_END || token == RUNGI_JSON_ARRAY_END;
        FUZZ_CHECK(depth >= 0 && depth <= RUNGI_JSON_DEPTH_MAX);
        if (token == RUNGI_JSON_STRING || token == RUNGI_JSON_KEY)
            FUZZ_CHECK(rungi_utf8_valid(scan.text, scan.text_size) && !scan.text[scan.text_size]);
    }
    FUZZ_CHECK(status != RUNG_OK || depth == 0);
    rungi_json_scan_fini(&scan);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rung_status status = scan_all(rungi_json_read_memory, data, size);
    if (status != RUNG_OK)
        fuzz_check_refusal(status);
    FUZZ_CHECK(scan_all(read_bytes, data, size) == status);
    return 0;
}
