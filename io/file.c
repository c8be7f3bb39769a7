/* io/file.c - opening untrusted paths, and atomic replacement of files.
 *
 * A replacement is written to a temporary file in the same directory, synced, and renamed over the
 * old file. After a crash at any point, either the old file or the new one exists. */
#include "io/io_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static bool fail_errno(const char *op, const char *path, const char *what)
{
    br__fail_file(BR_ERROR_IO, op, path, "%s: %s", what, strerror(errno));
    return false;
}

/* ---- Calls that a signal may interrupt ------------------------------------------------------- */

static int open_again(const char *path, int flags)
{
    int fd;
    do
        fd = open(path, flags | O_CLOEXEC, 0666);
    while (fd < 0 && errno == EINTR);
    return fd;
}

static bool sync_again(int fd)
{
    int status;
    do
        status = fsync(fd);
    while (status != 0 && errno == EINTR);
    return status == 0;
}

/* Linux closes the descriptor even if a signal interrupts the call, so it is not repeated. */
static bool close_once(int fd)
{
    return close(fd) == 0 || errno == EINTR;
}

/* ---- Reading --------------------------------------------------------------------------------- */

int br__open_file(const char *op, const char *path, uint64_t *size)
{
    /* O_NONBLOCK keeps open() from waiting for a FIFO's writer. Regular files ignore it. */
    int fd = open_again(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        fail_errno(op, path, "cannot be opened");
        return -1;
    }
    struct stat st;
    bool ok = fstat(fd, &st) == 0 || fail_errno(op, path, "cannot be examined");
    if (ok && !S_ISREG(st.st_mode)) {
        br__fail_file(BR_ERROR_IO, op, path, "%s, not a regular file",
                      S_ISDIR(st.st_mode) ? "a directory" : "a device, pipe or socket");
        ok = false;
    }
    if (!ok) {
        close(fd);
        return -1;
    }
    *size = (uint64_t)st.st_size;
    return fd;
}

bool br__read_file(const char *op, const char *path, int fd, void *out, size_t n, uint64_t offset)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = pread(fd, (char *)out + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno(op, path, "cannot be read");
        if (got == 0) {
            br__fail_file(BR_ERROR_IO, op, path, "was truncated while it was being read");
            return false;
        }
        done += (size_t)got;
    }
    return true;
}

/* Opens a file; fails if it is larger than `limit` bytes. */
static int open_limited(const char *op, const char *path, uint64_t limit, uint64_t *size)
{
    int fd = br__open_file(op, path, size);
    if (fd < 0 || *size <= limit)
        return fd;
    br__fail_file(BR_ERROR_FORMAT, op, path,
                  "has %" PRIu64 " bytes, more than the limit of %" PRIu64, *size, limit);
    close(fd);
    return -1;
}

/* Returns true for the text that stands for a large file in a Git repository. */
static bool is_pointer(const char *text)
{
    static const char begin[] = "version https://git-lfs.github.com/spec/";
    return strncmp(text, begin, strlen(begin)) == 0;
}

char *br__read_text(const char *op, const char *path, uint64_t limit, size_t *length)
{
    if (!br__required(op, "path", path))
        return NULL;
    uint64_t size;
    int fd = open_limited(op, path, limit < PTRDIFF_MAX ? limit : PTRDIFF_MAX - 1, &size);
    if (fd < 0)
        return NULL;
    char *text = br_malloc((size_t)size + 1);
    bool ok = text && br__read_file(op, path, fd, text, (size_t)size, 0);
    close(fd);
    if (!ok) {
        br_free(text);
        return NULL;
    }
    text[size] = 0;
    *length = (size_t)size;
    if (!is_pointer(text))
        return text;
    br__fail_file(BR_ERROR_FORMAT, op, path,
                  "is a Git LFS pointer, not the file itself: 'git lfs pull' downloads it");
    br_free(text);
    return NULL;
}

/* ---- Replacing ------------------------------------------------------------------------------- */

/* Returns the length of the directory part of a path, including its slash. */
static size_t directory_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* Creates a file with a new, short name in the directory of r->path. */
static bool open_temporary(br_replacement *r)
{
    for (int attempt = 0; attempt < 100; attempt++) {
        uint64_t random = 0;
        if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
            break;
        br_free(r->temporary);
        r->temporary = br_format("%.*s.brasa-%016llx.tmp", (int)directory_length(r->path), r->path,
                                 (unsigned long long)random);
        if (!r->temporary)
            return false;
        r->fd = open_again(r->temporary, O_WRONLY | O_CREAT | O_EXCL);
        if (r->fd >= 0)
            return true;
        if (errno != EEXIST)
            break;
    }
    fail_errno(r->op, r->path, "cannot be written");
    br_free(r->temporary); /* not created by us, so it must not be unlinked */
    r->temporary = NULL;
    return false;
}

/* Opens the directory that br__replace_commit() syncs. It is opened early so that only disk errors
 * can fail at the end. */
static bool open_directory(br_replacement *r)
{
    size_t n = directory_length(r->path);
    char *name = n ? br_format("%.*s", (int)n, r->path) : br_strdup(".");
    if (name)
        r->directory = open_again(name, O_RDONLY | O_DIRECTORY);
    br_free(name);
    return name != NULL;
}

enum { NO_FILE = -1 };

/* Checks that r->path is a writable regular file or does not exist. Stores its permissions, or
 * NO_FILE. */
static bool examine(const br_replacement *r, mode_t *mode)
{
    struct stat st;
    *mode = (mode_t)NO_FILE;
    if (stat(r->path, &st) != 0)
        return errno == ENOENT || fail_errno(r->op, r->path, "cannot be examined");
    if (!S_ISREG(st.st_mode)) {
        br__fail_file(BR_ERROR_IO, r->op, r->path, "is not a regular file and cannot be replaced");
        return false;
    }
    *mode = st.st_mode & 0777;
    return access(r->path, W_OK) == 0 || fail_errno(r->op, r->path, "cannot be written");
}

/* Gives the new file the permissions of the one that it replaces. */
static bool set_mode(const br_replacement *r, mode_t mode)
{
    return mode == (mode_t)NO_FILE || fchmod(r->fd, mode) == 0 ||
           fail_errno(r->op, r->path, "cannot be written");
}

static void close_replacement(br_replacement *r)
{
    if (r->fd >= 0)
        close(r->fd);
    if (r->directory >= 0)
        close(r->directory);
    br_free(r->path);
    br_free(r->temporary);
    *r = (br_replacement){ .fd = -1, .directory = -1 };
}

typedef struct directory_maker {
    const char *op;
    bool (*note)(void *context, char *path);
    void *context;
} directory_maker;

/* Makes the directory of the first n bytes of a path, unless it exists. */
static bool make_one_directory(const directory_maker *m, const char *path, size_t n)
{
    char *part = br_format("%.*s", (int)n, path);
    struct stat st;
    if (!part)
        return false;
    bool made = mkdir(part, 0777) == 0;
    if (made && m->note)
        return m->note(m->context, part);
    const int error = errno;
    bool ok = made || (error == EEXIST && stat(part, &st) == 0 && S_ISDIR(st.st_mode));
    if (!ok) {
        errno = error == EEXIST ? ENOTDIR : error;
        br__fail_file(errno == ENOMEM ? BR_ERROR_MEMORY : BR_ERROR_IO, m->op, part,
                      "cannot create the directory: %s", strerror(errno));
    }
    br_free(part);
    return ok;
}

bool br__make_directory(const char *op, const char *path, bool (*note)(void *context, char *path),
                        void *context)
{
    const directory_maker maker = { op, note, context };
    struct stat st;
    if (br_failed())
        return false;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return true; /* its parents may be directories that we must not search */
    size_t n = 0;
    do {
        n += strspn(path + n, "/");
        n += strcspn(path + n, "/");
        if (!make_one_directory(&maker, path, n))
            return false;
    } while (path[n + strspn(path + n, "/")]);
    return true;
}

bool br__replace_begin(br_replacement *r, const char *op, const char *path)
{
    *r = (br_replacement){ .op = op, .fd = -1, .directory = -1 };
    if (br_failed())
        return false;
    /* Replaces the target of a symbolic link, not the link. */
    char resolved[PATH_MAX];
    mode_t mode;
    r->path = br_strdup(realpath(path, resolved) ? resolved : path);
    if (r->path && examine(r, &mode) && open_directory(r) && open_temporary(r) && set_mode(r, mode))
        return true;
    br__replace_abandon(r);
    return false;
}

bool br__replace_write(br_replacement *r, const void *data, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t written = write(r->fd, (const char *)data + done, n - done);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            fail_errno(r->op, r->path, "cannot be written");
            br__replace_abandon(r);
            return false;
        }
        done += (size_t)written;
    }
    return true;
}

/* Ignores file systems that cannot sync directories, and directories that could not be opened for
 * lack of read permission. */
static bool sync_directory(const br_replacement *r)
{
    return r->directory < 0 || sync_again(r->directory) || errno == EINVAL || errno == ENOTSUP ||
           fail_errno(r->op, r->path, "was written, but its directory cannot be synced");
}

bool br__replace_sync(br_replacement *r)
{
    if (sync_again(r->fd))
        return true;
    fail_errno(r->op, r->path, "cannot be synced");
    br__replace_abandon(r);
    return false;
}

bool br__replace_commit(br_replacement *r)
{
    if (!br__replace_sync(r))
        return false;
    bool ok = close_once(r->fd) || fail_errno(r->op, r->path, "cannot be closed");
    r->fd = -1;
    if (ok)
        ok = rename(r->temporary, r->path) == 0 ||
             fail_errno(r->op, r->path, "cannot be renamed to");
    if (!ok) {
        br__replace_abandon(r);
        return false;
    }
    ok = sync_directory(r);
    close_replacement(r);
    return ok;
}

void br__replace_abandon(br_replacement *r)
{
    if (r->temporary)
        unlink(r->temporary);
    close_replacement(r);
}
