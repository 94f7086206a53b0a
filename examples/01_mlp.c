// SPDX-License-Identifier: Apache-2.0
// A multi-layer perceptron and a training loop of one's own, over arrays in memory: is a point of
// the plane inside of a ring?
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

enum { SAMPLES = 4096, BATCH = 64, EPOCHS = 20 };

static float points[SAMPLES][2];
static int64_t inside[SAMPLES];

int main(void)
{
    for (int i = 0; i < SAMPLES; i++) {
        float x = points[i][0] = 2.0f * (float)rand() / (float)RAND_MAX - 1;
        float y = points[i][1] = 2.0f * (float)rand() / (float)RAND_MAX - 1;
        inside[i] = x * x + y * y > 0.25f && x * x + y * y < 0.75f;
    }

    // The network, as a graph. Names, layers and initial weights are PyTorch's.
    rung_context *context;
    rung_graph *g;
    CHECK(rung_context_create(NULL, &context));
    CHECK(rung_graph_create(context, &g));
    rung_value x = rung_input(g, "point", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 2));
    rung_value label = rung_input(g, "label", RUNG_I64, RUNG_SHAPE(RUNG_BATCH));
    x = rung_relu(g, rung_linear(g, x, "fc1", .out = 32));
    x = rung_relu(g, rung_linear(g, x, "fc2", .out = 32));
    rung_graph_loss(g, rung_cross_entropy(g, rung_linear(g, x, "fc3", .out = 2), label, 0));

    // Its parameters on a device, the plan of a training step, and the optimizer.
    rung_device *device;
    rung_state *state;
    rung_plan *plan;
    rung_optimizer *optimizer;
    int64_t size;
    rung_optimizer_options adam = rung_optimizer_defaults(RUNG_OPTIMIZER_ADAM);
    CHECK(rung_device_create(context, "cpu:0", NULL, &device));
    CHECK(rung_state_create(g, device, &state));
    CHECK(rung_state_init(state, 0));
    CHECK(rung_compile(g, state,
                       &(rung_compile_options){.batch = BATCH, .training = true, .gradients = true},
                       &plan));
    CHECK(rung_optimizer_for_state(context, &adam, state, &optimizer));

    double mean = 0;
    for (int epoch = 1; epoch <= EPOCHS; epoch++, mean = 0) {
        for (int i = 0; i < SAMPLES; i += BATCH) {
            float loss;
            CHECK(rung_plan_bind(plan, "point", points[i]));
            CHECK(rung_plan_bind(plan, "label", &inside[i]));
            CHECK(rung_plan_forward(plan));
            CHECK(rung_plan_backward(plan)); // overwrites the gradients: nothing to zero
            CHECK(rung_plan_loss(plan, &loss));
            CHECK(rung_optimizer_step(optimizer, rung_state_params(state, &size),
                                      rung_state_grads(state, &size),
                                      &(rung_optimizer_update){.rates = {.lr = 0.01}}, NULL));
            mean += loss * BATCH / SAMPLES;
        }
        printf("epoch %2d  loss %.4f\n", epoch, mean);
    }

    rung_optimizer_destroy(&optimizer);
    rung_plan_destroy(&plan);
    rung_state_destroy(&state);
    rung_graph_destroy(&g);
    rung_device_destroy(&device);
    rung_context_destroy(&context);
}
