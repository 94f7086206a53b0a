// SPDX-License-Identifier: Apache-2.0
// Prints the time, in nanoseconds, in which a flag goes from one core to another and back; 0 on one
// core. Virtual cores move between sharing a cache ("near") and not ("far"), which changes what
// exchanges cache lines.
#include <stdio.h>

#include "measure/ceilings.h"

int main(void)
{
    rung_context *context = NULL;
    double seconds = 0;
    rung_status status = rung_context_create(NULL, &context);
    if (status == RUNG_OK)
        status = rungi_round_trip_measure(context, &seconds);
    if (status == RUNG_OK)
        printf("%.0f\n", seconds * 1e9);
    else
        fprintf(stderr, "roundtrip: %s\n", rung_error_last()->message);
    rung_context_destroy(&context);
    return status == RUNG_OK ? 0 : 1;
}
