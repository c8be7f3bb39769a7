/* train/train_log.h - the log of a training run, one JSON object per line, and its plots. */
#ifndef BRASA_TRAIN_TRAIN_LOG_H
#define BRASA_TRAIN_TRAIN_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { LOG_MAX_VALUES = 8 };

typedef struct train_log {
    FILE *file;
    const char *path;
    int n_names, n_losses; /* every line has the first n_losses; the others may be missing */
    const char *names[LOG_MAX_VALUES]; /* names of a line's values, between `step` and `seconds` */
    int64_t count, capacity;
    double *steps, *values[LOG_MAX_VALUES]; /* the log's values by line; NaN: missing */
} train_log;

/* Opens the log to append lines. Keeps the lines of an earlier log up to step `keep_steps`, and
 * truncates it there or at the first invalid line. Set n_names, n_losses, names and path before the
 * call. Returns false with an error on failure. */
bool train_log_open(train_log *log, int64_t keep_steps);
/* Appends a line and flushes the file; NaN values are omitted. */
bool train_log_add(train_log *log, int64_t step, const double *values, double seconds);
/* Returns how many times a value was logged after its first minimum; 0 if it was never logged. */
int64_t train_log_since_minimum(const train_log *log, int value);
/* Plots values [first, end), of which there is at least one, against the steps. Each quantity has a
 * panel with a y axis of its own; that of losses is logarithmic. */
bool train_log_plot(const train_log *log, const char *path, const char *title, int first, int end);
void train_log_close(train_log *log);

#endif
