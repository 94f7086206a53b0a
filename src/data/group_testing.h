// SPDX-License-Identifier: Apache-2.0
// What tests share that use one context and one folder for the whole program.
#ifndef RUNGI_DATA_GROUP_TESTING_H
#define RUNGI_DATA_GROUP_TESTING_H

#include "data_testing.h"

static rung_context *context;
static test_log messages;
static test_folder folder;

static inline int group_set_up(void **state)
{
    (void)state;
    context = test_context(&messages, NULL);
    test_folder_make(&folder);
    return 0;
}

static inline int group_tear_down(void **state)
{
    (void)state;
    test_folder_remove(&folder);
    rung_context_destroy(&context);
    return 0;
}

#define RUN_GROUP(tests, set_up)                                                        \
    tests_status(cmocka_run_group_tests_name(__FILE__, tests, set_up, group_tear_down), \
                 sizeof(tests) / sizeof((tests)[0]))

// The path of a file of $RUNG_TEST_DATA (or of the folder beside the tree's, ../shared/data);
// skips the test where it is not there.
#define GROUP_REAL_DATA(path, name)                                                             \
    do {                                                                                        \
        const char *data_ = getenv("RUNG_TEST_DATA");                                           \
        snprintf(path, sizeof path, "%s/%s", data_ ? data_ : RUNG_SOURCE_DIR "/../shared/data", \
                 name);                                                                         \
        if (access(path, R_OK) != 0)                                                            \
            skip_because("no " name " in $RUNG_TEST_DATA");                                     \
    } while (0)

#endif
