// SPDX-License-Identifier: Apache-2.0
// Validation: losses and hits summed by samples.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "train/session_stages.h"
#include "train/trainer.h"

enum { HARVEST_BATCHES = 256 }; // at most so many batches are left to the timeline

typedef struct tally {
    double loss; // sum over samples
    int64_t samples, correct, correct5;
} tally;

// Rank of the true class among the scores: how many are higher, or equal and earlier. Scores that
// are not a number never win.
static int64_t rank_of(const float *scores, int64_t classes, int64_t label, int64_t *top)
{
    int64_t above = 0;
    *top = 0;
    for (int64_t k = 0; k < classes; k++) {
        above += !(scores[k] < scores[label] || (scores[k] == scores[label] && k >= label));
        if (scores[k] > scores[*top])
            *top = k;
    }
    return above;
}

static rung_status count_batch(rung_trainer *t, const rung_batch *batch, tally *sum)
{
    rung_view logits;
    RUNG_TRY(rungi_engine_output(t->s->engine, "logits", &logits));
    int64_t classes = logits.shape.dim[1];
    const int64_t *labels = rungi_session_labels(t->s, batch);
    RUNG_CHECK(labels, RUNG_DATA, "the validation data have no labels");
    for (int64_t i = 0; i < batch->count; i++) {
        int64_t top;
        int64_t rank = rank_of((const float *)logits.data + i * classes, classes, labels[i], &top);
        sum->correct += rank == 0;
        sum->correct5 += rank < 5;
        t->confusion[labels[i] * t->classes + top]++;
    }
    sum->samples += batch->count;
    return RUNG_OK;
}

static rung_status run(rung_trainer *t, tally *sum)
{
    rungi_session *s = t->s;
    rung_loader_info info;
    rung_loader_describe(s->val_loader, &info);
    RUNG_TRY(rungi_session_val_seek(s, 0, 0));
    for (int64_t i = 0; i < info.batches_per_epoch; i++) {
        rung_batch batch;
        rungi_feed feeds[RUNG_MAX_FIELDS];
        double loss = 0;
        RUNG_TRY(rungi_trainer_keep_bad(t, rungi_session_val_next(s, &batch)));
        rungi_batch_view view = {.count = batch.count,
                                 .global_count = batch.global_count,
                                 .begin = batch.begin,
                                 .feeds = feeds,
                                 .n_feeds = rungi_session_feeds(s, &batch, feeds),
                                 .seed = (uint64_t)s->c->seed,
                                 .step = (uint64_t)t->at.step};
        rung_status status = rungi_engine_eval(s->engine, &view, &loss);
        sum->loss += loss * (double)batch.global_count;
        if (status == RUNG_OK && batch.count && rungi_session_has_logits(s))
            status = count_batch(t, &batch, sum);
        rungi_session_val_release(s, &batch);
        RUNG_TRY(status);
        if (i % HARVEST_BATCHES == HARVEST_BATCHES - 1)
            rungi_windows_harvest(t);
    }
    return RUNG_OK;
}

// Each sample was evaluated by one rank; the loss is that of all ranks already.
static rung_status add_ranks(rung_trainer *t, tally *sum)
{
    int64_t counts[] = {sum->samples, sum->correct, sum->correct5};
    RUNG_TRY(rungi_trainer_sum(t, counts, 3, "validated samples"));
    sum->samples = counts[0];
    sum->correct = counts[1];
    sum->correct5 = counts[2];
    return rungi_trainer_sum(t, t->confusion, t->classes * t->classes, "confusion matrix");
}

static rung_status evaluate(rung_trainer *t, tally *sum)
{
    t->classes = rungi_session_logits(t->s);
    if (!t->confusion)
        t->confusion = calloc((size_t)(t->classes * t->classes), sizeof *t->confusion);
    RUNG_CHECK(t->confusion, RUNG_NO_MEMORY, "no memory for the confusion matrix");
    memset(t->confusion, 0, (size_t)(t->classes * t->classes) * sizeof *t->confusion);
    rungi_timeline_begin(t->s->timeline, RUNGI_QUEUE_HOST, RUNGI_TIME_EVAL, t->at.step);
    rung_status status = run(t, sum);
    if (status == RUNG_OK)
        status = add_ranks(t, sum);
    rungi_timeline_end(t->s->timeline, RUNGI_QUEUE_HOST);
    return status;
}

rung_status rungi_trainer_evaluate_own(rung_trainer *t, rung_eval_result *result_out)
{
    tally sum = {0};
    RUNG_CHECK(t->s->val_loader, RUNG_INVALID, "there is no validation data");
    RUNG_TRY(evaluate(t, &sum));
    *result_out = (rung_eval_result){.loss = sum.loss / (double)sum.samples,
                                     .samples = sum.samples,
                                     .correct = sum.correct,
                                     .correct5 = sum.correct5,
                                     .classes = t->classes,
                                     .confusion = t->confusion};
    return RUNG_OK;
}

static rung_status evaluate_member(void *arg, rungi_member *member)
{
    rung_eval_result others;
    return rungi_trainer_evaluate_own(member->user, member->index ? &others : arg);
}

rung_status rung_trainer_evaluate(rung_trainer *t, rung_eval_result *result_out)
{
    return t->crew ? rungi_crew_run(t->crew, evaluate_member, result_out)
                   : rungi_trainer_evaluate_own(t, result_out);
}

rung_status rungi_trainer_validate(rung_trainer *t, rung_train_event *event)
{
    rung_eval_result r;
    int64_t begin = rungi_trainer_now(t);
    RUNG_TRY(rungi_trainer_evaluate_own(t, &r));
    double seconds = (double)(rungi_trainer_now(t) - begin) * 1e-9;
    event->loss = r.loss;
    event->evaluated = r.samples;
    event->correct = r.correct;
    event->accuracy = (double)r.correct / (double)r.samples;
    event->top5 = (double)r.correct5 / (double)r.samples;
    event->ms[RUNGI_TIME_EVAL] = seconds * 1e3;
    event->samples_per_s = seconds > 0 ? (double)r.samples / seconds : 0;
    return RUNG_OK;
}

double rungi_trainer_metric(const rung_train_event *eval, rungi_metric which)
{
    return which == RUNGI_METRIC_ACCURACY ? -eval->accuracy : eval->loss;
}
