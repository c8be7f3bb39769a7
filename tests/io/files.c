/* tests/io/files.c - see files.h. */
#include "tests/io/files.h"

#include "tests/temporary.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[TEMPORARY_PATH];

/* Calls f, if not NULL, with the path of each entry except "." and ".."; returns their number. */
static int each_file(void (*f)(const char *path))
{
    DIR *dir = opendir(directory);
    cr_assert(dir);
    int count = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        count++;
        if (f)
            f(files_path(e->d_name));
    }
    closedir(dir);
    return count;
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *place)
{
    (void)st;
    (void)kind;
    (void)place;
    return remove(path);
}

/* Removes a file, or a directory with everything in it. */
static void remove_file(const char *path)
{
    nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

void files_begin(void)
{
    check_begin();
    cr_assert(temporary_folder("test", directory));
}

void files_end(void)
{
    each_file(remove_file);
    cr_assert_eq(rmdir(directory), 0);
    check_end();
}

const char *files_path(const char *name)
{
    static char paths[4][512];
    static int turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

int files_count(void)
{
    return each_file(NULL);
}

void files_write(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    cr_assert(f);
    cr_assert_eq(fwrite(data, 1, n, f), n);
    cr_assert_eq(fclose(f), 0);
}

const char *files_write_changed(const char *name, const char *text, const char *part,
                                const char *by)
{
    const char *path = files_path(name), *at = strstr(text, part);
    cr_assert(at, "%s", part);
    size_t size = strlen(text) + strlen(by) + 1;
    char *changed = malloc(size);
    int n = snprintf(changed, size, "%.*s%s%s", (int)(at - text), text, by, at + strlen(part));
    files_write(path, changed, (size_t)n);
    free(changed);
    return path;
}

char *files_read(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    cr_assert(f, "%s cannot be opened", path);
    struct stat st;
    cr_assert_eq(fstat(fileno(f), &st), 0);
    *n = (size_t)st.st_size;
    char *data = malloc(*n + 1);
    cr_assert_eq(fread(data, 1, *n, f), *n);
    data[*n] = 0;
    fclose(f);
    return data;
}

void files_write_safetensors(const char *path, const char *header, size_t n, size_t data_bytes)
{
    unsigned char *file = malloc(8 + n + data_bytes);
    for (int i = 0; i < 8; i++)
        file[i] = (unsigned char)((uint64_t)n >> 8 * i);
    memcpy(file + 8, header, n);
    for (size_t i = 0; i < data_bytes; i++)
        file[8 + n + i] = (unsigned char)i;
    files_write(path, file, 8 + n + data_bytes);
    free(file);
}
