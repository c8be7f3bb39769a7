/* tests/io/files.h - small files in a temporary directory, for the tests of io/. */
#ifndef BR_TESTS_IO_FILES_H
#define BR_TESTS_IO_FILES_H

#include "tests/support.h"

#include <brasa/io.h>

/* Fixtures: call check_begin() and check_end(), and create and remove the directory. */
void files_begin(void);
void files_end(void);
/* Returns a path in the directory, in one of 4 rotating buffers. */
const char *files_path(const char *name);
/* Returns the number of files in the directory, including hidden ones. */
int files_count(void);

void files_write(const char *path, const void *data, size_t n);
/* Writes a text with the first occurrence of `part` replaced; returns the path. */
const char *files_write_changed(const char *name, const char *text, const char *part,
                                const char *by);
/* Returns the file's bytes and stores their number in *n; the caller frees them with free(). */
char *files_read(const char *path, size_t *n);
/* Writes a safetensors file: the header's length, the header, then `data_bytes` bytes 0, 1, 2, ...
 */
void files_write_safetensors(const char *path, const char *header, size_t n, size_t data_bytes);

#endif
