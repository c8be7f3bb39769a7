/* cli/tensorboard.h - numbers of a training run as TensorBoard reads them: event files. */
#ifndef BRASA_CLI_TENSORBOARD_H
#define BRASA_CLI_TENSORBOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct event_file {
    FILE *file;
    char *path;
} event_file;

/* Begins a file events.out.tfevents.* in the folder. With `done` steps done before, what earlier
 * files have of later steps does not count; with none, earlier files are removed. False and an
 * error. */
bool event_file_open(event_file *self, const char *folder, int64_t done);
/* Adds the values of a step, and brings them to the file; one that is NaN is left out. */
bool event_file_add(event_file *self, int64_t step, int n, const char *const *tags,
                    const double *values);
void event_file_close(event_file *self);

/* CRC32C (Castagnoli), which guards the records of these files. */
uint32_t crc32c(const void *bytes, size_t n);

#endif
