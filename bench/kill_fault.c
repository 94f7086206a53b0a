// SPDX-License-Identifier: Apache-2.0
// A fault for bench/kill_trials, loaded into every process of a job by LD_PRELOAD. KILL_FAULT is
// "RANK KIND MILLISECONDS FILE": that process, by the launcher's variables, writes the time
// (CLOCK_MONOTONIC, nanoseconds) to the file so many milliseconds after it began, and then
//   kill, stop, abort   gets that signal
//   exit                ends with status 3
//   memory              gets no more memory for allocations of 256 bytes and more
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SMALL = 256 };

static struct {
    int rank;
    char kind[16];
    long milliseconds;
    char file[512];
} fault;
static atomic_bool starved;

static int own_rank(void)
{
    const char *names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
    for (int i = 0; i < 3; i++)
        if (getenv(names[i]))
            return atoi(getenv(names[i]));
    return -1;
}

static void write_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    FILE *file = fopen(fault.file, "w");
    if (!file)
        return;
    fprintf(file, "%lld %ld\n", (long long)t.tv_sec * 1000000000 + t.tv_nsec, (long)getpid());
    fclose(file);
}

static void *fault_main(void *arg)
{
    struct timespec t = {fault.milliseconds / 1000, fault.milliseconds % 1000 * 1000000};
    (void)arg;
    nanosleep(&t, NULL);
    write_time();
    if (strcmp(fault.kind, "kill") == 0)
        raise(SIGKILL);
    else if (strcmp(fault.kind, "stop") == 0)
        kill(getpid(), SIGSTOP);
    else if (strcmp(fault.kind, "abort") == 0)
        abort();
    else if (strcmp(fault.kind, "exit") == 0)
        _exit(3);
    else
        atomic_store(&starved, true);
    return NULL;
}

__attribute__((constructor)) static void begin(void)
{
    pthread_t thread;
    const char *text = getenv("KILL_FAULT");
    if (!text || sscanf(text, "%d %15s %ld %511s", &fault.rank, fault.kind, &fault.milliseconds,
                        fault.file) != 4)
        return;
    if (own_rank() == fault.rank && pthread_create(&thread, NULL, fault_main, NULL) == 0)
        pthread_detach(thread);
}

#define SEEN __attribute__((visibility("default"))) // by all, in place of the library's

// ---- allocation -------------------------------------------------------------------------------

#define REAL(type, name, ...)         \
    static type (*real)(__VA_ARGS__); \
    if (!real)                        \
    real = (type(*)(__VA_ARGS__))(uintptr_t)dlsym(RTLD_NEXT, #name)

static bool refuses(size_t size)
{
    if (size < SMALL || !atomic_load(&starved))
        return false;
    errno = ENOMEM;
    return true;
}

SEEN void *malloc(size_t size)
{
    REAL(void *, malloc, size_t);
    return refuses(size) ? NULL : real(size);
}

SEEN void *realloc(void *data, size_t size)
{
    REAL(void *, realloc, void *, size_t);
    return refuses(size) ? NULL : real(data, size);
}

SEEN void *aligned_alloc(size_t alignment, size_t size)
{
    REAL(void *, aligned_alloc, size_t, size_t);
    return refuses(size) ? NULL : real(alignment, size);
}

// glibc's own: dlsym itself calls calloc.
extern void *__libc_calloc(size_t count, size_t size);

SEEN void *calloc(size_t count, size_t size)
{
    return size && refuses(count > SIZE_MAX / size ? SIZE_MAX : count * size)
               ? NULL
               : __libc_calloc(count, size);
}
