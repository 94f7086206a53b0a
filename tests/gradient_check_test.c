// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
// The ladder's check of gradients against float64: what it finds of the stages of a pipeline is
// what it finds of one device.
#include "training.h"

#include <math.h>

#include "base/error.h"
#include "ladder/gradient_check.h"
#include "train/crew.h"

#ifdef RUNG_OPENMP
#    define KERNELS "own"
#else
#    define KERNELS "reference" // the build for ThreadSanitizer
#endif

static const char yaml[] = TRAINING_MLP "plan: {kernels: " KERNELS "}\n";

typedef struct job {
    const rung_config *config;
    double disturb;
    rungi_gradient_error errors[2]; // by rank
} job;

static rung_status check(rung_context *context, const job *j, rungi_comm *comm,
                         rungi_gradient_error *out)
{
    rungi_session *s = NULL;
    rung_config *config = NULL;
    RUNG_TRY(rungi_config_copy_for(context, j->config, &config));
    rung_status status = rungi_session_create(
        context, config, &(rungi_session_options){.parts = RUNGI_SESSION_TRAIN, .comm = comm}, &s);
    rung_config_destroy(&config);
    RUNG_TRY(status);
    status = rungi_gradient_check(s, j->disturb, 3, out);
    rung_error error = *rung_error_last();
    if (status != RUNG_OK && comm)
        rungi_comm_fail(comm);
    rungi_session_destroy(&s);
    return status == RUNG_OK ? status : rungi_fail_adopt(&error);
}

static rung_status check_member(void *arg, rungi_member *m)
{
    job *j = arg;
    return check(m->context, j, m->comm, &j->errors[m->index]);
}

static rungi_gradient_error of_stages(rung_context *context, const char *precision, double disturb)
{
    const char *overrides[] = {precision, "train.strategy=pipeline", "train.ranks=2", NULL};
    rung_config *config = training_config(context, yaml, overrides);
    job j = {.config = config, .disturb = disturb};
    rungi_crew *crew;
    assert_ok(rungi_crew_create(context, 2, &(rungi_comm_options){.context = context}, &crew));
    assert_ok(rungi_crew_run(crew, check_member, &j));
    rungi_crew_destroy(&crew);
    rung_config_destroy(&config);
    assert_true(isnan(j.errors[1].largest) && isnan(j.errors[1].distance)); // rank 0 compares
    return j.errors[0];
}

static void stages_are_as_near_as_one_device(void **state)
{
    (void)state;
    static const char *const precisions[] = {"train.precision=fp32", "train.precision=bf16",
                                             "train.precision=fp16"};
    static const double most[] = {1e-5, 0.2, 0.02}; // distances
    training_log log;
    rung_context *context = training_context(&log);
    for (int p = 0; p < 3; p++) {
        rungi_gradient_error one;
        const char *overrides[] = {precisions[p], NULL};
        rung_config *config = training_config(context, yaml, overrides);
        assert_ok(check(context, &(job){.config = config}, NULL, &one));
        rung_config_destroy(&config);
        rungi_gradient_error many = of_stages(context, precisions[p], 0);
        print_message("%s: %.2e of one device, %.2e of stages\n", precisions[p], one.distance,
                      many.distance);
        assert_true(one.distance > 0 && one.distance < most[p]);
        assert_near(many.distance, one.distance, 1e-6 * one.distance);
        assert_near(many.largest, one.largest, 1e-6 * one.largest);
        // Weights that were moved by a hundredth are told.
        assert_true(of_stages(context, precisions[p], 0.01).distance > 1e-3);
    }
    rung_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_are_as_near_as_one_device),
    };
    return RUN_TESTS(tests);
}
