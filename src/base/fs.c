// SPDX-License-Identifier: Apache-2.0
#include "base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/array.h"
#include "base/error.h"
#include "base/text.h"

char *rungi_path_join(const char *folder, const char *name)
{
    size_t length = strlen(folder);
    if (length == 0 || name[0] == '/')
        return rungi_text_copy(name);
    return rungi_text_format("%s%s%s", folder, folder[length - 1] == '/' ? "" : "/", name);
}

char *rungi_path_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return rungi_text_copy(".");
    while (slash > path && slash[-1] == '/')
        slash--;
    return slash == path ? rungi_text_copy("/") : strndup(path, (size_t)(slash - path));
}

const char *rungi_path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool rungi_fs_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

bool rungi_fs_is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

// Says which part of `path` is a file where a folder should be.
static rung_status fail_not_folder(const char *path, const char *doing)
{
    char *part = rungi_text_copy(path);
    RUNG_CHECK(part, RUNG_NO_MEMORY, "%s: %s: out of memory", path, doing);
    rung_status status = RUNG_IO;
    char *end = part;
    while ((end = strchr(end + 1, '/'))) {
        *end = 0;
        if (rungi_fs_exists(part) && !rungi_fs_is_folder(part)) {
            RUNG_FAIL(status, "%s: %s: %s is a file, not a folder", path, doing, part);
            break;
        }
        *end = '/';
    }
    if (!end)
        RUNG_FAIL(status, "%s: %s: it is a file, not a folder", path, doing);
    free(part);
    return status;
}

rung_status rungi_fs_fail_full(const char *path, int error, uint64_t needed)
{
    char wants[64] = "", has[64] = "", amount[32];
    struct statvfs fs;
    char *folder = rungi_path_folder(path);
    if (needed)
        snprintf(wants, sizeof wants, ", %s (%llu bytes) needed",
                 rungi_text_bytes(needed, amount, sizeof amount), (unsigned long long)needed);
    if (folder && statvfs(folder, &fs) == 0)
        snprintf(has, sizeof has, ", %s free",
                 rungi_text_bytes((uint64_t)fs.f_bavail * fs.f_frsize, amount, sizeof amount));
    free(folder);
    return RUNG_FAIL(RUNG_IO, "%s: disk full%s%s%s; free some space or choose another folder", path,
                     error == EDQUOT ? " (quota)" : "", wants, has);
}

rung_status rungi_fs_fail(const char *path, const char *doing, int error)
{
    switch (error) {
    case ENOENT:
        return RUNG_FAIL(RUNG_NOT_FOUND, "%s: %s: no such file or folder", *path ? path : "''",
                         doing);
    case EISDIR:
        return RUNG_FAIL(RUNG_IO, "%s: %s: it is a folder, not a file", path, doing);
    case ENOTDIR:
        return fail_not_folder(path, doing);
    case ENOSPC:
    case EDQUOT:
        return rungi_fs_fail_full(path, error, 0);
    case EACCES:
    case EPERM:
    case EROFS:
        return RUNG_FAIL(RUNG_IO, "%s: %s: %s (check who may read and write there)", path, doing,
                         error == EROFS ? "read-only file system" : "permission denied");
    case ENOMEM:
        return RUNG_FAIL(RUNG_NO_MEMORY, "%s: %s: out of memory", path, doing);
    default:
        return RUNG_FAIL(RUNG_IO, "%s: %s: %s", path, doing, strerror(error));
    }
}

// Opens for reading. A folder is refused here: read() on it would say so only later.
static rung_status open_file(const char *path, int *fd_out, struct stat *st_out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return rungi_fs_fail(path, "cannot open", errno);
    int error = fstat(fd, st_out) != 0 ? errno : S_ISDIR(st_out->st_mode) ? EISDIR : 0;
    if (error) {
        close(fd);
        return rungi_fs_fail(path, "cannot open", error);
    }
    *fd_out = fd;
    return RUNG_OK;
}

static rung_status fail_too_large(const char *path, size_t limit)
{
    char text[32];
    return RUNG_FAIL(RUNG_FORMAT, "%s: larger than %s, the most that is read here", path,
                     rungi_text_bytes(limit, text, sizeof text));
}

rung_status rungi_fs_read(const char *path, size_t limit, char **data_out, size_t *size_out)
{
    int fd = -1;
    struct stat st;
    char *data = NULL;
    RUNG_TRY(open_file(path, &fd, &st));
    rung_status status = RUNG_OK;
    size_t size = 0, capacity = S_ISREG(st.st_mode) && st.st_size > 0 ? (size_t)st.st_size : 0;
    if (capacity > limit)
        RUNG_TRY_GOTO(close_file, fail_too_large(path, limit));
    for (;;) {
        if (size >= capacity || !data) {
            capacity = data ? capacity * 2 : capacity ? capacity + 1 : 4096;
            char *larger = realloc(data, capacity + 1);
            if (!larger)
                RUNG_TRY_GOTO(close_file, rungi_fs_fail(path, "cannot read", ENOMEM));
            data = larger;
        }
        ssize_t got = read(fd, data + size, capacity - size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            RUNG_TRY_GOTO(close_file, rungi_fs_fail(path, "cannot read", errno));
        size += (size_t)got;
        if (size > limit)
            RUNG_TRY_GOTO(close_file, fail_too_large(path, limit));
        if (got == 0)
            break;
    }
    data[size] = 0;
    *data_out = data;
    *size_out = size;
    data = NULL;
close_file:
    free(data);
    close(fd);
    return status;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void rungi_names_fini(rungi_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->data[i]);
    rungi_array_fini(names);
}

// Reads the names in `folder`. `path` is for messages.
static rung_status read_names(DIR *folder, const char *path, rungi_names *names)
{
    int error = 0;
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(folder);
        if (!entry) {
            error = errno;
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        char *name = rungi_text_copy(entry->d_name);
        if (!name || !rungi_array_push(names, name)) {
            free(name);
            error = ENOMEM;
            break;
        }
    }
    if (error) {
        rungi_names_fini(names);
        return rungi_fs_fail(path, "cannot list", error);
    }
    if (names->count > 1)
        qsort(names->data, names->count, sizeof *names->data, by_bytes);
    return RUNG_OK;
}

rung_status rungi_fs_list(const char *path, rungi_names *names_out)
{
    DIR *folder = opendir(path);
    if (!folder)
        return rungi_fs_fail(path, "cannot list", errno);
    rungi_names names = {0};
    rung_status status = read_names(folder, path, &names);
    closedir(folder);
    if (status == RUNG_OK)
        *names_out = names;
    return status;
}

static rung_status remove_at(int folder, const char *name, const char *path)
{
    if (unlinkat(folder, name, 0) == 0 || errno == ENOENT)
        return RUNG_OK;
    if (errno != EISDIR && errno != EPERM) // Linux says EISDIR for a folder, POSIX EPERM
        return rungi_fs_fail(path, "cannot remove", errno);
    int error = errno;
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return rungi_fs_fail(path, "cannot remove", errno == ENOTDIR ? error : errno);
    DIR *listing = fdopendir(fd);
    if (!listing) {
        error = errno;
        close(fd);
        return rungi_fs_fail(path, "cannot remove", error);
    }
    rungi_names names = {0};
    rung_status status = read_names(listing, path, &names);
    for (size_t i = 0; i < names.count && status == RUNG_OK; i++) {
        char *inner = rungi_path_join(path, names.data[i]);
        status = remove_at(fd, names.data[i], inner ? inner : path);
        free(inner);
    }
    if (status == RUNG_OK && unlinkat(folder, name, AT_REMOVEDIR) != 0)
        status = rungi_fs_fail(path, "cannot remove", errno);
    rungi_names_fini(&names);
    closedir(listing);
    return status;
}

rung_status rungi_fs_remove_tree(const char *path)
{
    return remove_at(AT_FDCWD, path, path);
}

rung_status rungi_mapping_init(rungi_mapping *mapping, const char *path)
{
    int fd = -1;
    struct stat st;
    RUNG_TRY(open_file(path, &fd, &st));
    rungi_mapping made = {.data = (const uint8_t *)"", .size = (size_t)st.st_size};
    if (made.size > 0) {
        made.base = mmap(NULL, made.size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (made.base == MAP_FAILED) {
            int error = errno;
            close(fd);
            return rungi_fs_fail(path, "cannot map", error);
        }
        made.data = made.base;
    }
    close(fd);
    *mapping = made;
    return RUNG_OK;
}

void rungi_mapping_fini(rungi_mapping *mapping)
{
    if (mapping->base)
        munmap(mapping->base, mapping->size);
    *mapping = (rungi_mapping){0};
}
