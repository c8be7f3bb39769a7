/* common/file.c - files and directories. */
#include "common/file.h"

#include "common/text.h"
#include "io/io_internal.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

/* Doubles the buffer until the end of the file, because the size of a pipe is not known in
 * advance. */
static char *read_all(FILE *file, size_t *length)
{
    size_t capacity = 1 << 16, n = 0;
    char *text = malloc(capacity);
    while (text) {
        n += fread(text + n, 1, capacity - 1 - n, file);
        if (n < capacity - 1)
            break;
        char *more = realloc(text, capacity *= 2);
        if (!more)
            free(text);
        text = more;
    }
    if (text)
        text[n] = 0;
    *length = n;
    return text;
}

char *file_read(const char *path, size_t *length)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        br_raise(BR_ERROR_IO, "%s: cannot be opened: %s", path, strerror(errno));
        return NULL;
    }
    errno = 0;
    char *text = read_all(file, length);
    if (!text || ferror(file)) {
        br_raise(text ? BR_ERROR_IO : BR_ERROR_MEMORY, "%s: cannot be read: %s", path,
                 strerror(errno));
        free(text);
        text = NULL;
    }
    fclose(file);
    return text;
}

bool file_write(const char *folder, const char *name, const char *text)
{
    br_replacement file;
    char *path = text_format("%s/%s", folder, name);
    bool begun = path && br__replace_begin(&file, "write", path);
    bool ok = begun && br__replace_write(&file, text, strlen(text)) && br__replace_commit(&file);
    if (begun && !ok)
        br__replace_abandon(&file);
    free(path);
    return ok;
}

/* Returns the path of a file in `folder`, which is relative to the program's folder, so that a
 * build folder or an installed tree can be moved. */
static char *file_near_program(const char *folder, const char *name)
{
    char program[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0)
        return NULL;
    program[n] = 0;
    char *slash = strrchr(program, '/');
    return slash ? text_format("%.*s/%s/%s", (int)(slash - program), program, folder, name) : NULL;
}

char *file_find_data(const char *name)
{
    char *places[] = { text_format("data/%s", name), file_near_program("data", name),
                       file_near_program(BRASA_DATA_FROM_PROGRAM, name) };
    char *found = NULL;
    for (int i = 0; i < 3; i++)
        if (!found && places[i] && access(places[i], R_OK) == 0)
            found = places[i];
        else
            free(places[i]);
    if (!found)
        br_raise(
            BR_ERROR_IO,
            "cannot find data/%s below the working directory, in the build folder or among the "
            "installed files",
            name);
    return found;
}

char *file_pattern(const char *folder, const char *names)
{
    char *literal = malloc(2 * strlen(folder) + 1), *end = literal;
    if (!literal) {
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for a path");
        return NULL;
    }
    for (const char *p = folder; *p; p++) {
        if (strchr("*?[\\", *p))
            *end++ = '\\';
        *end++ = *p;
    }
    *end = 0;
    char *pattern = text_format("%s/%s", literal, names);
    free(literal);
    return pattern;
}

bool file_make_directory(const char *path)
{
    return br__make_directory("output", path, NULL, NULL);
}
