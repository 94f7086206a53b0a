// SPDX-License-Identifier: Apache-2.0
// Gates: an exact rung gives the bits of what it is compared with; a numeric one stays within the
// envelope of the base.
//
// The envelope: training amplifies rounding, so two right programs drift apart. How fast is
// measured on the base itself: its initial weights are disturbed by one rounding (2^-24 relative),
// several times, and the largest relative difference of a loss from the undisturbed run is kept.
// A numeric rung may differ ten times as much. Its gradient at the initial weights must also be as
// near to the gradient in float64 as the base's is, within the same factor.
//
// A rung that keeps numbers in 16 bits, or exchanges them so, rounds more coarsely: by up to 2^-11
// in float16, 2^-8 in bfloat16 (half a unit in the last of 11 and 8 digits, of numbers in [1, 2)).
// Nothing of such a rung can be nearer to float64 than that, so the base is disturbed by this much
// instead, and its losses give the envelope in the same way. The gradient is judged by its distance
// from the float64 one, as a whole (the largest single difference would be that of a ReLU that
// turned): allowed is four times that of a base whose weights were disturbed by one such rounding.
// For a layer rounds four things, its weights, what it takes, and the gradients on both of its
// sides, each with an effect like that of the weights; errors that are independent add up to twice
// one of them, at worst to four times. In no case may it be more than a half: what is no rounding
// but a mistake (a scale that is not taken out again, a layer's gradient lost or doubled) has
// distances of that size.
//
// Now and then rounding turns a ReLU or the winner of a pooling window, and the losses jump: by how
// much, only a disturbed base tells that met the same. So a rung is not called wrong for its losses
// before 24 disturbed bases stayed below them. A right rung that jumps with probability p is then
// called wrong with probability p (1 - p)^24 at most: never more than 1.5 %.
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "ladder/climb.h"

enum { DISTURBED = 3, DISTURBED_IN_DOUBT = 24, ALLOWED = 10, ALLOWED_COARSE = 4 };
#define MOST 0.5   // distance of a gradient of 16 bits
#define FLOOR 1e-6 // where the disturbed runs happen to agree

static rung_status gate_run(rungi_climb *k, const char *settings, const char *more,
                            rungi_gate_run *out)
{
    char arguments[256];
    json_t *o, *losses;
    const char *state;
    snprintf(arguments, sizeof arguments, "--gate --warmup=0 --steps=%" PRId64 " %s",
             k->c->ladder.gate_steps, more);
    RUNG_TRY(rungi_climb_block(k, settings, arguments, &o));
    *out = (rungi_gate_run){0};
    rung_status status = rungi_json_array(o, "a block", "losses", &losses);
    if (status == RUNG_OK)
        status = rungi_json_text(o, "a block", "state", &state);
    if (status == RUNG_OK)
        status = rungi_json_f64(o, "a block", "gradient_error", &out->gradient_error);
    if (status == RUNG_OK)
        status = rungi_json_f64(o, "a block", "gradient_distance", &out->gradient_distance);
    if (status == RUNG_OK) {
        snprintf(out->state, sizeof out->state, "%s", state);
        for (size_t i = 0; i < json_array_size(losses) && i < RUNGI_GATE_STEPS; i++) {
            const json_t *value = json_array_get(losses, i);
            out->losses[out->count++] = json_is_number(value) ? json_number_value(value) : NAN;
        }
    }
    json_decref(o);
    return status;
}

// Largest relative difference of the losses; infinite when one of them is not finite.
static double deviation(const rungi_gate_run *a, const rungi_gate_run *b)
{
    double largest = 0;
    for (int64_t i = 0; i < a->count && i < b->count; i++) {
        double d = fabs(a->losses[i] - b->losses[i]) / fmax(fabs(a->losses[i]), 1e-3);
        if (!(d <= largest))
            largest = isfinite(d) ? d : INFINITY;
    }
    return largest;
}

static const char *const roundings[RUNGI_ROUNDINGS] = {"5.96e-8", "4.8828125e-4", "3.90625e-3"};

// One more disturbed run of the base.
static rung_status widen_envelope(rungi_climb *k, int rounding)
{
    rungi_envelope *e = &k->envelopes[rounding];
    char more[96];
    rungi_gate_run disturbed;
    bool gradient = rounding != RUNGI_ROUNDING_F32 && e->runs < DISTURBED; // it takes long
    snprintf(more, sizeof more, "--disturb=%s --disturb-seed=%d%s", roundings[rounding], ++e->runs,
             gradient ? " --disturb-gradient" : "");
    RUNG_TRY(gate_run(k, "", more, &disturbed));
    e->losses = fmax(e->losses, deviation(&k->base_gate, &disturbed));
    if (gradient)
        e->gradient = fmax(e->gradient, disturbed.gradient_distance);
    return RUNG_OK;
}

static rung_status need_base(rungi_climb *k, int rounding)
{
    if (!k->have_base_gate) {
        RUNG_TRY(gate_run(k, "", "", &k->base_gate));
        k->best_gate = k->base_gate;
        k->have_base_gate = k->have_best_gate = true;
    }
    while (k->envelopes[rounding].runs < DISTURBED)
        RUNG_TRY(widen_envelope(k, rounding));
    return RUNG_OK;
}

static double allowed_by(double envelope)
{
    return ALLOWED * envelope + FLOOR;
}

// The configuration that these settings make of the base.
static rung_status resolve(const rungi_climb *k, const char *settings, rung_config **out)
{
    char word[RUNGI_SETTING];
    rung_config *config;
    RUNG_TRY(rung_config_copy(k->config, &config));
    while (rungi_next_word(&settings, word, sizeof word)) {
        rung_status status = rung_config_override(config, word);
        if (status == RUNG_OK)
            continue;
        rung_config_destroy(&config);
        return status;
    }
    *out = config;
    return RUNG_OK;
}

static int rounding_to(rung_dtype dtype)
{
    return dtype == RUNG_BF16  ? RUNGI_ROUNDING_BF16
           : dtype == RUNG_F16 ? RUNGI_ROUNDING_F16
                               : RUNGI_ROUNDING_F32;
}

static void add(rung_rung *out, const char *fmt, ...) RUNG_PRINTF(2, 3);
static void add(rung_rung *out, const char *fmt, ...)
{
    size_t used = strlen(out->gate_detail);
    va_list args;
    va_start(args, fmt);
    vsnprintf(out->gate_detail + used, sizeof out->gate_detail - used, fmt, args);
    va_end(args);
}

// How 16 bits are computed with, if there are any.
static void add_compute(const rungi_climb *k, const rungi_precision_config *p, rung_rung *out)
{
    char why[96] = "";
    if (p->dtype == RUNG_F32)
        return;
    bool native = rung_compute_native(k->context, p->dtype, why, sizeof why) &&
                  p->compute != RUNG_COMPUTE_STORAGE;
    add(out, "; compute %s", native ? "native" : "storage");
}

// Is the gradient as near to the float64 one as rounding lets it be? Adds that to the detail.
static bool judge_gradient(const rungi_climb *k, const rungi_gate_run *candidate, int rounding,
                           rung_rung *out)
{
    double base = k->base_gate.gradient_error, error = candidate->gradient_error;
    if (isnan(base))
        return true; // the network is too large for that
    if (rounding == RUNGI_ROUNDING_F32) {
        add(out, ", gradient within %.1e of float64 (base %.1e)", error, base);
        return error <= allowed_by(base);
    }
    double nearest = fmax(k->base_gate.gradient_distance, k->envelopes[rounding].gradient);
    double distance = candidate->gradient_distance, allowed = fmin(ALLOWED_COARSE * nearest, MOST);
    add(out, ", gradient %.1e from float64 (allowed %.1e)", distance, allowed);
    return distance <= allowed;
}

static rung_status judge_numeric(rungi_climb *k, const rungi_gate_run *candidate, int rounding,
                                 rung_rung *out)
{
    const rungi_envelope *e = &k->envelopes[rounding];
    rung_rung gradient = {.gate_detail = ""};
    double seen = deviation(&k->base_gate, candidate);
    bool good = judge_gradient(k, candidate, rounding, &gradient);
    while (good && isfinite(seen) && seen > allowed_by(e->losses) && e->runs < DISTURBED_IN_DOUBT)
        RUNG_TRY(widen_envelope(k, rounding));
    out->gate_passed = seen <= allowed_by(e->losses) && good;
    add(out, "losses of %" PRId64 " steps within %.1e of the base (allowed %.1e)%s",
        candidate->count, seen, allowed_by(e->losses), gradient.gate_detail);
    return RUNG_OK;
}

// A numeric rung, by the coarsest rounding that its configuration has.
static rung_status gate_numeric(rungi_climb *k, const char *settings, rung_rung *out)
{
    rung_config *config;
    rungi_gate_run candidate;
    RUNG_TRY(resolve(k, settings, &config));
    const rungi_train_config *c = rungi_config_values(config);
    rungi_precision_config precision = c->precision;
    int rounding = rounding_to(precision.dtype), exchanged = rounding_to(c->ddp.compress);
    rung_config_destroy(&config);
    rounding = exchanged > rounding ? exchanged : rounding;
    RUNG_TRY(need_base(k, rounding));
    RUNG_TRY(gate_run(k, settings, "", &candidate));
    RUNG_TRY(judge_numeric(k, &candidate, rounding, out));
    add_compute(k, &precision, out);
    return RUNG_OK;
}

rung_status rungi_climb_gate(rungi_climb *k, const rungi_rung *rung, const char *settings,
                             rung_rung *out)
{
    rungi_gate_run candidate;
    out->gate = rung->effect == RUNGI_EXACT     ? "bits"
                : rung->effect == RUNGI_NUMERIC ? "envelope"
                                                : "none";
    out->gate_passed = true;
    if (rung->effect == RUNGI_SEMANTIC)
        return RUNG_OK;
    rungi_climb_tell(k, "%s: is the result right?", rung->name);
    if (rung->effect == RUNGI_NUMERIC)
        return gate_numeric(k, settings, out);
    RUNG_TRY(need_base(k, RUNGI_ROUNDING_F32));
    if (!k->have_best_gate)
        RUNG_TRY(gate_run(k, k->best_set, "", &k->best_gate));
    k->have_best_gate = true;
    RUNG_TRY(gate_run(k, settings, "", &candidate));
    out->gate_passed = strcmp(candidate.state, k->best_gate.state) == 0;
    snprintf(out->gate_detail, sizeof out->gate_detail, "%s after %" PRId64 " steps",
             out->gate_passed ? "same bits" : "other bits", candidate.count);
    return RUNG_OK;
}
