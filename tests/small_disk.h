// SPDX-License-Identifier: Apache-2.0
// A small file system of one's own, to fill it.
#ifndef RUNGI_TESTS_SMALL_DISK_H
#define RUNGI_TESTS_SMALL_DISK_H

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

static inline bool small_disk_write(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    bool good = f && fputs(text, f) >= 0;
    return f && fclose(f) == 0 && good;
}

// Mounts a tmpfs of `size` ("64k") over `folder`, seen by this process (a child of the test) only.
// False where that is not allowed.
static inline bool small_disk_mount(const char *folder, const char *size)
{
    char users[64], groups[64], options[64];
    snprintf(users, sizeof users, "0 %u 1\n", (unsigned)geteuid());
    snprintf(groups, sizeof groups, "0 %u 1\n", (unsigned)getegid());
    snprintf(options, sizeof options, "size=%s", size);
    if (geteuid() &&
        (unshare(CLONE_NEWUSER) != 0 || !small_disk_write("/proc/self/uid_map", users) ||
         !small_disk_write("/proc/self/setgroups", "deny") ||
         !small_disk_write("/proc/self/gid_map", groups)))
        return false;
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", folder, "tmpfs", 0, options) == 0;
}

#endif
