/* tests/shim/calls.c - a library for LD_PRELOAD that records a program's writes, syncs and renames
 * of files in the file $CALLS, one per line:
 *
 *     write PATH
 *     fsync PATH
 *     rename FROM TO
 *
 * $CALLS_FAIL, for example "fsync 2", makes the second of these calls fail with EIO. "close 1" is
 * the first close of a regular file that was open for writing. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
    const char *path = getenv("CALLS");
    char line[2 * PATH_MAX + 16];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
    if (fd >= 0) {
        syscall(SYS_write, fd, line, (size_t)n);
        syscall(SYS_close, fd);
    }
}

/* Counts a call; returns whether it is the one that must fail, with errno set. */
static int fails(const char *kind)
{
    static int fsyncs, renames, closes;
    int *count = strcmp(kind, "fsync") == 0   ? &fsyncs
                 : strcmp(kind, "close") == 0 ? &closes
                                              : &renames;
    int number = ++*count;
    char name[16] = "";
    int which = 0;
    const char *wanted = getenv("CALLS_FAIL");
    if (!wanted || sscanf(wanted, "%15s %d", name, &which) != 2 || strcmp(name, kind) != 0 ||
        which != number)
        return 0;
    errno = EIO;
    return 1;
}

/* Returns the file's path, or "" if it is neither a regular file nor a directory. */
static const char *path_of(int fd, char path[static PATH_MAX])
{
    struct stat st;
    char link[32];
    *path = 0;
    if (fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, path, PATH_MAX - 1);
        path[n > 0 ? n : 0] = 0;
    }
    return path;
}

ssize_t write(int fd, const void *data, size_t n)
{
    char path[PATH_MAX];
    if (*path_of(fd, path))
        note("write %s\n", path);
    return syscall(SYS_write, fd, data, n);
}

int fsync(int fd)
{
    char path[PATH_MAX];
    note("fsync %s\n", path_of(fd, path));
    return fails("fsync") ? -1 : (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
    note("rename %s %s\n", from, to);
    return fails("rename") ? -1 : renameat(AT_FDCWD, from, AT_FDCWD, to);
}

/* A file system may report only now that the data of a file could not be written. */
int close(int fd)
{
    struct stat st;
    int flags = fcntl(fd, F_GETFL);
    bool written =
        flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    int result = (int)syscall(SYS_close, fd);
    return written && fails("close") ? -1 : result;
}
