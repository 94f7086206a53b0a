// SPDX-License-Identifier: Apache-2.0
// For tests that run one kernel of an operator for an instruction set of their choice.
#ifndef RUNGI_OPS_TRIAL_TESTING_H
#define RUNGI_OPS_TRIAL_TESTING_H

#include "testing.h"

#include <math.h>

#include "base/context.h"
#include "ops/trial.h"

enum { WEIGHT, DATA }; // backward passes of linear layers and convolutions

static inline const rungi_kernel *named(const rungi_query *q, const char *name)
{
    const rungi_kernel *const *list = rungi_query_kernels(q, RUNGI_CPU);
    for (int i = 0; list[i]; i++)
        if (strcmp(list[i]->name, name) == 0)
            return list[i];
    fail_msg("no kernel %s", name);
    return NULL;
}

static inline void run(rungi_trial *t, int pass, const char *kernel, rung_isa isa, int threads)
{
    rungi_operand gin[RUNGI_CASE_INPUTS];
    t->threads = threads;
    rungi_query q = rungi_trial_query(t, pass, ~0u, gin);
    rungi_reason why;
    q.isa = isa;
    const rungi_kernel *k = named(&q, kernel);
    if (k->can_run && !k->can_run(&q, &why))
        fail_msg("%s: %s", kernel, why.text);
    assert_ok(rungi_trial_run(t, &q, k, 1));
    assert_true(rungi_trial_guards(t));
}

// The largest difference, of the largest value or `top`, if that is larger.
static inline double error_of(const rungi_trial *t, const rungi_operand *got,
                              const rungi_trial *truth, const rungi_operand *want, double top)
{
    double apart = 0;
    for (int64_t i = 0; i < rungi_operand_count(got); i++) {
        double value = rungi_trial_get(truth, want, i);
        top = fmax(top, fabs(value));
        apart = fmax(apart, fabs(rungi_trial_get(t, got, i) - value));
    }
    return apart / top;
}

static inline double error(const rungi_trial *t, const rungi_operand *got, const rungi_trial *truth,
                           const rungi_operand *want)
{
    return error_of(t, got, truth, want, 0);
}

#endif
