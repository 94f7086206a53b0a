// SPDX-License-Identifier: Apache-2.0
#include "testing.h"

#include <yaml.h>

#include "rung/env.h"

static rung_context *make_context(void)
{
    rung_context *context = NULL;
    assert_ok(rung_context_create(NULL, &context));
    return context;
}

static void names_what_a_report_needs(void **state)
{
    (void)state;
    static const char *const names[] = {
        "rung: ",   "compiler: ", "build: ",    "instruction set: ", "kernel: ",  "cores: ",
        "memory: ", "oneDNN: ",   "OpenBLAS: ", "OpenMP: ",          "libyaml: ", "jansson: "};
    rung_context *context = make_context();
    char *text = NULL;
    rung_error_clear();
    assert_ok(rung_env_text(context, &text));
    assert_int_equal(rung_error_last()->status, RUNG_OK);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *at = strstr(text, names[i]);
        if (!at || (at != text && at[-1] != '\n'))
            fail_msg("no line '%s' in:\n%s", names[i], text);
    }
    free(text);
    rung_context_destroy(&context);
}

// libyaml takes every line for a key and a value, whatever the environment holds.
static void is_yaml(void **state)
{
    (void)state;
    static const char odd[] = "a: b # \"c\" 'd' \xff\n- [x";
    setenv("OMP_PLACES", odd, 1);
    setenv("DNNL_VERBOSE", "", 1);
    rung_context *context = make_context();
    char *text = NULL;
    assert_ok(rung_env_text(context, &text));
    assert_non_null(strstr(text, "\nDNNL_VERBOSE: set to nothing\n"));
    yaml_parser_t parser;
    yaml_document_t document;
    assert_int_equal(yaml_parser_initialize(&parser), 1);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, strlen(text));
    if (!yaml_parser_load(&parser, &document))
        fail_msg("%s: %s", parser.problem, text);
    yaml_node_t *root = yaml_document_get_root_node(&document);
    assert_int_equal(root->type, YAML_MAPPING_NODE);
    size_t lines = 0;
    for (const char *s = text; *s; s++)
        lines += *s == '\n';
    assert_int_equal(root->data.mapping.pairs.top - root->data.mapping.pairs.start, lines);
    yaml_document_delete(&document);
    yaml_parser_delete(&parser);
    free(text);
    rung_context_destroy(&context);
    unsetenv("OMP_PLACES");
    unsetenv("DNNL_VERBOSE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_what_a_report_needs),
        cmocka_unit_test(is_yaml),
    };
    return RUN_TESTS(tests);
}
