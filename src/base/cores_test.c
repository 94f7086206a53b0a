// SPDX-License-Identifier: Apache-2.0
// How many cores there are, also when OpenMP has bound the first thread to one of them.
#include "testing.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cores.h"
#include "base/thread.h"

static const char *program;

// Prints what this process sees: cores, and those of a thread that it starts.
static rung_status count_own(void *arg)
{
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    *(int *)arg = CPU_COUNT(&set);
    return RUNG_OK;
}

static int tell(void)
{
    rungi_thread thread;
    int own = 0;
    if (rungi_thread_start(&thread, "count", count_own, &own) != RUNG_OK ||
        rungi_thread_join(&thread) != RUNG_OK)
        return 1;
    printf("%d %d\n", rungi_core_count(), own);
    return 0;
}

// This program again, with OpenMP's threads bound or not.
static void ask(const char *variables, int *count_out, int *thread_out)
{
    char command[4300];
    snprintf(command, sizeof command, "%s '%s' tell", variables, program);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_int_equal(fscanf(pipe, "%d %d", count_out, thread_out), 2);
    assert_int_equal(pclose(pipe), 0);
}

static void binding_hides_no_core(void **state)
{
    (void)state;
    cpu_set_t set;
    int count, thread;
#if defined(__clang__)
    skip_because("clang's OpenMP knows no places once the libgomp of oneDNN has bound the thread");
#endif
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    ask("OMP_PROC_BIND=false", &count, &thread);
    assert_int_equal(thread, CPU_COUNT(&set));
    assert_true(count >= 1 && count <= thread); // a quota may cut it
    static const char *const bindings[] = {"OMP_PROC_BIND=close OMP_PLACES=cores",
                                           "OMP_PROC_BIND=true", "OMP_PLACES=threads"};
    for (size_t i = 0; i < sizeof bindings / sizeof *bindings; i++) {
        int bound_count, bound_thread;
        ask(bindings[i], &bound_count, &bound_thread);
        assert_int_equal(bound_count, count);
        assert_int_equal(bound_thread, thread);
    }
}

// One core allowed is one core, whatever OpenMP is told.
static void affinity_counts(void **state)
{
    (void)state;
    cpu_set_t set, one;
    int count, thread;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &set))
            CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    ask("OMP_PROC_BIND=close OMP_PLACES=threads", &count, &thread);
    assert_int_equal(sched_setaffinity(0, sizeof set, &set), 0);
    assert_int_equal(count, 1);
    assert_int_equal(thread, 1);
}

static void bound_to_one(void **state)
{
    (void)state;
    cpu_set_t set, own;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    for (int place = 0; place < CPU_COUNT(&set); place++) {
        cpu_set_t before = rungi_cores_bind(&set, place);
        assert_true(CPU_EQUAL(&before, &set));
        assert_int_equal(sched_getaffinity(0, sizeof own, &own), 0);
        int earlier = 0;
        for (size_t i = 0; i < CPU_SETSIZE && !CPU_ISSET(i, &own); i++)
            earlier += CPU_ISSET(i, &set) != 0;
        assert_int_equal(CPU_COUNT(&own), 1);
        assert_int_equal(earlier, place);
        assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    }
    rungi_cores_bind(&set, CPU_COUNT(&set)); // there is none
    assert_int_equal(sched_getaffinity(0, sizeof own, &own), 0);
    assert_true(CPU_EQUAL(&own, &set));
}

static void quotas(void **state)
{
    (void)state;
    assert_int_equal(rungi_quota_cores("max 100000"), 0);
    assert_int_equal(rungi_quota_cores("150000 100000\n"), 2);
    assert_int_equal(rungi_quota_cores("200000 100000\n"), 2);
    assert_int_equal(rungi_quota_cores("-1 100000\n"), 0);
    assert_int_equal(rungi_quota_cores(""), 0);
}

int main(int argc, char **argv)
{
    char path[4096] = "";
    if (argc > 1 && strcmp(argv[1], "tell") == 0)
        return tell();
    if (readlink("/proc/self/exe", path, sizeof path - 1) < 0)
        return 1;
    program = path;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(binding_hides_no_core),
        cmocka_unit_test(affinity_counts),
        cmocka_unit_test(bound_to_one),
        cmocka_unit_test(quotas),
    };
    return RUN_TESTS(tests);
}
