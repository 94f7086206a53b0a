// SPDX-License-Identifier: Apache-2.0
// What rung fit predicts for a configuration, in bytes: for bench/memory_models.
//
//   fit_row CONFIG [KEY=VALUE...]
//
// Prints a line for each precision and way at the configuration's batch:
//   PRECISION WAY PEAK RESIDENT     f32, f16 or bf16; keep, recompute or least
#include <inttypes.h>
#include <stdio.h>

#include "rung/config.h"
#include "rung/context.h"
#include "rung/fit.h"

static const char *way_name(rung_fit_way way)
{
    static const char *const names[] = {"keep", "recompute", "least"};
    return names[way];
}

static rung_status predict(rung_context *context, const rung_config *config, int64_t batch)
{
    rung_fit fit;
    rung_fit_options o = {.batches = &batch, .n_batches = 1, .no_times = true};
    rung_status status = rung_fit_run(context, config, &o, &fit);
    if (status != RUNG_OK)
        return status;
    for (int64_t i = 0; i < fit.count; i++)
        printf("%s %s %" PRIu64 " %" PRIu64 "\n", rung_dtype_name(fit.rows[i].precision),
               way_name(fit.rows[i].way), fit.rows[i].peak, fit.rows[i].resident);
    rung_fit_fini(&fit);
    return RUNG_OK;
}

int main(int argc, char **argv)
{
    rung_config *config = NULL;
    rung_context *context = NULL;
    double batch = 0;
    rung_status status = rung_config_create(NULL, &config);
    if (status == RUNG_OK && argc > 1)
        status = rung_config_load(config, argv[1]);
    for (int i = 2; i < argc && status == RUNG_OK; i++)
        status = rung_config_override(config, argv[i]);
    if (status == RUNG_OK)
        status = rung_config_number(config, "data.batch_size", &batch);
    if (status == RUNG_OK)
        status =
            rung_context_create(&(rung_context_options){.isa = rung_config_isa(config)}, &context);
    if (status == RUNG_OK)
        status = predict(context, config, (int64_t)batch);
    if (status != RUNG_OK)
        fprintf(stderr, "fit_row: %s\n", rung_error_last()->message);
    rung_context_destroy(&context);
    rung_config_destroy(&config);
    return status == RUNG_OK ? 0 : 1;
}
