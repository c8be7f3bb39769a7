/* pretrained/folder_writer.c - writes the files of a folder so that they replace the old ones
 * together.
 *
 * Every file is written to a temporary file and synced before the first is renamed, so that a full
 * disk or a failed allocation leaves the old files. Each file is replaced whole. */
#include "pretrained/auto_model_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool fail_errno(const br_folder_writer *w, const char *path, const char *what)
{
    br__fail_file(errno == ENOMEM ? BR_ERROR_MEMORY : BR_ERROR_IO, w->op, path, "%s: %s", what,
                  strerror(errno));
    return false;
}

/* ---- Directories ----------------------------------------------------------------------------- */

/* Adds a directory that was made, and takes ownership of `path`. */
static bool note_made(void *writer, char *path)
{
    br_folder_writer *w = writer;
    char **made = br__grow(w->made, &w->made_capacity, w->n_made, sizeof *made);
    if (!made) {
        rmdir(path);
        br_free(path);
        return false;
    }
    w->made = made;
    made[w->n_made++] = path;
    return true;
}

bool br__writer_begin(br_folder_writer *w, const char *op, const char *dir)
{
    *w = (br_folder_writer){ .op = op, .dir = dir };
    return br__make_directory(op, dir, note_made, w);
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* Returns room for a replacement, which counts when the caller increments w->n_files. */
static br_replacement *next_file(br_folder_writer *w)
{
    br_replacement *files = br__grow(w->files, &w->file_capacity, w->n_files, sizeof *files);
    if (!files)
        return NULL;
    w->files = files;
    return &files[w->n_files];
}

bool br__writer_add_text(br_folder_writer *w, const char *name, const char *text)
{
    br_replacement *file = next_file(w);
    char *path = file ? br_format("%s/%s", w->dir, name) : NULL;
    bool ok =
        path && br__replace_begin(file, w->op, path) && br__replace_write(file, text, strlen(text));
    w->n_files += ok;
    br_free(path);
    return ok;
}

bool br__writer_add_weights(br_folder_writer *w, const char *name, const br_named_list *weights)
{
    static const br_metadata format = { "format", "pt" }; /* transformers requires it */
    br_replacement *file = next_file(w);
    char *path = file ? br_format("%s/%s", w->dir, name) : NULL;
    bool ok = path && br__safetensors_write(file, path, weights, 1, &format);
    w->n_files += ok;
    br_free(path);
    return ok;
}

/* ---- Copies ---------------------------------------------------------------------------------- */

static bool copy_bytes(br_folder_writer *w, br_replacement *file, const char *source)
{
    enum { PART = 1 << 16 };
    uint64_t size = 0;
    int fd = br__open_file(w->op, source, &size);
    char *part = fd >= 0 ? br_malloc(PART) : NULL;
    bool ok = part != NULL;
    for (uint64_t done = 0; ok && done < size; done += PART) {
        size_t n = size - done < PART ? (size_t)(size - done) : PART;
        ok = br__read_file(w->op, source, fd, part, n, done) && br__replace_write(file, part, n);
    }
    br_free(part);
    if (fd >= 0)
        close(fd);
    return ok;
}

/* Adds a copy, unless the target is the source itself. */
static bool add_copy(br_folder_writer *w, const char *source, const char *target)
{
    struct stat a, b;
    if (stat(source, &a) == 0 && stat(target, &b) == 0 && a.st_dev == b.st_dev &&
        a.st_ino == b.st_ino)
        return true;
    br_replacement *file = next_file(w);
    if (!file || !br__replace_begin(file, w->op, target))
        return false;
    if (!copy_bytes(w, file, source)) {
        br__replace_abandon(file);
        return false;
    }
    w->n_files++;
    return true;
}

static bool matches(const char *name, const char *const *patterns)
{
    for (; *patterns; patterns++)
        if (fnmatch(*patterns, name, FNM_PERIOD) == 0)
            return true;
    return false;
}

/* Adds a copy of the entry of a folder, if it is not a directory. */
static bool copy_entry(br_folder_writer *w, const char *source, const char *target,
                       const char *name)
{
    char *from = br_format("%s/%s", source, name), *to = br_format("%s/%s", target, name);
    struct stat st;
    bool is_folder = from && stat(from, &st) == 0 && S_ISDIR(st.st_mode);
    bool ok =
        from && to &&
        (is_folder || (br__make_directory(w->op, target, note_made, w) && add_copy(w, from, to)));
    br_free(from);
    br_free(to);
    return ok;
}

static bool copy_entries(br_folder_writer *w, const char *source, const char *target,
                         const char *const *patterns)
{
    DIR *dir = opendir(source);
    if (!dir)
        return errno == ENOENT || fail_errno(w, source, "cannot be opened");
    bool ok = true;
    for (struct dirent *e; ok && (e = readdir(dir));)
        ok = !matches(e->d_name, patterns) || copy_entry(w, source, target, e->d_name);
    closedir(dir);
    return ok;
}

bool br__writer_add_copies(br_folder_writer *w, const char *from, const char *sub,
                           const char *const *patterns)
{
    const char *slash = *sub ? "/" : "";
    char *source = br_format("%s%s%s", from, slash, sub);
    char *target = br_format("%s%s%s", w->dir, slash, sub);
    bool ok = source && target && copy_entries(w, source, target, patterns);
    br_free(source);
    br_free(target);
    return ok;
}

/* ---- The end --------------------------------------------------------------------------------- */

bool br__writer_commit(br_folder_writer *w)
{
    for (int64_t i = 0; i < w->n_files; i++)
        if (!br__replace_sync(&w->files[i]))
            return false;
    for (int64_t i = 0; i < w->n_files; i++)
        if (!br__replace_commit(&w->files[i]))
            return false;
    return true;
}

void br__writer_end(br_folder_writer *w)
{
    for (int64_t i = 0; i < w->n_files; i++)
        br__replace_abandon(&w->files[i]);
    for (int64_t i = w->n_made - 1; i >= 0; i--) {
        rmdir(w->made[i]); /* fails if it has files: the folder was written */
        br_free(w->made[i]);
    }
    br_free(w->made);
    br_free(w->files);
    *w = (br_folder_writer){ 0 };
}
