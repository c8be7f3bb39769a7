/* train/tensorboard.h - writes the values of a training run to event files for TensorBoard. */
#ifndef BRASA_TRAIN_TENSORBOARD_H
#define BRASA_TRAIN_TENSORBOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct event_file {
    FILE *file;
    char *path;
} event_file;

/* Creates a file events.out.tfevents.* in the folder. If `done` steps were done before, TensorBoard
 * discards the later steps of earlier files; if `done` is 0, earlier files are deleted. Returns
 * false with an error on failure. */
bool event_file_open(event_file *self, const char *folder, int64_t done);
/* Writes the values of a step and flushes the file; NaN values are skipped. */
bool event_file_add(event_file *self, int64_t step, int n, const char *const *tags,
                    const double *values);
void event_file_close(event_file *self);

/* Returns the CRC32C (Castagnoli) of n bytes, the checksum of the records. */
uint32_t crc32c(const void *bytes, size_t n);

#endif
