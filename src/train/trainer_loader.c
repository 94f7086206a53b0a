// SPDX-License-Identifier: Apache-2.0
// What the loader's workers did, in metrics.jsonl and loader.json.
#include <stdlib.h>

#include "base/error.h"
#include "base/fs.h"
#include "base/json.h"
#include "train/trainer.h"

void rungi_trainer_loader_begin(rung_trainer *t)
{
    rung_loader_measure(t->s->train_loader, &t->loader_begin);
    t->loader_logged = t->loader_begin;
}

// What happened between `before` and now, per step (END: in all).
static void fill(const rung_loader_statistics *before, const rung_loader_statistics *now,
                 double steps, rung_train_event *e)
{
    double busy = now->busy_seconds - before->busy_seconds;
    double there = now->worker_seconds - before->worker_seconds;
    double calls = (double)(now->batches - before->batches);
    for (int i = 0; i < RUNG_STAGES; i++)
        e->loader_ms[i] = (now->seconds[i] - before->seconds[i]) * 1e3 / (steps > 0 ? steps : 1);
    e->loader_busy = there > 0 ? busy / there : 0;
    e->queue_depth = calls > 0 ? (now->mean_queue_depth * (double)now->batches -
                                  before->mean_queue_depth * (double)before->batches) /
                                     calls
                               : 0;
}

void rungi_trainer_loader_event(rung_trainer *t, int64_t steps, rung_train_event *event)
{
    rung_loader_statistics now;
    rung_loader_measure(t->s->train_loader, &now);
    if (event->kind == RUNG_EVENT_STEP) {
        fill(&t->loader_logged, &now, (double)steps, event);
        t->loader_logged = now;
    } else {
        fill(&t->loader_begin, &now, 1, event);
    }
}

static json_t *stages(const double values[RUNG_STAGES], double factor)
{
    json_t *o = json_object();
    for (int i = 0; i < RUNG_STAGES; i++)
        json_object_set_new(o, rung_loader_stage_name(i), rungi_jsonl_number(values[i] * factor));
    return o;
}

void rungi_trainer_loader_json(const rung_train_event *e, json_t *o)
{
    json_object_set_new(o, "loader_ms", stages(e->loader_ms, 1));
    json_object_set_new(o, "loader_busy", rungi_jsonl_number(e->loader_busy));
    json_object_set_new(o, "queue_depth", rungi_jsonl_number(e->queue_depth));
}

static json_t *worker_json(const rung_worker_statistics *w)
{
    json_t *o = json_object();
    json_object_set_new(o, "reads", json_integer(w->reads));
    json_object_set_new(o, "read_bytes", json_integer(w->read_bytes));
    json_object_set_new(o, "seconds", stages(w->seconds, 1));
    json_object_set_new(o, "worker_seconds", rungi_jsonl_number(w->worker_seconds));
    json_object_set_new(o, "busy_share", rungi_jsonl_number(w->busy_share));
    return o;
}

rung_status rungi_trainer_loader_write(const rung_trainer *t)
{
    rung_loader *loader = t->s->train_loader;
    rung_loader_info info;
    rung_loader_statistics s;
    rung_worker_statistics w;
    rung_loader_describe(loader, &info);
    rung_loader_measure(loader, &s);
    json_t *o = json_object(), *workers = json_array();
    json_object_set_new(o, "workers", json_integer(info.workers));
    json_object_set_new(o, "slots", json_integer(info.slots));
    json_object_set_new(o, "slot_bytes", json_integer((json_int_t)info.slot_bytes));
    json_object_set_new(o, "batches", json_integer(s.batches));
    json_object_set_new(o, "samples", json_integer(s.samples));
    json_object_set_new(o, "reads", json_integer(s.reads));
    json_object_set_new(o, "bad_samples", json_integer(s.bad_samples));
    json_object_set_new(o, "read_bytes", json_integer(s.read_bytes));
    json_object_set_new(o, "batch_bytes", json_integer(s.batch_bytes));
    json_object_set_new(o, "copy_bytes", json_integer(s.copy_bytes));
    json_object_set_new(o, "wait_seconds", rungi_jsonl_number(s.wait_seconds));
    json_object_set_new(o, "mean_queue_depth", rungi_jsonl_number(s.mean_queue_depth));
    json_object_set_new(o, "seconds", stages(s.seconds, 1));
    for (int i = 0; rung_loader_measure_worker(loader, i, &w); i++)
        json_array_append_new(workers, worker_json(&w));
    json_object_set_new(o, "by_worker", workers);
    char *path = rungi_path_join(t->run, "loader.json");
    rung_status status =
        path ? rungi_json_save(path, o) : RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a path");
    free(path);
    json_decref(o);
    return status;
}
