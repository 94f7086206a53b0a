// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "rung/data.h"
#include "rung/predict.h"

enum { BATCH = 64, TOP = 5 };

// "FILE:ROW" with digits behind the last colon, where no file of the whole name is meant: a row of
// an IDX file.
static bool split_row(const char *text, char *path, size_t size, int64_t *row_out)
{
    const char *colon = strrchr(text, ':');
    if (!colon || !colon[1] || strspn(colon + 1, "0123456789") != strlen(colon + 1) ||
        (size_t)(colon - text) >= size)
        return false;
    errno = 0;
    *row_out = strtoll(colon + 1, NULL, 10);
    if (errno)
        return false;
    memcpy(path, text, (size_t)(colon - text));
    path[colon - text] = '\0';
    return true;
}

static rung_status read_image(const char *text, int channels, rung_image *image_out)
{
    char path[4096];
    int64_t row;
    if (split_row(text, path, sizeof path, &row))
        return rung_idx_image(path, row, image_out);
    return rung_image_read(text, channels, image_out);
}

// Text of a JSON string, quotes included.
static void print_json_text(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 0x20)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

// The classes of the largest probabilities, largest first; equal ones in their order.
static int find_top(const float *probabilities, int64_t classes, int64_t top[TOP])
{
    int count = 0;
    for (int64_t k = 0; k < classes; k++) {
        int at = count;
        while (at > 0 && probabilities[k] > probabilities[top[at - 1]])
            at--;
        if (at == TOP)
            continue;
        int last = count < TOP ? count++ : TOP - 1;
        for (int i = last; i > at; i--)
            top[i] = top[i - 1];
        top[at] = k;
    }
    return count;
}

static const char *name_of(const rung_predictor_info *info, int64_t k)
{
    return k < info->named ? info->class_names[k] : "";
}

static void print_text(const char *image, const rung_predictor_info *info, const float *p)
{
    int64_t top[TOP];
    int count = find_top(p, info->classes, top);
    printf("%s\n", image);
    for (int i = 0; i < count; i++)
        printf("  %7.3f%%  %3" PRId64 "  %s\n", 100 * (double)p[top[i]], top[i],
               name_of(info, top[i]));
}

static void print_json(const char *image, const rung_predictor_info *info, const float *p)
{
    int64_t top[TOP];
    int count = find_top(p, info->classes, top);
    printf("{\"image\":");
    print_json_text(image);
    printf(",\"top\":[");
    for (int i = 0; i < count; i++) {
        printf("%s{\"class\":%" PRId64 ",\"name\":", i ? "," : "", top[i]);
        if (top[i] < info->named)
            print_json_text(name_of(info, top[i]));
        else
            printf("null");
        printf(",\"probability\":%.9g}", (double)p[top[i]]);
    }
    printf("]}\n");
}

static rung_status predict_some(rung_predictor *predictor, const rung_predictor_info *info,
                                char *const *words, int count, bool json)
{
    rung_image images[BATCH] = {0};
    rung_status status = RUNG_OK;
    int have = 0;
    float *p = malloc((size_t)count * (size_t)info->classes * sizeof *p);
    if (!p)
        status = rung_error_set(RUNG_NO_MEMORY, "out of memory");
    while (status == RUNG_OK && have < count) {
        status = read_image(words[have], info->channels, &images[have]);
        if (status == RUNG_OK && (images[have].channels != info->channels ||
                                  (info->width && (images[have].width != info->width ||
                                                   images[have].height != info->height))))
            status = rung_error_set(
                RUNG_MISMATCH,
                "%s: is %d x %d with %d channel%s, the network was trained on %d x %d with %d: "
                "resize it first",
                words[have], images[have].width, images[have].height, images[have].channels,
                images[have].channels == 1 ? "" : "s", info->width, info->height, info->channels);
        have += status == RUNG_OK || images[have].pixels != NULL;
    }
    if (status == RUNG_OK)
        status = rung_predictor_run(predictor, images, count, p);
    for (int i = 0; i < count && status == RUNG_OK; i++)
        (json ? print_json : print_text)(words[i], info, p + i * info->classes);
    for (int i = 0; i < have; i++)
        rung_image_fini(&images[i]);
    free(p);
    return status;
}

static rung_status predict(rung_context *context, const cli_arguments *arguments)
{
    const char *checkpoint = cli_value(arguments, "--checkpoint");
    rung_predictor *predictor = NULL;
    rung_status status = rung_predictor_open(context, arguments->words[0],
                                             checkpoint ? checkpoint : "latest", &predictor);
    if (status != RUNG_OK)
        return status;
    rung_predictor_info info = rung_predictor_describe(predictor);
    for (int i = 1; i < arguments->word_count && status == RUNG_OK; i += BATCH) {
        int left = arguments->word_count - i;
        status = predict_some(predictor, &info, arguments->words + i, left < BATCH ? left : BATCH,
                              cli_value(arguments, "--json") != NULL);
    }
    rung_predictor_destroy(&predictor);
    return status;
}

static rung_status run(rung_context *context, const cli_arguments *arguments)
{
    rung_config *config = NULL;
    rung_context *own = NULL;
    rung_status status = rung_run_config(context, arguments->words[0], NULL, 0, &config);
    if (status == RUNG_OK)
        status = cli_context_create(arguments, rung_config_isa(config), &own);
    if (status == RUNG_OK)
        status = predict(own, arguments);
    rung_context_destroy(&own);
    rung_config_destroy(&config);
    return status;
}

static const cli_option options[] = {
    {"--checkpoint", "NAME", "Which checkpoint: latest (the default), best, or a name."},
    {"--json", NULL, "Print one JSON object a line and image, for programs."},
    {0},
};

const cli_verb cli_verb_predict = {
    .name = "predict",
    .summary = "tell the most likely classes of pictures",
    .arguments = "RUN IMAGE...",
    .text =
        "Prints the five most likely classes of each picture, from a run folder alone: the "
        "data set need not be there. A picture is a JPEG, PNG, WebP, PGM or PPM file, or a row of "
        "an IDX file of images (t10k-images-idx3-ubyte.gz:17, from row 0 on). It must have the "
        "size of those that the network was trained on, if they had one size, and goes through "
        "the transforms of validation.",
    .options = options,
    .min_arguments = 2,
    .max_arguments = -1,
    .run = run,
};
