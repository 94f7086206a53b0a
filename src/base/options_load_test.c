// SPDX-License-Identifier: Apache-2.0
#include "options_sample.h"
#include "test_folder.h"

#include "base/philox.h"

static rung_status load(sample *s, const char *text)
{
    return rungi_options_load_text(&s->o, "c.yaml", text, strlen(text));
}

static void nested_and_dotted_keys(void **state)
{
    sample *s = *state;
    assert_ok(load(s, "# a comment\n"
                      "seed: 7\n"
                      "exact: Yes\n"
                      "optim:\n"
                      "  lr: 1e-3 # with a comment\n"
                      "  name: \"adam\"\n"
                      "  betas: [0.5, .25]\n"
                      "optim.mode: slow\n"
                      "data:\n"
                      "  path: 2024-01-01\n"
                      "  threads: ~\n"
                      "  timeout: none\n"
                      "  memory: 1.5 GiB\n"
                      "  hidden: 64\n"
                      "  names:\n"
                      "    - \"*.bias\"\n"
                      "    - 12\n"
                      "    - yes\n"
                      "  inner:\n"
                      "    mean: 1_000.5\n"
                      "    deep: {size: 3}\n"));
    assert_int_equal(s->v.seed, 7);
    assert_true(s->v.exact && s->v.optim.lr == 1e-3);
    assert_string_equal(s->v.optim.name, "adam");
    assert_true(s->v.optim.betas.data[1] == 0.25);
    assert_int_equal(s->v.optim.mode, MODE_SLOW);
    assert_string_equal(s->v.data.path, "2024-01-01");
    assert_int_equal(s->v.data.threads, 0);
    assert_int_equal(s->v.data.timeout, 0);
    assert_int_equal(s->v.data.memory, (int64_t)3 << 29);
    assert_int_equal(s->v.data.hidden.data[0], 64);
    assert_int_equal(s->v.data.names.count, 3);
    assert_string_equal(s->v.data.names.data[0], "*.bias");
    assert_string_equal(s->v.data.names.data[1], "12");
    assert_string_equal(s->v.data.names.data[2], "yes");
    assert_true(s->v.data.inner_mean == 1000.5);
    assert_int_equal(s->v.data.inner_deep_size, 3);
    check_source(s, "seed", "c.yaml:2");
    check_source(s, "data.names", "c.yaml:15");
    check_source(s, "data.inner.deep.size", "c.yaml:21");
    check_source(s, "data.workers", "default");
}

static void later_layers_win(void **state)
{
    sample *s = *state;
    assert_ok(load(s, "optim: {lr: 0.5}\nseed: 1\n"));
    assert_ok(rungi_options_load_text(&s->o, "d.yaml", "optim.lr: 0.25\n", 15));
    assert_ok(rungi_options_assign(&s->o, "seed=2"));
    assert_true(s->v.optim.lr == 0.25 && s->v.seed == 2);
    check_source(s, "optim.lr", "d.yaml:1");
    check_source(s, "seed", "command line");
}

static void empty_things(void **state)
{
    sample *s = *state;
    assert_ok(load(s, "{}\n"));
    assert_ok(load(s, "optim:\ndata: {}\n"));
    assert_ok(load(s, "data: {path: , names: , hidden: []}\n"));
    assert_int_equal(s->v.data.names.count, 0);
    assert_ok(load(s, "---\nseed: 3\n...\n"));
    assert_int_equal(s->v.seed, 3);
}

static void refused_files(void **state)
{
    sample *s = *state;
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"", "c.yaml: holds no keys"},
        {"# nothing\n", "c.yaml: holds no keys"},
        {"---\n", "c.yaml: holds no keys"},
        {"- a\n", "c.yaml:1: expected 'key: value', got a list"},
        {"\nhello\n", "c.yaml:2: expected 'key: value', got text"},
        {"seed: 1\noptim:\n  lr: 0.1\n  lrr: 2\n",
         "c.yaml:4: unknown key 'optim.lrr' (did you mean 'optim.lr'?)"},
        {"optimizer:\n  lr: 0.1\n", "c.yaml:1: unknown key 'optimizer'"},
        {"optmi:\n  lr: 0.1\n", "c.yaml:1: unknown key 'optmi' (did you mean 'optim'?)"},
        {"data:\n  iner: {mean: 1}\n", "unknown key 'data.iner' (did you mean 'data.inner'?)"},
        {"optim:\n  lr: fast\n", "c.yaml:2: optim.lr: expected a number, got 'fast'"},
        {"optim: {lr: -1}\n", "c.yaml:1: optim.lr: -1 is out of range (must be >= 0)"},
        {"optim:\n  lr: [1]\n", "c.yaml:2: optim.lr: expected a number, got a list"},
        {"optim:\n  lr: {a: 1}\n", "c.yaml:2: optim.lr: expected a number, got a map"},
        {"optim:\n  lr:\n", "c.yaml:2: optim.lr: expected a number, got nothing"},
        {"optim: sgd\n", "c.yaml:1: 'optim' is a section: set its keys, such as 'optim.name'"},
        {"optim: [sgd]\n", "'optim' is a section"},
        {"seed: 1\n\nseed: 2\n", "c.yaml:3: 'seed' is given twice, first on line 1"},
        {"optim: {lr: 1}\noptim.lr: 2\n", "c.yaml:2: 'optim.lr' is given twice, first on line 1"},
        {"optim: {lr: 1}\noptim: {name: adam}\n", "c.yaml:2: 'optim' is given twice"},
        {"seed: &a 1\n", "c.yaml:1: anchors and aliases"},
        {"optim: &a {lr: 1}\n", "c.yaml:1: anchors and aliases"},
        {"seed: *a\n", "c.yaml:1: anchors and aliases"},
        {"data:\n  names: [*.bias]\n",
         "c.yaml:2: not valid YAML at column 12: did not find expected alphabetic "
         "or numeric character (put a value that begins with * or & in quotes)"},
        {"optim:\n  <<: {lr: 1}\n", "c.yaml:2: merge keys (<<)"},
        {"seed: !!int 1\n", "c.yaml:1: tags (tag:yaml.org,2002:int) are not supported"},
        {"data.path: !!binary \"x\"\n", "c.yaml:1: data.path: not the base64"},
        {"data.path: \"a\\0b\"\n", "c.yaml:1: data.path: a NUL character"},
        {"data.names: [a, ]\ndata.hidden: [1, ~]\n",
         "c.yaml:2: data.hidden: a member of the list is empty"},
        {"data.names:\n  - [a]\n", "c.yaml:2: data.names: a list may hold only single values"},
        {"seed: 1\n---\nseed: 2\n", "c.yaml:2: a second document begins here"},
        {"[a, b]: 1\n", "c.yaml:1: expected a key"},
        {"seed: 1\noptim:\n\tlr: 1\n",
         "c.yaml:3: not valid YAML at column 1: found character that cannot "
         "start any token (YAML is indented by blanks, not by tabs)"},
        {"seed: 1\noptim: {lr: 1\n", "c.yaml:3: not valid YAML"},
        {"seed: 1\nlr 0.1\nexact: no\n",
         "c.yaml:2: not valid YAML at column 1: could not find expected ':'"},
        {"seed: 1\ndata.path: caf\xe9\n", "c.yaml:2: not a YAML file: "},
        {"seed: 1\n\x01\n",
         "c.yaml:2: not a YAML file: control characters are not allowed (value 0x01)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_fails(RUNG_CONFIG, cases[i].message, load(s, cases[i].text));
}

static void files_that_are_none(void **state)
{
    test_folder *folder = *state;
    sample s;
    sample_init(&s);
    assert_fails(RUNG_NOT_FOUND, "none.yaml: cannot open: no such file",
                 rungi_options_load(&s.o, test_path(folder, "none.yaml")));
    assert_fails(RUNG_IO, "it is a folder, not a file", rungi_options_load(&s.o, folder->path));
    assert_fails(RUNG_FORMAT, "/dev/zero: larger than 1.0 MiB",
                 rungi_options_load(&s.o, "/dev/zero"));
    const char *path = test_path(folder, "caf\xe9.yaml");
    test_write(path, "", 0);
    assert_fails(RUNG_CONFIG, "caf\\xe9.yaml: holds no keys", rungi_options_load(&s.o, path));
    test_write(path, "seed: 5\nlr: 1", 13);
    assert_fails(RUNG_CONFIG, "caf\\xe9.yaml:2: unknown key 'lr'", rungi_options_load(&s.o, path));
    test_write(path, "seed: 5", 7);
    assert_ok(rungi_options_load(&s.o, path));
    assert_int_equal(s.v.seed, 5);
    // The name of the file is not UTF-8; the dump that names it must be.
    rungi_string dump = {0};
    rungi_options_dump(&s.o, RUNGI_DUMP_SOURCES, &dump);
    assert_non_null(strstr(dump.data, "caf\\xe9.yaml:1\n"));
    rungi_string_fini(&dump);
    sample_fini(&s);
}

static void dump_as_people_read_it(void **state)
{
    sample *s = *state;
    rungi_string dump = {0};
    assert_ok(load(s, "data: {names: [\"*.bias\", a b], inner: {mean: .5}}"));
    rungi_options_dump(&s->o, 0, &dump);
    assert_string_equal(dump.data, "seed: 0\n"
                                   "exact: false\n"
                                   "optim:\n"
                                   "  name: sgd\n"
                                   "  lr: 0.001\n"
                                   "  betas: [0.9, 0.999]\n"
                                   "  mode: fast\n"
                                   "data:\n"
                                   "  path: \"\"\n"
                                   "  workers: 0\n"
                                   "  threads: auto\n"
                                   "  timeout: 300s\n"
                                   "  memory: 64MiB\n"
                                   "  quick: false\n"
                                   "  hidden: []\n"
                                   "  names: [\"*.bias\", \"a b\"]\n"
                                   "  colors: [red]\n"
                                   "  inner:\n"
                                   "    mean: 0.5\n"
                                   "    deep:\n"
                                   "      size: 0\n");
    dump.size = 0;
    rungi_options_dump(&s->o, RUNGI_DUMP_HELP | RUNGI_DUMP_SOURCES, &dump);
    static const char start[] = "# Seed of all random numbers.\n"
                                "seed: 0 # default\n"
                                "# Same bits everywhere.\n"
                                "exact: false # default\n"
                                "\n"
                                "optim:\n"
                                "  # Optimizer.\n"
                                "  name: sgd # default\n"
                                "  # Learning rate.\n"
                                "  lr: 0.001 # default\n"
                                "  # Decay of the moments, in words long enough that the line "
                                "which holds this help must be "
                                "broken\n"
                                "  # in two.\n"
                                "  betas: [0.9, 0.999] # default\n";
    assert_memory_equal(dump.data, start, sizeof start - 1);
    assert_non_null(strstr(dump.data, "    mean: 0.5 # c.yaml:1\n"));
    rungi_string_fini(&dump);
}

// Any values, dumped and read, are the same to the bit.
static void dumps_read_back(void **state)
{
    sample *s = *state;
    rungi_random random = rungi_random_make(4, RUNGI_PURPOSE_TEST, 0, 0, 0);
    static const char *const texts[] = {"a",    "",    "null",  "1e-3", "caf\xe9", "caf\xc3\xa9",
                                        "a: b", "yes", "'\"\\", "\n",   "*x",      "[a, b]",
                                        "#",    "~",   " a ",   "\xff", "a\tb",    "!!int 3"};
    uint64_t index = 0;
    for (int round = 0; round < 300; round++) {
        uint64_t bits = rungi_random_u64(&random, index++) & ~((uint64_t)1 << 63);
        memcpy(&s->v.optim.lr, &bits, sizeof bits);
        if (!(s->v.optim.lr < 1e308))
            s->v.optim.lr = 1.0 / 3;
        s->v.seed = (int64_t)(rungi_random_u64(&random, index++) >> 1);
        s->v.exact = round % 2;
        s->v.data.timeout =
            round % 3 ? (int64_t)rungi_random_below(&random, 86400000000000, &index) : 0;
        s->v.data.memory = 1024 + (int64_t)rungi_random_below(&random, (uint64_t)1 << 40, &index);
        if (s->v.data.timeout && s->v.data.timeout < 1000000)
            s->v.data.timeout = 1000000;
        assert_ok(rungi_options_set(&s->o, "data.path", texts[round % 18], RUNGI_SOURCE_PROGRAM));
        char *names[3];
        for (int i = 0; i < 3; i++)
            names[i] = strdup(texts[rungi_random_below(&random, 18, &index)]);
        for (size_t i = 0; i < s->v.data.names.count; i++)
            free(s->v.data.names.data[i]);
        free(s->v.data.names.data);
        s->v.data.names.data = malloc(sizeof names);
        memcpy(s->v.data.names.data, names, sizeof names);
        s->v.data.names.count = 3;
        rungi_string dump = {0};
        rungi_options_dump(&s->o, round % 4, &dump);
        sample back;
        sample_init(&back);
        assert_ok(rungi_options_load_text(&back.o, "dump", dump.data, dump.size));
        check_same(s, &back);
        assert_int_equal(back.v.seed, s->v.seed);
        assert_int_equal(back.v.data.timeout, s->v.data.timeout);
        assert_int_equal(back.v.data.memory, s->v.data.memory);
        sample_fini(&back);
        rungi_string_fini(&dump);
    }
}

// Whatever the bytes, loading ends in success or in an error with a message, never in a crash.
static void any_bytes_end_in_a_status(void **state)
{
    sample *s = *state;
    static const char seed_text[] =
        "seed: 7\noptim:\n  lr: 1e-3 # c\n  betas: [0.5, .25]\n  name: \"adam\"\n"
        "data: {path: 'x', names: [a, \"\\xe9\", !!binary YQ==], inner: {mean: |\n 1\n}}\n"
        "exact: &a yes\n? [k]\n: *a\n<<: {}\n---\n%TAG ! x\n";
    static const char pieces[] = ":-?[]{},#&*!|>'\"%@`\n\t \\~<\xff\xc3\xa9=0a.\r";
    rungi_random random = rungi_random_make(5, RUNGI_PURPOSE_TEST, 0, 0, 0);
    uint64_t index = 0;
    int good = 0;
    for (int round = 0; round < 6000; round++) {
        char text[400];
        size_t size = 1 + rungi_random_below(&random, sizeof seed_text - 1, &index);
        bool mutate = round % 3 > 0;
        if (mutate)
            memcpy(text, seed_text, size);
        else
            for (size_t i = 0; i < size; i++)
                text[i] = round % 2 ? pieces[rungi_random_below(&random, sizeof pieces, &index)]
                                    : (char)rungi_random_u64(&random, index++);
        for (int changes = mutate ? (int)rungi_random_below(&random, 5, &index) : 0; changes > 0;
             changes--)
            text[rungi_random_below(&random, size, &index)] =
                pieces[rungi_random_below(&random, sizeof pieces, &index)];
        rung_error_clear();
        rung_status status = rungi_options_load_text(&s->o, "fuzz", text, size);
        good += status == RUNG_OK;
        if (status != RUNG_OK)
            assert_true(rung_error_last()->message[0] != 0 && status == RUNG_CONFIG);
    }
    assert_true(good > 0);
    assert_int_equal(s->o.file_count, 1);
}

static void deep_nesting_is_refused(void **state)
{
    sample *s = *state;
    char text[20000];
    memset(text, '[', sizeof text);
    memcpy(text, "seed: ", 6);
    assert_fails(RUNG_CONFIG, "single values",
                 rungi_options_load_text(&s->o, "deep", text, sizeof text));
    memset(text + 6, '{', sizeof text - 6);
    assert_fails(RUNG_CONFIG, "got a map",
                 rungi_options_load_text(&s->o, "deep", text, sizeof text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SAMPLE(nested_and_dotted_keys),
        WITH_SAMPLE(later_layers_win),
        WITH_SAMPLE(empty_things),
        WITH_SAMPLE(refused_files),
        IN_FOLDER(files_that_are_none),
        WITH_SAMPLE(dump_as_people_read_it),
        WITH_SAMPLE(dumps_read_back),
        WITH_SAMPLE(any_bytes_end_in_a_status),
        WITH_SAMPLE(deep_nesting_is_refused),
    };
    return RUN_TESTS(tests);
}
