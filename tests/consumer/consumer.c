// SPDX-License-Identifier: Apache-2.0
// A program outside the tree: it sees only what is installed.
#include <stdio.h>

#include <rung/context.h>

int main(void)
{
    rung_context *context = NULL;
    if (rung_context_create(NULL, &context) != RUNG_OK) {
        fprintf(stderr, "%s\n", rung_error_last()->message);
        return 1;
    }
    printf("rung %s on %s\n", rung_version(), rung_isa_name(rung_context_isa(context)));
    rung_context_destroy(&context);
    return 0;
}
