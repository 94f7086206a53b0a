// SPDX-License-Identifier: Apache-2.0
#include "train/pipeline_stages.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "graph/plan.h"

// How much slower than the fastest stages may be where fewer bytes cross the cuts.
#define TOLERANCE 1.02

// What is known of each node, and of the places where the graph can be cut.
typedef struct survey {
    const rung_graph *g;
    const rungi_stages_options *o;
    int nodes;
    double *forward, *backward; // seconds, by node
    uint64_t *kept;             // bytes, by node
    uint64_t *fixed;            // bytes of parameters and what belongs to them, by the first reader
    int64_t *params;            // elements, likewise
    bool *can_cut;              // by node: before it
    uint64_t *cut_bytes;        // likewise
    int tied;                   // a parameter that made a cut impossible; 0: none
} survey;

// ---- what layers cost -------------------------------------------------------------------------

static double step_seconds(const survey *s, const rungi_step *step)
{
    return s->o->op_rate > 0 ? rungi_query_cost(&step->q).flops / s->o->op_rate * 1e-9
                             : rungi_step_seconds(step);
}

static void read_plan(survey *s, const rung_plan *p)
{
    for (int i = 0; i < (int)p->steps.count; i++) {
        const rungi_step *step = &p->steps.data[i];
        (i < p->n_forward ? s->forward : s->backward)[step->q.node] += step_seconds(s, step);
    }
    for (size_t i = 0; i < p->tensors.count; i++) {
        const rungi_tensor *t = &p->tensors.data[i];
        const rungi_value *v = &s->g->values.data[t->value];
        bool kept = t->kind == RUNGI_TENSOR_ARENA && t->root == (int)i && !t->is_grad && t->value &&
                    t->first >= 0 && t->first < p->n_forward && t->last >= p->n_forward;
        if (kept && v->kind == RUNGI_VALUE_NODE)
            s->kept[v->node] += t->bytes;
    }
}

static rung_status read_costs(survey *s, rung_device *device)
{
    rung_state *state = NULL;
    rung_plan *plan = NULL;
    rung_compile_options o = s->o->plan;
    o.plan_only = true;
    o.arena = NULL;
    o.budget = 0;
    RUNG_TRY(rungi_state_describe(s->g, device, &state));
    rung_status status = rung_compile(s->g, state, &o, &plan);
    if (status == RUNG_OK)
        read_plan(s, plan);
    rung_plan_destroy(&plan);
    rung_state_destroy(&state);
    return status;
}

static int first_reader(const rung_graph *g, int value)
{
    for (size_t k = 0; k < g->nodes.count; k++)
        for (int i = 0; i < g->nodes.data[k].n_in; i++)
            if (g->nodes.data[k].in[i] == value)
                return (int)k;
    return 0;
}

static rung_status read_params(survey *s)
{
    // Gradients, and a second buffer where those of several micro-batches are added.
    uint64_t copies = 2 + (uint64_t)s->o->optimizer_states + (s->o->micro > 1 || s->o->rounds > 1);
    for (int i = 1; i < (int)s->g->values.count; i++) {
        const rungi_value *v = &s->g->values.data[i];
        int64_t count;
        if (v->kind != RUNGI_VALUE_PARAM && v->kind != RUNGI_VALUE_BUFFER)
            continue;
        RUNG_TRY(rung_shape_count(&v->shape, &count));
        int node = first_reader(s->g, i);
        uint64_t bytes = (uint64_t)count * rung_dtype_size(v->dtype);
        s->fixed[node] += v->kind == RUNGI_VALUE_PARAM ? bytes * copies : bytes;
        s->params[node] += v->kind == RUNGI_VALUE_PARAM ? count : 0;
    }
    return RUNG_OK;
}

typedef struct crossing_sum {
    const survey *s;
    uint64_t bytes;
} crossing_sum;

static void add_crossing(void *user, int value, bool gradient, bool low)
{
    (void)gradient;
    crossing_sum *sum = user;
    const rung_graph *g = sum->s->g;
    const rungi_value *v = &g->values.data[value];
    int64_t symbols[RUNGI_MAX_SYMBOLS] = {sum->s->o->plan.batch};
    rung_shape shape = rungi_shape_resolve(g, &v->shape, symbols);
    rung_dtype precision = sum->s->o->plan.precision;
    sum->bytes += (uint64_t)rungi_shape_size(&shape) *
                  rung_dtype_size(low && precision != RUNG_F32 ? precision : v->dtype);
}

static rung_status read_cuts(survey *s)
{
    char why[256];
    for (int c = 1; c < s->nodes; c++) {
        crossing_sum sum = {s, 0};
        int tied = rungi_part_tied(s->g, c);
        s->tied = tied ? tied : s->tied;
        s->can_cut[c] = !tied && rungi_part_can_cut(s->g, c, why, sizeof why);
        if (!s->can_cut[c])
            continue;
        RUNG_TRY(rungi_part_crossings(s->g, c, add_crossing, &sum));
        s->cut_bytes[c] = sum.bytes;
    }
    return RUNG_OK;
}

static void survey_fini(survey *s)
{
    free(s->forward);
    free(s->backward);
    free(s->kept);
    free(s->fixed);
    free(s->params);
    free(s->can_cut);
    free(s->cut_bytes);
}

static rung_status survey_init(survey *s, rung_device *device)
{
    size_t n = (size_t)s->nodes + 1;
    s->forward = calloc(n, sizeof *s->forward);
    s->backward = calloc(n, sizeof *s->backward);
    s->kept = calloc(n, sizeof *s->kept);
    s->fixed = calloc(n, sizeof *s->fixed);
    s->params = calloc(n, sizeof *s->params);
    s->can_cut = calloc(n, sizeof *s->can_cut);
    s->cut_bytes = calloc(n, sizeof *s->cut_bytes);
    RUNG_CHECK(s->forward && s->backward && s->kept && s->fixed && s->params && s->can_cut &&
                   s->cut_bytes,
               RUNG_NO_MEMORY, "no memory to choose stages");
    RUNG_TRY(read_costs(s, device));
    RUNG_TRY(read_params(s));
    return read_cuts(s);
}

// ---- stages -----------------------------------------------------------------------------------

static rungi_stage_info info_of(const survey *s, int stage, int begin, int end)
{
    rungi_stage_info info = {.begin = begin, .end = end, .cut_bytes = s->cut_bytes[end]};
    info.in_flight = rungi_pipeline_in_flight(s->o->schedule, stage, s->o->stages, s->o->micro);
    for (int k = begin; k < end; k++) {
        info.forward += s->forward[k];
        info.backward += s->backward[k];
        info.params += s->params[k];
        info.fixed_bytes += s->fixed[k];
        info.kept_bytes += s->kept[k];
    }
    info.kept_bytes += s->cut_bytes[begin]; // what comes in is kept, too
    return info;
}

static bool fits(const survey *s, const rungi_stage_info *info)
{
    uint64_t bytes = info->fixed_bytes + (uint64_t)info->in_flight * info->kept_bytes;
    return !s->o->budget || bytes <= s->o->budget;
}

// The best way to cut off the first stages so that the last of them ends before node c.
typedef struct way {
    double seconds; // of the slowest stage
    uint64_t bytes; // across the cuts
    int begin;      // of the last stage; -1: there is no way
} way;

// Stage `stage` may end at c when the one before it ends at b. Ways that are slower than `limit`
// do not count; with a limit, the fewest bytes count, without, the time.
static void consider(const survey *s, int stage, int b, int c, double limit, const way *before,
                     way *best)
{
    rungi_stage_info info = info_of(s, stage, b, c);
    double seconds = fmax(before->seconds, info.forward + info.backward);
    uint64_t bytes = before->bytes + info.cut_bytes;
    if (!fits(s, &info) || (limit > 0 && seconds > limit))
        return;
    bool better = limit > 0
                      ? bytes < best->bytes || (bytes == best->bytes && seconds < best->seconds)
                      : seconds < best->seconds;
    if (best->begin < 0 || better)
        *best = (way){seconds, bytes, b};
}

// ways[stage * (nodes + 1) + c]
static void solve(const survey *s, double limit, way *ways)
{
    int n = s->nodes, row = n + 1;
    for (int i = 0; i < s->o->stages * row; i++)
        ways[i] = (way){.begin = -1};
    for (int stage = 0; stage < s->o->stages; stage++)
        for (int c = 1; c <= n; c++) {
            way *best = &ways[stage * row + c];
            if (c < n && !s->can_cut[c])
                continue;
            if (stage == 0)
                consider(s, 0, 0, c, limit, &(way){0}, best);
            for (int b = 1; stage > 0 && b < c; b++)
                if (ways[(stage - 1) * row + b].begin >= 0)
                    consider(s, stage, b, c, limit, &ways[(stage - 1) * row + b], best);
        }
}

static rung_status fail_balance(const survey *s)
{
    int places = 1;
    for (int c = 1; c < s->nodes; c++)
        places += s->can_cut[c];
    if (places >= s->o->stages)
        return RUNG_FAIL(RUNG_NO_MEMORY,
                         "no cut of the network into %d stages keeps each device within "
                         "memory.budget",
                         s->o->stages);
    return s->tied ? RUNG_FAIL(RUNG_CONFIG,
                               "the network cannot be cut into %d stages: %s is read by layers far "
                               "apart, and a parameter can be in one stage only",
                               s->o->stages, s->g->values.data[s->tied].name)
                   : RUNG_FAIL(RUNG_CONFIG,
                               "the network cannot be cut into %d stages: there are %d places to "
                               "cut it",
                               s->o->stages, places - 1);
}

static rung_status balance(const survey *s, int *cuts)
{
    int row = s->nodes + 1, stages = s->o->stages, at = s->nodes;
    way *ways = calloc((size_t)stages * (size_t)row, sizeof *ways);
    RUNG_CHECK(ways, RUNG_NO_MEMORY, "no memory to choose stages");
    const way *end = &ways[(stages - 1) * row + s->nodes];
    solve(s, 0, ways);
    if (end->begin < 0) {
        free(ways);
        return fail_balance(s);
    }
    solve(s, end->seconds * TOLERANCE, ways);
    for (int stage = stages - 1; stage >= 0; stage--) {
        cuts[stage] = ways[stage * row + at].begin;
        at = cuts[stage];
    }
    free(ways);
    return RUNG_OK;
}

// Is this layer what is named: by a pattern of its name, or by its module's?
static bool named(const rungi_node *node, const char *split)
{
    size_t length = strlen(split);
    return rungi_text_match(split, node->name) ||
           (strncmp(node->name, split, length) == 0 && node->name[length] == '.');
}

static rung_status check_split(const survey *s, const char *split, int node, int before)
{
    char why[256];
    RUNG_CHECK(node < s->nodes, RUNG_CONFIG, "pipeline.split_points: no layer matches '%s'", split);
    RUNG_CHECK(node > before, RUNG_CONFIG,
               "pipeline.split_points: %s begins no later than the stage before it: name layers "
               "in their order, each the first of a stage, none the network's first",
               split);
    int tied = rungi_part_tied(s->g, node);
    RUNG_CHECK(!tied, RUNG_CONFIG,
               "pipeline.split_points: layers before and after the cut at %s both read %s, and a "
               "parameter can be in one stage only",
               split, s->g->values.data[tied].name);
    RUNG_CHECK(rungi_part_can_cut(s->g, node, why, sizeof why), RUNG_UNSUPPORTED,
               "pipeline.split_points: %s", why);
    return RUNG_OK;
}

static rung_status split(const survey *s, int *cuts)
{
    cuts[0] = 0;
    for (int i = 1; i < s->o->stages; i++) {
        const char *name = s->o->split[i - 1];
        int node = 0;
        while (node < s->nodes && !named(&s->g->nodes.data[node], name))
            node++;
        RUNG_TRY(check_split(s, name, node, cuts[i - 1]));
        cuts[i] = node;
    }
    return RUNG_OK;
}

// ---- placed by patterns -----------------------------------------------------------------------

// The stage of each node: writes stages[nodes]; and which patterns matched.
static rung_status place_nodes(const survey *s, int *stages)
{
    bool used[RUNGI_PIPELINE_STAGES * 4] = {0};
    int now = 0, count = s->o->n_placed;
    RUNG_CHECK(count <= RUNGI_PIPELINE_STAGES * 4, RUNG_CONFIG,
               "pipeline.placement: %d patterns; at most %d work", count,
               RUNGI_PIPELINE_STAGES * 4);
    for (int k = 0; k < s->nodes; k++) {
        const rungi_node *node = &s->g->nodes.data[k];
        int i = 0;
        while (i < count && !named(node, s->o->placed[i].pattern))
            i++;
        int stage = i < count ? s->o->placed[i].stage : now;
        RUNG_CHECK(
            stage >= now, RUNG_CONFIG,
            "pipeline.placement: %s would go back to stage %d ('%s'), but %s before it is on "
            "stage %d",
            node->name, stage, s->o->placed[i < count ? i : 0].pattern,
            s->g->nodes.data[k ? k - 1 : 0].name, now);
        if (i < count)
            used[i] = true;
        stages[k] = now = stage;
    }
    for (int i = 0; i < count; i++)
        RUNG_CHECK(used[i], RUNG_CONFIG,
                   "pipeline.placement: no layer is placed by '%s': none matches it, or patterns "
                   "before it have them all",
                   s->o->placed[i].pattern);
    return RUNG_OK;
}

static rung_status check_place(const survey *s, int node, int stage)
{
    char why[256];
    const char *name = s->g->nodes.data[node].name;
    int tied = rungi_part_tied(s->g, node);
    RUNG_CHECK(
        !tied, RUNG_CONFIG,
        "pipeline.placement: layers of stages %d and %d both read %s, and a parameter can be "
        "in one stage only",
        stage - 1, stage, s->g->values.data[tied].name);
    RUNG_CHECK(rungi_part_can_cut(s->g, node, why, sizeof why), RUNG_UNSUPPORTED,
               "pipeline.placement: stage %d cannot begin with %s: %s", stage, name, why);
    return RUNG_OK;
}

static rung_status place(const survey *s, int *cuts)
{
    int *stages = calloc((size_t)s->nodes + 1, sizeof *stages), node = 0;
    RUNG_CHECK(stages, RUNG_NO_MEMORY, "no memory to choose stages");
    rung_status status = place_nodes(s, stages);
    for (int i = 0; i < s->o->stages && status == RUNG_OK; i++) {
        while (node < s->nodes && stages[node] < i)
            node++;
        if (node == s->nodes || stages[node] != i)
            status = RUNG_FAIL(RUNG_CONFIG, "pipeline.placement: stage %d has no layer", i);
        else if (i)
            status = check_place(s, node, i);
        cuts[i] = node;
    }
    free(stages);
    return status;
}

rung_status rungi_stages_choose(const rung_graph *whole, rung_device *device,
                                const rungi_stages_options *options, rungi_stage_info *stages_out)
{
    survey s = {.g = whole, .o = options, .nodes = (int)whole->nodes.count};
    int cuts[RUNGI_PIPELINE_STAGES + 1];
    RUNG_CHECK(options->stages <= RUNGI_PIPELINE_STAGES, RUNG_UNSUPPORTED,
               "%d stages; at most %d work", options->stages, RUNGI_PIPELINE_STAGES);
    rung_status status = survey_init(&s, device);
    if (status == RUNG_OK)
        status = options->split    ? split(&s, cuts)
                 : options->placed ? place(&s, cuts)
                                   : balance(&s, cuts);
    cuts[options->stages] = s.nodes;
    for (int i = 0; status == RUNG_OK && i < options->stages; i++)
        stages_out[i] = info_of(&s, i, cuts[i], cuts[i + 1]);
    survey_fini(&s);
    return status;
}
