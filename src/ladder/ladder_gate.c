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
// Now and then rounding turns a ReLU or the winner of a pooling window, and the losses jump: by how
// much, only a disturbed base tells that met the same. So a rung is not called wrong for its losses
// before 24 disturbed bases stayed below them. A right rung that jumps with probability p is then
// called wrong with probability p (1 - p)^24 at most: never more than 1.5 %.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "ladder/climb.h"

enum { DISTURBED = 3, DISTURBED_IN_DOUBT = 24, ALLOWED = 10 };
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

// One more disturbed run of the base.
static rung_status widen_envelope(rungi_climb *k)
{
    char more[64];
    rungi_gate_run disturbed;
    snprintf(more, sizeof more, "--disturb=5.96e-8 --disturb-seed=%d", ++k->disturbed);
    RUNG_TRY(gate_run(k, "", more, &disturbed));
    k->envelope = fmax(k->envelope, deviation(&k->base_gate, &disturbed));
    return RUNG_OK;
}

static rung_status need_base(rungi_climb *k)
{
    if (k->have_base_gate)
        return RUNG_OK;
    RUNG_TRY(gate_run(k, "", "", &k->base_gate));
    k->best_gate = k->base_gate;
    k->have_base_gate = k->have_best_gate = true;
    while (k->disturbed < DISTURBED)
        RUNG_TRY(widen_envelope(k));
    return RUNG_OK;
}

static double allowed_by(double envelope)
{
    return ALLOWED * envelope + FLOOR;
}

static rung_status judge_numeric(rungi_climb *k, const rungi_gate_run *candidate, rung_rung *out)
{
    double seen = deviation(&k->base_gate, candidate);
    double error = candidate->gradient_error, base = k->base_gate.gradient_error;
    bool gradient = isnan(base) || error <= allowed_by(base);
    while (gradient && isfinite(seen) && seen > allowed_by(k->envelope) &&
           k->disturbed < DISTURBED_IN_DOUBT)
        RUNG_TRY(widen_envelope(k));
    double allowed = allowed_by(k->envelope);
    out->gate_passed = seen <= allowed && gradient;
    int used = snprintf(out->gate_detail, sizeof out->gate_detail,
                        "losses of %" PRId64 " steps within %.1e of the base (allowed %.1e)",
                        candidate->count, seen, allowed);
    if (!isnan(base) && used > 0 && (size_t)used < sizeof out->gate_detail)
        snprintf(out->gate_detail + used, sizeof out->gate_detail - (size_t)used,
                 ", gradient within %.1e of float64 (base %.1e)", error, base);
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
    RUNG_TRY(need_base(k));
    if (!k->have_best_gate)
        RUNG_TRY(gate_run(k, k->best_set, "", &k->best_gate));
    k->have_best_gate = true;
    RUNG_TRY(gate_run(k, settings, "", &candidate));
    if (rung->effect == RUNGI_EXACT) {
        out->gate_passed = strcmp(candidate.state, k->best_gate.state) == 0;
        snprintf(out->gate_detail, sizeof out->gate_detail, "%s after %" PRId64 " steps",
                 out->gate_passed ? "same bits" : "other bits", candidate.count);
        return RUNG_OK;
    }
    return judge_numeric(k, &candidate, out);
}
