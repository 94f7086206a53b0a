// SPDX-License-Identifier: Apache-2.0
// Prints the time, in nanoseconds, in which a flag goes from one core to another and back: the
// median over rounds of about a tenth of a millisecond, one millisecond in all. Virtual cores move
// between sharing a cache ("near") and not ("far"), which changes what exchanges cache lines.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 11, TRIPS = 300, LINE = 64 };

typedef struct court {
    _Alignas(LINE) _Atomic int there;
    _Alignas(LINE) _Atomic int back;
    int cores[2];
} court;

static void pin(int core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void *answer(void *arg)
{
    court *c = arg;
    pin(c->cores[1]);
    for (int i = 1; i <= ROUNDS * TRIPS; i++) {
        while (atomic_load(&c->there) < i) {
        }
        atomic_store(&c->back, i);
    }
    return NULL;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(void)
{
    static court c;
    cpu_set_t allowed;
    int found = 0;
    double ns[ROUNDS];
    pthread_t other;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return 1;
    for (int i = 0; i < CPU_SETSIZE && found < 2; i++)
        if (CPU_ISSET(i, &allowed))
            c.cores[found++] = i;
    if (found < 2) {
        printf("0\n"); // one core: there is no way to go
        return 0;
    }
    if (pthread_create(&other, NULL, answer, &c) != 0)
        return 1;
    pin(c.cores[0]);
    for (int round = 0, i = 1; round < ROUNDS; round++) {
        double begin = now();
        for (int trip = 0; trip < TRIPS; trip++, i++) {
            atomic_store(&c.there, i);
            while (atomic_load(&c.back) < i) {
            }
        }
        ns[round] = (now() - begin) / TRIPS;
    }
    pthread_join(other, NULL);
    qsort(ns, ROUNDS, sizeof *ns, ascending);
    printf("%.0f\n", ns[ROUNDS / 2]);
    return 0;
}
