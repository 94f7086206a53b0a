// SPDX-License-Identifier: Apache-2.0
// 100 steps with PyTorch's gradients: tests/fixtures/optim_steps.txt, made by
// tools/fixtures/optim.py. Ours must lie within 1e-6 of each tensor's largest value.
#include "testing.h"

#include <math.h>
#include <stdio.h>

#include "base/philox.h"
#include "rung/optim.h"

enum { STEPS = 100, TENSORS = 3, SIZE = 96 };

// The fixture's tensors, with padding and unaligned ends.
static const rung_segment segments[TENSORS] = {
    {"weight", 0, 37, 0, false}, {"bias", 48, 53, 0, false}, {"other", 71, 95, 0, false}};

typedef struct fixture_case {
    char name[64];
    rung_optimizer_options options;
    rung_param_group group; // of "other", if lr_multiplier is set
    double max_grad_norm, max_grad_value;
    bool falling; // the rate is lr * (1 - step / 200)
} fixture_case;

static void set_option(fixture_case *c, const char *key, const char *value)
{
    double number = atof(value);
    if (strcmp(key, "kind") == 0) {
        rung_optimizer_kind kind;
        assert_ok(rung_optimizer_find(value, &kind));
        c->options = rung_optimizer_defaults(kind);
        return;
    }
    const struct {
        const char *key;
        double *number;
    } numbers[] = {
        {"lr", &c->options.lr},
        {"momentum", &c->options.momentum},
        {"dampening", &c->options.dampening},
        {"weight_decay", &c->options.weight_decay},
        {"beta1", &c->options.betas[0]},
        {"beta2", &c->options.betas[1]},
        {"eps", &c->options.eps},
        {"group_lr", &c->group.lr_multiplier},
        {"group_weight_decay", &c->group.weight_decay},
        {"max_grad_norm", &c->max_grad_norm},
        {"max_grad_value", &c->max_grad_value},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (strcmp(key, numbers[i].key) == 0) {
            *numbers[i].number = number;
            return;
        }
    }
    if (strcmp(key, "nesterov") == 0)
        c->options.nesterov = true;
    else if (strcmp(key, "falling") == 0)
        c->falling = true;
    else
        fail_msg("unknown option %s in the fixture", key);
}

static fixture_case read_case(char *line)
{
    fixture_case c = {0};
    char *save = NULL;
    strtok_r(line, " \n", &save);
    snprintf(c.name, sizeof c.name, "%s", strtok_r(NULL, " \n", &save));
    for (char *word; (word = strtok_r(NULL, " \n", &save));) {
        char *value = strchr(word, '=');
        assert_non_null(value);
        *value = 0;
        set_option(&c, word, value + 1);
    }
    return c;
}

// As initial() and gradient() of the script.
static void make_initial(float *params)
{
    for (int t = 0; t < TENSORS; t++) {
        rungi_random random = rungi_random_make(11, RUNGI_PURPOSE_TEST, (uint64_t)t, 0, 0);
        for (int64_t i = 0; i < segments[t].end - segments[t].begin; i++)
            params[segments[t].begin + i] =
                rungi_unit_f32(rungi_random_block(&random, (uint64_t)i).v[0]) - 0.5f;
    }
}

static void make_gradients(float *grads, int step)
{
    for (int t = 0; t < TENSORS; t++) {
        rungi_random random =
            rungi_random_make(12, RUNGI_PURPOSE_TEST, (uint64_t)t, (uint64_t)step, 0);
        for (int64_t i = 0; i < segments[t].end - segments[t].begin; i++) {
            float unit = rungi_unit_f32(rungi_random_block(&random, (uint64_t)i).v[0]);
            float scale = ldexpf(1, -8 * (int)(i % 4));
            grads[segments[t].begin + i] = i % 11 == 10 ? 0 : (unit - 0.375f) * scale;
        }
    }
}

static rung_optimizer *train(fixture_case *c, float *params)
{
    rung_segment list[TENSORS];
    memcpy(list, segments, sizeof list);
    if (c->group.lr_multiplier > 0) {
        c->options.groups = &c->group;
        c->options.group_count = 1;
        list[2].group = 1;
    }
    rung_context *context = NULL;
    rung_optimizer *optimizer = NULL;
    assert_ok(rung_context_create(NULL, &context));
    assert_ok(rung_optimizer_create(context, &c->options, list, TENSORS, &optimizer));
    float grads[SIZE] = {0};
    make_initial(params);
    for (int step = 0; step < STEPS; step++) {
        make_gradients(grads, step);
        double lr = c->options.lr * (c->falling ? 1 - step / 200.0 : 1);
        assert_ok(rung_optimizer_step(optimizer, params, grads,
                                      &(rung_optimizer_update){.rates.lr = lr,
                                                               .max_grad_norm = c->max_grad_norm,
                                                               .max_grad_value = c->max_grad_value},
                                      NULL));
    }
    rung_context_destroy(&context);
    return optimizer;
}

// The range in our buffers of a fixture's "weight" or "weight.exp_avg".
static const float *find_tensor(const rung_optimizer *optimizer, const float *params,
                                const char *name, int64_t *count_out)
{
    for (int t = 0; t < TENSORS; t++) {
        size_t length = strlen(segments[t].name);
        if (strncmp(name, segments[t].name, length) != 0)
            continue;
        *count_out = segments[t].end - segments[t].begin;
        if (name[length] == 0)
            return params + segments[t].begin;
        for (int i = 0; i < rung_optimizer_state_count(optimizer); i++)
            if (strcmp(name + length + 1, rung_optimizer_state_name(optimizer, i)) == 0)
                return rung_optimizer_state_data(optimizer, i) + segments[t].begin;
    }
    fail_msg("unknown tensor %s in the fixture", name);
    return NULL;
}

// Checks one line "tensor NAME COUNT values"; returns the difference over the largest value.
static double check_tensor(const fixture_case *c, const rung_optimizer *optimizer,
                           const float *params, char *line)
{
    char *save = NULL;
    strtok_r(line, " ", &save);
    const char *name = strtok_r(NULL, " ", &save);
    int64_t count = 0;
    const float *ours = find_tensor(optimizer, params, name, &count);
    assert_int_equal(atoll(strtok_r(NULL, " ", &save)), count);
    double largest = 0, difference = 0;
    for (int64_t i = 0; i < count; i++) {
        double theirs = strtod(strtok_r(NULL, " ", &save), NULL);
        largest = fmax(largest, fabs(theirs));
        difference = fmax(difference, fabs(theirs - (double)ours[i]));
    }
    if (!(difference <= 1e-6 * largest))
        fail_msg("%s: %s differs by %g of its largest value", c->name, name, difference / largest);
    return difference / largest;
}

static void equals_pytorch(void **state)
{
    (void)state;
    FILE *file = fopen(RUNG_SOURCE_DIR "/tests/fixtures/optim_steps.txt", "r");
    assert_non_null(file);
    static char line[16384];
    fixture_case c = {0};
    rung_optimizer *optimizer = NULL;
    float params[SIZE] = {0};
    int cases = 0, tensors = 0;
    double worst = 0;
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, "case ", 5) == 0) {
            rung_optimizer_destroy(&optimizer);
            c = read_case(line);
            optimizer = train(&c, params);
            cases++;
        } else if (strncmp(line, "tensor ", 7) == 0) {
            worst = fmax(worst, check_tensor(&c, optimizer, params, line));
            tensors++;
        }
    }
    fclose(file);
    rung_optimizer_destroy(&optimizer);
    assert_int_equal(cases, 14);
    assert_int_equal(tensors, 3 * (1 + 5 * 2 + 8 * 3));
    print_message("largest difference: %.2g of a tensor's largest value\n", worst);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_pytorch),
    };
    return RUN_TESTS(tests);
}
