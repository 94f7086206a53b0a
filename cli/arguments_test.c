// SPDX-License-Identifier: Apache-2.0
// The command line's arguments and help, with verbs made for the test.
#include "test_folder.h"

#include "cli.h"

static rung_status run_nothing(rung_context *context, const cli_arguments *arguments)
{
    (void)context;
    (void)arguments;
    return RUNG_OK;
}

static const cli_option fit_options[] = {
    CLI_RUN_OPTION,
    {"--explain", NULL,
     "Print the plan, which is told here at such length that it needs another line."},
    {0},
};
static const cli_verb fit = {
    .name = "fit",
    .summary = "fit a network",
    .arguments = "CONFIG [KEY=VALUE ...]",
    .text = "Fits.",
    .options = fit_options,
    .min_arguments = 1,
    .max_arguments = 1,
    .config = true,
    .run = run_nothing,
};
static const cli_verb show = {
    .name = "show",
    .summary = "show files",
    .arguments = "FILE ...",
    .text = "Shows.",
    .min_arguments = 0,
    .max_arguments = -1,
    .run = run_nothing,
};
const cli_verb *const cli_verbs[] = {&fit, &show, NULL};

static rung_status parse(cli_arguments *arguments, const char *const *list)
{
    int count = 0;
    while (list[count])
        count++;
    return cli_arguments_parse(arguments, count, (char **)(uintptr_t)list);
}

#define PARSE(arguments, ...) parse(arguments, (const char *const[]){__VA_ARGS__, NULL})

static void everything_finds_its_place(void **state)
{
    (void)state;
    cli_arguments a;
    assert_ok(PARSE(&a, "-v", "fit", "optim.lr=0.1", "c.yaml", "--run", "a=b", "--seed=3",
                    "--optim.name", "adam", "--exact", "--overfit-one-batch=no", "--quick",
                    "--budget", "60s", "--run=last", "--explain"));
    assert_ptr_equal(a.verb, &fit);
    assert_true(a.verbose && !a.quiet && !a.help);
    assert_int_equal(a.word_count, 1);
    assert_string_equal(a.words[0], "c.yaml");
    static const char *const overrides[] = {"optim.lr=0.1",
                                            "seed=3",
                                            "optim.name=adam",
                                            "exact=true",
                                            "train.overfit_one_batch=no",
                                            "ladder.quick=true",
                                            "ladder.budget=60s"};
    assert_int_equal(a.override_count, 7);
    for (int i = 0; i < 7; i++)
        assert_string_equal(a.overrides[i], overrides[i]);
    assert_string_equal(cli_value(&a, "--run"), "last");
    assert_string_equal(cli_value(&a, "--explain"), "");
    assert_null(cli_value(&a, "--expl"));
    cli_arguments_fini(&a);
}

static void paths_are_no_overrides(void **state)
{
    (void)state;
    cli_arguments a;
    assert_ok(PARSE(&a, "fit", "./a=b.yaml"));
    assert_string_equal(a.words[0], "./a=b.yaml");
    cli_arguments_fini(&a);
    assert_ok(PARSE(&a, "fit", "--", "a=b.yaml"));
    assert_string_equal(a.words[0], "a=b.yaml");
    cli_arguments_fini(&a);
    assert_ok(PARSE(&a, "show", "a=b", "-", "--", "--quiet", "-q"));
    assert_int_equal(a.word_count, 4);
    assert_string_equal(a.words[0], "a=b");
    assert_string_equal(a.words[1], "-");
    assert_string_equal(a.words[3], "-q");
    assert_false(a.quiet);
    cli_arguments_fini(&a);
    assert_ok(PARSE(&a, "help", "fit"));
    assert_true(a.help && a.verb == &fit);
    cli_arguments_fini(&a);
    assert_ok(cli_arguments_parse(&a, 0, NULL));
    assert_null(a.verb);
    cli_arguments_fini(&a);
}

static void mistakes(void **state)
{
    (void)state;
    static const struct {
        const char *list[4];
        const char *message;
    } cases[] = {
        {{"fti"}, "unknown verb 'fti' (did you mean 'fit'?)"},
        {{"fit"}, "fit: too few arguments (usage: rung fit CONFIG [KEY=VALUE ...])"},
        {{"fit", "a", "b"}, "fit: unexpected argument 'b' (see 'rung fit --help')"},
        {{"fit", "a", "--run"}, "fit: --run needs a value: --run=DIR"},
        {{"fit", "a", "--optim.lr"}, "fit: --optim.lr needs a value: --optim.lr=VALUE"},
        {{"fit", "a", "--explain=x"}, "fit: --explain takes no value"},
        {{"fit", "a", "--explian"}, "fit: unknown option '--explian' (did you mean '--explain'?)"},
        {{"fit", "a", "--optim.lrr=1"},
         "fit: unknown option '--optim.lrr' (did you mean '--optim.lr'?)"},
        {{"fit", "a", "--zzzzzzzzzzzz"},
         "fit: unknown option '--zzzzzzzzzzzz' (see 'rung fit --help')"},
        {{"show", "--optim.lr=1"}, "show: unknown option '--optim.lr' (see 'rung show --help')"},
        {{"--run=x", "fit"}, "unknown option '--run'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cli_arguments a;
        assert_fails(RUNG_INVALID, cases[i].message, parse(&a, cases[i].list));
        cli_arguments_fini(&a);
    }
}

static void configuration_of_a_verb(void **state)
{
    test_folder *folder = *state;
    const char *path = test_path(folder, "c.yaml");
    test_write(path, "optim: {lr: 0.5}\nseed: 1\n", 25);
    cli_arguments a;
    rung_config *config = NULL;
    double number;
    assert_ok(PARSE(&a, "fit", path, "seed=2", "--seed=3"));
    assert_ok(cli_load_config(NULL, &a, a.words[0], &config));
    assert_ok(rung_config_number(config, "seed", &number));
    assert_true(number == 3);
    assert_ok(rung_config_number(config, "optim.lr", &number));
    assert_true(number == 0.5);
    rung_config_destroy(&config);
    cli_arguments_fini(&a);

    assert_ok(PARSE(&a, "fit", path, "optim.lr=fast"));
    assert_fails(RUNG_CONFIG, "command line: optim.lr: expected a number, got 'fast'",
                 cli_load_config(NULL, &a, a.words[0], &config));
    assert_fails(RUNG_NOT_FOUND, "none.yaml: cannot open: no such file",
                 cli_load_config(NULL, &a, test_path(folder, "none.yaml"), &config));
    assert_null(config);
    cli_arguments_fini(&a);
}

static void help_comes_from_the_tables(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    cli_print_help(out, &fit);
    fclose(out);
    static const char start[] =
        "usage: rung fit CONFIG [KEY=VALUE ...] [options]\n"
        "\n"
        "Fits.\n"
        "\n"
        "options:\n"
        "  --run DIR         Folder of the run.\n"
        "  --explain         Print the plan, which is told here at such length that it\n"
        "                    needs another line.\n"
        "  --help            Print this help; also -h.\n";
    assert_memory_equal(text, start, sizeof start - 1);
    static const char *const parts[] = {
        "\n  optim.lr=1e-3  number >= 0\n      Learning rate, before the schedule.\n",
        "\n  optim.name=sgd  one of sgd, adam, adamw\n",
        "\n  optim.betas=[0.9, 0.999]  list of numbers in [0, 1)\n",
        "\n  device.threads=auto  integer in [1, 4096] or auto\n",
        "\n  train.eval_every=epoch  integer >= 1, epoch or never (steps)\n",
        "\n  ladder.quick=false  boolean; also --quick\n",
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(text, parts[i]))
            fail_msg("not in the help: %s\n%s", parts[i], text);
    for (const char *line = text; *line; line = strchr(line, '\n') + 1)
        assert_true(strcspn(line, "\n") <= 80);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_finds_its_place),
        cmocka_unit_test(paths_are_no_overrides),
        cmocka_unit_test(mistakes),
        IN_FOLDER(configuration_of_a_verb),
        cmocka_unit_test(help_comes_from_the_tables),
    };
    return RUN_TESTS(tests);
}
