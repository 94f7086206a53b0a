// SPDX-License-Identifier: Apache-2.0
// Parameters that take no part in the loss: a head that was built and is not used, mostly by
// mistake. A compiled graph has no branches, so they are known before the first step.
#include "base/context.h"
#include "base/error.h"
#include "train/engine_inside.h"

enum { SHOWN = 8 };

static void list(const char *const *names, int count, rungi_string *out)
{
    for (int i = 0; i < count && i < SHOWN; i++)
        rungi_string_add(out, "%s%s", i ? ", " : "", names[i]);
    if (count > SHOWN)
        rungi_string_add(out, " and %d more", count - SHOWN);
    rungi_string_add(out, count > 1 ? " take no part" : " takes no part");
}

rung_status rungi_engine_check_unused(rungi_engine *e)
{
    const char *names[SHOWN];
    int count = e->graph->loss ? rung_graph_unused(e->graph, names, SHOWN) : 0;
    rung_context *context = rung_device_context(e->state->device);
    rungi_string text = {0};
    rung_status status = RUNG_OK;
    RUNG_CHECK(count >= 0, RUNG_NO_MEMORY, "no memory to look through a graph");
    list(names, count, &text);
    if (count && e->exchange && !e->options.allow_unused)
        status = RUNG_FAIL(RUNG_CONFIG,
                           "%s in the loss: with several ranks, which exchange all gradients, that "
                           "is refused unless train.allow_unused is true",
                           rungi_string_text(&text));
    else if (count && !e->options.allow_unused)
        rungi_log(context, RUNG_LOG_WARNING,
                  "%s in the loss and will not be trained (train.allow_unused=true says that this "
                  "is meant)",
                  rungi_string_text(&text));
    else if (!count && e->options.allow_unused)
        rungi_log(context, RUNG_LOG_NOTICE,
                  "train.allow_unused is on, but every parameter takes part in the loss");
    rungi_string_fini(&text);
    e->looked = status == RUNG_OK;
    return status;
}
