// SPDX-License-Identifier: Apache-2.0
#include "testing.h"

#include "base/options.h"
#include "options_sample.h"

static void defaults(void **state)
{
    sample *s = *state;
    assert_true(s->v.seed == 0 && !s->v.exact);
    assert_true(s->v.optim.lr == 1e-3);
    assert_string_equal(s->v.optim.name, "sgd");
    assert_int_equal(s->v.optim.betas.count, 2);
    assert_true(s->v.optim.betas.data[1] == 0.999);
    assert_int_equal(s->v.optim.mode, MODE_FAST);
    assert_int_equal(s->v.data.timeout, 300000000000);
    assert_int_equal(s->v.data.memory, 64 << 20);
    assert_int_equal(s->v.data.threads, 0);
    assert_int_equal(s->v.data.hidden.count, 0);
    assert_string_equal(s->v.data.path, "");
    assert_int_equal(s->v.data.names.count, 1);
    check_source(s, "optim.lr", "default");
}

static void overrides_of_every_type(void **state)
{
    sample *s = *state;
    rungi_options *o = &s->o;
    assert_ok(rungi_options_assign(o, "optim.lr=1e-1"));
    assert_ok(rungi_options_assign(o, "--optim.name=adam"));
    assert_ok(rungi_options_assign(o, "--optim.betas=[.5, 0.75]"));
    assert_ok(rungi_options_assign(o, "optim.mode=slow"));
    assert_ok(rungi_options_assign(o, "--exact"));
    assert_ok(rungi_options_assign(o, "seed=0x10"));
    assert_ok(rungi_options_assign(o, "data.timeout=2s"));
    assert_ok(rungi_options_assign(o, "data.memory=2GiB"));
    assert_ok(rungi_options_assign(o, "data.threads=auto"));
    assert_ok(rungi_options_assign(o, "data.hidden=512"));
    assert_ok(rungi_options_assign(o, "data.path=/a b=c/caf\xe9"));
    assert_ok(rungi_options_assign(o, "data.names=[a, 'b, c', \"d\\\"]\", *.bias]"));
    assert_true(s->v.optim.lr == 0.1 && s->v.exact && s->v.seed == 16);
    assert_string_equal(s->v.optim.name, "adam");
    assert_true(s->v.optim.betas.data[0] == 0.5 && s->v.optim.betas.data[1] == 0.75);
    assert_int_equal(s->v.optim.mode, MODE_SLOW);
    assert_int_equal(s->v.data.timeout, 2000000000);
    assert_int_equal(s->v.data.memory, (int64_t)2 << 30);
    assert_int_equal(s->v.data.hidden.count, 1);
    assert_int_equal(s->v.data.hidden.data[0], 512);
    assert_string_equal(s->v.data.path, "/a b=c/caf\xe9");
    assert_int_equal(s->v.data.names.count, 4);
    assert_string_equal(s->v.data.names.data[1], "b, c");
    assert_string_equal(s->v.data.names.data[2], "d\"]");
    assert_string_equal(s->v.data.names.data[3], "*.bias");
    check_source(s, "optim.lr", "command line");
    check_source(s, "exact", "command line");
    check_source(s, "data.workers", "default");

    assert_ok(rungi_options_assign(o, "data.names="));
    assert_int_equal(s->v.data.names.count, 0);
    assert_ok(rungi_options_assign(o, "data.names=a, b"));
    assert_int_equal(s->v.data.names.count, 2);
    assert_ok(rungi_options_assign(o, "data.names=[]"));
    assert_int_equal(s->v.data.names.count, 0);
    assert_ok(rungi_options_assign(o, "data.path="));
    assert_string_equal(s->v.data.path, "");
    assert_ok(rungi_options_assign(o, "data.path=null"));
    assert_string_equal(s->v.data.path, "null");
    assert_ok(rungi_options_assign(o, "data.threads=null"));
    assert_ok(rungi_options_assign(o, "--fast-check=off"));
    assert_false(s->v.data.quick);
    assert_ok(rungi_options_assign(o, "--fast-check"));
    assert_true(s->v.data.quick);
    assert_ok(rungi_options_set(o, "optim.lr", "0.5", RUNGI_SOURCE_PROGRAM));
    check_source(s, "optim.lr", "program");
}

static void refused_overrides(void **state)
{
    sample *s = *state;
    static const struct {
        const char *argument;
        const char *message;
    } cases[] = {
        {"optim.lr=fast", "command line: optim.lr: expected a number, got 'fast'"},
        {"optim.lr=", "command line: optim.lr: expected a number, got nothing"},
        {"optim.lr=-0.1", "command line: optim.lr: -0.1 is out of range (must be >= 0)"},
        {"optim.lr=nan", "expected a number, got 'nan'"},
        {"optim.lr=1e999", "optim.lr: 1e999 is too large"},
        {"optim.lr=[1]", "expected a number, got '[1]'"},
        {"seed=1e-3", "seed: expected a whole number, got '1e-3'"},
        {"seed=010", "seed: expected a whole number, got '010'"},
        {"seed=9223372036854775808", "seed: 9223372036854775808 is too large"},
        {"optim.betas=[0.9]", "optim.betas: expected a list of 2, got 1"},
        {"optim.betas=[0.9, 1]", "optim.betas: 1 is out of range (must be in [0, 1))"},
        {"optim.betas=[0.9, x]", "optim.betas: expected a list of 2 numbers, got 'x'"},
        {"optim.name=adm",
         "optim.name: expected one of sgd, adam, got 'adm' (did you mean 'adam'?)"},
        {"optim.name=", "optim.name: expected one of sgd, adam, got nothing"},
        {"optim.mode=FAST", "optim.mode: expected one of fast, slow, got 'FAST'"},
        {"exact=1", "exact: expected true or false, got '1'"},
        {"data.timeout=2 sec",
         "data.timeout: expected a duration such as 60s or 'none', got '2 sec'"},
        {"data.timeout=-1s", "data.timeout: -1s is out of range (must be in [1ms, 24h])"},
        {"data.memory=2G", "data.memory: expected a size such as 64MiB, got '2G'"},
        {"data.threads=atuo", "data.threads: expected a whole number, 'auto' or 'all', got 'atuo' "
                              "(did you mean 'auto'?)"},
        {"data.names=[a", "data.names: a list must end with ']'"},
        {"data.names=[a] b", "data.names: a list must end with ']'"},
        {"data.names=['a]", "data.names: a quote is not closed"},
        {"data.names=['a' b]", "data.names: expected ',' before 'b]'"},
        {"data.names=[a,,b]", "data.names: a member of the list is empty"},
        {"data.names=[[a]]", "data.names: a list in a list"},
        {"data.colors=[red, gren]",
         "data.colors: expected a list of red, green, got 'gren' (did you mean 'green'?)"},
        {"optim.lrr=1", "command line: unknown key 'optim.lrr' (did you mean 'optim.lr'?)"},
        {"lr=1", "command line: unknown key 'lr' (did you mean 'optim.lr'?)"},
        {"optimizer.lr=1", "unknown key 'optimizer.lr' (did you mean 'optim.lr'?)"},
        {"optim.amsgrad=1", "unknown key 'optim.amsgrad' (keys of 'optim': name, lr, betas, mode)"},
        {"verbosity=1", "unknown key 'verbosity' (keys and sections: seed, exact, optim, data)"},
        {"=1", "unknown key ''"},
        {"optim=1", "'optim' is a section: set its keys, such as 'optim.name'"},
        {"optim.lr", "optim.lr: a value is missing: write optim.lr=VALUE"},
        {"--optim.lr", "optim.lr: a value is missing: write --optim.lr=VALUE"},
        {"exact", "exact: a value is missing"},
        {"--fast-chek", "unknown key 'fast-chek'"},
    };
    rungi_string before = {0}, after = {0};
    rungi_options_dump(&s->o, RUNGI_DUMP_SOURCES, &before);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_fails(RUNG_CONFIG, cases[i].message, rungi_options_assign(&s->o, cases[i].argument));
    rungi_options_dump(&s->o, RUNGI_DUMP_SOURCES, &after);
    assert_string_equal(before.data, after.data);
    rungi_string_fini(&before);
    rungi_string_fini(&after);
}

static void texts_can_be_set_back(void **state)
{
    sample *s = *state;
    assert_ok(rungi_options_assign(&s->o, "optim.lr=0.3333333333333333"));
    assert_ok(rungi_options_assign(&s->o, "data.timeout=none"));
    assert_ok(rungi_options_assign(&s->o, "data.threads=all"));
    assert_ok(rungi_options_assign(&s->o, "data.path=null"));
    assert_ok(rungi_options_assign(&s->o, "data.names=['it''s', 'a, b', '', ' c', '[d]', e f]"));
    sample other;
    sample_init(&other);
    for (size_t i = 0; i < s->o.count; i++) {
        rungi_string text = {0}, back = {0};
        rungi_options_text(&s->o, i, &text);
        assert_ok(rungi_options_set(&other.o, rungi_options_at(&s->o, i)->key,
                                    rungi_string_text(&text), RUNGI_SOURCE_PROGRAM));
        rungi_options_text(&other.o, i, &back);
        assert_string_equal(rungi_string_text(&back), rungi_string_text(&text));
        rungi_string_fini(&text);
        rungi_string_fini(&back);
    }
    check_same(s, &other);
    sample_fini(&other);
}

static void copies(void **state)
{
    sample *s = *state;
    assert_ok(rungi_options_load_text(&s->o, "a.yaml", "optim:\n  lr: 0.5\n", 17));
    assert_ok(rungi_options_assign(&s->o, "data.names=[x, y]"));
    sample copy;
    assert_ok(rungi_options_copy(&copy.o, &copy.v, &s->o));
    check_same(s, &copy);
    check_source(&copy, "optim.lr", "a.yaml:2");
    assert_ok(rungi_options_assign(&copy.o, "data.names=z"));
    assert_string_equal(s->v.data.names.data[1], "y");
    sample_fini(&copy);
}

static double number(sample *s, const char *key)
{
    size_t index;
    double out = -1;
    assert_ok(rungi_options_find(&s->o, key, &index));
    assert_ok(rungi_options_number(&s->o, index, &out));
    return out;
}

static void numbers(void **state)
{
    sample *s = *state;
    size_t index;
    double out;
    assert_true(number(s, "optim.lr") == 1e-3);
    assert_true(number(s, "data.timeout") == 300);
    assert_true(number(s, "data.memory") == 64 << 20);
    assert_true(number(s, "exact") == 0);
    assert_ok(rungi_options_find(&s->o, "optim.name", &index));
    assert_fails(RUNG_INVALID, "optim.name is not a number",
                 rungi_options_number(&s->o, index, &out));
    assert_null(rungi_options_at(&s->o, s->o.count));
}

static void keep_line(void *user, rung_log_level level, const char *line)
{
    assert_int_equal(level, RUNG_LOG_NOTICE);
    snprintf(user, 256, "%s", line);
}

static void checks_name_the_place(void **state)
{
    sample *s = *state;
    char line[256] = "";
    rung_context *context = NULL;
    assert_ok(
        rung_context_create(&(rung_context_options){.log = keep_line, .log_user = line}, &context));
    assert_ok(rungi_options_check(&s->o, context));
    assert_string_equal(line, "");
    assert_ok(rungi_options_load_text(&s->o, "a.yaml", "data.timeout: 5s\n", 17));
    assert_ok(rungi_options_check(&s->o, context));
    assert_string_equal(line, "a.yaml:1: data.timeout: ignored without workers");
    assert_ok(rungi_options_check(&s->o, NULL));
    assert_ok(rungi_options_assign(&s->o, "optim.mode=slow"));
    assert_ok(rungi_options_assign(&s->o, "optim.name=adam"));
    assert_fails(RUNG_CONFIG, "command line: optim.mode: adam cannot be slow",
                 rungi_options_check(&s->o, context));
    rung_context_destroy(&context);
}

static void tables_that_contradict_themselves(void **state)
{
    (void)state;
    typedef struct broken {
        int64_t whole;
        double real;
    } broken;
    static const rungi_option options[] = {
        {.key = "a",
         .type = RUNGI_OPTION_REAL,
         RUNGI_AT(broken, whole),
         .initial = "1",
         .help = "."},
        {.key = "b",
         .type = RUNGI_OPTION_REAL,
         RUNGI_AT(broken, real),
         .initial = "x",
         .help = "."},
        {.key = "c",
         .type = RUNGI_OPTION_REAL,
         RUNGI_AT(broken, real),
         .initial = "1",
         .range = "[0, 1",
         .help = "."},
        {.key = "d",
         .type = RUNGI_OPTION_REAL,
         RUNGI_AT(broken, real),
         .initial = "2",
         .range = "(0, 2)",
         .help = "."},
        {.key = "e", .type = RUNGI_OPTION_REAL, RUNGI_AT(broken, real), .help = "."},
    };
    static const char *const messages[] = {"option a: its type and its field", "default of b",
                                           "c: 1 is out of range", "d: 2 is out of range",
                                           "option e: default"};
    broken values;
    rungi_options made;
    for (size_t i = 0; i < RUNGI_COUNT(options); i++) {
        const rungi_option one[] = {options[i], {0}};
        rungi_option_table table = {.options = one};
        assert_fails(RUNG_INTERNAL, messages[i], rungi_options_init(&made, &table, 1, &values));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SAMPLE(defaults),
        WITH_SAMPLE(overrides_of_every_type),
        WITH_SAMPLE(refused_overrides),
        WITH_SAMPLE(texts_can_be_set_back),
        WITH_SAMPLE(copies),
        WITH_SAMPLE(numbers),
        WITH_SAMPLE(checks_name_the_place),
        cmocka_unit_test(tables_that_contradict_themselves),
    };
    return RUN_TESTS(tests);
}
