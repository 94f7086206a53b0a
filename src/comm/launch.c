// SPDX-License-Identifier: Apache-2.0
#include "comm/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "comm/recorder_inside.h"

// ---- variables --------------------------------------------------------------------------------

typedef struct launcher {
    const char *size, *rank, *local_size;
} launcher;

// Open MPI; MPICH and others by PMI; Slurm, also with PMIx.
static const launcher launchers[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS"},
    {"SLURM_NTASKS", "SLURM_PROCID", NULL},
};

static rung_status read_number(const char *name, long least, long most, int *out)
{
    const char *text = getenv(name);
    char *end;
    RUNG_CHECK(text, RUNG_CONFIG, "%s is not set, but others of the launcher's variables are",
               name);
    errno = 0;
    long value = strtol(text, &end, 10);
    RUNG_CHECK(*text && !*end && errno == 0 && value >= least && value <= most, RUNG_CONFIG,
               "%s is '%s': allowed are %ld to %ld", name, text, least, most);
    *out = (int)value;
    return RUNG_OK;
}

rung_status rungi_launch_read(rungi_launch *out)
{
    rungi_launch found = {.size = 1, .local_size = 1};
    for (int i = 0; i < 3; i++) {
        const launcher *l = &launchers[i];
        bool slurm = i == 2; // a shell of an allocation has its size, but no rank
        if (!getenv(l->rank) && (slurm || !getenv(l->size)))
            continue;
        RUNG_TRY(read_number(l->size, 1, RUNGI_LAUNCH_PROCESSES, &found.size));
        RUNG_TRY(read_number(l->rank, 0, found.size - 1, &found.rank));
        found.local_size = found.size;
        if (l->local_size && getenv(l->local_size)) {
            RUNG_TRY(read_number(l->local_size, 1, found.size, &found.local_size));
            found.one_machine = found.local_size == found.size;
        }
        found.launched = found.size > 1;
        break;
    }
    *out = found;
    return RUNG_OK;
}

// ---- the board --------------------------------------------------------------------------------

typedef struct entry {
    rungi_word pid;   // 0: has not come
    rungi_word began; // of the process, in ticks since boot
    rungi_word named; // the rank for whose death it gives up, + 1; 0: none
    rungi_word left;  // it waits no more
} entry;

struct rungi_board {
    rungi_launch launch;
    char path[256];
    entry *entries; // by rank
    size_t bytes;
};

// One name for all processes of the job on this machine: what the launcher calls it, or who started
// them.
static void name_board(rungi_board *b)
{
    static const char *const names[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID",
                                        "SLURM_JOB_ID"};
    const char *job = NULL;
    for (int i = 0; i < 4 && !job; i++)
        job = getenv(names[i]);
    const char *step = getenv("SLURM_STEP_ID");
    char text[96];
    if (job)
        snprintf(text, sizeof text, "%s-%s", job, step ? step : "");
    else
        snprintf(text, sizeof text, "%d-%lld", (int)getppid(),
                 (long long)rungi_process_began(getppid(), NULL));
    for (char *c = text; *c; c++)
        if (*c == '/')
            *c = '_';
    snprintf(b->path, sizeof b->path, "/dev/shm/rung-%u-%s", (unsigned)getuid(), text);
}

// Why a process that came is not there any more; NULL: it is, or has not come.
static const char *fallen(const entry *e)
{
    int64_t pid = (int64_t)atomic_load(&e->pid);
    char state;
    if (!pid || atomic_load(&e->left))
        return NULL;
    int64_t began = rungi_process_began(pid, &state);
    if ((began >= 0 && began != (int64_t)atomic_load(&e->began)) || state == 'Z' || state == 'X')
        return RUNGI_BOARD_DIED;
    return state == 'T' || state == 't' ? RUNGI_BOARD_STOPPED : NULL;
}

rung_status rungi_board_enter(const rungi_launch *launch, rungi_board **board_out)
{
    rungi_board *b = calloc(1, sizeof *b);
    RUNG_CHECK(b, RUNG_NO_MEMORY, "no memory to wait for other processes");
    b->launch = *launch;
    b->bytes = (size_t)launch->size * sizeof(entry);
    name_board(b);
    int file = open(b->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *data = MAP_FAILED;
    if (file >= 0 && ftruncate(file, (off_t)b->bytes) == 0)
        data = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    int error = errno;
    if (file >= 0)
        close(file);
    if (data == MAP_FAILED) {
        rung_status status = RUNG_FAIL(RUNG_IO, "%s: %s", b->path, strerror(error));
        free(b);
        return status;
    }
    b->entries = data;
    for (int r = 0; r < launch->size; r++) // of a job that had the same name
        if (fallen(&b->entries[r]))
            atomic_store(&b->entries[r].pid, 0), atomic_store(&b->entries[r].named, 0);
    entry *own = &b->entries[launch->rank];
    atomic_store(&own->named, 0);
    atomic_store(&own->left, 0);
    atomic_store(&own->began, (uint64_t)rungi_process_began(getpid(), NULL));
    atomic_store(&own->pid, (uint64_t)getpid());
    *board_out = b;
    return RUNG_OK;
}

void rungi_board_fail(rungi_board *b)
{
    if (b)
        atomic_store(&b->entries[b->launch.rank].named, (uint64_t)b->launch.rank + 1);
}

void rungi_board_close(rungi_board **board, bool remove)
{
    rungi_board *b = *board;
    if (!b)
        return;
    atomic_store(&b->entries[b->launch.rank].left, 1);
    if (remove)
        unlink(b->path);
    munmap(b->entries, b->bytes);
    free(b);
    *board = NULL;
}

// The rank of a process, by the variables that it was started with; -1: none.
static int rank_of_process(long pid)
{
    char path[64], text[1 << 14];
    int rank = -1;
    snprintf(path, sizeof path, "/proc/%ld/environ", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    text[size > 0 ? size : 0] = 0;
    for (const char *at = text; at < text + size; at += strlen(at) + 1)
        for (int i = 0; i < 3; i++) {
            size_t length = strlen(launchers[i].rank);
            if (strncmp(at, launchers[i].rank, length) == 0 && at[length] == '=')
                rank = atoi(at + length + 1);
        }
    return rank;
}

// The launcher's children on this machine, who may not have come yet.
typedef struct children {
    bool there[RUNGI_LAUNCH_PROCESSES]; // by rank
    bool stopped[RUNGI_LAUNCH_PROCESSES];
    bool others; // whose rank is not known: of which nothing can be concluded
} children;

static void look_at_children(children *c)
{
    char path[64];
    memset(c, 0, sizeof *c);
    // A rank's own script, or a launcher that is itself a rank of something, has other children.
    c->others = rank_of_process(getppid()) >= 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)getppid(), (int)getppid());
    FILE *file = fopen(path, "re");
    for (long pid; file && fscanf(file, "%ld", &pid) == 1;) {
        char state;
        if (rungi_process_began(pid, &state) <= 0 || state == 'Z' || state == 'X')
            continue;
        int rank = rank_of_process(pid);
        if (rank < 0 || rank >= RUNGI_LAUNCH_PROCESSES) {
            c->others = true; // or has just been made
            continue;
        }
        c->there[rank] = true;
        c->stopped[rank] = state == 'T' || state == 't';
    }
    if (file)
        fclose(file);
    else
        c->others = true;
}

// The first rank that has not come because its process is stopped, or that has none; -1: nobody.
static int kept_from_coming(const rungi_board *b, const children *c, const char **why)
{
    bool sure = b->launch.one_machine && !c->others;
    for (int r = 0; r < b->launch.size; r++) {
        if (atomic_load(&b->entries[r].pid) || (c->there[r] && !c->stopped[r]))
            continue;
        *why = c->there[r] ? RUNGI_BOARD_STOPPED : RUNGI_BOARD_ABSENT;
        if (c->there[r] || sure)
            return r;
    }
    return -1;
}

// The first rank that came, but is gone or stopped; -1: nobody.
static int fallen_here(const rungi_board *b, const char **why)
{
    for (int r = 0; r < b->launch.size; r++) {
        *why = r == b->launch.rank ? NULL : fallen(&b->entries[r]);
        if (*why)
            return r;
    }
    return -1;
}

int rungi_board_fallen(rungi_board *b, const char **why)
{
    int found = -1;
    // What others have given up for comes before what follows from it.
    for (int r = 0; r < b->launch.size && found < 0; r++) {
        found = r == b->launch.rank ? -1 : (int)atomic_load(&b->entries[r].named) - 1;
        *why = RUNGI_BOARD_DIED;
    }
    if (found < 0)
        found = fallen_here(b, why);
    if (found < 0) {
        children c;
        look_at_children(&c);
        found = kept_from_coming(b, &c, why);
    }
    if (found >= 0 && strcmp(*why, RUNGI_BOARD_DIED) == 0)
        atomic_store(&b->entries[b->launch.rank].named, (uint64_t)found + 1);
    return found;
}

int rungi_board_missing(const rungi_board *b, rungi_string *out)
{
    int missing = 0;
    for (int first = 0; first < b->launch.size; first++) {
        int last = first;
        if (atomic_load(&b->entries[first].pid))
            continue;
        while (last + 1 < b->launch.size && !atomic_load(&b->entries[last + 1].pid))
            last++;
        rungi_string_add(out, "%s%d", missing ? ", " : "", first);
        if (last > first)
            rungi_string_add(out, "-%d", last);
        missing += last - first + 1;
        first = last;
    }
    return missing;
}
