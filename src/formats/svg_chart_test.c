// SPDX-License-Identifier: Apache-2.0
// Texts of charts do not overlap and lie inside, whatever the data and the names are.
//
//   svg_chart_test --write DIR    writes samples to look at
#include "scratch.h"

#include <math.h>

#include "base/philox.h"
#include "formats/svg_chart.h"
#include "formats/svg_draw.h"

enum { POINTS = 400, TEXTS_MAX = 200 };

typedef struct box {
    double left, right, top, bottom;
    char text[300];
} box;

static double attribute(const char *element, const char *name)
{
    char wanted[32];
    snprintf(wanted, sizeof wanted, " %s=\"", name);
    const char *at = strstr(element, wanted);
    const char *end = strchr(element, '>');
    assert_true(at && at < end);
    return strtod(at + strlen(wanted), NULL);
}

// The text with its entities resolved.
static void copy_text(char *out, size_t size, const char *at, const char *end)
{
    static const struct {
        const char *entity, *text;
    } entities[] = {{"&lt;", "<"}, {"&amp;", "&"}, {"&quot;", "\""}};
    size_t n = 0;
    while (at < end) {
        const char *text = NULL;
        for (int i = 0; i < 3 && !text; i++)
            if (strncmp(at, entities[i].entity, strlen(entities[i].entity)) == 0) {
                text = entities[i].text;
                at += strlen(entities[i].entity) - 1;
            }
        assert_true(n + 1 < size);
        out[n++] = text ? *text : *at;
        at++;
    }
    out[n] = 0;
}

// The box of each text element, from its place, its anchor and the width of its characters.
static int find_texts(const char *svg, box *boxes)
{
    int count = 0;
    for (const char *at = strstr(svg, "<text"); at; at = strstr(at + 1, "<text")) {
        const char *content = strchr(at, '>') + 1, *end = strstr(content, "</text>");
        const char *tooltip = strstr(content, "</title>");
        if (tooltip && tooltip < end)
            content = tooltip + 8;
        box *b = &boxes[count++];
        assert_true(count < TEXTS_MAX);
        copy_text(b->text, sizeof b->text, content, end);
        double size = attribute(at, "font-size"), x = attribute(at, "x"), y = attribute(at, "y");
        double width = rungi_svg_text_width(b->text, size);
        const char *anchor = strstr(at, "text-anchor=\"");
        bool middle = anchor && anchor < content && strncmp(anchor + 13, "middle", 6) == 0;
        bool right = anchor && anchor < content && strncmp(anchor + 13, "end", 3) == 0;
        b->left = x - (right ? width : middle ? width / 2 : 0);
        b->right = b->left + width;
        b->top = y - 0.8 * size;
        b->bottom = y + 0.2 * size;
    }
    return count;
}

static void check_drawing(const char *svg, const char *name)
{
    static box boxes[TEXTS_MAX];
    assert_true(strncmp(svg, "<svg ", 5) == 0);
    double width = attribute(svg, "width"), height = attribute(svg, "height");
    int count = find_texts(svg, boxes);
    for (int i = 0; i < count; i++) {
        const box *a = &boxes[i];
        if (a->left < 0 || a->right > width + 1 || a->top < 0 || a->bottom > height)
            fail_msg("%s: \"%s\" leaves the drawing", name, a->text);
        for (int j = 0; j < i; j++) {
            const box *b = &boxes[j];
            if (a->left < b->right && b->left < a->right && a->top < b->bottom &&
                b->top < a->bottom)
                fail_msg("%s: \"%s\" and \"%s\" overlap", name, a->text, b->text);
        }
    }
    assert_null(strstr(svg, "nan"));
    assert_null(strstr(svg, "inf"));
    if (strncmp(svg + strlen(svg) - 7, "</svg>\n", 7) != 0)
        fail_msg("%s: not closed", name);
}

static double xs[8][POINTS], ys[8][POINTS];
static rungi_svg_series series[8];

// Loss curves: falling, noisy.
static void make_curves(size_t count, double scale)
{
    rungi_random random = rungi_random_make(5, RUNGI_PURPOSE_TEST, 0, 0, 0);
    static const char *const names[] = {"train",   "validation", "baseline",  "fused",
                                        "workers", "layout",     "precision", "all"};
    for (size_t k = 0; k < count; k++) {
        for (int i = 0; i < POINTS; i++) {
            xs[k][i] = i * 10;
            double noise = rungi_random_normal(&random, k * POINTS + (uint64_t)i) * 0.06;
            ys[k][i] = scale * (0.25 + 0.08 * (double)k + 2 * exp(-i / (40.0 + 20 * (double)k))) *
                       exp(noise);
        }
        series[k] = (rungi_svg_series){names[k], xs[k], ys[k], POINTS, false, 0};
    }
}

static void finish(rungi_string *out, const char *folder, const char *name)
{
    if (folder) {
        char path[RUNGI_PATH_MAX];
        assert_ok(rungi_path_format(path, "%s/%s.svg", folder, name));
        scratch_write(path, out->data, out->size);
    } else {
        check_drawing(out->data, name);
    }
    rungi_string_fini(out);
}

static void lines(const char *folder, const char *name, rungi_svg_lines chart)
{
    rungi_string out = {0};
    chart.series = series;
    assert_ok(rungi_svg_line_chart(&chart, &out));
    finish(&out, folder, name);
}

static void all_lines(const char *folder)
{
    rungi_svg_lines plain = {"Loss", "step", "cross entropy", false, 0, 0, NULL, 0};
    // What a run shows: smoothed training loss, few validation points.
    make_curves(2, 1);
    series[0].smooth = 0.9;
    for (int i = 0; i < 10; i++) {
        xs[1][i] = 390 * (i + 1);
        ys[1][i] = 0.35 + 1.5 * exp(-i / 2.0);
    }
    series[1].count = 10;
    series[1].points = true;
    plain.count = 2;
    lines(folder, "loss", plain);
    plain.log_y = true;
    lines(folder, "loss_log", plain);
    for (size_t k = 1; k <= 8; k++) {
        char text[32];
        make_curves(k, 1);
        plain.count = k;
        plain.log_y = k % 2;
        snprintf(text, sizeof text, "series_%zu", k);
        lines(folder, text, plain);
    }
    static const char *const longs[] = {
        "validation loss of the configuration with fused bias and activation, channels last",
        "a name much longer than the drawing is wide, which ends in dots and is whole in a tip",
        "\u5b66\u4e60\u7387 \u635f\u5931 \u043f\u043e\u0442\u0435\u0440\u0438",
        "<b>&\"quotes\"</b>",
        "control \x01 and bad \xff bytes",
        "short",
        "layer3.1.conv2.weight",
        "x"};
    make_curves(8, 1);
    for (int k = 0; k < 8; k++)
        series[k].name = longs[k];
    plain = (rungi_svg_lines){longs[1], longs[1], longs[0], false, 0, 0, NULL, 8};
    lines(folder, "long_names", plain);
    plain.width = 320;
    plain.height = 200;
    lines(folder, "long_names_narrow", plain);
    // Gaps, lone points, one point, none, constants.
    make_curves(3, 1);
    for (int i = 0; i < POINTS; i++) {
        if (i % 50 > 30)
            ys[0][i] = NAN;
        if (i % 40)
            ys[1][i] = i % 3 ? NAN : INFINITY;
    }
    plain = (rungi_svg_lines){"Gaps and lone points", "step", NULL, false, 0, 0, NULL, 3};
    lines(folder, "gaps", plain);
    series[0].count = 1;
    plain = (rungi_svg_lines){"One point", "step", "loss", false, 0, 0, NULL, 1};
    lines(folder, "one_point", plain);
    plain.log_y = true;
    lines(folder, "one_point_log", plain);
    series[0].count = 0;
    lines(folder, "no_data", plain);
    plain.count = 0;
    lines(folder, "no_series", plain);
    make_curves(1, 0);
    plain = (rungi_svg_lines){"Zero", "step", "loss", false, 0, 0, NULL, 1};
    lines(folder, "zero", plain);
    plain.log_y = true;
    lines(folder, "zero_log", plain);
}

// Ranges of all sizes, both axes.
static void all_ranges(const char *folder)
{
    static const double scales[] = {1e-300, 1e-12, 1e-5, 0.003, 1,    37,
                                    12345,  1e7,   3e11, 1e20,  1e300};
    rungi_svg_lines plain = {NULL, "time in seconds", "value", false, 0, 0, NULL, 1};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
        for (int kind = 0; kind < 4; kind++) {
            char text[64];
            make_curves(1, scales[i]);
            for (int j = 0; j < POINTS; j++) {
                if (kind & 1)
                    ys[0][j] = scales[i] * (1 + 1e-3 * j / POINTS) * (kind & 2 ? 1 : -1);
                xs[0][j] *= i % 3 ? 1 : scales[i];
            }
            plain.log_y = kind & 2;
            snprintf(text, sizeof text, "range_%zu_%d", i, kind);
            lines(folder, text, plain);
        }
    // Many orders of magnitude.
    for (int j = 0; j < POINTS; j++)
        ys[0][j] = pow(10, 290.0 * j / POINTS - 145);
    plain.log_y = true;
    lines(folder, "range_wide", plain);
}

static void bars(const char *folder, const char *name, rungi_svg_bars chart)
{
    rungi_string out = {0};
    assert_ok(rungi_svg_bar_chart(&chart, &out));
    finish(&out, folder, name);
}

static void all_bars(const char *folder)
{
    static const rungi_svg_bar ladder[] = {
        {"base", 1, 0.99, 1.01, RUNGI_SVG_NEUTRAL, "base"},
        {"loader workers", 1.31, 1.27, 1.36, RUNGI_SVG_GOOD, "kept"},
        {"prefetch", 1.33, 1.28, 1.37, RUNGI_SVG_NEUTRAL, "no clear change"},
        {"fusion", 1.52, 1.49, 1.56, RUNGI_SVG_GOOD, "kept"},
        {"channels last", 1.21, 1.1, 1.3, RUNGI_SVG_WORSE, "slower"},
        {"bf16", 1.9, 1.85, 1.96, RUNGI_SVG_WRONG, "wrong"},
        {"pinned memory", NAN, NAN, NAN, RUNGI_SVG_ABSENT,
         "not available: CPU device reads the slot"},
        {"threads", 1.98, 1.7, 2.4, RUNGI_SVG_GOOD, "kept"},
    };
    rungi_svg_bars plain = {
        "Throughput against base", "samples/s relative to base", "\u00d7", 1, "base", 0, ladder, 8};
    bars(folder, "bars", plain);
    plain.width = 420;
    bars(folder, "bars_narrow", plain);
    static const rungi_svg_bar odd[] = {
        {"a rung with a name that is far too long to stand on the left of its bar", 12345678, 1e7,
         1.5e7, RUNGI_SVG_GOOD, "kept, and the note is much too long as well for its column"},
        {"negative", -3e6, -4e6, -2e6, RUNGI_SVG_WORSE, NULL},
        {"no interval", 5e6, NAN, NAN, RUNGI_SVG_NEUTRAL, "x"},
        {"not a number", NAN, 1, 2, RUNGI_SVG_WRONG, "diverged"},
        {NULL, 0, 0, 0, RUNGI_SVG_GOOD, NULL},
    };
    plain = (rungi_svg_bars){odd[0].label, odd[0].label, " samples/s", NAN, NULL, 0, odd, 5};
    bars(folder, "bars_odd", plain);
    plain.count = 0;
    bars(folder, "bars_none", plain);
    plain = (rungi_svg_bars){NULL, NULL, NULL, 0, "zero", 0, odd + 4, 1};
    bars(folder, "bars_zero", plain);
}

static double unit_number(const rungi_random *random, int index)
{
    return rungi_unit_f64(rungi_random_u64(random, (uint64_t)index));
}

static void roofline(const char *folder, const char *name, rungi_svg_roofline chart)
{
    rungi_string out = {0};
    assert_ok(rungi_svg_roofline_chart(&chart, &out));
    finish(&out, folder, name);
}

// Steps of a network: half of them bound by memory, half by arithmetic, some in caches.
static void all_rooflines(const char *folder)
{
    enum { MANY = 70 };
    static const char *const groups[] = {"conv2d",  "batch_norm", "linear", "add",
                                         "relu",    "max_pool2d", "sgd",    "dropout",
                                         "reorder", "flatten"};
    static rungi_svg_point points[MANY];
    static char labels[MANY][64];
    rungi_random random = rungi_random_make(6, RUNGI_PURPOSE_TEST, 0, 0, 0);
    double total = 0;
    for (int i = 0; i < MANY; i++) {
        double bytes = exp(12 + 5 * unit_number(&random, i * 4));
        double flops = bytes * exp(8 * unit_number(&random, i * 4 + 1) - 2);
        double slow = 1 + 3 * unit_number(&random, i * 4 + 2);
        snprintf(labels[i], sizeof labels[i], "layer%d.%d.conv%d backward_weight", i / 16,
                 i / 4 % 4, i % 4);
        points[i] = (rungi_svg_point){labels[i], groups[i % 10], i % 9 ? flops : 0, bytes,
                                      fmax(bytes / 31e9, flops / 202e9) * slow};
        total += points[i].seconds;
    }
    rungi_svg_roofline chart = {"resnet18, batch 16: a training step of 612 ms",
                                202e9,
                                31e9,
                                101e9,
                                24e9,
                                2,
                                total,
                                0,
                                0,
                                points,
                                MANY};
    roofline(folder, "roofline", chart);
    chart.width = 640;
    chart.height = 420;
    roofline(folder, "roofline_narrow", chart);
    chart.threads = 1;
    chart.count = 1;
    chart.title = NULL;
    roofline(folder, "roofline_one", chart);
    points[0] = (rungi_svg_point){"nothing", "none", 0, 0, 0};
    points[1] = (rungi_svg_point){"instant", "none", 1e9, 1e9, 0};
    points[2] = (rungi_svg_point){"far <away> & \"quoted\"", "odd", 1e15, 1, 1};
    chart.count = 3;
    roofline(folder, "roofline_odd", chart);
    chart.count = 0;
    chart.total = 0;
    roofline(folder, "roofline_none", chart);
}

static void texts_of_rooflines(void **state)
{
    (void)state;
    all_rooflines(NULL);
}

static void stack(const char *folder, const char *name, rungi_svg_stack chart)
{
    rungi_string out = {0};
    assert_ok(rungi_svg_stack_chart(&chart, &out));
    finish(&out, folder, name);
}

static void all_stacks(const char *folder)
{
    enum { STEPS = 60 };
    static double low[STEPS], high[STEPS], odd[STEPS];
    for (int i = 0; i < STEPS; i++) {
        low[i] = 40;
        high[i] = i < 30 ? i * 3 : (60 - i) * 3;
        odd[i] = i % 7 ? 1 : i % 2 ? NAN : -5;
    }
    const rungi_svg_layer layers[] = {
        {"weights", low},
        {"activations", high},
        {"what some layers with a name that is far too long for any legend keep", odd}};
    const rungi_svg_part parts[] = {{"forward", 0}, {"backward", 30}, {"optimizer", 58}};
    rungi_svg_stack chart = {"Memory of a training step",
                             "MiB",
                             "peak 130 MiB: layer4.1.conv2 conv2d.backward_weight",
                             0,
                             0,
                             layers,
                             2,
                             STEPS,
                             parts,
                             3};
    stack(folder, "stack", chart);
    chart.count = 3;
    chart.width = 300;
    chart.height = 100;
    stack(folder, "stack_narrow", chart);
    chart.points = 1;
    chart.n_parts = 1;
    stack(folder, "stack_one", chart);
    chart.points = chart.n_parts = 0;
    stack(folder, "stack_none", chart);
}

static void texts_of_stacks(void **state)
{
    (void)state;
    all_stacks(NULL);
}

// Two layers of 1, 3 and 2, 2: edges at 1, 3 and 3, 5 of an axis that ends at 5.
static void layers_stand_on_each_other(void **state)
{
    (void)state;
    const double one[] = {1, 3}, two[] = {2, 2};
    const rungi_svg_layer layers[] = {{"one", one}, {"two", two}};
    rungi_svg_stack chart = {.layers = layers, .count = 2, .points = 2};
    rungi_string out = {0};
    assert_ok(rungi_svg_stack_chart(&chart, &out));
    double edge[2][8]; // heights of each path's corners
    const char *at = out.data;
    for (int k = 0; k < 2; k++) {
        at = strstr(at, " d=\"M") + 5;
        for (int i = 0; i < 8; i++) {
            char *end;
            strtod(at, &end);
            edge[k][i] = strtod(end, &end);
            at = end + 1;
        }
    }
    double zero = edge[0][4], unit = (zero - edge[0][0]);
    const double expected[2][8] = {{1, 1, 3, 3, 0, 0, 0, 0}, {3, 3, 5, 5, 3, 3, 1, 1}};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 8; i++)
            assert_near((zero - edge[k][i]) / unit, expected[k][i], 0.01);
    rungi_string_fini(&out);
}

static void texts_of_lines(void **state)
{
    (void)state;
    all_lines(NULL);
}

static void texts_of_ranges(void **state)
{
    (void)state;
    all_ranges(NULL);
}

static void texts_of_bars(void **state)
{
    (void)state;
    all_bars(NULL);
}

static void tick_labels(void **state)
{
    (void)state;
    static const struct {
        double low, high;
        bool log, integers;
        const char *wanted;
    } cases[] = {
        {0, 1, false, false, "0 0.2 0.4 0.6 0.8 1.0 "},
        {0, 10, false, false, "0 2 4 6 8 10 "},
        {0.9981, 1.0004, false, false, "0.9985 0.9990 0.9995 1.0000 "},
        {0, 3, false, true, "0 1 2 3 "},
        {0, 50000, false, true, "0 10k 20k 30k 40k 50k "},
        {0, 2500000, false, true, "0 0.5M 1.0M 1.5M 2.0M 2.5M "},
        {-1, 1, false, false, "-1.0 -0.5 0 0.5 1.0 "},
        {0, 0.00003, false, false, "0 1e-5 2e-5 3e-5 "},
        {0.001, 10, true, false, "0.001 0.01 0.1 1 10 "},
        {0.1, 10, true, false, "0.1 0.2 0.5 1 2 5 10 "},
        {1e-8, 1e-2, true, false, "1e-8 1e-6 0.0001 0.01 "},
        {100, 1e6, true, false, "100 1000 10k 100k 1M "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rungi_svg_axis axis = {
            .log = cases[i].log, .low = cases[i].low, .high = cases[i].high, .to = 1};
        char text[512] = "";
        rungi_svg_ticks(&axis, 5, cases[i].integers);
        for (int t = 0; t < axis.count; t++) {
            strcat(text, axis.label[t]);
            strcat(text, " ");
        }
        assert_string_equal(text, cases[i].wanted);
    }
}

// A million points give a drawing of bounded size that keeps their extremes.
static void thins_out(void **state)
{
    (void)state;
    enum { MANY = 1000000 };
    double *y = malloc(MANY * sizeof *y);
    for (int i = 0; i < MANY; i++)
        y[i] = i % 1000 / 1000.0;
    y[500500] = 9;
    y[700700] = -7;
    rungi_svg_series many = {"many", NULL, y, MANY, true, 0};
    rungi_svg_lines chart = {.series = &many, .count = 1};
    rungi_string out = {0};
    assert_ok(rungi_svg_line_chart(&chart, &out));
    assert_true(out.size < 60000);
    // Each point of the path: its extremes are where 9 and -7 of an axis from -10 to 10 are.
    double lowest = 0, highest = 1e9, zero = 0;
    int points = 0;
    const char *at = strstr(out.data, "stroke-width=\"1.75\" d=\"");
    assert_non_null(at);
    at = strchr(at, 'M');
    while (*at == 'M' || *at == 'L') {
        char *end;
        strtod(at + 1, &end);
        double v = strtod(end, &end);
        zero = points++ ? zero : v; // the first point is a zero
        lowest = fmax(lowest, v);
        highest = fmin(highest, v);
        at = end;
    }
    assert_true(points > 1000 && points < 4000);
    assert_true(fabs((zero - highest) / (lowest - zero) - 9 / 7.0) < 0.01);
    free(y);
    rungi_string_fini(&out);
}

// Where the axis begins at zero, a value of 90 among those up to 100 lies high above it.
static void from_zero(void **state)
{
    (void)state;
    static const double y[] = {100, 90};
    rungi_svg_series rates = {"rates", NULL, y, 2, true, 0};
    double share[2];
    for (int zero = 0; zero < 2; zero++) {
        rungi_string out = {0};
        double x, high, low;
        assert_ok(rungi_svg_line_chart(
            &(rungi_svg_lines){.from_zero = zero, .series = &rates, .count = 1, .height = 400},
            &out));
        const char *at = strstr(out.data, "stroke-width=\"1.75\" d=\"");
        assert_non_null(at);
        assert_int_equal(sscanf(strchr(at, 'M'), "M%lf %lfL%lf %lf", &x, &high, &x, &low), 4);
        share[zero] = (low - high) / 400;
        rungi_string_fini(&out);
    }
    assert_true(share[0] > 0.5 && share[1] < 0.1);
}

// However values lie, the axis has two numbers or more.
static void values_have_a_scale(void **state)
{
    (void)state;
    for (int k = 0; k < 2000; k++) {
        double low = 0.5 + k % 40 * 0.02, y[] = {low, low * (1.02 + k / 40 * 0.06)};
        rungi_svg_series loss = {"loss", NULL, y, 2, true, 0};
        rungi_string out = {0};
        int numbers = 0;
        assert_ok(rungi_svg_line_chart(
            &(rungi_svg_lines){
                .log_y = k % 2, .series = &loss, .count = 1, .height = 300 + k % 7 * 20},
            &out));
        for (const char *at = out.data; (at = strstr(at, "class=\"rg-grid\"")); at++)
            numbers++;
        if (numbers < 2 || numbers > 12)
            fail_msg("%g to %g: %d numbers", y[0], y[1], numbers);
        rungi_string_fini(&out);
    }
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--write") == 0) {
        all_lines(argv[2]);
        all_ranges(argv[2]);
        all_bars(argv[2]);
        all_rooflines(argv[2]);
        all_stacks(argv[2]);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(from_zero),       cmocka_unit_test(values_have_a_scale),
        cmocka_unit_test(texts_of_lines),  cmocka_unit_test(texts_of_ranges),
        cmocka_unit_test(texts_of_bars),   cmocka_unit_test(tick_labels),
        cmocka_unit_test(thins_out),       cmocka_unit_test(texts_of_rooflines),
        cmocka_unit_test(texts_of_stacks), cmocka_unit_test(layers_stand_on_each_other),
    };
    return RUN_TESTS(tests);
}
