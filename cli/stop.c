// SPDX-License-Identifier: Apache-2.0
// Signals: the first asks the trainer to end after its step, the second ends the process.
#include <signal.h>
#include <stddef.h>

#include "cli.h"

// A signal handler reaches nothing but what is global.
static rung_trainer *volatile watched;
static volatile sig_atomic_t received;

static void on_signal(int number)
{
    if (received) {
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    received = number;
    if (watched)
        rung_trainer_stop(watched);
}

void cli_stop_watch(rung_trainer *trainer)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGUSR1};
    watched = trainer;
    // SA_RESTART: a write that is under way when the signal comes must not fail.
    struct sigaction action = {.sa_handler = trainer ? on_signal : SIG_DFL, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaction(numbers[i], &action, NULL);
}

int cli_stop_signal(void)
{
    return received;
}
