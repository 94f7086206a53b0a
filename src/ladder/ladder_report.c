// SPDX-License-Identifier: Apache-2.0
// What a ladder leaves in its run folder: ladder.json for scripts, best.yaml to train with, and
// report.html to read.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file_io.h"
#include "base/json.h"
#include "formats/svg_chart.h"
#include "ladder/climb.h"
#include "rung/env.h"
#include "rung/train.h"

static rung_status write_text(const rungi_climb *k, const char *name, const char *text)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", k->o->run, name);
    return rungi_fs_write(path, text, strlen(text));
}

// ---- ladder.json ------------------------------------------------------------------------------

static json_t *verdict_json(const rung_rung *r)
{
    char text[RUNG_LADDER_TEXT + 32];
    snprintf(text, sizeof text, "%s%s%s", rung_verdict_name(r->verdict),
             r->verdict == RUNG_VERDICT_NOT_AVAILABLE ? ": " : "",
             r->verdict == RUNG_VERDICT_NOT_AVAILABLE ? r->reason : "");
    return rungi_json_string(text);
}

static json_t *measured(const rung_rung *r, double value)
{
    return r->measured ? rungi_json_real(value) : json_null();
}

static json_t *rung_json(const rung_rung *r)
{
    json_t *o = json_object(), *gate = json_object(), *ms = json_object();
    json_object_set_new(o, "name", json_string(r->name));
    json_object_set_new(o, "class", json_string(r->effect));
    json_object_set_new(o, "setting", json_string(r->what));
    json_object_set_new(o, "verdict", verdict_json(r));
    json_object_set_new(o, "step_ms", measured(r, r->step_ms));
    json_object_set_new(o, "samples_per_s", measured(r, r->samples_per_s));
    json_object_set_new(o, "gain_base", measured(r, r->gain_base));
    json_object_set_new(o, "gain_prev", measured(r, r->gain_prev));
    json_object_set_new(o, "ci_low", measured(r, r->ci_low));
    json_object_set_new(o, "ci_high", measured(r, r->ci_high));
    json_object_set_new(o, "wait_share", measured(r, r->wait_share));
    json_object_set_new(o, "peak_bytes",
                        r->measured ? json_integer((json_int_t)r->peak_bytes) : json_null());
    json_object_set_new(o, "round_trip_ns", measured(r, r->round_trip_ns));
    json_object_set_new(o, "rounds_repeated", json_integer(r->repeated));
    json_object_set_new(o, "rounds_mixed", json_integer(r->mixed));
    for (int i = 0; i < RUNG_TIME_PARTS; i++)
        json_object_set_new(ms, rung_time_part(i), measured(r, r->ms[i]));
    json_object_set_new(o, "ms", ms);
    json_object_set_new(gate, "kind", json_string(r->gate));
    json_object_set_new(gate, "passed", json_boolean(r->gate_passed));
    json_object_set_new(gate, "detail", rungi_json_string(r->gate_detail));
    json_object_set_new(o, "gate", gate);
    return o;
}

static rung_status write_json(const rungi_climb *k)
{
    const rung_ladder_result *r = k->r;
    const rung_confirm *c = &r->confirm;
    json_t *o = json_object(), *rungs = json_array(), *best = json_object(),
           *confirm = json_object();
    for (int i = 0; i < r->count; i++)
        json_array_append_new(rungs, rung_json(&r->rungs[i]));
    json_object_set_new(o, "rungs", rungs);
    json_object_set_new(best, "set", json_string(r->best_set));
    json_object_set_new(best, "gain_base", rungi_json_real(r->best_gain));
    json_object_set_new(best, "ci_low", rungi_json_real(r->best_ci_low));
    json_object_set_new(o, "best", best);
    json_object_set_new(confirm, "done", json_boolean(c->done));
    json_object_set_new(confirm, "epochs", json_integer(c->epochs));
    json_object_set_new(confirm, "samples", json_integer(c->samples));
    json_object_set_new(confirm, "base_metric", rungi_json_real(c->base_metric));
    json_object_set_new(confirm, "best_metric", rungi_json_real(c->best_metric));
    json_object_set_new(confirm, "margin", rungi_json_real(c->margin));
    json_object_set_new(confirm, "equal", json_boolean(c->equal));
    json_object_set_new(confirm, "base_seconds", rungi_json_real(c->base_seconds));
    json_object_set_new(confirm, "best_seconds", rungi_json_real(c->best_seconds));
    json_object_set_new(confirm, "reload_equal", json_boolean(c->reload_equal));
    json_object_set_new(confirm, "coverage_ok", json_boolean(c->coverage_ok));
    json_object_set_new(confirm, "detail", rungi_json_string(c->detail));
    json_object_set_new(o, "confirm", confirm);
    json_object_set_new(o, "notice", rungi_json_string(r->notice));
    json_object_set_new(o, "seconds", rungi_json_real(r->seconds));
    char path[4200];
    snprintf(path, sizeof path, "%s/ladder.json", k->o->run);
    rung_status status = rungi_json_save(path, o);
    json_decref(o);
    return status;
}

// ---- report.html ------------------------------------------------------------------------------

static void add_escaped(rungi_string *out, const char *text)
{
    for (; *text; text++) {
        const char *as = *text == '<'   ? "&lt;"
                         : *text == '>' ? "&gt;"
                         : *text == '&' ? "&amp;"
                                        : NULL;
        if (as)
            rungi_string_add(out, "%s", as);
        else
            rungi_string_append(out, text, 1);
    }
}

static const char *const style =
    "<style>body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;"
    "color:#1a1a1a;background:#fff}table{border-collapse:collapse;width:100%;margin:1em 0}"
    "th,td{padding:.35em .6em;text-align:right;border-bottom:1px solid #ddd;vertical-align:top}"
    "th:first-child,td:first-child,td.t,th.t{text-align:left}.kept{color:#157f3b;font-weight:600}"
    ".slower,.wrong{color:#b3261e}.dim{color:#777}code{background:#f3f3f3;padding:.1em .3em}"
    "pre{background:#f6f6f6;padding:1em;overflow:auto}"
    "@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}th,td{border-color:"
    "#333}code,pre{background:#242424}.kept{color:#5fd38a}.slower,.wrong{color:#ff8a80}}</style>";

static const char *css_class(rung_verdict verdict)
{
    static const char *const names[] = {"kept", "dim", "slower", "wrong", "dim"};
    return names[verdict];
}

static void add_row(rungi_string *out, const rung_rung *r)
{
    char memory[32];
    rungi_string_add(out, "<tr><td>%s<br><code>%s</code></td><td class=t>%s</td>", r->name, r->what,
                     r->effect);
    if (r->measured)
        rungi_string_add(out,
                         "<td>%.2f</td><td>%.0f</td><td>%.2f&times;</td><td>%.2f&times;<br>"
                         "<span class=dim>%.2f&ndash;%.2f</span></td><td>%.1f %%</td><td>%s</td>",
                         r->step_ms, r->samples_per_s, r->gain_base, r->gain_prev, r->ci_low,
                         r->ci_high, r->wait_share * 100,
                         rungi_text_bytes(r->peak_bytes, memory, sizeof memory));
    else
        rungi_string_add(out, "<td colspan=6 class=dim></td>");
    rungi_string_add(out, "<td class=t>");
    add_escaped(out, r->gate_detail);
    rungi_string_add(out, "</td><td class='t %s'>%s", css_class(r->verdict),
                     rung_verdict_name(r->verdict));
    if (*r->reason && r->verdict != RUNG_VERDICT_WRONG) {
        rungi_string_add(out, ": ");
        add_escaped(out, r->reason);
    }
    rungi_string_add(out, "</td></tr>\n");
}

static rung_status add_chart(const rungi_climb *k, rungi_string *out)
{
    static const rungi_svg_tone tones[] = {RUNGI_SVG_GOOD, RUNGI_SVG_NEUTRAL, RUNGI_SVG_WORSE,
                                           RUNGI_SVG_WRONG, RUNGI_SVG_ABSENT};
    rungi_svg_bar bars[RUNG_LADDER_RUNGS] = {0};
    for (int i = 0; i < k->r->count; i++) {
        const rung_rung *r = &k->r->rungs[i];
        bool shown_only = r->measured && r->verdict == RUNG_VERDICT_NOT_AVAILABLE;
        bars[i] = (rungi_svg_bar){.label = r->name,
                                  .value = r->measured ? r->gain_base : 0,
                                  .low = NAN,
                                  .high = NAN,
                                  .tone = shown_only    ? RUNGI_SVG_NEUTRAL
                                          : r->measured ? tones[r->verdict]
                                                        : RUNGI_SVG_ABSENT,
                                  .note = shown_only ? "not kept" : rung_verdict_name(r->verdict)};
        if (r->measured && i > 0) {
            bars[i].low = r->gain_base * r->ci_low / r->gain_prev;
            bars[i].high = r->gain_base * r->ci_high / r->gain_prev;
        }
        if (!r->measured)
            bars[i].note = r->reason;
    }
    return rungi_svg_bar_chart(&(rungi_svg_bars){.title = "Speed against the base",
                                                 .x_label = "times as fast as the base",
                                                 .unit = "x",
                                                 .reference = 1,
                                                 .reference_label = "base",
                                                 .bars = bars,
                                                 .count = (size_t)k->r->count},
                               out);
}

static void add_confirm(const rungi_climb *k, rungi_string *out)
{
    const rung_confirm *c = &k->r->confirm;
    rungi_string_add(out, "<h2>Confirmation</h2><p>");
    if (c->done)
        rungi_string_add(
            out,
            "Base and best trained %" PRId64 " epoch(s), %" PRId64
            " samples each. Validation accuracy: base %.4f, best %.4f, margin %.4f from repeated "
            "baselines: <b>%s</b>. An epoch took %.1f s, then %.1f s (%.2f&times;). Saved "
            "checkpoint evaluates to the same counts: <b>%s</b>. %s: <b>%s</b>.",
            c->epochs, c->samples, c->base_metric, c->best_metric, c->margin,
            c->equal ? "equal" : "not equal", c->base_seconds, c->best_seconds,
            c->base_seconds / c->best_seconds, c->reload_equal ? "yes" : "no",
            c->weighted ? "As many samples drawn" : "Each sample seen exactly once an epoch",
            c->coverage_ok ? "yes" : "no");
    rungi_string_add(out, " ");
    add_escaped(out, c->detail);
    rungi_string_add(out, "</p>\n");
}

// How far apart the cores were, and whether that changed while rungs were compared.
static void add_cores(const rungi_climb *k, rungi_string *out)
{
    double low = INFINITY, high = 0;
    int repeated = 0, mixed = 0;
    for (int i = 0; i < k->r->count; i++) {
        const rung_rung *r = &k->r->rungs[i];
        if (r->measured && r->round_trip_ns > 0) {
            low = fmin(low, r->round_trip_ns);
            high = fmax(high, r->round_trip_ns);
        }
        repeated += r->repeated;
        mixed += r->mixed;
    }
    if (high == 0)
        return;
    rungi_string_add(
        out,
        "<p>A flag went from one core to another and back in %.0f to %.0f ns. Rounds "
        "measured again because that changed meanwhile: %d; kept all the same: %d.</p>\n",
        low, high, repeated, mixed);
}

static rung_status write_html(const rungi_climb *k)
{
    rungi_string out = {0};
    char *env = NULL;
    rungi_string_add(&out,
                     "<!doctype html><html lang=en><meta charset=utf-8><title>rung ladder</title>"
                     "<meta name=viewport content='width=device-width,initial-scale=1'>%s"
                     "<h1>Ladder: %s</h1>\n<p>%s is %.2f times as fast as the base (95 %% interval "
                     "from %.2f).</p>\n",
                     style, k->c->model.name,
                     *k->r->best_set ? "The best configuration" : "The base itself",
                     k->r->best_gain, k->r->best_ci_low);
    if (*k->r->notice) {
        rungi_string_add(&out, "<p class=wrong>");
        add_escaped(&out, k->r->notice);
        rungi_string_add(&out, "</p>\n");
    }
    rung_status status = add_chart(k, &out);
    rungi_string_add(&out, "<table><tr><th>rung</th><th class=t>class</th><th>ms a step</th>"
                           "<th>samples/s</th><th>against base</th><th>against the rung before</th>"
                           "<th>waits for data</th><th>peak memory</th><th class=t>result</th>"
                           "<th class=t>verdict</th></tr>\n");
    for (int i = 0; i < k->r->count; i++)
        add_row(&out, &k->r->rungs[i]);
    rungi_string_add(&out, "</table>\n");
    add_cores(k, &out);
    add_confirm(k, &out);
    rungi_string_add(&out, "<h2>Machine</h2><pre>");
    if (rung_env_text(k->context, &env) == RUNG_OK)
        add_escaped(&out, env);
    free(env);
    rungi_string_add(&out, "</pre></html>\n");
    if (status == RUNG_OK)
        status = out.failed ? RUNG_FAIL(RUNG_NO_MEMORY, "no memory for report.html")
                            : write_text(k, "report.html", rungi_string_text(&out));
    rungi_string_fini(&out);
    return status;
}

rung_status rungi_climb_write(rungi_climb *k)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/best.yaml", k->o->run);
    RUNG_TRY(rung_config_save(k->best, RUNG_CONFIG_SOURCES, path));
    RUNG_TRY(write_json(k));
    return write_html(k);
}
