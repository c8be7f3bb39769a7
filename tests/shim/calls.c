/* tests/shim/calls.c - a library for LD_PRELOAD that records a program's changes of files in the
 * file $CALLS, one per line:
 *
 *     create PATH
 *     write PATH
 *     fsync PATH
 *     close PATH
 *     rename FROM TO
 *     unlink PATH
 *
 * and makes its calls fail as a file system may:
 *
 *     CALLS_FAIL="fsync 2"          the second fsync() fails with EIO
 *     CALLS_FAIL="write 3 ENOSPC"   the third write, and each later one, finds a full disk
 *     CALLS_EVERY=EINTR             every other call on a file, also open() and pread(), is
 *                                   interrupted by a signal
 *     CALLS_EVERY=SHORT             reads and writes transfer half of the bytes
 *     CALLS_KILL=7                  the program is killed before the seventh change */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool every(const char *what)
{
    const char *wanted = getenv("CALLS_EVERY");
    return wanted && strcmp(wanted, what) == 0;
}

/* Returns true for every other call, which must then fail with EINTR. */
static bool interrupted(void)
{
    static int calls;
    if (!every("EINTR") || ++calls % 2 == 0)
        return false;
    errno = EINTR;
    return true;
}

static size_t shortened(size_t n)
{
    return n > 1 && every("SHORT") ? (n + 1) / 2 : n;
}

/* Records a change that the program is about to make. */
__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
    static int changes;
    const char *path = getenv("CALLS"), *last = getenv("CALLS_KILL");
    char line[2 * PATH_MAX + 16];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (last && ++changes == atoi(last))
        kill(getpid(), SIGKILL);
    int fd =
        path ? (int)syscall(SYS_open, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
    if (fd >= 0) {
        syscall(SYS_write, fd, line, (size_t)n);
        syscall(SYS_close, fd);
    }
}

/* Counts a call; returns whether it must fail, with errno set. */
static bool fails(const char *kind)
{
    static const char *const kinds[] = { "create", "write", "fsync", "close", "rename", "unlink" };
    static int counts[sizeof kinds / sizeof *kinds];
    char name[16] = "", error[16] = "";
    int which = 0, k = 0;
    while (strcmp(kinds[k], kind) != 0)
        k++;
    counts[k]++;
    const char *wanted = getenv("CALLS_FAIL");
    if (!wanted || sscanf(wanted, "%15s %d %15s", name, &which, error) < 2 ||
        strcmp(name, kind) != 0)
        return false;
    bool full = strcmp(error, "ENOSPC") == 0;
    errno = full ? ENOSPC : EIO;
    return full ? counts[k] >= which : counts[k] == which;
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

/* ---- The calls ------------------------------------------------------------------------------- */

int open(const char *path, int flags, ...)
{
    int mode = 0;
    if (flags & O_CREAT) {
        va_list args;
        va_start(args, flags);
        mode = va_arg(args, int);
        va_end(args);
        note("create %s\n", path);
        if (fails("create"))
            return -1;
    }
    return interrupted() ? -1 : (int)syscall(SYS_open, path, flags, mode);
}

ssize_t pread(int fd, void *data, size_t n, off_t offset)
{
    return interrupted() ? -1 : syscall(SYS_pread64, fd, data, shortened(n), offset);
}

ssize_t write(int fd, const void *data, size_t n)
{
    char path[PATH_MAX];
    if (!*path_of(fd, path))
        return syscall(SYS_write, fd, data, n);
    note("write %s\n", path);
    return fails("write") || interrupted() ? -1 : syscall(SYS_write, fd, data, shortened(n));
}

int fsync(int fd)
{
    char path[PATH_MAX];
    note("fsync %s\n", path_of(fd, path));
    return fails("fsync") || interrupted() ? -1 : (int)syscall(SYS_fsync, fd);
}

/* A file system may report only now that the data of a file could not be written. The descriptor is
 * closed in any case. */
int close(int fd)
{
    char path[PATH_MAX];
    int flags = fcntl(fd, F_GETFL);
    bool written = flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && *path_of(fd, path);
    if (written)
        note("close %s\n", path);
    int result = (int)syscall(SYS_close, fd);
    return written && (fails("close") || interrupted()) ? -1 : result;
}

int rename(const char *from, const char *to)
{
    note("rename %s %s\n", from, to);
    return fails("rename") ? -1 : renameat(AT_FDCWD, from, AT_FDCWD, to);
}

int unlink(const char *path)
{
    note("unlink %s\n", path);
    return fails("unlink") ? -1 : unlinkat(AT_FDCWD, path, 0);
}
