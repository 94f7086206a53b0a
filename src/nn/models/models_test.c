// SPDX-License-Identifier: Apache-2.0
#include "testing.h"

#include "rung/models.h"
#include "rung/state.h"

static rung_context *context;
static rung_device *device;

static int set_up(void **state)
{
    (void)state;
    return rung_context_create(NULL, &context) ||
           rung_device_create(context, "cpu:0", NULL, &device);
}

static int tear_down(void **state)
{
    (void)state;
    rung_device_destroy(&device);
    rung_context_destroy(&context);
    return 0;
}

static rung_state *state_of(const char *name, rung_shape image, rung_model_options options,
                            rung_graph **graph_out)
{
    rung_state *s;
    rung_value logits;
    assert_ok(rung_graph_create(context, graph_out));
    rung_value x = rung_input(*graph_out, "image", RUNG_F32, image);
    assert_ok(rung_model_build(*graph_out, name, &options, x, &logits));
    assert_ok(rung_graph_check(*graph_out));
    rung_shape shape = rung_value_shape(*graph_out, logits);
    assert_int_equal(shape.dim[0], RUNG_BATCH);
    assert_int_equal(shape.dim[1], options.classes);
    assert_ok(rung_state_create(*graph_out, device, &s));
    return s;
}

// Parameter counts: the network's publication, torchvision 0.x's documentation.
static void parameter_counts(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        rung_shape image;
        rung_model_options options;
        int64_t count;
    } models[] = {
        {"dlf_cnn", {4, {RUNG_BATCH, 3, 32, 32}}, {.classes = 10}, 3441592},
        {"resnet18", {4, {RUNG_BATCH, 3, 224, 224}}, {.classes = 1000}, 11689512},
        {"mlp", {2, {RUNG_BATCH, 784}}, {.classes = 10}, 784 * 512 + 512 + 512 * 10 + 10},
        {"lenet5", {4, {RUNG_BATCH, 1, 28, 28}}, {.classes = 10}, 61706},
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        rung_graph *g;
        rung_state *s = state_of(models[i].name, models[i].image, models[i].options, &g);
        assert_int_equal(rung_state_param_count(s), models[i].count);
        rung_state_destroy(&s);
        rung_graph_destroy(&g);
    }
}

// Names as in torchvision's state_dict.
static void resnet_names(void **state)
{
    (void)state;
    static const char *const names[] = {
        "conv1.weight",
        "bn1.running_mean",
        "layer1.0.conv1.weight",
        "layer1.1.bn2.bias",
        "layer2.0.downsample.0.weight",
        "layer2.0.downsample.1.running_var",
        "layer4.1.bn2.num_batches_tracked",
        "fc.weight",
        "fc.bias",
    };
    rung_graph *g;
    rung_state *s = state_of("resnet18", RUNG_SHAPE(RUNG_BATCH, 3, 32, 32),
                             (rung_model_options){.classes = 10, .stem = RUNG_STEM_CIFAR}, &g);
    rung_state_entry e;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_true(rung_state_find(s, names[i], &e));
    assert_int_equal(rung_state_count(s), 122); // torchvision's state_dict has 122 entries
    rung_state_destroy(&s);
    rung_graph_destroy(&g);
}

static void unknown_model(void **state)
{
    (void)state;
    rung_graph *g;
    rung_value logits;
    assert_ok(rung_graph_create(context, &g));
    rung_value x = rung_input(g, "image", RUNG_F32, RUNG_SHAPE(RUNG_BATCH, 4));
    assert_fails(RUNG_NOT_FOUND, "no model 'resnet81' (did you mean 'resnet18'?)",
                 rung_model_build(g, "resnet81", &(rung_model_options){.classes = 2}, x, &logits));
    rung_graph_destroy(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(parameter_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(resnet_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unknown_model, set_up, tear_down),
    };
    return RUN_TESTS(tests);
}
