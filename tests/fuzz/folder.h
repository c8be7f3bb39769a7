/* tests/fuzz/folder.h - a model folder whose files are in memory. */
#ifndef BR_TESTS_FUZZ_FOLDER_H
#define BR_TESTS_FUZZ_FOLDER_H

#include "tests/fuzz/fuzz.h"
#include "tests/temporary.h"

#include <errno.h>
#include <sys/stat.h>

enum { FOLDER_FILES = 8 };

typedef struct fuzz_folder {
    char path[TEMPORARY_PATH];
    int n, files[FOLDER_FILES];
    const char *names[FOLDER_FILES];
} fuzz_folder;

static inline fuzz_folder fuzz_folder_new(void)
{
    fuzz_folder f = { .n = 0 };
    require(temporary_folder("fuzz", f.path));
    return f;
}

/* Writes the path of a file, or of the folder in which it is if `parent`. */
static inline void fuzz_folder_path(const fuzz_folder *f, const char *name, bool parent,
                                    char path[100])
{
    snprintf(path, 100, "%s/%s", f->path, name);
    if (parent)
        *strrchr(path, '/') = 0;
}

/* Adds a file, whose name must stay valid and may contain a subfolder. Returns its
 * descriptor. */
static inline int fuzz_folder_add(fuzz_folder *f, const char *name, const void *bytes, size_t n)
{
    char memory[64], path[100];
    require(f->n < FOLDER_FILES);
    int fd = fuzz_file(bytes, n, memory);
    fuzz_folder_path(f, name, true, path);
    require(mkdir(path, 0700) == 0 || errno == EEXIST);
    fuzz_folder_path(f, name, false, path);
    require(symlink(memory, path) == 0);
    f->names[f->n] = name;
    return f->files[f->n++] = fd;
}

static inline void fuzz_folder_free(fuzz_folder *f)
{
    for (int i = 0; i < f->n; i++) {
        char path[100];
        fuzz_folder_path(f, f->names[i], false, path);
        require(unlink(path) == 0);
        close(f->files[i]);
        fuzz_folder_path(f, f->names[i], true, path);
        rmdir(path); /* fails unless it was the last file there */
    }
    rmdir(f->path);
    require(access(f->path, F_OK) != 0);
}

#endif
