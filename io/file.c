/* io/file.c - opening files that may be anything, and replacing a file whole.
 *
 * A replacement is written under a name of its own in the directory of the file that it replaces,
 * synced, and renamed over it, so that whatever happens there is either the old file or the new
 * one. */
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

/* ---- Reading --------------------------------------------------------------------------------- */

int br__open_file(const char *op, const char *path, uint64_t *size)
{
    /* O_NONBLOCK: a FIFO without a writer must not hold us; it means nothing for regular files. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
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
            br__fail_file(BR_ERROR_IO, op, path, "became shorter while it was read");
            return false;
        }
        done += (size_t)got;
    }
    return true;
}

/* A file that is not too large, opened. */
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

char *br__read_text(const char *op, const char *path, uint64_t limit, size_t *length)
{
    if (!br__required(op, "path", path))
        return NULL;
    uint64_t size;
    int fd = open_limited(op, path, limit < PTRDIFF_MAX ? limit : PTRDIFF_MAX - 1, &size);
    if (fd < 0)
        return NULL;
    char *text = br__malloc((size_t)size + 1);
    bool ok = text && br__read_file(op, path, fd, text, (size_t)size, 0);
    close(fd);
    if (!ok) {
        br_free(text);
        return NULL;
    }
    text[size] = 0;
    *length = (size_t)size;
    return text;
}

/* ---- Replacing ------------------------------------------------------------------------------- */

/* The length of the directory part of a path, with its slash. */
static size_t directory_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* Opens a file of a new, short name in the directory of r->path. */
static bool open_temporary(br_replacement *r)
{
    for (int attempt = 0; attempt < 100; attempt++) {
        uint64_t random = 0;
        if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
            break;
        br_free(r->temporary);
        r->temporary = br__format("%.*s.brasa-%016llx.tmp", (int)directory_length(r->path), r->path,
                                  (unsigned long long)random);
        if (!r->temporary)
            return false;
        r->fd = open(r->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (r->fd >= 0)
            return true;
        if (errno != EEXIST)
            break;
    }
    fail_errno(r->op, r->path, "cannot be written");
    br_free(r->temporary); /* it is not ours */
    r->temporary = NULL;
    return false;
}

/* Opens the directory for the sync at the end, when nothing but the disk should fail any more. */
static bool open_directory(br_replacement *r)
{
    size_t n = directory_length(r->path);
    char *name = n ? br__format("%.*s", (int)n, r->path) : br__strdup(".");
    if (name)
        r->directory = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    br_free(name);
    return name != NULL;
}

/* An earlier file must be one that may be written; the new one gets its permissions. */
static bool take_mode(br_replacement *r)
{
    struct stat st;
    if (stat(r->path, &st) != 0)
        return errno == ENOENT || fail_errno(r->op, r->path, "cannot be examined");
    if (!S_ISREG(st.st_mode)) {
        br__fail_file(BR_ERROR_IO, r->op, r->path, "is not a regular file, and is not replaced");
        return false;
    }
    if (access(r->path, W_OK) != 0 || fchmod(r->fd, st.st_mode & 0777) != 0)
        return fail_errno(r->op, r->path, "cannot be written");
    return true;
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

bool br__replace_begin(br_replacement *r, const char *op, const char *path)
{
    *r = (br_replacement){ .op = op, .fd = -1, .directory = -1 };
    if (br_failed())
        return false;
    /* A symbolic link stays, what it points to is replaced. */
    char resolved[PATH_MAX];
    r->path = br__strdup(realpath(path, resolved) ? resolved : path);
    if (r->path && open_directory(r) && open_temporary(r) && take_mode(r))
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

/* Some file systems do not sync directories; a directory that may not be read cannot be opened. */
static bool sync_directory(const br_replacement *r)
{
    return r->directory < 0 || fsync(r->directory) == 0 || errno == EINVAL || errno == ENOTSUP ||
           fail_errno(r->op, r->path, "was written, but its directory cannot be synced");
}

bool br__replace_commit(br_replacement *r)
{
    bool ok = fsync(r->fd) == 0 || fail_errno(r->op, r->path, "cannot be synced");
    if (close(r->fd) != 0 && ok)
        ok = fail_errno(r->op, r->path, "cannot be closed");
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
