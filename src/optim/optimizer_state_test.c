// SPDX-License-Identifier: Apache-2.0
#include "testing.h"

#include "rung/nn.h"
#include "rung/optim.h"

// fc1 decays, the bias of fc2 does not, fc2.weight is frozen. With gradients of zero an SGD step
// multiplies what decays by 1 - lr * weight_decay.
static void takes_the_parameters_of_a_state(void **state)
{
    (void)state;
    rung_context *context;
    rung_graph *g;
    rung_device *device;
    rung_state *s;
    rung_optimizer *optimizer;
    int64_t size;
    assert_ok(rung_context_create(NULL, &context));
    assert_ok(rung_graph_create(context, &g));
    rung_value x = rung_input(g, "x", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 3));
    x = rung_linear(g, x, "fc1", .out = 5, .no_bias = true);
    rung_value weight = rung_param(g, "fc2.weight", RUNG_SHAPE(2, 5), NULL);
    rung_value bias =
        rung_param(g, "fc2.bias", RUNG_SHAPE(2), &(rung_param_options){.no_decay = true});
    rung_buffer(g, "count", RUNG_F32, RUNG_SCALAR, 7);
    rung_graph_output(g, "y", rung_f_linear(g, x, weight, bias));
    assert_int_equal(rung_graph_freeze(g, "fc2.weight"), 1);
    assert_ok(rung_device_create(context, "cpu:0", NULL, &device));
    assert_ok(rung_state_create(g, device, &s));
    for (int i = 0; i < rung_state_count(s); i++) {
        rung_state_entry e = rung_state_at(s, i);
        int64_t count;
        assert_ok(rung_shape_count(&e.shape, &count));
        for (int64_t k = 0; k < count; k++)
            ((float *)e.data)[k] = 8;
    }

    rung_optimizer_options o = rung_optimizer_defaults(RUNG_OPTIMIZER_SGD);
    o.weight_decay = 0.5;
    assert_ok(rung_optimizer_for_state(context, &o, s, &optimizer));
    assert_ok(rung_optimizer_step(optimizer, rung_state_params(s, &size),
                                  rung_state_grads(s, &size),
                                  &(rung_optimizer_update){.rates = {.lr = 0.5}}, NULL));
    static const struct {
        const char *name;
        float value;
    } expected[] = {{"fc1.weight", 6}, {"fc2.weight", 8}, {"fc2.bias", 8}, {"count", 8}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        rung_state_entry e;
        assert_true(rung_state_find(s, expected[i].name, &e));
        assert_true(((float *)e.data)[0] == expected[i].value);
    }
    rung_optimizer_destroy(&optimizer);

    o.group_count = 1;
    assert_fails(RUNG_INVALID, "groups", rung_optimizer_for_state(context, &o, s, &optimizer));
    rung_state_destroy(&s);
    rung_graph_destroy(&g);
    rung_device_destroy(&device);
    rung_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(takes_the_parameters_of_a_state)};
    return RUN_TESTS(tests);
}
