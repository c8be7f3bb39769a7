/* common/file.h - files and directories. */
#ifndef BRASA_COMMON_FILE_H
#define BRASA_COMMON_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* Reads a whole file and appends a NUL. The caller frees the result. Returns NULL with an error on
 * failure. */
char *file_read(const char *path, size_t *length);
/* Returns the path of one of Brasa's data files: data/NAME below the working directory, or below
 * the build folder that contains the program, or the installed file. The caller frees it. Returns
 * NULL with an error if none exists. */
char *file_find_data(const char *name);
/* Returns a pattern for glob() that matches the files NAMES in a folder, whose own name is taken
 * literally. The caller frees it. Returns NULL with an error on failure. */
char *file_pattern(const char *folder, const char *names);
/* Replaces the file NAME in a folder by one with this text, completely or not at all; returns false
 * with an error on failure. */
bool file_write(const char *folder, const char *name, const char *text);
/* Creates a directory and its parents; returns false with an error on failure. */
bool file_make_directory(const char *path);

#endif
