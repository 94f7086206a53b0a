// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
#include "testing.h"

#include <pthread.h>
#include <stdio.h>

#include "base/context.h"
#include "base/error.h"

enum { THREADS = 4, LINES = 100 };

// Deliberately without a lock: the context promises that calls do not overlap.
typedef struct log_record {
    int lines;
    char last[256];
} log_record;

static void record(void *user, rung_log_level level, const char *line)
{
    (void)level;
    log_record *log = user;
    log->lines++;
    snprintf(log->last, sizeof log->last, "%s", line);
}

static void caps_instruction_set(void **state)
{
    (void)state;
    rung_context *context = NULL;
    assert_ok(rung_context_create(&(rung_context_options){.isa = RUNG_ISA_SCALAR}, &context));
    assert_int_equal(rung_context_isa(context), RUNG_ISA_SCALAR);
    rung_context_destroy(&context);
    assert_null(context);
    rung_context_destroy(&context);
    rung_context_destroy(NULL);

    if (rungi_cpu_isa() < RUNG_ISA_AVX512)
        assert_fails(
            RUNG_UNSUPPORTED, "no avx512",
            rung_context_create(&(rung_context_options){.isa = RUNG_ISA_AVX512}, &context));
    assert_null(context);
}

static int64_t fixed_now(void *user)
{
    return *(int64_t *)user;
}

static void fixed_sleep(void *user, int64_t nanoseconds)
{
    *(int64_t *)user += nanoseconds;
}

static void takes_time_from_its_clock(void **state)
{
    (void)state;
    int64_t time = 42;
    rung_clock clock = {&time, fixed_now, fixed_sleep};
    rung_context *context;
    assert_ok(rung_context_create(&(rung_context_options){.clock = &clock}, &context));
    rungi_sleep(context, 8);
    assert_int_equal(rungi_now(context), 50);
    rung_context_destroy(&context);
}

static void log_drops_low_levels_and_escapes(void **state)
{
    (void)state;
    log_record log = {0};
    rung_context_options options = {.log = record, .log_user = &log, .log_level = RUNG_LOG_NOTICE};
    rung_context *context;
    assert_ok(rung_context_create(&options, &context));
    rungi_log(context, RUNG_LOG_INFO, "dropped");
    rungi_log(context, RUNG_LOG_NOTICE, "two\nlines %d", 7);
    assert_int_equal(log.lines, 1);
    assert_string_equal(log.last, "two\\x0alines 7");
    rung_context_destroy(&context);
}

static void *log_lines(void *context)
{
    for (int i = 0; i < LINES; i++)
        rungi_log(context, RUNG_LOG_INFO, "line %d", i);
    return NULL;
}

static void log_calls_do_not_overlap(void **state)
{
    (void)state;
    log_record log = {0};
    rung_context *context;
    assert_ok(
        rung_context_create(&(rung_context_options){.log = record, .log_user = &log}, &context));
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, log_lines, context), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(log.lines, THREADS * LINES);
    rung_context_destroy(&context);
}

static void *fail_alone(void *seen)
{
    RUNG_FAIL(RUNG_DATA, "sample 7 is bad");
    *(rung_error *)seen = *rung_error_last();
    return NULL;
}

static void errors_belong_to_their_thread(void **state)
{
    (void)state;
    rung_error_clear();
    rung_error worker = {0};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fail_alone, &worker), 0);
    pthread_join(thread, NULL);
    assert_int_equal(rung_error_last()->status, RUNG_OK);

    assert_int_equal(rungi_fail_adopt(&worker), RUNG_DATA);
    assert_string_equal(rung_error_last()->message, "sample 7 is bad");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caps_instruction_set),
        cmocka_unit_test(takes_time_from_its_clock),
        cmocka_unit_test(log_drops_low_levels_and_escapes),
        cmocka_unit_test(log_calls_do_not_overlap),
        cmocka_unit_test(errors_belong_to_their_thread),
    };
    return RUN_TESTS(tests);
}
