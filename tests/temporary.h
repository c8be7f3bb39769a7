/* tests/temporary.h - temporary folders of tests. They are in memory if there is room, because
 * tests write thousands of files, and Brasa waits until the disk has each of them. */
#ifndef BR_TESTS_TEMPORARY_H
#define BR_TESTS_TEMPORARY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Makes an empty folder whose name begins with "brasa-" and `name`, and stores its path. Returns
 * false on failure. */
enum { TEMPORARY_PATH = 40 };
static inline bool temporary_folder(const char *name, char path[TEMPORARY_PATH])
{
    static const uint64_t enough = (uint64_t)1 << 30; /* bytes */
    static const char memory[] = "/dev/shm";
    struct statvfs s;
    bool fits = access(memory, W_OK) == 0 && statvfs(memory, &s) == 0 &&
                (uint64_t)s.f_bavail * s.f_frsize >= enough;
    snprintf(path, TEMPORARY_PATH, "%s/brasa-%s-XXXXXX", fits ? memory : "/tmp", name);
    return mkdtemp(path) != NULL;
}

#endif
