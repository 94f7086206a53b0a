// SPDX-License-Identifier: Apache-2.0
// What the benchmark of supply comes to: table, advice, JSON, drawing.
#include <inttypes.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/json.h"
#include "formats/svg_chart.h"
#include "train/data_bench.h"

static double work_ms(const rungi_supply *row)
{
    return row->sample_ms[RUNG_STAGE_READ] + row->sample_ms[RUNG_STAGE_DECODE] +
           row->sample_ms[RUNG_STAGE_TRANSFORM] + row->sample_ms[RUNG_STAGE_COLLATE];
}

// ---- advice

static void advise_stage(const rungi_bench *b, rungi_string *out)
{
    const double *ms = b->rows[0].sample_ms;
    double all = work_ms(&b->rows[0]);
    bool files = b->s->train_source->fields[0].pixels == RUNG_PIXELS_FILE;
    if (!(all > 0))
        return;
    if (ms[RUNG_STAGE_READ] > 0.5 * all)
        rungi_string_add(out,
                         "- reading is %.0f %% of a sample's cost: storage is the limit. More "
                         "workers than cores may help, as they wait; so do large files instead of "
                         "small ones (tar).\n",
                         100 * ms[RUNG_STAGE_READ] / all);
    if (ms[RUNG_STAGE_DECODE] > 0.5 * all)
        rungi_string_add(out,
                         "- decoding is %.0f %% of a sample's cost: store the pictures no larger "
                         "than training needs them, or as raw pixels.\n",
                         100 * ms[RUNG_STAGE_DECODE] / all);
    if (ms[RUNG_STAGE_TRANSFORM] > 0.5 * all && files)
        rungi_string_add(out,
                         "- transforms are %.0f %% of a sample's cost: colours and large resizes "
                         "are the costly ones.\n",
                         100 * ms[RUNG_STAGE_TRANSFORM] / all);
}

static void advise(const rungi_bench *b, rungi_string *out)
{
    const rungi_supply *best = &b->rows[b->best], *alone = &b->rows[0];
    int64_t batch = rungi_session_batch(b->s);
    double step_ms = (double)batch / best->samples_per_s * 1e3;
    rungi_string_add(out, "advice\n");
    if (best->workers == 0)
        rungi_string_add(out, "- data.num_workers=0 supplies as fast as any (within 5 %%) when "
                              "nothing else runs; with 1 worker loading goes on while the network "
                              "trains.\n");
    else
        rungi_string_add(out,
                         "- data.num_workers=%d: %.0f samples/s, %.2f times those without workers; "
                         "more workers bring less than 5 %%.\n",
                         best->workers, best->samples_per_s,
                         best->samples_per_s / alone->samples_per_s);
    rungi_string_add(out,
                     "- a training step of %" PRId64
                     " samples that takes less than %.3g ms will wait for data; workers share "
                     "the %d core%s with it.\n",
                     batch, step_ms, b->cores, b->cores == 1 ? "" : "s");
    advise_stage(b, out);
    if (b->decode_per_s > 0)
        rungi_string_add(
            out, "- supply is %.2f times the decode ceiling%s.\n",
            best->samples_per_s / b->decode_per_s,
            best->samples_per_s > b->decode_per_s ? ": only what a crop needs is decoded" : "");
    double ratio = best->samples_per_s / b->preloaded.samples_per_s;
    rungi_string_add(out, "- from memory batches come %.1f times as fast%s.\n", 1 / ratio,
                     ratio > 0.5 ? ": there is little to gain" : "");
}

// ---- text

static void text_row(const rungi_supply *r, rungi_string *out)
{
    char bytes[32], name[16];
    snprintf(name, sizeof name, "%d", r->workers);
    rungi_string_add(out, "%-8s %10.0f %6.0f%% %6.0f%% %10s", r->workers < 0 ? "memory" : name,
                     r->samples_per_s, 100 * r->cpu_share, 100 * r->busy_share,
                     rungi_text_bytes(r->resident, bytes, sizeof bytes));
    for (int i = 0; i <= RUNG_STAGE_SLOT; i++)
        rungi_string_add(out, " %9.4f", r->sample_ms[i]);
    rungi_string_add(out, " %6.1f\n", r->queue_depth);
}

static void text_of(const rungi_bench *b, rungi_string *out)
{
    const rungi_supply *alone = &b->rows[0];
    rungi_string_add(out, "data     %s, %" PRId64 " samples, batches of %" PRId64 ", %d cores\n",
                     b->s->train_source->name, b->s->train_source->count, rungi_session_batch(b->s),
                     b->cores);
    rungi_string_add(out,
                     "a sample alone: read %.4f ms, decode %.4f ms, transform %.4f ms: at most "
                     "%.0f samples/s on one core\n",
                     alone->sample_ms[RUNG_STAGE_READ], alone->sample_ms[RUNG_STAGE_DECODE],
                     alone->sample_ms[RUNG_STAGE_TRANSFORM],
                     work_ms(alone) > 0 ? 1e3 / work_ms(alone) : 0);
    rungi_string_add(out, "\n%-8s %10s %7s %7s %10s", "workers", "samples/s", "cores", "busy",
                     "memory");
    for (int i = 0; i <= RUNG_STAGE_SLOT; i++)
        rungi_string_add(out, " %9s", rung_loader_stage_name(i));
    rungi_string_add(out, " %6s\n", "queue");
    for (int i = 0; i < b->count; i++)
        text_row(&b->rows[i], out);
    text_row(&b->preloaded, out);
    rungi_string_add(out, "(stages: ms of workers' time for a sample; cores: share of all that was "
                          "busy; memory: of the process)\n\n");
    if (b->decode_per_s > 0)
        rungi_string_add(out,
                         "decode ceiling  %.0f pictures/s, decoded whole from memory by %d threads "
                         "(%" PRId64 " pictures)\n",
                         b->decode_per_s, b->cores, b->decoded);
    rungi_string_add(out, "real/preloaded  %.4f (%" PRId64 " samples in memory%s)\n\n",
                     b->rows[b->best].samples_per_s / b->preloaded.samples_per_s,
                     b->preloaded_samples, b->preloaded_whole ? "" : ", not all");
    advise(b, out);
}

// ---- JSON

static json_t *row_json(const rungi_supply *r)
{
    json_t *o = json_object(), *ms = json_object();
    json_object_set_new(o, "workers", r->workers < 0 ? json_null() : json_integer(r->workers));
    json_object_set_new(o, "samples_per_s", rungi_json_real(r->samples_per_s));
    json_object_set_new(o, "cpu_share", rungi_json_real(r->cpu_share));
    json_object_set_new(o, "busy_share", rungi_json_real(r->busy_share));
    json_object_set_new(o, "resident_bytes", json_integer((json_int_t)r->resident));
    json_object_set_new(o, "batch_ms", rungi_json_real(r->batch_ms));
    json_object_set_new(o, "queue_depth", rungi_json_real(r->queue_depth));
    for (int i = 0; i <= RUNG_STAGE_IDLE; i++)
        json_object_set_new(ms, rung_loader_stage_name(i), rungi_json_real(r->sample_ms[i]));
    json_object_set_new(o, "sample_ms", ms);
    return o;
}

static json_t *json_of(const rungi_bench *b)
{
    json_t *o = json_object(), *rows = json_array();
    json_object_set_new(o, "source", rungi_json_string(b->s->train_source->name));
    json_object_set_new(o, "samples", json_integer(b->s->train_source->count));
    json_object_set_new(o, "batch_size", json_integer(rungi_session_batch(b->s)));
    json_object_set_new(o, "cores", json_integer(b->cores));
    for (int i = 0; i < b->count; i++)
        json_array_append_new(rows, row_json(&b->rows[i]));
    json_object_set_new(o, "supply", rows);
    json_object_set_new(o, "best_workers", json_integer(b->rows[b->best].workers));
    json_object_set_new(o, "decode_per_s",
                        b->decode_per_s > 0 ? rungi_json_real(b->decode_per_s) : json_null());
    json_object_set_new(o, "preloaded", row_json(&b->preloaded));
    json_object_set_new(o, "preloaded_samples", json_integer(b->preloaded_samples));
    json_object_set_new(
        o, "real_to_preloaded",
        rungi_json_real(b->rows[b->best].samples_per_s / b->preloaded.samples_per_s));
    return o;
}

// ---- drawing

static rung_status draw(const rungi_bench *b, rungi_string *out)
{
    double x[RUNGI_BENCH_ROWS], y[RUNGI_BENCH_ROWS], ceiling[RUNGI_BENCH_ROWS];
    for (int i = 0; i < b->count; i++) {
        x[i] = b->rows[i].workers;
        y[i] = b->rows[i].samples_per_s;
        ceiling[i] = b->decode_per_s;
    }
    size_t n = (size_t)b->count;
    const rungi_svg_series series[] = {
        {.name = "supply", .x = x, .y = y, .count = n, .points = true},
        {.name = "decode ceiling", .x = x, .y = ceiling, .count = n}};
    return rungi_svg_line_chart(&(rungi_svg_lines){.title = "Supply of training batches",
                                                   .x_label = "workers",
                                                   .y_label = "samples/s",
                                                   .from_zero = true,
                                                   .series = series,
                                                   .count = b->decode_per_s > 0 ? 2 : 1},
                                out);
}

rung_status rungi_bench_report(const rungi_bench *b, rung_data_report *report_out)
{
    rungi_string text = {0}, json = {0}, svg = {0};
    json_t *o = json_of(b);
    text_of(b, &text);
    rungi_json_print(o, false, &json);
    json_decref(o);
    rung_status status = draw(b, &svg);
    if (status == RUNG_OK && (text.failed || json.failed || svg.failed))
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a report");
    if (status != RUNG_OK) {
        rungi_string_fini(&text);
        rungi_string_fini(&json);
        rungi_string_fini(&svg);
        return status;
    }
    *report_out =
        (rung_data_report){.sound = true, .text = text.data, .json = json.data, .svg = svg.data};
    return RUNG_OK;
}
