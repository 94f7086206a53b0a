// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include "cli.h"

cli_line cli_line_init(bool quiet)
{
    return (cli_line){.terminal = isatty(STDOUT_FILENO) && !quiet};
}

void cli_line_clear(cli_line *l)
{
    if (l->shown)
        fputs("\r\033[K", stdout);
    l->shown = false;
}

void cli_line_show(void *line, const char *text)
{
    cli_line *l = line;
    if (!l->terminal)
        return;
    cli_line_clear(l);
    fputs(text, stdout);
    fflush(stdout);
    l->shown = true;
}
