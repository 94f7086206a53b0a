// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdlib.h>

#include "cli.h"
#include "rung/checkpoint.h"

static rung_status verify(const char *run, const char *checkpoint)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/checkpoints/%s", run, checkpoint);
    rung_status status = rung_checkpoint_verify(path);
    if (status == RUNG_OK)
        printf("%s: every byte is as it was written\n", path);
    return status;
}

static void print_json(const rung_eval_result *r)
{
    printf("{\"loss\":%.17g,\"samples\":%" PRId64 ",\"correct\":%" PRId64 ",\"correct5\":%" PRId64
           "}\n",
           r->loss, r->samples, r->correct, r->correct5);
}

static void print_result(const rung_eval_result *r)
{
    double n = (double)r->samples;
    printf("loss %.6f  accuracy %.4f (%" PRId64 " of %" PRId64 ")  top-5 %.4f\n", r->loss,
           (double)r->correct / n, r->correct, r->samples, (double)r->correct5 / n);
}

static void print_confusion(const rung_trainer *trainer, const rung_eval_result *r)
{
    int64_t named;
    const char *const *names = rung_trainer_classes(trainer, &named);
    printf("confusion (rows: true class, columns: predicted)\n%-16s", "");
    for (int64_t k = 0; k < r->classes; k++)
        printf(" %6" PRId64, k);
    printf("\n");
    for (int64_t i = 0; i < r->classes; i++) {
        if (names && i < named)
            printf("%3" PRId64 " %-12.12s", i, names[i]);
        else
            printf("%3" PRId64 " %-12s", i, "");
        for (int64_t k = 0; k < r->classes; k++)
            printf(" %6" PRId64, r->confusion[i * r->classes + k]);
        printf("\n");
    }
}

static rung_status run(rung_context *context, const cli_arguments *arguments)
{
    const char *checkpoint = cli_value(arguments, "--checkpoint");
    if (!checkpoint)
        checkpoint = "latest";
    if (cli_value(arguments, "--verify"))
        return verify(arguments->words[0], checkpoint);
    rung_config *config = NULL;
    rung_context *own = NULL;
    rung_trainer *trainer = NULL;
    rung_eval_result result;
    const char *const *overrides = (const char *const *)arguments->overrides;
    int count = arguments->override_count;
    rung_status status = rung_run_config(context, arguments->words[0], overrides, count, &config);
    if (status == RUNG_OK)
        status = cli_context_create(arguments, rung_config_isa(config), &own);
    if (status == RUNG_OK)
        status =
            rung_trainer_open(own, arguments->words[0], checkpoint, overrides, count, &trainer);
    if (status == RUNG_OK)
        status = rung_trainer_evaluate(trainer, &result);
    if (status == RUNG_OK && cli_value(arguments, "--json")) {
        print_json(&result);
    } else if (status == RUNG_OK) {
        print_result(&result);
        if (result.classes <= 20)
            print_confusion(trainer, &result);
    }
    rung_trainer_destroy(&trainer);
    rung_context_destroy(&own);
    rung_config_destroy(&config);
    return status;
}

static const cli_option options[] = {
    {"--checkpoint", "NAME", "Which checkpoint: latest (the default), best, or a name."},
    {"--json", NULL, "Print loss and counts as one JSON object."},
    {"--verify", NULL, "Compare every byte of the checkpoint with its checksums, and no more."},
    {0},
};

const cli_verb cli_verb_eval = {
    .name = "eval",
    .summary = "evaluate a run on its validation data",
    .arguments = "RUN [KEY=VALUE ...]",
    .text = "Loads a checkpoint of a run folder and prints loss, accuracy and the confusion "
            "matrix of the validation data.",
    .options = options,
    .min_arguments = 1,
    .max_arguments = 1,
    .config = true,
    .run = run,
};
