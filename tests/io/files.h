/* tests/io/files.h - small files for the tests of io/, in a directory of the test's own. */
#ifndef BR_TESTS_IO_FILES_H
#define BR_TESTS_IO_FILES_H

#include "tests/support.h"

#include <brasa/io.h>

/* Fixtures: check_begin() and check_end() with a directory made and removed around them. */
void files_begin(void);
void files_end(void);
/* A path in the directory, in one of 4 rotating buffers. */
const char *files_path(const char *name);
/* Number of files in the directory, hidden ones included. */
int files_count(void);

void files_write(const char *path, const void *data, size_t n);
/* Writes a text with its first `part` replaced; the path in the directory. */
const char *files_write_changed(const char *name, const char *text, const char *part,
                                const char *by);
/* The file's bytes, of which *n is told; the caller frees them with free(). */
char *files_read(const char *path, size_t *n);
/* A safetensors file: the header's length, the header, then `data_bytes` bytes 0, 1, 2, ... */
void files_write_safetensors(const char *path, const char *header, size_t n, size_t data_bytes);

#endif
