// SPDX-License-Identifier: Apache-2.0
// A loss made of operators: focal loss (Lin et al. 2017), which turns down what is easy already.
// Backward needs nothing: it follows from the operators.
#include <rung/rung.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                              \
    do {                                                         \
        if ((call) != RUNG_OK) {                                 \
            fprintf(stderr, "%s\n", rung_error_last()->message); \
            exit(1);                                             \
        }                                                        \
    } while (0)

enum { BATCH = 64, STEPS = 100 };

// The mean over samples of -sum_k target[k] (1 - p[k])^2 log p[k], with p the softmax of the logits
// and target 1 for the true class, else 0.
static rung_value focal_loss(rung_graph *g, rung_value logits, rung_value target)
{
    rung_value log_p = rung_log_softmax(g, logits, 1);
    rung_value miss = rung_scale(g, rung_softmax(g, logits, 1), -1, 1); // 1 - p
    rung_value loss = rung_mul(g, target, rung_mul(g, rung_mul(g, miss, miss), log_p));
    return rung_scale(g, rung_mean(g, rung_sum(g, loss, .dims = RUNG_DIMS(1)), 0), -1, 0);
}

int main(void)
{
    rung_context *context;
    rung_graph *g;
    CHECK(rung_context_create(NULL, &context));
    CHECK(rung_graph_create(context, &g));
    rung_value x = rung_input(g, "x", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 2));
    rung_value target = rung_input(g, "target", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 3));
    rung_value h = rung_tanh(g, rung_linear(g, x, "fc1", .out = 16));
    rung_graph_loss(g, focal_loss(g, rung_linear(g, h, "fc2", .out = 3), target));

    rung_device *device;
    rung_state *state;
    rung_plan *plan;
    rung_optimizer *optimizer;
    rung_optimizer_options adam = rung_optimizer_defaults(RUNG_OPTIMIZER_ADAM);
    int64_t size;
    CHECK(rung_device_create(context, "cpu:0", NULL, &device));
    CHECK(rung_state_create(g, device, &state));
    CHECK(rung_state_init(state, 0));
    CHECK(rung_compile(g, state,
                       &(rung_compile_options){.batch = BATCH, .training = true, .gradients = true},
                       &plan));
    CHECK(rung_optimizer_for_state(context, &adam, state, &optimizer));

    // Three sectors of the plane.
    for (int step = 1; step <= STEPS; step++) {
        float xs[BATCH][2], targets[BATCH][3] = {0}, loss;
        for (int i = 0; i < BATCH; i++) {
            xs[i][0] = 2.0f * (float)rand() / (float)RAND_MAX - 1;
            xs[i][1] = 2.0f * (float)rand() / (float)RAND_MAX - 1;
            targets[i][xs[i][0] > 0 ? 0 : xs[i][1] > 0 ? 1 : 2] = 1;
        }
        CHECK(rung_plan_bind(plan, "x", xs));
        CHECK(rung_plan_bind(plan, "target", targets));
        CHECK(rung_plan_forward(plan));
        CHECK(rung_plan_backward(plan));
        CHECK(rung_plan_loss(plan, &loss));
        CHECK(rung_optimizer_step(optimizer, rung_state_params(state, &size),
                                  rung_state_grads(state, &size),
                                  &(rung_optimizer_update){.rates = {.lr = 0.05}}, NULL));
        if (step % 20 == 0)
            printf("step %3d  loss %.4f\n", step, (double)loss);
    }

    rung_optimizer_destroy(&optimizer);
    rung_plan_destroy(&plan);
    rung_state_destroy(&state);
    rung_graph_destroy(&g);
    rung_device_destroy(&device);
    rung_context_destroy(&context);
}
