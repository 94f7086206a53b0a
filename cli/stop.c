// SPDX-License-Identifier: Apache-2.0
// Signals: the first asks the trainer to end after its step, the second ends the process.
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "cli.h"

// A signal handler reaches nothing but what is global.
static rung_trainer *volatile watched;
static volatile sig_atomic_t received;
static bool obeyed;

static char supervisor_stat[64]; // "/proc/PID/stat" of rung train --procs, or ""

// Is this process's supervisor dead? Only calls that a signal handler may make.
static bool supervisor_is_gone(void)
{
    char text[512], *name_end;
    if (!*supervisor_stat)
        return false;
    int file = open(supervisor_stat, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return true;
    ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    if (size <= 0)
        return true;
    text[size] = 0;
    name_end = strrchr(text, ')');
    return !name_end || !name_end[1] || name_end[2] == 'Z' || name_end[2] == 'X';
}

static void on_signal(int number)
{
    if (number == SIGTERM && supervisor_is_gone())
        _exit(128 + number); // the launcher clears up: nobody waits for a checkpoint
    if (received) {
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    received = number;
    if (watched)
        rung_trainer_stop(watched);
}

static void handle(int number, void (*handler)(int))
{
    // SA_RESTART: a write that is under way when the signal comes must not fail.
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

void cli_stop_watch(rung_trainer *trainer)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGUSR1};
    if (watched && !trainer)
        obeyed = rung_trainer_stopped(watched);
    watched = trainer;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        handle(numbers[i], trainer ? on_signal : SIG_DFL);
    if (trainer && received) // it came before there was a trainer
        rung_trainer_stop(trainer);
}

void cli_ranks_begin(void)
{
    const char *pid = getenv(CLI_SUPERVISOR);
    if (!rung_ranks_launched())
        return;
    handle(SIGTERM, on_signal);
    if (!pid)
        return;
    snprintf(supervisor_stat, sizeof supervisor_stat, "/proc/%ld/stat", atol(pid));
    pid_t launcher = getppid();
    prctl(PR_SET_PDEATHSIG, SIGKILL); // also where the launcher is killed
    if (getppid() != launcher)
        raise(SIGKILL);
}

int cli_stop_signal(void)
{
    return received;
}

bool cli_stop_obeyed(void)
{
    return received && obeyed;
}
